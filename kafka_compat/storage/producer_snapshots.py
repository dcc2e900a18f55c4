"""Snapshots of a log's producers and transactions at some offset, next to the log, which spare a restart reading it all.

A snapshot is a hint. A missing, torn or damaged one is ignored in favour of an older one, or none; the headers of the
batches behind it complete the state. A file is named by its offset, and holds msgpack followed by a CRC-32C:

    [version, {producer id: [epoch, [[first sequence, last sequence, last offset, timestamp], … up to 5]]},
     {producer id: coordinator epoch}, {producer id: first offset of its open transaction},
     [[first offset, marker's offset] of an ending transaction, …],
     [[producer id, first offset, marker's offset] of an aborted transaction, …]]

Version 1 had no transactions.

A snapshot must never stand for a log that was cut below its offset and went on in another way. So snapshots above the
cut are removed, durably, before the log is cut.
"""

import contextlib
from collections.abc import Iterable
from typing import Final

import attrs
import msgpack

from kafka_compat.markers import read_marker
from kafka_compat.protocol.batch_header import CONTROL, TRANSACTIONAL, BatchHeader
from log.disk import Disk
from log.errors import NoSpace
from log.frame import checksum
from raft.net.decoder import Buffer

KeptBatch = tuple[int, int, int, int]
"""First sequence, last sequence, last offset, newest timestamp in ms."""


@attrs.define
class KeptProducers:
    """The producers and transactions of one log, as they are kept on the disk. Offsets are inclusive."""

    by_id: dict[int, tuple[int, tuple[KeptBatch, ...]]] = attrs.field(factory=dict)
    """By producer id: its epoch, and the last batches of that epoch, oldest first, at most `KEPT_BATCHES`."""
    coordinator_epochs: dict[int, int] = attrs.field(factory=dict)
    """By producer id: the epoch of the coordinator that wrote its newest marker."""
    open: dict[int, int] = attrs.field(factory=dict)
    """By producer id: the first offset of its open transaction."""
    ending: list[tuple[int, int]] = attrs.field(factory=list)
    """First offset and marker's offset of transactions whose marker may not be committed."""
    aborted: list[tuple[int, int, int]] = attrs.field(factory=list)
    """Producer id, first offset and marker's offset of aborted transactions, in the order of the markers."""


KEPT_BATCHES: Final = 5
SNAPSHOTS_MAX: Final = 2
SUFFIX: Final = ".producers"
_VERSION: Final = 2
_PLAIN_VERSION: Final = 1
_SEQUENCES: Final = 1 << 31


def replay_into(producers: KeptProducers, batches: Iterable[tuple[BatchHeader, Buffer]]) -> None:
    """Add the producers of these batches of the log to `producers`, without validation.

    Every transaction that ends in them counts as ending: the reader knows what is committed.
    """
    for header, batch in batches:
        if header.producer_id < 0:
            continue
        if header.attributes & (TRANSACTIONAL | CONTROL):
            _replay_transaction(producers, header, batch)
        if header.base_sequence < 0:
            continue
        epoch, kept = producers.by_id.get(header.producer_id, (header.producer_epoch, ()))
        if epoch != header.producer_epoch:
            kept = ()
        last_sequence = (header.base_sequence + header.last_offset_delta) % _SEQUENCES
        newest = (header.base_sequence, last_sequence, header.last_offset, header.max_timestamp)
        producers.by_id[header.producer_id] = header.producer_epoch, (*kept, newest)[-KEPT_BATCHES:]


def _replay_transaction(producers: KeptProducers, header: BatchHeader, batch: Buffer) -> None:
    producer_id, offset = header.producer_id, header.base_offset
    epoch, kept = producers.by_id.get(producer_id, (header.producer_epoch, ()))
    if not header.is_control:
        producers.open.setdefault(producer_id, offset)
        if header.base_sequence >= 0:
            return
    elif (marker := read_marker(header, batch)) is not None:
        producers.coordinator_epochs[producer_id] = marker.coordinator_epoch
        first = producers.open.pop(producer_id, None)
        if first is not None:
            producers.ending.append((first, offset))
            if not marker.commits:
                producers.aborted.append((producer_id, first, offset))
    else:
        return
    producers.by_id[producer_id] = header.producer_epoch, kept if epoch == header.producer_epoch else ()


def encode_producers(producers: KeptProducers) -> bytes:
    """Returns the content of a snapshot."""
    content: bytes = msgpack.packb([_VERSION, *attrs.astuple(producers, recurse=False)])
    return content + checksum(content).to_bytes(4, "little")


def decode_producers(content: bytes) -> KeptProducers | None:
    """Returns the content of a snapshot, or None unless it is whole and of a known version."""
    if len(content) < 4 or checksum(memoryview(content)[:-4]) != int.from_bytes(content[-4:], "little"):
        return None
    version, producers, *rest = msgpack.unpackb(memoryview(content)[:-4], strict_map_key=False, use_list=False)
    by_id = {int(each): (epoch, batches) for each, (epoch, batches) in producers.items()}
    if version == _PLAIN_VERSION:
        return KeptProducers(by_id)
    if version != _VERSION:
        return None
    coordinator_epochs, open_, ending, aborted = rest
    return KeptProducers(by_id, coordinator_epochs, open_, list(ending), list(aborted))


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

    def newest(self) -> tuple[int, KeptProducers] | None:
        """Returns the newest whole snapshot and its offset, or None."""
        for offset in reversed(self._offsets):
            with contextlib.closing(self._disk.open(self._path(offset), create=False)) as file:
                producers = decode_producers(file.read_at(0, file.size()))
            if producers is not None:
                return offset, producers
        return None

    def write(self, offset: int, producers: KeptProducers) -> None:
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
