"""Objects that sorting cannot decide, by search, one after the other within one bound of time, the smallest first."""

from collections.abc import Callable, Sequence
from typing import Final

import numpy as np

from jepsen_like.checker.elements.elements import Elements, Gathering
from jepsen_like.checker.pending import Sequential
from jepsen_like.checker.rows.columns import Bools
from jepsen_like.checker.search import SEARCHED_OPS_MAX, SearchBounds, search
from jepsen_like.checker.sentences import describe, unshown
from jepsen_like.checker.verdict import WITNESS_OPS_MAX, Check, Undecided, Violation, in_order
from jepsen_like.history.ops import CallOp, Op, Outcome

Prepared = tuple[Sequential, Sequence[Op]]
"""A model, and what it executes."""
REACHED: Final = "it had to be searched, and the search reached its bound"


def decide(
    report: Gathering,
    made: Elements,
    which: Bools,
    noun: str,
    prepare: Callable[[Sequence[Op]], Prepared],
    bounds: SearchBounds,
) -> tuple[Undecided, ...]:
    """Search the objects that `which` names; adds what is violated to `report` and returns what stays undecided."""
    undecided = []
    ends_s = bounds.clock() + bounds.seconds
    rows_of = np.bincount(made.number, minlength=len(which))
    numbers = np.flatnonzero(which)
    for number in numbers[np.argsort(rows_of[numbers], kind="stable")].tolist():
        name = int(made.objects[number])
        if rows_of[number] > SEARCHED_OPS_MAX:
            reason = f"it has to be searched, and it has {rows_of[number]:,} rows, of {SEARCHED_OPS_MAX:,} at most"
            undecided.append(Undecided(name, reason))
            continue
        ops = made.of_object(number)
        model, executed = prepare(ops)
        answer = search(
            executed,
            model,
            seconds_max=max(0.0, ends_s - bounds.clock()),
            memory_mib_max=bounds.memory_mib,
            clock=bounds.clock,
        )
        if answer.linearizable:
            continue
        if answer.failed is None:
            undecided.append(Undecided(name, f"{REACHED}: {answer.reason}"))
        else:
            report.keep(
                contradiction(name, noun, executed if isinstance(answer.failed, CallOp) else ops, answer.failed)
            )
    return tuple(undecided)


def contradiction(name: int, noun: str, ops: Sequence[Op], failed: Op) -> Violation:
    """Returns what is shown of an object whose operations have no order: the one at whose end none was left, and what was near."""
    mine = (failed.process, failed.t_inv, failed.t_ret)
    failed = next(op for op in ops if (op.process, op.t_inv, op.t_ret) == mine)
    before = [op for op in ops if op.t_inv <= failed.t_ret and op.type is not Outcome.FAIL and op != failed]
    before.sort(key=lambda op: (min(op.t_ret, failed.t_ret), op.t_inv), reverse=True)
    kept = [failed, *before]
    said = f"no order explains the {describe(failed)} together with the operations before it{unshown(kept)}"
    return Violation(Check.LINEARIZABLE, name, f"{noun} {name}: {said}", in_order(kept[:WITNESS_OPS_MAX]))
