"""The errors that calls of the library raise, by whose fault it is and whether the operation has happened.

`definite` maps straight to an outcome: a definite error means the operation has certainly not taken effect; otherwise
it may have, or still may. Built with attrs so that every error pickles.
"""

from typing import ClassVar

import attrs

from raft.net.errors import EndsProcess, WireError


class RaftError(Exception):
    """Root of everything this package raises on purpose; a broken invariant is an `AssertionError` instead."""

    definite: ClassVar[bool] = True


@attrs.define
class NotLeader(RaftError):
    """Ask another node; `leader` is its id when known, `address` where clients reach it."""

    leader: int | None = None
    address: str | None = None

    def __str__(self) -> str:
        where = f"node {self.leader}" if self.leader is not None else "no leader is known yet; try again shortly"
        return (
            f"this node does not lead; ask {where}" if self.leader is not None else f"this node does not lead; {where}"
        )


@attrs.define
class Busy(RaftError):
    """Too much waits for commit; nothing was appended. Slow down and try again."""

    detail: str = "too many bytes wait for commit"

    def __str__(self) -> str:
        return f"refused, nothing was appended: {self.detail}; try again later"


@attrs.define
class StorageFull(RaftError):
    """The disk is full; nothing was appended."""

    detail: str = "no space left on the log's disk"

    def __str__(self) -> str:
        return f"refused, nothing was appended: {self.detail}; free some space"


@attrs.define
class ShuttingDown(RaftError):
    """The node is shutting down and accepts no more requests; nothing was appended."""

    def __str__(self) -> str:
        return "refused, nothing was appended: the node is shutting down; ask another"


@attrs.define
class InvalidRequest(RaftError):
    """The request itself is wrong and will be refused every time."""

    detail: str

    def __str__(self) -> str:
        return f"invalid request: {self.detail}"


@attrs.define
class InvalidResult(RaftError):
    """The state machine returned what is no result; `detail` states whether the command is committed.

    Not definite: it may well be.

    That of a command is the same on every member, and the command stays committed and applied.
    """

    definite: ClassVar[bool] = False
    detail: str

    def __str__(self) -> str:
        return self.detail


@attrs.define
class RecordsTrimmed(RaftError):
    """The records at this offset have left the log because of its retention; those from `start_offset` on are there."""

    start_offset: int

    def __str__(self) -> str:
        return f"the records before offset {self.start_offset} have left the log; read from there"


@attrs.define
class WrongStateMachine(EndsProcess, RaftError):
    """Commands are gone from the log, and this state machine cannot begin with a snapshot in their place."""

    directory: str
    machine: str

    def __str__(self) -> str:
        return (
            f"the log in {self.directory} was trimmed, or those of its group were, so its state machine begins with a "
            f"snapshot: give {self.machine} `snapshot` and `restore` (raft.SnapshotMachine)"
        )


@attrs.define
class StateMachineFailed(EndsProcess, RaftError):
    """The state machine raised at a committed command, which every member applies: the group stops at this index."""

    definite: ClassVar[bool] = False
    index: int
    machine: str
    reason: str

    def __str__(self) -> str:
        return (
            f"{self.machine} failed at index {self.index} ({self.reason}), and this node stops there; start it with a state "
            "machine that takes the command"
        )


@attrs.define
class SnapshotDiverged(RaftError):
    """This node's snapshot has an entry that a power cut with `flush=interval|none` took from the group."""

    index: int
    term: int
    found_index: int
    found_term: int

    def __str__(self) -> str:
        return (
            f"the snapshot of this node holds entry {self.index} of term {self.term}, but the group has one of term "
            f"{self.found_term} at {self.found_index}: a power cut took what was applied before it was flushed"
        )


@attrs.define
class OutcomeUnknown(RaftError):
    """Leadership moved or the connection broke while the operation was in flight: it may have happened."""

    definite: ClassVar[bool] = False
    detail: str = "the outcome is not known"

    def __str__(self) -> str:
        return f"{self.detail}; it may still be committed: read before you repeat it"


@attrs.define
class NotAdmitted(RaftError):
    """The node serves only those who prove that they know the secret of its cluster; it has taken no request.

    It gives no other reason, because it may be answering a stranger.
    """

    def __str__(self) -> str:
        return "refused: this node wants the proof of its cluster's secret, with which members and clients are started"


@attrs.define
class NotAllowed(RaftError):
    """The role of this client does not reach so far; nothing was done."""

    detail: str

    @classmethod
    def of(cls, role: str, needed: str) -> "NotAllowed":
        """Returns the refusal of a request that needs another role."""
        made = f"quorumlog secret FILE --role {needed} --of CLUSTER-SECRET"
        return cls(f"the secret of a {role} does not suffice; connect with that of a {needed}, made by: {made}")

    def __str__(self) -> str:
        return f"refused, nothing was done: {self.detail}"


@attrs.define(str=False)
class ProtocolError(WireError, RaftError):
    """A peer or client sent an invalid message. Only its connection is closed."""

    @classmethod
    def of(cls, error: WireError) -> "ProtocolError":
        """Returns `error` as an error of this package, or `error` itself if it is one already."""
        return error if isinstance(error, cls) else cls(error.detail)
