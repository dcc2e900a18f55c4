"""The report of a queue's run shows its partitions and its groups next to the faults."""

import json
import re
from pathlib import Path
from xml.etree import ElementTree

import pytest

from jepsen_like.history.files import HistoryWriter
from jepsen_like.history.ops import NONE, ErrorCode, Outcome
from jepsen_like.history.partition_states import PartitionStates, StateKind, mask_of
from jepsen_like.report import render_report
from jepsen_like.report.findings import UnreadableRun, read_findings
from jepsen_like.report.queue_states import PARTITIONS_MAX, POINTS_MAX, QueueStates, read_queue_states
from jepsen_like.workload.queue_recorder import QueueRecorder
from tests.jepsen_like.report.made_up_runs import change_results, made_up_run
from tests.jepsen_like.report.test_report import strip_tags

S = 10**9
ORIGIN = 100 * S
QUEUE = {"partitions": {"0": "orders-0", "1": "orders-1"}, "groups": {"3": "billing"}}


def states_written(run: Path, *, partitions: int = 2) -> None:
    states = PartitionStates()
    for partition in range(partitions):
        for at_s, leader, epoch, isr in (
            (0, 1, 1, (1, 2, 3)),
            (0.1, 1, 1, (1, 2, 3)),
            (12, 1, 1, (1, 2)),
            (20, 2, 2, (2, 3)),
        ):
            at = ORIGIN + round(at_s * S)
            states.record(at, partition, StateKind.LEADER, leader, node=leader, epoch=epoch)
            states.record(at, partition, StateKind.ISR, mask_of(isr), node=leader, epoch=epoch)
            states.record(at, partition, StateKind.ELIGIBLE, mask_of((3,) if at_s == 12 else ()), node=leader)
        for at_s in range(50):
            states.record(ORIGIN + at_s * S, partition, StateKind.HIGH_WATERMARK, 40 * at_s, node=1)
    states.record(ORIGIN + 21 * S, 0, StateKind.UNCLEAN, 2, epoch=2)
    states.write(run)


def history_written(run: Path) -> None:
    with HistoryWriter(run / "history.parquet") as history:
        recorder = QueueRecorder(history)
        recorder.record_send(1, partition=0, offset=0, process=1, t_inv=ORIGIN, t_ret=ORIGIN + S)
        recorder.record_assignment([0, 1], process=7, t_ns=ORIGIN - S, group=3)
        recorder.record_revocation([0], process=7, t_ns=ORIGIN + 20 * S, group=3)
        recorder.record_assignment([0, 1], process=8, t_ns=ORIGIN + 21 * S, group=3)
        recorder.record_revocation([1], process=7, t_ns=ORIGIN + 25 * S, group=3, is_lost=True)
        for number, outcome in enumerate((Outcome.OK, Outcome.FAIL)):
            recorder.record_commit(
                outcome,
                group=3,
                offset=10 + number,
                partition=0,
                process=7,
                t_inv=ORIGIN + (10 + number) * S,
                t_ret=ORIGIN + (11 + number) * S,
                error=ErrorCode.NONE if outcome is Outcome.OK else ErrorCode.FENCED,
            )


def queue_run(directory: Path, **results: object) -> Path:
    run = change_results(made_up_run(directory), model="queue", **results)
    test = json.loads((run / "test.json").read_text())
    (run / "test.json").write_text(json.dumps({**test, "queue": QUEUE}))
    return run


def read_states(run: Path) -> QueueStates:
    states = read_queue_states(run, read_findings(run).test)
    assert states is not None
    return states


def test_partitions_are_read_as_lanes(tmp_path: Path) -> None:
    run = queue_run(tmp_path)
    history_written(run)
    states_written(run)
    lane, other = read_states(run).partitions
    assert (lane.name, other.name) == ("orders-0", "orders-1")
    assert [(span.begin_s, span.end_s, span.broker, span.epoch) for span in lane.leaders] == [
        (0, 20, 1, 1),
        (20, None, 2, 2),
    ]
    assert list(lane.in_sync) == [(0, (1, 2, 3)), (12, (1, 2)), (20, (2, 3))]
    assert list(lane.eligible) == [(0, ()), (12, (3,)), (20, ())]
    assert [lane.high_watermarks[0], lane.high_watermarks[-1]] == [(0, 0), (49, 1960)]
    assert [*lane.unclean_s, *other.unclean_s] == [21]


