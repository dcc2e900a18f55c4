"""Compaction of the offsets topic: it keeps only the newest record of each key.

It reads the log below the high watermark, and rewrites the sealed segments there, from the first one on. A record
leaves when a newer one has its key, and is durable: a loss of power must not take both. A deletion (a record without
a value) leaves when it is older than `delete.retention.ms`, together with everything that it deleted. Offsets stay as
they are, so there are gaps. A batch with unreadable records stays as it is.

It must not read beyond the last stable offset: then all transactions in its reach are decided. Records of an aborted
one leave, and count for no key. The marker of a committed one leaves when it is as old as a deletion may be, and no
record of its transaction is left. Markers of aborted ones stay, because readers know those by them.
"""

import contextlib
import threading
from bisect import bisect_right
from collections.abc import Callable, Generator, Iterator, Sequence
from functools import partial
from typing import Final

import attrs

from kafka_compat.markers import read_marker
from kafka_compat.partition.model import AbortedTransaction
from kafka_compat.protocol.batch_header import BatchHeader, InvalidBatch, read_batch_header
from kafka_compat.records import KafkaRecord, encode_kept, read_records
from kafka_compat.storage.partition_log import PartitionLog
from log.batch import StoredBatch
from log.errors import LogError
from log.manifest import SealedSegment

KEYS_MAX: Final = 1 << 20
"""Keys held in memory in one pass; a log with more is compacted up to where they were reached."""
DIRTY_SHARE: Final = 0.5
"""A pass is due when so much of the sealed bytes was not looked at by the one before (`min.cleanable.dirty.ratio`)."""
_CHUNK_BYTES: Final = 1 << 20


@attrs.define
class _Transactions:
    """The transactions of a log, as one walk from its start sees them."""

    aborted: dict[int, list[tuple[int, int]]]
    """First offset and marker's offset of the aborted ones by producer id, ascending."""
    left: dict[int, int] = attrs.field(factory=dict)
    """By producer id: the records that stay of its transaction so far."""

    @classmethod
    def of(cls, aborted: Sequence[AbortedTransaction]) -> "_Transactions":
        """Returns them at the start of a walk."""
        by_producer: dict[int, list[tuple[int, int]]] = {}
        for each in aborted:
            by_producer.setdefault(each.producer_id, []).append((each.first_offset, each.last_offset))
        return cls(by_producer)

    def is_aborted(self, header: BatchHeader) -> bool:
        """Returns True if the records of a batch do not count."""
        if not header.is_transactional:
            return False
        spans = self.aborted.get(header.producer_id, [])
        at = bisect_right(spans, header.base_offset, key=lambda each: each[0]) - 1
        return at >= 0 and header.base_offset <= spans[at][1]

    def note_left(self, header: BatchHeader, count: int) -> None:
        """Count the records of a batch that stay."""
        if header.is_transactional:
            self.left[header.producer_id] = self.left.get(header.producer_id, 0) + count

    def ends_nothing(self, header: BatchHeader, batch: memoryview | bytes) -> bool:
        """Returns True if a control batch commits a transaction of which nothing is left; ends the transaction."""
        marker = read_marker(header, batch)
        if marker is None:
            return False
        return self.left.pop(header.producer_id, 0) == 0 and marker.commits


