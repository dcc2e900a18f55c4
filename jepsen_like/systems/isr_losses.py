"""The losses that a change of leader may cost a partition, for partitions whose leader really changed.

Where the leader alone acknowledges a send, a fault costs acknowledged messages only through a change of leader:
messages that the old one had acknowledged and the new one had not copied are lost (Kafka's truncation to the new
leader's epoch, KIP-101). The mode of a run states which of its faults may cost that (`Allowance.may_cost_read` is
false: every replica in sync has what consumers have read). The brokers' reports of their partitions show where it can
have happened. A fault that moved no leader of a partition excuses no loss there.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

import attrs
import numpy as np

from jepsen_like.checker.allowance import Allowance
from jepsen_like.history.ops import NEVER, NONE
from jepsen_like.history.partition_states import StateKind

AFTERMATH_NS: Final = 30 * 10**9
"""So long after a fault a change of leader can still be its work: a session has to end, replicas to catch up."""


@attrs.frozen
class LeaderChange:
    """A partition got another leader; what the one before had acknowledged alone may be lost."""

    object: int
    t_ns: int
    """The time at which the new leader reported its leadership."""
    old: int
    old_epoch: int
    new: int


def leader_changes(states: Mapping[str, Any]) -> dict[int, tuple[LeaderChange, ...]]:
    """Returns for each partition with a known leader the changes from one broker to another, in order."""
    is_leader = (states["kind"] == StateKind.LEADER) & (states["value"] != NONE)
    found: dict[int, list[LeaderChange]] = {}
    last: dict[int, tuple[int, int]] = {}
    told = np.flatnonzero(is_leader)
    for row in told[np.argsort(states["t_ns"][told], kind="stable")].tolist():
        obj, broker, epoch = (int(states[name][row]) for name in ("object", "value", "epoch"))
        changes = found.setdefault(obj, [])
        before = last.get(obj)
        if before is not None and epoch <= before[1]:
            continue  # told again, or late, by one that has been replaced
        last[obj] = (broker, epoch)
        # Between two epochs of one broker another one led if an epoch is missing.
        if before is not None and (broker != before[0] or epoch > before[1] + 1):
            changes.append(LeaderChange(obj, int(states["t_ns"][row]), before[0], before[1], broker))
    return {obj: tuple(changes) for obj, changes in found.items()}


def by_partition(
    allowances: Sequence[Allowance],
    states: Mapping[str, Any] | None,
    *,
    acks: str,
    names: Mapping[int, str],
    origin_ns: int = 0,
) -> tuple[Allowance, ...]:
    """Returns the same allowances, those for a change of leader for each change by itself.

    Partitions of which nothing is known keep what they had. With `acks` "1" a change of leader that no fault explains
    is allowed what every one is; with "0" nothing is promised at all, and the last allowance states that. `origin_ns`
    is what times in words count from.
    """
    found = [one for one in allowances if one.may_cost_read]
    for_change = [one for one in allowances if not one.may_cost_read]
    changes = leader_changes(states) if states is not None else {}
    for change in (change for of_partition in changes.values() for change in of_partition):
        causes = [one for one in for_change if one.begun_ns <= change.t_ns <= one.injected_ns + AFTERMATH_NS]
        name = names.get(change.object, f"partition {change.object}")
        told = (
            f"the leader of {name} went from n{change.old} to n{change.new} at {(change.t_ns - origin_ns) / 1e9:.1f} s"
        )
        if causes:
            cause = max(causes, key=lambda one: one.begun_ns)
            promise = f"{cause.promise}; {told}"
        elif acks == "1":
            cause = _no_fault(change)
            promise = f"acks=1: what the next leader had not copied may be lost; {told}, without a fault"
        else:
            continue
        found.append(
            attrs.evolve(
                cause,
                promise=promise,
                objects=frozenset({change.object}),
                node=change.old,
                epoch_max=change.old_epoch if change.old_epoch != NONE else None,
            )
        )
    untold = frozenset(names) - frozenset(changes)
    if states is None or not changes:
        found += for_change
    elif untold:
        found += [attrs.evolve(one, objects=untold) for one in for_change]
    if acks == "0":
        found.append(NOTHING_PROMISED)
    return tuple(sorted(found, key=lambda one: one.begun_ns))


def _no_fault(change: LeaderChange) -> Allowance:
    return Allowance(
        fault=NONE,
        kind="leader change",
        promise="",
        since_ns=-NEVER,
        begun_ns=change.t_ns,
        injected_ns=change.t_ns + AFTERMATH_NS,
        may_cost_read=False,
    )


NOTHING_PROMISED: Final = Allowance(
    fault=NONE,
    kind="acks=0",
    promise="acks=0: nothing was promised of what was sent",
    since_ns=-NEVER,
    begun_ns=NEVER,
    injected_ns=NEVER,
    may_cost_read=False,
    is_tail=False,
)
"""Sends that no broker acknowledges."""
