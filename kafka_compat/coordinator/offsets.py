"""Committed offsets: reads return written offsets only.

A write of unknown outcome becomes visible with the next written one. Writes are in the log in the order of their ids.
So when one is written, every earlier one that was appended is written, too: the writes still on their way, and the
writes of unknown outcome.

Offsets in a transaction wait for its marker (KIP-98). Meanwhile their old values are *unstable* (KIP-447). Of several
changes of one offset the last in the log counts, wherever the markers are.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import TypeAlias

from attrs import define, field

from kafka_compat.coordinator.events import NO_PRODUCER, Record
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


@frozen
class _Waiting:
    """A change that waits for the marker of its transaction. Without a value, a later change has taken its place."""

    place: int
    """Grows with the log."""
    value: OffsetCommitValue | None


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
    _producers: dict[int, int] = field(factory=dict)
    """The producer of each write under way that is in a transaction, by write id."""
    _in_transaction: dict[int, dict[tuple[str, Position], _Waiting]] = field(factory=dict)
    """The changes that wait for a marker, by producer id."""
    _last_place: int = 0

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
        for waiting in self._in_transaction.values():
            found.update(dict.fromkeys(position for name, position in waiting if name == group))
        return list(found)

    def changing_groups(self) -> Iterator[str]:
        """Yields every group that has an offset, or may have one later; some come twice."""
        yield from self._written
        yield from self._count_under_way
        yield from (group for group, _ in self._unknown)
        for waiting in self._in_transaction.values():
            yield from (group for group, _ in waiting)

    # ------------------------------------------------------------ transactions

    def is_unstable(self, group: str, position: Position) -> bool:
        """Returns True if a transaction that has not ended may change this offset."""
        key = group, position
        return any(key in waiting for waiting in self._in_transaction.values()) or any(
            (change.group, (change.topic, change.partition)) == key
            for write_id in self._producers
            for change in self._under_way[write_id]
        )

    def load_in_transaction(self, producer_id: int, change: OffsetChange) -> None:
        """Takes one record of the log that belongs to a transaction; they come in the order of the log."""
        self._last_place += 1
        key = change.group, (change.topic, change.partition)
        self._in_transaction.setdefault(producer_id, {})[key] = _Waiting(self._last_place, change.value)

    def end_transaction(self, producer_id: int, *, commits: bool) -> list[str]:
        """Apply the changes of a producer's transaction, or drop them. Returns the groups whose offsets count now."""
        ended = self._in_transaction.pop(producer_id, {})
        if not commits:
            return []
        for key, change in ended.items():
            if change.value is not None:
                self._supersede(key, change.place)
                self._set(*key, change.value)
        return list(dict.fromkeys(group for group, _ in ended))

    def _supersede(self, key: tuple[str, Position], place: int) -> None:
        """A change at this place of the log counts, so earlier ones will not."""
        for waiting in self._in_transaction.values():
            earlier = waiting.get(key)
            if earlier is not None and earlier.place < place:
                waiting[key] = _Waiting(earlier.place, None)

    # ------------------------------------------------------------ writes

    def load(self, group: str, topic: str, partition: int, value: OffsetCommitValue | None) -> None:
        """Takes one record of the log, None for a tombstone; they come in the order of the log."""
        self._apply(group, (topic, partition), value)

    def begin(self, write_id: int, changes: tuple[OffsetChange, ...], producer_id: int = NO_PRODUCER) -> None:
        """These changes are on their way, perhaps in a producer's transaction. Write ids ascend."""
        self._under_way[write_id] = changes
        if producer_id != NO_PRODUCER:
            self._producers[write_id] = producer_id
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
        producer_id = self._producers.pop(write_id, NO_PRODUCER)
        for change in self._end_write(write_id):
            if producer_id != NO_PRODUCER:
                self.load_in_transaction(producer_id, change)
            else:
                self._apply(change.group, (change.topic, change.partition), change.value)

    def on_failed(self, write_id: int, *, unknown: bool, is_first: bool) -> None:
        """Drop a write that is not in the log or, if `unknown`, may be.

        `is_first` means that no earlier write is under way, as is usual.
        """
        producer_id = self._producers.pop(write_id, NO_PRODUCER)
        for change in self._end_write(write_id):
            if unknown and producer_id != NO_PRODUCER:
                self.load_in_transaction(producer_id, change)  # a marker that is written has it before it
            elif unknown:
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
        if self._in_transaction:
            self._last_place += 1
            self._supersede((group, position), self._last_place)
        self._set(group, position, value)

    def _set(self, group: str, position: Position, value: OffsetCommitValue | None) -> None:
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
