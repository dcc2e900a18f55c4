"""The state that the brokers of a raft group (DLedger mode) agree on: the end of the commit log, and the broker's
tables. Pure.

Every node applies the commands of the group's raft log in the same order, and so reaches the same state.

- `StoreRecords`: the leader gave the records their physical and queue offsets when it proposed them, after all of its
  earlier proposals. The command names the physical offset at which it expects to begin. Elsewhere it has no effect on
  any node, and that is definite. A command of a leadership that has ended also has no effect.
- `BeginLeadership`: the first command of a leadership. A leader that has applied it has applied all earlier commands.
- `ChangeTables`: topics, groups, consumer offsets and delay offsets. They are values, not increments, so a repetition
  does no harm.

The records themselves are not part of the state: a node appends them to its commit log. A snapshot therefore holds the
physical end, the tables, and the next offset of each queue: the messages of a quiet queue may have expired everywhere.
It stands for all earlier commands where the commit log holds all before that end.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Final, TypeAlias, TypeVar, assert_never

import attrs
import msgpack

from log.values import frozen
from rocketmq_compat.consumers.offsets import OffsetKey, OffsetSnapshot
from rocketmq_compat.remoting.bodies import DataVersion, SubscriptionGroupConfig, TopicConfig
from rocketmq_compat.remoting.errors import BadBody
from rocketmq_compat.storage.dispatch import QueueKey

_VERSION: Final = 2
_WITHOUT_NEXTS: Final = 1
"""Snapshots of this version lack the next offsets of queues."""
_STORE, _BEGIN, _CHANGE = "m", "b", "t"

KeyT = TypeVar("KeyT")
ValueT = TypeVar("ValueT")


class BadGroupCommand(ValueError):
    """Bytes that are no command, or no snapshot, of a broker group."""


@frozen
class StoreRecords:
    """Whole records with their offsets, to be appended if the commit log ends at `base`. `term` is the leader's."""

    term: int
    base: int
    payload: bytes

    @property
    def end(self) -> int:
        """The physical offset behind them."""
        return self.base + len(self.payload)


@frozen
class BeginLeadership:
    """The leader of `term` begins."""

    term: int


@frozen
class TableChanges:
    """New values; None marks a removed entry. A version of None means that its table has not changed."""

    topics: Mapping[str, TopicConfig | None] = attrs.field(factory=dict)
    topic_version: DataVersion | None = None
    groups: Mapping[str, SubscriptionGroupConfig | None] = attrs.field(factory=dict)
    group_version: DataVersion | None = None
    offsets: Mapping[OffsetKey, int | None] = attrs.field(factory=dict)
    offset_version: DataVersion | None = None
    delays: Mapping[int, int] = attrs.field(factory=dict)
    """Delay offsets, by level."""

    @property
    def is_empty(self) -> bool:
        """True if there are no changes."""
        return not (self.topic_version or self.group_version or self.offset_version or self.delays)

    @property
    def deleted_topics(self) -> list[str]:
        """The topics that are gone."""
        return [name for name, topic in self.topics.items() if topic is None]


@frozen
class ChangeTables:
    """The leader of `term` has changed its tables."""

    term: int
    changes: TableChanges


GroupCommand: TypeAlias = StoreRecords | BeginLeadership | ChangeTables


