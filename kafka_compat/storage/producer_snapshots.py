"""Snapshots of a log's producers at some offset, kept next to the log so that a restart need not read all of it.

A snapshot is a hint. A missing, torn or damaged one is ignored in favour of an older one, or none; the headers of the
batches behind it complete the state. A file is named by its offset, and holds msgpack followed by a CRC-32C:

    [version, {producer id: [epoch, [[first sequence, last sequence, last offset, timestamp], … up to 5]]}]

A snapshot must never stand for a log that was cut below its offset and went on in another way. So snapshots above the
cut are removed, durably, before the log is cut.
"""

import contextlib
from collections.abc import Iterable
from typing import Final

import msgpack

from kafka_compat.protocol.batch_header import BatchHeader
from log.disk import Disk
from log.errors import NoSpace
from log.frame import checksum

KeptBatch = tuple[int, int, int, int]
"""First sequence, last sequence, last offset, newest timestamp in ms."""
ProducerStates = dict[int, tuple[int, tuple[KeptBatch, ...]]]
"""By producer id: its epoch, and the last batches of that epoch, oldest first, at most `KEPT_BATCHES`."""

KEPT_BATCHES: Final = 5
SNAPSHOTS_MAX: Final = 2
SUFFIX: Final = ".producers"
_VERSION: Final = 1
_SEQUENCES: Final = 1 << 31


def replay_into(producers: ProducerStates, headers: Iterable[BatchHeader]) -> None:
    """Add the producers of these batches of the log to `producers`, without validation."""
    for header in headers:
        if header.producer_id < 0 or header.base_sequence < 0:
            continue
        epoch, batches = producers.get(header.producer_id, (header.producer_epoch, ()))
        if epoch != header.producer_epoch:
            batches = ()
        last_sequence = (header.base_sequence + header.last_offset_delta) % _SEQUENCES
        kept = (header.base_sequence, last_sequence, header.last_offset, header.max_timestamp)
        producers[header.producer_id] = header.producer_epoch, (*batches, kept)[-KEPT_BATCHES:]


def encode_producers(producers: ProducerStates) -> bytes:
    """Returns the content of a snapshot."""
    content: bytes = msgpack.packb([_VERSION, producers])
    return content + checksum(content).to_bytes(4, "little")


def decode_producers(content: bytes) -> ProducerStates | None:
    """Returns the content of a snapshot, or None unless it is whole and of a known version."""
    if len(content) < 4 or checksum(memoryview(content)[:-4]) != int.from_bytes(content[-4:], "little"):
        return None
    version, producers = msgpack.unpackb(memoryview(content)[:-4], strict_map_key=False, use_list=False)
    if version != _VERSION:
        return None
    return {int(each): (epoch, batches) for each, (epoch, batches) in producers.items()}


class ProducerSnapshots:
    """The snapshots of one log, in its directory."""

    def __init__(self, disk: Disk, directory: str) -> None:
        """Raises `StorageFailed` if the disk fails."""
        self._disk = disk
        self._directory = directory
        names = [each.removesuffix(SUFFIX) for each in disk.list_directory(directory) if each.endswith(SUFFIX)]
        self._offsets = sorted(int(each) for each in names if each.isascii() and each.isdigit())
        self._loose_names = True
        """True if a removed name may still come back after a power cut; after a restart that is unknown."""

    @property
    def offsets(self) -> list[int]:
        """The offsets of the snapshots, ascending."""
        return list(self._offsets)

    def newest(self) -> tuple[int, ProducerStates] | None:
        """Returns the newest whole snapshot and its offset, or None."""
        for offset in reversed(self._offsets):
            with contextlib.closing(self._disk.open(self._path(offset), create=False)) as file:
                producers = decode_producers(file.read_at(0, file.size()))
            if producers is not None:
                return offset, producers
        return None

    def write(self, offset: int, producers: ProducerStates) -> None:
        """Write a snapshot, without a sync, and remove the oldest ones. A full disk prevents the write."""
        try:
            with contextlib.closing(self._disk.open(self._path(offset), create=True)) as file:
                if offset not in self._offsets:
                    self._offsets.append(offset)
                file.cut(0)
                file.write_at(0, [encode_producers(producers)])
        except NoSpace:
            if self._disk.exists(self._path(offset)):
                self._remove(offset)
            return
        for old in self._offsets[:-SNAPSHOTS_MAX]:
            self._remove(old)

    def remove_after(self, offset: int, *, cutting: bool = True) -> None:
        """Remove the snapshots after `offset`, durably.

        A cut of the log also makes earlier removals durable, because those snapshots must not come back. If the log was
        only found to end there, none of them can be newer.
        """
        found = [each for each in self._offsets if each > offset]
        for at in found:
            self._remove(at)
        if found or (cutting and self._loose_names):
            self._disk.sync_directory(self._directory)
            self._loose_names = False

    def _remove(self, offset: int) -> None:
        self._disk.remove(self._path(offset))
        if offset in self._offsets:
            self._offsets.remove(offset)
        self._loose_names = True

    def _path(self, offset: int) -> str:
        return f"{self._directory}/{offset:020}{SUFFIX}"
