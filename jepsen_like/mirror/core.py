"""The decider of a mirror: which records go into the next transaction, and what is committed with them. Pure.

One transaction is on its way at a time. It holds records, then the source's positions and the runs of the offset map, then the
groups' offsets, translated by a map that knows those runs. So all of it happens once, or none of it.
"""

from collections import deque
from collections.abc import Mapping, Sequence
from typing import Final, Protocol

import attrs

from jepsen_like.mirror.kept import Partition, Point
from jepsen_like.mirror.offset_map import OffsetMap, RecordRun

TRANSACTION_BYTES_MAX: Final = 8 << 20
WAITING_BYTES_MAX: Final = 2 << 20
"""The bytes of one partition that wait for their transaction; from then on it is not fetched."""
Offsets = Mapping[str, Mapping[Partition, int]]
"""The committed offsets of groups."""


class Batch(Protocol):
    """Records that are copied together; `runs` count the target from the first of them."""

    @property
    def count(self) -> int:
        """The number of records."""

    @property
    def size(self) -> int:
        """The bytes."""

    @property
    def runs(self) -> Sequence[RecordRun]:
        """The source's offsets of the records."""

    @property
    def end(self) -> int:
        """The source's offset after the batch."""


@attrs.frozen
class RecordsFetched:
    """The source brought batches of a partition; all below `next_offset` is in them or is nothing to copy."""

    partition: Partition
    batches: tuple[Batch, ...]
    next_offset: int
    end: int
    """The source's end, behind everything that was acknowledged."""


@attrs.frozen
class GroupsFetched:
    """The source's groups have committed these offsets."""

    offsets: Offsets


@attrs.frozen
class RecordsAppended:
    """The target has appended each batch of the open transaction at these offsets."""

    bases: Mapping[Partition, tuple[int, ...]]


@attrs.frozen
class TransactionCommitted:
    """The target has committed the open transaction."""


Event = RecordsFetched | GroupsFetched | RecordsAppended | TransactionCommitted


@attrs.frozen
class AppendRecords:
    """Begin a transaction with these batches."""

    batches: Mapping[Partition, tuple[Batch, ...]]


@attrs.frozen
class CommitProgress:
    """Write these points and offsets of groups into the transaction, and commit it."""

    points: Mapping[Partition, Point]
    offsets: Offsets


Effect = AppendRecords | CommitProgress


@attrs.define
class _Progress:
    """One partition: `fetched` is read from the source, `decided` in the open transaction, `copied` committed."""

    map: OffsetMap
    fetched: int
    decided: int
    copied: int
    end: int | None = None
    waiting: deque[Batch] = attrs.field(factory=deque)
    waiting_bytes: int = 0

    def take(self, bytes_max: int) -> tuple[Batch, ...]:
        """Returns the batches for the next transaction, and moves `decided` behind them."""
        taken: list[Batch] = []
        size = 0
        while self.waiting and (size < bytes_max or not taken):
            batch = self.waiting.popleft()
            taken.append(batch)
            size += batch.size
        self.waiting_bytes -= size
        self.decided = self.fetched if not self.waiting else taken[-1].end
        return tuple(taken)


