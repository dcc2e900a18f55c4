"""The orders that come out of `RaftCore.step`, to be carried out in the order given."""

import enum

from log.values import frozen
from raft.membership import Configuration
from raft.messages import Message
from raft.model import NO_WRITE, Entry, HardState, LogIndex, LogStart, NodeId, Offset, Term, Token, WriteId


@frozen
class Persist:
    """Write this to the log and, once durable, answer with `Persisted(write_id)`.

    Entries replace whatever the log held from `entries[0].index` on. `hard_state` comes first in disk order, so that no
    entry of a term can be durable before the term itself (rule P2). Writes are durable in the order of their ids.

    A `start` replaces the whole log, which then is empty and begins there, and the state machine is restored from its
    snapshot; no entries come with it.
    """

    write_id: WriteId
    hard_state: HardState | None
    entries: tuple[Entry, ...]
    start: LogStart | None = None


@frozen
class Send:
    """Send a message; not before the write `after` is durable (rules P1, P3, P13)."""

    to: NodeId
    message: Message
    after: WriteId = NO_WRITE


@frozen
class LoadEntries:
    """Read entries from `first_index` on, about `bytes_max` and at least one; answer with `Loaded(peer, ...)`."""

    peer: NodeId
    first_index: LogIndex
    bytes_max: int


@frozen
class Commit:
    """Everything up to `commit_index` is committed: apply it in order, serve it to readers."""

    commit_index: LogIndex


@frozen
class Committed:
    """The entry is committed at this place, and stays so."""

    index: LogIndex
    term: Term
    base_offset: Offset


class Refusal(enum.Enum):
    """Why a request was refused. A refusal is definite: nothing was appended."""

    NOT_LEADER = "not_leader"
    BUSY = "busy"
    """Too many bytes wait for commit already, or the leader is about to hand over."""
    CHANGING = "changing"
    """Another change of the members is not committed yet, or nothing is in this leader's term: ask again."""
    LAGGING = "lagging"
    """The node to be promoted, or to lead, does not keep up with the log yet: ask again."""
    SILENT = "silent"
    """Too few of the voters that the change would leave have answered lately: ask again."""
    INVALID = "invalid"
    """The change does not fit the present members."""


@frozen
class Rejected:
    """Definitely not done; ask `leader_hint` instead, if it is known."""

    reason: Refusal
    leader_hint: NodeId | None
    detail: str = ""


@frozen
class Unknown:
    """Leadership moved while the entry was in flight: it may still be committed, now or later (rule P14)."""

    index: LogIndex
    leader_hint: NodeId | None


@frozen
class HandedOver:
    """A newer term has ended this leadership after its target was asked to campaign (dissertation section 3.10)."""

    target: NodeId


@frozen
class Answer:
    """The outcome of a `Propose`, a `ChangeMembers` or a `TransferLeadership`. Each token is answered exactly once."""

    token: Token
    outcome: Committed | Rejected | Unknown | HandedOver


@frozen
class ReadReady:
    """A read may be served once `read_index` is applied."""

    token: Token
    read_index: LogIndex


@frozen
class ReadRejected:
    """This node cannot promise a linearizable read (any more). A read has no effect, so this is definite."""

    token: Token
    leader_hint: NodeId | None


class RoleName(enum.Enum):
    """The four roles."""

    FOLLOWER = "follower"
    PRE_CANDIDATE = "pre_candidate"
    CANDIDATE = "candidate"
    LEADER = "leader"


@frozen
class RoleChanged:
    """News for people and logs: this node's role, term or known leader changed."""

    role: RoleName
    term: Term
    leader: NodeId | None


@frozen
class MembersChanged:
    """Another configuration is in force at this node, or is known to be committed now (`is_settled`).

    Links to all of its nodes are to be kept; those to others may end once it is settled.
    """

    configuration: Configuration
    is_settled: bool = False


Effect = Persist | Send | Answer | Commit | LoadEntries | ReadReady | ReadRejected | RoleChanged | MembersChanged
