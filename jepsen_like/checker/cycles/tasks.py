"""The pieces of work of a check of transactions of several operations: groups of keys first, then pieces of the graph that they show."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final

import attrs
import numpy as np

from jepsen_like.checker.cycles.graph import Edge, Edges, Kind, Nodes, Piece, pieces_of
from jepsen_like.checker.cycles.levels import CYCLES, Level, Order
from jepsen_like.checker.cycles.lists import judge_list
from jepsen_like.checker.cycles.reads import KeyFacts, KeySteps
from jepsen_like.checker.cycles.registers import judge_register
from jepsen_like.checker.cycles.search import Cycle, cycles_in
from jepsen_like.checker.elements.tasks import whole_groups
from jepsen_like.checker.engine.job import Job
from jepsen_like.checker.found import Found
from jepsen_like.checker.model import Conclusion
from jepsen_like.checker.rows.columns import count_operations
from jepsen_like.checker.rows.packs import Packs
from jepsen_like.checker.rows.tasks import Source, Task, of_model, require_sound
from jepsen_like.checker.sentences import format_value
from jepsen_like.checker.verdict import (
    WITNESS_OPS_MAX,
    Findings,
    Model,
    Tolerated,
    Undecided,
    Violation,
    in_order,
    in_turn,
)
from jepsen_like.history.files import HistoryReader
from jepsen_like.history.ops import NONE, Action, CallOp, Outcome

TRANSACTIONS_PER_TASK: Final = 20_000
VIOLATIONS_MAX: Final = 30
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
        return findings, joined(facts)


def joined(facts: Sequence[KeyFacts]) -> KeyFacts:
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
        allows = self.level.allows
        counts, violations, allowed = dict[str, int](), list[Violation](), dict[str, Tolerated]()
        violated = set[int]()
        for piece in self.pieces:
            for cycle in cycles_in(piece, self.level.order):
                one = tell(piece, cycle)
                if one.check in allows:
                    before = allowed.get(one.check)
                    allowed[one.check] = Tolerated(
                        check=one.check,
                        object=one.object,
                        count=1 + (before.count if before else 0),
                        because=allows[one.check],
                        example=before.example if before else one.sentence,
                    )
                    continue
                counts[one.check] = counts.get(one.check, 0) + 1
                violated |= {edge.key for edge in cycle.edges if edge.key != NONE}
                violations.append(one)
        return Findings(
            counts={one.check: counts[one.check] for one in violations},
            violations=tuple(in_turn(violations, lambda one: one.check, VIOLATIONS_MAX)),
            violated=frozenset(violated),
            tolerated=tuple(allowed.values()),
        )


def tell(piece: Piece, cycle: Cycle) -> Violation:
    """Returns a cycle in words, with its transactions."""
    names = {edge.source: f"T{at}" for at, edge in enumerate(cycle.edges, start=1)}
    words = "; ".join(_in_words(edge, names) for edge in cycle.edges)
    deeds = dict[int, list[str]]()
    for edge in cycle.edges:
        for txn, deed in _deeds(edge):
            deeds.setdefault(txn, []).append(deed)
    nodes = piece.nodes
    rows = {number: int(np.searchsorted(nodes.number, number)) for number in names}
    ops = [
        CallOp(
            f=Action.CALL,
            type=Outcome(int(nodes.type[row])),
            t_inv=int(nodes.t_inv[row]),
            t_ret=int(nodes.t_ret[row]),
            process=int(nodes.process[row]),
            epoch=number,
            words=f"{names[number]}: {' and '.join(dict.fromkeys(deeds.get(number, ()))) or 'transaction'}",
        )
        for number, row in rows.items()
    ]
    who = ", ".join(f"{names[op.epoch]} is of process {op.process}" for op in ops[:WITNESS_OPS_MAX])
    more = " and others" if len(ops) > WITNESS_OPS_MAX else ""
    key = next(edge.key for edge in cycle.edges if edge.key != NONE)
    return Violation(CYCLES[cycle.rank, cycle.order], key, f"{words} ({who}{more})", in_order(ops))


def _in_words(edge: Edge, names: Mapping[int, str]) -> str:
    one, other, key = names[edge.source], names[edge.target], f"key {edge.key}"
    match edge.kind:
        case Kind.WW:
            return f"{one} wrote {edge.old} to {key} before {other} wrote {edge.new}"
        case Kind.WR:
            return f"{other} read {edge.old} of {key}, which {one} wrote"
        case Kind.RW:
            return f"{one} read {format_value(edge.old)} of {key}, before {other} wrote {edge.new}"
        case Kind.PROCESS:
            return f"one process did {one} before {other}"
        case Kind.REALTIME:
            return f"{one} had ended before {other} began"


def _deeds(edge: Edge) -> Iterable[tuple[int, str]]:
    key = f"key {edge.key}"
    match edge.kind:
        case Kind.WW:
            return (edge.source, f"write of {edge.old} to {key}"), (edge.target, f"write of {edge.new} to {key}")
        case Kind.WR:
            return (edge.source, f"write of {edge.old} to {key}"), (edge.target, f"read of {edge.old} of {key}")
        case Kind.RW:
            seen = f"read of {format_value(edge.old)} of {key}"
            return (edge.source, seen), (edge.target, f"write of {edge.new} to {key}")
        case _:
            return ()


def batches(pieces: Sequence[Piece], level: Level) -> list[CyclesTask]:
    """Returns tasks of about as many transactions each; a piece is never divided."""
    tasks, batch, size = list[CyclesTask](), list[Piece](), 0
    for piece in pieces:
        batch.append(piece)
        size += len(piece.nodes)
        if size >= TRANSACTIONS_PER_TASK:
            tasks.append(CyclesTask(tuple(batch), level))
            batch, size = [], 0
    return [*tasks, CyclesTask(tuple(batch), level)] if batch else tasks


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
        facts = joined([shown for _, shown in found])
        counts = count_operations(facts.nodes.type.astype(np.int8))
        undecided = (Undecided(NONE, NO_DEPENDENCY),) if len(facts.nodes) and not len(facts.edges.source) else ()
        self._of_keys = self._of_keys.plus(attrs.evolve(counts, acked=len(facts.acked), undecided=undecided))
        return batches(pieces_of(facts.nodes.where(facts.nodes.type != Outcome.FAIL), facts.edges), self.level)

    def join(self, results: Sequence[Findings]) -> Conclusion:
        """Returns everything that is wrong with the keys, and the cycles over all of them."""
        return Conclusion(Findings.join([self._of_keys, *results]))


