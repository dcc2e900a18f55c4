"""The pieces of work of a check of queues: a group of whole partitions each, with what is in them in the end."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import attrs
import numpy as np

from jepsen_like.checker.allowance import Allowance, AllowedLoss
from jepsen_like.checker.engine.job import Job
from jepsen_like.checker.groups import Long, kept_of_groups, sort_out, sort_out_dump
from jepsen_like.checker.model import Conclusion
from jepsen_like.checker.queue.check import check_queue
from jepsen_like.checker.queue.keys import check_keys
from jepsen_like.checker.queue.rows import QueueExpectations
from jepsen_like.checker.rows.columns import Ints
from jepsen_like.checker.rows.final_logs import FinalLog, final_logs_of
from jepsen_like.checker.rows.gather import batches_of
from jepsen_like.checker.rows.packs import Packs
from jepsen_like.checker.rows.processes import find_malformed, refuse_malformed
from jepsen_like.checker.rows.tasks import Gathered, Source, Task, load, of_model
from jepsen_like.checker.verdict import Check, Findings, Model, Undecided
from jepsen_like.history.files import HistoryReader, Kept
from jepsen_like.history.ops import NEVER, NONE


@attrs.frozen
class QueueTask:
    """Check all partitions of a group."""

    sources: tuple[Source, ...]
    dump: tuple[Gathered, ...]
    """Their records in the final logs of all nodes; none without final logs."""
    kept: Mapping[int, Kept] | None
    """Of these partitions alone."""
    expectations: QueueExpectations
    allowances: tuple[Allowance, ...]
    rows_max: int
    """See `Limits.object`."""

    def execute(self) -> tuple[Findings, tuple[AllowedLoss, ...]]:
        """See `Task`."""
        packs = Packs.of((*self.sources, *self.dump), self.rows_max)
        findings, losses = packs.report_large(self.sources, self._name_of), list[AllowedLoss]()
        for pack, rows in packs.rows(self.sources):
            of_model(rows, self.sources[0], Model.QUEUE)
            path = self.sources[0] if isinstance(self.sources[0], Path) else Path("history")
            refuse_malformed(path, find_malformed(rows))
            found, lost = check_queue(rows, self._final_logs(pack), self.expectations, self.allowances)
            findings = findings.plus(found)
            losses += lost
        return findings, tuple(losses)

    def _name_of(self, number: int) -> str:
        return self.expectations.partition(number) + (" with its final records" if self.dump else "")

    def _final_logs(self, pack: Ints) -> Mapping[int, Sequence[FinalLog]]:
        import pyarrow as pa

        tables = (one.table() for one in self.dump)
        mine = [table.filter(pa.array(np.isin(table.column("object").to_numpy(), pack))) for table in tables]
        known = self.kept
        kept = None if known is None else {obj: known[obj] for obj in pack.tolist() if obj in known}
        if not sum(table.num_rows for table in mine) and not kept:
            return {}
        return final_logs_of(pa.concat_tables(mine).combine_chunks(), kept)


@attrs.define
class QueueCheck:
    """The check of partitions and their consumers; see `ModelCheck`."""

    dump: Sequence[Path]
    """The part files of the final logs."""
    kept: Mapping[int, Kept] | None
    expectations: QueueExpectations
    allowances: Sequence[Allowance]
    _history: HistoryReader | None = attrs.field(default=None, init=False)
    _rows_max: int = attrs.field(default=0, init=False)

    def plan(self, history: HistoryReader, job: Job) -> Sequence[Task]:
        """Returns a task for each group of partitions. Raises `UnreadableHistory`."""
        self._history, self._rows_max = history, job.limits.object
        sorted_out = sort_out(history, Model.QUEUE, job)
        files = sort_out_dump(self.dump, sorted_out.divisions, job)
        kept, allowances = kept_of_groups(self.kept, sorted_out), tuple(self.allowances)
        return [
            QueueTask(sources, batches_of(files, number), kept[number], self.expectations, allowances, self._rows_max)
            for number, sources in enumerate(sorted_out.groups)
            if not isinstance(sources, Long)
        ]

    def join(self, results: Sequence[tuple[Findings, Sequence[AllowedLoss]]]) -> Conclusion:
        """Returns everything that is wrong with the partitions, and what was lost and may have been."""
        assert self._history is not None
        findings = Findings.join([found for found, _ in results])
        if self.expectations.keys:
            findings = findings.plus(_check_order_of_keys(self._history, self.expectations, self._rows_max))
        if findings.t_first == NEVER:
            findings = attrs.evolve(findings, t_first=self._history.began_ns())
        losses = [attrs.evolve(loss, origin_ns=findings.t_first) for _, lost in results for loss in lost]
        losses.sort(key=lambda loss: (loss.allowance.begun_ns, loss.object))
        return Conclusion(findings, tuple(losses), frozenset([Check.LOST]) if findings.unread else frozenset())


def _check_order_of_keys(history: HistoryReader, expectations: QueueExpectations, rows_max: int) -> Findings:
    """Returns everything that is wrong with the order of keys, which is that over all partitions."""
    rows = history.rows()
    if rows > rows_max:
        reason = (
            f"the order of the messages of each key was not checked: it is that over all partitions, and of their {rows:,} rows "
            f"a process holds {rows_max:,}"
        )
        return Findings(undecided=(Undecided(NONE, reason),))
    return check_keys(of_model(load(history.files()), history.files()[0], Model.QUEUE), expectations)
