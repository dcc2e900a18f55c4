"""True if a witness proves what it claims, asked of the search and not of the scan that found it.

Strictly: the operations of the witness alone cannot be ordered. Honestly: they cannot be ordered either when all the rest of
the history is given away, that is when anything the witness depends on but does not contain may have happened at any time:
another append at every other place of the log, another write of every value it saw.
"""

import attrs

from jepsen_like.checker.pending import Sequential
from jepsen_like.checker.search import Register, search
from jepsen_like.checker.sentences import NOT_ALL_SHOWN
from jepsen_like.checker.verdict import WITNESS_OPS_MAX, Check, Model, Violation
from jepsen_like.history.ops import NONE, Action, Op, Outcome
from tests.jepsen_like.checker import oracle
from tests.jepsen_like.checker.sequential_log import SequentialLog

ABOUT_WHAT_IS_MISSING = (Check.PHANTOM, Check.ABORTED_READ, Check.DUPLICATED, Check.GAP)
GIVEN = 10**15
"""Values and times of what is given away."""


def alone_impossible(violation: Violation, model: Model) -> bool:
    """Both: strictly and, where the claim is about order, honestly. One that states that it is not complete is believed."""
    if NOT_ALL_SHOWN in violation.sentence:
        return len(violation.ops) == WITNESS_OPS_MAX
    ops = list(violation.ops)
    if violation.check is Check.EPOCH:
        return not oracle.epochs_rise(_as_tuples(ops))
    if model is Model.LOG:
        ops = _renumber_places(ops)
    if any(op.f is Action.APPEND and op.count > 1 for op in ops):
        given = [] if violation.check in ABOUT_WHAT_IS_MISSING else _anything(ops)
        return not oracle.linearizable(_as_tuples(ops) + given, oracle.log, ())
    if _orders(ops, model) is not False:
        return False
    if violation.check in ABOUT_WHAT_IS_MISSING:
        return True  # these claim that something is missing, so it cannot be given away
    return _orders(ops + _build_given(ops, model), model) is False


def _as_tuples(ops: list[Op]) -> list[oracle.Tuple]:
    """A witness as the definition takes it: the search knows neither batches nor epochs."""
    found: list[oracle.Tuple] = []
    for op in ops:
        known = op.type is Outcome.OK
        common = (known, op.t_inv, op.t_ret)
        epoch = None if op.epoch == NONE else op.epoch
        match op.f:
            case Action.APPEND:
                same = [one for one in ops if one.f is op.f and (one.process, one.t_inv) == (op.process, op.t_inv)]
                if op is same[0]:
                    values = tuple(one.a for one in same)
                    apart = known and [one.offset - op.offset for one in same] != list(range(len(same)))
                    found.append(("append", *common, values, -7 if apart else op.offset if known else None, epoch))
            case Action.READ:
                found.append(("get", *common, op.offset, None if op.a == NONE else op.a, epoch))
            case _:
                found.append(("end", *common, op.offset))
    return found


def _anything(ops: list[Op]) -> list[oracle.Tuple]:
    """An append for every place that the witness does not mention."""
    length = max((op.offset for op in ops), default=0) + 1
    return [("append", False, -GIVEN, GIVEN, (GIVEN + place,), None, None) for place in range(length)]


def _orders(ops: list[Op], model: Model) -> bool | None:
    sequential: Sequential = SequentialLog() if model is Model.LOG else Register()
    return search(ops, sequential).linearizable


def _renumber_places(ops: list[Op]) -> list[Op]:
    """Moves the places of a witness together, but not to the beginning: the search holds a log as a tuple."""
    places = sorted({0} | {place for op in ops if op.offset != NONE for place in (op.offset, op.offset + 1)})
    dense = {place: number for number, place in enumerate(places)}
    return [attrs.evolve(op, offset=dense[op.offset]) if op.offset != NONE else op for op in ops]


def _build_given(ops: list[Op], model: Model) -> list[Op]:
    anything = Op(f=Action.APPEND, type=Outcome.INFO, t_inv=-GIVEN)
    if model is Model.LOG:
        length = max((op.offset for op in ops), default=0) + 1
        mine = {op.offset for op in ops if op.f is Action.APPEND and op.type is Outcome.OK}
        seen = {op.offset: op.a for op in ops if op.f is Action.READ and op.a != NONE}
        appended = {op.a for op in ops if op.f is Action.APPEND}
        values = [GIVEN + place if place not in seen else seen[place] for place in range(length) if place not in mine]
        return [attrs.evolve(anything, a=value) for value in values if value not in appended]
    put = {Register().put(op) for op in ops}
    needed = {Register().value_seen(op) for op in ops} - put - {None, NONE}
    return [attrs.evolve(anything, f=Action.WRITE, a=value) for value in needed if value is not None]
