"""A leader's knowledge of one follower's log, and the bound of messages in flight to it."""

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

    A probe, or its answer, was lost if an answer to a later round than `probe_round` comes before it. Older answers
    prove nothing: if each of them caused another probe, each late answer would cause the next one, without end.

    `acked_round` is the newest round it has answered, `accepted_round` the newest it has not refused.

    While *installing*, the last probe sent was a part of a snapshot, from `snapshot_offset` on. When the follower has
    received it the next one is sent; else the same one again, not before `install_due`, because repeating it often does
    not help a follower whose disk is full. The offset is kept when a connection breaks, because the follower may still
    have the parts before it.

    `directory_id` is that of the directory which it has named, at first that of the configuration.

    Invariant: `match_index < next_index`; nothing is in flight while probing.
    """

    next_index: LogIndex
    contact_at: float
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
    directory_id: int = 0
    inflight: deque[Inflight] = attrs.field(factory=deque)
    inflight_bytes: int = 0

    def lacks_only(self, index: LogIndex) -> bool:
        """Returns whether the entry at `index` is all that is left to send, and no probe is needed first."""
        return self.next_index == index and not (self.probing or self.loading)

    def has_room(self, messages_max: int, bytes_max: int) -> bool:
        """Returns whether another pipelined message may be sent."""
        return len(self.inflight) < messages_max and self.inflight_bytes < bytes_max

    def note_sent(self, last_index: LogIndex, size: int, sent_round: int) -> None:
        """A pipelined message was sent."""
        self.inflight.append(Inflight(last_index, size, sent_round))
        self.inflight_bytes += size
        self.next_index = LogIndex(last_index + 1)

    def note_accepted(self, match_index: LogIndex) -> bool:
        """The follower holds everything up to `match_index`. Returns whether the match index has moved up."""
        while self.inflight and self.inflight[0].last_index <= match_index:
            self.inflight_bytes -= self.inflight.popleft().size
        if self.probing and match_index >= self.next_index - 1:
            self.probing = False
        self.next_index = max(self.next_index, LogIndex(match_index + 1))
        if match_index <= self.match_index:
            return False
        self.match_index = match_index
        return True

    def note_probed(self, sent_round: int, *, installing: bool) -> None:
        """A probe was sent."""
        self.installing = installing
        self.probe_sent = True
        self.probe_round = sent_round

    def snapshot_received(self, start_index: LogIndex, received: int) -> None:
        """The follower has so many bytes of the snapshot for a log that begins behind `start_index`.

        If it has more than before, the next part is due. Otherwise an answer was late, which changes nothing, or the
        follower has restarted; then the part that it lacks is sent when the last one counts as lost. If it were sent at
        once, each duplicated answer would duplicate every part after it.
        """
        if received > self.snapshot_offset:
            self.install_due = -math.inf
            self.probe_from(start_index)
        self.snapshot_offset = received

    def lost_before(self, answered_round: int, verified_index: LogIndex) -> bool:
        """Returns whether an answer to a later round shows that a message sent before it never arrived."""
        return bool(self.inflight) and (
            answered_round > self.inflight[0].round and verified_index < self.inflight[0].last_index
        )

    def probe_from(self, next_index: LogIndex) -> None:
        """Probe again for the place where the logs agree, beginning just before `next_index`."""
        self.probing = True
        self.probe_sent = False
        self.inflight.clear()
        self.inflight_bytes = 0
        self.next_index = max(next_index, LogIndex(self.match_index + 1))

    def reset(self, next_index: LogIndex) -> None:
        """Forget what was proven, because the follower may have restarted with a shorter log."""
        self.match_index = NO_INDEX
        self.install_due = -math.inf
        self.probe_from(next_index)
