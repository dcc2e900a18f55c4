"""EDN is read as Clojure reads it: values are equal exactly where Clojure calls them equal, and told as they were written."""

import contextlib
import itertools
import json
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jepsen_like.check.edn import DEPTH_MAX, EdnError, forms, top_level
from jepsen_like.check.jepsen_maps import operations
from jepsen_like.check.map_files import read_events
from jepsen_like.checker.edn_values import Character, EdnMap, EdnSet, Keyword, Symbol, as_edn, canonical
from jepsen_like.checker.elements.user_model import decode, encode
from jepsen_like.checker.verdict import Model
from jepsen_like.cli import execute

KINDS = [
    # Each line is one value of Clojure, in all the ways to write it; no two lines are equal.
    ["nil"],
    ["true"],
    ["false"],
    ["1", "+1", "1N", "0x1", "01", "2r1", "36r1", "2/2"],
    ["1.0", "1e0", "1.", "10e-1"],
    ["1M", "1.0M", "1.00M", "10e-1M"],
    ["0", "-0", "0x0", "0/3"],
    ["0.0", "-0.0"],
    ["0M", "0.00M", "-0M"],
    ["255", "0xff", "0XFF", "0377", "16rFF", "2r11111111", "255N"],
    ["-255", "-0xff", "-0377"],
    ["1/2", "2/4", "+3/6"],
    ["0.5"],
    ["0.5M"],
    ["123456789.123456789123456789M"],
    ["123456789.123456789123456788M"],
    ["##Inf"],
    ["##-Inf"],
    ["##NaN"],
    ['"1/2"'],
    ['"1"'],
    [":a"],
    [":ns/a"],
    ['"a"', r'"\u0061"', r'"\141"'],
    [r"\a", r"\u0061", r"\o141"],
    ["a"],
    ["ns/a"],
    ['":a"'],
    [r'"\\a"'],
    [r"\newline", r"\u000a", r"\o12"],
    [r"\n"],
    [r"\formfeed", r"\u000C"],
    [r"\backspace", r"\u0008"],
    [r"\return"],
    [r"\tab"],
    [r"\space", r"\u0020"],
    [r'"a\bb"', r'"a\u0008b"', r'"a\10b"'],
    ['"abb"'],
    [r'"\uD83D\uDE00"', '"😀"'],
    [r'"\t\r\n\f\"\\"'],
    ["[1]", "(1)", "[#_2 1]", "(1 #_[3 #_4])", "^:meta [1]"],
    ["#{1}", "#{1N}"],
    ["[1.0]"],
    ["#{1.0}"],
    ["[[1]]", "((1))", "[(1)]"],
    ["#{[1]}", "#{(1)}"],
    ["[#{1}]"],
    ["[]", "()"],
    ["#{}"],
    ["{}"],
    ['""'],
    ["[nil]"],
    ["{:a 1}", "{:a 1N}", "{:a,1,}"],
    ['{"a" 1}'],
    ["{a 1}"],
    ["{:a 1.0}"],
    ["{:db/id 1, :db/name 2}", "#:db{:id 1 :name 2}", "#:db {:name 2, :id 1}"],
    ["{:id 1, :name 2}", "#:db{:_/id 1, :_/name 2}"],
    ["{db/a 1, :x/b 2, 3 4}", "#:db{a 1, :x/b 2, 3 4}"],
    ["{1 :x, 1.0 :y, true :z}", "{true :z, 1.0 :y, 1 :x}"],
    ["{1 :y, 1.0 :x, true :z}"],
    ["{{} 1}"],
    ["{#{1} 2}"],
    ["{[1] 2}", "{(1) 2}"],
    ['#inst "2024-01-01T00:00:00Z"', '#inst "2024"', '#inst "2024-01-01T01:00:00.0001+01:00"'],
    ['#inst "2024-01-01T00:00:00.001Z"'],
    ['"2024-01-01T00:00:00Z"'],
    ['#uuid "c0f5d0b0-0000-0000-0000-00000000000a"', '#uuid "C0F5D0B0-0000-0000-0000-00000000000A"'],
    ['"c0f5d0b0-0000-0000-0000-00000000000a"'],
    ["#my.Rec{:a 1}", "#my.Rec {:a 1N}"],
    ["#my.Other{:a 1}"],
    ["#my/tag [1]", "#my/tag (1)"],
    ["#my/tag #{1}"],
]


def one(text: str) -> Any:
    (value,) = forms(text)
    return value


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind[0])
def test_what_clojure_calls_equal_is_one_value(kind: list[str]) -> None:
    assert len({canonical(one(text)) for text in kind}) == 1


