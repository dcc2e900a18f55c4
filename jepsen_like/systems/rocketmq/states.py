"""The brokers' reports about copies of the commit log, as in `partitions.parquet`: roles, ends, confirmed ends."""

from pathlib import Path
from typing import Any

import attrs

from jepsen_like.history.ops import NONE
from jepsen_like.history.partition_states import PartitionStates, StateKind
from jepsen_like.systems.reports import read_events

MASTER = "master"


@attrs.define
class _Broker:
    """The reports of one broker until now."""

    group: str | None = None
    role: tuple[str, int] | None = None
    end: int = NONE
    confirmed: int = NONE
    last_ns: int = 0


def copies_of(nodes: Path) -> PartitionStates:
    """From the events of every broker below `nodes`, an object a group, in order of names; torn lines are left out."""
    told = read_events(nodes)
    groups = sorted({str(event["group"]) for _, _, event in told if event.get("event") == "copy_moved"})
    brokers: dict[int, _Broker] = {}
    states = PartitionStates()
    for t_ns, node, event in told:
        broker = brokers.setdefault(node, _Broker())
        try:
            _record(states, t_ns, node, event, broker, groups)
        except (KeyError, TypeError, ValueError):
            continue
        broker.last_ns = t_ns
    return states


def _record(
    states: PartitionStates, t_ns: int, node: int, event: dict[str, Any], broker: _Broker, groups: list[str]
) -> None:
    # A new process: the one before said its last at `last_ns`.
    if event["event"] == "listening" and broker.group is not None:
        states.record(broker.last_ns, groups.index(broker.group), StateKind.ROLE, NONE, node=node)
        broker.role, broker.end, broker.confirmed = None, NONE, NONE
    if event["event"] != "copy_moved":
        return
    broker.group = str(event["group"])
    group, role, epoch = groups.index(broker.group), str(event["role"]), int(event["epoch"])
    end, confirmed = int(event["end"]), int(event["confirmed"])
    if broker.role != (role, epoch):
        broker.role = role, epoch
        states.record(t_ns, group, StateKind.ROLE, int(role == MASTER), node=node, epoch=epoch)
    if broker.end != end:
        broker.end = end
        states.record(t_ns, group, StateKind.END, end, node=node, epoch=epoch)
    if role == MASTER and broker.confirmed != confirmed:
        broker.confirmed = confirmed
        states.record(t_ns, group, StateKind.HIGH_WATERMARK, confirmed, node=node, epoch=epoch)
