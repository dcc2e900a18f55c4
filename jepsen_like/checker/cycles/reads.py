"""The operations of transactions on one key, and the sentences about them. What they show is in `lists` and `registers`."""

import itertools
from collections.abc import Mapping, Sequence

import attrs
import numpy as np

from jepsen_like.checker.cycles.graph import Edges, Nodes
from jepsen_like.checker.found import Found
from jepsen_like.checker.rows.columns import Columns, Ints
from jepsen_like.checker.verdict import Findings, Undecided, Violation, in_turn
from jepsen_like.history.ops import NEVER, NONE, Action, CallOp, Outcome

VIOLATIONS_MAX = 30


@attrs.frozen
class KeyStep:
    """One operation of a transaction on a key."""

    txn: int
    row: int
    is_read: bool
    values: tuple[int, ...]
    """Of an append or write the one value, of a read all values."""
    type: Outcome


@attrs.frozen(eq=False)
class KeySteps:
    """All operations on one key, by transaction, in the order that each transaction did them."""

    number: int
    rows: Columns
    of: Mapping[int, Sequence[KeyStep]]
    writer: Mapping[int, KeyStep]
    """By value the attempt that wrote it, or may have."""
    twice: Sequence[int]
    """Values that two attempts may have written; nothing can be inferred of them."""
    happened: Sequence[Sequence[KeyStep]]
    """The operations of each transaction that certainly happened."""

    @classmethod
    def in_rows(cls, number: int, rows: Columns) -> "KeySteps":
        """From all rows of the key, in the order recorded; `seen` counts the operations of a transaction."""
        txn, place, f = rows.epoch.tolist(), rows.seen.tolist(), rows.f.tolist()
        values, outcome = rows.a.tolist(), rows.type.tolist()
        of = dict[int, list[KeyStep]]()
        writer = dict[int, KeyStep]()
        twice = list[int]()
        for (number_of_txn, _), group in itertools.groupby(range(len(txn)), lambda row: (txn[row], place[row])):
            some = list(group)
            row = some[0]
            inside = tuple(values[each] for each in some)
            is_read = f[row] == Action.READ
            step = KeyStep(
                number_of_txn, row, is_read, () if is_read and inside == (NONE,) else inside, Outcome(outcome[row])
            )
            of.setdefault(number_of_txn, []).append(step)
            if not is_read:
                (value,) = inside
                other = writer.get(value)
                if other is not None and Outcome.FAIL not in (other.type, step.type):
                    twice.append(value)
                if other is None or other.type is Outcome.FAIL:
                    writer[value] = step
        happened = [steps for steps in of.values() if steps[0].type is Outcome.OK]
        return cls(number, rows, of, writer, twice, happened)

    def op(self, step: KeyStep, words: str) -> CallOp:
        """Returns an operation as evidence."""
        rows, row = self.rows, step.row
        return CallOp(
            f=Action.CALL,
            type=step.type,
            t_inv=int(rows.t_inv[row]),
            t_ret=int(rows.t_ret[row]),
            object=self.number,
            process=int(rows.process[row]),
            epoch=step.txn,
            words=words,
        )

    def nodes(self) -> Nodes:
        """Returns its transactions."""
        rows = self.rows
        first = np.unique(rows.epoch, return_index=True)[1]
        columns = (rows.epoch, rows.process, rows.type, rows.t_inv, rows.t_ret)
        return Nodes(*(column[first].astype(np.int64) for column in columns))


@attrs.frozen(eq=False)
class KeyFacts:
    """The facts that one key shows about transactions."""

    nodes: Nodes
    edges: Edges
    acked: Ints
    """The transactions that certainly wrote to it."""


def findings_of(one: KeySteps, found: Found) -> Findings:
    """Returns what is wrong with one key. Transactions are counted over all keys."""
    reason = "nothing is inferred from it, because more than one transaction may have written {}"
    undecided = Undecided(one.number, f"key {one.number}: {reason.format(one.twice[0])}") if one.twice else None
    violations: Sequence[Violation] = found.violations
    return Findings(
        objects=1,
        violated=frozenset([one.number] if found.counts else []),
        counts=found.counts,
        violations=tuple(in_turn(violations, lambda violation: violation.check, VIOLATIONS_MAX)),
        undecided=() if undecided is None else (undecided,),
        duplicated=0,
        t_first=int(one.rows.t_inv.min(initial=NEVER)),
        tolerated=found.tolerated,
    )
