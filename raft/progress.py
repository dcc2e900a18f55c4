"""How far one follower is, in the eyes of its leader, and how much may be on its way to it."""

import math
from collections import deque

import attrs

from log.values import frozen
from raft.model import NO_INDEX, LogIndex


@frozen
class Inflight:
    """One AppendEntries on its way."""

    last_index: LogIndex
    size: int
    round: int


@attrs.define
class Progress:
    """`match_index` is proven to be durable there; `next_index` is what to send next.

    While *probing*, the leader does not know where the logs agree: one message at a time. Once an answer has proved it,
    the leader *pipelines*: it sends on without waiting, within a window of messages and bytes.

    A probe, or its answer, was lost if an answer to a later round than `probe_round` comes before it. Older answers say nothing of
    it: were each taken for a reason to ask again, every answer that is late would be answered by a question, and so on for ever.

    `acked_round` is the newest round it has answered, `accepted_round` the newest it has not refused.

    While *installing*, what was sent last to ask is a part of a snapshot, from `snapshot_offset` on. When the follower has it the next
    one leaves; else the same one again, at `install_due` at the earliest: a follower that cannot take it now, for want of room on
    its disk, is not helped by ten a second. The offset outlives broken connections: the follower may still have what came before.

    Invariant: `match_index < next_index`; nothing is in flight while probing.
    """

    next_index: LogIndex
    heard_at: float
    match_index: LogIndex = NO_INDEX
    probing: bool = True
    probe_sent: bool = False
    probe_round: int = 0
    installing: bool = False
    install_due: float = -math.inf
    snapshot_offset: int = 0
    loading: bool = False
    acked_round: int = 0
    accepted_round: int = 0
    inflight: deque[Inflight] = attrs.field(factory=deque)
    inflight_bytes: int = 0

    def lacks_only(self, index: LogIndex) -> bool:
        """Whether the entry at `index` is all that is left to be sent to it, and can be sent without a question."""
        return self.next_index == index and not (self.probing or self.loading)

    def has_room(self, messages_max: int, bytes_max: int) -> bool:
        """Whether another pipelined message may leave."""
        return len(self.inflight) < messages_max and self.inflight_bytes < bytes_max

    def sent(self, last_index: LogIndex, size: int, sent_round: int) -> None:
        """A pipelined message left."""
        self.inflight.append(Inflight(last_index, size, sent_round))
        self.inflight_bytes += size
        self.next_index = LogIndex(last_index + 1)

    def accepted(self, match_index: LogIndex) -> bool:
        """The follower holds everything up to `match_index`; true if that is news."""
        while self.inflight and self.inflight[0].last_index <= match_index:
            self.inflight_bytes -= self.inflight.popleft().size
        if self.probing and match_index >= self.next_index - 1:
            self.probing = False
        self.next_index = max(self.next_index, LogIndex(match_index + 1))
        if match_index <= self.match_index:
            return False
        self.match_index = match_index
        return True

    def probed(self, sent_round: int, *, installing: bool) -> None:
        """A probe left."""
        self.installing = installing
        self.probe_sent = True
        self.probe_round = sent_round

    def snapshot_received(self, start_index: LogIndex, received: int) -> None:
        """The follower has so many bytes of the snapshot for a log that begins behind `start_index`.

        More than before: the next part is due. Otherwise an answer was late, which changes nothing, or the follower has restarted;
        then the part that it lacks leaves when the last is found lost. Were it sent at once, each answer that comes twice would
        bring each part behind it twice.
        """
        if received > self.snapshot_offset:
            self.install_due = -math.inf
            self.probe_from(start_index)
        self.snapshot_offset = received

    def lost_before(self, answered_round: int, verified_index: LogIndex) -> bool:
        """Whether an answer to a later round shows that a message sent before it never arrived."""
        return bool(self.inflight) and (
            answered_round > self.inflight[0].round and verified_index < self.inflight[0].last_index
        )

    def probe_from(self, next_index: LogIndex) -> None:
        """Find out anew where the logs agree, beginning just before `next_index`."""
        self.probing = True
        self.probe_sent = False
        self.inflight.clear()
        self.inflight_bytes = 0
        self.next_index = max(next_index, LogIndex(self.match_index + 1))

    def reset(self, next_index: LogIndex) -> None:
        """Forget what was proven: the follower may come back, or has come back, as another incarnation of itself."""
        self.match_index = NO_INDEX
        self.install_due = -math.inf
        self.probe_from(next_index)
