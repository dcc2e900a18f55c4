"""Every way in which a log can be wrong has its name, its sentence and its operations."""

import itertools
from collections.abc import Sequence

import attrs
import numpy as np
import pytest

from jepsen_like.checker.log.explain import check_logs
from jepsen_like.checker.rows.columns import Columns
from jepsen_like.checker.rows.final_logs import FinalLog
from jepsen_like.checker.verdict import Check, Findings
from jepsen_like.history.ops import NONE, Action, ErrorCode, Op, Outcome


def append(value: int, offset: int, start: int, end: int, outcome: Outcome = Outcome.OK) -> Op:
    return Op(f=Action.APPEND, type=outcome, a=value, offset=offset, t_inv=start, t_ret=end, process=value)


def unknown(value: int, start: int) -> Op:
    return Op(f=Action.APPEND, type=Outcome.INFO, a=value, t_inv=start, process=value)


def batch(first: Op, *values: int, step: int = 1) -> list[Op]:
    """The rows of one append of several records, `step` places apart."""
    places = [NONE if first.offset == NONE else first.offset + step * number for number in range(len(values))]
    return [
        attrs.evolve(first, a=value, offset=place, count=len(values), process=7)
        for value, place in zip(values, places, strict=True)
    ]


def refuse_append(value: int, start: int, end: int) -> Op:
    return append(value, NONE, start, end, Outcome.FAIL)


def read(offset: int, value: int, start: int, end: int) -> Op:
    return Op(f=Action.READ, type=Outcome.OK, a=value, offset=offset, t_inv=start, t_ret=end, process=20)


def tail(length: int, start: int, end: int) -> Op:
    return Op(f=Action.TAIL, type=Outcome.OK, offset=length, t_inv=start, t_ret=end, process=30)


def final(*logs: Sequence[int], epochs: Sequence[Sequence[int]] | None = None) -> list[FinalLog]:
    """The final logs of nodes 1, 2, ..."""
    return [
        FinalLog(
            node, 0, np.array(values, np.int64), np.array(epochs[node - 1] if epochs else [1] * len(values), np.int64)
        )
        for node, values in enumerate(logs, start=1)
    ]


def check_ops(
    ops: Sequence[Op], logs: list[FinalLog] | None = None, pieces: int = 1, *, expires: bool = False
) -> Findings:
    by_end = sorted(ops, key=lambda op: op.t_ret)
    # The rows of a batch are recorded together.
    together = [list(rows) for _, rows in itertools.groupby(by_end, key=lambda op: (op.process, op.t_inv, op.t_ret))]
    parts = [[op for rows in together[at::pieces] for op in rows] for at in range(pieces)]
    sources = [Columns.of_ops(part) for part in parts if part]
    return check_logs(sources, None if logs is None else {0: logs}, expires=expires)


