"""Every way in which registers can be wrong has its name, its sentence and its operations."""

import random

import numpy as np
import pytest

from jepsen_like.checker.register.explain import check_registers
from jepsen_like.checker.rows import segments
from jepsen_like.checker.rows.columns import Columns
from jepsen_like.checker.verdict import Check, Model
from jepsen_like.history.ops import NEVER, NONE, Action, ErrorCode, Op, Outcome
from tests.jepsen_like.checker.small_histories import as_ops, register_history
from tests.jepsen_like.checker.witness import alone_impossible


def write(value: int, start: int, end: int, outcome: Outcome = Outcome.OK) -> Op:
    return Op(f=Action.WRITE, type=outcome, a=value, t_inv=start, t_ret=end, process=value)


def read(value: int, start: int, end: int) -> Op:
    return Op(f=Action.READ, type=Outcome.OK, a=value, t_inv=start, t_ret=end, process=20)


def swap(old: int, new: int, start: int, end: int, seen: int | None = None) -> Op:
    saw = old if seen is None else seen
    return Op(f=Action.CAS, type=Outcome.OK, a=old, b=new, seen=saw, t_inv=start, t_ret=end, process=30)


@pytest.mark.parametrize(
    ("check", "sentence", "ops"),
    [
        pytest.param(
            Check.PHANTOM,
            "read of 9 by process 20, but no client ever wrote 9",
            [write(1, 1, 2), read(9, 3, 4)],
            id="phantom",
        ),
        pytest.param(
            Check.ABORTED_READ,
            "read of 9 by process 20, though the write of 9 (refused) by process 9 was answered as certainly not done",
            [write(9, 1, 2, Outcome.FAIL), read(9, 3, 4)],
            id="aborted read",
        ),
        pytest.param(
            Check.ORDER,
            "read of 1 by process 20 had ended before the write of 1 by process 1 began",
            [read(1, 1, 2), write(1, 3, 4)],
            id="read before its write",
        ),
        pytest.param(
            Check.STALE,
            "the write of 2 by process 2 had ended before the read of 1 by process 20 began, and the write of 1 by "
            "process 1 had ended before the write of 2 by process 2 began, so neither value can have come first",
            [write(1, 1, 2), write(2, 3, 4), read(1, 5, 6)],
            id="overwritten value came back",
        ),
        pytest.param(
            Check.STALE,
            "the write of 2 by process 2 had ended before the read of nothing by process 20 began, "
            "but the former's value came later",
            [write(2, 3, 4), read(NONE, 5, 6)],
            id="initial value came back",
        ),
        pytest.param(
            Check.STALE,
            "the compare-and-set of 1 to 2 by process 30 had ended before the read of 1 by process 20 began, "
            "but its value replaced the older one",
            [write(1, 1, 2), swap(1, 2, 3, 4), read(1, 5, 6)],
            id="swapped value came back",
        ),
        pytest.param(
            Check.STALE,
            "the write of 2 by process 2 had ended before the compare-and-set of 8 to 9 that saw 1 by process 30 began, "
            "and the write of 1 by process 1 had ended before the write of 2 by process 2 began, "
            "so neither value can have come first",
            [write(1, 1, 2), write(2, 3, 4), swap(8, 9, 5, 6, seen=1)],
            id="a swap that did not happen saw an old value",
        ),
        pytest.param(
            Check.LOST_UPDATE,
            "the compare-and-set of 1 to 2 by process 30 and the compare-and-set of 1 to 3 by process 30 both replaced 1, "
            "which was written once",
            [write(1, 1, 2), swap(1, 2, 3, 4), swap(1, 3, 3, 4)],
            id="two swaps of one value",
        ),
        pytest.param(
            Check.LOST_UPDATE,
            "the compare-and-set of 1 to 2 by process 30 and the compare-and-set of 1 to 3 by process 30 both replaced 1, "
            "which was written once",
            [write(1, 1, 2), swap(1, 2, 3, 4), read(2, 5, 6), swap(1, 3, 7, 8)],
            id="a lost update, one operation after the other",
        ),
        pytest.param(
            Check.LOST_UPDATE,
            "the compare-and-set of nothing to 2 by process 30 and the compare-and-set of nothing to 3 by process 30 both "
            "replaced nothing, which was written once",
            [
                swap(NONE, 2, 1, 2),
                swap(2, 4, 3, 4),
                read(4, 5, 6),
                swap(NONE, 3, 7, 8),
                swap(3, 5, 9, 10),
                read(4, 11, 12),
            ],
            id="two chains from nothing",
        ),
        pytest.param(
            Check.ORDER,
            "these compare-and-sets replaced each other's value in a circle: 2 to 1, 1 to 2",
            [swap(1, 2, 1, 9), swap(2, 1, 1, 9)],
            id="swaps in a circle",
        ),
    ],
)
def test_each_flaw_is_told_by_name(check: Check, sentence: str, ops: list[Op]) -> None:
    findings = check_registers(Columns.of_ops(ops))
    (violation,) = findings.violations
    assert violation.check is check
    assert violation.sentence == f"register 0: {sentence}"
    assert set(violation.ops) <= set(ops)
    assert alone_impossible(violation, Model.REGISTER)
    assert findings.counts == {check: 1}