@attrs.define
class GroupTables:
    """The tables, as they are after the commands so far."""

    topics: dict[str, TopicConfig] = attrs.field(factory=dict)
    topic_version: DataVersion = attrs.field(factory=DataVersion)
    groups: dict[str, SubscriptionGroupConfig] = attrs.field(factory=dict)
    group_version: DataVersion = attrs.field(factory=DataVersion)
    offsets: dict[OffsetKey, int] = attrs.field(factory=dict)
    offset_version: DataVersion = attrs.field(factory=DataVersion)
    delays: dict[int, int] = attrs.field(factory=dict)

    def change(self, changes: TableChanges) -> None:
        """Take the new values over."""
        _merge(self.topics, changes.topics)
        _merge(self.groups, changes.groups)
        _merge(self.offsets, changes.offsets)
        self.delays.update(changes.delays)
        self.topic_version = changes.topic_version or self.topic_version
        self.group_version = changes.group_version or self.group_version
        self.offset_version = changes.offset_version or self.offset_version

    def copy(self) -> "GroupTables":
        """Returns tables that later changes of these do not change."""
        return attrs.evolve(
            self,
            topics=dict(self.topics),
            groups=dict(self.groups),
            offsets=dict(self.offsets),
            delays=dict(self.delays),
        )

    def changes_to(
        self,
        *,
        topics: Mapping[str, TopicConfig],
        topic_version: DataVersion,
        changed_topics: Iterable[str] | None,
        groups: Mapping[str, SubscriptionGroupConfig],
        group_version: DataVersion,
        changed_groups: Iterable[str] | None,
        offsets: OffsetSnapshot,
        changed_offsets: Iterable[OffsetKey] | None,
        delays: Mapping[int, int],
    ) -> TableChanges:
        """Returns the changes that make these tables equal to the given ones.

        They differ only in the changed keys, or anywhere if these are None. Of one version, tables are equal.
        """
        has_topics, has_groups = topic_version != self.topic_version, group_version != self.group_version
        has_offsets = offsets.version != self.offset_version
        return TableChanges(
            _changes(self.topics, topics, changed_topics) if has_topics else {},
            topic_version if has_topics else None,
            _changes(self.groups, groups, changed_groups) if has_groups else {},
            group_version if has_groups else None,
            _changes(self.offsets, offsets.offsets, changed_offsets) if has_offsets else {},
            offsets.version if has_offsets else None,
            {level: offset for level, offset in delays.items() if self.delays.get(level) != offset},
        )

    def as_changes(self) -> TableChanges:
        """Returns the changes that make empty tables equal to these."""
        return TableChanges(
            dict(self.topics),
            self.topic_version,
            dict(self.groups),
            self.group_version,
            dict(self.offsets),
            self.offset_version,
            dict(self.delays),
        )


@attrs.define
class BrokerGroupState:
    """The state; it begins empty on every node."""

    term: int = 0
    """The leadership that began last."""
    end: int = 0
    """The physical offset of the next record."""
    tables: GroupTables = attrs.field(factory=GroupTables)
    nexts: dict[QueueKey, int] = attrs.field(factory=dict, eq=False)
    """The next offsets of queues, of all before `end` that the owner has noted here."""

    def apply(self, command: GroupCommand) -> bool:
        """Carry out a command. Returns True if it had an effect; otherwise the state is as before, on every node."""
        if command.term < self.term:
            return False
        match command:
            case BeginLeadership(term=term):
                self.term = term
            case StoreRecords(base=base):
                if base != self.end:
                    return False
                self.end = command.end
            case ChangeTables(changes=changes):
                self.tables.change(changes)
                if deleted := changes.deleted_topics:
                    self.nexts = {key: each for key, each in self.nexts.items() if key[0] not in deleted}
            case _:
                assert_never(command)
        return True

    def snapshot(self) -> bytes:
        """Returns the state as bytes."""
        tables, nexts = _pack_changes(self.tables.as_changes()), [[*key, each] for key, each in self.nexts.items()]
        packed: bytes = msgpack.packb([_VERSION, self.term, self.end, tables, nexts])
        return packed

    def restore(self, snapshot: bytes) -> None:
        """Replace the state by the one in `snapshot`. Raises `BadGroupCommand` for other bytes or another version."""
        try:
            version, term, end, tables, *rest = _unpack(snapshot)
            if version not in (_VERSION, _WITHOUT_NEXTS):
                raise BadGroupCommand(f"a snapshot of version {version}")
            changes = _unpack_changes(tables)
            (rows,) = rest if version == _VERSION else ([],)
            nexts = {(topic, queue_id): following for topic, queue_id, following in rows}
            if not all(map(_is_count, (term, end, *nexts.values()))):
                raise BadGroupCommand("a snapshot with a number that is none")
        except (TypeError, ValueError, BadBody) as error:
            raise BadGroupCommand(f"no snapshot: {error}") from None
        self.term, self.end, self.tables, self.nexts = term, end, GroupTables(), nexts
        self.tables.change(changes)


