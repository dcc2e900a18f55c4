"""The facts that go into `RaftCore.step`."""

from log.values import frozen
from raft.membership import Change
from raft.messages import Message
from raft.model import Batch, Entry, LogStart, NodeId, Token, WriteId


@frozen
class Receive:
    """A peer's message arrived."""

    sender: NodeId
    message: Message


@frozen
class Tick:
    """Time passed; due whenever `RaftCore.deadline` is reached, harmless at any other time."""


@frozen
class Propose:
    """Append one entry with this batch, if this node leads."""

    token: Token
    batch: Batch


@frozen
class ChangeMembers:
    """Change the members of the group, if this node leads."""

    token: Token
    change: Change


@frozen
class TransferLeadership:
    """Have `target` lead in place of this node; answered when this leadership has ended, or the attempt."""

    token: Token
    target: NodeId


@frozen
class ReadRequest:
    """A linearizable read was requested; answered with the index it must wait for (dissertation section 6.4)."""

    token: Token


@frozen
class Persisted:
    """Every write up to and including `write_id` is durable."""

    write_id: WriteId


@frozen
class Loaded:
    """The entries that `LoadEntries` asked for, from the log; empty if the log does not hold them any more."""

    peer: NodeId
    entries: tuple[Entry, ...]


@frozen
class Trimmed:
    """The oldest entries have left the log, all of them committed and durable here."""

    start: LogStart


@frozen
class Disconnected:
    """The connection from or to this peer broke. Messages in flight are lost; a dead leader is one cause."""

    peer: NodeId


@frozen
class StepDown:
    """Stop leading, for a reason outside the core (the disk is full); no effect on a node that does not lead.

    It stands for election `patience_s` later than otherwise, so that others come first.
    """

    patience_s: float = 0.0


@frozen
class Overslept:
    """This node itself stood still: a tick that is due comes late by more than a heartbeat. Given before that tick."""


Event = (
    Receive
    | Persisted
    | Propose
    | ChangeMembers
    | TransferLeadership
    | Tick
    | ReadRequest
    | Loaded
    | Trimmed
    | Disconnected
    | StepDown
    | Overslept
)
