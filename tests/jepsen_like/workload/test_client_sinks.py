"""Reports of client processes reach the history whole, and under a process that does one thing at a time."""

from collections.abc import Callable
from pathlib import Path

import msgpack
import pytest

from jepsen_like.history.files import HistoryReader, HistoryWriter
from jepsen_like.history.ops import NONE, Action, ErrorCode, Op, Outcome
from jepsen_like.systems.rocketmq.pushed_sink import PushedSink
from jepsen_like.workload.client_rows import (
    ROW_TYPES,
    AssignedRow,
    ClientPlan,
    GivenRow,
    PolledRow,
    ReadRow,
    Row,
    SentRow,
    TailRow,
)
from jepsen_like.workload.client_sinks import ClientSink, LogSink, QueueSink
from jepsen_like.workload.queue_recorder import QueueRecorder

PLAN = ClientPlan(role="sender", topic="t", seed=1, group=0)
UNKNOWN = (Outcome.INFO, ErrorCode.TIMEOUT)
ACKED = (Outcome.OK, ErrorCode.NONE)


def record_rows(directory: Path, make: Callable[[QueueRecorder], ClientSink], rows: list[Row]) -> list[Op]:
    """Returns the history of these rows, after the final read has found value 8 in object 3."""
    with HistoryWriter(directory) as history:
        sink = make(QueueRecorder(history))
        for row in rows:
            name, *fields = msgpack.unpackb(msgpack.packb((type(row).__name__, *row)))
            sink.take(PLAN, 0, ROW_TYPES[name](*fields))
        sink.place({8: 3})
    return list(HistoryReader.open(directory).ops())


@pytest.mark.parametrize("make", [LogSink, lambda recorder: PushedSink(recorder, groups=2)], ids=["log", "queue"])
def test_a_slot_is_another_process_after_an_unknown_outcome(
    tmp_path: Path, make: Callable[[QueueRecorder], ClientSink]
) -> None:
    outcomes = [ACKED, UNKNOWN, ACKED, (Outcome.FAIL, ErrorCode.BUSY), ACKED]
    rows: list[Row] = [
        SentRow(0, number, 1, 10 * number + 1, 10 * number + 2, *ended, number) for number, ended in enumerate(outcomes)
    ]
    ops = record_rows(tmp_path, make, rows)
    assert [op.process for op in sorted(ops, key=lambda op: op.t_inv)] == [0, 0, 1, 1, 1]
    assert {op.type for op in ops} == set(Outcome)


def test_an_append_that_is_stored_at_an_unknown_place_is_unknown(tmp_path: Path) -> None:
    ops = record_rows(tmp_path, LogSink, [SentRow(0, 5, 1, 1, 2, *ACKED, NONE), SentRow(0, 6, 1, 3, 4, *ACKED, 7)])
    assert [(op.type, op.process, op.a) for op in ops] == [(Outcome.INFO, 0, 5), (Outcome.OK, 1, 6)]


@pytest.mark.parametrize("make", [LogSink, lambda recorder: PushedSink(recorder, groups=2)], ids=["log", "queue"])
def test_a_message_whose_queue_is_a_guess_waits_for_the_final_read(
    tmp_path: Path, make: Callable[[QueueRecorder], ClientSink]
) -> None:
    guessed = [SentRow(slot, value, 1, 1, 2, *ACKED, 0, is_placed=False) for slot, value in enumerate((8, 9))]
    ops = record_rows(tmp_path, make, [*guessed, SentRow(2, 7, 2, 3, 4, *ACKED, 0)])
    assert {op.a: op.object for op in ops} == {7: 2, 8: 3, 9: 1}


def test_a_member_polls_in_its_own_name_and_a_final_read_in_that_of_its_object(tmp_path: Path) -> None:
    rows: list[Row] = [
        AssignedRow([1], [0], 1),
        PolledRow(1, [5, 6], [0, 1], True, 2, 3),
        GivenRow(7, False, 1, 2, 4, 5),
        TailRow(1, 0, 2, 6, 7),
        ReadRow(1, 0, [5, 6], -1, True, 8, 9),
    ]
    ops = record_rows(tmp_path, QueueSink, rows)
    assert [(op.f, op.a, op.offset) for op in ops if op.f is Action.POLL] == [
        (Action.POLL, 5, 0),
        (Action.POLL, 6, 1),
        (Action.POLL, 7, 2),
        (Action.POLL, 5, 0),
        (Action.POLL, 6, 1),
    ]
    (damaged,) = [op for op in ops if op.err is ErrorCode.DAMAGED_VALUE]
    assert (damaged.a, damaged.b) == (7, PLAN.group)
    assert len({op.process for op in ops if op.t_inv < 6}) == len({op.process for op in ops if op.t_inv >= 6}) == 1
    assert len({op.process for op in ops}) == 2
