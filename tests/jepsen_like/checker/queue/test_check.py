"""Each kind of violation of a queue, planted in a run as its recorder writes it, found by name; and what a run without flaw is told."""

import json
import re
from array import array
from collections.abc import Callable
from pathlib import Path

import attrs
import pytest

from jepsen_like.checker.allowance import Allowance
from jepsen_like.checker.checking import check_run
from jepsen_like.checker.engine.spark import SparkEngine
from jepsen_like.checker.verdict import Check, Engine, Model, Verdict
from jepsen_like.cli import ExitStatus, main
from jepsen_like.history.files import DumpWriter, HistoryWriter, UnreadableHistory
from jepsen_like.history.ops import NONE, ErrorCode, Op, Outcome
from jepsen_like.workload.queue_recorder import QueueRecorder

S = 1_000_000_000
PARTITIONS = (0, 1, 5)
RECORDS = 20
READER, LAST_READER = 7, 9
FIRST_MEMBER, SECOND_MEMBER = 21, 22
GROUP = 3
TEST = {
    "nodes": 3,
    "queue": {
        "acks": "all",
        "ordered_sends": True,
        "session_timeout_s": 6,
        "rebalance_timeout_s": 10,
        "partitions": {"0": "orders-0", "1": "orders-1", "5": "paid-0"},
        "groups": {"3": "billing"},
    },
}


def value_of(partition: int, offset: int) -> int:
    return 1000 * (partition + 1) + offset


@attrs.define
class Run:
    """A run as it is written: one sound history of three partitions, to which a test adds, or in which it changes, something."""

    recorder: QueueRecorder
    logs: dict[int, dict[int, list[int]]] = attrs.field(
        factory=lambda: {
            partition: {node: [value_of(partition, offset) for offset in range(RECORDS)] for node in (1, 2, 3)}
            for partition in PARTITIONS
        }
    )
    final: dict[int, list[int]] = attrs.field(
        factory=lambda: {
            partition: [value_of(partition, offset) for offset in range(RECORDS)] for partition in PARTITIONS
        }
    )

    def send(self, value: int, offset: int, at: int, *, partition: int = 5, producer: int = 1) -> None:
        self.recorder.record_send(
            value, partition=partition, offset=offset, process=producer, t_inv=at, t_ret=at + S // 2, epoch=1, node=1
        )

    def poll(self, offsets: list[int], at: int, *, consumer: int = READER, values: list[int] | None = None) -> None:
        found = [value_of(5, offset) for offset in offsets] if values is None else values
        self.recorder.record_poll(
            array("q", found), array("q", offsets), partition=5, process=consumer, t_inv=at, t_ret=at + S // 10
        )

    def assign(self, member: int, at: int, generation: int = NONE) -> None:
        self.recorder.record_assignment([5], process=member, t_ns=at, group=GROUP, generation=generation)

    def revoke(self, member: int, at: int) -> None:
        self.recorder.record_revocation([5], process=member, t_ns=at, group=GROUP)

    def commit(self, member: int, offset: int, at: int, generation: int = NONE) -> None:
        self.recorder.record_commit(
            Outcome.OK,
            group=GROUP,
            offset=offset,
            partition=5,
            process=member,
            t_inv=at,
            t_ret=at + S // 10,
            generation=generation,
        )


def nothing(run: Run) -> None:
    """As it is."""


def a_lost_message(run: Run) -> None:
    run.final[5][4] = value_of(5, 4) + 500
    for log in run.logs[5].values():
        log[4] = value_of(5, 4) + 500
    run.recorder.not_sent(
        value_of(5, 4) + 500, Outcome.INFO, ErrorCode.TIMEOUT, partition=5, process=2, t_inv=S, t_ret=3 * S
    )


def a_lost_end(run: Run) -> None:
    run.send(5900, RECORDS, 50 * S)


def a_duplicate(run: Run) -> None:
    run.send(5900, RECORDS, 50 * S)
    for log in (run.final[5], *run.logs[5].values()):
        log += [5900, 5900]


