"""Turns Jepsen's operation maps, one after the other, into operations of a history of ours.

A map is one event: `{type: invoke|ok|fail|info, f, value, process, time, index}`. An invocation and the next event of the
same process are one operation; without a second event its outcome is unknown. The order of the file is the order of the
events. Events of processes that are not numbers (`nemesis`) are skipped, unless they are ends of what clients do. Only what is under way is kept: what has ended
is handed on.

    register      write v -> ok    read -> ok v (null: never written)    cas [old new] -> ok
    log           append v -> ok [offset v]    read -> ok [offset v] (v null: nothing there yet), or several such pairs
                  tail -> ok n
    queues        enqueue v -> ok    dequeue -> ok v (null, or fail with the error empty or exhausted: it was empty)
                  drain -> ok [v ...]
    sets          add v -> ok    read -> ok [v ...]
    key-value     append [k v] -> ok    put [k v] or [k [v ...]] -> ok    get [k null] -> ok [k [v ...]]
                  (also read, write, and a txn of one append or r, as in Elle's list-append)

Of several registers, queues or sets every value is [key value]: the first value that tells decides for all.

What Jepsen cannot have written is refused with its line: a process that invokes while it waits, an end of another `f` or
before its beginning, an `ok` of a change with another value than was sent, an index that is not above all before it. The
`ok` of a change may carry nothing, and what a `fail` or `info` carries is ignored, but for the errors above.

Values that are no non-negative integers are numbered from `NAMED_FROM` on; `Names` tells them again as they were given. A
`cas` that failed without an `error` saw another value than it expected, though Jepsen does not record which; one that
failed with an `error` proves nothing about the value.
"""

import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

import attrs

from jepsen_like.check.map_files import Event
from jepsen_like.checker.edn_values import EdnSet, bare, canonical, cut, name_of, quote, text_of
from jepsen_like.checker.verdict import QUEUES_OF_ELEMENTS, SETS, Model
from jepsen_like.history.files import UnreadableHistory
from jepsen_like.history.ops import NEVER, NONE, Action, ErrorCode, ListOp, Op, Outcome

NAMED_FROM: Final = 2**61
PROCESS_END: Final = 2**31
TOO_DEEP: Final = "has a value that is nested too deeply"
_NAMED: Final = re.compile(r"\b\d{19}\b")
_PROCESS: Final = re.compile(r"\bprocess (\d+)\b")
OUTCOMES: Final = {"ok": Outcome.OK, "fail": Outcome.FAIL, "info": Outcome.INFO}
FOUND_EMPTY: Final = ("empty", "exhausted")
"""Errors of a dequeue that failed because nothing was there."""
PARTS: Final = MappingProxyType({"drain": "dequeue"})
"""A client that drains a queue may record each dequeue that this takes, as that of Jepsen's test of Disque does."""
_SET: Final = {"add": Action.ADD, "read": Action.READ}
_QUEUE: Final = {"enqueue": Action.ENQUEUE, "dequeue": Action.DEQUEUE, "drain": Action.DRAIN}
ACTIONS: Final[Mapping[Model, Mapping[str, Action]]] = {
    Model.REGISTER: {"write": Action.WRITE, "read": Action.READ, "cas": Action.CAS},
    Model.LOG: {"append": Action.APPEND, "read": Action.READ, "tail": Action.TAIL},
    **dict.fromkeys(QUEUES_OF_ELEMENTS, _QUEUE),
    **dict.fromkeys(SETS, _SET),
    Model.KEY_VALUE: {
        "append": Action.APPEND, "put": Action.WRITE, "get": Action.READ,
        "write": Action.WRITE, "read": Action.READ, "r": Action.READ, "txn": Action.CALL,
    },
}  # fmt: skip


