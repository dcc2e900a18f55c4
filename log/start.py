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
        48      8  bytes of the payload
        56      4  CRC-32C of the payload
        60      4  CRC-32C of all before it
        64      -  payload: the owner's word about what left the log

`SegmentedLog.reset` writes one for a log that forgets everything it holds: then the first segment is a new one, which has its
name only behind the witness. Until then it is told by its other name (`segment.RESET_SUFFIX`).
"""

import contextlib
import struct
from collections.abc import Iterator

import attrs

from log.disk import Disk, File, rename_file
from log.errors import CorruptLog, NoSpace
from log.frame import Address, checksum
from log.index import LogTail

NAME = "start"
_MAGIC = b"QLST"
_VERSION = 2
_LAYOUT = struct.Struct("<4sB3xQQQQQQI")
_HEAD_BYTES = _LAYOUT.size + 4
_SCRATCH_NAME = f"{NAME}.next"
"""Room for the next one, which is written here first. A start does not remove it: a full disk must not take the room back."""

_UNTOUCHED = "only `start` is hurt, not the segments"

_ORIGIN = Address(0)
_NOTHING = LogTail()


@attrs.frozen
class Start:
    """The first segment begins at `base`; `before` is the end of what left the log, `payload` the owner's word about that."""

    base: Address = _ORIGIN
    before: LogTail = _NOTHING
    payload: bytes = attrs.field(default=b"", repr=lambda payload: f"<{len(payload)} bytes>")

    def is_met(self, lowest: int | None, last_index: int) -> bool:
        """Whether frames go on where the log begins: of `lowest` index that they write or cut from, up to `last_index`.

        Frames that do not had followed entries of older segments, and were replaced before those left. What replaced them was
        durable by then, so only damage takes it from them.
        """
        first_index = self.before.last_index + 1
        return lowest == first_index or last_index < first_index

    def without_payload(self) -> "Start":
        """The same place, without a word."""
        return Start(self.base, self.before)


def read(disk: Disk, directory: str, *, log_id: int) -> Start:
    """Where the log begins. `CorruptLog` if that was written down and cannot be read."""
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
            path, _HEAD_BYTES, f"what is said of the log before its first index cannot be read; {_UNTOUCHED}"
        )
    return Start(Address(base), LogTail(*before), payload)


def keep_room(disk: Disk, directory: str, payload_bytes: int) -> None:
    """Take room for the next one, with a payload of this size; `NoSpace` leaves what was kept."""
    path, size = f"{directory}/{_SCRATCH_NAME}", _HEAD_BYTES + payload_bytes
    with contextlib.closing(disk.open(path, create=True)) as file:
        kept = file.size()
        if kept < size:
            with _giving_back(disk, path, file, kept):
                file.reserve(size)
                file.cut(size)


def prepare(disk: Disk, directory: str, start: Start, *, log_id: int) -> None:
    """Write all that needs room; the one before still holds. `NoSpace` leaves the room that was kept."""
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
        checksum(payload),
    )
    head = fields + checksum(fields).to_bytes(4, "little")
    path, size = f"{directory}/{_SCRATCH_NAME}", len(head) + len(payload)
    with contextlib.closing(disk.open(path, create=True)) as file, _giving_back(disk, path, file, file.size()):
        file.reserve(size)
        file.write_at(0, [head, payload])
        file.cut(size)
        file.sync()


def commit(disk: Disk, directory: str) -> None:
    """What was prepared holds, durably. If this fails, nobody knows which one does, the one before or this."""
    rename_file(disk, directory, _SCRATCH_NAME, NAME)


@contextlib.contextmanager
def _giving_back(disk: Disk, path: str, file: File, kept: int) -> Iterator[None]:
    """What meets a full disk takes no more than was `kept`, and no less."""
    try:
        yield
    except NoSpace:
        if kept:
            file.cut(kept)
        else:
            disk.remove(path)
        raise
