"""Queues of elements, sets and keys: each thing that can be wrong is found under its name and shown; what a model allows is counted."""

import json
from pathlib import Path
from typing import Any

import attrs
import numpy as np
import pytest

from jepsen_like.check.inputs import as_run
from jepsen_like.check.jepsen_maps import Names
from jepsen_like.checker.checking import check_history, check_run
from jepsen_like.checker.elements import searched
from jepsen_like.checker.elements.tasks import findings_of
from jepsen_like.checker.rows.columns import Columns
from jepsen_like.checker.rows.gather import Limits
from jepsen_like.checker.search import SearchBounds
from jepsen_like.checker.verdict import NOUNS, Check, Engine, Findings, Model, Verdict
from jepsen_like.cli import ExitStatus, execute
from jepsen_like.history.files import HistoryWriter
from jepsen_like.history.ops import NONE, Action, Op, Outcome

Row = tuple[Any, ...]
QUEUE, FIFO, TOTAL = Model.UNORDERED_QUEUE, Model.FIFO_QUEUE, Model.TOTAL_QUEUE


def maps(*operations: Row) -> str:
    """Operations one after the other: (f, asked, answered) happened, with "info" or "fail" as a fourth they did not for certain."""
    lines = []
    for process, (f, asked, answered, *kind) in enumerate(operations):
        lines.append({"process": process % 2 if not kind else process + 10, "type": "invoke", "f": f, "value": asked})
        lines.append({**lines[-1], "type": kind[0] if kind else "ok", "value": answered})
    return "".join(json.dumps(line) + "\n" for line in lines)


def verdict_on(place: Path, text: str, model: Model) -> Verdict:
    path = place / "history.jsonl"
    path.write_text(text)
    with as_run(path, model, Names()) as run:
        return check_run(run, model, Engine.LOCAL)


PUT, TAKEN = ("enqueue", 1, 1), ("dequeue", None, 1)