@pytest.mark.parametrize(
    "ops",
    [
        pytest.param([write(1, 1, 5), write(2, 1, 5), read(1, 6, 7)], id="concurrent writes in either order"),
        pytest.param([write(1, 1, 2), write(2, 2, 3), read(1, 3, 4)], id="what ends as another begins is concurrent"),
        pytest.param([swap(NONE, 1, 1, 2), swap(1, 2, 3, 4), read(2, 5, 6)], id="swaps from nothing on"),
        pytest.param([write(1, 1, 2), swap(1, 1, 3, 4), read(1, 5, 6)], id="a swap of a value to itself"),
        pytest.param([], id="nothing at all"),
    ],
)
def test_what_some_order_explains_is_valid(ops: list[Op]) -> None:
    findings = check_registers(Columns.of_ops(ops))
    assert not findings.violated
    assert not findings.undecided


@pytest.mark.parametrize(
    ("check", "sentence", "ops"),
    [
        pytest.param(Check.PHANTOM, "but no client ever wrote 9", [], id="phantom"),
        pytest.param(
            Check.ABORTED_READ,
            "though the write of 9 (refused) by process 9 was answered as certainly not done",
            [write(9, 5, 6, Outcome.FAIL)],
            id="aborted read",
        ),
        pytest.param(
            Check.PHANTOM,
            "cannot have happened: nothing wrote what it expected",
            [Op(f=Action.CAS, type=Outcome.INFO, a=5, b=9, t_inv=5)],
            id="a swap that nothing made possible",
        ),
        pytest.param(Check.LINEARIZABLE, "no order explains the read of 9", [write(9, 9, 10)], id="before its write"),
    ],
)
def test_where_values_repeat_a_read_of_what_was_not_there_is_proved_as_well(
    check: Check, sentence: str, ops: list[Op]
) -> None:
    twice = [write(7, 1, 2), write(7, 3, 4)]
    (violation,) = check_registers(Columns.of_ops([*twice, read(9, 7, 8), *ops])).violations
    assert violation.check is check
    assert sentence in violation.sentence
    assert {op.f for op in ops} <= {op.f for op in violation.ops}
    assert alone_impossible(violation, Model.REGISTER)


def test_unknown_operations_count_only_when_their_value_was_seen() -> None:
    unseen = [Op(f=Action.WRITE, type=Outcome.INFO, a=value, t_inv=value) for value in range(5, 500)]
    seen = Op(f=Action.CAS, type=Outcome.INFO, a=1, b=2, t_inv=4)
    assert not check_registers(Columns.of_ops([write(1, 1, 2), seen, read(2, 50, 60), *unseen])).violated
    assert check_registers(Columns.of_ops([write(1, 1, 2), seen, read(2, 50, 60), read(1, 70, 80), *unseen])).violated


def refuse_swap(expected: int, start: int, end: int, err: ErrorCode = ErrorCode.NONE) -> Op:
    return Op(f=Action.CAS, type=Outcome.FAIL, err=err, a=expected, b=99, t_inv=start, t_ret=end, process=40)


def test_a_swap_is_not_refused_while_its_value_is_there() -> None:
    there = [write(1, 1, 2), read(1, 10, 11)]
    (violation,) = check_registers(Columns.of_ops([*there, refuse_swap(1, 5, 6)])).violations
    assert violation.check is Check.LINEARIZABLE
    assert alone_impossible(violation, Model.REGISTER)
    assert "compare-and-set of 1 to 99 (refused)" in violation.sentence or refuse_swap(1, 5, 6) in violation.ops
    assert check_registers(Columns.of_ops([refuse_swap(NONE, 1, 2)])).violated
    for unwritten_then in ([refuse_swap(1, 0, 6)], [refuse_swap(7, 5, 6)], [write(2, 4, 30), refuse_swap(1, 5, 6)]):
        assert not check_registers(Columns.of_ops([*there[:1], *unwritten_then])).violated
    unknown = Op(f=Action.WRITE, type=Outcome.INFO, a=3, t_inv=3)
    assert not check_registers(Columns.of_ops([there[0], unknown, refuse_swap(1, 5, 6)])).violated


def test_a_swap_that_failed_for_another_reason_shows_nothing() -> None:
    there = [write(1, 1, 2), read(1, 10, 11)]
    findings = check_registers(Columns.of_ops([*there, refuse_swap(1, 5, 6, ErrorCode.NOT_LEADER)]))
    assert not findings.violated


def test_long_chains_of_swaps_are_followed_and_cut_for_the_witness() -> None:
    chain = [write(1, 1, 2), *[swap(at, at + 1, 3, 1000) for at in range(1, 3000)]]
    assert not check_registers(Columns.of_ops([*chain, read(3000, 2000, 2001)])).violated
    (violation,) = check_registers(Columns.of_ops([*chain, read(3000, 500, 501), read(1, 600, 601)])).violations
    assert violation.check is Check.STALE
    assert violation.sentence.endswith("(not all operations are shown)")


def test_registers_do_not_influence_each_other() -> None:
    rng = random.Random(9)
    histories = [register_history(rng) for _ in range(300)]
    together = check_registers(Columns.of_ops(op for at, one in enumerate(histories) for op in as_ops(one, at)))
    alone = {at for at, one in enumerate(histories) if check_registers(Columns.of_ops(as_ops(one))).violated}
    assert together.violated == alone


def test_times_too_far_apart_to_be_lifted_are_ranked_instead(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = random.Random(10)
    rows = Columns.of_ops(op for at in range(500) for op in as_ops(register_history(rng), at))
    expected = check_registers(rows)
    monkeypatch.setattr(segments, "LIFT_MAX", 2)
    assert check_registers(rows) == expected


def test_ranking_keeps_order_and_equality() -> None:
    start, end = np.array([5, 5, 2**61]), np.array([5, 2**61, NEVER])
    times = segments.small_times(start, end, sequences=2**20)
    both = np.concatenate([times.start, times.end])
    assert both.tolist() == [1, 1, 2, 1, 2, 3]
    assert times.span == 5