def encode_group_command(command: GroupCommand) -> bytes:
    """Returns the command as bytes."""
    match command:
        case StoreRecords():
            parts: list[Any] = [_STORE, command.term, command.base, command.payload]
        case BeginLeadership():
            parts = [_BEGIN, command.term]
        case ChangeTables():
            parts = [_CHANGE, command.term, _pack_changes(command.changes)]
        case _:
            assert_never(command)
    packed: bytes = msgpack.packb(parts)
    return packed


def decode_group_command(command: bytes) -> GroupCommand:
    """Returns the command that `encode_group_command` encoded. Raises `BadGroupCommand` for other bytes."""
    try:
        match _unpack(command):
            case [kind, int(term), int(base), bytes(payload)] if kind == _STORE and payload and base >= 0:
                return StoreRecords(term, base, payload)
            case [kind, int(term)] if kind == _BEGIN:
                return BeginLeadership(term)
            case [kind, int(term), list(changes)] if kind == _CHANGE:
                return ChangeTables(term, _unpack_changes(changes))
    except (TypeError, ValueError, BadBody) as error:
        raise BadGroupCommand(f"no command of a broker group: {error}") from None
    raise BadGroupCommand("no command of a broker group")


def _unpack(packed: bytes) -> Any:
    try:
        return msgpack.unpackb(packed)
    except msgpack.UnpackException as error:
        raise ValueError(str(error)) from None


def _merge(table: dict[KeyT, ValueT], changes: Mapping[KeyT, ValueT | None]) -> None:
    for key, value in changes.items():
        if value is None:
            table.pop(key, None)
        else:
            table[key] = value


def _changes(
    before: Mapping[KeyT, ValueT], after: Mapping[KeyT, ValueT], keys: Iterable[KeyT] | None
) -> dict[KeyT, ValueT | None]:
    if keys is not None:
        return {key: after.get(key) for key in keys if before.get(key) != after.get(key)}
    changed: dict[KeyT, ValueT | None] = {key: value for key, value in after.items() if before.get(key) != value}
    changed.update(dict.fromkeys(before.keys() - after.keys()))
    return changed


def _pack_changes(changes: TableChanges) -> list[Any]:
    return [
        [[name, None if topic is None else topic.encode()] for name, topic in changes.topics.items()],
        _pack_version(changes.topic_version),
        [[name, None if group is None else group.encode()] for name, group in changes.groups.items()],
        _pack_version(changes.group_version),
        [[*key, offset] for key, offset in changes.offsets.items()],
        _pack_version(changes.offset_version),
        list(changes.delays.items()),
    ]


def _unpack_changes(packed: list[Any]) -> TableChanges:
    topics, topic_version, groups, group_version, offsets, offset_version, delays = packed
    named = [name for name, *_ in (*topics, *groups)] + [name for row in offsets for name in row[:2]]
    counted = [number for row in offsets for number in row[2:] if number is not None]  # None: it is deleted
    counted += [abs(level) for level, _ in delays] + [offset for _, offset in delays]
    # Tables of other kinds would end each member later, where they are used.
    if not all(type(name) is str for name in named) or not all(_is_count(number) for number in counted):
        raise ValueError("a table has a name that is no text, or a number that is no offset")
    return TableChanges(
        {name: None if topic is None else TopicConfig.decode(topic) for name, topic in topics},
        _unpack_version(topic_version),
        {name: None if group is None else SubscriptionGroupConfig.decode(group) for name, group in groups},
        _unpack_version(group_version),
        {(group, topic, queue_id): offset for group, topic, queue_id, offset in offsets},
        _unpack_version(offset_version),
        dict(delays),
    )


def _is_count(number: object) -> bool:
    return type(number) is int and 0 <= number < 2**63


def _pack_version(version: DataVersion | None) -> list[int] | None:
    return None if version is None else [version.state_version, version.timestamp, version.counter]


def _unpack_version(packed: list[int] | None) -> DataVersion | None:
    if packed is None:
        return None
    state_version, timestamp, counter = packed
    if not all(type(number) is int for number in packed):
        raise ValueError("a version that is no number")
    return DataVersion(state_version=state_version, timestamp=timestamp, counter=counter)
