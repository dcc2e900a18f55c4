"""The pieces of work of a check of compaction: a group of whole partitions each."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

import attrs

from jepsen_like.checker.compaction.partition import CompactionTerms, KeyedFacts, judge_partition
from jepsen_like.checker.engine.job import Job
from jepsen_like.checker.groups import Long, sort_out, sort_out_dump
from jepsen_like.checker.model import Conclusion
from jepsen_like.checker.rows.columns import count_operations
from jepsen_like.checker.rows.gather import batches_of
from jepsen_like.checker.rows.packs import Packs
from jepsen_like.checker.rows.processes import find_malformed, refuse_malformed
from jepsen_like.checker.rows.tasks import Gathered, Source, Task, of_model
from jepsen_like.checker.transactions.partition import WrittenPartition
from jepsen_like.checker.transactions.tasks import logs_in
from jepsen_like.checker.verdict import Check, CompactionCounts, Findings, Model, Undecided
from jepsen_like.history.files import HistoryReader
from jepsen_like.history.ops import NEVER, Action, Outcome

NO_DELETION: Final = "deletions: every deleted key has a record in the final logs, so none was seen to leave"


@attrs.frozen
class CompactionTask:
    """Judge all partitions of a group."""

    sources: tuple[Source, ...]
    dump: tuple[Gathered, ...]
    """Their records in the final logs of all nodes; none without final logs."""
    nodes: Mapping[int, tuple[int, ...]]
    """By partition: the nodes whose final logs were read."""
    terms: CompactionTerms
    rows_max: int
    """See `Limits.object`."""

    def execute(self) -> tuple[Findings, tuple[KeyedFacts, ...]]:
        """See `Task`."""
        packs = Packs.of((*self.sources, *self.dump), self.rows_max)
        findings, facts = packs.report_large(self.sources, lambda number: f"partition {number}"), list[KeyedFacts]()
        for pack, rows in packs.rows(self.sources):
            of_model(rows, self.sources[0], Model.COMPACTED)
            path = self.sources[0] if isinstance(self.sources[0], Path) else Path("history")
            refuse_malformed(path, find_malformed(rows))
            for number in pack.tolist():
                one = WrittenPartition.of(
                    number, rows.where(rows.object == number), logs_in(self.dump, number, self.nodes.get(number))
                )
                found, shown = _judge(one, self.terms)
                findings = findings.plus(found)
                facts.append(shown)
        return findings, tuple(facts)


def _judge(one: WrittenPartition, terms: CompactionTerms) -> tuple[Findings, KeyedFacts]:
    """Returns what is wrong with one partition, and what its compaction did."""
    breaches, facts, lost = judge_partition(one, terms)
    rows = one.rows
    sends = rows.f == Action.SEND
    acked = int((sends & (rows.type == Outcome.OK)).sum())
    why = None
    if acked and not one.logs:
        why = "no node left a final log of it"
    elif acked and not facts.removed:
        why = "its final logs have all that was acknowledged: compaction removed nothing, so nothing was tested"
    undecided = () if why is None else (Undecided(one.number, f"partition {one.number}: {why}"),)
    return attrs.evolve(
        count_operations(rows.type[sends]),
        objects=1,
        violated=frozenset([one.number] if breaches.counts else []),
        counts=breaches.counts,
        violations=tuple(breaches.violations),
        undecided=undecided,
        acked=acked,
        lost_acked=lost,
        duplicated=breaches.counts.get(Check.DUPLICATED, 0),
        unread=int(acked > 0 and not one.logs),
        t_first=int(rows.t_inv[sends].min(initial=NEVER)),
    ), facts


@attrs.define
class CompactionCheck:
    """The check of compacted partitions; see `ModelCheck`."""

    dump: Sequence[Path]
    """The part files of the final logs."""
    nodes: Mapping[int, tuple[int, ...]]
    terms: CompactionTerms

    def plan(self, history: HistoryReader, job: Job) -> Sequence[Task]:
        """Returns a task for each group of partitions. Raises `UnreadableHistory`."""
        sorted_out = sort_out(history, Model.COMPACTED, job)
        files = sort_out_dump(self.dump, sorted_out.divisions, job)
        return [
            CompactionTask(sources, batches_of(files, number), self.nodes, self.terms, job.limits.object)
            for number, sources in enumerate(sorted_out.groups)
            if not isinstance(sources, Long)
        ]

    def join(self, results: Sequence[tuple[Findings, Sequence[KeyedFacts]]]) -> Conclusion:
        """Returns everything that is wrong with the partitions, and what their compaction did."""
        findings = Findings.join([found for found, _ in results])
        facts = [one for _, some in results for one in some]
        counts = CompactionCounts(
            removed=sum(one.removed for one in facts),
            keys=sum(one.keys for one in facts),
            deleted_keys=sum(one.deleted_keys for one in facts),
        )
        shown = [] if counts.deleted_keys else [NO_DELETION]
        return Conclusion(attrs.evolve(findings, unjudged=frozenset(shown)), compaction=counts)


def terms_of(test: Mapping[str, object], dumped_ns: int) -> CompactionTerms:
    """Returns what a run's test.json promises of its topic. Raises `ValueError` if that makes no sense."""
    said = test.get("compaction", {})
    if not isinstance(said, Mapping):
        raise ValueError(f"compaction: {said!r} is no object")
    found = {}
    for name in ("min_lag_ms", "delete_retention_ms"):
        value = said.get(name, 0)
        if type(value) is not int or value < 0:
            raise ValueError(f"compaction.{name}: {value!r} is no number of milliseconds")
        found[name] = value * 1_000_000
    return CompactionTerms(found["min_lag_ms"], found["delete_retention_ms"], dumped_ns or NEVER)
