"""The settings of a node, under the names that `--set` takes.

Those of the core keep their own names (`RaftConfig`); the others are here. Sizes in bytes, times in seconds.
"""

import difflib
from collections.abc import Iterable
from typing import Any

import attrs
from attrs.validators import ge, gt, le

from log.policy import FlushPolicy
from log.retention import Retention
from raft.client_codec import BATCHES_MAX
from raft.codec import ENTRIES_MAX
from raft.config import MIB, RaftConfig, of_declared_types
from raft.model import ENTRY_OVERHEAD_BYTES
from raft.net.budget import NO_LIMIT, BudgetLimits
from raft.net.memory import default_total_bytes


@attrs.frozen(kw_only=True, field_transformer=of_declared_types)
class ConnectionSettings:
    """The bounds of a node's connections. Raises as `NodeSettings`."""

    connections_max: int = attrs.field(default=1024, validator=ge(8))
    """Connections taken in at once, clients and peers together; two for each peer are not for clients."""
    connections_per_address_max: int = attrs.field(default=0, validator=ge(0))
    """Those of one address, without members; 0 = no bound."""
    accepts_per_s: float = attrs.field(default=1000.0, validator=gt(0))
    """Connections accepted in a second; more of them wait."""
    idle_timeout_s: float = attrs.field(default=600.0, validator=gt(0))
    """A client's connection by which nothing came for so long is closed."""
    held_bytes_max: int = attrs.field(default=0, validator=ge(0))
    """The total of what all connections hold, a quarter of it for members; 0 = an eighth of the memory, 256 MiB or more."""
    greeting_timeout_s: float = attrs.field(default=5.0, validator=gt(0))
    """A connection that has not completed the handshake by then is closed."""

    def budget(self, frame_bytes_max: int) -> BudgetLimits:
        """Returns the bounds of all connections of a process that takes frames of this size."""
        return BudgetLimits(
            total_bytes=self.held_bytes_max or max(default_total_bytes(), 4 * frame_bytes_max),
            per_address_max=self.connections_per_address_max or NO_LIMIT,
            accepts_per_s=self.accepts_per_s,
        )


@attrs.frozen(kw_only=True, field_transformer=of_declared_types)
class NodeSettings:
    """Everything about a node that is not its place in the world.

    Raises `ValueError` if the settings do not fit each other, `TypeError` for one of another type.
    """

    raft: RaftConfig = attrs.field(factory=RaftConfig)
    flush: FlushPolicy = FlushPolicy.BEFORE_ACK
    """The event after which a write counts: its flush, or the operating system's receipt (`interval`, `none`)."""
    flush_interval_s: float = attrs.field(default=0.05, validator=gt(0))
    """With `flush=interval`: how long a write may wait for its flush."""
    flush_stall_s: float = attrs.field(default=5.0, validator=gt(0))
    """A leader whose flush takes longer steps down in favour of a node whose disk works."""
    retention_bytes: int = attrs.field(default=0, validator=ge(0))
    """Oldest log files leave while the others hold at least so much; 0 = this is no reason to leave."""
    retention_s: float = attrs.field(default=0.0, validator=ge(0))
    """Log files leave whose newest entry is older; 0 = age is no reason to leave."""
    segment_bytes_max: int = attrs.field(default=64 * MIB, validator=ge(64 * 1024))
    """A log file of this size is sealed and the next one begun."""
    reserve_bytes: int = attrs.field(default=MIB, validator=ge(1))
    """Room on the disk is reserved this far ahead; less finds a full disk sooner, and asks it more often."""
    frame_bytes_max: int = attrs.field(default=16 * MIB, validator=(ge(64 * 1024), le(512 * MIB)))
    """The largest frame body a client may send; peers may send four times as much."""
    connections: ConnectionSettings = attrs.field(factory=ConnectionSettings)
    outbound_bytes_max: int = attrs.field(default=MIB, validator=ge(64 * 1024))
    """Answers that wait for a client to read them; above, nothing more is read from it."""
    link_bytes_max: int = attrs.field(default=32 * MIB, validator=ge(64 * 1024))
    """Messages that wait for a peer's socket; above, new ones are dropped."""
    batch_bytes_max: int = attrs.field(
        default=attrs.Factory(lambda self: min(3 * MIB, self.frame_bytes_max), takes_self=True), validator=ge(1)
    )
    """Appends that wait together leave as entries of at most this size; half of it waits for nothing more.

    Where the group is slow, `append_bytes_max` is the bound. 3 MiB, or `frame_bytes_max` if that is less.
    """
    pending_bytes_max: int = attrs.field(default=32 * MIB, validator=ge(1))
    """Appends that wait to be proposed; above, they are refused as busy."""
    snapshot_bytes_max: int = attrs.field(default=256 * MIB, validator=ge(1))
    """The largest snapshot of the state machine; the same on all nodes.

    It is held in memory: once by each, and twice by a node that is being sent one. Above, nothing leaves the log.
    """
    read_bytes_max: int = attrs.field(default=4 * MIB, validator=ge(1))
    """About the most that one read brings, whatever it asks for."""

    @property
    def retention(self) -> Retention:
        """The rule that `retention_bytes` and `retention_s` make."""
        return Retention(
            bytes_max=self.retention_bytes or None,
            age_ms_max=max(round(self.retention_s * 1000), 1) if self.retention_s else None,
        )

    def __attrs_post_init__(self) -> None:
        # Whatever one node stores must fit a frame to any other, where peers take four times what a client may send.
        if self.flush_stall_s < self.raft.heartbeat_s:
            raise ValueError("need flush_stall_s >= heartbeat_s, or a leader steps down at every flush")
        if 0 < self.connections.held_bytes_max < 4 * self.frame_bytes_max:
            raise ValueError("need held_bytes_max >= 4 * frame_bytes_max")
        if self.batch_bytes_max > self.frame_bytes_max:
            raise ValueError("need batch_bytes_max <= frame_bytes_max")
        if self.raft.append_bytes_max > 2 * self.frame_bytes_max:
            raise ValueError("need append_bytes_max <= 2 * frame_bytes_max")
        if self.raft.snapshot_part_bytes_max > 2 * self.frame_bytes_max:
            raise ValueError("need snapshot_part_bytes_max <= 2 * frame_bytes_max")
        if self.read_bytes_max > self.frame_bytes_max // 2:
            raise ValueError("need read_bytes_max <= frame_bytes_max / 2")
        # And no message may hold more entries than its receiver takes, even if they are all but empty.
        if self.raft.append_bytes_max > ENTRIES_MAX * ENTRY_OVERHEAD_BYTES:
            raise ValueError(f"need append_bytes_max <= {ENTRIES_MAX * ENTRY_OVERHEAD_BYTES}")
        if self.read_bytes_max > BATCHES_MAX * ENTRY_OVERHEAD_BYTES:
            raise ValueError(f"need read_bytes_max <= {BATCHES_MAX * ENTRY_OVERHEAD_BYTES}")