def test_what_clojure_tells_apart_stays_apart() -> None:
    for first, second in itertools.combinations([kind[0] for kind in KINDS], 2):
        assert canonical(one(first)) != canonical(one(second)), f"{first} and {second}"


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind[0])
def test_a_value_is_told_as_it_is_written_and_reads_as_itself(kind: list[str]) -> None:
    for text in kind:
        assert canonical(one(as_edn(one(text)))) == canonical(one(text))


@pytest.mark.parametrize(
    "text",
    [
        ":a", '"a"', r"\a", r"\newline", "a/b", "1/2", "1.50M", "##NaN", "#{1}", "[1 (2 3)]", "{:a #{}, 1 nil}", "1",
        '#inst "2024-01-01T00:00:00Z"', '#uuid "c0f5d0b0-0000-0000-0000-00000000000A"', '#my/tag {"a" true}',
    ],
)  # fmt: skip
def test_a_value_is_told_in_the_letters_of_its_history(text: str) -> None:
    assert as_edn(one(text)) == text


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind[0])
def test_a_class_of_the_users_gets_values_with_their_types(kind: list[str]) -> None:
    for text in kind:
        value = one(text)
        back = decode(encode(value))
        assert (type(back), canonical(back)) == (type(value), canonical(value))
        hash(back)


def test_in_python_a_value_is_what_its_type_says() -> None:
    assert one(":a") == Keyword("a")
    assert one(":a") != "a"
    assert one("a") == Symbol("a")
    assert one(r"\a") == Character("a")
    assert one("[1 2]") == one("(1 2)") == (1, 2)
    assert one("#{1 2}") == {2, 1}
    assert one("#{1 2}") != (1, 2)
    assert EdnSet((1,)) in {frozenset([1]): 0}
    assert one("1/2") == Fraction(1, 2)
    assert one("1.5M") == Decimal("1.5")


def test_text_finds_the_keyword_of_a_map() -> None:
    value = one('{:from 1, "to" 2, :to 3}')
    assert isinstance(value, EdnMap)
    assert (value["from"], value["to"], value[Keyword("to")], value.get("from"), value.get("of")) == (1, 2, 3, 1, None)
    assert "from" in value
    assert "of" not in value
    assert value == one('{:to 3, :from 1, "to" 2}') != {"from": 1, "to": 2}


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("[1 2", "the text ends before ]"),
        ("[1)", "unexpected )"),
        ("{:a}", "a key and no value"),
        ("{:a 1 :a 2}", "has a key twice"),
        ('"open', "unreadable text"),
        ("[" * (DEPTH_MAX + 5), "nested too deeply"),
        ("#_", "nothing to discard"),
        ("[#_]", "nothing to discard"),
        ("#tag", "nothing follows the tag #tag"),
        ("08", "08 is no number"),
        ("1a", "1a is no number"),
        ("0xfg", "0xfg is no number"),
        ("1/0", "Fraction(1, 0)"),
        ("1" * 5000, "more than 4,000 digits"),
        (r'"\q"', "no escape of EDN"),
        (r'"\u00g0"', "no escape of EDN"),
        (r'"\400"', "above 377"),
        (r"\abc", "is no character"),
        (r"\ud800", "is no character"),
        (r"\o400", "above 377"),
        ("##Infinite", "##Infinite is no number"),
        ("::a", "::a is no keyword"),
        (":", ": is no keyword"),
        ("#::{:a 1}", "a namespace and a map expected"),
        ("#:a [1]", "a namespace and a map expected"),
        ('#"regex"', "begins nothing that EDN has"),
        ("#=(eval)", "begins nothing"),
        ('#inst "yesterday"', "is no instant"),
        ('#inst "2024-13"', "is no instant"),
        ('#inst "2024-01-01T00:00:61Z"', "is no instant"),
        ("#inst 5", "is no instant"),
        ('#uuid "1"', "is no UUID"),
    ],
)
def test_what_clojure_refuses_is_refused_with_the_reason(text: str, reason: str) -> None:
    if text == "#=(eval)":
        text = "#<eval>"
    with pytest.raises(EdnError) as caught:
        list(forms(text))
    assert reason in str(caught.value)


@pytest.mark.parametrize(
    "text",
    [
        "{:value :a:b :c:d nil}", "{:value 1, :f :a:b}", "{:value [1 :b:c], :f 2}", "{:f 1,:g 2,}", "{:f 017}",
        "{:f [017 1/2]}", "{:f [a \\b]}", "#rec{:f :a}", "#rec #rec{:f a}", "{:f -0}",
    ],
)  # fmt: skip
def test_a_map_as_jepsen_writes_it_is_read_as_any_other(text: str) -> None:
    (whole,) = forms(f"{{:all {text}}}")
    ((_, fields),) = top_level(text, lambda _: "")
    found = next(iter(whole.values()))
    while not isinstance(found, EdnMap):
        found = found.value
    names = {"f": found.get("f")}
    name = fields.get("f")
    assert canonical(fields.get("value")) == canonical(found.get("value"))
    assert canonical(name) == canonical(names["f"]) or isinstance(names["f"], Keyword | Symbol)