def a_divergent_offset(run: Run) -> None:
    run.recorder.not_sent(5900, Outcome.INFO, ErrorCode.TIMEOUT, partition=5, process=2, t_inv=S, t_ret=S)
    run.poll([4], 50 * S, values=[5900])
    for log in (run.final[5], *run.logs[5].values()):
        log += [5900]


def a_phantom(run: Run) -> None:
    run.poll([RECORDS], 50 * S, values=[77])


def damaged_bytes(run: Run) -> None:
    run.recorder.record_poll([NONE], [RECORDS], partition=5, process=READER, t_inv=50 * S, t_ret=51 * S, is_whole=False)


def an_aborted_read(run: Run) -> None:
    run.recorder.not_sent(5900, Outcome.FAIL, ErrorCode.NOT_LEADER, partition=5, process=2, t_inv=S, t_ret=2 * S)
    for log in (run.final[5], *run.logs[5].values()):
        log += [5900]


def a_late_send_before(run: Run) -> None:
    run.recorder.record_send(5900, partition=5, offset=RECORDS, process=30, t_inv=50 * S, t_ret=51 * S)
    run.recorder.record_send(5901, partition=5, offset=RECORDS + 1, process=31, t_inv=45 * S, t_ret=46 * S)
    for log in (run.final[5], *run.logs[5].values()):
        log += [5900, 5901]


def sends_out_of_order(run: Run) -> None:
    run.recorder.record_send(5900, partition=5, offset=RECORDS, process=30, t_inv=46 * S, t_ret=51 * S)
    run.recorder.record_send(5901, partition=5, offset=RECORDS + 1, process=30, t_inv=45 * S, t_ret=52 * S)
    for log in (run.final[5], *run.logs[5].values()):
        log += [5900, 5901]


def a_step_back(run: Run) -> None:
    run.poll([3, 4, 5], 50 * S)
    run.poll([5, 6], 51 * S)


def a_skip(run: Run) -> None:
    run.poll([3, 4, 6], 50 * S)


def a_group_that_skips(run: Run) -> None:
    run.assign(FIRST_MEMBER, 50 * S)
    run.commit(FIRST_MEMBER, 4, 51 * S)
    run.revoke(FIRST_MEMBER, 52 * S)
    run.assign(SECOND_MEMBER, 53 * S)
    run.poll([5], 54 * S, consumer=SECOND_MEMBER)


def a_commit_that_is_gone(run: Run) -> None:
    run.commit(FIRST_MEMBER, 4, 51 * S)
    run.commit(FIRST_MEMBER, 9, 52 * S)
    run.recorder.position_read(4, group=GROUP, partition=5, process=FIRST_MEMBER, t_inv=53 * S, t_ret=54 * S)


def a_group_that_starts_again(run: Run) -> None:
    run.commit(FIRST_MEMBER, 9, 52 * S)
    run.assign(SECOND_MEMBER, 53 * S)
    run.poll([0, 1], 54 * S, consumer=SECOND_MEMBER)


def two_owners_of_one_generation(run: Run) -> None:
    run.assign(FIRST_MEMBER, 50 * S, generation=4)
    run.revoke(FIRST_MEMBER, 51 * S)
    run.assign(SECOND_MEMBER, 52 * S, generation=4)


def a_commit_of_an_old_generation(run: Run) -> None:
    run.assign(FIRST_MEMBER, 30 * S, generation=4)
    run.assign(SECOND_MEMBER, 52 * S, generation=5)
    run.commit(FIRST_MEMBER, 4, 53 * S, generation=4)


def a_commit_after_the_successor(run: Run) -> None:
    run.assign(FIRST_MEMBER, 30 * S)
    run.assign(SECOND_MEMBER, 52 * S)
    run.commit(FIRST_MEMBER, 4, 53 * S)


def an_owner_replaced_too_soon(run: Run) -> None:
    run.assign(FIRST_MEMBER, 30 * S)
    run.commit(FIRST_MEMBER, 4, 50 * S)
    run.assign(SECOND_MEMBER, 50 * S + 5 * S)


def a_replica_that_differs(run: Run) -> None:
    run.logs[5][3][2] = value_of(5, 3)
    run.logs[5][3][3] = value_of(5, 2)


