"""Turns operation maps of transactions, as Elle has them, into rows: one for each append or write, one for each value that is read.

    list-append     txn [[append k v] [r k null] ...] -> ok [[append k v] [r k [v ...]] ...]
    rw-register     txn [[w k v] [r k null] ...] -> ok [[w k v] [r k v] ...]

Of a transaction that failed, or whose outcome is unknown, the reads tell nothing and are left out.
"""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Final

from jepsen_like.check.jepsen_maps import TOO_DEEP, BadOperation, MapAttempt, Names, attempts, is_same
from jepsen_like.check.map_files import Event
from jepsen_like.checker.edn_values import bare, name_of, quote
from jepsen_like.checker.verdict import Model
from jepsen_like.history.files import UnreadableHistory
from jepsen_like.history.ops import Action, ListOp, Op, Outcome

WRITES: Final = {Model.LIST_APPEND: ("append", Action.APPEND), Model.RW_REGISTER: ("w", Action.WRITE)}
TRANSACTION: Final = {"txn": Action.CALL}
Part = tuple[str, Any, Any]


def transaction_operations(events: Iterable[Event], model: Model, path: Path, names: Names) -> Iterator[Op]:
    """Returns the rows that maps describe. Raises `UnreadableHistory` for what is no transaction of the model."""
    try:
        for number, attempt in enumerate(attempts(events, path, TRANSACTION, "transaction")):
            yield from _rows(attempt, number, model, names)
    except BadOperation as error:
        raise UnreadableHistory(path, str(error)) from error
    except RecursionError as error:
        raise UnreadableHistory(path, TOO_DEEP) from error


def _rows(one: MapAttempt, number: int, model: Model, names: Names) -> Iterator[Op]:
    asked = _parts(one, one.asked, model)
    is_known = one.outcome is Outcome.OK
    done = _parts(one, one.answered, model) if is_known and one.answered is not None else asked
    if len(done) != len(asked):
        raise one.refuse(f"{len(asked)} operations were invoked, but its ok has {len(done)}")
    word, write = WRITES[model]
    for place, (before, (f, key, value)) in enumerate(zip(asked, done, strict=True)):
        if before[0] != f or not is_same(before[1], key) or (f == word and not is_same(before[2], value)):
            raise one.refuse(f"invoked with {quote(list(before))}, but its ok has {quote([f, key, value])}")
        fields = {"object": names.element(key), "epoch": number, "seen": place}
        if f == word:
            yield Op(**one.op(write, **fields), a=names.element(value))
        elif is_known and model is Model.LIST_APPEND:
            yield ListOp(**one.op(Action.READ, **fields), values=tuple(map(names.element, _list(one, value))))
        elif is_known:
            yield Op(**one.op(Action.READ, **fields), a=names.of(value))


def _parts(one: MapAttempt, value: Any, model: Model) -> list[Part]:
    word = WRITES[model][0]
    value = bare(value)
    if not isinstance(value, list | tuple):
        raise one.refuse(f"a list of [{word} key value] and [r key nil] expected, not {quote(value)}")
    found = list[Part]()
    for part in value:
        inside = bare(part)
        f = name_of(inside[0]) if isinstance(inside, list | tuple) and inside else None
        if f not in (word, "r") or not (len(inside) == 3 or (len(inside) == 2 and f == "r")):
            raise one.refuse(f"[{word} key value] or [r key nil] expected, not {quote(part)}")
        found.append((f, inside[1], inside[2] if len(inside) == 3 else None))
    return found


def _list(one: MapAttempt, value: Any) -> tuple[Any, ...]:
    value = bare(value)
    if value is None:
        return ()
    if not isinstance(value, list | tuple):
        raise one.refuse(f"a list of values expected, not {quote(value)}")
    return tuple(value)