class Names:
    """Values as numbers: non-negative integers as they are, None as `NONE`, others in the order they appear; and back."""

    def __init__(self) -> None:
        self._named: dict[str, int] = {}
        self._values: list[Any] = []
        self._processes: dict[str, int] = {}

    def of(self, value: Any) -> int:
        """Returns the number of a value, a new one for a value that is not known."""
        return NONE if value is None else self.element(value)

    def element(self, value: Any) -> int:
        """Returns the number of an element, which may be None like any other."""
        if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < NAMED_FROM:
            return value
        number = self._named.setdefault(canonical(value), NAMED_FROM + len(self._named))
        if number == NAMED_FROM + len(self._values):
            self._values.append(value)
        return number

    def process(self, name: Any) -> int:
        """Returns the number of a process that has a name, counted from 0."""
        return self._processes.setdefault(text_of(name), len(self._processes))

    def in_words(self, sentence: str) -> str:
        """Returns a sentence of the checker, with the values in it as they were given, strings in quotation marks."""
        told = _NAMED.sub(lambda number: cut(text_of(self._value_of(int(number[0])))), sentence)
        if not self._processes:
            return told
        called = list(self._processes)
        return _PROCESS.sub(lambda number: f"process {cut(called[int(number[1])])}", told)

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
                given = self._value_of(found)
                is_plain = math.isfinite(given) if isinstance(given, float) else isinstance(given, str | int)
                return given if is_plain else text_of(given)
            case _:
                return found

    def _value_of(self, number: int) -> Any:
        # Nothing else that a checker tells of a history of maps is as large: offsets are refused from there on.
        named = 0 <= number - NAMED_FROM < len(self._values)
        return self._values[number - NAMED_FROM] if named else number


@attrs.frozen
class MapAttempt:
    """An invocation with what came back."""

    place: str
    f: str
    outcome: Outcome
    asked: Any
    answered: Any
    process: int
    t_inv: int
    t_ret: int
    error: Any = None
    end: Mapping[str, Any] = MappingProxyType({})
    """All fields of the event that ended it."""

    @property
    def value(self) -> Any:
        """Returns what came back if it happened; what was asked where nothing did."""
        answers = self.outcome is Outcome.OK or self.asked is None
        return self.answered if answers and self.answered is not None else self.asked

    def op(self, f: Action, **fields: Any) -> dict[str, Any]:
        """Returns the fields of an operation that all models give it."""
        return {
            "f": f, "type": self.outcome, "t_inv": self.t_inv, "t_ret": self.t_ret, "process": self.process,
            "err": ErrorCode.NONE if self.error is None else ErrorCode.OTHER, **fields,
        }  # fmt: skip

    def refuse(self, reason: str) -> "BadOperation":
        """Returns the error that names this operation."""
        return BadOperation(self.place, reason)


@attrs.define
class BadOperation(ValueError):
    """An operation that does not say what its model needs."""

    place: str
    reason: str

    def __str__(self) -> str:
        return f"{self.place}: {self.reason}"


def attempts(
    events: Iterable[Event],
    path: Path,
    known: Mapping[str, Action] | None,
    noun: str,
    parts: Mapping[str, str] = MappingProxyType({}),
) -> Iterator[MapAttempt]:
    """Returns the operations of maps, as they end; those that never do last. Raises `UnreadableHistory`.

    `known` are the names of operations of a `noun`; None: all are. `parts` names what a process may do within another operation.
    """
    running: dict[int, tuple[Event, int]] = {}
    around: dict[int, tuple[Event, int]] = {}
    """The operation of each process that it does in parts. It is no operation itself: its parts show all that it did."""
    now = index = -1
    for event in events:
        process, time, kind = event.fields["process"], event.fields.get("time"), event.fields["type"]
        numbered = event.fields.get("index")
        for name, number in (("time", time), ("index", numbered)):
            if isinstance(number, float) and not math.isfinite(number):
                raise UnreadableHistory(path, f"{event.place}: its {name} is {number}, which is no moment")
        # Jepsen numbers from 0; -1 means that the map was given no index.
        if isinstance(numbered, int) and numbered >= 0:
            if numbered <= index:
                raise UnreadableHistory(path, f"{event.place}: its index {numbered} does not follow {index}")
            index = numbered
        if not isinstance(process, int):
            if kind in ("ok", "fail") and (_is_numeral(process) if known is None else str(event.fields["f"]) in known):
                raise UnreadableHistory(
                    path,
                    f"{event.place}: {kind} of {quote(event.fields['f'])} by process {quote(process)}, which is no whole number",
                )
            continue
        # Events in one nanosecond still happened in the order of the file.
        now = max(now + 1, time if isinstance(time, int) else 0)
        if not (-PROCESS_END <= process < PROCESS_END and now < NEVER):
            raise UnreadableHistory(path, f"{event.place}: process {process} or time {time} is out of range")
        begun = running.pop(process, None)
        if begun is None and kind != "invoke" and process in around:
            _refuse_misfit(around.pop(process)[0], event, path)
            continue
        if kind == "invoke":
            whole = begun or around.get(process)
            if whole is not None:
                is_part = parts.get(str(whole[0].fields["f"])) == event.fields["f"]
                if not is_part or (begun is not None and process in around):
                    raise UnreadableHistory(
                        path,
                        f"{event.place}: process {process} invokes, but what it invoked in {whole[0].place} has not ended",
                    )
                around[process] = whole
            if known is not None and str(event.fields["f"]) not in known:
                names = ", ".join(known)
                raise UnreadableHistory(
                    path, f"{event.place}: a {noun} has {names}, but not {quote(event.fields['f'])}; another --model?"
                )
            running[process] = (event, now)
        elif str(kind) not in OUTCOMES:
            raise UnreadableHistory(path, f"{event.place}: type is {quote(kind)}, not invoke, ok, fail or info")
        elif begun is not None:
            _refuse_misfit(begun[0], event, path)
            yield _attempt(begun, event, process, now)
        elif kind != "info":
            raise UnreadableHistory(path, f"{event.place}: {kind} of process {process}, which invoked nothing")
    for process, begun in running.items():
        yield _attempt(begun, None, process, now)


