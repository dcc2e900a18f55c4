"""Pass one over a long log: each chunk of its rows is read once, and reduced to what the ranges of its places need.

Of most rows only four numbers for each place are left (`Dense`): the value that was acknowledged there and its epoch, when
first anything ended that knew the log to be longer, and when last anything began that denied it. Reads that saw what this
chunk appended are done with. All else goes as rows to the ranges it is about: second appends of a place, reads that saw
something else, what lies away from where the chunk appended, ends of the log, batches.

Appends of unknown outcome, and refused ones, stand nowhere: they go to the part of their value.
"""

from pathlib import Path
from typing import Any, Final

import attrs
import numpy as np
import numpy.typing as npt

from jepsen_like.checker.log.batches import batches_of
from jepsen_like.checker.log.long.parts import LogDivision, SortedRows, buckets_of, write_whole
from jepsen_like.checker.log.scan import LogSums, LostValue
from jepsen_like.checker.rows.columns import Columns, Ints, begins_operation
from jepsen_like.checker.rows.gather import Chunk, columns_of
from jepsen_like.checker.rows.processes import NO_SPANS, ProcessSpans, require_made
from jepsen_like.checker.rows.tasks import Gathered, load, of_model
from jepsen_like.checker.verdict import Model
from jepsen_like.history.ops import NEVER, NONE, Action, Outcome

APPENDS, READS, KNOWS, DENIES, TAILS, BATCHES = range(6)
"""Kinds of rows that go to ranges: (place, value, epoch) twice, (place, time) twice, (place), (start, end)."""
WIDTHS: Final = (3, 3, 2, 2, 1, 2)
UNKNOWN, REFUSED, FAR = range(3)
"""Kinds of rows that go to parts: (value, begin), (value), and (value) of what was acknowledged behind all ranges."""
VALUE_WIDTHS: Final = (2, 1, 1)
FAR_LOST_MAX: Final = 100


@attrs.frozen(eq=False)
class Dense:
    """Four numbers for each place from `first` on."""

    first: int
    value: Ints
    epoch: npt.NDArray[np.int32]
    known_ns: Ints
    """The moment when the first operation ended that knew of a record at this place."""
    denied_ns: Ints
    """The moment when the last operation began that denies that there is one."""

    @classmethod
    def empty(cls, first: int, size: int) -> "Dense":
        """Returns places of which nothing is known."""
        return cls(
            first,
            np.full(size, NONE, np.int64),
            np.full(size, NONE, np.int32),
            np.full(size, NEVER, np.int64),
            np.full(size, -NEVER, np.int64),
        )

    def __len__(self) -> int:
        return len(self.value)


@attrs.frozen
class DenseFile:
    """The numbers of some places in a file."""

    file: Path
    first: int
    size: int

    def write(self, dense: Dense) -> None:
        """Write them."""
        write_whole(self.file, [dense.value, dense.known_ns, dense.denied_ns, dense.epoch])

    def read(self, begin: int, end: int) -> Dense | None:
        """Returns those of the places between that it has; None if it has none."""
        begin, end = max(begin, self.first), min(end, self.first + self.size)
        if begin >= end:
            return None
        at, count = begin - self.first, end - begin
        with self.file.open("rb") as source:
            columns = []
            for number in range(3):
                source.seek(8 * (number * self.size + at))
                columns.append(np.fromfile(source, np.int64, count))
            source.seek(8 * 3 * self.size + 4 * at)
            epoch = np.fromfile(source, np.int32, count)
        return Dense(begin, columns[0], epoch, columns[1], columns[2])


@attrs.frozen(eq=False, kw_only=True)
class ChunkFacts:
    """The answer of a chunk: sums, a few examples, and the files that it left for the ranges."""

    sums: LogSums
    unknown: int
    """Appends of unknown outcome, in records; and those of them that were sent together with others."""
    unknown_together: int
    batch_max: int
    """The records of the largest batch, 1 without any."""
    spans: ProcessSpans
    dense: DenseFile
    rows: SortedRows
    values: SortedRows
    touched: Ints
    """The ranges that are concerned, sorted."""
    known_ns: Ints
    """For each of them, when the first operation ended that knew of a record in it."""
    buckets: tuple[Ints | None, ...]
    """For each of them, the buckets of the values that were seen in it."""
    far_ns: int
    """The moment when the first operation ended that knew of a record behind all ranges."""
    far_acked: int
    """The number of appends that were acknowledged there."""
    far: tuple[LostValue, ...]
    """The first few values that were said to stand there, and how many there were."""
    far_values: int


@attrs.frozen
class ChunkTask:
    """Reduce a chunk of a log that has these rows to itself."""

    source: Chunk | Gathered | Columns
    division: LogDivision
    directory: Path
    number: int

    def execute(self) -> ChunkFacts:
        """See `Task`."""
        rows, spans = self._rows()
        return _Reduced(rows, self.division).facts(spans, self.directory, self.number)

    def _rows(self) -> tuple[Columns, ProcessSpans]:
        if isinstance(self.source, Gathered | Columns):  # looked at when they were sorted out
            return load([self.source]), NO_SPANS
        path = self.source[0].path
        rows = of_model(columns_of(self.source), path, Model.LOG)
        return rows, require_made(rows, path)


