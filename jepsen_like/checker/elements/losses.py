"""Elements of a queue that were lost and may have been: those put in while a fault was at work that the mode allows to cost them.

An enqueue that is forgiven counts as one of unknown outcome: it may have been there, and need not come out.
"""

from collections.abc import Sequence
from typing import Final

import attrs
import numpy as np

from jepsen_like.checker.allowance import Allowance, AllowedLoss
from jepsen_like.checker.rows.columns import Bools, Columns, Ints
from jepsen_like.history.ops import NEVER, NONE, Action, Outcome

EXAMPLES_MAX: Final = 5


def forgive_elements(rows: Columns, allowances: Sequence[Allowance]) -> tuple[Columns, tuple[AllowedLoss, ...]]:
    """Returns the rows of queues without the losses that `allowances` explain, and these losses."""
    lost, kind, until, losses = _find_lost(rows), rows.type.copy(), rows.t_ret.copy(), list[AllowedLoss]()
    for allowance in sorted(allowances, key=lambda one: one.begun_ns):
        within = (rows.t_inv <= allowance.injected_ns) & (rows.t_ret >= allowance.since_ns)
        reached = within if allowance.objects is None else within & np.isin(rows.object, sorted(allowance.objects))
        cost = lost & reached
        for number in np.unique(rows.object[cost]).tolist():
            losses.append(_loss(rows, allowance, number, np.flatnonzero(cost & (rows.object == number))))
        kind[cost], until[cost] = Outcome.INFO, NEVER
        lost &= ~cost
    return attrs.evolve(rows, type=kind, t_ret=until), tuple(losses)


def _find_lost(rows: Columns) -> Bools:
    """Returns which rows put an element in for certain that nothing took out, though the queue was found empty later."""
    ok = rows.type == Outcome.OK
    takes = ok & np.isin(rows.f, (Action.DEQUEUE, Action.DRAIN))
    lost = ok & (rows.f == Action.ENQUEUE)
    for number in np.unique(rows.object).tolist():
        mine = rows.object == number
        taken = rows.a[mine & takes & (rows.a != NONE)]
        empty = mine & takes & ((rows.a == NONE) | (rows.f == Action.DRAIN))
        last_ns = int(rows.t_inv[empty].max(initial=-NEVER))
        lost &= ~mine | (~np.isin(rows.a, taken) & (rows.t_ret < last_ns))
    return np.asarray(lost)


def _loss(rows: Columns, allowance: Allowance, number: int, cost: Ints) -> AllowedLoss:
    cost = cost[np.argsort(rows.t_ret[cost], kind="stable")]
    return AllowedLoss(
        allowance=allowance,
        records=len(cost),
        first_offset=NONE,
        last_offset=NONE,
        first_acked_ns=int(rows.t_ret[cost[0]]),
        last_acked_ns=int(rows.t_ret[cost[-1]]),
        examples=tuple(rows.a[cost[:EXAMPLES_MAX]].tolist()),
        object=number,
    )
