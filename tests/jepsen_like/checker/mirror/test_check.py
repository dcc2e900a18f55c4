"""Each way in which a mirror or a switch can go wrong, planted in a sound rehearsal, is found by its name and counted."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import attrs
import pytest

from jepsen_like.checker.checking import check_run
from jepsen_like.checker.verdict import Check, Engine, MirrorCounts, Model
from jepsen_like.history.files import UnreadableHistory
from jepsen_like.history.ops import Action, Op, Outcome
from tests.jepsen_like.checker.mirror.world import MARKER, A, B, Partition, Rehearsal, lagging

Plant = Callable[[Partition], None]


def rewrite(one: Partition, f: Action, number: int, **fields: Any) -> None:
    """Change the operation of this kind that has this number among them."""
    places = [at for at, op in enumerate(one.ops) if op.f is f]
    one.ops[places[number]] = attrs.evolve(one.ops[places[number]], **fields)


def operations(one: Partition, f: Action) -> list[Op]:
    return [op for op in one.ops if op.f is f]


def drop_a_copy(one: Partition) -> None:
    one.logs[B][2] = MARKER


def drop_the_newest_copy(one: Partition) -> None:
    one.logs[B][5] = MARKER


def double_a_copy(one: Partition) -> None:
    one.logs[B].append(one.logs[B][3])


def swap_two_copies(one: Partition) -> None:
    log = one.logs[B]
    log[1], log[2] = log[2], log[1]
    for at, op in enumerate(one.ops):
        if op.f is Action.SEND:
            one.ops[at] = attrs.evolve(op, process=1)


def let_the_tail_flow_over(one: Partition) -> None:
    one.logs[B].append(one.logs[A][8])


def write_late(one: Partition) -> None:
    (first, second) = operations(one, Action.SWITCH)
    begun = (first.t_ret + second.t_inv) // 2
    one.ops.append(
        Op(f=Action.SEND, type=Outcome.OK, a=999, offset=77, node=A, process=1, t_inv=begun, t_ret=begun + 1)
    )


def write_late_and_let_it_flow_over(one: Partition) -> None:
    write_late(one)
    one.logs[B].append(999)


def write_to_the_standby(one: Partition) -> None:
    one.ops.append(Op(f=Action.SEND, type=Outcome.OK, a=998, offset=77, node=B, process=1, t_inv=1, t_ret=2))


def fence_too_early(one: Partition) -> None:
    rewrite(one, Action.SWITCH, 0, offset=operations(one, Action.SWITCH)[0].offset - 1)


def fence_too_late(one: Partition) -> None:
    rewrite(one, Action.SWITCH, 0, offset=operations(one, Action.SWITCH)[0].offset + 1)


def move(one: Partition, by: int) -> None:
    rewrite(one, Action.TRANSLATE, 0, offset=operations(one, Action.TRANSLATE)[0].offset + by)


def go_on_one_too_late(one: Partition) -> None:
    move(one, 1)
    rewrite(one, Action.ASSIGN, 2, offset=operations(one, Action.TRANSLATE)[0].offset)


def go_on_one_too_early(one: Partition) -> None:
    move(one, -1)
    rewrite(one, Action.ASSIGN, 2, offset=operations(one, Action.TRANSLATE)[0].offset)


def move_and_ignore_it(one: Partition) -> None:
    move(one, 1)


def forget_a_poll(one: Partition) -> None:
    lost = one.logs[B][8]
    one.ops[:] = [op for op in one.ops if not (op.f is Action.POLL and op.a == lost and op.b == 7)]


def go_on_elsewhere(one: Partition) -> None:
    rewrite(one, Action.ASSIGN, 2, offset=0)


def move_behind_a_new_record(one: Partition) -> None:
    moved = operations(one, Action.TRANSLATE)[0]
    one.ops.append(attrs.evolve(operations(one, Action.COMMIT)[0], offset=6, t_inv=1, t_ret=2))
    for number, f in ((0, Action.TRANSLATE), (2, Action.ASSIGN)):
        rewrite(one, f, number, offset=operations(one, Action.SWITCH)[0].seen + 1)
    assert moved.a == 7


def invent_a_record(one: Partition) -> None:
    one.logs[B].append(12_345)


def bring_a_refused_record(one: Partition) -> None:
    one.logs[A].append(one.send(Outcome.FAIL))


def bring_another_record(one: Partition) -> None:
    one.logs[B][7], one.logs[B][8] = one.logs[B][8], one.logs[B][7]


def lose_a_record_of_the_last_term(one: Partition) -> None:
    one.logs[A].remove(one.send())


def poll_backwards(one: Partition) -> None:
    polls = operations(one, Action.POLL)
    one.ops.append(attrs.evolve(polls[-2], t_inv=polls[-1].t_ret + 5, t_ret=polls[-1].t_ret + 6))


PLANTS: tuple[tuple[Plant, Check, int], ...] = (
    (drop_a_copy, Check.LOST, 1),
    (drop_the_newest_copy, Check.LOST, 1),
    (double_a_copy, Check.DUPLICATED, 1),
    (swap_two_copies, Check.SEND_ORDER, 1),
    (let_the_tail_flow_over, Check.FOREIGN, 1),
    (write_late, Check.LATE_WRITE, 1),
    (write_late_and_let_it_flow_over, Check.FOREIGN, 1),
    (write_to_the_standby, Check.LATE_WRITE, 1),
    (fence_too_early, Check.LAG, 1),
    (fence_too_late, Check.LOST, 1),
    (go_on_one_too_late, Check.TRANSLATION, 1),
    (go_on_one_too_early, Check.TRANSLATION, 1),
    (move_and_ignore_it, Check.TRANSLATION, 2),
    (go_on_elsewhere, Check.TRANSLATION, 1),
    (move_behind_a_new_record, Check.TRANSLATION, 1),
    (forget_a_poll, Check.SKIPPED_POLL, 1),
    (invent_a_record, Check.PHANTOM, 1),
    (bring_a_refused_record, Check.ABORTED_READ, 1),
    (bring_another_record, Check.DIVERGENT_OFFSET, 6),
    (lose_a_record_of_the_last_term, Check.LOST, 1),
    (poll_backwards, Check.NONMONOTONIC_POLL, 1),
)


def test_the_figures_of_a_sound_rehearsal_are_exact(tmp_path: Path) -> None:
    run = lagging()
    verdict = run.judge(tmp_path)
    assert verdict.valid is True
    assert verdict.not_tested == ()
    assert verdict.mirror == run.counts == MirrorCounts(switches=2, acked=28, lag=4, lost=4, read_again=5)
    assert (verdict.findings.lost_acked, verdict.lost_allowed) == (4, 4)
    (loss,) = verdict.losses
    assert loss.says == (
        "4 acknowledged records of partition 0 at offsets 6 to 9; the link to cluster b had copied up to offset 6 when it "
        "was fenced (link epoch 1)"
    )


@pytest.mark.parametrize(("plant", "check", "count"), PLANTS)
def test_a_planted_fault_is_found_by_its_name(plant: Plant, check: Check, count: int, tmp_path: Path) -> None:
    run = lagging()
    plant(run.partitions[0])
    verdict = run.judge(tmp_path)
    assert verdict.valid is False
    assert verdict.findings.counts.get(check) == count


def test_a_lost_record_is_more_than_the_lag(tmp_path: Path) -> None:
    run = lagging()
    drop_a_copy(run.partitions[0])
    verdict = run.judge(tmp_path)
    assert verdict.mirror is not None
    assert (verdict.mirror.lost, verdict.mirror.lag) == (5, 4)
    assert verdict.as_json()["lost_unexplained"] == 1


def test_a_skipped_record_counts_for_each_group_that_never_got_it(tmp_path: Path) -> None:
    run = lagging()
    forget_a_poll(run.partitions[0])
    verdict = run.judge(tmp_path)
    assert verdict.mirror is not None
    assert verdict.mirror.skipped == 1


def test_what_a_group_had_committed_and_got_again_is_counted_apart(tmp_path: Path) -> None:
    run = lagging()
    (one,) = run.partitions
    moved = operations(one, Action.SWITCH)[0]
    at = one.ops.index(next(op for op in one.ops if op.f is Action.SWITCH))
    commit = next(op for op in one.ops if op.f is Action.COMMIT and op.a == 7)
    one.ops.insert(at, attrs.evolve(commit, offset=6, t_inv=moved.t_inv - 2, t_ret=moved.t_inv - 1))
    verdict = run.judge(tmp_path)
    assert verdict.valid is True
    assert verdict.mirror is not None
    assert verdict.mirror.committed_again == 2


def test_the_first_record_after_the_switch_may_be_foreign(tmp_path: Path) -> None:
    run = Rehearsal.of(5)
    (one,) = run.partitions
    for _ in range(3):
        one.send()
    run.lose()
    one.logs[B].append(one.logs[A][1])
    one.send()
    assert run.judge(tmp_path).findings.counts == {Check.FOREIGN: 1}


def test_without_a_switch_nothing_is_decided(tmp_path: Path) -> None:
    run = Rehearsal.of(3)
    run.load(40)
    verdict = run.judge(tmp_path)
    assert verdict.valid is None
    assert "was never switched" in verdict.reasons[0]


def test_without_a_final_log_of_one_cluster_nothing_is_decided(tmp_path: Path) -> None:
    lagging().write(tmp_path, clusters=(A,))
    verdict = check_run(tmp_path, Model.MIRRORED, Engine.LOCAL)
    assert verdict.valid is None
    assert verdict.reasons == ("object 0: partition 0 has no final log of cluster b",)


def test_a_group_that_did_not_read_to_the_end_is_named(tmp_path: Path) -> None:
    run = lagging()
    run.partitions[0].send()
    verdict = run.judge(tmp_path)
    assert verdict.valid is True
    assert verdict.not_tested == (
        "skips: group fast did not read the last 1 records of partition 0",
        "skips: group slow did not read the last 1 records of partition 0",
    )


def test_switches_that_cannot_follow_each_other_are_refused(tmp_path: Path) -> None:
    run = lagging()
    rewrite(run.partitions[0], Action.SWITCH, 1, node=A, b=B)
    with pytest.raises(UnreadableHistory, match="a switch from cluster a follows one to another cluster"):
        run.judge(tmp_path)
