"""Finds missing files of a log whose loss recovery could not notice, so that it would open a new or a shorter log.

Recovery notices a missing segment by its neighbours, by its sidecar or by the durable-end checkpoint. It notices
nothing if all of these are missing, or if the checkpoint is missing and the log ends early. But a log that was opened
once has a checkpoint and a segment, both durable with the flush that follows. So an owner that knows that there was a
log calls `missing_files` first.
"""

import contextlib
from collections.abc import Collection

from log import mark
from log.disk import Disk, rename_file, replace_file
from log.salvage import PLAN_NAME
from log.segment import RESET_SUFFIX, SEGMENT_SUFFIX


def missing_files(disk: Disk, directory: str, *, log_id: int) -> str | None:
    """Returns what is missing of a log that was flushed in `directory` before; None if recovery would notice it.

    Reads names and the durable-end checkpoint, changes nothing. Raises what the disk raises.
    """
    names = disk.list_directory(directory)
    if PLAN_NAME in names:
        return None  # a repair was interrupted: its plan vouches for the log until it is done
    content = b""
    if mark.NAME in names:
        with contextlib.closing(disk.open(f"{directory}/{mark.NAME}", create=False)) as file:
            content = file.read_at(0, 2 * mark.SLOT_BYTES)
    if not any(content):
        return f"the checkpoint of its durable end (`{mark.NAME}`)"
    slots = [content[at : at + mark.SLOT_BYTES] for at in (0, mark.SLOT_BYTES)]
    marks = [found[1] for slot in slots if (found := mark.decode(slot, log_id=log_id)) is not None]
    if not any(name.endswith((SEGMENT_SUFFIX, RESET_SUFFIX)) for name in names) and not any(
        each.durable_end for each in marks
    ):
        return f"every file of its log (`*{SEGMENT_SUFFIX}`)"
    return None


LOST_NAME = "lost"
"""A file of this name: the directory's content was set aside, and its owner has yet to learn its floor."""
ASIDE_SUFFIX = ".lost"


def set_aside(disk: Disk, directory: str, *, keep: Collection[str]) -> None:
    """Give every file of the log another name, `*.lost`, so that a new one is made next; those in `keep` stay.

    `LOST_NAME` is durable before the first name changes, and the durable-end checkpoint goes next: a crash at any
    moment leaves what this call was made for, or a directory that `missing_files` finds incomplete. What was set aside
    before is replaced. The caller holds the lock.
    """
    replace_file(disk, directory, LOST_NAME, b"\n")
    names = disk.list_directory(directory)
    moved = [name for name in names if name not in keep and name != LOST_NAME and not name.endswith(ASIDE_SUFFIX)]
    for name in sorted(moved, key=lambda name: name != mark.NAME):
        rename_file(disk, directory, name, name + ASIDE_SUFFIX)


def was_set_aside(disk: Disk, directory: str) -> bool:
    """Returns whether what the directory had held was set aside, and `forget_loss` was not called since."""
    return disk.exists(f"{directory}/{LOST_NAME}")


def forget_loss(disk: Disk, directory: str) -> None:
    """The owner has learned what it must not go back behind; what was set aside stays, as evidence."""
    disk.remove(f"{directory}/{LOST_NAME}")
