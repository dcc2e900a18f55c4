"""Random small histories of queues of elements, sets and keys, as operation maps in every form, or as columns.

Made by a correct object under concurrency, then about half of them damaged; see `small_histories`.
"""

import json
import random
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import attrs

from jepsen_like.checker.verdict import QUEUES_OF_ELEMENTS, SETS, Model
from jepsen_like.history.ops import NEVER, NONE, Action, ListOp, Op, Outcome
from tests.jepsen_like.checker.small_histories import FAR, _intervals

Tuple = tuple[Any, ...]
History = list[Tuple]
FORMS = ("columns", "jsonl", "json", "edn", "edn vector", "txt")


def queue_history(rng: random.Random, model: Model) -> History:
    repeats, unknown_share = rng.random() < 0.2, rng.choice((0.0, 0.1, 0.3))
    fresh = iter(range(1, 100))
    inside: list[int] = []
    history: History = []
    for start, _, end in _intervals(rng, rng.randint(3, 8)):
        what = rng.choice(("enqueue", "enqueue", "enqueue", "dequeue", "dequeue", "dequeue", "drain"))
        known = rng.random() >= unknown_share
        happens = known or rng.random() < 0.5
        end = end if known else FAR
        if what == "enqueue":
            value = rng.randint(1, 2) if repeats else next(fresh)
            history.append((what, known, start, end, value))
            inside += [value] if happens else []
            if rng.random() < 0.08:
                history.append((what, None, start, start + 1, value if rng.random() < 0.3 else next(fresh)))
        elif what == "dequeue":
            at = 0 if model is Model.FIFO_QUEUE or not inside else rng.randrange(len(inside))
            taken = inside[at] if inside else None
            if inside and happens and not (model is Model.TOTAL_QUEUE and rng.random() < 0.3):
                del inside[at]
            history.append((what, known, start, end, taken if known else None))
            if rng.random() < 0.05:
                history.append((what, None, start, start + 1, None))
        else:
            history.append((what, known, start, end, tuple(inside) if known else None))
            inside = [] if happens else inside
    return damage_history(rng, history)


def set_history(rng: random.Random, model: Model) -> History:
    repeats, unknown_share = rng.random() < 0.25, rng.choice((0.0, 0.15, 0.3))
    fresh = iter(range(1, 100))
    inside: list[int] = []
    older: list[int] = []
    history: History = []
    for start, _, end in _intervals(rng, rng.randint(3, 8)):
        known = rng.random() >= unknown_share
        if rng.random() < 0.5:
            value = rng.randint(1, 3) if repeats else next(fresh)
            history.append(("add", known, start, end if known else FAR, value))
            if (known or rng.random() < 0.5) and value not in inside:
                older = list(inside)
                inside.append(value)
            if rng.random() < 0.1:
                history.append(("add", None, start, start + 1, value if rng.random() < 0.3 else next(fresh)))
        elif known:
            found = older if model is Model.SET and rng.random() < 0.2 else inside
            history.append(("read", True, start, end, tuple(rng.sample(found, len(found)))))
        else:
            history.append(("read", False, start, FAR, None))
    return damage_history(rng, history)


def key_history(rng: random.Random, model: Model) -> History:
    repeats, puts, unknown_share = rng.random() < 0.25, rng.random() < 0.4, rng.choice((0.0, 0.15, 0.3))
    fresh = iter(range(1, 100))
    inside: tuple[int, ...] = ()
    history: History = []
    for start, _, end in _intervals(rng, rng.randint(3, 8)):
        known = rng.random() >= unknown_share
        what = rng.choice(("append", "append", "get", "get", "put" if puts else "get"))
        value = rng.randint(1, 2) if repeats else next(fresh)
        if what == "get":
            history.append((what, known, start, end if known else FAR, inside if known else None))
            continue
        argument: Any = value if what == "append" else rng.choice(((), (value,), (value, next(fresh))))
        history.append((what, known, start, end if known else FAR, argument))
        if known or rng.random() < 0.5:
            inside = (*inside, value) if what == "append" else argument
        if rng.random() < 0.1:
            history.append((what, None, start, start + 1, argument if rng.random() < 0.3 else _one(what, next(fresh))))
    return damage_history(rng, history)


def _one(what: str, value: int) -> Any:
    return value if what == "append" else (value,)


def damage_history(rng: random.Random, history: History) -> History:
    for _ in range(rng.choice((0, 1, 1, 2, 3, 4)) if history else 0):
        at = rng.randrange(len(history))
        what, known, start, end, argument = history[at]
        if rng.random() < 0.3:
            later = rng.randint(1, 8)
            history[at] = (what, known, start + later, end + later if known else FAR, argument)
        elif known:
            history[at] = (what, known, start, end, _change_value(rng, what, argument, history))
        elif rng.random() < 0.3 and len(history) > 1:
            del history[at]
    return history


def _change_value(rng: random.Random, what: str, argument: Any, history: History) -> Any:
    values = [97, *(one[4] for one in history if one[0] in ("enqueue", "add", "append"))]
    if what in ("enqueue", "add", "append"):
        return argument if rng.random() < 0.5 else rng.choice(values)
    if what == "dequeue":
        return rng.choice([None, *values])
    some = list(argument)
    match rng.randrange(4):
        case 0 if some:
            del some[rng.randrange(len(some))]
        case 1:
            some.insert(rng.randint(0, len(some)), rng.choice(values))
        case 2:
            rng.shuffle(some)
        case _:
            some = some[:-1]
    return tuple(some)


