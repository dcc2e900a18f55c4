"""The durable-end checkpoint (`Mark`, file `durable`): how far the log is durable, recorded after each flush.

Each frame records how much was durable before it, so the frames alone cannot distinguish the last flushed ones from the
torn tail of a write that was never acknowledged. The checkpoint can: it holds the durable end, where the log ended
there, and the newest state of the owner below it, so that both survive damage to the log.

It is not synced with the flush that it records, and costs one small write. After a kill it is exact, because the page
cache survives. After a power cut it may be older, which is still true: it is written only after the sync that it
records, and the durable end never falls. Two slots are written in turn, so if one is torn or damaged the other holds
the checkpoint before it. It is synced when a log is opened, repaired and closed.

    offset  bytes  field, little-endian
         0      4  magic `QLDM`
         4      1  format version
         5      3  reserved, 0
         8      8  log_id
        16      8  sequence: the greater one of both slots counts
        24      8  durable_end
        32      8  last_index of the log that ends there
        40      8  last_epoch
        48      4  bytes of the newest state below it; 2^32 - 1 = there is none, 2^32 - 2 = it is too long to be kept here
        52      -  that state
         -      4  CRC-32C of all before it
"""

import struct
from typing import Final, Self

from log.disk import Disk, File
from log.frame import Address, checksum
from log.values import frozen

NAME = "durable"
SLOT_BYTES = 512
STATE_BYTES_MAX = 400
"""A longer state is not kept here, only in its frame."""
_MAGIC = b"QLDM"
_VERSION = 1
_LAYOUT = struct.Struct("<4sB3xQQQQQI")
_NO_STATE: Final = 2**32 - 1
_LONG_STATE: Final = 2**32 - 2


@frozen
class Mark:
    """A durable-end checkpoint.

    Of the log below `durable_end`: its last index (0 = none) and epoch, and the newest state.

    `state` is None if there is none; `state_kept` is false if there is one that is too long for the checkpoint.
    """

    durable_end: Address
    last_index: int
    last_epoch: int
    state: bytes | None
    state_kept: bool = True

    @classmethod
    def of(cls, durable_end: Address, last_index: int, last_epoch: int, state: bytes | None) -> Self:
        """Returns a checkpoint that keeps the state if it is short enough."""
        kept = state is None or len(state) <= STATE_BYTES_MAX
        return cls(durable_end, last_index, last_epoch, state if kept else None, kept)


def encode(mark: Mark, *, log_id: int, sequence: int) -> bytes:
    """Returns the content of a slot."""
    state = mark.state or b""
    size = len(state) if mark.state is not None else _NO_STATE if mark.state_kept else _LONG_STATE
    fields = _LAYOUT.pack(_MAGIC, _VERSION, log_id, sequence, mark.durable_end, mark.last_index, mark.last_epoch, size)
    content = fields + state
    return content + checksum(content).to_bytes(4, "little")


def decode(content: bytes, *, log_id: int) -> tuple[int, Mark] | None:
    """Returns the sequence and the checkpoint of a slot; None unless it is whole and of this log."""
    if len(content) < _LAYOUT.size + 4:
        return None
    magic, version, owner, sequence, durable_end, last_index, last_epoch, size = _LAYOUT.unpack_from(content)
    if (magic, version, owner) != (_MAGIC, _VERSION, log_id):
        return None
    end = _LAYOUT.size + (size if size <= STATE_BYTES_MAX else 0)
    if checksum(content[:end]) != int.from_bytes(content[end : end + 4], "little"):
        return None
    state = content[_LAYOUT.size : end] if size <= STATE_BYTES_MAX else None
    return sequence, Mark(Address(durable_end), last_index, last_epoch, state, size != _LONG_STATE)


class MarkFile:
    """The file of the durable-end checkpoint. For one thread at a time; raises what the disk raises."""

    def __init__(self, file: File, log_id: int) -> None:
        """Use `open`."""
        self._file = file
        self._log_id = log_id
        self.newest: Mark | None = None
        self.damaged = False
        """True if a slot was found that is neither whole nor blank."""
        self._sequence = 0
        for slot in range(2):
            content = file.read_at(slot * SLOT_BYTES, SLOT_BYTES)
            found = decode(content, log_id=log_id)
            self.damaged |= found is None and any(content)
            if found is not None and found[0] > self._sequence:
                self._sequence, self.newest = found

    @classmethod
    def open(cls, disk: Disk, directory: str, *, log_id: int) -> Self:
        """Returns the checkpoint's file in a log's directory, made if missing; the caller makes its name durable."""
        file = disk.open(f"{directory}/{NAME}", create=True)
        try:
            if file.size() < 2 * SLOT_BYTES:
                # All the room it will ever need, so that checkpoints can be written on a full disk.
                file.write_at(file.size(), [bytes(2 * SLOT_BYTES - file.size())])
            return cls(file, log_id)
        except BaseException:
            file.close()
            raise

    def write(self, mark: Mark) -> None:
        """Write `mark`, without a sync. What it records must be durable already."""
        self._sequence += 1
        content = encode(mark, log_id=self._log_id, sequence=self._sequence)
        self._file.write_at(self._sequence % 2 * SLOT_BYTES, [content])
        self.newest = mark

    def replace(self, mark: Mark) -> None:
        """Write `mark` to both slots, durably, because what they contained is no longer true."""
        self.write(mark)
        self.write(mark)
        self.sync()

    def sync(self) -> None:
        """Make it durable."""
        self._file.sync()

    def close(self) -> None:
        """Release the file."""
        self._file.close()
