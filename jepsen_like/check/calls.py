"""Reads operation maps as operations of objects whose model is a class of the user's."""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from jepsen_like.check.jepsen_maps import TOO_DEEP, Keyed, Names, attempts
from jepsen_like.check.map_files import Event
from jepsen_like.checker.elements.user_model import UserModel, encode
from jepsen_like.history.files import UnreadableHistory
from jepsen_like.history.ops import NONE, Action, Op, Outcome


class Values:
    """Values being numbered from 0, each once."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}

    def number(self, value: Any) -> int:
        """Returns the number of a value; `NONE` of None."""
        return NONE if value is None else self._numbers.setdefault(encode(value), len(self._numbers))

    def write(self, path: Path) -> None:
        """Write them as the rows of an Arrow file."""
        import pyarrow as pa

        batch = pa.record_batch({"value": pa.array(list(self._numbers), pa.large_string())})
        with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, batch.schema) as writer:
            writer.write_batch(batch)


def calls(events: Iterable[Event], path: Path, of_class: UserModel, names: Names, values: Values) -> Iterator[Op]:
    """Returns the operations that operation maps describe, whatever they are called. Raises `UnreadableHistory`."""
    keys = Keyed(names, keyed=of_class.keyed)
    for attempt in attempts(events, path, None, "call"):
        try:
            key, asked, answered = keys.split(attempt, None)
            answered = answered if attempt.outcome is Outcome.OK else None
            obj, a, b = names.element(key), values.number(asked), values.number(answered)
        except ValueError as error:
            raise UnreadableHistory(path, str(error)) from error
        except RecursionError as error:
            raise UnreadableHistory(path, TOO_DEEP) from error
        yield Op(**attempt.op(Action.CALL), object=obj, seen=values.number(attempt.f), a=a, b=b)
