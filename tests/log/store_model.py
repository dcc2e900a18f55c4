"""The plain model of a store's log: a list of batches, where it starts and where it ends.

What a crash may leave is the log as it was after some batch, none older than the last flush, and starting where some trim put
it, none older either: `moments` and `starts` hold those. While a change is under way that is durable when it returns, a crash
may also leave what the change makes: `after`.
"""

import itertools
import random
from collections.abc import Iterable

import attrs

from log.batch import StoredBatch
from log.config import StoreConfig
from log.disk import Disk
from log.memory_disk import MemoryDisk
from log.store import LogStore
from log.store_log import StoreLog

DIRECTORY = "data/store"
SMALL = StoreConfig(segment_bytes_max=4096, index_interval_bytes=512, open_files_max=4, threads=1)

Entry = tuple[int, int, int, int, bytes]
"""A test's note of a batch: base offset, span, epoch, timestamp, payload."""


def batch(
    offset: int, epoch: int = 1, *, span: int = 1, timestamp_ms: int = 0, size: int = 100, mark: str = ""
) -> StoredBatch:
    """A batch that names itself."""
    payload = f"{mark}{offset}@{epoch}".encode().ljust(size, b".")
    return StoredBatch.of(payload, base_offset=offset, epoch=epoch, span=span, timestamp_ms=timestamp_ms)


def entry(each: StoredBatch) -> Entry:
    return (each.base_offset, each.span, each.epoch, each.timestamp_ms, bytes(each.payload))


def memory_disk(seed: int = 0, **settings: int) -> MemoryDisk:
    return MemoryDisk(random.Random(seed), **settings)


def open_store(disk: Disk, config: StoreConfig = SMALL, directory: str = DIRECTORY) -> LogStore:
    return LogStore.open(disk, directory, config)


def content(log: StoreLog) -> list[Entry]:
    """The whole log, through its public face."""
    return [entry(each) for each in log.read(log.start_offset, 1 << 30)]


def offsets(log: StoreLog) -> list[int]:
    return [base_offset for base_offset, *_ in content(log)]


@attrs.frozen
class Moment:
    """A log as it may be found. `entries` are those that end behind `start`."""

    entries: tuple[Entry, ...] = ()
    start: int = 0
    end: int = 0

    def from_start(self, start: int) -> "Moment":
        kept = tuple(each for each in self.entries if each[0] + each[1] > start)
        return Moment(kept, start, max(self.end, start))


def moment_of(log: StoreLog) -> Moment:
    """Returns the content of a log after checking each part of it against the others."""
    entries = content(log)
    start, end = log.start_offset, log.end_offset
    assert all(each[0] + each[1] <= following[0] for each, following in itertools.pairwise(entries))
    assert all(each[0] + each[1] > start for each in entries)
    for base_offset, span, epoch, *_ in entries:
        assert log.epochs.at(max(base_offset, start)) == epoch
        found = log.end_of_epoch(epoch)
        assert found is not None
        assert found[0] == epoch
        assert found[1] >= base_offset + span
        assert [entry(each) for each in log.read(max(base_offset, start), 1)] == [
            each for each in entries if each[0] == base_offset
        ]
    for wanted in {timestamp for *_, timestamp, _ in entries} | {0, 10_000}:
        following = [max(each[0], start) for each in entries if each[3] >= wanted]
        assert log.find_time(wanted) == (following[0] if following else None)
    return Moment(tuple(entries), start, end)


class LogModel:
    """The log that must be there, and all those that a crash may leave."""

    def __init__(self) -> None:
        self.moments = [Moment()]
        self.starts = [0]
        self.after: list[Moment] = []
        self._moments_left = self._starts_left = 0

    @property
    def now(self) -> Moment:
        return self.moments[-1].from_start(self.starts[-1])

    @property
    def so_far(self) -> tuple[int, int]:
        """Returns the number of batches and of trims until now, for `mark_flushed`."""
        return self._moments_left + len(self.moments), self._starts_left + len(self.starts)

    def append(self, batches: Iterable[StoredBatch]) -> None:
        for each in batches:
            newest = self.moments[-1]
            self.moments.append(Moment((*newest.entries, entry(each)), 0, each.end_offset))

    def trim(self, start: int) -> None:
        self.starts.append(start)

    def mark_flushed(self, so_far: tuple[int, int], *, trims: bool = True) -> None:
        """Notes that every batch and trim is durable that `so_far` counted."""
        moments = max(0, so_far[0] - 1 - self._moments_left)
        del self.moments[:moments]
        self._moments_left += moments
        if trims:
            starts = max(0, so_far[1] - 1 - self._starts_left)
            del self.starts[:starts]
            self._starts_left += starts

    def begin_cut(self, offset: int, *, reset: bool = False) -> None:
        """Everything that ends behind `offset` is to be cut; with `reset` everything."""
        now = self.now
        if reset:
            self.after = [Moment((), offset, offset)]
            return
        kept = tuple(each for each in now.entries if each[0] + each[1] <= offset)
        cut = [each[0] for each in now.entries if each[0] + each[1] > offset]
        self.after = [Moment(kept, now.start, max(now.start, min([offset, *cut])))]

    def begin_replacement(self, first: int, end: int, kept: Iterable[Entry]) -> None:
        """The batches from `first` to `end`, exclusive, are to be replaced."""
        kept = tuple(kept)
        self.after = [
            Moment(
                (
                    *(item for item in each.entries if item[0] < first),
                    *kept,
                    *(item for item in each.entries if item[0] >= end),
                ),
                0,
                each.end,
            ).from_start(self.starts[-1])
            for each in self.moments
        ]

    def end_change(self) -> None:
        """The change is durable."""
        self._moments_left += len(self.moments) - len(self.after)
        self.moments, self.after = self.after, []
        self._starts_left += len(self.starts) - 1
        self.starts = [self.moments[-1].start]

    def give_up(self) -> None:
        """The change was refused."""
        self.after = []

    def may_be_left(self, moment: Moment) -> bool:
        """Returns True if a crash now may leave this log."""
        return moment in self.after or any(
            each.from_start(start) == moment for each in self.moments for start in self.starts
        )

    def accept_survivor(self, moment: Moment) -> None:
        """Takes the log of this moment for the durable one after a crash; fails unless it may be left."""
        assert self.may_be_left(moment), f"{moment} is none of the {len(self.moments)} logs that may be left"
        self.moments, self.starts, self.after = [moment], [moment.start], []
        self._moments_left = self._starts_left = 0