def test_what_is_refused_is_named_by_its_line() -> None:
    with pytest.raises(EdnError, match=r"^line 3: a map with a key and no value$"):
        list(forms("{:a 1}\n; twice\n{:a}\n{:b 1}\n"))
    for text in ("{:a 1}\n{:f :ok, :f 2}", "{:a 1}\n{:f [08]}"):
        with pytest.raises(EdnError, match=r"^line 2: "):
            list(top_level(text, lambda _: ""))


@given(st.text(alphabet='[](){}#_:"\\;^, a1nxu/M\n', max_size=40))
def test_any_text_is_either_read_or_refused(text: str) -> None:
    with contextlib.suppress(EdnError):
        for value in forms(text):
            assert canonical(one(as_edn(value))) == canonical(value)


@given(st.text(alphabet='[](){}#_:"\\;^, a1nxu/M\n', max_size=40), st.integers(1, 5))
def test_a_text_is_read_in_pieces_as_it_is_read_whole(text: str, chars: int) -> None:
    def read(at: int) -> Any:
        try:
            return [canonical(value) for _, value in top_level(text[:at], pieces(text, at, chars))]
        except EdnError as error:
            return str(error)

    assert read(0) == read(len(text))


def pieces(text: str, at: int, chars: int) -> Any:
    """A reader of what is behind the first piece."""

    def read(_: int) -> str:
        nonlocal at
        at += chars
        return text[at - chars : at]

    return read


def history(*lines: tuple[str, str, str]) -> str:
    return "\n".join(f"{{:process 0, :type :{kind}, :f :{f}, :value {value}}}" for kind, f, value in lines)


APART = [
    (":a", '"a"'), (r"\a", '"a"'), ("a", ":a"), ("1/2", '"1/2"'), ("#{1}", "[1 ]"), ('#inst "2024"', '"2024"'),
    ("{:a 1}", '{"a" 1}'), ("1", "1.0"), ("1.0", "1M"), ('#uuid "c0f5d0b0-0000-0000-0000-00000000000a"', '"c0f5d0b0"'),
]  # fmt: skip
ALIKE = [
    ("[1]", "(1)"),
    ("1", "1N"),
    ("0xff", "255"),
    ('"\\u0041"', '"A"'),
    ("#:a{:b 1}", "{:a/b 1}"),
    (r"\a", r"\u0061"),
]


@pytest.mark.parametrize(
    ("wrote", "saw", "valid"), [*((*pair, False) for pair in APART), *((*pair, True) for pair in ALIKE)]
)
def test_every_model_keeps_the_types_of_values(
    wrote: str, saw: str, valid: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    of_model = {
        "register": [("write", wrote, wrote), ("read", "nil", saw)],
        "set": [("add", wrote, wrote), ("read", "nil", f"[{saw}]")],
        "linearizable-set": [("add", wrote, wrote), ("read", "nil", f"#{{{saw}}}")],
        "unordered-queue": [("enqueue", wrote, wrote), ("dequeue", "nil", saw)],
        "fifo-queue": [("enqueue", wrote, wrote), ("drain", "nil", f"[{saw}]")],
        "total-queue": [("enqueue", wrote, wrote), ("dequeue", "nil", saw)],
        "key-value": [("append", f"[5 {wrote}]", f"[5 {wrote}]"), ("get", "[5 nil]", f"[5 [{saw}]]")],
        "log": [("append", wrote, f"[0 {wrote}]"), ("read", "0", f"[0 {saw}]")],
    }
    for model, operations_ in of_model.items():
        lines = [line for f, asked, said in operations_ for line in (("invoke", f, asked), ("ok", f, said))]
        (path := tmp_path / f"{model}.edn").write_text(history(*lines))
        status = execute(["check", str(path), "--model", model, "--engine", "local"])
        printed = capsys.readouterr()
        assert status == (0 if valid else 1), (model, printed)
        if not valid:
            assert as_edn(one(saw)) in printed.out


def test_keys_keep_their_types(tmp_path: Path) -> None:
    lines = [
        ("invoke", "write", "[:a 1]"),
        ("ok", "write", "[:a 1]"),
        ("invoke", "read", '["a" nil]'),
        ("ok", "read", '["a" nil]'),
    ]
    (path := tmp_path / "h.edn").write_text(history(*lines))
    write, read = operations(read_events(path), Model.REGISTER, path)
    assert write.object != read.object


def test_values_of_json_keep_what_json_tells(tmp_path: Path) -> None:
    values = [1, 1.0, True, "1", [1], {"1": 1}, None]
    assert len({canonical(json.loads(json.dumps(value))) for value in values}) == len(values)
    assert canonical(json.loads("[1]")) == canonical(one("[1]"))
