"""A fault's allowed losses are taken out of a history, with everything that they contradict; the rest stays."""

import random
from collections.abc import Sequence

import attrs
import numpy as np
import pytest

from jepsen_like.checker.allowance import Allowance, AllowedLoss
from jepsen_like.checker.checking import check_run
from jepsen_like.checker.log.explain import check_logs, join_logs
from jepsen_like.checker.log.forgiveness import forgive
from jepsen_like.checker.rows.columns import Columns
from jepsen_like.checker.rows.final_logs import LOG_OBJECT, FinalLog
from jepsen_like.checker.verdict import Check, Engine, Model, Verdict
from jepsen_like.history.files import DumpWriter, HistoryWriter, KeepRule
from jepsen_like.history.ops import NEVER, NONE, Action, Op, Outcome
from tests.examples import examples
from tests.jepsen_like.checker.log.test_explain import append, read, refuse_append, tail, unknown

CUT = Allowance(fault=4, kind="power", promise="may be lost", since_ns=-NEVER, begun_ns=100, injected_ns=102)
LATER = attrs.evolve(CUT, fault=9, begun_ns=200, injected_ns=202)
REUSED = [append(1, 0, 1, 2), append(2, 1, 3, 4), append(3, 2, 5, 6), append(4, 1, 110, 111), append(5, 2, 112, 113)]
"""Offsets 1 and 2 are acknowledged, lost at 100, and acknowledged again to others."""


def check_history(
    ops: Sequence[Op],
    logs: list[list[int]],
    allowances: Sequence[Allowance],
    places: pytest.TempPathFactory,
    *,
    start: int = 0,
) -> Verdict:
    """Returns the verdict on a run with this history and these final logs, which are trimmed up to `start`."""
    directory = places.mktemp("run")
    with HistoryWriter(directory / "history.parquet") as history:
        for op in sorted(ops, key=lambda op: op.t_ret):
            history.record(op)
    with DumpWriter(directory / "dump.parquet", rule=KeepRule(retention_bytes=1 if start else 0)) as dump:
        for node, log in enumerate(logs, start=1):
            dump.begin(node, start)
            dump.record(node, start, 1, log[start:], size=1)
    return check_run(directory, Model.LOG, Engine.LOCAL, allowances=allowances)


def test_a_loss_is_attributed_counted_and_valid(tmp_path_factory: pytest.TempPathFactory) -> None:
    found = check_history(REUSED, [[1, 4, 5]] * 2, [CUT], tmp_path_factory)
    assert found.valid is True
    (loss,) = found.losses
    assert loss == AllowedLoss(
        allowance=CUT, records=2, first_offset=1, last_offset=2, first_acked_ns=4, last_acked_ns=6, examples=(2, 3)
    )
    assert (found.findings.acked, found.findings.lost_acked, found.lost_allowed) == (5, 2, 2)
    assert loss.reach_s == pytest.approx(96e-9)
    row = found.as_json()
    assert row["lost_unexplained"] == 0
    assert row["lost_allowed"][0]["says"].startswith("2 acknowledged records at offsets 1 to 2, the earliest")
    assert "2 lost in addition" in row["checks"]["lost"]["reason"]


