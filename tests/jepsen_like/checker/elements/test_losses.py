"""An element that a fault may have cost is no violation; any other that is gone is one, and both are counted as lost."""

from pathlib import Path

import attrs
import pytest

from jepsen_like.checker.allowance import Allowance
from jepsen_like.checker.checking import check_run
from jepsen_like.checker.verdict import Engine, Model, Verdict
from jepsen_like.history.files import HistoryWriter
from jepsen_like.history.ops import NONE, Action, Op, Outcome

CUT = Allowance(fault=4, kind="partition", promise="may be lost", since_ns=100, begun_ns=100, injected_ns=200)


def put(value: int, at: int) -> Op:
    return Op(f=Action.ENQUEUE, type=Outcome.OK, t_inv=at, t_ret=at + 5, process=0, a=value)


def take(value: int, at: int) -> Op:
    return Op(f=Action.DEQUEUE, type=Outcome.OK, t_inv=at, t_ret=at + 5, process=1, a=value)


def judge(place: Path, *ops: Op, allowances: tuple[Allowance, ...] = (CUT,)) -> Verdict:
    with HistoryWriter(place / "history.parquet") as history:
        for op in ops:
            history.record_batch(op, (op.a,))
    return check_run(place, Model.TOTAL_QUEUE, Engine.LOCAL, allowances=allowances)


def test_a_loss_within_a_fault_is_allowed_and_attributed(tmp_path: Path) -> None:
    verdict = judge(tmp_path, put(1, 10), put(2, 110), take(1, 300), take(NONE, 310))
    assert verdict.valid
    (loss,) = verdict.losses
    assert (loss.allowance.fault, loss.records, loss.examples) == (4, 1, (2,))
    assert (verdict.findings.lost_acked, verdict.findings.acked) == (1, 2)
    assert loss.says.startswith("1 acknowledged records, the earliest acknowledged 0.00 s before fault 4")


@pytest.mark.parametrize("at", [50, 94, 201])
def test_a_loss_before_or_after_it_is_a_violation(at: int, tmp_path: Path) -> None:
    verdict = judge(tmp_path, put(1, at), take(NONE, 300))
    assert verdict.valid is False
    assert verdict.losses == ()
    assert verdict.findings.lost_acked == 1


def test_a_fault_excuses_only_what_it_reached(tmp_path: Path) -> None:
    verdict = judge(tmp_path, put(1, 50), put(2, 110), take(NONE, 300))
    assert verdict.valid is False
    assert [loss.examples for loss in verdict.losses] == [(2,)]
    assert verdict.findings.lost_acked == 2


def test_what_nobody_looked_for_is_not_lost(tmp_path: Path) -> None:
    verdict = judge(tmp_path, put(1, 20), take(1, 30), take(NONE, 40), put(2, 110))
    assert verdict.losses == ()
    assert verdict.findings.lost_acked == 0


def test_another_queue_is_not_reached(tmp_path: Path) -> None:
    other = attrs.evolve(CUT, objects=frozenset({7}))
    assert judge(tmp_path, put(1, 110), take(NONE, 300), allowances=(other,)).valid is False


def test_without_losses_nothing_changes(tmp_path: Path) -> None:
    verdict = judge(tmp_path, put(1, 110), take(1, 150), take(NONE, 300))
    assert verdict.valid
    assert (verdict.losses, verdict.findings.ok, verdict.findings.info) == ((), 3, 0)
