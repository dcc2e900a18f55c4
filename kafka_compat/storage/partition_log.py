"""The log of one partition: Kafka's record batches, one frame of a `StoreLog` each.

A leader gives a batch its offset and epoch, a follower keeps both; all other bytes stay as they are given. Appends become durable with the next flush round of the store. `truncate` and `reset` are durable when they
return. `trim` holds at once and is durable with the next round, to the exact offset.

One thread owns the object. Once the disk has failed under it, every call raises `StorageFailed`; other logs go on.
"""

from collections.abc import Iterator, Sequence
from typing import Final

from crc32c import crc32c

from kafka_compat.protocol.batch_header import HEADER_BYTES, LAYOUT, LENGTH_END, MAGIC, BatchHeader, assigned_start
from kafka_compat.records import first_record_since, newest_time_since
from kafka_compat.storage.producer_snapshots import KeptProducers, ProducerSnapshots, replay_into
from log.batch import StoredBatch
from log.disk import Disk
from log.frame import HEADER_BYTES as FRAME_HEADER_BYTES
from log.frame import Buffer, Pieces, checksum
from log.log_facts import LogFacts
from log.replacement import Replacement
from log.store_log import RESERVE_CHUNK_BYTES, StoreLog

SEGMENT_BYTES: Final = 1 << 30
"""Kafka's default of `segment.bytes`."""
SNAPSHOT_EVERY_BYTES: Final = 64 << 20
"""A snapshot of the producers is due after so many bytes, so that a restart reads at most these again."""
_ASSIGNED_BYTES: Final = 16
_WALK_BYTES: Final = 1 << 20
_unpack = LAYOUT.unpack_from


