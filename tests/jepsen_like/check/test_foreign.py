"""Histories of Jepsen's operation maps are read as they were meant, or refused with the place that cannot be read."""

import json
from pathlib import Path
from typing import Any

import pytest

from jepsen_like.check.jepsen_maps import NAMED_FROM, Names, operations
from jepsen_like.check.map_files import Event, read_events
from jepsen_like.checker.verdict import Model
from jepsen_like.history.files import UnreadableHistory
from jepsen_like.history.ops import NEVER, NONE, Action, ErrorCode, Op, Outcome


@pytest.mark.parametrize(("error", "says"), [({}, ErrorCode.NONE), ({"error": "not-leader"}, ErrorCode.OTHER)])
def test_a_failed_cas_says_what_it_saw_unless_it_failed_for_another_reason(
    error: dict[str, str], says: ErrorCode, tmp_path: Path
) -> None:
    begin = {"process": 0, "type": "invoke", "f": "cas", "value": [1, 2]}
    maps = [Event(begin, 1, 1), Event({**begin, "type": "fail", **error}, 2, 1)]
    (op,) = operations(maps, Model.REGISTER, tmp_path)
    assert (op.type, op.err, op.a) == (Outcome.FAIL, says, 1)


def read(path: Path, text: str, model: Model) -> list[Op]:
    path.write_text(text)
    return list(operations(read_events(path), model, path))


REGISTER_EDN = """
{:type :invoke, :f :write, :value 3, :process 0, :time 10, :index 0}
{:type :invoke, :f :cas, :value [3 4], :process 1, :time 10, :index 1}
{:type :info, :f :start, :value nil, :process :nemesis, :time 15, :index 2}
{:type :ok, :f :write, :value 3, :process 0, :time 20, :index 3}
{:type :ok, :f :cas, :value [3 4], :process 1, :time 30, :index 4}
{:type :invoke, :f :read, :value nil, :process 2, :time 40, :index 5}
{:type :ok, :f :read, :value 4, :process 2, :time 50, :index 6}
{:type :invoke, :f :write, :value 5, :process 3, :time 60, :index 7}
"""


def test_a_register_history_in_edn(tmp_path: Path) -> None:
    write, swap, seen, unknown = read(tmp_path / "history.edn", REGISTER_EDN, Model.REGISTER)
    assert (write.f, write.type, write.a, write.t_inv, write.t_ret) == (Action.WRITE, Outcome.OK, 3, 10, 20)
    assert (swap.f, swap.a, swap.b, swap.seen) == (Action.CAS, 3, 4, 3)
    assert swap.t_inv == 11, "events of one nanosecond keep the order of the file"
    assert (seen.f, seen.a) == (Action.READ, 4)
    assert (unknown.type, unknown.t_ret) == (Outcome.INFO, NEVER)


def test_a_vector_of_maps_is_the_same_history(tmp_path: Path) -> None:
    one = read(tmp_path / "a.edn", REGISTER_EDN, Model.REGISTER)
    assert read(tmp_path / "b.edn", f"[{REGISTER_EDN}]", Model.REGISTER) == one
    assert read(tmp_path / "c", REGISTER_EDN, Model.REGISTER) == one


def edn_events(*rows: tuple[int, str, str, str]) -> str:
    return "\n".join(f"{{:process {p}, :type :{t}, :f :{f}, :value {v}}}" for p, t, f, v in rows)


@pytest.mark.parametrize(
    ("wrote", "saw", "is_same"),
    [
        pytest.param("{:a 1, :b [2 {:c 3 :d 4}]}", "{:b [2 {:d 4 :c 3}], :a 1}", True, id="keys of a map"),
        pytest.param("#{1 :x}", "#{:x 1}", True, id="a set of two"),
        pytest.param("{:s #{10 9 #{}}}", "{:s #{#{} 9 10}}", True, id="a set in a map"),
        pytest.param("[1 2 3]", "[1 3 2]", False, id="a vector"),
        pytest.param("-0.0", "0.0", True, id="zeros"),
        pytest.param("0.5M", "0.50M", True, id="a decimal"),
        pytest.param("0.1M", "0.10000000000000000001M", False, id="decimals that are near"),
        pytest.param("##NaN", "##NaN", True, id="no number"),
        pytest.param("123456789012345678901234567890", "123456789012345678901234567890N", True, id="large"),
    ],
)
def test_a_value_is_what_it_says_however_it_is_written(wrote: str, saw: str, is_same: bool, tmp_path: Path) -> None:
    text = edn_events(
        (0, "invoke", "write", wrote),
        (0, "ok", "write", saw if is_same else wrote),
        (0, "invoke", "read", "nil"),
        (0, "ok", "read", saw),
    )
    write, seen = read(tmp_path / "history.edn", text, Model.REGISTER)
    assert (write.object, seen.object) == (0, 0)
    assert (write.a == seen.a) is is_same