@pytest.mark.parametrize(
    ("model", "operations", "said"),
    [
        pytest.param(QUEUE, [PUT, TAKEN, TAKEN], "duplicated: queue 0: 1 was put in once and taken out by", id="twice"),
        pytest.param(QUEUE, [TAKEN], "phantom: queue 0: dequeue of 1 by process 0 saw 1, but no client ever put", id="phantom"),
        pytest.param(
            QUEUE, [(*PUT, "fail"), TAKEN], "aborted_read: queue 0: dequeue of 1 by process 1 saw 1, though", id="refused"
        ),
        pytest.param(QUEUE, [TAKEN, PUT], "order: queue 0: dequeue of 1 by process 0, which saw 1, had ended", id="early"),
        pytest.param(
            QUEUE, [PUT, ("drain", None, [])], "lost: queue 0: the enqueue of 1 by process 0 was acknowledged", id="lost"
        ),
        pytest.param(
            TOTAL, [PUT, ("dequeue", None, None)], "lost: queue 0: the enqueue of 1 by process 0 was acknowledged", id="lost, total"
        ),
        pytest.param(
            QUEUE, [PUT, ("dequeue", None, None), TAKEN], "stale: queue 0: the dequeue that found nothing by process 1", id="stale"
        ),
        pytest.param(
            FIFO, [PUT, ("enqueue", 2, 2), ("dequeue", None, 2), ("dequeue", None, 1)], "order: queue 0: the enqueue of 1", id="fifo"
        ),
        pytest.param(
            FIFO,
            [PUT, ("x", 0, 0), ("enqueue", 2, 2), ("dequeue", None, 2)],
            "send_order: queue 0: the enqueue of 1 by process 0 had ended before the enqueue of 2 by process 0 began, but 2 was "
            "taken out by the dequeue of 2 by process 1, and 1 never",
            id="of one producer",
        ),
        pytest.param(
            FIFO,
            [PUT, PUT, ("enqueue", 2, 2), ("dequeue", None, 1), ("dequeue", None, 2)],
            "linearizable: queue 0: no order explains the dequeue of 2 by process 0",
            id="searched",
        ),
        pytest.param(
            Model.SET, [("add", 1, 1), ("read", None, [])], "lost: set 0: the add of 1 by process 0 was acknowledged", id="set lost"
        ),
        pytest.param(
            Model.SET,
            [("add", 1, 1, "info"), ("read", None, [1]), ("read", None, [])],
            "lost: set 0: the read of [1] by process 1 has 1, but the read of [] by process 0 that began afterwards lacks it",
            id="set lost after it was read",
        ),
        pytest.param(
            Model.SET, [("add", 1, 1), ("read", None, [1, 1])], "duplicated: set 0: read of [1 1] by process 1, which", id="set twice"
        ),
        pytest.param(Model.SET, [("read", None, [7])], "phantom: set 0: read of [7] by process 0 saw 7", id="set phantom"),
        pytest.param(
            Model.LINEARIZABLE_SET,
            [("add", 1, 1), ("read", None, []), ("read", None, [1])],
            "stale: set 0: the add of 1 by process 0 had ended before the read of [] by process 1 began, which lacks 1",
            id="set stale",
        ),
        pytest.param(
            Model.KEY_VALUE,
            [("append", ["x", 1], None), ("append", ["x", 2], None), ("get", ["x", None], ["x", [1, 2]]), ("get", ["x", None], ["x", [2]])],
            'divergent_offset: key "x": place 0 of the list is 2 in the read of [2]',
            id="lists apart",
        ),
        pytest.param(
            Model.KEY_VALUE,
            [("append", ["x", 1], None), ("get", ["x", None], ["x", []])],
            'lost: key "x": the append of 1 by process 0 was acknowledged, but the read of []',
            id="append lost",
        ),
        pytest.param(
            Model.KEY_VALUE,
            [("append", ["x", 1], None), ("get", ["x", None], ["x", [1, 1]])],
            'duplicated: key "x": 1 was appended once and is there twice',
            id="append twice",
        ),
        pytest.param(
            Model.KEY_VALUE,
            [("append", ["x", 1], None), ("append", ["x", 2], None), ("get", ["x", None], ["x", [2, 1]])],
            'order: key "x": the append of 1 by process 0 had ended before the append of 2 by process 1 began',
            id="appends in another order",
        ),
        pytest.param(
            Model.KEY_VALUE,
            [("append", ["x", 1], None), ("put", ["x", 5], None), ("get", ["x", None], ["x", [1, 5]])],
            'linearizable: key "x": no order explains the read of [1 5] by process 0',
            id="put",
        ),
    ],
)  # fmt: skip
def test_what_is_wrong_is_shown(
    model: Model, operations: list[Row], said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "history.jsonl"
    # "x" only moves the next operation to the other process.
    path.write_text("".join(line for line in maps(*operations).splitlines(keepends=True) if '"f": "x"' not in line))
    status = execute(["check", str(path), "--model", model.value, "--engine", "local", "--json"])
    lines = capsys.readouterr().out.splitlines()
    assert status == ExitStatus.VIOLATION, lines
    assert lines[1].startswith(said), lines
    results = json.loads(lines[-2])
    assert results["checks"][said.partition(":")[0]]["valid"] is False
    assert results["violations"][0]["ops"]


@pytest.mark.parametrize(
    ("model", "operations", "line"),
    [
        pytest.param(TOTAL, [PUT, TAKEN, TAKEN], "duplicated, as allowed: 1; elements are delivered at least once: ", id="again"),
        pytest.param(
            Model.SET,
            [("add", 1, 1), ("read", None, []), ("read", None, [1])],
            "stale, as allowed: 1; a set may be read as it was: the read of [] by process 1 lacks 1",
            id="stale",
        ),
        pytest.param(
            QUEUE, [PUT], "not tested: loss: 1 of 1 acknowledged elements: nothing took them out, and", id="never seen empty"
        ),
        pytest.param(Model.SET, [("add", 1, 1)], "not tested: loss: 1 of 1 acknowledged elements: no read began", id="never read"),
        pytest.param(QUEUE, [PUT, ("dequeue", None, None, "info"), ("drain", None, [])], "3 operations (1 of", id="maybe taken"),
        pytest.param(QUEUE, [(*PUT, "info"), TAKEN], "2 operations (1 of unknown outcome) on 1 queue", id="recovered"),
        pytest.param(
            FIFO,
            [PUT, ("enqueue", 2, 2), ("dequeue", None, None, "info"), ("dequeue", None, 2)],
            "4 operations (1 of unknown",
            id="an unknown dequeue may have taken what was passed over",
        ),
    ],
)  # fmt: skip
def test_what_a_model_allows_is_told(
    model: Model, operations: list[Row], line: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "history.jsonl"
    path.write_text(maps(*operations))
    status = execute(["check", str(path), "--model", model.value, "--engine", "local"])
    lines = capsys.readouterr().out.splitlines()
    is_examined = any(f in ("read", "dequeue", "drain") for f, *_ in operations)
    assert status == (ExitStatus.VALID if is_examined else ExitStatus.UNKNOWN), lines
    assert any(each.startswith(line) for each in lines), lines


def test_an_empty_queue_may_be_told_as_a_failure(tmp_path: Path) -> None:
    text = maps(PUT) + maps(("dequeue", None, None)).replace('"ok"', '"fail", "error": "exhausted"')
    assert verdict_on(tmp_path, text, QUEUE).valid is False
    assert verdict_on(tmp_path, text.replace("exhausted", "timeout"), QUEUE).valid is None, "nothing looked"


def test_transactions_of_one_operation_are_lists(tmp_path: Path) -> None:
    text = maps(("txn", [["append", 3, 1]], [["append", 3, 1]]), ("txn", [["r", 3, None]], [["r", 3, [1]]]))
    assert verdict_on(tmp_path, text, Model.KEY_VALUE).findings.ok == 2


def test_recovered_elements_are_counted(tmp_path: Path) -> None:
    found = verdict_on(tmp_path, maps((*PUT, "info"), TAKEN), QUEUE)
    assert found.as_json()["recovered"] == 1


def several(model: Model) -> list[Op]:
    """Two hundred small objects, of which every fiftieth is wrong."""
    ops: list[Op] = []
    first = Action.ENQUEUE if model is QUEUE else Action.ADD if model is Model.SET else Action.APPEND
    for number in range(200):
        shared: dict[str, Any] = {"type": Outcome.OK, "object": number, "process": number}
        ops.append(Op(f=first, a=5, t_inv=1, t_ret=2, **shared))
        wrong = number % 50 == 0
        if model is QUEUE:
            ops.append(Op(f=Action.DEQUEUE, a=-1 if wrong else 5, t_inv=3, t_ret=4, **shared))
        else:
            ops += [
                Op(f=Action.READ, a=value, t_inv=3, t_ret=4, offset=at, **shared)
                for at, value in enumerate([6 if wrong else 5])
            ]
    return ops


@pytest.mark.parametrize("model", [QUEUE, Model.SET, Model.KEY_VALUE])
def test_a_history_of_ours_is_sorted_out_by_objects(model: Model, tmp_path: Path) -> None:
    with HistoryWriter(tmp_path, part_rows_max=20) as writer:
        for op in several(model):
            writer.record(op)
    direct = check_history(tmp_path, model, Engine.LOCAL)
    sorted_out = check_history(tmp_path, model, Engine.LOCAL, limits=Limits(task=8, chunk=16))
    assert direct.findings.violated == sorted_out.findings.violated == {0, 50, 100, 150}
    assert direct.findings.counts == sorted_out.findings.counts


@pytest.mark.parametrize("model", [QUEUE, Model.SET, Model.KEY_VALUE])
def test_an_object_that_no_task_can_hold_is_undecided_and_told(model: Model, tmp_path: Path) -> None:
    first, last = (Action.ENQUEUE, Action.DEQUEUE) if model is QUEUE else (Action.ADD, Action.READ)
    first = Action.APPEND if model is Model.KEY_VALUE else first
    with HistoryWriter(tmp_path, part_rows_max=20) as writer:
        for op in several(model):
            writer.record(op)
        for at in range(9):
            f, value = (first, at) if at < 8 else (last, 0)
            writer.record(
                Op(f=f, type=Outcome.OK, object=7, a=value + 10, process=500, t_inv=10 + 2 * at, t_ret=11 + 2 * at)
            )
    whole = check_history(tmp_path, model, Engine.LOCAL).findings
    bounded = check_history(tmp_path, model, Engine.LOCAL, limits=Limits(task=8, chunk=16, object=10)).findings
    (undecided,) = bounded.undecided
    assert undecided.object == 7
    assert undecided.reason == (
        f"{NOUNS[model]} 7 has 11 rows, which have to be in memory together, and a task holds 10: it was not checked"
    )
    assert bounded.violated == {0, 50, 100, 150}
    for name in ("ok", "fail", "info", "objects", "acked"):
        assert getattr(bounded, name) == getattr(whole, name), name


def test_a_queue_with_more_rows_than_a_search_holds_is_undecided(monkeypatch: pytest.MonkeyPatch) -> None:
    ops = [
        Op(f=f, type=Outcome.OK, a=1, t_inv=at, t_ret=at + 1, process=at)
        for at, f in enumerate([Action.ENQUEUE, Action.ENQUEUE, Action.DEQUEUE, Action.DEQUEUE])
    ]
    assert findings_of(Columns.of_ops(ops), QUEUE, SearchBounds()).undecided == ()
    monkeypatch.setattr(searched, "SEARCHED_OPS_MAX", 3)
    (undecided,) = findings_of(Columns.of_ops(ops), QUEUE, SearchBounds()).undecided
    assert undecided.reason == "it has to be searched, and it has 4 rows, of 3 at most"


def test_a_search_that_reaches_its_bound_leaves_a_queue_undecided() -> None:
    ops = [
        Op(f=f, type=Outcome.OK, a=value % 7, t_inv=value, t_ret=100 + value, process=value + 100 * f)
        for value in range(14)
        for f in (Action.ENQUEUE, Action.DEQUEUE)
    ]
    ops.append(Op(f=Action.DEQUEUE, type=Outcome.OK, a=3, t_inv=300, t_ret=301))
    found = findings_of(Columns.of_ops(ops), FIFO, SearchBounds(memory_mib=0.5))
    assert found.violated == {0}, "taken more often than put in: that needs no search"
    out_of_order = [(Action.ENQUEUE, 5), (Action.ENQUEUE, 6), (Action.DEQUEUE, 6), (Action.DEQUEUE, 5)]
    after = [
        Op(f=f, type=Outcome.OK, a=value, t_inv=400 + 2 * at, t_ret=401 + 2 * at)
        for at, (f, value) in enumerate(out_of_order)
    ]
    found = findings_of(Columns.of_ops([*ops[:-1], *after]), FIFO, SearchBounds(memory_mib=0.1))
    (undecided,) = found.undecided
    assert "the search reached its bound: more than 0.1 MiB of configurations" in undecided.reason


def large(count: int) -> Columns:
    """A queue with one element in a hundred thousand lost: put in, taken out a little later, and at the end found empty."""
    moment = np.arange(count, dtype=np.int64) * 10
    zeros = np.zeros(2 * count + 1, np.int64)
    taken = np.append(moment, moment + 5)
    value = np.append(np.arange(count), np.arange(count))
    value[count + count // 2] = count - 1  # taken twice, and another one never
    return Columns(
        object=zeros,
        process=(np.arange(2 * count + 1) % 1000).astype(np.int32),
        f=np.append(np.repeat([Action.ENQUEUE, Action.DEQUEUE], count), Action.DRAIN).astype(np.int8),
        type=zeros.astype(np.int8),
        err=zeros.astype(np.int16),
        a=np.append(value, -1),
        b=zeros - 1,
        seen=zeros - 1,
        offset=zeros - 1,
        epoch=(zeros - 1).astype(np.int32),
        count=(zeros + 1).astype(np.int32),
        t_inv=np.append(taken, 10 * count + 100),
        t_ret=np.append(taken + 4, 10 * count + 200),
        node=(zeros - 1).astype(np.int16),
    )


def test_one_element_in_many_is_found() -> None:
    found: Findings = findings_of(large(100_000), QUEUE, SearchBounds())
    assert {str(check): count for check, count in found.counts.items()} == {"duplicated": 1, "order": 1, "lost": 1}
    (lost,) = (one for one in found.violations if one.check is Check.LOST)
    assert lost.ops[0].a == 50_000


@pytest.mark.parametrize(("begins", "is_valid"), [(5, True), (6, False)])
def test_what_begins_when_something_ends_is_concurrent_with_it(begins: int, is_valid: bool) -> None:
    def allows(model: Model, *ops: tuple[Action, Outcome, int, int, int]) -> bool:
        rows = [
            Op(f=f, type=outcome, a=value, t_inv=start, t_ret=end, process=at)
            for at, (f, outcome, value, start, end) in enumerate(ops)
        ]
        return not findings_of(Columns.of_ops(rows), model, SearchBounds()).violated

    put, take, ok = Action.ENQUEUE, Action.DEQUEUE, Outcome.OK
    second = (put, ok, 2, begins, begins + 1)
    assert allows(FIFO, (put, ok, 1, 0, 5), second, (take, ok, 2, 8, 9), (take, ok, 1, 10, 11)) is is_valid
    maybe = (take, Outcome.INFO, -1, begins, begins)
    assert allows(QUEUE, (put, ok, 1, 0, 1), (take, ok, -1, 2, 5), maybe) is is_valid


def test_every_acknowledged_value_that_no_get_has_is_lost(tmp_path: Path) -> None:
    kept = [("append", ["x", value], None) for value in range(10)]
    verdict = verdict_on(tmp_path, maps(*kept, ("get", ["x", None], ["x", [0, 1, 2]])), Model.KEY_VALUE)
    assert (verdict.findings.counts, verdict.findings.lost_acked) == ({Check.LOST: 7}, 7)


@pytest.mark.parametrize("model", [Model.SET, Model.LINEARIZABLE_SET])
def test_reads_within_one_tick_of_the_clock_are_several(model: Model, tmp_path: Path) -> None:
    add = Op(f=Action.ADD, type=Outcome.OK, t_inv=5, t_ret=5, process=1, a=1)
    read = attrs.evolve(add, f=Action.READ)
    with HistoryWriter(tmp_path) as history:
        for _ in range(2):
            history.record(attrs.evolve(read, a=NONE))
        history.record(add)
        history.record(attrs.evolve(add, a=2))
        for values in ([1, 2], [2, 1], [1, 2]):
            history.record_batch(read, values)
    findings = check_history(tmp_path, model, Engine.LOCAL).findings
    assert (findings.counts, findings.ok) == ({}, 7)


def test_values_that_count_one_each_are_of_one_read() -> None:
    add = Op(f=Action.ADD, type=Outcome.OK, t_inv=1, t_ret=2, process=1)
    adds = [attrs.evolve(add, a=value, process=value) for value in (1, 2)]
    reads = [attrs.evolve(add, f=Action.READ, a=value, t_inv=3, t_ret=4) for value in (1, 2)]
    findings = findings_of(Columns.of_ops([*adds, *reads]), Model.LINEARIZABLE_SET, SearchBounds())
    assert (findings.counts, findings.ok) == ({}, 3)
