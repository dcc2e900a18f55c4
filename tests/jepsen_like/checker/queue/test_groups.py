"""Partitions that were sorted out in tiny chunks, groups and packs are judged as if they had been in memory at once; too large ones are told."""

import itertools
import json
import random
from collections.abc import Callable
from pathlib import Path

import attrs
import numpy as np
import pytest

from jepsen_like.checker.allowance import Allowance
from jepsen_like.checker.checking import check_run
from jepsen_like.checker.queue.check import check_queue, expectations_of
from jepsen_like.checker.rows.columns import Columns
from jepsen_like.checker.rows.final_logs import FinalLog
from jepsen_like.checker.rows.gather import LIMITS, Limits
from jepsen_like.checker.rows.packs import Packs
from jepsen_like.checker.verdict import VIOLATIONS_KEPT_MAX, Check, Engine, Findings, Model, Undecided, Verdict
from jepsen_like.history.files import DumpWriter, HistoryWriter, UnreadableHistory
from jepsen_like.history.ops import NONE, Action, Op, Outcome
from tests.examples import examples
from tests.jepsen_like.checker.queue import test_check as shared
from tests.jepsen_like.checker.queue import test_pushed as pushed
from tests.jepsen_like.checker.queue.small_queues import Small, clean, make_damaged

PARTITIONS = 25
TINY = Limits(task=30, chunk=20)
TINIEST = Limits(task=1, chunk=7)


@attrs.frozen
class Many:
    """Many small partitions, as a run directory and in memory."""

    run: Path
    rows: Columns
    logs: dict[int, list[FinalLog]]
    allowances: tuple[Allowance, ...]

    def whole(self, rows: Columns | None = None) -> tuple[Findings, tuple[object, ...]]:
        """Returns the findings of the kernels in memory, about all partitions or in some rows."""
        test = json.loads((self.run / "test.json").read_text())
        found, lost = check_queue(rows or self.rows, self.logs, expectations_of(test), self.allowances)
        told = [attrs.evolve(one, origin_ns=found.t_first) for one in lost]
        return found, tuple(sorted(told, key=lambda one: (one.allowance.begun_ns, one.object)))

    @property
    def sizes(self) -> list[int]:
        """Rows and final records of each partition."""
        of_logs = [sum(len(log.values) for log in self.logs.get(number, ())) for number in range(PARTITIONS)]
        return [int((self.rows.object == number).sum()) + of_logs[number] for number in range(PARTITIONS)]


def many(directory: Path, seed: int) -> Many:
    """Random partitions, half of them damaged; part files are short, and the rows of one poll lie in one of them."""
    rng = random.Random(seed)
    made = [(make_damaged if rng.random() < 0.5 else clean)(rng) for _ in range(PARTITIONS)]
    held = made[0].held
    expelled_s = held.expelled_after / 1e9
    test = {
        "acks": held.acks,
        "ordered_sends": held.ordered,
        "may_duplicate": held.doubles,
        "session_timeout_s": expelled_s,
        "rebalance_timeout_s": 2 * expelled_s,
    }
    (directory / "test.json").write_text(json.dumps({"queue": test}))
    ops: list[Op] = []
    with HistoryWriter(directory / "history.parquet", part_seconds_max=1e9) as history:
        for operation in interleave_ops(rng, made):
            if rng.random() < 0.2:
                history.flush()
            for op in operation:
                history.record(op)
            ops += operation
    logs: dict[int, list[FinalLog]] = {}
    with DumpWriter(directory / "dump.parquet", part_rows_max=16) as dump:
        for number, small in enumerate(made):
            for node, (first, records) in small.logs.items():
                dump.begin(node, first, number)
                for offset, (value, epoch) in enumerate(records, first):
                    dump.record(node, offset, epoch, [value], obj=number)
                content = (np.array([record[at] for record in records], np.int64) for at in (0, 1))
                logs.setdefault(number, []).append(FinalLog(node, first, *content))
    return Many(directory, Columns.of_ops(ops), logs, tuple(faults_of(made)))