def test_groups_are_read_with_owners_commits_and_rebalances(tmp_path: Path) -> None:
    run = queue_run(tmp_path)
    history_written(run)
    (group,) = read_states(run).groups
    first, second = group.partitions
    assert (group.name, first.name, second.name) == ("billing", "orders-0", "orders-1")
    owners = [(one.begin_s, one.end_s, one.member, one.generation, one.was_lost) for one in second.owners]
    assert owners == [(-1, 25, 7, NONE, True), (21, None, 8, NONE, False)]
    assert list(first.commits) == [(10, 10, True), (11, 11, False)]
    assert list(group.rebalances_s) == [-1, 21]


def test_the_page_shows_both_beside_the_faults(tmp_path: Path) -> None:
    run = queue_run(tmp_path)
    history_written(run)
    states_written(run)
    page = render_report(run).read_text()
    text = strip_tags(page)
    assert "Partitions" in text
    assert "Group billing" in text
    assert "orders-0: n1 leads in epoch 1 from 0.00 s" in text
    assert "orders-0: n3 in sync from 0.00 s to 12.00 s" in text
    assert "orders-0: n3 in sync from 20.00 s to" in text
    assert "orders-0: n3 eligible to lead from 12.00 s to 20.00 s" in text
    assert "orders-0: at 21.00 s a replica was elected that was not in sync" in text
    assert "orders-1: member 7 from -1.00 s to 25.00 s, which it lost" in text
    assert "orders-0: a commit of 11 at 11.00 s was not acknowledged" in text
    pictures = re.findall(r"<svg class=\"queue\".*?</svg>", page, flags=re.DOTALL)
    assert len(pictures) == 2
    for picture in pictures:
        assert ElementTree.fromstring(picture).findall(".//g[@data-fault='1']")
    assert len(re.findall(r'class="owner t\d together', pictures[1])) == 2


def test_a_run_of_another_model_has_neither(tmp_path: Path) -> None:
    text = strip_tags(render_report(made_up_run(tmp_path)).read_text())
    assert "Partitions" not in text
    assert read_queue_states(tmp_path, {}) is None


def test_much_is_drawn_in_bounded_space(tmp_path: Path) -> None:
    run = queue_run(tmp_path)
    states_written(run, partitions=PARTITIONS_MAX + 3)
    states = PartitionStates()
    for at in range(20 * POINTS_MAX):
        states.record(ORIGIN + at, at % 2, StateKind.HIGH_WATERMARK, at, node=1)
    for partition in range(PARTITIONS_MAX + 3):
        states.record(ORIGIN, partition, StateKind.LEADER, 1, epoch=1)
    states.write(run)
    found = read_states(run)
    assert (len(found.partitions), found.left_out) == (PARTITIONS_MAX, 3)
    assert max(len(lane.high_watermarks) for lane in found.partitions) == POINTS_MAX
    assert "3 more partitions are not drawn" in strip_tags(render_report(run).read_text())


def test_a_file_of_states_that_is_none_is_named(tmp_path: Path) -> None:
    run = queue_run(tmp_path)
    (run / "partitions.parquet").write_bytes(b"PAR1")
    with pytest.raises(UnreadableRun, match=r"partitions\.parquet: not a readable Parquet file"):
        render_report(run)


def test_duplicates_that_retries_may_make_and_what_was_not_reached_are_amber(tmp_path: Path) -> None:
    checks = {"duplicated": {"valid": True, "count": 0, "examples": []}}
    page = render_report(queue_run(tmp_path, duplicated=4, unseen=2, checks=checks)).read_text()
    assert re.search(r'<div class="card warn"[^>]*><b>4</b><span>duplicated', page)
    assert re.search(r'<div class="card warn"[^>]*><b>2</b><span>acknowledged, not reached', page)
