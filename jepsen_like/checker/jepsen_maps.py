"""Turns a history of Jepsen's operation maps, as JSON lines or EDN, into a history of ours.

A map is one event: `{type: invoke|ok|fail|info, f, value, process, time, index}`. An invocation and the next event of the
same process are one operation; without a second event its outcome is unknown. The order of the file is the order of the
events. Events of processes that are not numbers (`nemesis`) are skipped.

    register   write v -> ok    read -> ok v (null: never written)    cas [old new] -> ok
               with several registers every value is [key value], cas values [key [old new]]
    log        append v -> ok [offset v]    read -> ok [offset v] (v null: nothing there yet), or several such pairs
               tail -> ok n

What Jepsen cannot have written is refused with the number of its map in the file: a process that invokes while it waits, an
end of another `f` or before its beginning, an `ok` of a write, a cas or an append with another value than was sent, an index
that two maps have. The `ok` of a write or a cas may carry nothing, and what a `fail` or `info` carries is ignored.

Values that are no non-negative integers are numbered from `NAMED_FROM` on; `Names` tells them again as they were given. A
`cas` that failed without an `error` saw another value than it expected, though Jepsen does not record which; one that
failed with an `error` proves nothing about the value.
"""

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import attrs

from jepsen_like.checker.edn import EdnError, forms
from jepsen_like.checker.verdict import Model
from jepsen_like.history.files import UnreadableHistory
from jepsen_like.history.ops import NEVER, NONE, Action, ErrorCode, Op, Outcome

NAMED_FROM: Final = 2**61
PROCESS_END: Final = 2**31
_NAMED: Final = re.compile(r"\b\d{19}\b")
OUTCOMES: Final = {"ok": Outcome.OK, "fail": Outcome.FAIL, "info": Outcome.INFO}
ACTIONS: Final = {
    Model.REGISTER: {"write": Action.WRITE, "read": Action.READ, "cas": Action.CAS},
    Model.LOG: {"append": Action.APPEND, "read": Action.READ, "tail": Action.TAIL},
}


def read_events(path: Path) -> list[Mapping[str, Any]]:
    """Returns the maps in a file. Raises `UnreadableHistory` if it holds something else."""
    try:
        text = path.read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise UnreadableHistory(path, str(error)) from error
    found: list[Any] = []
    try:
        found = list(forms(text)) if _is_edn(path, text) else list(_json_values(text))
    except (EdnError, ValueError, RecursionError) as error:
        raise UnreadableHistory(path, f"neither JSON lines nor EDN of operation maps: {error}") from error
    if len(found) == 1 and isinstance(found[0], list | tuple):
        found = list(found[0])
    for number, one in enumerate(found, start=1):
        if not isinstance(one, dict) or not {"type", "f", "process"} <= set(one):
            raise UnreadableHistory(path, f"item {number} is no map with type, f and process")
    return found


def _is_edn(path: Path, text: str) -> bool:
    if path.suffix in (".edn", ".json", ".jsonl"):
        return path.suffix == ".edn"
    head = text[:1000].lstrip("[ \t\r\n")
    return head.startswith((";", "#", "{:"))


def _json_values(text: str) -> Iterator[Any]:
    if text.lstrip().startswith("["):
        yield json.loads(text)
        return
    for number, line in enumerate(text.splitlines(), start=1):
        if line.strip():
            try:
                yield json.loads(line)
            except json.JSONDecodeError as error:
                raise ValueError(f"line {number}: {error.msg} at column {error.colno}") from error


class Names:
    """Values as numbers: non-negative integers as they are, None as `NONE`, others in the order they appear; and back."""

    def __init__(self) -> None:
        self._named: dict[str, int] = {}
        self._values: list[Any] = []

    def of(self, value: Any) -> int:
        """Returns the number of a value, a new one for a value that is not known."""
        if value is None:
            return NONE
        if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < NAMED_FROM:
            return value
        number = self._named.setdefault(repr(value), NAMED_FROM + len(self._named))
        if number == NAMED_FROM + len(self._values):
            self._values.append(value)
        return number

    def in_words(self, sentence: str) -> str:
        """Returns a sentence of the checker, with the values in it as they were given, strings in quotation marks."""
        return _NAMED.sub(lambda number: _text(self._given(int(number[0]))), sentence)

    def in_json(self, found: Any) -> Any:
        """Returns what the checker found (mappings, lists, sentences, numbers), with its values as they were given."""
        match found:
            case str():
                return self.in_words(found)
            case dict():
                return {key: self.in_json(each) for key, each in found.items()}
            case list():
                return [self.in_json(each) for each in found]
            case int():
                given = self._given(found)
                return given if isinstance(given, str | int | float) else _text(given)
            case _:
                return found

    def _given(self, number: int) -> Any:
        # Nothing else that a checker tells of a history of maps is as large: offsets are refused from there on.
        named = 0 <= number - NAMED_FROM < len(self._values)
        return self._values[number - NAMED_FROM] if named else number


