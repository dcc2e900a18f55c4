"""The parts that a log of a store consists of, in one small file that is replaced as a whole.

Every change to a log except an append is one replacement of its manifest: a segment is sealed, the log is cut, its
start moves, segments are exchanged for rewritten ones. So a crash leaves the log as it was before or after, and files
that no manifest names are leftovers. Sealed segments end at the byte written here, whatever follows.

Appends go to the *open* segments: the one at `open_base`, and those that follow it without a gap of addresses until a
later manifest seals them. An address is never used for two different writes.
"""

import struct
from collections.abc import Sequence
from typing import Self

import attrs

from log.disk import Disk, read_file, replace_file
from log.epoch_cache import EpochStart
from log.errors import CorruptLog
from log.frame import Address, checksum
from log.segment import SEGMENT_SUFFIX, segment_name

NAME = "manifest"
DELETED_NAME = "deleted"
"""The name that a manifest has once its log is deleted."""
ORIGIN = Address(0)
_MAGIC = b"QLSM"
_VERSION = 1
_HEAD = struct.Struct("<4sB3xQQQQQII")
_SEGMENT = struct.Struct("<QQQQQ")
_EPOCH = struct.Struct("<QQ")


@attrs.frozen
class SealedSegment:
    """A segment that nothing is appended to any more. `generation` is 0, or that of the rewriting that made it.

    It holds the batches from `first_offset` on; `newest_ms` is their newest timestamp, 0 = none.
    """

    base: Address
    generation: int
    size_bytes: int
    first_offset: int
    newest_ms: int

    @property
    def name(self) -> str:
        """The name of its file."""
        return file_name(self.base, self.generation)


def file_name(base: int, generation: int) -> str:
    """Returns the name of a segment's file."""
    return f"{base:020d}-{generation}{SEGMENT_SUFFIX}" if generation else segment_name(base)


@attrs.frozen(kw_only=True)
class Manifest:
    """`version` grows with each one. The open segments begin at `open_base`, with `open_offset`.

    `epochs` are those that began before `open_offset`; an epoch's `first_index` is an offset here.
    """

    log_id: int
    version: int = 1
    start_offset: int = 0
    open_base: Address = ORIGIN
    open_offset: int = 0
    sealed: Sequence[SealedSegment] = ()
    epochs: Sequence[EpochStart] = ()

    def encode(self) -> bytes:
        """Returns the content of the file; little-endian, with a CRC-32C of all before it at its end."""
        parts = [
            _HEAD.pack(
                _MAGIC,
                _VERSION,
                self.log_id,
                self.version,
                self.start_offset,
                self.open_base,
                self.open_offset,
                len(self.sealed),
                len(self.epochs),
            )
        ]
        parts += [
            _SEGMENT.pack(each.base, each.generation, each.size_bytes, each.first_offset, each.newest_ms)
            for each in self.sealed
        ]
        parts += [_EPOCH.pack(each.epoch, each.base_offset) for each in self.epochs]
        content = b"".join(parts)
        return content + checksum(content).to_bytes(4, "little")

    @classmethod
    def decode(cls, content: bytes) -> Self | None:
        """Returns the manifest in a file; None unless it is whole and of this version."""
        if len(content) < _HEAD.size + 4 or checksum(content[:-4]) != int.from_bytes(content[-4:], "little"):
            return None
        magic, version, log_id, number, start, open_base, open_offset, segments, epochs = _HEAD.unpack_from(content)
        end = _HEAD.size + segments * _SEGMENT.size
        if (magic, version) != (_MAGIC, _VERSION) or len(content) != end + epochs * _EPOCH.size + 4:
            return None
        return cls(
            log_id=log_id,
            version=number,
            start_offset=start,
            open_base=Address(open_base),
            open_offset=open_offset,
            sealed=tuple(
                SealedSegment(Address(base), *rest) for base, *rest in _SEGMENT.iter_unpack(content[_HEAD.size : end])
            ),
            epochs=tuple(EpochStart(epoch, offset, offset) for epoch, offset in _EPOCH.iter_unpack(content[end:-4])),
        )

    def write(self, disk: Disk, directory: str) -> None:
        """Replace the manifest of the log in `directory` by this one, durably.

        Raises `NoSpace` on a full disk, and keeps the old one.
        """
        replace_file(disk, directory, NAME, self.encode())


def read_manifest(disk: Disk, directory: str, *, log_id: int) -> Manifest:
    """Returns the manifest in a log's directory. Raises `CorruptLog` if it is missing, damaged or another log's."""
    path = f"{directory}/{NAME}"
    content = read_file(disk, path)
    if content is None:
        raise CorruptLog(path, 0, "the manifest is missing")
    manifest = Manifest.decode(content)
    if manifest is None:
        raise CorruptLog(path, 0, "the manifest is damaged, or not of this version")
    if manifest.log_id != log_id:
        raise CorruptLog(path, 0, f"the manifest is of another log ({manifest.log_id}, not {log_id})")
    return manifest
