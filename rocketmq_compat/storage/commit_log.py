"""The commit log of a broker: the records of all its topics, one after the other.

Offsets are *physical*: they count bytes. It is one log of a `LogStore`, whose batches take an offset for each of their
bytes. A batch has the epoch of the master that appended it first. So truncation, trims, epochs, flush rounds and
recovery come from `log`. Copies have the same bytes and epochs, but a slave joins several batches.

Appended records survive a kill at once (`ASYNC_FLUSH` may acknowledge then), and a power cut once they are below
`durable_offset` (`SYNC_FLUSH`). `truncate` and `reset` are durable when they return, `trim` with the next flush. One
thread owns the object. Every call raises `StorageFailed` after the disk has failed.
"""

from collections.abc import Sequence
from typing import Final

import attrs

from log.batch import StoredBatch
from log.byte_reader import CHECKED_BYTES, ByteReader
from log.errors import OffsetOutOfRange
from log.frame import HEADER_BYTES, Buffer, buffers_of, checksum
from log.log_facts import LogFacts
from log.retention import SegmentFacts
from log.store_log import StoreLog
from rocketmq_compat.record_layout import RECORD_BYTES_MIN, record_size
from rocketmq_compat.storage.recent_batches import RecentBatches

_RECORDS: Final = 0
_OPAQUE: Final = 1
"""The byte of a batch that is the owner's."""


class CommitLogReader:
    """Reads ranges of bytes, best in ascending order; made by `CommitLog.byte_reader`."""

    __slots__ = ("_older", "_recent")

    def __init__(self, recent: RecentBatches, older: ByteReader) -> None:
        """Use `CommitLog.byte_reader`."""
        self._recent = recent
        self._older = older

    def read(self, offset: int, size: int) -> memoryview | None:
        """Returns bytes as `ByteReader.read` does, from memory if they were appended not long ago."""
        found = self._recent.read(offset, size)
        return self._older.read(offset, size) if found is None else found


