"""The pieces of work of a check of transactions of several operations: groups of keys first, then pieces of the graph that they show."""

from collections.abc import Sequence
from typing import Final

import attrs
import numpy as np

from jepsen_like.checker.cycles.graph import Edges, Nodes, Piece, pieces_of
from jepsen_like.checker.cycles.levels import Level
from jepsen_like.checker.cycles.lists import judge_list
from jepsen_like.checker.cycles.reads import KeyFacts, KeySteps
from jepsen_like.checker.cycles.registers import judge_register
from jepsen_like.checker.cycles.search import cycles_in
from jepsen_like.checker.cycles.told import ToldCycles
from jepsen_like.checker.elements.tasks import whole_groups
from jepsen_like.checker.engine.job import Job
from jepsen_like.checker.found import Found
from jepsen_like.checker.model import Conclusion
from jepsen_like.checker.rows.columns import count_operations
from jepsen_like.checker.rows.packs import Packs
from jepsen_like.checker.rows.tasks import Source, Task, of_model, require_sound
from jepsen_like.checker.verdict import Findings, Model, Undecided
from jepsen_like.history.files import HistoryReader
from jepsen_like.history.ops import NONE, Outcome

TRANSACTIONS_PER_TASK: Final = 20_000
NO_DEPENDENCY: Final = "no transaction is known to depend on another one, so nothing was tested"


@attrs.frozen
class KeysOfTransactionsTask:
    """Find what each key of a group shows."""

    sources: tuple[Source, ...]
    model: Model
    level: Level
    rows_max: int
    """See `Limits.object`."""

    def execute(self) -> tuple[Findings, KeyFacts]:
        """See `Task`."""
        packs = Packs.of(self.sources, self.rows_max)
        left_out = packs.report_large(self.sources, lambda number: f"key {number}")
        findings, facts = Findings(objects=left_out.objects, undecided=left_out.undecided), list[KeyFacts]()
        for pack, rows in packs.rows(self.sources):
            of_model(rows, self.sources[0], self.model)
            require_sound(rows, self.sources)
            order = np.argsort(rows.object, kind="stable")
            starts = np.searchsorted(rows.object[order], pack)
            for number, mine in zip(pack.tolist(), np.split(order, starts[1:]), strict=True):
                steps = KeySteps.in_rows(number, rows.where(mine))
                found = Found("key", number, self.level.allows)
                judged, shown = (
                    judge_list(steps, found)
                    if self.model is Model.LIST_APPEND
                    else judge_register(steps, found, self.level.order)
                )
                findings = findings.plus(judged)
                facts.append(shown)
        return findings, join_facts(facts)


def join_facts(facts: Sequence[KeyFacts]) -> KeyFacts:
    """Returns what several keys show."""
    nodes, edges = Nodes.join([one.nodes for one in facts]), Edges.join([one.edges for one in facts])
    return KeyFacts(nodes, edges, np.unique(np.concatenate([np.zeros(0, np.int64), *(one.acked for one in facts)])))


@attrs.frozen
class CyclesTask:
    """Find the cycles of some pieces of the graph."""

    pieces: tuple[Piece, ...]
    level: Level

    def execute(self) -> Findings:
        """See `Task`."""
        told = ToldCycles(self.level.allows)
        for piece in self.pieces:
            for cycle in cycles_in(piece, self.level.order):
                told.add(piece, cycle)
        return told.findings()


def batches(facts: KeyFacts) -> list[tuple[Piece, ...]]:
    """Returns the pieces of the graph, about as many transactions at a time; a piece is never divided."""
    found, batch, size = list[tuple[Piece, ...]](), list[Piece](), 0
    for piece in pieces_of(facts.nodes.where(facts.nodes.type != Outcome.FAIL), facts.edges):
        batch.append(piece)
        size += len(piece.nodes)
        if size >= TRANSACTIONS_PER_TASK:
            found.append(tuple(batch))
            batch, size = [], 0
    return [*found, tuple(batch)] if batch else found


@attrs.define
class CyclesCheck:
    """The check of transactions of several operations; see `ModelCheck`."""

    model: Model
    level: Level
    _of_keys: Findings = attrs.field(factory=Findings, init=False)

    def plan(self, history: HistoryReader, job: Job) -> Sequence[Task]:
        """Returns a task for some pieces of the graph each. Raises `UnreadableHistory`."""
        groups = whole_groups(history, self.model, job)
        found = job.run(
            [KeysOfTransactionsTask(sources, self.model, self.level, job.limits.object) for sources in groups]
        )
        self._of_keys = Findings.join([findings for findings, _ in found])
        facts = join_facts([shown for _, shown in found])
        counts = count_operations(facts.nodes.type.astype(np.int8))
        undecided = (Undecided(NONE, NO_DEPENDENCY),) if len(facts.nodes) and not len(facts.edges.source) else ()
        self._of_keys = self._of_keys.plus(attrs.evolve(counts, acked=len(facts.acked), undecided=undecided))
        return [CyclesTask(pieces, self.level) for pieces in batches(facts)]

    def join(self, results: Sequence[Findings]) -> Conclusion:
        """Returns everything that is wrong with the keys, and the cycles over all of them."""
        return Conclusion(Findings.join([self._of_keys, *results]))
