"""The pieces of work of a check of two clusters: a group of whole partitions each, with the rows of both clusters."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import attrs

from jepsen_like.checker.allowance import AllowedLoss
from jepsen_like.checker.engine.job import Job
from jepsen_like.checker.groups import Long, sort_out, sort_out_dump
from jepsen_like.checker.mirror.partition import judge_records
from jepsen_like.checker.mirror.readers import judge_readers
from jepsen_like.checker.mirror.rows import MirroredPartition, MirrorNames
from jepsen_like.checker.model import Conclusion
from jepsen_like.checker.rows.columns import count_operations
from jepsen_like.checker.rows.gather import batches_of
from jepsen_like.checker.rows.packs import Packs
from jepsen_like.checker.rows.processes import find_malformed, refuse_malformed
from jepsen_like.checker.rows.tasks import Gathered, Source, Task, of_model
from jepsen_like.checker.transactions.partition import Breaches
from jepsen_like.checker.transactions.tasks import logs_in
from jepsen_like.checker.verdict import Findings, MirrorCounts, Model, Undecided
from jepsen_like.history.files import HistoryReader, UnreadableHistory
from jepsen_like.history.ops import NEVER, Action, Outcome

Judged = tuple[Findings, MirrorCounts, tuple[AllowedLoss, ...]]


@attrs.frozen
class MirrorTask:
    """Judge all partitions of a group."""

    sources: tuple[Source, ...]
    dump: tuple[Gathered, ...]
    """Their records in the final logs of both clusters; none without final logs."""
    clusters: Mapping[int, tuple[int, ...]]
    """By partition: the clusters whose final logs were read."""
    names: MirrorNames
    rows_max: int
    """See `Limits.object`."""

    def execute(self) -> Judged:
        """See `Task`."""
        packs = Packs.of((*self.sources, *self.dump), self.rows_max)
        findings, counts = packs.report_large(self.sources, self.names.partition), MirrorCounts()
        losses = list[AllowedLoss]()
        for pack, rows in packs.rows(self.sources):
            of_model(rows, self.sources[0], Model.MIRRORED)
            path = self.sources[0] if isinstance(self.sources[0], Path) else Path("history")
            refuse_malformed(path, find_malformed(rows))
            for number in pack.tolist():
                logs = logs_in(self.dump, number, self.clusters.get(number))
                try:
                    one = MirroredPartition.of(number, rows.where(rows.object == number), logs, self.names)
                except ValueError as error:
                    raise UnreadableHistory(path, f"{self.names.partition(number)}: {error}") from error
                found, of_one, lost = judge_mirrored(one)
                findings, counts, losses = findings.plus(found), counts.plus(of_one), [*losses, *lost]
        return findings, counts, tuple(losses)


def judge_mirrored(one: MirroredPartition) -> Judged:
    """Returns what is wrong with one partition, the figures of its switches, and the losses that are its mirror's lag."""
    found = Breaches(one.number)
    facts = judge_records(one, found)
    readers = judge_readers(one, facts.is_left, found)
    rows = one.rows
    sends = rows.f == Action.SEND
    findings = attrs.evolve(
        count_operations(rows.type[sends]),
        objects=1,
        violated=frozenset([one.number] if found.counts else []),
        counts=found.counts,
        violations=tuple(found.violations),
        undecided=_list_undecided(one),
        acked=int((sends & (rows.type == Outcome.OK)).sum()),
        lost_acked=facts.lost,
        duplicated=facts.counts.doubled,
        unjudged=frozenset(readers.unread),
        t_first=int(rows.t_inv[sends].min(initial=NEVER)),
    )
    return findings, facts.counts.plus(readers.counts), facts.losses


def _list_undecided(one: MirroredPartition) -> tuple[Undecided, ...]:
    """Returns why nothing, or not all, can be said about a partition."""
    name = one.names.partition(one.number)
    if not one.switches:
        return (Undecided(one.number, f"{name} was never switched to another cluster, so nothing was tested"),)
    clusters = {switch.source for switch in one.switches} | {switch.target for switch in one.switches}
    missing = sorted(clusters - set(one.logs))
    return tuple(
        Undecided(one.number, f"{name} has no final log of {one.names.cluster(cluster)}") for cluster in missing
    )


@attrs.define
class MirrorCheck:
    """The check of two clusters; see `ModelCheck`."""

    dump: Sequence[Path]
    """The part files of the final logs."""
    clusters: Mapping[int, tuple[int, ...]]
    names: MirrorNames

    def plan(self, history: HistoryReader, job: Job) -> Sequence[Task]:
        """Returns a task for each group of partitions. Raises `UnreadableHistory`."""
        sorted_out = sort_out(history, Model.MIRRORED, job)
        files = sort_out_dump(self.dump, sorted_out.divisions, job)
        return [
            MirrorTask(sources, batches_of(files, number), self.clusters, self.names, job.limits.object)
            for number, sources in enumerate(sorted_out.groups)
            if not isinstance(sources, Long)
        ]

    def join(self, results: Sequence[Judged]) -> Conclusion:
        """Returns everything that is wrong with the partitions, and what their switches cost."""
        counts = MirrorCounts()
        for _, of_task, _ in results:
            counts = counts.plus(of_task)
        losses = sorted((loss for _, _, some in results for loss in some), key=lambda loss: loss.object)
        return Conclusion(Findings.join([found for found, _, _ in results]), losses=tuple(losses), mirror=counts)