def test_lost_records_with_an_unacknowledged_place_between_them_are_told_from_the_places(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    ops = [append(1, 0, 1, 2), append(2, 1, 3, 4), unknown(3, 5), append(4, 3, 7, 8), append(5, 1, 110, 111)]
    (loss,) = check_history(ops, [[1, 5]] * 2, [CUT], tmp_path_factory).losses
    assert (loss.records, loss.first_offset, loss.last_offset) == (2, 1, 3)
    assert loss.says.startswith("2 acknowledged records among the 3 at offsets 1 to 3, the earliest")


def test_without_an_allowance_the_same_history_is_invalid(tmp_path_factory: pytest.TempPathFactory) -> None:
    found = check_history(REUSED, [[1, 4, 5]] * 2, [], tmp_path_factory)
    assert (found.valid, found.losses, found.findings.lost_acked) == (False, (), 2)


def test_what_an_empty_disk_acknowledged_in_place_of_a_full_one_is_forgiven_wherever_it_lay(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    emptied = attrs.evolve(CUT, injected_ns=120, other_log=True)
    ops = [append(1, 0, 1, 2), append(2, 1, 3, 4), append(3, 2, 5, 6)]
    seen = [read(0, NONE, 103, 104), append(8, 0, 105, 106), read(0, 8, 107, 108), tail(1, 109, 110)]
    found = check_history([*ops, *seen, read(0, 1, 130, 131)], [[1, 2, 3]], [emptied], tmp_path_factory)
    assert (found.valid, found.lost_allowed, found.losses[0].examples) == (True, 1, (8,))
    as_ever = attrs.evolve(emptied, other_log=False)
    assert check_history([*ops, *seen], [[1, 2, 3]], [as_ever], tmp_path_factory).valid is False
    for late in (read(0, NONE, 121, 122), append(8, 0, 121, 122), read(0, 8, 121, 122), tail(1, 121, 122)):
        assert check_history([*ops, late], [[1, 2, 3]], [emptied], tmp_path_factory).valid is False, (
            "it was over by then"
        )
    of_reads = attrs.evolve(emptied, may_cost_records=False)
    assert check_history([*ops, read(0, NONE, 103, 104)], [[1, 2, 3]], [of_reads], tmp_path_factory).valid is True
    assert check_history([*ops, append(8, 0, 105, 106)], [[1, 2, 3]], [of_reads], tmp_path_factory).valid is False
    assert check_history(ops, [[1, 2]], [of_reads], tmp_path_factory).valid is False


@pytest.mark.parametrize(
    "seen",
    [
        pytest.param([read(2, 3, 7, 8), read(2, 5, 120, 121)], id="a place read with two values"),
        pytest.param([tail(3, 7, 8), tail(1, 105, 106)], id="a length that fell"),
        pytest.param([read(1, 2, 7, 8), read(1, NONE, 105, 106)], id="read, and then nothing there"),
        pytest.param([unknown(7, 20), read(3, 7, 30, 31)], id="an append of unknown outcome, read and lost"),
        pytest.param([append(8, 3, 98, 103)], id="acknowledged while the power was cut"),
        pytest.param([refuse_append(8, 98, 103)], id="refused meanwhile"),
    ],
)
def test_what_follows_from_a_loss_is_forgiven_with_it(
    seen: Sequence[Op], tmp_path_factory: pytest.TempPathFactory
) -> None:
    assert check_history([*REUSED, *seen], [[1, 4, 5]] * 2, [CUT], tmp_path_factory).valid is True
    assert check_history([*REUSED, *seen], [[1, 4, 5]] * 2, [], tmp_path_factory).valid is False


@pytest.mark.parametrize(
    ("check", "ops", "left"),
    [
        pytest.param(Check.LOST, [append(6, 3, 120, 121)], [1, 4, 5], id="acknowledged after the fault"),
        pytest.param(Check.LOST, [append(6, 3, 103, 104)], [1, 4, 5], id="asked for when the fault was complete"),
        pytest.param(Check.LOST, [append(6, 3, 10, 11)], [1, 4, 5, 6], id="a hole: what came behind it is there"),
        pytest.param(Check.DIVERGENT_OFFSET, [unknown(7, 1), read(2, 7, 20, 21)], [1, 4, 5], id="two values before it"),
        pytest.param(Check.STALE, [tail(1, 20, 21)], [1, 4, 5], id="a stale length before it"),
        pytest.param(Check.STALE, [read(2, NONE, 20, 21)], [1, 4, 5], id="a stale read before it"),
        pytest.param(Check.ORDER, [append(7, 3, 20, 21), append(8, 4, 10, 11)], [1, 4, 5], id="order before it"),
        pytest.param(Check.STALE, [tail(1, 120, 121)], [1, 4, 5], id="a stale length after it"),
        pytest.param(Check.STALE, [read(2, NONE, 120, 121)], [1, 4, 5], id="a stale read after it"),
        pytest.param(Check.LOST, [read(3, 9, 20, 21)], [1, 4, 5], id="read, and never written"),
        pytest.param(Check.LOST, [refuse_append(9, 20, 21), read(3, 9, 22, 23)], [1, 4, 5], id="refused, and read"),
        pytest.param(Check.LOST, [read(2, 3, 120, 121)], [1, 4, 5], id="a lost value read after others saw it gone"),
    ],
)
def test_nothing_else_is_forgiven(
    check: Check, ops: Sequence[Op], left: list[int], tmp_path_factory: pytest.TempPathFactory
) -> None:
    found = check_history([*REUSED, *ops], [left] * 2, [CUT], tmp_path_factory)
    assert found.valid is False
    assert found.findings.counts.get(check), found.findings


def test_what_was_read_after_a_fault_had_survived_it(tmp_path_factory: pytest.TempPathFactory) -> None:
    ops = [append(1, 0, 1, 2), append(2, 1, 3, 4), append(3, 2, 5, 6), read(1, 2, 120, 121)]
    found = check_history(ops, [[1]] * 2, [CUT], tmp_path_factory)
    assert found.valid is False
    assert "append of 2 at offset 1" in found.violations[0].sentence
    assert (found.findings.lost_acked, found.lost_allowed) == (2, 1)
    (loss,) = check_history(ops, [[1]] * 2, [CUT, LATER], tmp_path_factory).losses[1:]
    assert (loss.allowance, loss.records) == (LATER, 1)
    meanwhile = [*ops[:3], read(1, 2, 101, 121)]
    assert check_history(meanwhile, [[1]] * 2, [CUT], tmp_path_factory).valid is True


@pytest.mark.parametrize(("since", "valid"), [(3, True), (4, True), (5, False)])
def test_a_loss_reaches_no_further_back_than_it_may(
    since: int, valid: bool, tmp_path_factory: pytest.TempPathFactory
) -> None:
    found = check_history(REUSED, [[1, 4, 5]] * 2, [attrs.evolve(CUT, since_ns=since)], tmp_path_factory)
    assert found.valid is valid
    assert found.findings.lost_acked == 2
    assert found.lost_allowed == (2 if valid else 1)


def test_nodes_that_differ_in_the_end_are_never_forgiven(tmp_path_factory: pytest.TempPathFactory) -> None:
    found = check_history([*REUSED, unknown(8, 50)], [[1, 4, 5], [1, 4, 8]], [CUT], tmp_path_factory)
    assert found.findings.counts.get(Check.DIVERGENT_OFFSET)


def test_each_loss_is_blamed_on_the_fault_after_which_it_was_seen(tmp_path_factory: pytest.TempPathFactory) -> None:
    # The first fault costs nothing: what was there before is read after it. The second takes the end.
    ops = [append(1, 0, 1, 2), append(2, 1, 3, 4), append(3, 2, 110, 111), read(1, 2, 120, 121), tail(1, 210, 211)]
    found = check_history(ops, [[1]] * 2, [LATER, CUT], tmp_path_factory)
    assert found.valid is True
    assert [(loss.allowance.fault, loss.records) for loss in found.losses] == [(LATER.fault, 2)]


def test_losses_of_two_faults_are_told_apart(tmp_path_factory: pytest.TempPathFactory) -> None:
    ops = [*REUSED, tail(3, 120, 121), append(6, 2, 210, 211)]
    found = check_history(ops, [[1, 4, 6]] * 2, [CUT, LATER], tmp_path_factory)
    assert found.valid is True
    assert [(loss.allowance.fault, loss.examples) for loss in found.losses] == [(4, (2, 3)), (9, (5,))]


# -------------------------------------------------------------------- where records leave the logs, too


SIXTEEN = [append(value, value - 1, 2 * value, 2 * value + 1) for value in range(1, 7)] + [
    append(value, value - 1, 100 + 2 * value, 101 + 2 * value) for value in range(7, 17)
]
"""Six records before the power cut, which costs nothing, and ten after it."""


@pytest.mark.parametrize("start", [0, 11])
@pytest.mark.parametrize(
    "stale", [pytest.param(tail(2, 20, 21), id="a length"), pytest.param(read(3, NONE, 20, 21), id="a read of nothing")]
)
def test_what_was_wrong_before_a_fault_is_seen_though_the_place_has_left(
    stale: Op, start: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    values = list(range(1, 17))
    assert check_history(SIXTEEN, [values] * 2, [CUT], tmp_path_factory, start=start).valid is True
    found = check_history([*SIXTEEN, stale], [values] * 2, [CUT], tmp_path_factory, start=start)
    assert (found.valid, set(found.findings.counts)) == (False, {Check.STALE})


@pytest.mark.parametrize("start", [0, 1, 2, 3])
def test_a_loss_is_forgiven_though_its_place_has_left(start: int, tmp_path_factory: pytest.TempPathFactory) -> None:
    found = check_history(REUSED, [[1, 4, 5]] * 2, [CUT], tmp_path_factory, start=start)
    assert (found.valid, found.lost_allowed, found.findings.lost_acked) == (True, 2, 2)
    told = check_history(REUSED, [[1, 4, 5]] * 2, [], tmp_path_factory, start=start)
    assert told.valid is False


def test_a_loss_that_nobody_was_told_of_in_its_place_is_seen_by_what_the_log_ended_at(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    ops = [*REUSED[:3], tail(1, 105, 106), unknown(4, 110), unknown(5, 112), append(6, 3, 120, 121)]
    found = check_history(ops, [[1, 4, 5, 6]] * 2, [CUT], tmp_path_factory, start=3)
    assert (found.valid, found.lost_allowed) == (True, 2)


def test_what_was_read_after_the_fault_is_no_loss_and_a_shorter_length_is_stale(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    ops = [*SIXTEEN, read(5, 6, 103, 104), tail(5, 105, 106), unknown(17, 105)]
    found = check_history(ops, [list(range(1, 17))] * 2, [CUT], tmp_path_factory, start=11)
    assert (found.valid, set(found.findings.counts)) == (False, {Check.STALE})


# -------------------------------------------------------------------- whole histories that keep the rule


def lossy_history(rng: random.Random) -> tuple[list[Op], list[int], list[Allowance]]:
    """A log that loses its end at some moments: what clients saw of it, what is left, and the moments."""
    log: list[int] = []
    ops: list[Op] = []
    allowances: list[Allowance] = []
    now, value = 0, 0
    for _ in range(rng.randint(5, 60)):
        now += 10
        begun, ended = now + rng.randint(-4, 0), now + rng.randint(1, 4)
        draw = rng.random()
        if draw < 0.5:
            value += 1
            log.append(value)
            is_known = rng.random() < 0.8
            ops.append(append(value, len(log) - 1, begun, ended) if is_known else unknown(value, begun))
        elif draw < 0.75:
            offset = rng.randint(0, len(log))
            ops.append(read(offset, log[offset] if offset < len(log) else NONE, begun, ended))
        elif draw < 0.9:
            ops.append(tail(len(log), begun, ended))
        else:
            cut = attrs.evolve(CUT, fault=len(allowances), begun_ns=now - 5, injected_ns=now + 5)
            allowances.append(cut)
            del log[rng.randint(0, len(log)) :]
    return ops, log, allowances


def findings(ops: Sequence[Op], left: list[int], allowances: Sequence[Allowance], start: int = 0) -> tuple[int, int]:
    """Counts the violations, with and without the history up to each fault, and the lost records that were explained.

    All below `start` has left the logs.
    """
    logs = [
        FinalLog(node, start, np.array(left[start:], np.int64), np.ones(len(left) - start, np.int64)) for node in (1, 2)
    ]
    rows, content = Columns.of_ops(ops), join_logs(logs)[0].content
    forgiven = forgive(rows, content, allowances, start)
    whole = check_logs([forgiven.rows], {LOG_OBJECT: logs}, expires=start > 0)
    before = [check_logs([rows]) for rows in forgiven.until]
    wrong = sum(sum(one.counts.values()) for one in [whole, *before])
    return wrong, sum(loss.records for loss in forgiven.losses)


def test_no_history_of_a_log_that_only_loses_its_end_is_called_wrong() -> None:
    explained = 0
    for seed in range(examples(150)):
        ops, left, allowances = lossy_history(random.Random(seed))
        if not ops:
            continue
        wrong, lost = findings(ops, left, allowances)
        assert not wrong, f"seed {seed}"
        acked = {op.a: op.offset for op in ops if op.f is Action.APPEND and op.type is Outcome.OK}
        gone = sum(offset >= len(left) or left[offset] != value for value, offset in acked.items())
        assert lost == gone, f"seed {seed}"
        explained += lost
    assert explained > 175


def test_no_such_history_is_called_wrong_when_its_beginning_has_left() -> None:
    explained = 0
    for seed in range(examples(150)):
        ops, left, allowances = lossy_history(random.Random(seed))
        if not ops:
            continue
        start = (1, len(left) // 2, len(left))[seed % 3]
        if 0 < start <= len(left):
            wrong, lost = findings(ops, left, allowances, start)
            assert not wrong, f"seed {seed}, start {start}"
            explained += lost
    assert explained > 75


def test_a_length_that_was_too_short_before_all_faults_is_seen_in_any_history_that_has_left() -> None:
    seen = 0
    for seed in range(examples(150)):
        ops, left, allowances = lossy_history(random.Random(seed))
        early = (
            [op for op in ops if op.type is Outcome.OK and op.t_ret < min(one.begun_ns for one in allowances)]
            if allowances
            else []
        )
        acked = [op for op in early if op.f is Action.APPEND]
        if not acked or not left:
            continue
        stale = tail(acked[-1].offset, acked[-1].t_ret + 1, acked[-1].t_ret + 2)
        if stale.t_ret >= min(one.begun_ns for one in allowances):
            continue
        assert findings([*ops, stale], left, allowances, len(left))[0], f"seed {seed}"
        seen += 1
    assert seen > 20


def test_a_loss_between_faults_is_seen_in_any_history() -> None:
    seen = 0
    for seed in range(examples(150)):
        ops, left, allowances = lossy_history(random.Random(seed))
        acked = [op for op in ops if op.f is Action.APPEND and op.type is Outcome.OK]
        after = [op for op in acked if not allowances or op.t_inv > allowances[-1].injected_ns]
        if not after or after[-1].offset != len(left) - 1:
            continue
        assert findings(ops, left[:-1], allowances)[0], f"seed {seed}"
        seen += 1
    assert seen > 20


def test_the_columns_that_are_left_are_of_the_same_kinds() -> None:
    rows = Columns.of_ops(REUSED)
    forgiven = forgive(rows, np.array([1, 4, 5], np.int64), [CUT])
    for name in ("type", "t_ret", "offset"):
        assert getattr(forgiven.rows, name).dtype == getattr(rows, name).dtype