def interleave_ops(rng: random.Random, made: list[Small]) -> list[list[Op]]:
    """Returns the operations of all partitions, those of each in their order; a poll of several records is one."""
    left = {
        number: [
            [attrs.evolve(op, object=number, count=1) for op in rows]
            for _, rows in itertools.groupby(small.ops, key=lambda op: (op.process, op.t_inv, op.t_ret))
        ]
        for number, small in enumerate(made)
        if small.ops
    }
    found = []
    while left:
        number = rng.choice(list(left))
        found.append(left[number].pop(0))
        if not left[number]:
            del left[number]
    return found


def faults_of(made: list[Small]) -> list[Allowance]:
    """A fault of one partition can have cost nothing in another."""
    faults = [(number, fault) for number, small in enumerate(made) for fault in small.faults]
    return [
        Allowance(
            fault=at,
            kind="kill",
            promise="may be lost",
            since_ns=fault.since,
            begun_ns=fault.begun,
            injected_ns=fault.injected,
            objects=frozenset([number]),
            node=NONE if fault.node is None else fault.node,
            epoch_max=fault.epoch_max,
            may_cost_read=fault.reads,
            may_cost_commits=fault.commits,
            is_tail=fault.tail,
        )
        for at, (number, fault) in enumerate(faults)
    ]


def comparable(findings: Findings) -> Findings:
    """Which of many violations are kept depends on how the work was cut."""
    undecided = tuple(sorted(findings.undecided, key=lambda one: (one.object, one.reason)))
    tolerated = tuple(sorted(findings.tolerated, key=lambda one: (one.object, one.check, one.because)))
    counts = dict(sorted(findings.counts.items()))
    return attrs.evolve(findings, violations=(), undecided=undecided, tolerated=tolerated, counts=counts)


@pytest.mark.parametrize("seed", range(examples(1)))
def test_the_same_is_found_of_partitions_in_groups(seed: int, tmp_path: Path) -> None:
    run = many(tmp_path, seed)
    whole, losses = run.whole()
    each = [run.whole(run.rows.where(run.rows.object == number))[0] for number in range(PARTITIONS)]
    told = {one for found in each for one in found.violations}
    assert len(whole.violated) > PARTITIONS / 5
    for limits in (LIMITS, TINY, TINIEST, attrs.evolve(TINY, object=max(run.sizes))):
        verdict = check_run(tmp_path, Model.QUEUE, Engine.LOCAL, allowances=run.allowances, limits=limits)
        assert comparable(verdict.findings) == comparable(whole)
        assert verdict.losses == losses
        assert told.issuperset(verdict.violations)
        assert len(verdict.violations) == min(VIOLATIONS_KEPT_MAX, len(told))
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".")] == []


@pytest.mark.parametrize(("plant", "check", "_"), shared.PLANTS, ids=lambda one: getattr(one, "__name__", ""))
def test_what_was_planted_is_found_in_groups(
    plant: Callable[[shared.Run], None], check: Check, _: str, tmp_path: Path
) -> None:
    run = shared.write_run(tmp_path, plant)
    whole, parts = shared.judge_run(run), check_run(run, Model.QUEUE, Engine.LOCAL, limits=TINIEST)
    assert check in parts.findings.counts
    assert (comparable(parts.findings), parts.violations) == (comparable(whole.findings), whole.violations)


@pytest.mark.parametrize(("plant", "check"), pushed.PLANTS, ids=lambda one: getattr(one, "__name__", ""))
def test_what_was_planted_of_pushed_messages_is_found_in_groups(
    plant: Callable[[pushed.Run], None], check: Check | None, tmp_path: Path
) -> None:
    whole = pushed.judge_plants(tmp_path, [plant])
    parts = check_run(tmp_path, Model.QUEUE, Engine.LOCAL, limits=TINIEST)
    assert comparable(parts.findings) == comparable(whole.findings)
    assert parts.valid is (check is None)


def too_large(directory: Path, plant: Callable[[shared.Run], None]) -> tuple[Verdict, Verdict]:
    """A run in which partition 0 has two hundred rows more than the others: checked whole, and where a task holds fewer."""

    def more(run: shared.Run) -> None:
        plant(run)
        for turn in range(200):
            run.recorder.position_read(NONE, group=8, partition=0, process=50, t_inv=turn, t_ret=turn)

    run = shared.write_run(directory, more)
    return tuple(
        check_run(run, Model.QUEUE, Engine.LOCAL, limits=one) for one in (LIMITS, Limits(task=1, chunk=9, object=200))
    )  # type: ignore[return-value]