def _is_numeral(process: Any) -> bool:
    return isinstance(process, float) or (isinstance(process, str) and process.isdecimal())


def _refuse_misfit(begin: Event, end: Event, path: Path) -> None:
    if end.fields["f"] != begin.fields["f"]:
        f, invoked = end.fields["f"], begin.fields["f"]
        raise UnreadableHistory(
            path, f"{end.place}: {end.fields['type']} of {quote(f)}, but {begin.place} had invoked {quote(invoked)}"
        )
    times = begin.fields.get("time"), end.fields.get("time")
    if isinstance(times[0], int) and isinstance(times[1], int) and times[1] < times[0]:
        raise UnreadableHistory(
            path, f"{end.place}: its time {times[1]} lies before {times[0]}, that of its invocation in {begin.place}"
        )


def _attempt(begun: tuple[Event, int], event: Event | None, process: int, now: int) -> MapAttempt:
    invocation, t_inv = begun
    outcome = Outcome.INFO if event is None else OUTCOMES[str(event.fields["type"])]
    return MapAttempt(
        invocation.place,
        str(invocation.fields["f"]),
        outcome,
        invocation.fields.get("value"),
        None if event is None else event.fields.get("value"),
        process,
        t_inv,
        NEVER if outcome is Outcome.INFO else now,
        None if event is None else event.fields.get("error"),
        {} if event is None else event.fields,
    )


def operations(events: Iterable[Event], model: Model, path: Path, names: Names | None = None) -> Iterator[Op]:
    """Returns the operations that the events describe, those with several values as `ListOp`.

    `names` gets to know which numbers stand for values that are none. Raises `UnreadableHistory` if one does not fit the model.
    """
    if model not in ACTIONS:
        others = ", ".join(one.value for one in QUEUES_OF_ELEMENTS)
        raise UnreadableHistory(
            path,
            "partitions with producers and consumers are checked from a history of ours (Parquet), not from operation maps; "
            f"a queue of elements is one of --model {others}",
        )
    names = names if names is not None else Names()
    read: Callable[[MapAttempt], Iterable[Op]]
    match model:
        case Model.REGISTER:
            read = _Registers(names)
        case Model.LOG:
            read = _Log(names)
        case Model.SET | Model.LINEARIZABLE_SET:
            read = _Sets(names)
        case Model.KEY_VALUE:
            read = _KeyValues(names)
        case _:
            read = _Queues(names)
    try:
        parts = PARTS if model in QUEUES_OF_ELEMENTS else MappingProxyType({})
        for attempt in attempts(events, path, ACTIONS[model], model.value, parts):
            yield from read(attempt)
        if isinstance(read, _Registers):
            yield from read.rest()
    except BadOperation as error:
        raise UnreadableHistory(path, str(error)) from error
    except RecursionError as error:
        raise UnreadableHistory(path, TOO_DEEP) from error


def is_same(one: Any, other: Any) -> bool:
    """Returns whether two values are equal, as their language calls values equal."""
    return one is other or canonical(one) == canonical(other)


def is_pair(value: Any) -> bool:
    """Returns whether a value may be [key value]."""
    value = bare(value)
    return isinstance(value, list | tuple) and len(value) == 2 and not isinstance(value, EdnSet)