def test_an_error_in_words_is_none_of_edn(tmp_path: Path) -> None:
    text = "0\t:invoke\t:write\t1\n0\t:fail\t:write\t1\t(refused: see [1\n"
    (write,) = read(tmp_path / "history.txt", text, Model.REGISTER)
    assert (write.type, write.err) == (Outcome.FAIL, ErrorCode.OTHER)


def events(*rows: tuple[int, str, str, Any]) -> str:
    return "\n".join(json.dumps({"process": p, "type": t, "f": f, "value": v}) for p, t, f, v in rows)


def test_several_registers_have_pairs_for_values(tmp_path: Path) -> None:
    text = events(
        (0, "invoke", "write", ["x", 1]),
        (0, "ok", "write", ["x", 1]),
        (0, "invoke", "cas", [7, [1, 2]]),
        (0, "fail", "cas", [7, [1, 2]]),
        (1, "invoke", "read", [7, None]),
        (1, "ok", "read", [7, None]),
    )
    write, swap, seen = read(tmp_path / "history.jsonl", text, Model.REGISTER)
    assert (write.object, write.a) == (NAMED_FROM, 1)
    assert (swap.object, swap.type, swap.a, swap.b) == (7, Outcome.FAIL, 1, 2)
    assert (seen.object, seen.a) == (7, NONE)


def test_a_log_history_in_json_lines(tmp_path: Path) -> None:
    text = events(
        (0, "invoke", "append", 5),
        (0, "ok", "append", [0, 5]),
        (0, "invoke", "append", 6),
        (0, "info", "append", 6),
        (1, "invoke", "read", None),
        (1, "ok", "read", [[0, 5], [1, None]]),
        (1, "invoke", "read", 0),
        (1, "ok", "read", [0, 5]),
        (1, "invoke", "tail", None),
        (1, "ok", "tail", 1),
    )
    ops = read(tmp_path / "history.jsonl", text, Model.LOG)
    assert [(op.f, op.type, op.offset, op.a) for op in ops] == [
        (Action.APPEND, Outcome.OK, 0, 5),
        (Action.APPEND, Outcome.INFO, NONE, 6),
        (Action.READ, Outcome.OK, 0, 5),
        (Action.READ, Outcome.OK, 1, NONE),
        (Action.READ, Outcome.OK, 0, 5),
        (Action.TAIL, Outcome.OK, 1, NONE),
    ]


def test_all_that_jepsen_writes_is_accepted(tmp_path: Path) -> None:
    text = """
    {:process 0 :type :invoke :f :write :value 1 :time 5 :index 0}
    {:process :nemesis :type :info :f :start :value nil :time 5 :index 1}
    {:process :nemesis :type :info :f :start :value "cut off" :time 5 :index 2}
    {:process 0 :type :ok :f :write :value nil :time 5 :index 3}
    {:process 1 :type :invoke :f :write :value 2 :time 5 :index 4}
    {:process 2 :type :invoke :f :cas :value [2 3] :time 5 :index 5}
    {:process 1 :type :info :f :write :value :timed-out :time 7 :index 6}
    {:process 2 :type :ok :f :cas :value nil :time 8 :index 7}
    {:process 0 :type :invoke :f :read :value nil :time 9 :index 8}
    {:process 0 :type :fail :f :read :value nil :error [:timeout 5] :time 10 :index 9}
    {:process 6 :type :invoke :f :write :value 4 :index -1}
    {:process 6 :type :fail :f :write :value [:refused "why"] :index -1}
    """
    ops = read(tmp_path / "history.edn", text, Model.REGISTER)
    assert [(op.f, op.type, op.a, op.b) for op in ops] == [
        (Action.WRITE, Outcome.OK, 1, NONE),
        (Action.WRITE, Outcome.INFO, 2, NONE),
        (Action.CAS, Outcome.OK, 2, 3),
        (Action.READ, Outcome.FAIL, NONE, NONE),
        (Action.WRITE, Outcome.FAIL, 4, NONE),
    ]


