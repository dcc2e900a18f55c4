"""Bit rot: which bits of a dead machine's disk may change, and what is remembered of it.

Only bytes below the end that the disk itself can prove to have been durable (frames and the mark say so) are spoilt:
beyond it, damage cannot be told from the torn tail of a write, by anybody.
"""

import enum
import random

import attrs

from jepsen_like.simulation.raft.durable import (
    START_NAME,
    STATE,
    DurableLog,
    Flip,
    WholeFrame,
    read_start,
    whole_frames,
)
from log import mark
from log.memory_disk import MemoryDisk

_HEADER_BYTES = 80


class RotKind(enum.Enum):
    """The place of the changed bit."""

    PAYLOAD = "payload"
    HEADER = "header"
    LAST = "last frame"
    STATE = "newest state"
    INDEX = "index"
    MARK = "mark"
    START = "start"


@attrs.define
class Rot:
    """Damage of one node. `held` is what it held before, once it may have been cut; `found` when it was repaired."""

    flip: Flip
    found: bool = False
    held: DurableLog | None = None


@attrs.frozen
class _Place:
    path: str
    end: int
    frame: WholeFrame


def spoil(disk: MemoryDisk, directory: str, log_id: int, kind: RotKind, rng: random.Random) -> Flip | None:
    """Invert one bit; None if the disk has nothing of this kind."""
    marks, start = f"{directory}/{mark.NAME}", f"{directory}/{START_NAME}"
    paths = [path for path in disk.paths() if disk.content(path)]
    match kind:
        case RotKind.INDEX:
            return _spoil_file(disk, [path for path in paths if path.endswith(".index")], rng)
        case RotKind.MARK:
            return _spoil_file(disk, [path for path in paths if path == marks], rng)
        case RotKind.START:
            return _spoil_file(disk, [path for path in paths if path == start], rng)
        case RotKind.PAYLOAD | RotKind.HEADER | RotKind.LAST | RotKind.STATE:
            marked_end = _marked_end(disk.content(marks), log_id) if marks in paths else 0
            base = read_start(disk.content(start)).base if start in paths else 0
            return _spoil_frame(disk, _durable_frames(disk, base, marked_end), kind, rng)


def _spoil_file(disk: MemoryDisk, paths: list[str], rng: random.Random) -> Flip | None:
    if not paths:
        return None
    path = rng.choice(paths)
    return _flip(disk, path, rng.randrange(len(disk.content(path)) * 8))


def _spoil_frame(disk: MemoryDisk, places: list[_Place], kind: RotKind, rng: random.Random) -> Flip | None:
    first = _HEADER_BYTES if kind is RotKind.PAYLOAD else 0
    match kind:
        case RotKind.PAYLOAD:
            places = [place for place in places if place.frame.size > _HEADER_BYTES]
        case RotKind.STATE:
            places = [place for place in places if place.frame.kind == STATE][-1:]
        case RotKind.LAST:
            places = places[-1:]
        case _:
            pass
    if not places:
        return None
    place = rng.choice(places)
    size = _HEADER_BYTES if kind is RotKind.HEADER else place.frame.size
    return _flip(disk, place.path, (place.frame.at + rng.randrange(first, size)) * 8 + rng.randrange(8))


def base_of(path: str) -> int:
    """The address that a segment is named by."""
    return int(path.removesuffix(".log").rpartition("/")[2])


def _durable_frames(disk: MemoryDisk, first_base: int, known_end: int) -> list[_Place]:
    """Every whole frame of the log, which begins at `first_base`, below the durable end that the disk can prove."""
    places: list[_Place] = []
    for path in disk.paths():
        if path.endswith(".log") and (base := base_of(path)) >= first_base:
            for frame in whole_frames(disk.content(path), base):
                places.append(_Place(path, base + frame.at + frame.size, frame))
                known_end = max(known_end, frame.durable_end)
    return [place for place in places if place.end <= known_end]


def _marked_end(content: bytes, log_id: int) -> int:
    slots = (mark.decode(content[at : at + mark.SLOT_BYTES], log_id=log_id) for at in (0, mark.SLOT_BYTES))
    return max((found[1].durable_end for found in slots if found is not None), default=0)


def _flip(disk: MemoryDisk, path: str, bit: int) -> Flip:
    disk.flip_bit(path, bit)
    return Flip(path, bit)
