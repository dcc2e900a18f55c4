"""The roles of a node, each with what it alone has to know, and what waits within them."""

from collections import deque
from typing import ClassVar

import attrs

from log.values import frozen
from raft.effects import RoleName
from raft.model import NO_INDEX, LogIndex, NodeId, Offset, Token, WriteId
from raft.progress import Progress
from raft.read_index import ReadQueue


@attrs.define
class Follower:
    """Waits for a message of the leader until `deadline`.

    `verified_index` is how far the log is known to equal that of the present term's leader. `was_spared`: its deadline
    was put off once since it last received from a leader, because the node itself had stood still.
    """

    name: ClassVar[RoleName] = RoleName.FOLLOWER
    deadline: float
    leader: NodeId | None = None
    verified_index: LogIndex = NO_INDEX
    was_spared: bool = False


@attrs.define
class PreCandidate:
    """Asks who would vote for it, without touching its term."""

    name: ClassVar[RoleName] = RoleName.PRE_CANDIDATE
    deadline: float
    granted: set[NodeId]


@attrs.define
class Candidate:
    """Asks for votes in its own new term; `vote_write` makes its own vote durable, and only then does that count."""

    name: ClassVar[RoleName] = RoleName.CANDIDATE
    deadline: float
    vote_write: WriteId
    granted: set[NodeId] = attrs.field(factory=set)


@frozen
class Pending:
    """A proposal that waits for commit."""

    index: LogIndex
    token: Token
    base_offset: Offset
    size: int


@attrs.define
class Leader:
    """Replicates its log.

    `first_index` is the index of the no-op entry with which its term began; `was_spared` is true if the next check of
    its quorum was put off, because the node itself had stood still.
    """

    name: ClassVar[RoleName] = RoleName.LEADER
    first_index: LogIndex
    heartbeat_due: float
    quorum_check_due: float
    progress: dict[NodeId, Progress]
    pending: deque[Pending] = attrs.field(factory=deque)
    pending_bytes: int = 0
    round: int = 0
    reads: ReadQueue = attrs.field(factory=ReadQueue)
    was_spared: bool = False

    @property
    def deadline(self) -> float:
        """The time at which the next tick is due if no other event comes first."""
        return min(self.heartbeat_due, self.quorum_check_due)


Role = Follower | PreCandidate | Candidate | Leader


@frozen
class PendingWrite:
    """A `Persist` not yet known to be durable; once it is, so is the log up to `last_index`."""

    write_id: WriteId
    last_index: LogIndex