@attrs.define
class Compaction:
    """One pass over one log. `steps` carries it out; afterwards the counts show its effect.

    If the log loses records in another way meanwhile, the pass stops: the log is unchanged, and `done` is false.
    """

    log: PartitionLog
    high_watermark: int
    now_ms: int
    delete_retention_ms: int
    keys_max: int = KEYS_MAX
    aborted: Sequence[AbortedTransaction] = ()
    """All aborted transactions of the log."""
    done: bool = False
    kept: int = 0
    """Records of the rewritten segments that stay."""
    removed: int = 0
    """The number of their records that leave; with 0 no segment is rewritten."""
    clean_offset: int = 0
    """The end of the compacted part."""
    oldest_deletion_ms: int | None = None
    """The time of the oldest deletion that stays; a later pass will remove it."""
    _newest: dict[bytes, int] = attrs.field(factory=dict, init=False)
    _seen_offset: int = attrs.field(default=0, init=False)

    def run(self) -> None:
        """Carry it out in this thread. Raises `NoSpace`, `StorageFailed` or `CorruptLog`.

        The log is unchanged after an error, unless the disk failed.
        """
        with contextlib.closing(self.steps()) as steps:
            for work in steps:
                if work is not None:
                    work()

    def steps(self) -> Generator[Callable[[], None] | None, None, None]:
        """Yields after each small part, so that the owner can do other things, also to this log.

        A yielded callable must run, in any thread, before the generator goes on. If it raises, or the log is to be
        deleted or closed, close the generator: it waits for work that is under way, and removes its files.
        """
        changes, run = self.log.changes, self.segments()
        if not run:
            self.done = True
            return
        end = self.log.store_log.segment_facts()[len(run)].first_index
        try:
            yield from self._find_newest(changes)
            if self.log.changes == changes:
                yield from self._count(run, end, changes)
            if self.log.changes == changes:
                self.clean_offset = min(end, self._seen_offset)
                if self.removed:
                    yield from self._rewrite(run, end, changes)
                else:
                    self.done = True
        finally:
            self._newest.clear()

    def segments(self) -> Sequence[SealedSegment]:
        """Returns the segments to rewrite: the sealed ones that end at or below the high watermark."""
        sealed, facts = self.log.store_log.sealed, self.log.store_log.segment_facts()
        ends = [following.first_index for following in facts[1 : len(sealed) + 1]]
        return [each for each, end in zip(sealed, ends, strict=True) if end <= self.high_watermark]

    # How it is done

    def _chunks(self, start: int, end: int) -> Iterator[Sequence[StoredBatch]]:
        offset = max(start, self.log.start_offset)
        while offset < end:
            batches = self.log.store_log.read(offset, _CHUNK_BYTES, end)
            if not batches:
                return
            offset = batches[-1].end_offset
            yield batches

    def _find_newest(self, changes: int) -> Iterator[None]:
        end = min(self.high_watermark, self.log.durable_offset)
        transactions = _Transactions.of(self.aborted)
        for batches in self._chunks(self.log.start_offset, end):
            for batch in batches:
                if self.aborted and transactions.is_aborted(read_batch_header(_bytes_of(batch))):
                    continue
                for record in _records_of(batch) or ():
                    if record.key is not None and record.offset < end:
                        self._newest[record.key] = record.offset
            self._seen_offset = min(end, batches[-1].end_offset)
            yield None
            if self.log.changes != changes or len(self._newest) >= self.keys_max:
                return
        self._seen_offset = end

    def _count(self, run: Sequence[SealedSegment], end: int, changes: int) -> Iterator[None]:
        transactions = _Transactions.of(self.aborted)
        for batches in self._chunks(run[0].first_offset, end):
            for batch in batches:
                self._count_batch(batch, transactions)
            yield None
            if self.log.changes != changes:
                return

    def _count_batch(self, batch: StoredBatch, transactions: _Transactions) -> None:
        header = read_batch_header(_bytes_of(batch))
        if header.is_control:
            if transactions.ends_nothing(header, _bytes_of(batch)):
                self._note_deletion(header.max_timestamp)
                self.removed += self._is_old(header.max_timestamp)
            return
        records = _records_of(batch)
        left = self._select(header, records, transactions)
        transactions.note_left(header, header.count if records is None else len(left))
        self.kept += len(left)
        self.removed += len(records or ()) - len(left)
        for record in left:
            if record.value is None and record.key is not None:
                self._note_deletion(record.timestamp_ms)

    def _note_deletion(self, time_ms: int) -> None:
        """Record a deletion, or a marker that ends nothing: one that stays is due when it is old."""
        if not self._is_old(time_ms):
            oldest = self.oldest_deletion_ms
            self.oldest_deletion_ms = time_ms if oldest is None else min(oldest, time_ms)

    def _is_old(self, time_ms: int) -> bool:
        return time_ms < self.now_ms - self.delete_retention_ms

    def _select(
        self, header: BatchHeader, records: Sequence[KafkaRecord] | None, transactions: _Transactions
    ) -> list[KafkaRecord]:
        """Returns the records of a batch that stay."""
        if records is None or transactions.is_aborted(header):
            return []
        return [each for each in records if self._stays(each)]

    def _rewrite(self, run: Sequence[SealedSegment], end: int, changes: int) -> Iterator[Callable[[], None]]:
        replacement = self.log.store_log.begin_replacement(run)
        work = _Work()
        transactions = _Transactions.of(self.aborted)
        try:
            for batches in self._chunks(run[0].first_offset, end):
                left = (self._left_of(each, transactions) for each in batches)
                yield work.of(partial(replacement.write, [each for each in left if each is not None]))
                if self.log.changes != changes:
                    break
            if self.log.changes == changes:
                yield work.of(replacement.finish)
        except BaseException:
            work.stop()
            with contextlib.suppress(LogError):
                replacement.abandon()
            raise
        if self.log.changes == changes:
            self.log.end_replacement(replacement)
            self.done = True
        else:
            replacement.abandon()

    def _left_of(self, batch: StoredBatch, transactions: _Transactions) -> StoredBatch | None:
        """Returns the compacted batch, or None if no record stays."""
        header = read_batch_header(_bytes_of(batch))
        if header.is_control:
            gone = transactions.ends_nothing(header, _bytes_of(batch)) and self._is_old(header.max_timestamp)
            return None if gone else batch
        records = _records_of(batch)
        if records is None and not transactions.is_aborted(header):
            transactions.note_left(header, header.count)
            return batch
        left = self._select(header, records, transactions)
        transactions.note_left(header, len(left))
        if records is not None and len(left) == len(records):
            return batch
        if not left:
            return None
        payload = encode_kept(header, left)
        newest_ms = max(0, *(each.timestamp_ms for each in left))
        return StoredBatch.of(
            payload, base_offset=batch.base_offset, span=batch.span, epoch=batch.epoch, timestamp_ms=newest_ms
        )

    def _stays(self, record: KafkaRecord) -> bool:
        if record.key is None or record.offset >= self._seen_offset:
            return True
        if self._newest[record.key] != record.offset:
            return False
        return record.value is not None or not self._is_old(record.timestamp_ms)


