"""Notices of a node for the program that runs it: one frozen class a notice, in the order of the events.

They are for operators, logs and tests; no rule depends on them. `event_of` gives each the name and the fields that
`quorumlog node` prints. Commits and leadership reach a program by `raft.subscription` instead.
"""

from collections.abc import Callable
from typing import ClassVar

import attrs

from log.values import frozen
from raft.effects import MembersChanged, RoleChanged
from raft.model import LogIndex, NodeId, Offset, Position, Term
from raft.net.turns import Turn, TurnMeter


@frozen
class LinkUp:
    """This node's connection to a peer is greeted: messages to it leave from now on."""

    event: ClassVar[str] = "link_up"
    peer: NodeId


@frozen
class LinkDown:
    """This node's connection to a peer broke."""

    event: ClassVar[str] = "link_down"
    peer: NodeId
    reason: str


@frozen
class LinkRefused:
    """A peer was dialled and does not take the connection; given once as long as the reason stays the same."""

    event: ClassVar[str] = "link_refused"
    peer: NodeId
    reason: str


@frozen
class ConnectionClosed:
    """This node closed an incoming connection from `peer`, an address, which was greeted as `role`."""

    event: ClassVar[str] = "connection_closed"
    peer: str
    role: str
    reason: str


@frozen
class ConnectionRefused:
    """A new connection was closed before its first byte, for want of room."""

    event: ClassVar[str] = "connection_refused"
    peer: str
    reason: str


@frozen
class NoSpaceLeft:
    """Something was not written because there is no room: refused, or left for the leader to send again."""

    event: ClassVar[str] = "storage_full"
    detail: str


@frozen
class DiskStalled:
    """A flush has been under way for so long that this leader steps down."""

    event: ClassVar[str] = "disk_stalled"
    seconds: float


@frozen
class LogTrimmed:
    """The oldest entries have left the log, as its retention demands."""

    event: ClassVar[str] = "trimmed"
    start_index: LogIndex
    start_offset: Offset


@frozen
class SnapshotInstalled:
    """The log was reset to a snapshot of the leader, whose log no longer has what this one lacked."""

    event: ClassVar[str] = "snapshot_installed"
    start_index: LogIndex
    start_offset: Offset
    applied_index: LogIndex


@frozen
class SnapshotTooLarge:
    """A snapshot was not taken because of its size, so nothing leaves the log; or one of a leader was not accepted."""

    event: ClassVar[str] = "snapshot_too_large"
    bytes: int
    bytes_max: int


@frozen
class LongTurn:
    """The loop of this process served no client and no peer for `ms`, most of it because of `cause`; `processor_ms` of
    it were spent computing, the rest waiting for the disk, the interpreter or the processor.
    """

    event: ClassVar[str] = "long_turn"
    ms: int
    cause: str
    cause_ms: int
    processor_ms: int

    @classmethod
    def of(cls, turn: Turn) -> "LongTurn":
        """Returns the notice of a turn."""
        return cls(
            round(turn.seconds * 1000),
            turn.cause,
            round(turn.cause_seconds * 1000),
            round(turn.processor_seconds * 1000),
        )


@frozen
class FrameTooLarge:
    """A message was not sent, since its receiver takes smaller ones: the settings of the nodes differ."""

    event: ClassVar[str] = "frame_too_large"
    peer: NodeId
    bytes: int
    bytes_max: int


@frozen
class InvariantBroken:
    """A rule that must always hold does not; the node ends.

    `state` is the node in one line, as `raft.render` has it.
    """

    event: ClassVar[str] = "broken_invariant"
    reason: str
    state: str


@frozen
class LogRepaired:
    """A damaged log was cut between two addresses; it had reached up to `floor`."""

    event: ClassVar[str] = "repaired"
    cut_from: int
    cut_to: int
    floor: Position


@frozen
class LogSetAside:
    """So much of the log is missing or damaged that what this node promised is not known: it keeps the files as
    `*.lost`, and learns from every other member what it must not go back behind, before it takes part.
    """

    event: ClassVar[str] = "set_aside"
    reason: str


@frozen
class StandingLearned:
    """A node that remembered nothing has an answer of every other member, and takes part again, below `floor`."""

    event: ClassVar[str] = "standing_learned"
    term: Term
    floor: Position


Notice = (
    RoleChanged
    | MembersChanged
    | LinkUp
    | LinkDown
    | LinkRefused
    | ConnectionClosed
    | ConnectionRefused
    | NoSpaceLeft
    | DiskStalled
    | LogTrimmed
    | SnapshotInstalled
    | SnapshotTooLarge
    | FrameTooLarge
    | LongTurn
    | InvariantBroken
    | LogRepaired
    | LogSetAside
    | StandingLearned
)
Notify = Callable[[Notice], None]
"""Called in the loop of the node, which waits for it."""


def warn_of_long_turns(turns: TurnMeter, tell: Callable[..., None]) -> None:
    """Have `tell` called with the name and the fields of a `LongTurn` for each turn that deserves the warning."""

    def on_long(turn: Turn) -> None:
        event, fields = event_of(LongTurn.of(turn))
        tell(event, **fields)

    turns.on_long = on_long


def event_of(notice: Notice) -> tuple[str, dict[str, object]]:
    """Returns the name of the event and its fields, all of which JSON can carry."""
    match notice:
        case RoleChanged(role=role, term=term, leader=leader):
            return "role", {"role": role.value, "term": term, "leader": leader or 0}
        case MembersChanged(configuration=configuration):
            names = ("voters", "learners", "outgoing")
            members: dict[str, object] = {name: sorted(getattr(configuration, name)) for name in names}
            return "members", {**members, "committed": notice.is_settled}
        case _:
            return notice.event, attrs.asdict(notice)
