"""By how much the wall clocks of a run's nodes were wrong, and when: the faults that set them are written down.

A record is dated by the clock of its leader and leaves a log by the clock of the node that holds it. So it may leave early by
as much as the first was behind, when the record was taken, and the second ahead, at any time since.
"""

import json
import re
from collections.abc import Collection
from pathlib import Path
from typing import Final

import attrs
import numpy as np
import numpy.typing as npt

from jepsen_like.checker.rows.columns import Ints
from jepsen_like.history.files import UnreadableHistory
from jepsen_like.history.ops import NEVER

NEMESIS: Final = "nemesis.jsonl"
JUMP: Final = "clock-jump"
"""The kind of fault that sets wall clocks; others let monotonic clocks run fast or slow, which date nothing."""
_SECONDS: Final = re.compile(r"([+-]\d+(?:\.\d+)?) s\b")


@attrs.frozen
class JumpOfClock:
    """A node whose wall clock was off by `offset_s` at times between two moments on the history's clock."""

    node: int
    begun_ns: int
    ended_ns: int
    offset_s: float


@attrs.frozen
class ClockErrors:
    """All of a run."""

    jumps: tuple[JumpOfClock, ...] = ()

    def behind_s(self, taken_ns: Ints, within_ns: int) -> npt.NDArray[np.float64]:
        """Returns for each moment by how many seconds any clock may have been behind then, or until `within_ns` later."""
        found = np.zeros(len(taken_ns))
        for jump in self.jumps:
            held = (taken_ns + within_ns >= jump.begun_ns) & (taken_ns <= jump.ended_ns)
            found = np.where(held, np.maximum(found, -jump.offset_s), found)
        return found

    def ahead_s(self, nodes: Collection[int], since_ns: Ints, until_ns: int) -> npt.NDArray[np.float64]:
        """Returns for each moment by how many seconds the clock of a node was ahead at any time since, up to `until_ns`."""
        found = np.zeros(len(since_ns))
        for jump in self.jumps:
            if jump.node in nodes and jump.begun_ns <= until_ns:
                found = np.where(jump.ended_ns >= since_ns, np.maximum(found, jump.offset_s), found)
        return found


RIGHT_CLOCKS: Final = ClockErrors()


def clock_errors_of(directory: Path) -> ClockErrors:
    """Returns what the faults of a run did to its wall clocks; nothing for a directory that is not of a run.

    Raises `UnreadableHistory` when the faults are damaged. A fault that does not say by how much counts as any.
    """
    path = directory / NEMESIS
    if not path.exists():
        return ClockErrors()
    try:
        rows = [json.loads(line) for line in path.read_text().splitlines()]
        return ClockErrors(
            tuple(
                JumpOfClock(node, row["begun_ns"], ended_ns, sign * size)
                for row in rows
                if row["kind"] == JUMP
                for ended_ns in [row["ended_ns"] if row["ended_ns"] > row["begun_ns"] else NEVER]
                for node in row["nodes"]
                for size, signs in [_size(row["observed"].get(str(node), ""))]
                for sign in signs
            )
        )
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise UnreadableHistory(path, f"does not tell what was done to clocks ({error!r})") from error


def _size(observed: str) -> tuple[float, tuple[int, ...]]:
    """By how much a clock was set, and there or back; both, and any size, where it is not told."""
    found = _SECONDS.search(observed)
    if found is None:
        return float("inf"), (1, -1)
    offset_s = float(found[1])
    return abs(offset_s), (1 if offset_s > 0 else -1,)