@attrs.define
class Compactor:
    """Decides which logs are worth a pass. It starts empty after a restart; then each log gets one pass more."""

    _passes: dict[str, Compaction] = attrs.field(factory=dict)

    def begin(
        self,
        log: PartitionLog,
        *,
        high_watermark: int,
        now_ms: int,
        delete_retention_ms: int,
        aborted: Sequence[AbortedTransaction] = (),
    ) -> Compaction | None:
        """Returns a pass over this log, to be carried out now, or None if the log is not worth one."""
        compaction = Compaction(log, high_watermark, now_ms, delete_retention_ms, aborted=aborted)
        if not compaction.segments():
            return None
        before = self._passes.get(log.name)
        if before is not None and before.done and before.log is log and not self._is_due(compaction, before):
            return None
        self._passes[log.name] = compaction
        return compaction

    def forget(self, name: str) -> None:
        """Forget the pass of a deleted log."""
        self._passes.pop(name, None)

    @staticmethod
    def _is_due(compaction: Compaction, before: Compaction) -> bool:
        oldest = before.oldest_deletion_ms
        if oldest is not None and oldest < compaction.now_ms - compaction.delete_retention_ms:
            return True
        run = compaction.segments()
        dirty = sum(each.size_bytes for each in run if each.first_offset >= before.clean_offset)
        return dirty > 0 and dirty >= DIRTY_SHARE * sum(each.size_bytes for each in run)


class _Work:
    """The work in other threads: one thing at a time, and none after `stop`."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._stopped = False

    def of(self, call: Callable[[], None]) -> Callable[[], None]:
        """Returns a call that does nothing once this has stopped."""

        def run() -> None:
            with self._lock:
                if not self._stopped:
                    call()

        return run

    def stop(self) -> None:
        """Wait for work under way, and prevent later work."""
        with self._lock:
            self._stopped = True


def _bytes_of(batch: StoredBatch) -> bytes | memoryview:
    assert isinstance(batch.payload, bytes | memoryview), "what is read lies in one piece"
    return batch.payload


def _records_of(batch: StoredBatch) -> list[KafkaRecord] | None:
    """Returns the records of a batch, or None if they are unreadable, or markers."""
    payload = _bytes_of(batch)
    try:
        return None if read_batch_header(payload).is_control else list(read_records(payload))
    except InvalidBatch:
        return None
