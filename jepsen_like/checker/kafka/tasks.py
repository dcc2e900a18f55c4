"""The pieces of work of a check of partitions seen by their clients: a group of whole partitions each."""

from collections.abc import Sequence
from pathlib import Path

import attrs
import numpy as np

from jepsen_like.checker.cycles.graph import Edges, Kind, Piece
from jepsen_like.checker.cycles.levels import KeptOrder
from jepsen_like.checker.cycles.reads import KeyFacts
from jepsen_like.checker.cycles.search import cycles_in
from jepsen_like.checker.cycles.tasks import batches, join_facts
from jepsen_like.checker.cycles.told import ToldCycles
from jepsen_like.checker.elements.tasks import whole_groups
from jepsen_like.checker.engine.job import Job
from jepsen_like.checker.found import Found
from jepsen_like.checker.kafka.partition import (
    INTERLEAVES,
    KnownLog,
    check_internal,
    check_losses,
    check_origins,
    check_places,
    check_polls,
    check_positions,
    check_sends,
    dependencies,
    nodes,
    polled_values,
)
from jepsen_like.checker.model import Conclusion
from jepsen_like.checker.rows.columns import Columns, Ints, count_operations
from jepsen_like.checker.rows.packs import Packs
from jepsen_like.checker.rows.processes import find_malformed, refuse_malformed
from jepsen_like.checker.rows.tasks import Shared, Source, Task, array, of_model
from jepsen_like.checker.verdict import Check, Findings, Model, Undecided, in_turn
from jepsen_like.history.files import HistoryReader
from jepsen_like.history.ops import NEVER, Action, Outcome

VIOLATIONS_MAX = 30


@attrs.frozen
class SettleTask:
    """Find the transactions of unknown outcome of which a poll had a record: these committed."""

    sources: tuple[Source, ...]
    rows_max: int

    def execute(self) -> Ints:
        """See `Task`."""
        found = [np.zeros(0, np.int64)]
        for pack, rows in Packs.of(self.sources, self.rows_max).rows(self.sources):
            found += [_settle(rows.where(rows.object == number)) for number in pack.tolist()]
        return np.unique(np.concatenate(found))


def _settle(rows: Columns) -> Ints:
    unknown = np.flatnonzero((rows.f == Action.SEND) & (rows.type == Outcome.INFO))
    if not len(unknown):
        return np.zeros(0, np.int64)
    seen = np.isin(rows.a[unknown], np.array(sorted(polled_values(rows)), np.int64))
    return rows.epoch[unknown[seen]].astype(np.int64)


@attrs.frozen
class KafkaTask:
    """Judge all partitions of a group."""

    sources: tuple[Source, ...]
    committed: Shared
    """The transactions of unknown outcome that committed."""
    rows_max: int
    """See `Limits.object`."""

    def execute(self) -> tuple[Findings, KeyFacts]:
        """See `Task`."""
        packs = Packs.of(self.sources, self.rows_max)
        facts = list[KeyFacts]()
        findings = packs.report_large(self.sources, lambda number: f"partition {number}")
        committed = frozenset(array(self.committed).tolist())
        for pack, rows in packs.rows(self.sources):
            of_model(rows, self.sources[0], Model.KAFKA)
            path = self.sources[0] if isinstance(self.sources[0], Path) else Path("history")
            refuse_malformed(path, find_malformed(rows))
            for number in pack.tolist():
                mine = rows if len(pack) == 1 else rows.where(rows.object == number)
                one = KnownLog.of(number, mine, committed)
                findings = findings.plus(judge_partition(one))
                facts.append(KeyFacts(nodes(one), Edges.of(list(dependencies(one))), np.zeros(0, np.int64)))
        return findings, join_facts(facts)


def judge_partition(one: KnownLog) -> Findings:
    """Returns everything that is wrong with one partition."""
    rows, found = one.rows, Found("partition", one.number)
    check_places(one, found)
    check_origins(one, found)
    lost, unseen = check_losses(one, found)
    check_internal(one, found)
    check_polls(one, found)
    check_sends(one, found)
    check_positions(one, found)
    records = (rows.f == Action.SEND) | (rows.f == Action.POLL)
    reason = f"{unseen:,} acknowledged records of partition {one.number} were not reached by any poll: neither there nor lost"
    return attrs.evolve(
        count_operations(rows.type[records]),
        objects=int(records.any()),
        violated=frozenset([one.number] if found.counts else []),
        counts=found.counts,
        violations=tuple(in_turn(found.violations, lambda violation: violation.check, VIOLATIONS_MAX)),
        undecided=(Undecided(one.number, reason),) if unseen else (),
        acked=int(((rows.f == Action.SEND) & (rows.type == Outcome.OK)).sum()),
        lost_acked=lost,
        duplicated=sum(len(offsets) - 1 for offsets in one.offsets.values()),
        unseen=unseen,
        t_first=int(rows.t_inv[records].min(initial=NEVER)),
        tolerated=found.tolerated,
    )


@attrs.frozen
class KafkaCyclesTask:
    """Find the cycles of transactions that read each other's records, and those that Kafka allows."""

    pieces: tuple[Piece, ...]

    def execute(self) -> Findings:
        """See `Task`."""
        told, allowed = ToldCycles({}), ToldCycles({Check.G0: INTERLEAVES, Check.G1C: INTERLEAVES})
        for piece in self.pieces:
            by_reads = Piece(piece.nodes, piece.edges.where(piece.edges.kind == Kind.WR))
            for cycle in cycles_in(by_reads, KeptOrder.REALTIME):
                told.add(by_reads, cycle)
            for cycle in cycles_in(piece, KeptOrder.NONE):
                if any(edge.kind is Kind.WW for edge in cycle.edges):
                    allowed.add(piece, cycle)
        return told.findings().plus(allowed.findings())


@attrs.define
class KafkaCheck:
    """The check of partitions seen by their clients; see `ModelCheck`."""

    _of_partitions: Findings = attrs.field(factory=Findings, init=False)

    def plan(self, history: HistoryReader, job: Job) -> Sequence[Task]:
        """Returns a task for some pieces of the graph of transactions each. Raises `UnreadableHistory`."""
        groups, rows_max = whole_groups(history, Model.KAFKA, job), job.limits.object
        settled = job.run([SettleTask(sources, rows_max) for sources in groups])
        committed = job.share(np.unique(np.concatenate([np.zeros(0, np.int64), *settled])))
        found = job.run([KafkaTask(sources, committed, rows_max) for sources in groups])
        self._of_partitions = Findings.join([findings for findings, _ in found])
        return [KafkaCyclesTask(pieces) for pieces in batches(join_facts([facts for _, facts in found]))]

    def join(self, results: Sequence[Findings]) -> Conclusion:
        """Returns everything that is wrong with the partitions, and with the transactions over all of them."""
        return Conclusion(Findings.join([self._of_partitions, *results]))
