"""The messages between peers: one frozen class a message. Paper names where the paper has one.

Every message carries the sender's term. A reply echoes the `round` of the request it answers, so that a leader can
tell which of its heartbeats has been seen (dissertation section 6.4); 0, if the request came from an older term. A reply that may be counted names
the sender's directory (`directory_id` of `raft.membership`): 0, unless it has lost one or has joined.
"""

from log.values import frozen
from raft.model import Entry, LogIndex, LogStart, Term


@frozen
class RequestPreVote:
    """Asks whether the receiver would grant a vote in `term`.

    Changes nothing at the receiver (dissertation section 9.6).
    """

    term: Term
    last_index: LogIndex
    last_term: Term


@frozen
class PreVoteReply:
    """`term` is the requested term if granted, and the receiver's own if refused: a candidate learns a newer one."""

    term: Term
    granted: bool
    directory_id: int = 0


@frozen
class RequestVote:
    """Paper section 5.2: a candidate asks for one vote in `term`.

    If `is_transfer`, the leader has asked it to: no node refuses for that leader's sake (dissertation section 3.10).
    """

    term: Term
    last_index: LogIndex
    last_term: Term
    is_transfer: bool = False


@frozen
class VoteReply:
    """The answer to `RequestVote`; a granted one leaves only after the vote is durable."""

    term: Term
    granted: bool
    directory_id: int = 0


@frozen
class AppendEntries:
    """Paper section 5.3: entries that follow `prev_index`; without entries it is a heartbeat.

    `commit_index` is the leader's; the receiver clamps it to what this message proved to match.
    """

    term: Term
    prev_index: LogIndex
    prev_term: Term
    commit_index: LogIndex
    round: int
    entries: tuple[Entry, ...] = ()

    @property
    def last_index(self) -> LogIndex:
        """The index of the last entry of this message, or `prev_index` without entries."""
        return LogIndex(self.prev_index + len(self.entries))


@frozen
class AppendAccepted:
    """The receiver's log equals the leader's up to `match_index`, durably, as messages of this leader have proved.

    `verified_index` is how far the receiver's log is known to equal the leader's, durable or not: when it stays behind
    what was sent before, a message was lost.
    """

    term: Term
    match_index: LogIndex
    verified_index: LogIndex
    round: int
    directory_id: int = 0


@frozen
class AppendRejected:
    """The request was refused: stale term, or no entry (`prev_index`, `prev_term`) here.

    The hint is the receiver's last position that could still match (largest index not above `prev_index` with a term
    not above `prev_term`), so that a divergent tail costs one round trip a term, not one an entry.
    """

    term: Term
    prev_index: LogIndex
    hint_index: LogIndex
    hint_term: Term
    round: int
    directory_id: int = 0


@frozen
class InstallSnapshot:
    """Paper section 7: the leader no longer has entries that this follower lacks, so the follower is reset to its
    snapshot and log start.

    Unlike the paper's, `start` is where the leader's log begins, not how far its state machine is: what the log still
    holds follows entry by entry, for the entries are what a queue keeps.

    As in the paper (figure 13) a snapshot travels in parts: `start.snapshot` is the part that begins at `offset`, and
    `bytes_left` of the snapshot are behind it. One part is on its way at a time, and each but the last is answered with
    `SnapshotReceived`; the last one as an AppendEntries that ends where the log begins.

    `configuration` is the last that the leader knows to be committed, with its place (`raft.membership`); empty if that
    is the one with which the group began. Its entry may lie behind `start`: what is committed may be known early.
    """

    term: Term
    start: LogStart
    round: int
    offset: int = 0
    bytes_left: int = 0
    configuration: bytes = b""

    @property
    def total(self) -> int:
        """Bytes of the whole snapshot."""
        return self.offset + len(self.start.snapshot) + self.bytes_left


@frozen
class SnapshotReceived:
    """Of the leader's snapshot for a log that begins after `start_index`, the first `received` bytes have arrived.

    They are in memory only, so a receiver that restarts answers the next part with 0.
    """

    term: Term
    start_index: LogIndex
    received: int
    round: int
    directory_id: int = 0


@frozen
class TimeoutNow:
    """Dissertation section 3.10: the leader hands over to the receiver, which campaigns at once."""

    term: Term


@frozen
class RequestStanding:
    """A node that remembers nothing asks for a standing (`raft.recall`); each of its starts draws a `question`."""

    term: Term
    question: int


@frozen
class StandingReply:
    """The sender's term, and where its log ends: all of it durable. Term 0: it is blank, too.

    It answers `question`. A blank sender `was_member` if it knows that it had a past. `has_changed`: the group has, or may
    have, other members than those that it began with.
    """

    term: Term
    question: int
    last_index: LogIndex
    last_term: Term
    was_member: bool = False
    has_changed: bool = False


Message = (
    RequestPreVote
    | PreVoteReply
    | RequestVote
    | VoteReply
    | AppendEntries
    | AppendAccepted
    | AppendRejected
    | InstallSnapshot
    | SnapshotReceived
    | TimeoutNow
    | RequestStanding
    | StandingReply
)