def test_a_partition_that_no_task_can_hold_is_undecided_and_told(tmp_path: Path) -> None:
    whole, bounded = too_large(tmp_path, shared.nothing)
    assert (whole.valid, bounded.valid) == (True, None)
    size = 20 + 1 + 1 + 20 + 200 + 60
    assert bounded.findings.undecided == (
        Undecided(
            0,
            f"orders-0 with its final records has {size} rows, which have to be in memory together, and a task holds 200: it was not "
            "checked",
        ),
    )
    for name in ("ok", "fail", "info", "objects", "acked", "t_first"):
        assert getattr(bounded.findings, name) == getattr(whole.findings, name), name


def test_the_other_partitions_are_judged_all_the_same(tmp_path: Path) -> None:
    _, bounded = too_large(tmp_path, shared.a_phantom)
    assert bounded.valid is False
    assert bounded.findings.violated == {5}
    assert [one.object for one in bounded.findings.undecided] == [0]


def test_final_records_count_for_what_a_task_holds(tmp_path: Path) -> None:
    run = shared.write_run(tmp_path)
    rows = 20 + 1 + 1 + 20 + 3
    fits = check_run(run, Model.QUEUE, Engine.LOCAL, limits=Limits(task=1, chunk=9, object=rows + 60))
    assert fits.valid is True
    too_many = check_run(run, Model.QUEUE, Engine.LOCAL, limits=Limits(task=1, chunk=9, object=rows + 59))
    assert (too_many.valid, [one.object for one in too_many.findings.undecided]) == (None, [5])


def test_the_order_of_keys_is_undecided_where_no_process_can_hold_all_rows(tmp_path: Path) -> None:
    rows = 2 * (3 * pushed.COUNT)
    assert pushed.judge_plants(tmp_path, [pushed.a_later_one_of_a_key_first]).valid is False
    whole = check_run(tmp_path, Model.QUEUE, Engine.LOCAL, limits=Limits(task=1, chunk=9, object=rows))
    assert whole.valid is False
    verdict = check_run(tmp_path, Model.QUEUE, Engine.LOCAL, limits=Limits(task=1, chunk=9, object=rows - 13))
    (undecided,) = verdict.findings.undecided
    assert undecided.object == NONE
    assert undecided.reason.startswith("the order of the messages of each key was not checked")


def test_a_malformed_row_of_any_chunk_is_refused(tmp_path: Path) -> None:
    with HistoryWriter(tmp_path / "history.parquet", part_rows_max=2, part_seconds_max=1e9) as history:
        for number in range(40):
            value = NONE if number == 33 else number
            history.record(Op(f=Action.SEND, type=Outcome.OK, a=value, offset=number, t_inv=number, t_ret=number))
    with pytest.raises(UnreadableHistory, match=r"part-0-0000.*: is malformed: a send of process 0 has no value"):
        check_run(tmp_path, Model.QUEUE, Engine.LOCAL, limits=TINIEST)


def test_a_pack_has_as_many_rows_as_a_task_holds_and_no_more() -> None:
    ops = [Op(f=Action.TAIL, type=Outcome.OK, object=obj, t_inv=0, t_ret=1) for obj in (1, 2, 2, 3, 4, 4, 4, 4, 5)]
    sources = [Columns.of_ops(ops[:5]), Columns.of_ops(ops[5:])]
    packs = Packs.of(sources, 3)
    assert [pack.tolist() for pack in packs.packs] == [[1, 2], [3, 5]]
    assert packs.large == {4: 4}
    assert [(len(rows), set(rows.object.tolist())) for _, rows in packs.rows(sources)] == [(3, {1, 2}), (2, {3, 5})]
    beside_a_large_one = Packs.of(sources[1:], 2)
    assert [rows.object.tolist() for _, rows in beside_a_large_one.rows(sources[1:])] == [[5]]
