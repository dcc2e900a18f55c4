"""The durable end of a log, written down when it is closed cleanly.

Frames record how much was durable before them, so only the last flush of a log's life has no later frame to witness it.
The checkpoint is that witness: without it, damage in the last durable frames would look like a torn tail.

A missing checkpoint is normal (the last end was a crash). An old one is still true: the durable end never falls.
"""

import struct

from log.disk import Disk, replace_file
from log.frame import Address, checksum

NAME = "checkpoint"
_MAGIC = b"QLCP"
_VERSION = 1
_LAYOUT = struct.Struct("<4sBxxxQQ")
_BYTES = _LAYOUT.size + 4


class DamagedCheckpoint(Exception):
    """The file is not a whole checkpoint of this log."""


def encode(log_id: int, durable_end: int) -> bytes:
    """The checkpoint's content: fields, then their CRC-32C."""
    fields = _LAYOUT.pack(_MAGIC, _VERSION, log_id, durable_end)
    return fields + checksum(fields).to_bytes(4, "little")


def decode(content: bytes, log_id: int) -> Address:
    """The durable end that was recorded; `DamagedCheckpoint` unless the content is whole and of this log."""
    if len(content) != _BYTES or checksum(content[: _LAYOUT.size]) != int.from_bytes(content[_LAYOUT.size :], "little"):
        raise DamagedCheckpoint
    magic, version, owner, durable_end = _LAYOUT.unpack_from(content)
    if (magic, version, owner) != (_MAGIC, _VERSION, log_id):
        raise DamagedCheckpoint
    return Address(durable_end)


def write(disk: Disk, directory: str, *, log_id: int, durable_end: int) -> None:
    """Replace the checkpoint, durably."""
    replace_file(disk, directory, NAME, encode(log_id, durable_end))