class MirrorCore:
    """The mirror of one direction under one epoch. It begins with the positions and maps that the target keeps."""

    def __init__(self, epoch: int, begun: Mapping[Partition, tuple[int, OffsetMap]]) -> None:
        """`begun` has each partition's position in the source and its map."""
        self.epoch = epoch
        self.records = 0
        """The records that were copied since the beginning of this process."""
        self._partitions = {
            at: _Progress(known, position, position, position) for at, (position, known) in begun.items()
        }
        self._groups: dict[str, dict[Partition, int]] = {}
        self._sent: dict[tuple[str, Partition], int] = {}
        self._taken: Mapping[Partition, tuple[Batch, ...]] | None = None
        self._translated: dict[tuple[str, Partition], int] = {}

    # ---------------------------------------------------------------- what the shell asks

    def offset_to_fetch(self, partition: Partition) -> int | None:
        """Returns the offset to fetch from; None while enough of the partition waits."""
        progress = self._partitions[partition]
        return progress.fetched if progress.waiting_bytes < WAITING_BYTES_MAX else None

    @property
    def partitions(self) -> tuple[Partition, ...]:
        """All partitions that are copied."""
        return tuple(self._partitions)

    @property
    def positions(self) -> dict[Partition, int]:
        """The source's offset up to which each partition is committed in the target."""
        return {at: progress.copied for at, progress in self._partitions.items()}

    @property
    def lag(self) -> int | None:
        """The source's offsets that are not copied; None while the end of a partition is unknown."""
        known = [(each.end, each.copied) for each in self._partitions.values() if each.end is not None]
        return sum(max(0, end - copied) for end, copied in known) if len(known) == len(self._partitions) else None

    def is_caught_up(self) -> bool:
        """Returns True if all that the source holds is committed in the target, groups included."""
        return self._taken is None and self.lag == 0 and not self._changed_offsets()

    # ---------------------------------------------------------------- decisions

    def step(self, event: Event) -> list[Effect]:
        """Returns the orders that follow from an event, at most one transaction ahead."""
        match event:
            case RecordsFetched():
                self._on_fetched(event)
            case GroupsFetched():
                self._groups = {group: dict(offsets) for group, offsets in event.offsets.items()}
            case RecordsAppended():
                return [self._progress_of(event.bases)]
            case TransactionCommitted():
                self._on_committed()
        return self._begin() if self._taken is None else []

    def _on_fetched(self, event: RecordsFetched) -> None:
        progress = self._partitions[event.partition]
        progress.waiting.extend(event.batches)
        progress.waiting_bytes += sum(batch.size for batch in event.batches)
        progress.fetched = max(progress.fetched, event.next_offset)
        progress.end = event.end

    def _begin(self) -> list[Effect]:
        """Returns the next transaction; nothing if there is nothing new."""
        moved = [at for at, progress in self._partitions.items() if progress.fetched > progress.decided]
        if not moved and not self._changed_offsets():
            return []
        share = max(1, TRANSACTION_BYTES_MAX // max(1, len(moved)))
        self._taken = {at: self._partitions[at].take(share) for at in moved}
        return [AppendRecords({at: batches for at, batches in self._taken.items() if batches})]

    def _progress_of(self, bases: Mapping[Partition, tuple[int, ...]]) -> CommitProgress:
        assert self._taken is not None, "nothing is open"
        points: dict[Partition, Point] = {}
        for at, batches in self._taken.items():
            progress = self._partitions[at]
            runs = tuple(
                RecordRun(run.source, base + run.target, run.count)
                for batch, base in zip(batches, bases.get(at, ()), strict=True)
                for run in batch.runs
            )
            for run in runs:
                progress.map.add(run)
            points[at] = Point(self.epoch, progress.decided, runs)
        self._translated = self._changed_offsets()
        offsets: dict[str, dict[Partition, int]] = {}
        for (group, at), offset in self._translated.items():
            offsets.setdefault(group, {})[at] = offset
        return CommitProgress(points, offsets)

    def _changed_offsets(self) -> dict[tuple[str, Partition], int]:
        """Returns the groups' positions in the target that differ from what was committed there last."""
        return {
            (group, at): translated
            for group, offsets in self._groups.items()
            for at, offset in offsets.items()
            if at in self._partitions
            and (translated := self._partitions[at].map.translate(offset)) != self._sent.get((group, at))
        }

    def _on_committed(self) -> None:
        assert self._taken is not None, "nothing is open"
        for at, batches in self._taken.items():
            self._partitions[at].copied = self._partitions[at].decided
            self.records += sum(batch.count for batch in batches)
        self._sent.update(self._translated)
        self._taken = None
