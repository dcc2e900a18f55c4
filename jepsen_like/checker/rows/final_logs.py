"""The final logs of a run's nodes, from the records of its dump."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import attrs
import numpy as np

from jepsen_like.checker.rows.columns import Ints
from jepsen_like.history.files import Kept, UnreadableHistory
from jepsen_like.history.ops import NEVER, NONE


@attrs.frozen
class FinalLog:
    """The final log of one node: the values from its first offset on, each with its epoch."""

    node: int
    first: int
    values: Ints
    epochs: Ints

    @property
    def end(self) -> int:
        """Returns one past its last offset."""
        return self.first + len(self.values)


DUMP: Final = "dump.parquet"
LOG_OBJECT: Final = 0
"""The object that a run without a dump is about."""
ROWS_MANY: Final = 1_000_000
"""So many places of a log are no burden, though nothing lies there."""


def final_logs_of(dump: Any, kept: Mapping[int, Kept] | None = None) -> dict[int, tuple[FinalLog, ...]]:
    """Returns the final logs of each object in a dump table, one for each node.

    A log begins and ends where `kept` states, if that was recorded: it may be empty, and rows below had left the log before
    it was read to its end. Raises `UnreadableHistory` if it has other rows than that, or two records of a node at one offset.
    """
    columns = {name: np.asarray(dump.column(name).to_numpy()) for name in ("object", "node", "offset", "epoch", "a")}
    objects = {*np.unique(columns["object"]).tolist(), *(kept or {})}
    if not objects and kept is None:
        objects = {LOG_OBJECT}
    found = {}
    for obj in sorted(objects):
        mine = columns["object"] == obj
        of_object = {name: column[mine] for name, column in columns.items()}
        if kept is not None and obj not in kept:
            raise UnreadableHistory(Path(DUMP), f"has records of log {obj}, and does not say where it begins")
        found[obj] = _logs_of_nodes(of_object, kept[obj] if kept is not None else None)
    return found


def _logs_of_nodes(columns: Mapping[str, Ints], kept: Kept | None) -> tuple[FinalLog, ...]:
    node, offset, epoch, value = (columns[name] for name in ("node", "offset", "epoch", "a"))
    if len(node) and int(node.min()) < 0:
        raise UnreadableHistory(Path(DUMP), "has records of no node")
    logs = []
    starts = kept.starts if kept is not None else {}
    for number in sorted({*np.flatnonzero(np.bincount(node)).tolist(), *starts}):
        mine = np.flatnonzero((node == number) & (offset >= starts.get(number, 0)))
        least, last = int(offset[mine].min(initial=NEVER)), int(offset[mine].max(initial=NONE))
        first, end = require_span(number, len(mine), least, last, kept)
        logs.append(log_between(number, first, end, [(offset[mine], epoch[mine], value[mine])]))
    return tuple(logs)


def require_span(node: int, rows: int, least: int, last: int, kept: Kept | None) -> tuple[int, int]:
    """Returns where the log of a node begins and ends, of which a dump has so many records, from `least` to `last`.

    Raises `UnreadableHistory` if these are not all that `kept` states, or too few for the places between them.
    """
    if kept is not None and node not in kept.starts:
        raise UnreadableHistory(Path(DUMP), f"has records of node {node}, and does not say where its log begins")
    first = kept.starts[node] if kept is not None else least if rows else 0
    end = last + 1 if rows else first
    if kept is not None and (kept.ends[node] != end or end - first != rows):
        raise UnreadableHistory(
            Path(DUMP), f"node {node} has {rows} records, not those from offset {first} to {kept.ends[node]}, exclusive"
        )
    if first < 0 or end - first > 2 * rows + ROWS_MANY:
        raise UnreadableHistory(
            Path(DUMP), f"node {node} has records from offset {first} to {end - 1}, but not between"
        )
    return first, end


def log_between(node: int, first: int, end: int, records: Iterable[Sequence[Ints]]) -> FinalLog:
    """Returns the log of a node with these records (offsets, epochs and values). Raises `UnreadableHistory` for two at one offset."""
    values, epochs = np.full(end - first, NONE, np.int64), np.full(end - first, NONE, np.int64)
    rows = 0
    for offset, epoch, value in records:
        values[offset - first], epochs[offset - first] = value, epoch
        rows += len(offset)
    if int((values != NONE).sum()) != rows:
        raise UnreadableHistory(Path(DUMP), f"node {node} has two records at one offset")
    return FinalLog(node, first, values, epochs)
