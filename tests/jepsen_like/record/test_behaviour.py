"""The figures of a run say how a system behaved: how operations ended, where records lie, who led, and what was given twice."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from jepsen_like.history.files import DumpWriter, HistoryWriter
from jepsen_like.history.ops import NONE, ErrorCode, Outcome
from jepsen_like.history.partition_states import PartitionStates, StateKind
from jepsen_like.record import behaviour
from jepsen_like.record.behaviour import (
    ENDS,
    EPOCHS,
    OFFSETS,
    RECORDS,
    RECOVERY,
    REDELIVERY,
    VERDICT,
    Value,
    count_inverted,
    read_behaviour,
)
from jepsen_like.record.results import RunResults
from jepsen_like.workload.queue_recorder import QueueRecorder

S = 10**9
READERS = 3
RESULTS = RunResults.of_json(
    {
        "valid": True,
        "acked": 3,
        "lost_acked": 1,
        "roles": [{"role": "leader", "term": 4}, {"role": "leader", "term": 6}, {"role": "follower", "term": 7}],
        "rto_s": {
            "max": None,
            "gap_max": None,
            "unrecovered": 1,
            "faults": [
                {"id": 1, "kind": "kill", "target": "leader", "s": 2.5, "recovered": True},
                {"id": 2, "kind": "pause", "target": "all", "s": 0.5, "recovered": False},
            ],
        },
    }
)


def record(directory: Path) -> None:
    with HistoryWriter(directory / "history.parquet") as history:
        recorder = QueueRecorder(history)
        for value, offset in enumerate((0, 1, 3), start=1):
            recorder.record_send(value, partition=0, offset=offset, process=1, t_inv=value * S, t_ret=value * S + 1)
        recorder.not_sent(9, Outcome.INFO, ErrorCode.TIMEOUT, partition=0, process=1, t_inv=S, t_ret=2 * S)
        recorder.record_assignment([0], process=7, t_ns=S, group=READERS)
        recorder.record_assignment([0], process=8, t_ns=S)
        recorder.record_poll([1, 2], [0, 1], partition=0, process=7, t_inv=4 * S, t_ret=5 * S)
        recorder.record_poll([2, 3], [1, 3], partition=0, process=7, t_inv=6 * S, t_ret=7 * S)
        recorder.record_poll([1, 2], [0, 1], partition=0, process=8, t_inv=6 * S, t_ret=7 * S)
    with DumpWriter(directory / "dump.parquet") as dump:
        for node in (1, 2):
            dump.record(node, 0, 0, [1, 2])
            dump.record(node, 3, 0, [3])


def figures(directory: Path) -> dict[tuple[str, str], Value]:
    return {(each.aspect, each.name): each.value for each in read_behaviour(directory, RESULTS)}


def test_a_run_is_read_as_figures(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    record(tmp_path)
    assert (ENDS, "write ok") not in figures(tmp_path), "four operations have no shares"
    monkeypatch.setattr(behaviour, "FEW", 4)
    found = figures(tmp_path)
    assert found[VERDICT, "of the check"] == "valid"
    assert found[RECORDS, "lost"] == 1
    assert (found[ENDS, "write ok"], found[ENDS, "write unknown, timeout"]) == (0.75, 0.25)
    assert found[OFFSETS, "the last log begins at"] == 0
    assert found[OFFSETS, "without a record"] == 1
    assert found[OFFSETS, "given to two records"] == 0
    assert found[RECOVERY, "1 kill leader"] == 2.5
    assert found[RECOVERY, "2 pause all"] is None


def test_a_consumer_without_a_group_is_given_nothing_again(tmp_path: Path) -> None:
    record(tmp_path)
    assert figures(tmp_path)[REDELIVERY, "given again"] == 0.25


def test_epochs_are_those_of_each_partition(tmp_path: Path) -> None:
    record(tmp_path)
    assert figures(tmp_path)[EPOCHS, "begun in each partition"] == 1, "by terms, where no partition was reported"
    states = PartitionStates()
    for partition, epoch, leader in ((0, 4, 1), (0, 5, 2), (0, 5, 2), (0, 7, 1), (1, 4, 2), (1, 4, 3)):
        states.record(S, partition, StateKind.LEADER, leader, node=leader, epoch=epoch)
    states.record(S, 0, StateKind.ISR, 7, epoch=9)
    states.write(tmp_path)
    found = figures(tmp_path)
    assert found[EPOCHS, "begun in each partition"] == 1
    assert found[EPOCHS, "with two leaders"] == 1


def test_masters_begin_epochs_too(tmp_path: Path) -> None:
    record(tmp_path)
    states = PartitionStates()
    for epoch, role in ((1, 1), (2, 0), (3, 1), (3, NONE)):
        states.record(S, 0, StateKind.ROLE, role, node=1, epoch=epoch)
    states.write(tmp_path)
    assert figures(tmp_path)[EPOCHS, "begun in each partition"] == 1


@pytest.mark.parametrize(
    ("writes", "inverted"),
    [
        ([(0, 1, 5), (2, 3, 6)], 0),
        ([(0, 1, 5), (2, 3, 4)], 1),
        ([(0, 3, 5), (2, 4, 4)], 0),
        ([(0, 1, 5), (1, 2, 4)], 0),
        ([(0, 1, 9), (2, 3, 4), (4, 5, 6)], 2),
    ],
)
def test_offsets_have_to_rise_in_real_time_alone(writes: list[tuple[int, int, int]], inverted: int) -> None:
    columns: Any = np.array(writes, np.int64).T
    assert count_inverted(*columns) == inverted
