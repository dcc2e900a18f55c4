"""The roles of a node, each with what it alone has to know, and what waits within them."""

from collections import deque
from typing import ClassVar

import attrs

from log.values import frozen
from raft.effects import RoleName
from raft.model import NO_INDEX, LogIndex, NodeId, Offset, Token, WriteId
from raft.progress import Progress
from raft.quorum import majority, reached_by_majority
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


@attrs.frozen
class Group:
    """Voters of which a majority is needed, as a leader counts them: what `others` have, and its own if it is one.

    `silent` voters have nothing that counts: their directory is another one than the group has made a voter.
    """

    others: tuple[Progress, ...]
    has_self: bool
    silent: int

    def count(self, values: list[int], own: int) -> int:
        """Returns the largest value that a majority has reached; `values` are those of the others, `own` is the leader's."""
        if self.has_self:
            values.append(own)
        if self.silent:
            values += [0] * self.silent
        return reached_by_majority(values)

    def is_in_contact(self, since: float) -> bool:
        """Returns True if a majority has answered since then."""
        heard = self.has_self + sum([progress.contact_at >= since for progress in self.others])
        return heard >= majority(self.has_self + len(self.others) + self.silent)


@attrs.define
class Transfer:
    """An attempt to hand over to `target` until the time `until`; `was_sent` once it has been asked to campaign."""

    token: Token
    target: NodeId
    until: float
    was_sent: bool = False


@attrs.define
class Leader:
    """Replicates its log.

    `first_index` is the index of the no-op entry with which its term began; `was_spared` is true if the next check of
    its quorum was put off, because the node itself had stood still. `groups` are those of the configuration in force.
    `joint_token` waits for the end of a joint configuration.
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
    groups: tuple[Group, ...] = ()
    transfer: Transfer | None = None
    joint_token: Token | None = None

    def count_copies(self, own: int) -> int:
        """Returns the index that a majority of each group has durably; `own` is that of this leader."""
        groups = self.groups
        if len(groups) == 1:
            return groups[0].count([each.match_index for each in groups[0].others], own)
        return min([group.count([each.match_index for each in group.others], own) for group in groups])

    def confirmed_round(self) -> int:
        """Returns the newest round in which a majority of each group still took this node for its leader."""
        return min([group.count([each.acked_round for each in group.others], self.round) for group in self.groups])

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
