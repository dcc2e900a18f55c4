"""A stall is the longest time without a sign of life, up to the end of the load."""

from pathlib import Path

from jepsen_like.history.files import HistoryWriter
from jepsen_like.history.ops import NONE, Outcome
from jepsen_like.run.stalls import Stalls, stalls_of
from jepsen_like.workload.queue_recorder import QueueRecorder

S = 10**9
TEST = {"queue": {"groups": {"0": "readers", "1": "auditors"}}}


def test_groups_stall_without_acknowledged_commits_and_reads_without_records(tmp_path: Path) -> None:
    with HistoryWriter(tmp_path) as history:
        recorder = QueueRecorder(history)
        recorder.assigned([0], process=1, t_ns=1 * S, group=0)
        recorder.assigned([0], process=2, t_ns=1 * S, group=NONE)
        for at, outcome in ((2, Outcome.OK), (5, Outcome.INFO), (9, Outcome.OK), (10, Outcome.OK), (30, Outcome.OK)):
            recorder.committed(outcome, group=0, offset=at, partition=0, process=1, t_inv=at * S - 1, t_ret=at * S)
        for at in (2, 4, 7):
            recorder.polled([at], [at], partition=0, process=2, t_inv=at * S - 1, t_ret=at * S)
            recorder.polled([at], [at], partition=0, process=1, t_inv=at * S - 1, t_ret=at * S + S)
    # The unknown commit at 5 s is no sign of life, nor is what came after the load's end at 12 s; the plain reader has none after 7 s.
    assert stalls_of(tmp_path, TEST, 12 * S) == Stalls({"readers": 7.0, "auditors": None}, 5.0)


def test_a_run_without_queues_has_none(tmp_path: Path) -> None:
    assert stalls_of(tmp_path, {}, 1) is None