MAKERS: dict[Model, Callable[[random.Random, Model], History]] = {
    **dict.fromkeys(QUEUES_OF_ELEMENTS, queue_history),
    **dict.fromkeys(SETS, set_history),
    Model.KEY_VALUE: key_history,
}


def as_rows(histories: Sequence[History]) -> list[Op]:
    """As rows of a history of ours, an object each."""
    ops = [_as_op(one, number) for number, history in enumerate(histories) for one in history]
    ops.sort(key=lambda op: min(op.t_ret, op.t_inv + 1))
    return rows_of(attrs.evolve(op, process=process) for process, op in enumerate(ops))


def rows_of(ops: Iterable[Op]) -> list[Op]:
    """A row for each value, as they are recorded."""
    rows: list[Op] = []
    for op in ops:
        if isinstance(op, ListOp) and op.values:
            many = len(op.values)
            rows += [attrs.evolve(op, a=value, offset=at, count=many) for at, value in enumerate(op.values)]
        else:
            rows.append(op)
    return rows


ACTIONS = {
    "enqueue": Action.ENQUEUE, "dequeue": Action.DEQUEUE, "drain": Action.DRAIN, "add": Action.ADD, "read": Action.READ,
    "append": Action.APPEND, "put": Action.WRITE, "get": Action.READ,
}  # fmt: skip


def _as_op(one: Tuple, number: int) -> Op:
    what, known, start, end, argument = one
    outcome = Outcome.FAIL if known is None else Outcome.OK if known else Outcome.INFO
    fields: dict[str, Any] = {
        "f": ACTIONS[what], "type": outcome, "t_inv": start, "t_ret": end if outcome is not Outcome.INFO else NEVER,
        "object": number,
    }  # fmt: skip
    if isinstance(argument, tuple):
        return ListOp(**fields, values=argument)
    return Op(**fields, a=NONE if argument is None else argument)


def order_events(history: History, rng: random.Random) -> tuple[History, list[tuple[int, bool, int]]]:
    """Returns the history with times that all differ, as in maps, and the events in order: (time, True for an end, number)."""
    events = sorted(
        [(one[2], 0, rng.random(), number) for number, one in enumerate(history)]
        + [(one[3], 1, rng.random(), number) for number, one in enumerate(history) if one[1] is not False]
    )
    begins: dict[int, int] = {}
    ends: dict[int, int] = {}
    for time, (_, is_end, _, number) in enumerate(events):
        (ends if is_end else begins)[number] = time
    moved = [(one[0], one[1], begins[number], ends.get(number, FAR), *one[4:]) for number, one in enumerate(history)]
    return moved, [(time, bool(is_end), number) for time, (_, is_end, _, number) in enumerate(events)]


def as_text(
    histories: Sequence[History],
    events: Sequence[list[tuple[int, bool, int]]],
    form: str,
    rng: random.Random,
    maps: Callable[[Tuple], tuple[str, Any, Any, Any]],
    *,
    keyed: bool,
) -> str:
    """All of them as one file of operation maps, an object each, with or without their keys."""
    merged = sorted((time, number, is_end, at) for number, some in enumerate(events) for time, is_end, at in some)
    lines: list[dict[str, Any]] = []
    processes: dict[tuple[int, int], int] = {}
    for index, (_, number, is_end, at) in enumerate(merged):
        one = histories[number][at]
        f, asked, answered, error = maps(one)
        process = processes.setdefault((number, at), len(processes))
        kind = "invoke" if not is_end else "fail" if one[1] is None or one[0] == "refused" else "ok"
        value = answered if kind == "ok" else asked
        fields = {"type": kind, "f": f, "value": _add_key(number, value) if keyed else value, "process": process}
        if form != "txt":
            fields |= {"time": index, "index": index}
        if kind == "fail" and error is not None:
            fields["error"] = error
        lines.append(fields)
    for (number, at), process in processes.items():
        if histories[number][at][1] is False and rng.random() < 0.5:
            f, asked, _, _ = maps(histories[number][at])
            value = _add_key(number, asked) if keyed else asked
            lines.append({"type": "info", "f": f, "value": value, "process": process, "error": "timeout"})
    return format_lines(lines, form)


def _add_key(number: int, value: Any) -> list[Any]:
    return [number, value]


def format_lines(lines: Sequence[dict[str, Any]], form: str) -> str:
    match form:
        case "jsonl":
            return "".join(json.dumps(line) + "\n" for line in lines)
        case "json":
            return json.dumps(lines, indent=1)
        case "edn":
            return "".join(edn(line) + "\n" for line in lines)
        case "edn vector":
            return f"[{' '.join(edn(line) for line in lines)}]"
        case _:
            cells = ("process", "type", "f", "value", "error")
            return "".join("\t".join(edn(line.get(name), name) for name in cells) + "\n" for line in lines)


def edn(value: Any, name: str = "") -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f":{key} {edn(each, key)}" for key, each in value.items()) + "}"
    if isinstance(value, list | tuple):
        return f"[{' '.join(edn(each) for each in value)}]"
    if value is None:
        return "nil"
    if isinstance(value, str):
        return f":{value}" if name in ("type", "f", "error") else json.dumps(value)
    return str(value)


def element_map(one: Tuple) -> tuple[str, Any, Any, Any]:
    """Name, what is asked, what is answered, and the error of a failed one."""
    what, _, _, _, argument = one
    if isinstance(argument, tuple):
        argument = list(map(word, argument))
    else:
        argument = word(argument)
    if what in ("enqueue", "add", "append", "put"):
        return what, argument, argument, None if what == "put" else "refused"
    return what, None, argument, "refused"


def word(value: Any) -> Any:
    """Some values as texts."""
    return f"value {value}" if isinstance(value, int) and value % 3 == 0 else value
