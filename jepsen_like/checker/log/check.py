"""Checks logs of any size in bounded memory: short ones in groups, one by one, a long one in parts."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

import attrs
import pyarrow as pa

from jepsen_like.checker.allowance import Allowance, AllowedLoss
from jepsen_like.checker.engine.job import Job
from jepsen_like.checker.groups import Long, dump_sizes, kept_of_groups, require_apart, sort_out, sort_out_dump
from jepsen_like.checker.log.explain import without_final_log
from jepsen_like.checker.log.long.check import check_long_log
from jepsen_like.checker.log.long.final_parts import DumpCensusTask, FinalParts
from jepsen_like.checker.log.tasks import LogsTask
from jepsen_like.checker.model import Conclusion
from jepsen_like.checker.rows.final_logs import DUMP, LOG_OBJECT, final_logs_of
from jepsen_like.checker.rows.gather import batches_of, chunks_of, rows_in, with_sizes
from jepsen_like.checker.rows.tasks import Gathered, Task
from jepsen_like.checker.verdict import Check, Findings, Model, Undecided
from jepsen_like.history.files import HistoryReader, Kept, UnreadableHistory, read_dump_part, read_part

LOGS_DIRECT_MAX: Final = 8
"""A history of more logs than this is sorted out by log first: its part files have rows of each."""
WHOLE_ROWS_MAX: Final = 1 << 25
"""A log with batches of unknown outcome is checked by one task, if it has no more rows than this."""


@attrs.define
class LogsCheck:
    """The check of logs; see `ModelCheck`."""

    dump: Sequence[Path]
    """The part files of the final logs; none if they are not known."""
    kept: Mapping[int, Kept] | None
    allowances: Sequence[Allowance]
    _findings: Findings = attrs.field(factory=Findings, init=False)
    """The findings of planning."""

    @property
    def expires(self) -> bool:
        """Returns whether records may leave any log of the run by a rule."""
        return any(of_log.rule.may_expire for of_log in (self.kept or {}).values())

    def plan(self, history: HistoryReader, job: Job) -> Sequence[Task]:
        """Returns a task for each group of short logs, once all others are checked. Raises `UnreadableHistory`."""
        rows, records = rows_in(with_sizes(history.files())), rows_in(with_sizes(self.dump))
        # What faults explain is found with all of a log in memory.
        records_max = job.limits.direct * (2 if self.allowances else 1)
        if rows > job.limits.direct or records > records_max or _count_logs(history) > LOGS_DIRECT_MAX:
            return self._plan_groups(history, job)
        if not history.files():
            if self.dump:  # it may be damaged all the same
                final_logs_of(
                    pa.concat_tables([read_dump_part(part) for part in self.dump]).combine_chunks(), self.kept
                )
            return ()
        dump = tuple(self.dump) or None
        return [LogsTask(tuple(history.files()), dump, self.kept, tuple(self.allowances), self.expires, together=False)]

    def join(self, results: Sequence[tuple[Findings, Sequence[AllowedLoss]]]) -> Conclusion:
        """Returns everything that is wrong with the logs, and what was lost and may have been."""
        findings = Findings.join([self._findings, *(found for found, _ in results)])
        losses = [loss for _, lost in results for loss in lost]
        unchecked = frozenset[Check]() if self.dump and not findings.unread else frozenset([Check.LOST])
        return Conclusion(findings, tuple(sorted(losses, key=lambda loss: loss.object)), unchecked)

    def _plan_groups(self, history: HistoryReader, job: Job) -> Sequence[Task]:
        """Check the long logs, and plan a task for each group of the others."""
        sorted_out = sort_out(history, Model.LOG, job)
        short = {number: group for number, group in enumerate(sorted_out.groups) if not isinstance(group, Long)}
        for number, long in enumerate(sorted_out.groups):
            if isinstance(long, Long) and not self._check_long(long, job):
                short[number] = long.whole
        if not short:
            return ()
        files = sort_out_dump(self.dump, sorted_out.divisions, job) if self.dump else None
        kept = kept_of_groups(self.kept, sorted_out)
        return [
            LogsTask(
                sources,
                None if files is None else batches_of(files, number),
                kept[number],
                tuple(self.allowances),
                self.expires,
                sorted_out.together[number],
            )
            for number, sources in short.items()
        ]

    def _check_long(self, long: Long, job: Job) -> bool:
        """Check a long log in parts. Returns False for one that a task has to check with all of its rows."""
        final = self._final_parts(long.object, job) if self.dump else None
        found, chunks = check_long_log(long.object, long.sources, long.rows, final, job)
        if not isinstance(long.sources[0], Gathered):
            parts = [source for source in long.sources if not isinstance(source, Gathered)]
            require_apart(parts, [chunk.spans for chunk in chunks], job)
        if any(chunk.unknown_together for chunk in chunks) and long.rows <= WHOLE_ROWS_MAX:
            return False
        found = without_final_log(found) if final is None and self.dump else found
        self._findings = self._findings.plus(_excuse(found, long, final, self.allowances))
        return True

    def _final_parts(self, obj: int, job: Job) -> FinalParts | None:
        """Returns the final logs of a long log; None if there are none of it. Raises `UnreadableHistory`."""
        mine = (self.kept or {}).get(obj)
        chunks = chunks_of(((path, (rows,)) for path, rows in dump_sizes(self.dump)), job.limits.chunk)
        starts = dict(mine.starts) if mine is not None else {}
        censuses = [
            DumpCensusTask(obj, tuple(part.path for part in chunk), starts, job.limits.task) for chunk in chunks
        ]
        parts = [part for counted in job.run(censuses) for part in counted]
        if self.kept is not None and mine is None and parts:
            raise UnreadableHistory(Path(DUMP), f"has records of log {obj}, and does not say where it begins")
        if mine is None and not parts and not (obj == LOG_OBJECT and not rows_in(with_sizes(self.dump))):
            return None
        return FinalParts.of(obj, parts, mine, expires=self.expires)


def _excuse(found: Findings, long: Long, final: FinalParts | None, allowances: Sequence[Allowance]) -> Findings:
    """The same, if no fault can have cost what is wrong; else undecided: what a fault explains is found in memory only."""
    if not found.violated or final is None or not any(one.reaches(long.object) for one in allowances):
        return found
    reason = (
        f"something is wrong with it that faults of the run may explain ({found.violations[0].sentence}), and a log "
        f"of {long.rows:,} rows is too long to take out what they do"
    )
    undecided = (*found.undecided, Undecided(long.object, reason))
    return attrs.evolve(found, violated=frozenset(), counts={}, violations=(), undecided=undecided)


def _count_logs(history: HistoryReader) -> int:
    """Returns how many logs the first part file of each bucket is about."""
    first = [parts[0] for parts in history.parts if parts]
    return sum(len(read_part(path, ("object",)).column("object").unique()) for path in first)
