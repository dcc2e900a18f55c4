"""Which lost messages of a partition a fault of the run may have cost, as its mode allows.

A lost message is explained by a fault when

- the fault reaches the partition, and where the acknowledgement names the broker that gave it and its epoch, that is the broker,
  and an epoch, of which the fault may have cost acknowledgements,
- it was sent before the fault was complete and acknowledged no earlier than the fault reaches back,
- no consumer had read it, unless the fault may cost that, too, and
- (where what is lost is the end of a log) nothing that was acknowledged before the fault began survives behind it.

Of several faults the one that began first is said to have cost it. What is explained is taken out of the history before
the rest of it is checked; everything else that is lost breaks the promise.
"""

from collections.abc import Sequence
from typing import Final

import attrs
import numpy as np

from jepsen_like.checker.allowance import Allowance, AllowedLoss
from jepsen_like.checker.queue.rows import Fate, QueueExpectations, QueuePartition
from jepsen_like.checker.rows.columns import Bools, Ints
from jepsen_like.history.ops import NEVER, NONE

EXAMPLES_MAX: Final = 5


@attrs.frozen(eq=False)
class Explained:
    """The losses of a partition that are allowed."""

    lost: Ints
    """Entries of `Sent`: acknowledged, lost, and explained by nothing."""
    read_lost: Ints
    """Likewise, without an acknowledgement but read."""
    forgiven: Bools
    """For each entry of `Sent` whether its loss is allowed."""
    losses: tuple[AllowedLoss, ...]


def explain(
    one: QueuePartition, fate: Fate, allowances: Sequence[Allowance], expectations: QueueExpectations
) -> Explained:
    """Returns what each fault may have cost of this partition, and what is left. `allowances` in the order in which they began."""
    forgiven = np.zeros(len(one.sent.value), np.bool_)
    losses = []
    for allowance in allowances:
        if not (allowance.may_cost_records and allowance.reaches(one.number)):
            continue
        acked = fate.lost[~forgiven[fate.lost]]
        rows = one.sent.ok_row[acked]
        cost = acked[
            _in_reach(one, allowance, fate.is_there, rows, one.rows.t_inv[rows], one.rows.t_ret[rows])
            & (allowance.may_cost_read | ~fate.was_read[acked])
        ]
        forgiven[cost] = True
        if len(cost):
            losses.append(_loss(one, allowance, cost, expectations))
        if allowance.may_cost_read:
            read = fate.read_lost[~forgiven[fate.read_lost]]
            began = one.sent.first_inv[read]
            forgiven[
                read[_in_reach(one, allowance, fate.is_there, _polls_of(one, read), began, np.full(len(read), NEVER))]
            ] = True
    return Explained(
        lost=fate.lost[~forgiven[fate.lost]],
        read_lost=fate.read_lost[~forgiven[fate.read_lost]],
        forgiven=forgiven,
        losses=tuple(losses),
    )


def _polls_of(one: QueuePartition, entries: Ints) -> Ints:
    """A row in which each of these was read."""
    polled = one.polled
    order = polled[np.argsort(one.rows.a[polled], kind="stable")]
    return order[np.searchsorted(one.rows.a[order], one.sent.value[entries])]


def _in_reach(
    one: QueuePartition, allowance: Allowance, is_there: Bools, rows: Ints, t_inv: Ints, t_ret: Ints
) -> Bools:
    """Which messages, by a row of each, this fault may have cost."""
    columns = one.rows
    reached = (t_inv <= allowance.injected_ns) & (t_ret >= allowance.since_ns)
    if allowance.node != NONE:
        reached &= (columns.node[rows] == NONE) | (columns.node[rows] == allowance.node)
    if allowance.epoch_max is not None:
        reached &= (columns.epoch[rows] == NONE) | (columns.epoch[rows] <= allowance.epoch_max)
    if allowance.is_tail:
        reached &= (columns.offset[rows] == NONE) | (columns.offset[rows] > _survivor(one, allowance, is_there))
    return np.asarray(reached)


def _survivor(one: QueuePartition, allowance: Allowance, is_there: Bools) -> int:
    """The highest offset acknowledged before the fault whose message is still there; `NONE` for none."""
    rows = one.rows
    acked = one.sent.ok_row[(one.sent.ok_row != NONE) & is_there]
    return int(rows.offset[acked[rows.t_ret[acked] < allowance.begun_ns]].max(initial=NONE))


def _loss(one: QueuePartition, allowance: Allowance, cost: Ints, expectations: QueueExpectations) -> AllowedLoss:
    rows = one.sent.ok_row[cost]
    rows = rows[np.argsort(one.rows.t_ret[rows], kind="stable")]
    placed = one.rows.offset[rows]
    placed = placed[placed != NONE]
    return AllowedLoss(
        allowance=allowance,
        records=len(rows),
        first_offset=int(placed.min()) if len(placed) else NONE,
        last_offset=int(placed.max()) if len(placed) else NONE,
        first_acked_ns=int(one.rows.t_ret[rows[0]]),
        last_acked_ns=int(one.rows.t_ret[rows[-1]]),
        examples=tuple(int(value) for value in one.rows.a[rows[:EXAMPLES_MAX]]),
        of=expectations.partition(one.number),
        object=one.number,
    )
