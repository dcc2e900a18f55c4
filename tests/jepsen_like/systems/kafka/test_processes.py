"""Events that brokers print become observations, and after a run the states of its partitions."""

import json
from pathlib import Path
from typing import Any

import pytest

from jepsen_like.history.partition_states import StateKind, mask_of, read_states
from jepsen_like.port.observations import Observation, OwnEnd, Ready, RoleReported, Served
from jepsen_like.systems.kafka.processes import observe
from jepsen_like.systems.kafka.states import states_of

LED = {"event": "partition", "topic": "log", "partition": 2, "role": "leader", "leader": 1, "leader_epoch": 4}


@pytest.mark.parametrize(
    ("event", "seen"),
    [
        ({"event": "listening", "address": "127.0.0.1:1"}, Ready()),
        ({"event": "serving"}, None),
        ({"event": "controller", "node": 1, "term": 3}, RoleReported("leader", 3, "controller")),
        ({"event": "controller", "role": "follower", "term": 4}, RoleReported("follower", 4, "controller")),
        ({**LED, "isr": [1]}, RoleReported("leader", 4, "log-2")),
        ({**LED, "role": "follower"}, RoleReported("follower", 4, "log-2")),
        ({"event": "failed", "status": 3, "reason": "no disk"}, OwnEnd(3, "no disk")),
        ({"event": "high_watermark", "topic": "log", "partition": 0, "offset": 9}, None),
        (
            {"event": "follower_reads", "topic": "log", "partition": 1, "times": 4},
            Served("reads that followers answered", 4),
        ),
        ({"event": "of another day"}, None),
    ],
)
def test_a_line_of_a_broker_is_understood(event: dict[str, Any], seen: Observation | None) -> None:
    assert observe(event) == seen


@pytest.mark.parametrize("event", [{"event": "partition"}, {"event": "controller"}, {**LED, "partition": "x"}])
def test_a_line_without_its_fields_is_told_apart(event: dict[str, Any]) -> None:
    with pytest.raises((KeyError, ValueError)):
        observe(event)


def test_leaders_isrs_and_high_watermarks_are_kept_in_order(tmp_path: Path) -> None:
    lines = {
        1: [
            {**LED, "isr": [1, 3], "elr": [2], "t_ns": 5},
            {**LED, "topic": "other", "isr": [], "t_ns": 6},
            {**LED, "isr": [1]},
        ],
        3: [{"event": "high_watermark", "topic": "log", "partition": 2, "offset": 8, "t_ns": 2}],
    }
    for node, events in lines.items():
        (tmp_path / f"nodes/{node}").mkdir(parents=True)
        text = "".join(json.dumps(event) + "\n" for event in events)
        (tmp_path / f"nodes/{node}/events.jsonl").write_text(text + '{"event": "part')
    states_of(tmp_path / "nodes", "log").write(tmp_path)
    states = read_states(tmp_path)
    assert states is not None
    assert states["t_ns"].tolist() == [2, 5, 5, 5]
    expected = [StateKind.HIGH_WATERMARK, StateKind.LEADER, StateKind.ISR, StateKind.ELIGIBLE]
    assert states["kind"].tolist() == expected
    assert states["value"].tolist() == [8, 1, mask_of([1, 3]), mask_of([2])]
