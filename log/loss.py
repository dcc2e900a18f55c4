"""Whether files of a log are missing whose loss recovery could not notice, so that it would open a new or a shorter log.

Recovery notices a missing segment by its neighbours, by its sidecar or by the durable-end checkpoint. It notices nothing if all of
these are missing, or if the checkpoint is missing and the log ends early. But a log that was opened once has a checkpoint and a
segment, both durable with the flush that follows. So an owner that knows that there was a log calls `missing_files` first.
"""

import contextlib

from log import mark
from log.disk import Disk
from log.salvage import PLAN_NAME
from log.segment import RESET_SUFFIX, SEGMENT_SUFFIX


def missing_files(disk: Disk, directory: str, *, log_id: int) -> str | None:
    """Returns what is missing of a log that was opened and flushed in `directory` before; None if recovery would notice all losses.

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
