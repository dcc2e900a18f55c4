"""Where a log begins, once segments have left it: the witness that they were retired and not lost.

It is written, durably, before the first of their files loses its name, and only after everything was synced that the log
held when it was trimmed. So a crash finds the log as it was before or after: segments that lie before the start are
leftovers, whichever of them are still there; a first segment that is missing without such a witness is damage.

    offset  bytes  field, little-endian
         0      4  magic `QLST`
         4      1  format version
         5      3  reserved, 0
         8      8  log_id
        16      8  base: the address of the first segment
        24      8  the index before the first
        32      8  its epoch
        40      8  the offset that the first index begins with
        48      4  CRC-32C of all before it
"""

import contextlib
import struct

import attrs

from log.disk import Disk, replace_file
from log.errors import CorruptLog
from log.frame import Address, checksum
from log.index import Tail

NAME = "start"
_MAGIC = b"QLST"
_VERSION = 1
_LAYOUT = struct.Struct("<4sB3xQQQQQ")


_ORIGIN = Address(0)
_NOTHING = Tail()


@attrs.frozen
class Start:
    """The first segment begins at `base`; `before` is the end of what left the log."""

    base: Address = _ORIGIN
    before: Tail = _NOTHING


def read(disk: Disk, directory: str, *, log_id: int) -> Start:
    """Where the log begins. `CorruptLog` if that was written down and cannot be read."""
    path = f"{directory}/{NAME}"
    if not disk.exists(path):
        return Start()
    with contextlib.closing(disk.open(path, create=False)) as file:
        content = file.read_at(0, file.size())
    fields = content[:-4]
    if len(fields) != _LAYOUT.size or checksum(fields) != int.from_bytes(content[-4:], "little"):
        raise CorruptLog(path, 0, "where the log begins cannot be read")
    magic, version, owner, base, *before = _LAYOUT.unpack(fields)
    if (magic, version, owner) != (_MAGIC, _VERSION, log_id):
        raise CorruptLog(path, 0, f"it is not of this version, or of another log than {log_id}")
    return Start(Address(base), Tail(*before))


def write(disk: Disk, directory: str, start: Start, *, log_id: int) -> None:
    """Replace it, durably. `NoSpace` leaves the one before."""
    before = start.before
    fields = _LAYOUT.pack(_MAGIC, _VERSION, log_id, start.base, before.last_index, before.last_epoch, before.end_offset)
    replace_file(disk, directory, NAME, fields + checksum(fields).to_bytes(4, "little"))
