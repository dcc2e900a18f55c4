"""The pieces of work of a check of transactions: a group of whole partitions each. What joins partitions is judged afterwards."""

from collections.abc import Sequence
from pathlib import Path

import attrs
import numpy as np

from jepsen_like.checker.engine.job import Job
from jepsen_like.checker.groups import Long, sort_out, sort_out_dump
from jepsen_like.checker.model import Conclusion
from jepsen_like.checker.rows.columns import Columns, count_operations
from jepsen_like.checker.rows.gather import batches_of
from jepsen_like.checker.rows.packs import Packs
from jepsen_like.checker.rows.processes import find_malformed, refuse_malformed
from jepsen_like.checker.rows.tasks import Gathered, Source, Task, of_model
from jepsen_like.checker.transactions.check import join
from jepsen_like.checker.transactions.partition import FinalRecords, PartitionFacts, WrittenPartition, judge_partition
from jepsen_like.checker.verdict import Check, Findings, Model, Undecided
from jepsen_like.history.files import HistoryReader
from jepsen_like.history.ops import NEVER, Action, Outcome


@attrs.frozen
class TransactionTask:
    """Judge all partitions of a group."""

    sources: tuple[Source, ...]
    dump: tuple[Gathered, ...]
    """Their records in the final logs of all nodes; none without final logs."""
    rows_max: int
    """See `Limits.object`."""

    def execute(self) -> tuple[Findings, tuple[PartitionFacts, ...]]:
        """See `Task`."""
        packs = Packs.of((*self.sources, *self.dump), self.rows_max)
        findings, facts = packs.report_large(self.sources, lambda number: f"partition {number}"), list[PartitionFacts]()
        for pack, rows in packs.rows(self.sources):
            of_model(rows, self.sources[0], Model.TRANSACTIONS)
            path = self.sources[0] if isinstance(self.sources[0], Path) else Path("history")
            refuse_malformed(path, find_malformed(rows))
            for number in pack.tolist():
                found, shown = _judge(number, rows.where(rows.object == number), logs_in(self.dump, number))
                findings = findings.plus(found)
                facts.append(shown)
        return findings, tuple(facts)


def logs_in(dump: Sequence[Gathered], number: int, nodes: Sequence[int] | None = None) -> tuple[FinalRecords, ...]:
    """Returns the final logs of a partition: of these nodes, one may be empty, or of all that have a record of it."""
    tables = [one.table() for one in dump]
    masks = [table.column("object").to_numpy() == number for table in tables]
    node, offset, a = (
        np.concatenate(
            [
                np.zeros(0, np.int64),
                *(table.column(name).to_numpy()[mask] for table, mask in zip(tables, masks, strict=True)),
            ]
        ).astype(np.int64)
        for name in ("node", "offset", "a")
    )
    named = np.unique(node).tolist() if nodes is None else nodes
    return tuple(FinalRecords.of(each, offset[node == each], a[node == each]) for each in named)


def _judge(number: int, rows: Columns, logs: tuple[FinalRecords, ...]) -> tuple[Findings, PartitionFacts]:
    """Returns what is wrong with one partition, and what it shows of transactions."""
    breaches, facts, lost = judge_partition(WrittenPartition.of(number, rows, logs))
    sends = rows.f == Action.SEND
    acked = int((sends & (rows.type == Outcome.OK)).sum())
    undecided: tuple[Undecided, ...] = ()
    if acked and not facts.views:
        undecided = (Undecided(number, f"partition {number} has neither a final read nor final logs"),)
    return attrs.evolve(
        count_operations(rows.type[sends]),
        objects=1,
        violated=frozenset([number] if breaches.counts else []),
        counts=breaches.counts,
        violations=tuple(breaches.violations),
        undecided=undecided,
        acked=acked,
        lost_acked=lost,
        duplicated=breaches.counts.get(Check.DUPLICATED, 0),
        unread=int(bool(undecided)),
        t_first=int(rows.t_inv[sends].min(initial=NEVER)),
    ), facts


@attrs.define
class TransactionsCheck:
    """The check of transactions; see `ModelCheck`."""

    dump: Sequence[Path]
    """The part files of the final logs."""

    def plan(self, history: HistoryReader, job: Job) -> Sequence[Task]:
        """Returns a task for each group of partitions. Raises `UnreadableHistory`."""
        sorted_out = sort_out(history, Model.TRANSACTIONS, job)
        files = sort_out_dump(self.dump, sorted_out.divisions, job)
        return [
            TransactionTask(sources, batches_of(files, number), job.limits.object)
            for number, sources in enumerate(sorted_out.groups)
            if not isinstance(sources, Long)
        ]

    def join(self, results: Sequence[tuple[Findings, Sequence[PartitionFacts]]]) -> Conclusion:
        """Returns everything that is wrong with the partitions, and with the transactions over all of them."""
        findings = Findings.join([found for found, _ in results])
        facts = sorted((one for _, some in results for one in some), key=lambda one: one.partition)
        if not facts or findings.undecided:
            return Conclusion(findings)
        over_all, counts = join(facts)
        return Conclusion(findings.plus(over_all), transactions=counts)