def a_replica_that_ends_early(run: Run) -> None:
    del run.logs[5][2][-1]


PLANTS: list[tuple[Callable[[Run], None], Check, str]] = [
    (
        a_lost_message,
        Check.LOST,
        r"send of 6004 at offset 4 by process 1 was acknowledged, and is gone: the final read had",
    ),
    (a_lost_end, Check.LOST, "send of 5900 at offset 20 .* is gone: the partition ends at offset 20"),
    (a_duplicate, Check.DUPLICATED, "5900 was sent once and stands at offsets 20 and 21"),
    (a_divergent_offset, Check.DIVERGENT_OFFSET, "offset 4 has two values"),
    (a_phantom, Check.PHANTOM, "poll of 77 at offset 20 by process 7 was sent by no client"),
    (damaged_bytes, Check.PHANTOM, "poll of bytes that are no value at offset 20 .*: no message was sent so"),
    (an_aborted_read, Check.ABORTED_READ, r"send of 5900 \(refused\) by process 2: not stored"),
    (a_late_send_before, Check.ORDER, "send of 5900 at offset 20 by process 30 began after send of 5901"),
    (sends_out_of_order, Check.SEND_ORDER, "send of 5900 at offset 20 .* was sent after send of 5901"),
    (a_step_back, Check.NONMONOTONIC_POLL, "process 7 went back: after offset 5 it got offset 5"),
    (a_skip, Check.SKIPPED_POLL, "process 7 passed over what lies between: after offset 4 it got offset 6"),
    (a_group_that_skips, Check.SKIPPED_POLL, "group billing passed over records: it had committed 4 at most"),
    (a_commit_that_is_gone, Check.COMMIT_REGRESS, "group billing went back: commit of 9 .* found less: reading 4"),
    (a_group_that_starts_again, Check.COMMIT_REGRESS, "group billing went back: commit of 9 .* started there again"),
    (two_owners_of_one_generation, Check.TWO_OWNERS, "group billing gave paid-0 to two members in generation 4"),
    (a_commit_of_an_old_generation, Check.TWO_OWNERS, "though paid-0 belonged to process 22 when it began"),
    (a_commit_after_the_successor, Check.TWO_OWNERS, "though paid-0 belonged to process 22 when it began"),
    (
        an_owner_replaced_too_soon,
        Check.TWO_OWNERS,
        "5.000 s after a commit of that one: it could not have been expelled",
    ),
    (
        a_replica_that_differs,
        Check.REPLICAS,
        "read of 6002 at offset 2 by the final log of node 1 in epoch 1, and read of 6003",
    ),
    (a_replica_that_ends_early, Check.REPLICAS, "the final log of node 2 ends at offset 19, that of another at 20"),
]


def write_run(
    directory: Path,
    plant: Callable[[Run], None] = nothing,
    *,
    with_final_read: bool = True,
    with_logs: bool = True,
    test: dict[str, object] = TEST,
) -> Path:
    """Writes a run directory: three partitions, one producer each time, one reader, and a plant."""
    directory.mkdir(exist_ok=True)
    (directory / "test.json").write_text(json.dumps(test))
    with HistoryWriter(directory / "history.parquet") as history:
        run = Run(QueueRecorder(history))
        for partition in PARTITIONS:
            for offset in range(RECORDS):
                run.send(value_of(partition, offset), offset, (offset + 1) * S, partition=partition)
            run.recorder.record_assignment([partition], process=READER, t_ns=0, positions=[0])
        run.poll([0, 1, 2], 40 * S)
        plant(run)
        for partition in PARTITIONS if with_final_read else ():
            values = run.final[partition]
            run.recorder.final_read(
                partition=partition, start=0, end=len(values), process=LAST_READER, t_inv=90 * S, t_ret=91 * S
            )
            run.recorder.record_poll(
                array("q", values),
                array("q", range(len(values))),
                partition=partition,
                process=LAST_READER,
                t_inv=92 * S,
                t_ret=93 * S,
            )
    if with_logs:
        with DumpWriter(directory / "dump.parquet") as dump:
            for partition, logs in run.logs.items():
                for node, values in logs.items():
                    dump.begin(node, 0, obj=partition)
                    dump.record(node, 0, 1, values, size=100 * len(values), obj=partition)
            dump.dumped_ns = 100 * S
    return directory


