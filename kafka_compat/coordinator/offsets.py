"""Committed offsets: reads return written offsets only.

A write of unknown outcome becomes visible with the next written one. Writes are in the log in the order of their ids.
So when one is written, every earlier one that was appended is written, too: the writes still on their way, and the
writes of unknown outcome.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import TypeAlias

from attrs import define, field

from kafka_compat.coordinator.events import Record
from kafka_compat.coordinator.record_formats import NO_TIMESTAMP, OffsetCommitValue, offset_key, offset_value
from log.values import frozen

Position: TypeAlias = tuple[str, int]
"""Topic and partition."""


@frozen
class OffsetChange:
    """A new committed offset of a group, or None in its place: a deletion."""

    group: str
    topic: str
    partition: int
    value: OffsetCommitValue | None

    def record(self) -> Record:
        """Returns its record; raises `CannotEncode` for a name or metadata of more than 32767 bytes."""
        key = offset_key(self.group, self.topic, self.partition)
        return key, None if self.value is None else offset_value(self.value)


@define
class OffsetStore:
    """The offsets of all groups of one partition of the offsets topic."""

    _written: dict[str, dict[Position, OffsetCommitValue]] = field(factory=dict)
    _under_way: dict[int, tuple[OffsetChange, ...]] = field(factory=dict)
    """By write id, ascending."""
    _count_under_way: dict[str, dict[Position, int]] = field(factory=dict)
    _unknown: dict[tuple[str, Position], dict[int, OffsetCommitValue | None]] = field(factory=dict)
    """The changes of each offset that may have been written, by write id.

    Of changes without a write under way between them, only the last.
    """

    def get(self, group: str, topic: str, partition: int) -> OffsetCommitValue | None:
        """Returns a written offset, or None."""
        return self._written.get(group, {}).get((topic, partition))

    def of_group(self, group: str) -> Mapping[Position, OffsetCommitValue]:
        """Returns all written offsets of a group, in the order of their first commits."""
        return self._written.get(group, {})

    def groups(self) -> Iterator[str]:
        """Yields every group that has written offsets."""
        yield from self._written

    def is_under_way(self, group: str, position: Position) -> bool:
        """Returns True if a change of this offset is being written."""
        return position in self._count_under_way.get(group, {})

    def latest(self, group: str) -> Mapping[Position, OffsetCommitValue | None]:
        """Returns the offsets as they will be if the writes of unknown outcome succeed; None marks a deletion."""
        found: dict[Position, OffsetCommitValue | None] = dict(self._written.get(group, {}))
        found.update(
            (position, changes[max(changes)]) for (name, position), changes in self._unknown.items() if name == group
        )
        return found

    def positions(self, group: str) -> list[Position]:
        """Returns every offset of a group, also one that may be written later. A deletion has to cover them all."""
        found = dict.fromkeys(self._written.get(group, {}))
        found.update(dict.fromkeys(self._count_under_way.get(group, {})))
        found.update(dict.fromkeys(position for name, position in self._unknown if name == group))
        return list(found)

    def changing_groups(self) -> Iterator[str]:
        """Yields every group that has an offset, or may have one later; some come twice."""
        yield from self._written
        yield from self._count_under_way
        yield from (group for group, _ in self._unknown)

    def load(self, group: str, topic: str, partition: int, value: OffsetCommitValue | None) -> None:
        """Takes one record of the log, None for a tombstone; they come in the order of the log."""
        self._apply(group, (topic, partition), value)

    def begin(self, write_id: int, changes: tuple[OffsetChange, ...]) -> None:
        """These changes are on their way. Write ids ascend."""
        self._under_way[write_id] = changes
        for change in changes:
            counts = self._count_under_way.setdefault(change.group, {})
            position = change.topic, change.partition
            counts[position] = counts.get(position, 0) + 1

    def on_written(self, write_id: int) -> None:
        """Apply a write that is in the log for good, and every earlier one of unknown outcome.

        Call it in the order of ids.
        """
        for key, changes in list(self._unknown.items()):
            earlier = [each for each in changes if each < write_id]
            if earlier:
                self._apply(*key, changes[max(earlier)])
                self._forget(key, earlier)
        for change in self._end_write(write_id):
            self._apply(change.group, (change.topic, change.partition), change.value)

    def on_failed(self, write_id: int, *, unknown: bool, is_first: bool) -> None:
        """Drop a write that is not in the log or, if `unknown`, may be.

        `is_first` means that no earlier write is under way, as is usual.
        """
        for change in self._end_write(write_id):
            if unknown:
                key = change.group, (change.topic, change.partition)
                self._unknown.setdefault(key, {})[write_id] = change.value
                if is_first:
                    self._forget(key, [each for each in self._unknown[key] if each < write_id])

    def _forget(self, key: tuple[str, Position], write_ids: Iterable[int]) -> None:
        for write_id in write_ids:
            del self._unknown[key][write_id]
        if not self._unknown[key]:
            del self._unknown[key]

    def _end_write(self, write_id: int) -> Iterable[OffsetChange]:
        changes = self._under_way.pop(write_id, ())
        for change in changes:
            counts = self._count_under_way[change.group]
            position = change.topic, change.partition
            counts[position] -= 1
            if not counts[position]:
                del counts[position]
                if not counts:
                    del self._count_under_way[change.group]
        return changes

    def _apply(self, group: str, position: Position, value: OffsetCommitValue | None) -> None:
        if value is not None:
            self._written.setdefault(group, {})[position] = value
        elif (offsets := self._written.get(group)) is not None:
            offsets.pop(position, None)
            if not offsets:
                del self._written[group]


def has_expired(value: OffsetCommitValue, base_ms: int, time_ms: int, retention_ms: int) -> bool:
    """Returns True if an offset has outlived its own time of expiry, or `retention_ms` after `base_ms`."""
    if value.expire_timestamp != NO_TIMESTAMP:
        return time_ms >= value.expire_timestamp
    return time_ms - base_ms >= retention_ms