class CommitLog(LogFacts):
    """The commit log; made by `MessageStore`. Times in ms since 1970."""

    def __init__(self, log: StoreLog) -> None:
        super().__init__(log)
        self._recent = RecentBatches()

    # What the log holds

    @property
    def directory(self) -> str:
        """The directory of its files."""
        return self.store_log.directory

    def end_of_epoch(self, epoch: int) -> tuple[int, int] | None:
        """Returns the newest epoch not above `epoch`, and its end, or None without such an epoch."""
        return self.store_log.end_of_epoch(epoch)

    def segment_facts(self) -> list[SegmentFacts]:
        """Returns the facts of each segment for a retention rule, oldest first; an index is a physical offset here."""
        return self.store_log.segment_facts()

    def __repr__(self) -> str:
        return f"<CommitLog [{self.start_offset}, {self.end_offset}) durable={self.durable_offset}>"

    # Writing

    def reserve(self, payloads: Sequence[Buffer]) -> None:
        """Make sure that `append` has room for these batches. Raises `NoSpace` without the room."""
        self.store_log.reserve(sum([HEADER_BYTES + len(each) for each in payloads]))

    def reserve_bytes(self, size: int) -> None:
        """Make sure that a push of `size` bytes can be appended, in parts of `CHECKED_BYTES`. Raises `NoSpace`."""
        self.store_log.reserve(size + HEADER_BYTES * (2 + 2 * size // CHECKED_BYTES))

    def append(
        self, payloads: Sequence[Buffer], *, epoch: int, timestamp_ms: int, are_records: Sequence[bool] | None = None
    ) -> int:
        """Append batches one behind the other, in one write. Returns the new end. The buffers must not change any more.

        `timestamp_ms` is the newest store time in them. `are_records` states which of them are whole records (default:
        all), and is kept with each. Raises `ValueError` for an empty batch and for an epoch below the log's, and
        `NoSpace` on a full disk; the log is unchanged then.
        """
        end_offset = self.store_log.end_offset
        batches: list[StoredBatch] = []
        views = [memoryview(each) for each in payloads]
        for at, view in enumerate(views):
            tag = _RECORDS if are_records is None or are_records[at] else _OPAQUE
            batches.append(StoredBatch(end_offset, len(view), epoch, timestamp_ms, view, checksum(view), tag))
            end_offset += len(view)
        end_offset = self.store_log.append(batches)
        for stored, view in zip(batches, views, strict=True):
            self._recent.add(stored.base_offset, view)
        return end_offset

    def truncate(self, offset: int) -> int:
        """Cut every batch that ends after the physical offset.

        Returns the new end, which may be lower. Durable when it returns. Raises `OffsetOutOfRange` for an offset before
        the start; one after the end changes nothing.
        """
        self._recent.clear()
        return self.store_log.truncate(offset)

    def reset(self, offset: int) -> None:
        """Remove everything and go on at this physical offset, with any epoch. Durable when it returns."""
        self._recent.clear()
        self.store_log.reset(offset)

    def trim(self, offset: int) -> int:
        """Trim the log before the batch that holds this physical offset.

        Returns the new start. Durable with the next flush. Raises `OffsetOutOfRange` for an offset after the end; one
        before the start changes nothing.
        """
        if offset >= self.end_offset:
            return self.store_log.trim(offset)
        return self.store_log.trim(self.start_of_batch(offset)) if offset > self.start_offset else self.start_offset

    def roll(self) -> None:
        """Let the next batch begin a segment, unless the newest one is empty."""
        self.store_log.roll()

    def flush(self) -> int:
        """Make everything durable, in this thread. Returns the durable offset."""
        return self.store_log.flush()

    # Reading

    def start_of_batch(self, offset: int) -> int:
        """Returns the start of the batch that holds this physical offset. Raises `OffsetOutOfRange` without one."""
        batches = self.store_log.read(offset, 1)
        if not batches:
            raise OffsetOutOfRange(offset, self.start_offset, self.end_offset)
        return max(self.start_offset, batches[0].base_offset)

    def read(self, offset: int, bytes_max: int, end_offset: int | None = None) -> list[StoredBatch]:
        """Returns batches from this physical offset on, for a copy: at most `bytes_max` bytes, but at least one.

        All of them end at or below `end_offset`. If `offset` lies inside of a batch, only the rest of that is returned.
        Payloads are views of the bytes read, checked against their CRC. Raises `OffsetOutOfRange` before the start or
        after the end, and `CorruptLog` for damage.
        """
        batches = self.store_log.read(offset, bytes_max, end_offset)
        if batches and end_offset is not None and batches[-1].end_offset > end_offset:
            batches.pop()
        if batches and batches[0].base_offset < offset:
            first = batches[0]
            rest = memoryview(bytes(first.payload))[offset - first.base_offset :]
            batches[0] = attrs.evolve(
                first, base_offset=offset, span=len(rest), payload=rest, payload_crc=checksum(rest)
            )
        return batches

    def read_payloads(self, offset: int, bytes_max: int, end_offset: int) -> Sequence[Buffer]:
        """Returns the payloads of batches as `read` does, from memory if they were appended not long ago."""
        recent = self._recent.read_batches(offset, bytes_max, end_offset)
        if recent:
            return recent
        return [buffer for each in self.read(offset, bytes_max, end_offset) for buffer in buffers_of(each.payload)]

    @staticmethod
    def holds_records(batch: StoredBatch) -> bool:
        """Returns True if a batch of the log was appended as whole records."""
        return batch.tag == _RECORDS

    def byte_reader(self) -> "CommitLogReader":
        """Returns a reader of ranges of bytes. Not to be used once the log has changed."""
        return CommitLogReader(self._recent, self.store_log.byte_reader())

    def record_at(self, offset: int) -> memoryview | None:
        """Returns the record at this physical offset, or None if none begins there (`CommitLog.lookMessageByOffset`).

        Accepts any offset. Raises `CorruptLog` for damage.
        """
        if not self.start_offset <= offset < self.end_offset:
            return None
        reader = self.byte_reader()
        start = reader.read(offset, RECORD_BYTES_MIN)
        size = record_size(start, offset) if start is not None else None
        return reader.read(offset, size) if size is not None else None

    def message_at(self, offset: int) -> memoryview | None:
        """Returns the record like `record_at`, for an offset that a client has named.

        A body may contain a copy of a record for that very place, so the sizes of the records before it decide.
        """
        if not self.start_offset <= offset < self.end_offset:
            return None
        batch = self.store_log.read(offset, 1)[0]
        if not self.holds_records(batch):
            return None
        content = memoryview(bytes(batch.payload))
        at, wanted = 0, offset - batch.base_offset
        while at < wanted:
            at += int.from_bytes(content[at : at + 4], "big")
        if at != wanted:
            return None
        return content[at : at + int.from_bytes(content[at : at + 4], "big")]
