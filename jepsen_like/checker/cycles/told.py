"""Cycles in words, with their transactions as evidence."""

from collections.abc import Iterable, Mapping
from typing import Final

import attrs
import numpy as np

from jepsen_like.checker.cycles.graph import Edge, Kind, Piece
from jepsen_like.checker.cycles.levels import CYCLES
from jepsen_like.checker.cycles.search import Cycle
from jepsen_like.checker.sentences import format_value
from jepsen_like.checker.verdict import WITNESS_OPS_MAX, Check, Findings, Tolerated, Violation, in_order, in_turn
from jepsen_like.history.ops import NONE, Action, CallOp, Outcome

VIOLATIONS_MAX: Final = 30


class ToldCycles:
    """The cycles of some pieces being gathered. `allows` are checks that are not made, each with the reason."""

    def __init__(self, allows: Mapping[Check, str]) -> None:
        self._allows = allows
        self._counts: dict[Check, int] = {}
        self._violations: list[Violation] = []
        self._allowed: dict[Check, Tolerated] = {}
        self._violated: set[int] = set()

    def add(self, piece: Piece, cycle: Cycle) -> None:
        """Take a cycle."""
        one = tell(piece, cycle)
        if one.check in self._allows:
            first = Tolerated(
                check=one.check, object=one.object, count=0, because=self._allows[one.check], example=one.sentence
            )
            before = self._allowed.get(one.check, first)
            self._allowed[one.check] = attrs.evolve(before, count=before.count + 1)
            return
        self._counts[one.check] = self._counts.get(one.check, 0) + 1
        self._violated |= {edge.key for edge in cycle.edges if edge.key != NONE}
        self._violations.append(one)

    def findings(self) -> Findings:
        """Returns all of them."""
        return Findings(
            counts=self._counts,
            violations=tuple(in_turn(self._violations, lambda one: one.check, VIOLATIONS_MAX)),
            violated=frozenset(self._violated),
            tolerated=tuple(self._allowed.values()),
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
