"""A stall is the longest time without a sign of life, up to the end of the load."""

from pathlib import Path
from typing import Any

from jepsen_like.history.files import HistoryWriter
from jepsen_like.history.ops import NONE, Action, ErrorCode, Outcome
from jepsen_like.record.stalls import Silences, Stalls, silences_of, stalls_of
from jepsen_like.workload.model import Request, Seen
from jepsen_like.workload.queue_recorder import QueueRecorder
from jepsen_like.workload.recorder import Recorder

S = 10**9
TEST = {"queue": {"groups": {"0": "readers", "1": "auditors"}}}


async def no_one(connection: Any) -> None:
    raise AssertionError("it is only recorded")


def test_groups_stall_without_acknowledged_commits_and_reads_without_records(tmp_path: Path) -> None:
    with HistoryWriter(tmp_path) as history:
        recorder = QueueRecorder(history)
        recorder.record_assignment([0], process=1, t_ns=1 * S, group=0)
        recorder.record_assignment([0], process=2, t_ns=1 * S, group=NONE)
        for at, outcome in ((2, Outcome.OK), (5, Outcome.INFO), (9, Outcome.OK), (10, Outcome.OK), (30, Outcome.OK)):
            recorder.record_commit(outcome, group=0, offset=at, partition=0, process=1, t_inv=at * S - 1, t_ret=at * S)
        for at in (2, 4, 7):
            recorder.record_poll([at], [at], partition=0, process=2, t_inv=at * S - 1, t_ret=at * S)
            recorder.record_poll([at], [at], partition=0, process=1, t_inv=at * S - 1, t_ret=at * S + S)
    # The unknown commit at 5 s is no sign of life, nor is what came after the load's end at 12 s; the plain reader has none after 7 s.
    assert stalls_of(tmp_path, TEST, 12 * S) == Stalls({"readers": 7.0, "auditors": None}, 5.0)


def test_a_scope_is_silent_without_an_acknowledged_write_of_its_own(tmp_path: Path) -> None:
    with HistoryWriter(tmp_path) as history:
        recorder = Recorder(history)
        for at, obj in ((1, 0), (2, 2), (4, 1), (5, 2), (9, 3), (11, 2), (30, 0)):
            request = Request(Action.APPEND, ask=no_one, object=obj)
            recorder.ok(request, Seen((at,), at), process=0, node=1, t_inv=at * S - 1, t_ret=at * S)
        late = Request(Action.APPEND, ask=no_one, object=0)
        recorder.record_end(late, Outcome.INFO, ErrorCode.TIMEOUT, process=0, node=1, t_inv=7 * S, t_ret=8 * S)
    # What came after the load's end at 12 s is no sign of life, nor is an unknown write.
    test = {"scopes": {"a": [0, 1], "b": [2, 3], "c": [4]}}
    assert silences_of(tmp_path, test, 12 * S) == Silences({"a": 8.0, "b": 4.0, "c": None}, 4.0)


def test_a_run_without_queues_has_none(tmp_path: Path) -> None:
    assert stalls_of(tmp_path, {}, 1) is None
    assert silences_of(tmp_path, {}, 1) is None