def _text(value: Any) -> str:
    try:
        # JSON can hold halves of characters, which no terminal takes.
        return json.dumps(value, ensure_ascii=False).encode(errors="backslashreplace").decode()
    except TypeError:  # EDN has maps whose keys are vectors
        return repr(value)


@attrs.define
class BadOperation(ValueError):
    """An operation that does not say what its model needs."""

    number: int
    reason: str

    def __str__(self) -> str:
        return f"operation {self.number}: {self.reason}"


@attrs.frozen
class _Attempt:
    """An invocation with what came back."""

    number: int
    f: Action
    outcome: Outcome
    asked: Any
    answered: Any
    process: int
    t_inv: int
    t_ret: int
    err: ErrorCode

    @property
    def value(self) -> Any:
        """Returns what came back if it happened; what was asked where nothing did."""
        answers = self.outcome is Outcome.OK or self.asked is None
        return self.answered if answers and self.answered is not None else self.asked


def operations(
    events: Sequence[Mapping[str, Any]], model: Model, path: Path, names: Names | None = None
) -> Iterator[Op]:
    """Returns the operations that the events describe. Raises `UnreadableHistory` if one does not fit the model.

    `names` gets to know which numbers stand for values that are none.
    """
    _refuse_same_index(events, path)
    attempts = list(_attempts(events, model, path))
    names = names if names is not None else Names()
    try:
        match model:
            case Model.REGISTER:
                keyed = any(one.f is not Action.CAS and _is_pair(one.value) for one in attempts)
                for one in attempts:
                    yield _register_op(one, names, keyed=keyed)
            case Model.LOG:
                for one in attempts:
                    yield from _log_ops(one, names)
            case Model.QUEUE:
                raise UnreadableHistory(
                    path, "a queue is checked from a history of ours (Parquet), not from operation maps"
                )
    except BadOperation as error:
        raise UnreadableHistory(path, str(error)) from error


def _refuse_same_index(events: Iterable[Mapping[str, Any]], path: Path) -> None:
    items: dict[int, int] = {}
    for number, event in enumerate(events, start=1):
        index = event.get("index")
        # Jepsen numbers from 0; -1 means that the map was given no index.
        if isinstance(index, int) and index >= 0 and (first := items.setdefault(index, number)) != number:
            raise UnreadableHistory(path, f"item {number}: its index {index} is that of item {first}, too")


def _attempts(events: Iterable[Mapping[str, Any]], model: Model, path: Path) -> Iterator[_Attempt]:
    running: dict[int, tuple[int, Mapping[str, Any], int]] = {}
    now = -1
    for number, event in enumerate(events, start=1):
        process = event["process"]
        if not isinstance(process, int):
            continue
        time = event.get("time")
        # Events in one nanosecond still happened in the order of the file.
        now = max(now + 1, time if isinstance(time, int) else 0)
        if not (-PROCESS_END <= process < PROCESS_END and now < NEVER):
            raise UnreadableHistory(path, f"item {number}: process {process} or time {time} is out of range")
        begun = running.pop(process, None)
        if event["type"] == "invoke":
            if begun is not None:
                raise UnreadableHistory(
                    path,
                    f"item {number}: process {process} invokes, but what it invoked in item {begun[0]} has not ended",
                )
            running[process] = (number, event, now)
        elif str(event["type"]) not in OUTCOMES:
            raise UnreadableHistory(path, f"item {number}: type is {event['type']!r}, not invoke, ok, fail or info")
        elif begun is not None:
            _refuse_misfit(begun[1], event, f"item {number}", f"item {begun[0]}", path)
            yield _attempt(begun, event, process, now, model, path)
        elif event["type"] != "info":
            raise UnreadableHistory(path, f"item {number}: {event['type']} of process {process}, which invoked nothing")
    for process, begun in running.items():
        yield _attempt(begun, None, process, now, model, path)


