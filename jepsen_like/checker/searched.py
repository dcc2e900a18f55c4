"""Objects that sorting cannot decide, by search, one after the other within one bound of time, the smallest first."""

from collections.abc import Callable, Sequence
from typing import Final

from jepsen_like.checker.columns import Bools
from jepsen_like.checker.elements import Elements, Gathering
from jepsen_like.checker.register_check import SearchBounds
from jepsen_like.checker.search import Sequential, search
from jepsen_like.checker.sentences import told, unshown
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
    numbers = [number for number in range(len(which)) if which[number]]
    ops_of = {number: made.of_object(number) for number in numbers}
    for number in sorted(numbers, key=lambda number: len(ops_of[number])):
        name, ops = int(made.objects[number]), ops_of.pop(number)
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
    said = f"no order explains the {told(failed)} together with the operations before it{unshown(kept)}"
    return Violation(Check.LINEARIZABLE, name, f"{noun} {name}: {said}", in_order(kept[:WITNESS_OPS_MAX]))