class WrongSetting(ValueError):
    """A `--set` that cannot be applied; the text explains how to correct it."""


_NESTED = {"raft": RaftConfig, "connections": ConnectionSettings}
_FIELDS = {
    field.name: (group, field)
    for group, kind in {"": NodeSettings, **_NESTED}.items()
    for field in attrs.fields(kind)
    if field.name not in _NESTED
}
"""All settings, each with the part of the settings that it belongs to."""


def known_settings() -> tuple[str, ...]:
    """Returns every name that `--set` takes, sorted."""
    return tuple(sorted(_FIELDS))


def parse_settings(assignments: Iterable[str]) -> NodeSettings:
    """Returns the settings in `name=value` texts.

    Raises `WrongSetting` for an unknown name, a wrong value, or values that do not fit each other.
    """
    given: dict[str, dict[str, Any]] = {"": {}, **{group: {} for group in _NESTED}}
    for assignment in assignments:
        name, equals, value = assignment.partition("=")
        if not equals:
            raise WrongSetting(f"{assignment!r} is not of the form name=value")
        if name not in _FIELDS:
            raise WrongSetting(f"there is no setting {name!r}; {_suggestion(name)}")
        group, field = _FIELDS[name]
        given[group][name] = _parse(name, field.type, value)
    try:
        nested = {group: kind(**given[group]) for group, kind in _NESTED.items()}
        return NodeSettings(**nested, **given[""])
    except ValueError as error:
        raise WrongSetting(_one_line(error)) from None


def _suggestion(name: str) -> str:
    close = difflib.get_close_matches(name, known_settings(), n=1)
    return f"did you mean {close[0]}?" if close else f"known are {', '.join(known_settings())}"


def _parse(name: str, kind: Any, value: str) -> Any:
    if kind is FlushPolicy:
        try:
            return FlushPolicy(value)
        except ValueError:
            names = " | ".join(policy.value for policy in FlushPolicy)
            raise WrongSetting(f"{name} is {names}, not {value!r}") from None
    try:
        parsed = kind(value)
    except ValueError:
        what = "a whole number" if kind is int else "a number"
        raise WrongSetting(f"{name} is {what}, not {value!r}") from None
    if parsed != parsed or parsed in (float("inf"), float("-inf")):
        raise WrongSetting(f"{name} is a finite number, not {value!r}")
    return parsed


def _one_line(error: ValueError) -> str:
    """The validators of attrs raise with the text first and the field behind it."""
    return str(error.args[0]) if error.args else str(error)