@pytest.mark.parametrize(
    "text", [REGISTER_EDN, f"[{REGISTER_EDN}]", events((0, "invoke", "read", None), (0, "ok", "read", 4))]
)
def test_a_mark_of_the_order_of_bytes_is_no_part_of_a_history(text: str, tmp_path: Path) -> None:
    assert read(tmp_path / "marked", f"\ufeff{text}", Model.REGISTER) == read(
        tmp_path / "history", text, Model.REGISTER
    )


def test_a_value_that_is_nested_too_deeply_is_refused(tmp_path: Path) -> None:
    deep: Any = None
    for _ in range(900):
        deep = [deep]
    with pytest.raises(UnreadableHistory, match="nested too deeply"):
        read(tmp_path / "history.json", events((0, "invoke", "write", deep)), Model.REGISTER)


def make_pair(invocation: Any, answer: Any, f: str = "write") -> str:
    return events((0, "invoke", f, invocation), (0, "ok", f, answer))


@pytest.mark.parametrize(
    ("text", "model", "reason"),
    [
        pytest.param(make_pair(1, 2), Model.REGISTER, "line 1: write of 1, but its ok has 2", id="write"),
        pytest.param(
            make_pair(["x", 1], ["x", 2]), Model.REGISTER, "line 1: write of 1, but its ok has 2", id="keyed write"
        ),
        pytest.param(
            make_pair(["x", 1], ["y", 1]),
            Model.REGISTER,
            "line 1: invoked with the key 'x', but its ok has 'y'",
            id="key",
        ),
        pytest.param(
            make_pair(["x", None], ["y", 1], "read"),
            Model.REGISTER,
            "line 1: invoked with the key 'x', but its ok has 'y'",
            id="key of a read",
        ),
        pytest.param(
            make_pair([1, 2], [1, 3], "cas"), Model.REGISTER, "line 1: cas of [1, 2], but its ok has [1, 3]", id="cas"
        ),
        pytest.param(make_pair(5, [0, 6], "append"), Model.LOG, "line 1: append of 5, but its ok has 6", id="append"),
        pytest.param(make_pair(None, 2), Model.REGISTER, "line 1: write without a value", id="no value"),
        pytest.param(
            events((0, "invoke", "append", None)), Model.LOG, "line 1: append without a value", id="no record"
        ),
        pytest.param(
            events((0, "invoke", "write", 1), (0, "ok", "cas", [0, 1])),
            Model.REGISTER,
            "line 2: ok of 'cas', but line 1 had invoked 'write'",
            id="another f",
        ),
        pytest.param(
            events((0, "invoke", "write", 1), (1, "invoke", "read", None), (0, "invoke", "write", 2)),
            Model.REGISTER,
            "line 3: process 0 invokes, but what it invoked in line 1 has not ended",
            id="two at once",
        ),
        pytest.param(
            "{:process 0 :type :invoke :f :read :time 20} {:process 0 :type :ok :f :read :value 1 :time 19}",
            Model.REGISTER,
            "line 1, map 2: its time 19 lies before 20, that of its invocation in line 1",
            id="ends before it begins",
        ),
        pytest.param(
            "{:process 0 :type :invoke :f :read :index 0} {:process :nemesis :type :info :f :heal :index 0}",
            Model.REGISTER,
            "line 1, map 2: its index 0 does not follow 0",
            id="index",
        ),
    ],
)
def test_what_jepsen_cannot_have_written_is_refused_with_its_place(
    tmp_path: Path, text: str, model: Model, reason: str
) -> None:
    path = tmp_path / "history"
    with pytest.raises(UnreadableHistory) as refused:
        read(path, text, model)
    assert str(refused.value) == f"{path}: {reason}"


