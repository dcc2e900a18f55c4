"""The pieces of work of a check, each small enough for one process.

A task names its input (part files, or columns already in memory) and does not depend on which process or machine runs it.
Tasks and results are values, small compared with the rows that they stand for.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final, Protocol

import attrs
import numpy as np
import numpy.typing as npt

from jepsen_like.checker.rows.columns import Columns, Ints
from jepsen_like.checker.rows.processes import NO_SPANS, ProcessSpans, require_made
from jepsen_like.checker.verdict import QUEUES_OF_ELEMENTS, SETS, Model
from jepsen_like.history.files import UnreadableHistory
from jepsen_like.history.ops import Action, ErrorCode, Outcome


@attrs.frozen
class Gathered:
    """Rows in a record batch of an Arrow file; see `gather`."""

    file: Path
    number: int

    def table(self, columns: Sequence[int] = ()) -> Any:
        """Returns them as a pyarrow table: all columns, or those of these numbers."""
        import pyarrow as pa

        with pa.OSFile(str(self.file)) as source:
            options = pa.ipc.IpcReadOptions(use_threads=False, included_fields=list(columns))
            return pa.Table.from_batches([pa.ipc.open_file(source, options=options).get_batch(self.number)])


Source = Columns | Path | Gathered
"""Rows in memory, or the part file that holds them, or where they have been gathered."""
Shared = Ints | Path
"""An array in memory, or the file that holds it."""


ACTIONS: Final = {
    Model.LOG: (Action.APPEND, Action.READ, Action.TAIL),
    Model.REGISTER: (Action.READ, Action.WRITE, Action.CAS),
    Model.QUEUE: (
        Action.SEND,
        Action.POLL,
        Action.COMMIT,
        Action.COMMITTED,
        Action.ASSIGN,
        Action.REVOKE,
        Action.SEEK,
        Action.TAIL,
    ),
    Model.TRANSACTIONS: (Action.INIT, Action.SEND, Action.COMMIT, Action.COMMITTED, Action.POLL, Action.TAIL),
    Model.COMPACTED: (Action.SEND, Action.POLL, Action.TAIL),
    Model.MIRRORED: (Action.SEND, Action.POLL, Action.COMMIT, Action.ASSIGN, Action.SWITCH, Action.TRANSLATE),
    Model.KAFKA: (Action.SEND, Action.POLL, Action.COMMIT, Action.REVOKE),
    **dict.fromkeys(QUEUES_OF_ELEMENTS, (Action.ENQUEUE, Action.DEQUEUE, Action.DRAIN)),
    **dict.fromkeys(SETS, (Action.ADD, Action.READ)),
    Model.KEY_VALUE: (Action.APPEND, Action.WRITE, Action.READ),
    Model.LIST_APPEND: (Action.APPEND, Action.READ),
    Model.RW_REGISTER: (Action.WRITE, Action.READ),
    Model.CUSTOM: (Action.CALL,),
}
"""The operations of each model."""


CODES: Final = {"f": Action, "type": Outcome, "err": ErrorCode}
"""The enumerations of the values of some columns."""


class Task(Protocol):
    """One piece of work."""

    def execute(self) -> Any:
        """Does the work and returns its result. Raises `UnreadableHistory` if the input cannot be read."""
        ...


def load(sources: Sequence[Source]) -> Columns:
    """Returns the rows of all sources; part files must share their columns."""
    paths = [one for one in sources if isinstance(one, Path)]
    if len(paths) == len(sources):
        return Columns.of_parts(paths)
    found = [one for one in sources if isinstance(one, Gathered)]
    if len(found) == len(sources):
        import pyarrow as pa

        return Columns.of_table(pa.concat_tables([one.table() for one in found]))
    if len(sources) == 1 and isinstance(sources[0], Columns):
        return sources[0]
    raise ValueError("rows in memory come as one piece")


def of_model(rows: Columns, source: Source, model: Model) -> Columns:
    """Returns the same rows. Raises `UnreadableHistory` if they are operations of another model, or of none."""
    path = source if isinstance(source, Path) else Path("history")
    there = {name: _codes_in(getattr(rows, name)) for name in CODES}
    for name, codes in CODES.items():
        if unknown := there[name] - {int(code) for code in codes}:
            raise UnreadableHistory(path, f"has {min(unknown)} in its column {name}, which stands for nothing")
    foreign = sorted(there["f"] - {int(f) for f in ACTIONS[model]})
    if foreign:
        names = " and ".join(Action(f).name.lower() for f in foreign)
        raise UnreadableHistory(
            path, f"holds {names} operations, which a {model.value} does not have; another --model?"
        )
    return rows


def _codes_in(column: npt.NDArray[Any]) -> set[int]:
    """The different values of a column of small numbers."""
    found = np.flatnonzero(np.bincount(column.astype(np.int16).view(np.uint16)))
    return set(found.astype(np.uint16).view(np.int16).tolist())


def require_sound(rows: Columns, sources: Sequence[Source]) -> ProcessSpans:
    """Returns when each process was at work. Raises `UnreadableHistory` if rows of files cannot have been recorded so."""
    if not isinstance(sources[0], Path):
        return NO_SPANS
    return require_made(rows, sources[0])


def array(shared: Shared) -> Ints:
    """Returns the array itself, mapped rather than read when it is a file."""
    return np.load(shared, mmap_mode="r", allow_pickle=False) if isinstance(shared, Path) else shared
