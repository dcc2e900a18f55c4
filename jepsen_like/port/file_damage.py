"""Damages the files of a node that is down, as bit rot, a lost sector, a lost file or a lost disk do.

Each kind of damage and of absence returns a text about what it has changed, or None when there was nothing of its kind. Which byte or
file is hit is drawn from the caller's generator. `LogFiles` names the files of a system. A `Listing` shows from outside what
is different after the act, whatever the act returned.
"""

import enum
import random
import shutil
import zlib
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Final, assert_never

import attrs

LAST_BYTES: Final = 512
"""The damage of the last frame of a log lies no further from its end than this."""
FULLEST_CHANCE: Final = 0.5
"""The share of draws in which the damaged copy is the one that holds the most: many copies hold next to nothing."""
DIFFERENCES_SHOWN: Final = 3
READ_BYTES: Final = 1 << 20


@attrs.frozen(kw_only=True)
class LogFiles:
    """The files of a system, as patterns below a data directory, and how a process ends that meets damage in them, if it does."""

    segments: str
    """Sorted by path they are, within each directory, in the order in which they were written."""
    indexes: str
    damage_status: int | None = None
    """The exit status of a process that found damage; None: it never ends for that."""
    damage_words: str = ""
    """The text that its last line on standard error then contains."""
    copies: tuple[str, ...] = ()
    """Directories of which each is a copy that the node holds; none where the data directory itself is the only one."""
    checkpoints: tuple[str, ...] = ()
    """Small files that record how far something had come."""
    absences: "tuple[Absence, ...]" = ()
    """The most that may be gone from a disk so that the node can still be asked to go on."""


class Damage(enum.StrEnum):
    """The ways to damage files."""

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


class Absence(enum.StrEnum):
    """The extents of what can be gone from a disk."""

    COPY = "copy"
    """The directory of one copy: a partition's, a commit log's."""
    CLOSED_SEGMENT = "closed-segment"
    """A segment that is no longer written to."""
    SEGMENT = "segment"
    """Any segment, also the newest."""
    CHECKPOINT = "checkpoint"
    INDEX = "index"
    DISK = "disk"
    """Everything on the disk: an empty one is in its place."""


def damage(data: Path, files: LogFiles, kind: Damage, rng: random.Random) -> str | None:
    """Damage one file in a node's data directory. Returns what was done, or None if there is nothing of this kind there."""
    segments, indexes = _segments(data, files), sorted(data.glob(files.indexes))
    newest = {path.parent: path for path in segments}
    match kind:
        case Damage.CLOSED_SEGMENT:
            found = [path for path in segments if path != newest[path.parent]]
        case Damage.OPEN_SEGMENT | Damage.LAST_FRAME:
            found = list(newest.values())
        case Damage.INDEX:
            found = [path for path in indexes if path.stat().st_size]
        case Damage.NO_INDEX:
            found = indexes
        case _:
            assert_never(kind)
    if not found:
        return None
    path = rng.choice(found)
    if kind is Damage.NO_INDEX:
        path.unlink()
        return f"{path.relative_to(data)} removed"
    return _flip(data, path, rng, last=LAST_BYTES if kind is Damage.LAST_FRAME else None)


def is_damageable(data: Path, files: LogFiles) -> bool:
    """Returns True if anything is there that `damage` could be done to."""
    return bool(_segments(data, files))


def vanish(data: Path, files: LogFiles, kind: Absence, kept: Collection[str], rng: random.Random) -> str | None:
    """Remove one thing, never a name in `kept` (another disk). Returns what was removed, or None if nothing fits."""
    found = vanishable(data, files, kind, kept)
    if kind is Absence.DISK:
        return f"{empty_disk(data, kept):,} bytes removed" if found else None
    if not found:
        return None
    path = max(found, key=_weight) if rng.random() < FULLEST_CHANCE else rng.choice(found)
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink()
    return f"{path.relative_to(data)} removed"


def vanishable(data: Path, files: LogFiles, kind: Absence, kept: Collection[str]) -> list[Path]:
    """Returns what is there of a kind that could be gone."""
    found = [path for pattern in _patterns(files, kind) for path in sorted(data.glob(pattern))]
    if kind is Absence.CLOSED_SEGMENT:
        newest = {path.parent: path for path in found}
        found = [path for path in found if path != newest[path.parent]]
    return [path for path in found if path.relative_to(data).parts[0] not in kept]


def _weight(path: Path) -> int:
    """Returns how many bytes a directory holds, and that of a file."""
    return sum(each.stat().st_size for each in (path if path.is_dir() else path.parent).rglob("*") if each.is_file())


def _patterns(files: LogFiles, kind: Absence) -> tuple[str, ...]:
    match kind:
        case Absence.COPY:
            return files.copies
        case Absence.CLOSED_SEGMENT | Absence.SEGMENT:
            return (files.segments,)
        case Absence.CHECKPOINT:
            return files.checkpoints
        case Absence.INDEX:
            return (files.indexes,)
        case Absence.DISK:
            return ("*",)
        case _:
            assert_never(kind)


def empty_disk(data: Path, kept: Collection[str]) -> int:
    """Remove everything in a data directory but the names in `kept`. Returns how many bytes the files held."""
    removed = 0
    for path in data.iterdir() if data.is_dir() else ():
        if path.name in kept:
            continue
        removed += sum(each.stat().st_size for each in (path, *path.rglob("*")) if each.is_file())
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink()
    return removed


# -------------------------------------------------------------------- what is seen of it

Listing = Mapping[str, tuple[int, int]]
"""Of each file below a directory its size and the checksum of its content."""


def list_files(data: Path) -> Listing:
    """Returns the files as they are now; of a node that is down."""
    return {str(path.relative_to(data)): _content(path) for path in sorted(data.rglob("*")) if path.is_file()}


def _content(path: Path) -> tuple[int, int]:
    size, checksum = 0, 0
    with path.open("rb") as file:
        while chunk := file.read(READ_BYTES):
            size, checksum = size + len(chunk), zlib.crc32(chunk, checksum)
    return size, checksum


def differences(before: Listing, after: Listing) -> str:
    """Returns which files are gone, changed or new, in words; empty if none is."""
    lines = []
    for what, names in (
        ("gone", before.keys() - after.keys()),
        ("changed", {name for name in before.keys() & after.keys() if before[name] != after[name]}),
        ("new", after.keys() - before.keys()),
    ):
        if names:
            first = sorted(names)[:DIFFERENCES_SHOWN]
            more = f" and {len(names) - len(first)} more" if len(names) > len(first) else ""
            lines.append(f"{what}: {', '.join(first)}{more}")
    return "; ".join(lines)


# -------------------------------------------------------------------- damage


def _segments(data: Path, files: LogFiles) -> list[Path]:
    """Those that hold something."""
    return [path for path in sorted(data.glob(files.segments)) if path.stat().st_size]


def _flip(data: Path, path: Path, rng: random.Random, *, last: int | None = None) -> str:
    """Flip one bit of a file, among its `last` bytes if that is given."""
    size = path.stat().st_size
    position = rng.randrange(0 if last is None else max(0, size - last), size)
    bit = rng.randrange(8)
    with path.open("r+b") as file:
        file.seek(position)
        (byte,) = file.read(1)
        file.seek(position)
        file.write(bytes([byte ^ 1 << bit]))
    return f"{path.relative_to(data)}: bit {bit} of byte {position} flipped"
