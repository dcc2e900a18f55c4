"""Damage to the files of a node that is down: what bit rot, a lost sector or a lost file leave behind.

Each kind of damage returns a text about what it has changed, or None when there was nothing of its kind to damage. Which byte is
hit is drawn from the caller's generator. `LogFiles` names the files of a system: segments and their index sidecars.
"""

import enum
import random
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

import attrs

LAST_BYTES: Final = 512
"""How far from the end of a log the damage of its last frame lies at most."""


@attrs.frozen
class LogFiles:
    """The files of a system, as patterns below a data directory, and how a process ends that meets damage in them."""

    segments: str
    """Sorted by name they are in the order in which they were written."""
    indexes: str
    damage_status: int
    """The exit status of a process that found damage."""
    damage_words: str
    """What its last line on standard error then contains."""


class Damage(enum.StrEnum):
    """What is done to the files."""

    CLOSED_SEGMENT = "closed-segment"
    """One bit of a segment that is no longer written to."""
    OPEN_SEGMENT = "open-segment"
    """One bit anywhere in the segment that is written to."""
    LAST_FRAME = "last-frame"
    """One bit within the last bytes that were written."""
    INDEX = "index"
    """One bit of an index sidecar."""
    NO_INDEX = "no-index"
    """An index sidecar is gone."""


def damage(data: Path, files: LogFiles, kind: Damage, rng: random.Random) -> str | None:
    """Damage one file in a node's data directory. Returns what was done, or None if there is nothing of this kind there."""
    return _DAMAGES[kind](data, files, rng)


def _closed_segment(data: Path, files: LogFiles, rng: random.Random) -> str | None:
    closed = [path for path in sorted(data.glob(files.segments))[:-1] if path.stat().st_size]
    return _flipped(path := rng.choice(closed), rng.randrange(path.stat().st_size), rng) if closed else None


def _open_segment(data: Path, files: LogFiles, rng: random.Random) -> str | None:
    for path in _newest_first(data, files):
        return _flipped(path, rng.randrange(path.stat().st_size), rng)
    return None


def _last_frame(data: Path, files: LogFiles, rng: random.Random) -> str | None:
    for path in _newest_first(data, files):
        size = path.stat().st_size
        return _flipped(path, rng.randrange(max(0, size - LAST_BYTES), size), rng)
    return None


def _index(data: Path, files: LogFiles, rng: random.Random) -> str | None:
    found = [path for path in sorted(data.glob(files.indexes)) if path.stat().st_size]
    return _flipped(path := rng.choice(found), rng.randrange(path.stat().st_size), rng) if found else None


def _no_index(data: Path, files: LogFiles, rng: random.Random) -> str | None:
    found = sorted(data.glob(files.indexes))
    if not found:
        return None
    path = rng.choice(found)
    path.unlink()
    return f"{path.name} removed"


_DAMAGES: Final[dict[Damage, Callable[[Path, LogFiles, random.Random], str | None]]] = {
    Damage.CLOSED_SEGMENT: _closed_segment,
    Damage.OPEN_SEGMENT: _open_segment,
    Damage.LAST_FRAME: _last_frame,
    Damage.INDEX: _index,
    Damage.NO_INDEX: _no_index,
}


def _newest_first(data: Path, files: LogFiles) -> Sequence[Path]:
    return [path for path in sorted(data.glob(files.segments), reverse=True) if path.stat().st_size]


def _flipped(path: Path, position: int, rng: random.Random) -> str:
    bit = rng.randrange(8)
    with path.open("r+b") as file:
        file.seek(position)
        (byte,) = file.read(1)
        file.seek(position)
        file.write(bytes([byte ^ 1 << bit]))
    return f"{path.name}: bit {bit} of byte {position} flipped"
