"""Linearizable reads without a log entry: ReadIndex (dissertation section 6.4, rule P12).

A read may be answered from the state at the leader's commit index of the moment it arrived, once a majority has
acknowledged a heartbeat sent *after* it arrived: then no newer leader can have committed anything before the read
began. Reads that arrive while a round is under way wait for the next one, so any number of reads costs one round.
"""

import attrs

from raft.model import LogIndex, Token


@attrs.frozen
class ReadRound:
    """Reads that wait for a majority to acknowledge `round`."""

    round: int
    read_index: LogIndex
    tokens: tuple[Token, ...]


@attrs.define
class ReadQueue:
    """The reads of one leader in one term."""

    waiting: list[Token] = attrs.field(factory=list)
    under_way: ReadRound | None = None

    def add(self, token: Token) -> None:
        """A read arrived; it joins the next round to begin."""
        self.waiting.append(token)

    def can_begin(self) -> bool:
        """Returns whether reads wait and no round is under way."""
        return bool(self.waiting) and self.under_way is None

    def begin(self, new_round: int, read_index: LogIndex) -> None:
        """All waiting reads join `new_round`, whose heartbeats are sent now."""
        self.under_way = ReadRound(new_round, read_index, tuple(self.waiting))
        self.waiting.clear()

    def confirm(self, acked_round: int) -> ReadRound | None:
        """A majority has acknowledged `acked_round`. Returns the round of reads that this completes, or None."""
        done = self.under_way
        if done is None or acked_round < done.round:
            return None
        self.under_way = None
        return done

    def drain(self) -> tuple[Token, ...]:
        """Returns every read not yet answered, when the leadership ends."""
        tokens = (self.under_way.tokens if self.under_way is not None else ()) + tuple(self.waiting)
        self.waiting.clear()
        self.under_way = None
        return tokens