@pytest.mark.parametrize(
    ("text", "model", "reason"),
    [
        pytest.param("{oops", Model.LOG, "line 1: ", id="broken JSON"),
        pytest.param("[1, 2]", Model.LOG, "line 1: no map with type, f and process", id="no maps"),
        pytest.param(
            events((0, "invoke", "enqueue", 1)), Model.LOG, "a log has append, read, tail, but not 'enqueue'", id="f"
        ),
        pytest.param(events((0, "ok", "append", 1)), Model.LOG, "which invoked nothing", id="no invocation"),
        pytest.param(events((0, "what", "append", 1)), Model.LOG, "type is 'what'", id="type"),
        pytest.param('{"process": 0, "type": ["ok"], "f": 1}', Model.LOG, "type is ", id="a list for a type"),
        pytest.param(events((2**31, "invoke", "append", 1)), Model.LOG, "line 1: process 2147483648 or", id="process"),
        pytest.param(
            '{"process": 0, "type": "invoke", "f": "tail", "time": 4611686018427387904}',
            Model.LOG,
            "line 1: process 0 or time 4611686018427387904 is out of range",
            id="time",
        ),
        *(
            pytest.param(
                make_pair([1, 2], [1, 2], put) + "\n" + make_pair(None, [[1, 2], [3, 4]], take),
                model,
                rf"line 3: \[key nil\] expected, not nil: the values before it are \[key value\], those of several {noun}s",
                id=f"pairs in a {noun}",
            )
            for model, noun, put, take in (
                (Model.REGISTER, "register", "write", "read"),
                (Model.SET, "set", "add", "read"),
                (Model.FIFO_QUEUE, "queue", "enqueue", "drain"),
            )
        ),
        pytest.param(
            '{"process": "1", "type": "invoke", "f": "tail"}\n{"process": "1", "type": "ok", "f": "tail", "value": 0}',
            Model.LOG,
            "line 2: ok of 'tail' by process '1', which is no whole number",
            id="a client that is no number",
        ),
        pytest.param(events((0, "invoke", "txn", [5])), Model.KEY_VALUE, r"line 1: a transaction of one \[f", id="txn"),
        pytest.param(
            events((0, "invoke", "txn", [{"f": "r", "k": 1, "v": None}])),
            Model.KEY_VALUE,
            r"line 1: a transaction of one \[f",
            id="a txn of maps",
        ),
        pytest.param(
            events((0, "invoke", "append", 1), (0, "ok", "append", 1)),
            Model.LOG,
            r"line 1: \[offset value\] expected, not 1",
            id="append without a place",
        ),
        pytest.param(
            events((0, "invoke", "tail", None), (0, "ok", "tail", -1)),
            Model.LOG,
            "line 1: an offset expected, not -1",
            id="offset",
        ),
    ],
)
def test_what_does_not_fit_is_refused_with_its_place(tmp_path: Path, text: str, model: Model, reason: str) -> None:
    with pytest.raises(UnreadableHistory, match=reason):
        read(tmp_path / "history.json", text, model)


@pytest.mark.parametrize(
    ("value", "text", "found"),
    [
        pytest.param("a b", '"a b"', "a b", id="string"),
        pytest.param("Äpfel", '"Äpfel"', "Äpfel", id="letters of other languages"),
        pytest.param("\ud800", '"\\ud800"', "\ud800", id="half a character"),
        pytest.param(str(NAMED_FROM), f'"{NAMED_FROM}"', str(NAMED_FROM), id="string that looks like a number of ours"),
        pytest.param(-5, "-5", -5, id="negative"),
        pytest.param(NAMED_FROM, str(NAMED_FROM), NAMED_FROM, id="large"),
        pytest.param(1.5, "1.5", 1.5, id="fraction"),
        pytest.param(float("nan"), "##NaN", "##NaN", id="no number"),
        pytest.param(float("-inf"), "##-Inf", "##-Inf", id="infinite"),
        pytest.param((1, "a"), '[1 "a"]', '[1 "a"]', id="vector"),
        pytest.param({(1, 2): 3}, "{(1, 2): 3}", "{(1, 2): 3}", id="map with a vector for a key"),
        pytest.param(7, "7", 7, id="a number stays what it is"),
    ],
)
def test_a_value_is_told_as_it_was_given(value: Any, text: str, found: Any) -> None:
    names = Names()
    names.of("another")
    number = names.of(value)
    assert names.of(value) == number
    assert names.in_words(f"offset 0 holds {number}, then {number}") == f"offset 0 holds {text}, then {text}"
    assert names.in_json({"a": [number, None, 0.5, True]}) == {"a": [found, None, 0.5, True]}
    json.dumps(names.in_json([number]))
    assert names.in_words(f"{NAMED_FROM + 2}, {number}1") == f"{NAMED_FROM + 2}, {number}1", "not a number of ours"