def _pair(one: MapAttempt, value: Any, what: str) -> tuple[Any, Any]:
    if not is_pair(value):
        raise one.refuse(f"{what} expected, not {quote(value)}")
    first, second = bare(value)
    return first, second


def _require_sent(one: MapAttempt, asked: Any, answered: Any) -> Any:
    if asked is None:
        raise one.refuse(f"{one.f} without a value")
    if one.outcome is Outcome.OK and answered is not None and not is_same(answered, asked):
        raise one.refuse(f"{one.f} of {quote(asked)}, but its ok has {quote(answered)}")
    return asked


class Keyed:
    """Of several objects every value is [key value]; whether there are several the first value that can tell decides.

    Then every invocation names its key. Where `keyed` is stated instead, an answer may be the first to do so.
    """

    noun = "object"

    def __init__(self, names: Names, *, keyed: bool | None = None) -> None:
        self.names = names
        self.keyed = keyed
        self.is_stated = keyed is not None

    def split(self, one: MapAttempt, tells: Any) -> tuple[Any, Any, Any]:
        """Returns the key (0 for a single object), what was asked and what was answered, without their key.

        `tells` is a value that is a pair if there are several. Raises `BadOperation`.
        """
        if self.keyed is None:
            self.keyed = is_pair(tells)
        if not self.keyed:
            return 0, one.asked, one.answered
        if one.asked is None and not self.is_stated:
            # Of a single object whose values are pairs an answer would name another object.
            raise one.refuse(
                f"[key nil] expected, not nil: the values before it are [key value], those of several {self.noun}s"
            )
        key, asked = _pair(one, one.asked if one.asked is not None else one.answered, "[key value]")
        came_back = one.answered is not None and one.outcome is Outcome.OK
        return key, None if one.asked is None and came_back else asked, _answer_of(one, key)


def _answer_of(one: MapAttempt, key: Any) -> Any:
    """Returns what was answered about a key; None for nothing. Raises `BadOperation` if it was about another one."""
    if one.answered is None or one.outcome is not Outcome.OK:
        return None
    answered_key, answered = _pair(one, one.answered, "[key value]")
    if not is_same(answered_key, key):
        raise one.refuse(f"invoked with the key {quote(key)}, but its ok has {quote(answered_key)}")
    return answered


class _Registers(Keyed):
    """Writes, reads and compare-and-sets; these wait until another operation has told whether there are several registers."""

    noun = "register"

    def __init__(self, names: Names) -> None:
        super().__init__(names)
        self._waiting: list[MapAttempt] = []

    def __call__(self, one: MapAttempt) -> Iterator[Op]:
        if self.keyed is None and one.f == "cas":
            self._waiting.append(one)
            return
        first = self.keyed is None
        found = self._op(one)
        if first:
            yield from self.rest()
        yield found

    def rest(self) -> Iterator[Op]:
        """Returns those that have waited."""
        waiting, self._waiting = self._waiting, []
        if self.keyed is None:
            self.keyed = False
        for attempt in waiting:
            yield self._op(attempt)

    def _op(self, one: MapAttempt) -> Op:
        action, names = ACTIONS[Model.REGISTER][one.f], self.names
        key, asked, answered = self.split(one, one.value)
        if action is not Action.READ:
            asked = _require_sent(one, asked, answered)
        fields = one.op(action, object=names.of(key))
        if action is not Action.CAS:
            value = asked if action is Action.WRITE else answered if one.outcome is Outcome.OK else None
            return Op(**fields, a=names.of(value))
        old, new = (names.of(each) for each in _pair(one, asked, "[old new]"))
        return Op(**fields, a=old, b=new, seen=old if one.outcome is Outcome.OK else NONE)


@attrs.frozen
class _Log:
    names: Names

    def __call__(self, one: MapAttempt) -> Iterator[Op]:
        action, names = ACTIONS[Model.LOG][one.f], self.names
        fields = one.op(action)
        ok = one.outcome is Outcome.OK
        match action:
            case Action.APPEND if not ok:
                yield Op(**fields, a=names.of(_require_sent(one, one.asked, None)))
            case Action.APPEND:
                offset, value = _pair(one, one.answered, "[offset value]")
                yield Op(**fields, a=names.of(_require_sent(one, one.asked, value)), offset=_offset(one, offset))
            case Action.TAIL:
                yield Op(**fields, offset=_offset(one, one.answered) if ok else NONE)
            case _ if ok:
                answered = bare(one.answered)
                several = isinstance(answered, list | tuple) and all(is_pair(each) for each in answered)
                for pair in answered if several else [answered]:
                    offset, value = _pair(one, pair, "[offset value]")
                    yield Op(**fields, a=names.of(value), offset=_offset(one, offset))
            case _:
                yield Op(**fields)