@pytest.mark.parametrize("pieces", [1, 3])
@pytest.mark.parametrize(
    ("check", "sentence", "ops", "logs"),
    [
        pytest.param(
            Check.STALE,
            "the append of 1 at offset 0 by process 1 had ended before the tail of 0 by process 30 began",
            [append(1, 0, 1, 2), tail(0, 3, 4)],
            final([1]),
            id="stale tail",
        ),
        pytest.param(
            Check.STALE,
            "the tail of 1 by process 30 had ended before the read of nothing at offset 0 by process 20 began",
            [append(1, 0, 1, 9), tail(1, 2, 3), read(0, NONE, 4, 5)],
            None,
            id="stale read",
        ),
        pytest.param(
            Check.LOST,
            "the append of 2 at offset 1 by process 2 was acknowledged, but the final logs end at 1",
            [append(1, 0, 1, 2), append(2, 1, 1, 2)],
            final([1], [1]),
            id="lost at the end",
        ),
        pytest.param(
            Check.LOST,
            "the append of 2 at offset 1 by process 2 was acknowledged, but the final log of node 1 holds 3 there",
            [append(1, 0, 1, 2), append(2, 1, 1, 2), unknown(3, 1)],
            final([1, 3]),
            id="lost and replaced",
        ),
        pytest.param(
            Check.LOST,
            "the read of 2 at offset 1 by process 20 happened, but the final logs end at 1",
            [append(1, 0, 1, 2), unknown(2, 1), read(1, 2, 3, 4)],
            final([1]),
            id="read and then lost",
        ),
        pytest.param(
            Check.LOST,
            "tail of 2 by process 30, but the final logs end at 1",
            [append(1, 0, 1, 2), unknown(2, 1), tail(2, 3, 4)],
            final([1]),
            id="a length that is not there in the end",
        ),
        pytest.param(
            Check.DUPLICATED,
            "1 was appended once but stands at offsets 0 and 1",
            [append(1, 0, 1, 2)],
            final([1, 1]),
            id="duplicate",
        ),
        pytest.param(
            Check.DUPLICATED,
            "offset 0 was acknowledged to two appends of 1",
            [append(1, 0, 1, 4), append(1, 0, 3, 4)],
            final([1]),
            id="one place acknowledged twice",
        ),
        pytest.param(
            Check.PHANTOM,
            "read of 9 at offset 1 by the final log of node 1, but no client ever appended 9",
            [append(1, 0, 1, 2)],
            final([1, 9]),
            id="phantom",
        ),
        pytest.param(
            Check.ABORTED_READ,
            "read of 9 at offset 1 by process 20, though the append of 9 (refused) by process 9 "
            "was answered as certainly not done",
            [append(1, 0, 1, 2), refuse_append(9, 1, 2), read(1, 9, 3, 4)],
            final([1, 9]),
            id="aborted read",
        ),
        pytest.param(
            Check.DIVERGENT_OFFSET,
            "offset 0 holds two values: 1 (append of 1 at offset 0 by process 1) and 2 (read of 2 at offset 0 by process 20)",
            [append(1, 0, 1, 2), unknown(2, 1), read(0, 2, 3, 4)],
            final([1]),
            id="a read saw another value",
        ),
        pytest.param(
            Check.DIVERGENT_OFFSET,
            "the final logs of nodes 1 and 2 hold 2 and 3 at offset 1",
            [append(1, 0, 1, 2), unknown(2, 1), unknown(3, 1)],
            final([1, 2], [1, 3]),
            id="nodes differ",
        ),
        pytest.param(
            Check.EPOCH,
            "the final logs of nodes 1 and 2 hold 1 of epoch 1 and of epoch 2 at offset 0",
            [append(1, 0, 1, 2)],
            final([1], [1], epochs=[[1], [2]]),
            id="nodes agree on the value but not on the epoch",
        ),
        pytest.param(
            Check.ORDER,
            "the append of 2 at offset 1 by process 2 had ended before the append of 1 at offset 0 by process 1 began",
            [append(2, 1, 1, 2), append(1, 0, 3, 4)],
            final([1, 2]),
            id="reordered appends",
        ),
        pytest.param(
            Check.ORDER,
            "2 stands at offset 1, but the tail of 2 by process 30 had ended before the append of 2 (outcome unknown) "
            "by process 2 began",
            [append(1, 0, 1, 2), tail(2, 3, 4), unknown(2, 5)],
            final([1, 2]),
            id="known before its append began",
        ),
        pytest.param(
            Check.LOST,
            "the final log of node 2 ends at 1, but that of node 1 goes on",
            [append(1, 0, 1, 2), append(2, 1, 1, 2)],
            final([1, 2], [1], [1, 2]),
            id="one of three final logs ends early",
        ),
        pytest.param(
            Check.LOST,
            "the final log of node 3 ends at 0, but that of node 1 goes on",
            [append(1, 0, 1, 2)],
            final([1], [1], []),
            id="an empty final log",
        ),
        pytest.param(
            Check.EPOCH,
            "the append of 1 at offset 0 by process 1 is of epoch 7, the read of 1 at offset 0 by the final log of node 1 "
            "of epoch 1",
            [attrs.evolve(append(1, 0, 1, 2), epoch=7)],
            final([1], [1]),
            id="acknowledged in another epoch",
        ),
        pytest.param(
            Check.EPOCH,
            "epochs fall along the log: the read of 1 at offset 0 by the final log of node 1 is of epoch 2, "
            "the read of 2 at offset 1 by the final log of node 1 of epoch 1",
            [append(1, 0, 1, 2), append(2, 1, 1, 2), append(3, 2, 1, 2)],
            final([1, 2, 3], epochs=[[2, 1, 1]]),
            id="epochs fall",
        ),
        pytest.param(
            Check.EPOCH,
            "epochs fall along the log: the append of 1 at offset 0 by process 1 is of epoch 3, "
            "the read of 2 at offset 1 by process 20 of epoch 2",
            [attrs.evolve(append(1, 0, 1, 2), epoch=3), append(2, 1, 1, 2), attrs.evolve(read(1, 2, 3, 4), epoch=2)],
            None,
            id="epochs fall, and there are no final logs",
        ),
        pytest.param(
            Check.TORN,
            "the records of one append of 3 by process 7 (outcome unknown) do not stand one after the other: "
            "2 at 1, 3 at 2, 4 nowhere",
            [append(1, 0, 1, 2), *batch(unknown(2, 1), 2, 3, 4)],
            final([1, 2, 3]),
            id="a torn batch",
        ),
        pytest.param(
            Check.TORN,
            "the records of one append of 2 by process 7 (outcome unknown) do not stand one after the other: 2 at 1, 3 at 0",
            batch(unknown(2, 1), 2, 3),
            final([3, 2]),
            id="a reversed batch",
        ),
        pytest.param(
            Check.TORN,
            "the records of one append of 2 by process 7 (outcome unknown) do not stand one after the other: 2 at 0, 3 at 2",
            [*batch(unknown(2, 1), 2, 3), append(1, 1, 1, 2)],
            final([2, 1, 3]),
            id="interleaved with another append",
        ),
        pytest.param(
            Check.TORN,
            "the records of one append of 2 by process 7 (outcome unknown) do not stand one after the other: "
            "2 at 0, 3 nowhere",
            [*batch(unknown(2, 1), 2, 3), append(1, 1, 1, 2), read(0, 2, 3, 4)],
            None,
            id="another append inside a batch that was seen, without final logs",
        ),
        pytest.param(
            Check.TORN,
            "the records of one append of 2 by process 7 (outcome unknown) do not stand one after the other: 2 at 0, 3 at 1",
            [append(2, 0, 1, 2), *batch(unknown(2, 1), 2, 3)],
            final([2, 3]),
            id="half of a batch behind an append of its first value",
        ),
        pytest.param(
            Check.TORN,
            "the tail of 1 by process 30 lies inside the batch at offsets 0 to 1",
            [*batch(append(2, 0, 1, 6), 2, 3), tail(1, 3, 4)],
            final([2, 3]),
            id="half of a batch was seen",
        ),
        pytest.param(
            Check.STALE,
            "the read of 2 at offset 0 by process 20 had ended before the tail of 0 by process 30 began",
            [*batch(append(2, 0, 1, 9), 2, 3), read(0, 2, 3, 4), tail(0, 5, 6)],
            final([2, 3]),
            id="a batch is there at once",
        ),
        pytest.param(
            Check.TORN,
            "the batch that begins with the append of 2 at offset 0 by process 7 was acknowledged at places that do not "
            "follow each other",
            [*batch(append(2, 0, 1, 2), 2, 3, step=2), append(1, 1, 1, 2)],
            final([2, 1, 3]),
            id="an acknowledged batch that is not together",
        ),
        pytest.param(
            Check.GAP,
            "tail of 2 by process 30, but no append can have filled offset 1 by then",
            [append(1, 0, 1, 2), tail(2, 3, 4), unknown(2, 5)],
            None,
            id="a length that no append explains",
        ),
        pytest.param(
            Check.GAP,
            "tail of 1000000000000000 by process 30, but there were only 1 appends in all",
            [append(1, 0, 1, 2), tail(10**15, 3, 4)],
            None,
            id="an absurd length costs no memory",
        ),
    ],
)
def test_each_flaw_is_told_by_name(
    check: Check, sentence: str, ops: list[Op], logs: list[FinalLog] | None, pieces: int
) -> None:
    findings = check_ops(ops, logs, pieces)
    (violation,) = findings.violations
    assert violation.check is check
    assert violation.sentence == f"log 0: {sentence}"
    assert findings.counts == {check: 1}
    assert findings.violated == {0}