class _Reduced:
    """The rows of a chunk, and what is left of them."""

    def __init__(self, rows: Columns, division: LogDivision) -> None:
        self._rows = rows
        self._division = division
        ok, self._is_append, is_read = rows.type == Outcome.OK, rows.f == Action.APPEND, rows.f == Action.READ
        saw = rows.a != NONE
        ok &= rows.offset >= 0
        self.acked = np.flatnonzero(ok & self._is_append)
        self._saw = np.flatnonzero(ok & is_read & saw)
        self._nothing = np.flatnonzero(ok & is_read & ~saw)
        self._tails = np.flatnonzero(ok & (rows.f == Action.TAIL))
        # At which place each knows of a record, at which it denies one.
        self._knows = (
            (self.acked, rows.offset[self.acked]),
            (self._saw, rows.offset[self._saw]),
            (self._tails, rows.offset[self._tails] - 1),
        )
        self._denies = (
            (self.acked, rows.offset[self.acked]),
            (self._nothing, rows.offset[self._nothing]),
            (self._tails, rows.offset[self._tails]),
        )
        self._sent: list[list[Ints]] = [[] for _ in WIDTHS]

    def facts(self, spans: ProcessSpans, directory: Path, number: int) -> ChunkFacts:
        rows, division = self._rows, self._division
        begins = begins_operation(rows.process, rows.t_inv, rows.t_ret)
        unknown = np.flatnonzero((rows.type == Outcome.INFO) & self._is_append)
        together = rows.count.max(initial=1) > 1
        batches = batches_of(rows, begins) if together else None
        dense = self._dense()
        if batches is not None:
            near = batches.ends <= division.far
            self._send(BATCHES, batches.starts[near], batches.ends[near])
        ends = rows.offset[self._tails]
        self._send(TAILS, ends[ends < division.far])
        file = DenseFile(directory / f"places-{number}", dense.first, len(dense))
        file.write(dense)
        sorted_rows = SortedRows(directory / f"rows-{number}", division.ranges, WIDTHS)
        columns = [_columns(some, width) for some, width in zip(self._sent, WIDTHS, strict=True)]
        sorted_rows.write([(one[0] // division.places, list(one[1:])) for one in columns])
        values = SortedRows(directory / f"values-{number}", division.parts, VALUE_WIDTHS)
        refused = np.unique(rows.a[(rows.type == Outcome.FAIL) & self._is_append])
        value, far = rows.a[unknown], rows.a[self.acked[rows.offset[self.acked] >= division.far]]
        values.write(
            [
                (division.part_of(value), (value, rows.t_inv[unknown])),
                (division.part_of(refused), (refused,)),
                (division.part_of(far), (far,)),
            ]
        )
        touched, known_ns, buckets = self._find_touched(dense, columns)
        return ChunkFacts(
            sums=LogSums.of(rows, begins, batches, *self._longest()),
            unknown=len(unknown),
            unknown_together=0 if batches is None else int((batches.batch[unknown] != NONE).sum()),
            batch_max=int(rows.count[self._is_append].max(initial=1)) if together else 1,
            spans=spans,
            dense=file,
            rows=sorted_rows,
            values=values,
            touched=touched,
            known_ns=known_ns,
            buckets=buckets,
            **self._far(),
        )

    def _dense(self) -> Dense:
        """Reduce what lies where this chunk appended; note all that is more than that."""
        rows = self._rows
        first, end = self._window(rows.offset[self.acked])
        dense = Dense.empty(first, end - first)
        appends, at = self._inside(self.acked, rows.offset[self.acked], dense)
        dense.value[at] = rows.a[appends]
        is_once = np.count_nonzero(dense.value != NONE) == len(at)
        if not is_once:
            chosen = np.full(len(dense), NONE, np.int64)
            chosen[at] = np.arange(len(at))
            second = chosen[at] != np.arange(len(at))
            self._send_rows(APPENDS, appends[second])
            self._spread(dense, appends, at)
            appends, at = appends[~second], at[~second]
            dense.value[at] = rows.a[appends]
        else:
            dense.known_ns[at], dense.denied_ns[at] = rows.t_ret[appends], rows.t_inv[appends]
        dense.epoch[at] = rows.epoch[appends]
        for row, place in self._knows[1:]:
            inside, at = self._inside(row, place, dense)
            np.minimum.at(dense.known_ns, at, rows.t_ret[inside])
        for row, place in self._denies[1:]:
            inside, at = self._inside(row, place, dense)
            np.maximum.at(dense.denied_ns, at, rows.t_inv[inside])
        self._send_rows(APPENDS, self._outside(*self._knows[0], dense))
        for row, place in self._knows:
            self._send_pairs(KNOWS, row, place, rows.t_ret, dense)
        for row, place in self._denies:
            self._send_pairs(DENIES, row, place, rows.t_inv, dense)
        self._send_rows(READS, self._outside(*self._knows[1], dense))
        saw, at = self._inside(*self._knows[1], dense)
        agrees = (dense.value[at] == rows.a[saw]) & ((rows.epoch[saw] == NONE) | (rows.epoch[saw] == dense.epoch[at]))
        self._send_rows(READS, saw[~agrees])
        return dense

    def _spread(self, dense: Dense, row: Ints, at: Ints) -> None:
        np.minimum.at(dense.known_ns, at, self._rows.t_ret[row])
        np.maximum.at(dense.denied_ns, at, self._rows.t_inv[row])

    def _window(self, offset: Ints) -> tuple[int, int]:
        """Returns where most of a chunk's appends are: no wider than its rows are many, on both sides of the middle."""
        near = offset[offset < self._division.far]
        if not len(near):
            return 0, 0
        middle, reach = int(np.median(near[:: max(1, len(near) >> 10)])), len(self._rows)
        near = near[(near >= middle - reach) & (near <= middle + reach)]
        # One place more, which the ends of the log deny.
        return int(near.min()), min(int(near.max()) + 2, self._division.far)

    def _inside(self, row: Ints, place: Ints, dense: Dense) -> tuple[Ints, Ints]:
        at = place - dense.first
        inside = (at >= 0) & (at < len(dense))
        return (row, at) if inside.all() else (row[inside], at[inside])

    def _outside(self, row: Ints, place: Ints, dense: Dense) -> Ints:
        at = place - dense.first
        return row[((at < 0) | (at >= len(dense))) & (place < self._division.far)]

    def _send(self, kind: int, place: Ints, *columns: npt.NDArray[Any]) -> None:
        """Rows for the range of their place."""
        if len(place):
            self._sent[kind].append(np.stack([place, place, *(one.astype(np.int64, copy=False) for one in columns)]))

    def _send_rows(self, kind: int, row: Ints) -> None:
        rows = self._rows
        self._send(kind, rows.offset[row], rows.a[row], rows.epoch[row])

    def _send_pairs(self, kind: int, row: Ints, place: Ints, time: Ints, dense: Dense) -> None:
        at = place - dense.first
        chosen = ((at < 0) | (at >= len(dense))) & (place >= 0) & (place < self._division.far)
        self._send(kind, place[chosen], time[row[chosen]])

    def _find_touched(self, dense: Dense, columns: list[Ints]) -> tuple[Ints, Ints, tuple[Ints | None, ...]]:
        places = self._division.places
        of_dense = np.arange(dense.first // places, -(-(dense.first + len(dense)) // places)) if len(dense) else _NO
        touched = np.unique(np.concatenate([of_dense, *(np.unique(one[0] // places) for one in columns)]))
        known_ns = np.full(len(touched), NEVER, np.int64)
        knows = columns[KNOWS]
        np.minimum.at(known_ns, np.searchsorted(touched, knows[0] // places), knows[2])
        said = np.concatenate([columns[APPENDS][:3], columns[READS][:3]], axis=1)
        said = said[:, np.argsort(said[0] // places, kind="stable")]
        cuts = np.searchsorted(said[0] // places, np.append(touched, self._division.ranges))
        buckets: list[Ints | None] = []
        for at, number in enumerate(touched.tolist()):
            begin, end = (min(max(0, one * places - dense.first), len(dense)) for one in (number, number + 1))
            known_ns[at] = min(int(known_ns[at]), int(dense.known_ns[begin:end].min(initial=NEVER)))
            value = dense.value[begin:end]
            buckets.append(buckets_of(np.concatenate([value[value != NONE], said[2, cuts[at] : cuts[at + 1]]])))
        return touched, known_ns, tuple(buckets)

    def _longest(self) -> tuple[int, int]:
        """Returns the row that knew the greatest length of all, and the length."""
        best, length = NONE, 0
        for row, place in self._knows:
            if len(place) and int(place.max()) + 1 > length:
                at = int(np.argmax(place))
                best, length = int(row[at]), int(place[at]) + 1
        return best, length

    def _far(self) -> dict[str, Any]:
        """Returns what is said of places behind all ranges."""
        rows, far = self._rows, self._division.far
        ends = [rows.t_ret[row[place >= far]].min(initial=NEVER) for row, place in self._knows]
        acked, saw = (row[place >= far] for row, place in self._knows[:2])
        lost = {(int(rows.offset[row]), int(rows.a[row])): True for row in acked}
        for row in saw:
            lost.setdefault((int(rows.offset[row]), int(rows.a[row])), False)
        some = sorted(lost.items())[:FAR_LOST_MAX]
        return {
            "far_ns": int(min(ends)),
            "far_acked": len(acked),
            "far": tuple(LostValue(*pair, is_acked) for pair, is_acked in some),
            "far_values": len(lost),
        }


_NO: Final[Ints] = np.zeros(0, np.int64)


def _columns(some: list[Ints], width: int) -> Ints:
    """The place of each row, and its columns."""
    return np.concatenate(some, axis=1) if some else np.zeros((1 + width, 0), np.int64)
