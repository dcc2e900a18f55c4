"""Findings about a queue: every partition by itself, for nothing that is checked joins two of them.

Messages are judged by value and offset (`queue_records`), consumers and groups by what they were given in turn (`queue_reads`), or
pushed (`queue_pushed`), losses by what the final read and the final logs contain (`queue_rows`) and what the mode allows (`queue_losses`).
"""

from collections.abc import Mapping, Sequence
from typing import Final

import attrs
import numpy as np

from jepsen_like.checker.allowance import Allowance, AllowedLoss
from jepsen_like.checker.queue.losses import explain
from jepsen_like.checker.queue.pushed import PushedFindings, check_pushed
from jepsen_like.checker.queue.reads import check_groups, check_polls
from jepsen_like.checker.queue.records import (
    Breach,
    Sightings,
    check_lost,
    check_origins,
    check_replicas,
    check_send_order,
    check_sightings,
    check_times,
)
from jepsen_like.checker.queue.rows import Finals, QueueExpectations, QueuePartition, fate_of
from jepsen_like.checker.rows.columns import Columns, begins_operation, count_operations
from jepsen_like.checker.rows.final_logs import FinalLog
from jepsen_like.checker.verdict import Check, Findings, Undecided, Violation, in_order, in_turn
from jepsen_like.history.ops import NEVER, Action, Outcome

EXPLAINED_MAX: Final = 30
"""Violations explained per partition; the others are counted."""


def check_queue(
    rows: Columns,
    replicas: Mapping[int, Sequence[FinalLog]],
    expectations: QueueExpectations,
    allowances: Sequence[Allowance] = (),
) -> tuple[Findings, tuple[AllowedLoss, ...]]:
    """Returns what is wrong with the partitions in `rows` (in the order recorded), and the losses that `allowances` explain.

    `replicas`: the final logs of each partition, as far as they are known.
    """
    findings, losses = Findings(), list[AllowedLoss]()
    order = np.argsort(rows.object, kind="stable")
    numbers, starts = np.unique(rows.object[order], return_index=True)
    ends = np.append(starts[1:], len(order))
    for number, start, end in zip(numbers.tolist(), starts.tolist(), ends.tolist(), strict=True):
        mine = rows if len(numbers) == 1 else rows.where(order[start:end])
        found, lost = check_partition(
            QueuePartition.of(number, mine, replicas.get(number, ())), expectations, allowances
        )
        findings = findings.plus(found)
        losses += lost
    return findings, tuple(losses)


def check_partition(
    one: QueuePartition, expectations: QueueExpectations, allowances: Sequence[Allowance]
) -> tuple[Findings, tuple[AllowedLoss, ...]]:
    """Returns what is wrong with one partition, and which of its losses are allowed."""
    allowances = sorted(allowances, key=lambda allowance: allowance.begun_ns)
    fate = fate_of(one, expectations)
    explained = explain(one, fate, allowances, expectations)
    is_lost = explained.forgiven.copy()
    is_lost[fate.lost] = True
    seen = Sightings.of(one, is_lost, explained.forgiven)
    about_values, doubled = check_sightings(one, seen, expectations)
    breaches: list[Breach] = [
        *check_lost(one, fate, (explained.lost, explained.read_lost)),
        *about_values,
        *check_origins(one),
        *check_times(one, is_lost, explained.forgiven),
        *check_replicas(one),
    ]
    shown: set[Check] = set()
    if expectations.ordered_sends:
        found, is_shown = check_send_order(one, is_lost)
        breaches += found
        shown |= {Check.SEND_ORDER} if is_shown else set()
    pushed = PushedFindings()
    if expectations.is_pushed:
        pushed = check_pushed(one, fate, explained.forgiven, expectations, allowances)
        breaches += pushed.breaches
        shown |= pushed.shown
    else:
        for of_check, can_fail in (
            check_polls(one, seen, allowances),
            check_groups(one, seen, expectations, allowances),
        ):
            breaches += of_check
            shown |= can_fail
    if len(one.replicas) > 1:
        shown.add(Check.REPLICAS)
    findings = _sum_up(one, breaches, expectations)
    return attrs.evolve(
        findings,
        lost_acked=len(fate.lost),
        expired=fate.expired,
        unseen=fate.unseen,
        duplicated=doubled,
        unread=int(findings.acked > 0 and not one.finals.are_known),
        undecided=_list_undecided(one.number, fate.unseen, one.finals, expectations),
        shown=frozenset(shown),
        tolerated=pushed.tolerated,
        given=pushed.given,
        given_again=pushed.again,
    ), explained.losses