def test_two_that_changed_places_are_no_phantoms() -> None:
    findings = check_ops([append(1, 0, 1, 2), append(2, 1, 3, 4)], final([2, 1]))
    assert findings.counts == {Check.LOST: 2, Check.DIVERGENT_OFFSET: 2}
    assert (
        "log 0: read of 2 at offset 0 by the final log of node 1, but the append of 2 at offset 1 by process 2 was acknowledged"
        in [one.sentence for one in findings.violations]
    )


@pytest.mark.parametrize("pieces", [1, 2])
@pytest.mark.parametrize(
    ("ops", "logs"),
    [
        pytest.param([append(1, 0, 1, 4), append(2, 1, 1, 4), tail(1, 2, 3)], final([1, 2]), id="a batch half seen"),
        pytest.param([unknown(1, 1), read(0, 1, 50, 60), read(0, NONE, 2, 3)], None, id="unknown, and seen much later"),
        pytest.param([unknown(1, 1)], final([]), id="unknown, and never there"),
        pytest.param([unknown(1, 1)], final([1], [1]), id="unknown, and there in the end"),
        pytest.param([refuse_append(1, 1, 2), append(1, 0, 3, 4)], final([1]), id="refused, tried again, there once"),
        pytest.param([unknown(1, 1), append(1, 1, 3, 4)], final([1, 1]), id="unknown, tried again, there twice"),
        pytest.param([append(1, 0, 1, 2), append(2, 1, 1, 2)], final([1, 2], [1, 2]), id="two nodes"),
        pytest.param([*batch(unknown(2, 1), 2, 3), append(1, 2, 3, 4)], final([2, 3, 1]), id="a batch that happened"),
        pytest.param([*batch(unknown(2, 1), 2, 3), append(1, 0, 3, 4)], final([1]), id="a batch that did not"),
        pytest.param([*batch(unknown(2, 1), 2, 3), read(0, 2, 3, 4), tail(2, 5, 6)], None, id="a batch seen in part"),
        pytest.param(
            [attrs.evolve(append(1, 0, 1, 2), epoch=1), attrs.evolve(append(2, 1, 1, 2), epoch=4)],
            final([1, 2], epochs=[[1, 4]]),
            id="epochs rise",
        ),
        pytest.param([unknown(7, 1), append(1, 1, 2, 3), tail(2, 4, 5)], None, id="a place that was never read"),
    ],
)
def test_what_some_order_explains_is_valid(ops: list[Op], logs: list[FinalLog] | None, pieces: int) -> None:
    assert check_ops(ops, logs, pieces).counts == {}


