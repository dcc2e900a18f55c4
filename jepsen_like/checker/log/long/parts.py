"""Divides a long log, and names the files in which its tasks exchange rows.

A log of any length is divided three times: its rows by time into *chunks*, as they were recorded; its places into
*ranges* of equal length; and its values into *parts* by a hash. A file belongs to the task that wrote it, has the rows
for each range or part one after the other, and gets its name only when whole: a task that runs twice writes it twice.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import attrs
import numpy as np

from jepsen_like.checker.rows.columns import Ints
from jepsen_like.checker.rows.gather import slot_of
from jepsen_like.history.files import appearing

INT: Final = 8
BUCKET_BITS: Final = 12
"""Values that differ below these bits only are in one bucket; see `buckets_of`."""
BUCKETS_MAX: Final = 8192
"""If a range has values of more buckets than this, they do not ascend with the places, and all values are exchanged."""
NARROW_MAX: Final = np.iinfo(np.int16).max


@attrs.frozen
class LogDivision:
    """The division of one log into ranges of places, parts of values and parts of time."""

    object: int
    places: int
    """In each range."""
    ranges: int
    parts: int
    """By value, and as many by time."""

    @property
    def far(self) -> int:
        """Returns the first place behind all ranges: so far no history of this many rows, and no final log, can reach."""
        return self.places * self.ranges

    def part_of(self, values: Ints) -> Ints:
        """Returns the part of each value."""
        return slot_of(values, self.parts)


@attrs.frozen
class SortedRows:
    """A file with rows of several kinds, those of each kind sorted by the number of their range or part."""

    file: Path
    numbers: int
    widths: tuple[int, ...]
    """Columns of each kind."""

    def write(self, kinds: Sequence[tuple[Ints, Sequence[Ints]]]) -> None:
        """Write for each kind the numbers of its rows, and its columns."""
        begins, bodies = [], []
        for number, columns in kinds:
            order = by_number(number, self.numbers)
            begins.append(np.searchsorted(number[order], np.arange(self.numbers + 1)))
            bodies.append(np.stack([column[order] for column in columns], axis=1).astype(np.int64, copy=False))
        write_whole(self.file, [np.concatenate(begins).astype(np.int64), *bodies])

    def read(self, kind: int, first: int, last: int | None = None) -> Ints:
        """Returns the rows of a kind with this number, or numbers from `first` to `last`, inclusive, as a matrix."""
        index = self.numbers + 1
        with self.file.open("rb") as source:
            head = np.fromfile(source, np.int64, len(self.widths) * index)
            at = len(head)
            for before in range(kind):
                at += self.widths[before] * int(head[(before + 1) * index - 1])
            begin = int(head[kind * index + first])
            end = int(head[kind * index + (first if last is None else last) + 1])
            width = self.widths[kind]
            source.seek(INT * (at + width * begin))
            return np.fromfile(source, np.int64, width * (end - begin)).reshape(-1, width)


def by_number(number: Ints, numbers: int) -> Ints:
    """Returns the order that sorts rows by their number and else keeps it."""
    if len(number) < 2 or bool((number[1:] >= number[:-1]).all()):
        return np.arange(len(number))
    # Of two bytes numpy sorts by counting, many times faster.
    return np.argsort(number.astype(np.int16) if numbers < NARROW_MAX else number, kind="stable")


def write_whole(file: Path, arrays: Sequence[Any]) -> None:
    """Write arrays one after the other, so that `file` names either nothing or the whole of it."""
    with appearing(file) as unfinished, unfinished.open("wb") as sink:
        for array in arrays:
            np.ascontiguousarray(array).tofile(sink)


def buckets_of(values: Ints) -> Ints | None:
    """Returns the coarse buckets of values, sorted, each once; None if they are too many to tell.

    Values mostly ascend along a log: only those in the few buckets that ranges share can stand in two of them.
    """
    bucket = values >> BUCKET_BITS
    if len(bucket):
        bucket = bucket[np.append(True, bucket[1:] != bucket[:-1])]
    found: Ints = np.unique(bucket)
    return found if len(found) <= BUCKETS_MAX else None