def judge_run(directory: Path, *allowances: Allowance) -> Verdict:
    return check_run(directory, Model.QUEUE, Engine.LOCAL, allowances=allowances)


def test_a_run_in_which_nothing_was_planted_is_valid(tmp_path: Path) -> None:
    verdict = judge_run(write_run(tmp_path / "run"))
    assert (verdict.valid, verdict.findings.counts) == (True, {})
    assert (verdict.findings.objects, verdict.findings.acked, verdict.findings.lost_acked) == (3, 60, 0)
    assert verdict.not_tested == (
        "commits: no group's position was read, or resumed, after a commit",
        "ownership: no partition went from one member of a group to another",
    )


@pytest.mark.parametrize(("plant", "check", "sentence"), PLANTS, ids=[plant.__name__ for plant, _, _ in PLANTS])
def test_what_was_planted_is_found_by_name(
    plant: Callable[[Run], None], check: Check, sentence: str, tmp_path: Path
) -> None:
    verdict = judge_run(write_run(tmp_path / "run", plant))
    assert verdict.valid is False
    assert verdict.findings.violated == {5}
    (first, *_) = (one for one in verdict.violations if one.check is check)
    assert first.sentence.startswith("paid-0: ")
    assert re.search(sentence, first.sentence), first.sentence
    assert verdict.as_json()["checks"][str(check)]["valid"] is False


def kill(**fields: object) -> Allowance:
    values: dict[str, object] = {
        "fault": 2,
        "kind": "kill",
        "promise": "acks=1 and leader of paid-0 killed at 12.3 s: what no follower had may be lost",
        "since_ns": 0,
        "begun_ns": 60 * S,
        "injected_ns": 61 * S,
        "objects": frozenset({5}),
        "may_cost_read": False,
    }
    return Allowance(**{**values, **fields})  # type: ignore[arg-type]


def test_a_loss_that_the_mode_allows_is_told_with_the_fault_and_the_setting(tmp_path: Path) -> None:
    verdict = judge_run(write_run(tmp_path / "run", a_lost_end), kill())
    assert (verdict.valid, verdict.findings.lost_acked, verdict.lost_allowed) == (True, 1, 1)
    (loss,) = verdict.as_json()["lost_allowed"]
    assert (loss["fault"], loss["object"], loss["of"], loss["offsets"]) == (2, 5, "paid-0", [20, 20])
    assert loss["says"] == (
        "1 acknowledged records of paid-0 at offsets 20 to 20, the earliest acknowledged 9.50 s before fault 2 (kill at 59.0 s); "
        "acks=1 and leader of paid-0 killed at 12.3 s: what no follower had may be lost"
    )
    assert "1 lost in addition" in verdict.as_json()["checks"]["lost"]["reason"]


@pytest.mark.parametrize(
    "allowance",
    [
        kill(objects=frozenset({0})),
        kill(begun_ns=40 * S, injected_ns=41 * S),
        kill(since_ns=55 * S),
        kill(node=2),
        kill(epoch_max=0),
    ],
    ids=["another partition", "over before it was sent", "does not reach back", "another broker", "an earlier epoch"],
)
def test_a_fault_that_cannot_have_cost_a_message_does_not_excuse_it(allowance: Allowance, tmp_path: Path) -> None:
    verdict = judge_run(write_run(tmp_path / "run", a_lost_end), allowance)
    assert (verdict.valid, verdict.lost_allowed) == (False, 0)


