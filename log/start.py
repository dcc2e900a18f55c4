"""The log-start checkpoint (`Start`, file `start`): where a log begins once segments have left it, so that they do not
count as lost.

It is written, durably, before the first of their files is removed, and only after everything was synced that the log
held when it was trimmed. So a crash leaves the log as it was before or after: segments before the start are leftovers,
whichever of them are still there; a first segment that is missing without a checkpoint is damage.

    offset  bytes  field, little-endian
         0      4  magic `QLST`
         4      1  format version
         5      3  reserved, 0
         8      8  log_id
        16      8  base: the address of the first segment
        24      8  the index before the first
        32      8  its epoch
        40      8  the offset that the first index begins with
        48      8  bytes of the payload
        56      4  CRC-32C of the payload
        60      4  CRC-32C of all before it
        64      -  payload: what the owner keeps in place of what left the log

`SegmentedLog.reset` writes one, too: then the first segment is a new one, which gets its name only after the checkpoint
is durable. Until then it has another name (`segment.RESET_SUFFIX`).
"""

import contextlib
import struct
from collections.abc import Iterator

import attrs
import crc32c

from log.disk import Disk, File, rename_file
from log.errors import CorruptLog, NoSpace
from log.frame import Address, Payload, buffers_of, checksum
from log.index import LogTail

NAME = "start"
_MAGIC = b"QLST"
_VERSION = 2
_LAYOUT = struct.Struct("<4sB3xQQQQQQI")
_HEAD_BYTES = _LAYOUT.size + 4
_SCRATCH_NAME = f"{NAME}.next"
"""Room for the next checkpoint, which is written here first.

Recovery keeps the file, because on a full disk its room would be lost.
"""

_UNTOUCHED = "only `start` is damaged, not the segments"

_STEP_BYTES = 4 * 1024 * 1024

_ORIGIN = Address(0)
_NOTHING = LogTail()


@attrs.frozen
class Start:
    """A log-start checkpoint.

    The first segment begins at `base`; `before` is the end of what left the log, `payload` stands for it.
    """

    base: Address = _ORIGIN
    before: LogTail = _NOTHING
    payload: Payload = attrs.field(default=b"", repr=lambda payload: f"<{len(payload)} bytes>")

    def is_met(self, lowest: int | None, last_index: int) -> bool:
        """Returns whether frames from index `lowest` (the lowest that they write or cut from) to `last_index` continue
        from the log start.

        Frames that do not had followed entries of older segments, and were replaced before those left. What replaced
        them was durable by then, so it can be missing only because of damage.
        """
        first_index = self.before.last_index + 1
        return lowest == first_index or last_index < first_index

    def without_payload(self) -> "Start":
        """Returns the checkpoint without its payload."""
        return Start(self.base, self.before)


def read(disk: Disk, directory: str, *, log_id: int) -> Start:
    """Returns where the log begins. Raises `CorruptLog` if there is a checkpoint that cannot be read."""
    path = f"{directory}/{NAME}"
    if not disk.exists(path):
        return Start()
    with contextlib.closing(disk.open(path, create=False)) as file:
        head = file.read_at(0, _HEAD_BYTES)
        payload = file.read_at(_HEAD_BYTES, max(0, file.size() - _HEAD_BYTES))
    fields = head[:-4]
    if len(fields) != _LAYOUT.size or checksum(fields) != int.from_bytes(head[-4:], "little"):
        raise CorruptLog(path, 0, f"where the log begins cannot be read; {_UNTOUCHED}")
    magic, version, owner, base, *before, payload_bytes, payload_crc = _LAYOUT.unpack(fields)
    if (magic, version, owner) != (_MAGIC, _VERSION, log_id):
        raise CorruptLog(path, 0, f"it is not of this version, or of another log than {log_id}")
    if (len(payload), checksum(payload)) != (payload_bytes, payload_crc):
        raise CorruptLog(
            path, _HEAD_BYTES, f"the description of the log before its first index cannot be read; {_UNTOUCHED}"
        )
    return Start(Address(base), LogTail(*before), payload)


def keep_room(disk: Disk, directory: str, payload_bytes: int) -> None:
    """Reserve room for the next checkpoint, with a payload of this size.

    Raises `NoSpace` and keeps the old room if there is no more.
    """
    path, size = f"{directory}/{_SCRATCH_NAME}", _HEAD_BYTES + payload_bytes
    with contextlib.closing(disk.open(path, create=True)) as file:
        kept = file.size()
        if kept < size:
            with _giving_back(disk, path, file, kept):
                file.reserve(size)
                file.cut(size)


def prepare(disk: Disk, directory: str, start: Start, *, log_id: int) -> None:
    """Write the next checkpoint under its temporary name; the one before is still in force.

    Raises `NoSpace` and keeps the room that was reserved if it is not enough.
    """
    before, payload = start.before, start.payload
    fields = _LAYOUT.pack(
        _MAGIC,
        _VERSION,
        log_id,
        start.base,
        before.last_index,
        before.last_epoch,
        before.end_offset,
        len(payload),
        _checksum(payload),
    )
    head = fields + checksum(fields).to_bytes(4, "little")
    path, size = f"{directory}/{_SCRATCH_NAME}", len(head) + len(payload)
    with contextlib.closing(disk.open(path, create=True)) as file, _giving_back(disk, path, file, file.size()):
        file.reserve(size)
        first, *others = list(_steps(payload)) or [memoryview(b"")]
        file.write_at(0, [head, first])
        at = len(head) + len(first)
        for piece in others:
            file.write_at(at, [piece])
            at += len(piece)
        file.cut(size)
        file.sync()


def _steps(payload: Payload) -> Iterator[memoryview]:
    """The payload in pieces so small that no call holds up other threads for long."""
    for buffer in buffers_of(payload):
        view = memoryview(buffer)
        for at in range(0, len(view), _STEP_BYTES):
            yield view[at : at + _STEP_BYTES]


def _checksum(payload: Payload) -> int:
    crc = 0
    for piece in _steps(payload):
        crc = crc32c.crc32c(piece, crc)
    return crc


def commit(disk: Disk, directory: str) -> None:
    """Put the prepared checkpoint in force, durably. If this fails, it is unknown which of the two a crash leaves."""
    rename_file(disk, directory, _SCRATCH_NAME, NAME)


@contextlib.contextmanager
def _giving_back(disk: Disk, path: str, file: File, kept: int) -> Iterator[None]:
    """A context that restores the file to the `kept` bytes of room if the disk is full."""
    try:
        yield
    except NoSpace:
        if kept:
            file.cut(kept)
        else:
            disk.remove(path)
        raise
