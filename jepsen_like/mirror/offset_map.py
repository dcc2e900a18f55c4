"""The correspondence of offsets between a partition and its copy: a translation never skips a record. Pure.

A run is a stretch of records whose offsets are dense on both sides. Between runs lie markers, aborted records, and gaps of
compaction. A position between two runs becomes the end of the earlier one, since the next record of the copy stands there
or later. So a missing run makes a consumer read again, and never makes it miss a record.
"""

from bisect import bisect_right
from collections.abc import Iterable
from typing import Final

import attrs

RUNS_MAX: Final = 50_000
"""The largest number of runs; from then on every other one of the older half is dropped."""


@attrs.frozen(order=True)
class RecordRun:
    """`count` records from offset `source` on stand from offset `target` on. A count of 0 marks where a copy began."""

    source: int
    target: int
    count: int

    @property
    def source_end(self) -> int:
        """The offset after its last record."""
        return self.source + self.count

    @property
    def target_end(self) -> int:
        """The offset after the copy of its last record."""
        return self.target + self.count

    def inverse(self) -> "RecordRun":
        """Returns the run seen from the copy."""
        return RecordRun(self.target, self.source, self.count)


@attrs.define
class OffsetMap:
    """The runs of one partition, in order."""

    _runs: list[RecordRun] = attrs.field(factory=list)
    _starts: list[int] = attrs.field(factory=list)

    @classmethod
    def of(cls, runs: Iterable[RecordRun]) -> "OffsetMap":
        """Returns the map of these runs, in any order."""
        made = cls()
        for run in sorted(runs):
            made.add(run)
        return made

    def add(self, run: RecordRun) -> None:
        """Add a run that lies behind all others."""
        if self._runs:
            last = self._runs[-1]
            if last.source_end == run.source and last.target_end == run.target:
                self._runs[-1] = RecordRun(last.source, last.target, last.count + run.count)
                return
        self._runs.append(run)
        self._starts.append(run.source)
        if len(self._runs) > RUNS_MAX:
            self._thin()

    @property
    def runs(self) -> tuple[RecordRun, ...]:
        """The runs, in order."""
        return tuple(self._runs)

    def translate(self, offset: int) -> int:
        """Returns the position in the copy for a consumer that reads `offset` next.

        Every record at or behind `offset` stands at the result or behind it. Below all runs that is the start, 0.
        """
        at = bisect_right(self._starts, offset) - 1
        if at < 0:
            return 0
        run = self._runs[at]
        return run.target + min(offset - run.source, run.count)

    def _thin(self) -> None:
        half = len(self._runs) // 2
        self._runs = [*self._runs[:half:2], *self._runs[half:]]
        self._starts = [run.source for run in self._runs]