def test_lost_and_duplicated_records_are_counted() -> None:
    ops = [append(value, value, 1, 2) for value in range(1, 6)] + [append(9, 0, 1, 2)]
    findings = check_ops(ops, final([9, 1, 1, 2, 2]))
    assert findings.acked == 6
    assert findings.lost_acked == 4
    assert findings.duplicated == 2


def test_a_damaged_record_is_a_violation() -> None:
    damaged = Op(
        f=Action.READ, type=Outcome.OK, err=ErrorCode.DAMAGED_VALUE, a=1, offset=0, t_inv=3, t_ret=4, process=2
    )
    findings = check_ops([append(1, 0, 1, 2), damaged], final([1]))
    assert findings.counts == {Check.PHANTOM: 1}
    assert findings.violations[0].ops == (damaged,)


def test_an_acknowledgement_without_a_place_leaves_the_log_undecided() -> None:
    findings = check_ops([append(1, NONE, 1, 2)])
    assert not findings.violated
    assert findings.undecided[0].reason == "1 acknowledged operations do not say at which offset"


def test_one_wrong_acknowledgement_is_one_violation_however_much_follows_it() -> None:
    ops = [append(value, value - 1, 10 * value, 10 * value + 5) for value in range(1, 1001)]
    ops[499] = append(2000, 900, 5000, 5005)
    logs = final([*range(1, 500), 500, *range(501, 1001)])
    findings = check_ops([*ops, unknown(500, 5000)], logs)
    assert findings.counts == {Check.LOST: 1, Check.ORDER: 1}


def test_a_rare_violation_is_not_crowded_out_by_many_of_another_kind() -> None:
    appends = [append(value, value, 10 * value, 10 * value + 5) for value in range(200)]
    rare_ones = [tail(40, 3000, 3001), read(60, 999, 3010, 3011)]
    found = check_ops([*appends, *rare_ones], final([*range(50)]))
    assert found.counts[Check.LOST] == 151  # with what was read
    rare = {check for check in found.counts if check is not Check.LOST}
    assert rare == {Check.STALE}
    kept = Findings().plus(found).violations
    assert {one.check for one in found.violations} == {Check.LOST, *rare}
    assert {one.check for one in kept} == {Check.LOST, *rare}
    many = attrs.evolve(found, violations=tuple(one for one in found.violations if one.check is Check.LOST) * 5)
    few = attrs.evolve(found, violations=tuple(one for one in found.violations if one.check in rare))
    assert {one.check for one in many.plus(few).violations} == {Check.LOST, *rare}
