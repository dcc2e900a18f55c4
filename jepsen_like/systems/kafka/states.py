"""The brokers' reports about their partitions, as `partitions.parquet` has them: leaders, ISRs and ELRs, high watermarks."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from jepsen_like.history.partition_states import PartitionStates, StateKind, mask_of
from jepsen_like.port.observations import LEADER
from jepsen_like.systems.reports import read_events

Event = Mapping[str, Any]


def leave(event: Event) -> Event:
    """Returns the event of a broker of ours as it is."""
    return event


def states_of(nodes: Path, topic: str, translate: Callable[[Event], Event] = leave) -> PartitionStates:
    """From the events of every broker below a run's `nodes`; what is torn or of another topic is left out.

    `translate` brings the lines of other brokers into the form of ours.
    """
    states = PartitionStates()
    for t_ns, node, line in read_events(nodes):
        try:
            event = translate(line)
            if event["topic"] == topic:
                _record(states, t_ns, node, event)
        except (KeyError, TypeError, ValueError):
            continue
    return states


def _record(states: PartitionStates, t_ns: int, node: int, event: Event) -> None:
    partition = int(event["partition"])
    if event["event"] == "high_watermark":
        states.record(t_ns, partition, StateKind.HIGH_WATERMARK, int(event["offset"]), node=node)
    elif event["event"] == "isr":
        states.record(t_ns, partition, StateKind.ISR, mask_of(event["isr"]), node=node)
    elif event["event"] == "partition" and event["role"] == LEADER:
        epoch = int(event["leader_epoch"])
        states.record(t_ns, partition, StateKind.LEADER, node, node=node, epoch=epoch)
        states.record(t_ns, partition, StateKind.ISR, mask_of(event["isr"]), node=node, epoch=epoch)
        states.record(t_ns, partition, StateKind.ELIGIBLE, mask_of(event.get("elr", ())), node=node, epoch=epoch)