class PartitionLog(LogFacts):
    """The log of one partition; made by `BrokerStore`. Offsets are Kafka's, times are in ms since 1970."""

    def __init__(self, log: StoreLog, disk: Disk, *, segment_bytes: int = SEGMENT_BYTES) -> None:
        """Raises `StorageFailed` if the disk fails, `CorruptLog` if a batch of the producers' state is damaged."""
        super().__init__(log)
        self.segment_bytes = segment_bytes
        """A segment ends before the append that would make it longer (`segment.bytes`); may be changed at any time."""
        self.changes = 0
        """Grows whenever something leaves the log: by a truncation, a reset, a trim or a compaction."""
        self.lowest_cut = log.end_offset
        """The lowest end that the log has been cut to since a pass of compaction began."""
        self._active_bytes = log.segment_facts()[-1].size_bytes
        self._unsaved_bytes = 0
        self._snapshots = ProducerSnapshots(disk, log.directory)
        self._snapshots.remove_after(log.end_offset, cutting=False)
        self._producers = self.producers_on_disk()

    # What the log holds

    @property
    def name(self) -> str:
        """The name of the log in its store."""
        return self.store_log.name

    @property
    def last_epoch(self) -> int:
        """The leader epoch of the newest batch; -1 if the log has held none since it was made or reset."""
        return self.store_log.last_epoch if len(self.store_log.epochs) else -1

    def end_of_epoch(self, epoch: int) -> tuple[int, int] | None:
        """Returns the newest epoch not above `epoch`, and its end offset, or None without one (KIP-279)."""
        return self.store_log.end_of_epoch(epoch)

    def __repr__(self) -> str:
        return f"<PartitionLog {self.name} [{self.start_offset}, {self.end_offset}) durable={self.durable_offset}>"

    # Writing

    def reserve(self, batches: Sequence[Buffer]) -> None:
        """Make sure that an append of these batches has room; a segment that is full for them ends.

        Raises `NoSpace` without the room. The log holds what it held.
        """
        size = sum([FRAME_HEADER_BYTES + len(each) for each in batches])
        self._roll_for(size)
        self.store_log.reserve(size, ahead_bytes=min(self._active_bytes, RESERVE_CHUNK_BYTES))

    def append_as_leader(self, batches: Sequence[Buffer], leader_epoch: int) -> tuple[int, int]:
        """Append checked batches (see `check_batch`), one in each buffer, at the end.

        Returns the offset of the first, and the new end. Base offset and leader epoch are rewritten, all other bytes
        stay, and no batch is copied. The buffers may be used again after the return. Raises `ValueError` for bytes that
        are not a batch and for an epoch below the log's, and `NoSpace` on a full disk. The log is unchanged then.
        """
        base_offset = end_offset = self.store_log.end_offset
        stored: list[StoredBatch] = []
        size = 0
        for batch in batches:
            _, length, _, magic, _, _, delta, _, newest_ms, *_ = _fields(batch)
            if len(batch) != LENGTH_END + length or magic != MAGIC or delta < 0:
                raise ValueError(f"{len(batch)} bytes are not one batch: length {length}, magic {magic}, delta {delta}")
            start = assigned_start(length, end_offset, leader_epoch)
            rest = memoryview(batch)[_ASSIGNED_BYTES:]
            payload = Pieces((start, rest))
            crc = crc32c(rest, crc32c(start))
            stored.append(StoredBatch(end_offset, delta + 1, leader_epoch, max(newest_ms, 0), payload, crc))
            end_offset += delta + 1
            size += FRAME_HEADER_BYTES + len(batch)
        return base_offset, self._append(stored, size)

    def append_as_follower(self, batches: Sequence[Buffer]) -> tuple[int, int]:
        """Append batches as the leader has them, one in each buffer. Returns the offset of the first, and the new end.

        Gaps between batches are allowed, since the leader's log may be compacted. Raises `ValueError` for bytes that
        are not a batch or that do not follow the log (offset, epoch), and `NoSpace` on a full disk. After an error the
        log is unchanged.
        """
        stored: list[StoredBatch] = []
        size = 0
        for batch in batches:
            offset, length, epoch, magic, _, _, delta, _, newest_ms, *_ = _fields(batch)
            if len(batch) != LENGTH_END + length or magic != MAGIC or delta < 0 or epoch < 0:
                raise ValueError(f"{len(batch)} bytes are not one batch: length {length}, magic {magic}, delta {delta}")
            payload = batch if isinstance(batch, bytes) else memoryview(batch)
            stored.append(StoredBatch(offset, delta + 1, epoch, max(newest_ms, 0), payload, checksum(payload)))
            size += FRAME_HEADER_BYTES + len(batch)
        base_offset = stored[0].base_offset if stored else self.store_log.end_offset
        return base_offset, self._append(stored, size)

    def roll(self) -> None:
        """Let the next batch begin a segment, unless the newest one is empty."""
        self.store_log.roll()
        self._active_bytes = 0

    def truncate(self, offset: int) -> int:
        """Remove every batch that ends after `offset`.

        Returns the new end, which is lower if `offset` is inside a batch. The result is durable. An offset before the
        start leaves an empty log that goes on at `offset`, as in Kafka. An offset at or after the end changes nothing.
        A failure leaves the log as before or after.
        """
        if offset < self.start_offset:
            self.reset(offset)
        elif offset < self.end_offset:
            self.changes += 1
            # First, because a snapshot must not be taken for the state of what is appended next.
            self._snapshots.remove_after(self._start_of_batch(offset))
            self.store_log.truncate(offset)
            self._note_cut()
        return self.end_offset

    def reset(self, offset: int) -> None:
        """Remove everything and go on at `offset`, with any epoch. Durable when it returns."""
        self.changes += 1
        self._snapshots.remove_after(-1)
        self.store_log.reset(offset)
        self._note_cut()

    def trim(self, offset: int) -> int:
        """Move the start to `offset`, also inside a batch (DeleteRecords, retention).

        Returns the start, which never moves back. Durable with the next flush round. Raises `OffsetOutOfRange` for an
        offset after the end.
        """
        if offset > self.start_offset:
            self.changes += 1
        return self.store_log.trim(offset)

    # Reading

    def read(self, offset: int, bytes_max: int, end_offset: int | None = None) -> list[memoryview]:
        """Returns whole batches from the one that holds or follows `offset`: at most `bytes_max` bytes, but at least
        one batch.

        All of them end at or below `end_offset`. The views keep the bytes alive. Raises `OffsetOutOfRange` before the
        start and after the end, and `CorruptLog` for damage.
        """
        batches = self.store_log.read(offset, bytes_max, end_offset)
        if batches and end_offset is not None and batches[-1].end_offset > end_offset:
            batches.pop()
        return [_view(each) for each in batches]

    def headers(self, start: int | None = None, end: int | None = None) -> Iterator[BatchHeader]:
        """Yields the header of each batch, as `walk`."""
        return (header for header, _ in self.walk(start, end))

    def walk(self, start: int | None = None, end: int | None = None) -> Iterator[tuple[BatchHeader, memoryview]]:
        """Yields the header and the bytes of each batch that ends after `start` and begins before `end`; default: all.

        Raises the errors of `read`. A decider rebuilds its knowledge of the batches from them, after a truncation. The
        log must not change before the generator ends.
        """
        offset = max(self.start_offset, self.start_offset if start is None else start)
        end = self.end_offset if end is None else min(end, self.end_offset)
        while offset < end:
            batches = self.store_log.read(offset, _WALK_BYTES, end)
            if not batches:
                return
            for batch in batches:
                view = _view(batch)
                yield BatchHeader(*_unpack(view)), view
            offset = batches[-1].end_offset

    def walk_some(self, offset: int, bytes_max: int, end: int) -> list[tuple[BatchHeader, memoryview]]:
        """Returns the header and the bytes of the batches that `read` returns."""
        return [(BatchHeader(*_unpack(each)), each) for each in self.read(offset, bytes_max, end)]

    def find_time(self, timestamp_ms: int) -> tuple[int, int] | None:
        """Returns offset and timestamp of the first record at or after `timestamp_ms`, or None (ListOffsets).

        The caller compares with the high watermark.
        """
        offset = self.store_log.find_time(max(timestamp_ms, 0))
        while offset is not None and offset < self.end_offset:
            batches = self.store_log.read(offset, 1)
            if not batches:
                return None
            found = first_record_since(_view(batches[0]), timestamp_ms, self.start_offset)
            if found is not None:
                return found
            offset = batches[0].end_offset
        return None

    def find_newest_time(self) -> tuple[int, int] | None:
        """Returns offset and timestamp of the record with the greatest timestamp, or None (ListOffsets -3, KIP-734)."""
        first, *others = self.store_log.segment_facts()
        newest_ms = max((each.newest_ms or 0 for each in others), default=0)
        if (first.newest_ms or 0) > newest_ms:
            # What made the segment young may lie before the start, even in the batch that holds the start.
            offset = self.start_offset
            for batch in self.store_log.read(offset, 1, self.end_offset):
                if batch.base_offset < offset:
                    newest_ms = max(newest_ms, newest_time_since(_view(batch), offset))
                    offset = batch.end_offset
            until = others[0].first_index if others else self.end_offset
            newest_ms = max([newest_ms, *(each.max_timestamp for each in self.headers(offset, until) if each.count)])
        if self.start_offset >= self.end_offset:
            return None
        return self.find_time(newest_ms) or self.find_time(self._newest_of_records())

    def _newest_of_records(self) -> int:
        """Returns the newest time of a record, where a batch without records, left for its producer, is newer."""
        newest_ms = -1
        facts = self.store_log.segment_facts()
        ends = [each.first_index for each in facts[1:]] + [self.end_offset]
        for segment, end in sorted(
            zip(facts, ends, strict=True), key=lambda each: each[0].newest_ms or 0, reverse=True
        ):
            if (segment.newest_ms or 0) <= newest_ms:
                break
            times = [each.max_timestamp for each in self.headers(segment.first_index, end) if each.count]
            newest_ms = max([newest_ms, *times])
        return newest_ms

    # Producers

    def take_producers(self) -> KeptProducers:
        """Returns the producers that the log had when it was opened, once: the replica keeps them from then on."""
        producers, self._producers = self._producers, KeptProducers()
        return producers

    def producers_on_disk(self) -> KeptProducers:
        """Returns the producers in the newest snapshot and the batches behind it, for instance after a truncation."""
        at, producers = self._snapshots.newest() or (self.start_offset, KeptProducers())
        replay_into(producers, self.walk(at))
        start = self.start_offset
        producers.aborted = [each for each in producers.aborted if each[-1] >= start]
        return producers

    @property
    def snapshot_due(self) -> bool:
        """True if `write_snapshot` should be called, so that a restart has less to read."""
        return self._unsaved_bytes >= SNAPSHOT_EVERY_BYTES

    def write_snapshot(self, producers: KeptProducers) -> None:
        """Write a snapshot of the producers at the present log end. A full disk prevents it: a restart reads more then.

        It is written without a sync; a snapshot that a power cut tears is ignored.
        """
        self._unsaved_bytes = 0
        self._snapshots.write(self.end_offset, producers)

    # For retention and compaction

    def end_replacement(self, replacement: Replacement) -> None:
        """See `StoreLog.end_replacement`."""
        self.changes += 1
        self.store_log.end_replacement(replacement)

    # How it is done

    def _append(self, stored: Sequence[StoredBatch], size: int) -> int:
        self._roll_for(size)
        end_offset = self.store_log.append(stored)
        self._active_bytes += size
        self._unsaved_bytes += size
        return end_offset

    def _roll_for(self, size: int) -> None:
        if self._active_bytes + size > self.segment_bytes and self._active_bytes:
            self.roll()
            self._unsaved_bytes = SNAPSHOT_EVERY_BYTES

    def _note_cut(self) -> None:
        self.lowest_cut = min(self.lowest_cut, self.end_offset)
        self._active_bytes = self.store_log.segment_facts()[-1].size_bytes

    def _start_of_batch(self, offset: int) -> int:
        """Returns the end of the log after a cut at `offset`."""
        batches = self.store_log.read(offset, 1)
        return max(self.start_offset, min(offset, batches[0].base_offset)) if batches else offset


def _fields(batch: Buffer) -> tuple[int, ...]:
    """Returns the fields of a batch's header, in order."""
    if len(batch) < HEADER_BYTES:
        raise ValueError(f"{len(batch)} bytes are not one batch: shorter than a header")
    return _unpack(batch)


def _view(batch: StoredBatch) -> memoryview:
    assert isinstance(batch.payload, memoryview), "what is read is a view"
    return batch.payload
