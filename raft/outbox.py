"""Messages that wait for a write, in one place that driver and exhaustive search share (rules P1, P3, P13)."""

from collections import deque

import attrs

from raft.effects import Send
from raft.messages import AppendAccepted
from raft.model import NO_WRITE, Term, WriteId


@attrs.define
class Outbox:
    """Holds each `Send` until the write it depends on is durable.

    Writes become durable in the order of their ids, but a message may depend on an earlier write than the one held
    before it; so each message is released by its own write.
    """

    durable: WriteId = NO_WRITE
    _held: deque[Send] = attrs.field(factory=deque)

    def hold(self, send: Send) -> bool:
        """Hold `send` if its write is not durable yet. Returns whether it is held; if not, it may be sent now."""
        if send.after <= self.durable:
            return False
        if isinstance(send.message, AppendAccepted):
            self._drop_what_says_less(send, send.message)
        self._held.append(send)
        return True

    def _drop_what_says_less(self, send: Send, reply: AppendAccepted) -> None:
        """Every heartbeat is answered: while a disk hangs, only the last answer for each write is worth memory."""
        for index, held in enumerate(self._held):
            older = held.message
            if (
                held.after == send.after
                and held.to == send.to
                and isinstance(older, AppendAccepted)
                and older.term == reply.term
                and older.round <= reply.round
                and older.match_index <= reply.match_index
                and older.verified_index <= reply.verified_index
            ):
                del self._held[index]
                return

    def release(self, durable: WriteId, term: Term) -> list[Send]:
        """Returns the messages that may be sent now that every write up to `durable` is durable.

        A message of an older term than the node's present one is dropped, as its log may be overwritten.
        """
        self.durable = max(self.durable, durable)
        ready: list[Send] = []
        kept: deque[Send] = deque()
        for send in self._held:
            if send.after > self.durable:
                kept.append(send)
            elif send.message.term >= term:
                ready.append(send)
        self._held = kept
        return ready
