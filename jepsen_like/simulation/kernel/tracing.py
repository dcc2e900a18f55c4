"""One line for each event of a seed, in fixed columns, and one hash over all of them.

The hash is what a seed *is*: the same in every process, for any PYTHONHASHSEED. Columns: virtual time, node, event,
the node's state in columns of the model, effects.
"""

from collections.abc import Callable
from hashlib import blake2b

import attrs


@attrs.frozen
class TraceEvent:
    """One event in words: when (virtual seconds), at which node, if any, and the node's state after it."""

    at_s: float
    node: str
    event: str
    state: str
    effects: str = ""


Observer = Callable[[TraceEvent], None]
"""Sees every event of a world."""


def header(columns: str) -> str:
    """The line above all others; `columns` names those of a node's state."""
    return f"{'time s':>10} {'node':<4} {'event':<58} {columns}  effects"


class Trace:
    """Feeds each line to `write` and into the hash."""

    def __init__(self, write: Callable[[str], None]) -> None:
        self._write = write
        self._digest = blake2b(digest_size=16)
        self.lines = 0

    def event(self, seen: TraceEvent) -> None:
        """One event at one node, or at no one in particular."""
        line = f"{seen.at_s:10.4f} {seen.node:<4} {seen.event:<58} {seen.state}  {seen.effects}".rstrip()
        self.lines += 1
        self._digest.update(line.encode() + b"\n")
        self._write(line)

    @property
    def hash(self) -> str:
        """Over all lines so far."""
        return self._digest.hexdigest()