def _refuse_misfit(
    begin: Mapping[str, Any], end: Mapping[str, Any], end_item: str, begin_item: str, path: Path
) -> None:
    if end["f"] != begin["f"]:
        raise UnreadableHistory(
            path, f"{end_item}: {end['type']} of {end['f']!r}, but {begin_item} had invoked {begin['f']!r}"
        )
    times = begin.get("time"), end.get("time")
    if isinstance(times[0], int) and isinstance(times[1], int) and times[1] < times[0]:
        raise UnreadableHistory(
            path, f"{end_item}: its time {times[1]} lies before {times[0]}, that of its invocation in {begin_item}"
        )


def _attempt(
    begun: tuple[int, Mapping[str, Any], int],
    event: Mapping[str, Any] | None,
    process: int,
    now: int,
    model: Model,
    path: Path,
) -> _Attempt:
    number, invocation, t_inv = begun
    action = ACTIONS[model].get(str(invocation["f"]))
    if action is None:
        known = ", ".join(ACTIONS[model])
        raise UnreadableHistory(path, f"item {number}: a {model.value} has {known}, but not {invocation['f']!r}")
    outcome = Outcome.INFO if event is None else OUTCOMES[str(event["type"])]
    return _Attempt(
        number,
        action,
        outcome,
        invocation.get("value"),
        None if event is None else event.get("value"),
        process,
        t_inv,
        NEVER if outcome is Outcome.INFO else now,
        ErrorCode.OTHER if event is not None and event.get("error") is not None else ErrorCode.NONE,
    )


def _is_pair(value: Any) -> bool:
    return isinstance(value, list | tuple) and len(value) == 2


def _pair(one: _Attempt, value: Any, what: str) -> tuple[Any, Any]:
    if not _is_pair(value):
        raise BadOperation(one.number, f"{what} expected, not {value!r}")
    return value[0], value[1]


def _place(one: _Attempt, value: Any, *, keyed: bool) -> tuple[Any, Any]:
    return _pair(one, value, "[key value]") if keyed else (0, value)


def _sent(one: _Attempt, asked: Any, answered: Any) -> Any:
    if asked is None:
        raise BadOperation(one.number, f"{one.f.name.lower()} without a value")
    if answered is not None and answered != asked:
        raise BadOperation(one.number, f"{one.f.name.lower()} of {asked!r}, but its ok has {answered!r}")
    return asked


def _register_op(one: _Attempt, names: Names, *, keyed: bool) -> Op:
    key, value = _place(one, one.value, keyed=keyed)
    if one.f is not Action.READ or _is_pair(one.asked):
        asked_key, asked = _place(one, one.asked, keyed=keyed)
        if key != asked_key:
            raise BadOperation(one.number, f"invoked with the key {asked_key!r}, but its ok has {key!r}")
        value = value if one.f is Action.READ else _sent(one, asked, value)
    common: dict[str, Any] = {
        "f": one.f, "type": one.outcome, "t_inv": one.t_inv, "t_ret": one.t_ret, "process": one.process,
        "object": names.of(key), "err": one.err,
    }  # fmt: skip
    if one.f is not Action.CAS:
        return Op(**common, a=names.of(value))
    old, new = (names.of(each) for each in _pair(one, value, "[old new]"))
    return Op(**common, a=old, b=new, seen=old if one.outcome is Outcome.OK else NONE)


def _log_ops(one: _Attempt, names: Names) -> Iterator[Op]:
    common: dict[str, Any] = {
        "f": one.f, "type": one.outcome, "t_inv": one.t_inv, "t_ret": one.t_ret, "process": one.process,
    }  # fmt: skip
    ok = one.outcome is Outcome.OK
    match one.f:
        case Action.APPEND if not ok:
            yield Op(**common, a=names.of(_sent(one, one.asked, None)))
        case Action.APPEND:
            offset, value = _pair(one, one.answered, "[offset value]")
            yield Op(**common, a=names.of(_sent(one, one.asked, value)), offset=_offset(one, offset))
        case Action.TAIL:
            yield Op(**common, offset=_offset(one, one.answered) if ok else NONE)
        case _ if ok:
            several = isinstance(one.answered, list | tuple) and all(_is_pair(each) for each in one.answered)
            for each in one.answered if several else [one.answered]:
                offset, value = _pair(one, each, "[offset value]")
                yield Op(**common, a=names.of(value), offset=_offset(one, offset))
        case _:
            yield Op(**common)


def _offset(one: _Attempt, offset: Any) -> int:
    if not isinstance(offset, int) or isinstance(offset, bool) or not 0 <= offset < NAMED_FROM:
        raise BadOperation(one.number, f"an offset expected, not {offset!r}")
    return offset
