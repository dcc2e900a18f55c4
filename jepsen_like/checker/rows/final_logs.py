"""The final logs of a run's nodes, from the records of its dump."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import attrs
import numpy as np

from jepsen_like.checker.rows.columns import Ints
from jepsen_like.history.files import Kept, UnreadableHistory
from jepsen_like.history.ops import NONE


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
        if kept is not None:
            _require_whole(number, offset[mine], kept)
        if not len(mine):
            logs.append(FinalLog(number, starts.get(number, 0), np.empty(0, np.int64), np.empty(0, np.int64)))
            continue
        first, end = starts.get(number, int(offset[mine].min())), int(offset[mine].max()) + 1
        if first < 0 or end - first > 2 * len(mine) + ROWS_MANY:
            raise UnreadableHistory(
                Path(DUMP), f"node {number} has records from offset {first} to {end - 1}, but not between"
            )
        values, epochs = np.full(end - first, NONE, np.int64), np.full(end - first, NONE, np.int64)
        values[offset[mine] - first] = value[mine]
        epochs[offset[mine] - first] = epoch[mine]
        if int((values != NONE).sum()) != len(mine):
            raise UnreadableHistory(Path(DUMP), f"node {number} has two records at one offset")
        logs.append(FinalLog(number, first, values, epochs))
    return tuple(logs)


def _require_whole(node: int, offsets: Ints, kept: Kept) -> None:
    """Raises `UnreadableHistory` unless these are all offsets from where the log begins to where it ends."""
    start, end = kept.starts.get(node), kept.ends.get(node)
    if start is None or end is None:
        raise UnreadableHistory(Path(DUMP), f"has records of node {node}, and does not say where its log begins")
    expected = np.arange(start, end) if end - start == len(offsets) else None
    if expected is not None and (np.sort(offsets) == expected).all():
        return
    if len(np.unique(offsets)) < len(offsets):
        raise UnreadableHistory(Path(DUMP), f"node {node} has two records at one offset")
    raise UnreadableHistory(
        Path(DUMP), f"node {node} has {len(offsets)} records, not those from offset {start} to {end}, exclusive"
    )