def test_a_hole_is_no_lost_end(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", a_lost_message)
    assert judge_run(run, kill()).valid is False
    assert judge_run(run, kill(is_tail=False)).lost_allowed == 1


def test_what_a_consumer_had_read_is_excused_only_by_a_fault_that_costs_that(tmp_path: Path) -> None:
    def plant(run: Run) -> None:
        a_lost_end(run)
        run.recorder.record_poll([5900], [RECORDS], partition=5, process=77, t_inv=55 * S, t_ret=56 * S)

    run = write_run(tmp_path / "run", plant)
    assert judge_run(run, kill()).valid is False
    assert judge_run(run, kill(may_cost_read=True)).lost_allowed == 1


def test_without_final_reads_the_final_logs_tell_what_was_lost(tmp_path: Path) -> None:
    sound = judge_run(write_run(tmp_path / "sound", with_final_read=False))
    assert (sound.valid, [line for line in sound.not_tested if line.startswith("loss")]) == (True, [])
    assert judge_run(write_run(tmp_path / "lost", a_lost_end, with_final_read=False)).findings.lost_acked == 1


def test_without_either_a_loss_is_not_tested(tmp_path: Path) -> None:
    verdict = judge_run(write_run(tmp_path / "run", a_lost_end, with_final_read=False, with_logs=False))
    assert verdict.valid is True
    assert "loss: 3 of 3 partitions have neither a final read nor final logs" in verdict.not_tested
    assert verdict.as_json()["checks"]["lost"]["valid"] is None


def test_a_final_read_that_ended_early_leaves_it_open(tmp_path: Path) -> None:
    def plant(run: Run) -> None:
        run.final[5] = run.final[5][:-3]

    run = write_run(tmp_path / "run", plant, with_logs=False, test={"nodes": 3, "queue": {"acks": "1"}})
    verdict = judge_run(run)
    assert verdict.valid is None
    assert verdict.findings.unseen == 3
    assert "3 acknowledged messages of partition 5 were not reached at the end" in verdict.reasons[0]


def test_what_is_sent_during_the_final_read_is_not_taken_for_lost(tmp_path: Path) -> None:
    verdict = judge_run(write_run(tmp_path / "run", lambda run: run.send(5900, RECORDS, 90 * S)))
    assert (verdict.valid, verdict.findings.lost_acked, verdict.findings.unseen) == (None, 0, 1)


def test_retries_without_idempotence_may_double(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", a_duplicate, test={"nodes": 3, "queue": {"may_duplicate": True}})
    verdict = judge_run(run)
    assert (verdict.valid, verdict.findings.duplicated) == (True, 1)


def test_malformed_histories_and_settings_are_refused_by_name(tmp_path: Path) -> None:
    def backwards(run: Run) -> None:
        run.recorder.record_send(5900, partition=5, offset=1, process=1, t_inv=9 * S, t_ret=8 * S)

    with pytest.raises(UnreadableHistory, match="malformed: an operation of process 1 ended at 8000000000 ns, before"):
        judge_run(write_run(tmp_path / "backwards", backwards))
    with pytest.raises(UnreadableHistory, match=r"queue\.acks: 'most' is none of all, 1 and 0"):
        judge_run(write_run(tmp_path / "acks", test={"queue": {"acks": "most"}}))
    log = tmp_path / "log"
    with HistoryWriter(log / "history.parquet") as history:
        history.record(Op(f=0, type=Outcome.OK, t_inv=1, t_ret=2, a=1, offset=0))  # type: ignore[arg-type]
    with pytest.raises(UnreadableHistory, match="append operations, which a queue does not have"):
        judge_run(log)


def test_the_command_tells_partitions_by_name(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = write_run(tmp_path / "run", a_skip)
    with pytest.raises(SystemExit) as ended:
        main(["check", str(run), "--model", "queue", "--engine", "local"])
    lines = capsys.readouterr().out.splitlines()
    assert ended.value.code == ExitStatus.VIOLATION
    assert lines[0].endswith("on 3 partitions")
    assert lines[1].startswith("skipped_poll: paid-0: process 7 passed over")
    assert lines[-1] == f"{run}\tfalse"


@pytest.mark.spark
def test_spark_says_the_same(tmp_path: Path, spark: SparkEngine) -> None:
    def plant(run: Run) -> None:
        for one in (a_lost_end, a_skip, a_commit_that_is_gone, a_replica_that_differs):
            one(run)

    run = write_run(tmp_path / "run", plant)
    here = judge_run(run, kill())
    there = check_run(run, Model.QUEUE, Engine.SPARK, worker=spark, allowances=[kill()])
    assert there.findings == here.findings
    assert there.losses == here.losses
    assert here.findings.counts and here.losses