def _offset(one: MapAttempt, offset: Any) -> int:
    if not isinstance(offset, int) or isinstance(offset, bool) or not 0 <= offset < NAMED_FROM:
        raise one.refuse(f"an offset expected, not {quote(offset)}")
    return offset


class _Queues(Keyed):
    noun = "queue"

    def __call__(self, one: MapAttempt) -> Iterator[Op]:
        action, names = _QUEUE[one.f], self.names
        key, asked, answered = self.split(one, one.asked if action is Action.DRAIN else one.value)
        if action is Action.DEQUEUE and one.outcome is Outcome.FAIL and _reason(one.error) in FOUND_EMPTY:
            one = attrs.evolve(one, outcome=Outcome.OK, error=None)
        fields = one.op(action, object=names.of(key))
        if action is Action.ENQUEUE:
            yield Op(**fields, a=names.element(_require_sent(one, asked, answered)))
        elif one.outcome is not Outcome.OK:
            yield Op(**fields)
        elif action is Action.DEQUEUE:
            yield Op(**fields, a=names.of(answered))
        else:  # Jepsen's own drains may answer with a word, having recorded what they took as dequeues
            taken = bare(answered)
            taken = taken if isinstance(taken, list | tuple) else ()
            yield ListOp(**fields, values=tuple(map(names.element, taken)))


def _reason(error: Any) -> Any:
    error = bare(error)
    return name_of(error[0] if isinstance(error, list | tuple) and error else error)


class _Sets(Keyed):
    noun = "set"

    def __call__(self, one: MapAttempt) -> Iterator[Op]:
        names = self.names
        key, asked, answered = self.split(one, one.asked)
        if one.f == "add":
            yield Op(**one.op(Action.ADD, object=names.of(key)), a=names.element(_require_sent(one, asked, answered)))
            return
        fields = one.op(Action.READ, object=names.of(key))
        if one.outcome is not Outcome.OK:
            yield Op(**fields)
        else:
            yield ListOp(**fields, values=_list(one, answered, names))


def _list(one: MapAttempt, value: Any, names: Names) -> tuple[int, ...]:
    if value is None:
        return ()
    value = bare(value)
    if not isinstance(value, list | tuple):
        raise one.refuse(f"a list of values expected, not {quote(value)}")
    return tuple(map(names.element, value))


@attrs.frozen
class _KeyValues:
    names: Names

    def __call__(self, one: MapAttempt) -> Iterator[Op]:
        names = self.names
        if one.f == "txn":
            one = _single(one)
        action = ACTIONS[Model.KEY_VALUE][one.f]
        key, asked = _pair(one, one.asked, "[key value]")
        answered = _answer_of(one, key)
        fields = one.op(action, object=names.element(key))
        match action:
            case Action.APPEND:
                yield Op(**fields, a=names.element(_require_sent(one, asked, answered)))
            case Action.WRITE:
                sent = bare(_require_sent(one, asked, answered))
                yield ListOp(**fields, values=_list(one, sent if isinstance(sent, list | tuple) else [sent], names))
            case _ if one.outcome is Outcome.OK:
                yield ListOp(**fields, values=_list(one, answered, names))
            case _:
                yield Op(**fields)


def _single(one: MapAttempt) -> MapAttempt:
    """A transaction of one operation, as that operation."""
    parts: list[Any] = []
    for value in (one.asked, one.answered if one.outcome is Outcome.OK else None):
        if value is None:
            parts.append(None)
            continue
        found = bare(value)
        inside = bare(found[0]) if isinstance(found, list | tuple) and len(found) == 1 else None
        if not isinstance(inside, list | tuple) or len(inside) != 3:
            raise one.refuse("a transaction of one [f key value] expected; of several it is none of a key alone")
        parts.append((name_of(inside[0]), *inside[1:]))
    asked, answered = parts
    f = asked[0] if asked is not None else None
    if f not in ("append", "r") or (answered is not None and answered[0] != f):
        raise one.refuse(f"a transaction of one append or r expected, not {quote(one.asked)}")
    assert asked is not None
    return attrs.evolve(one, f=f, asked=asked[1:], answered=None if answered is None else answered[1:])
