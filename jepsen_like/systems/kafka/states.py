"""The brokers' reports about their partitions, as `partitions.parquet` has them: leaders, ISRs, high watermarks."""

import json
from pathlib import Path
from typing import Any

from jepsen_like.history.partition_states import PartitionStates, StateKind, mask_of
from jepsen_like.port.observations import LEADER


def states_of(nodes: Path, topic: str) -> PartitionStates:
    """From the events of every broker below a run's `nodes`; what is torn or of another topic is left out."""
    told: list[tuple[int, int, dict[str, Any]]] = []
    for path in sorted(nodes.glob("*/events.jsonl")):
        for line in path.read_bytes().splitlines():
            try:
                event = json.loads(line)
                if event["topic"] == topic:
                    told.append((int(event["t_ns"]), int(path.parent.name), event))
            except (ValueError, KeyError, TypeError):
                continue
    states = PartitionStates()
    for t_ns, node, event in sorted(told, key=lambda one: one[:2]):
        try:
            _record(states, t_ns, node, event)
        except (KeyError, TypeError, ValueError):
            continue
    return states


def _record(states: PartitionStates, t_ns: int, node: int, event: dict[str, Any]) -> None:
    partition = int(event["partition"])
    if event["event"] == "high_watermark":
        states.record(t_ns, partition, StateKind.HIGH_WATERMARK, int(event["offset"]), node=node)
    elif event["event"] == "partition" and event["role"] == LEADER:
        epoch = int(event["leader_epoch"])
        states.record(t_ns, partition, StateKind.LEADER, node, node=node, epoch=epoch)
        states.record(t_ns, partition, StateKind.ISR, mask_of(event["isr"]), node=node, epoch=epoch)