def _sum_up(one: QueuePartition, breaches: Sequence[Breach], expectations: QueueExpectations) -> Findings:
    rows = one.rows
    counts: dict[Check, int] = {}
    violations = []
    for breach in breaches:
        counts[breach.check] = counts.get(breach.check, 0) + breach.count
        violations += [
            Violation(
                breach.check, one.number, f"{expectations.partition(one.number)}: {shown.sentence}", in_order(shown.ops)
            )
            for shown in breach.shown
        ]
    first = begins_operation(rows.process, rows.t_inv, rows.t_ret) | (rows.f == Action.SEND)
    return attrs.evolve(
        count_operations(rows.type[first]),
        objects=1,
        violated=frozenset([one.number] if counts else []),
        counts=counts,
        violations=tuple(in_turn(violations, lambda one_: one_.check, EXPLAINED_MAX)),
        acked=int(((rows.f == Action.SEND) & (rows.type == Outcome.OK)).sum()),
        t_first=int(rows.t_inv[rows.f == Action.SEND].min(initial=NEVER)),
    )


def _list_undecided(number: int, unseen: int, finals: Finals, expectations: QueueExpectations) -> tuple[Undecided, ...]:
    name = expectations.partition(number)
    found = []
    if finals.is_cut_short and not (finals.ends >= finals.end).any():
        reason = f"the final read of {name} ended at offset {finals.passed}, before its end at {finals.end}"
        found.append(Undecided(number, reason))
    if unseen:
        found.append(
            Undecided(
                number,
                f"{unseen:,} acknowledged messages of {name} were not reached at the end: neither there nor lost",
            )
        )
    return tuple(found)


def expectations_of(test: Mapping[str, object]) -> QueueExpectations:
    """Returns what a run's test.json states about its queue. Raises `ValueError` if that makes no sense."""
    said = test.get("queue", {})
    if not isinstance(said, Mapping):
        raise ValueError(f"queue: {said!r} is no object")
    names: dict[str, dict[int, str]] = {}
    for key in ("partitions", "groups"):
        of_key = said.get(key, {})
        if not isinstance(of_key, Mapping):
            raise ValueError(f"queue.{key}: {of_key!r} is no object")
        names[key] = {int(number): str(name) for number, name in of_key.items()}
    acks = str(said.get("acks", "all"))
    if acks not in ("all", "1", "0"):
        raise ValueError(f"queue.acks: {acks!r} is none of all, 1 and 0")
    return QueueExpectations(
        acks=acks,
        ordered_sends=bool(said.get("ordered_sends", False)),
        may_duplicate=bool(said.get("may_duplicate", False)),
        session_timeout_ns=_ns(said, "session_timeout_s"),
        rebalance_timeout_ns=_ns(said, "rebalance_timeout_s"),
        is_pushed=bool(said.get("pushed", False)),
        is_orderly=bool(said.get("orderly", False)),
        unlocks_early=bool(said.get("unlocks_early", False)),
        keys=int(_number(said, "keys")),
        keys_move=bool(said.get("keys_move", False)),
        partitions=names["partitions"],
        groups=names["groups"],
    )


def _ns(said: Mapping[str, object], key: str) -> int:
    return round(_number(said, key) * 1e9)


def _number(said: Mapping[str, object], key: str) -> float:
    value = said.get(key, 0)
    if not isinstance(value, int | float) or isinstance(value, bool) or value < 0:
        raise ValueError(f"queue.{key}: {value!r} is no number of seconds, or of what it counts")
    return value
