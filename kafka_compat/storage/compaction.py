"""Compaction (`cleanup.policy=compact`): a log keeps only the newest record of each key.

It reads the log below the high watermark, and rewrites the sealed segments there, from the first one on. A record
leaves when a newer one has its key, and is durable: a loss of power must not take both. Offsets stay as they are, so
there are gaps. A batch with unreadable records, or records without a key, stays as it is.

- A deletion (a record without a value) outlives all that it deleted: the first pass that finds it the newest of its key
  writes the time into its batch until which it stays, `delete.retention.ms` later (KIP-534). So a reader who has seen
  what was deleted has that long to read on. Deletions and markers stay while a replica is out of sync: it may have what
  they end, and not have them. From a log without them it would go on with what was deleted, or with an open transaction.
- Nothing is read beyond the last stable offset: then all transactions in reach are decided. Records of an aborted one
  leave, and count for no key. The marker of a committed one leaves when it is as old as a deletion may be, and no
  record of its transaction is left. Markers of aborted ones stay, because readers know those by them.
- The last batch of a producer stays, if need be without records: a new copy of the log learns the producer's sequence
  from it.
- A pass keeps the keys of what no pass has looked at in memory, up to a number of bytes; the next pass goes on there.
  Records are read in another thread than the log's.
"""

import contextlib
import threading
from bisect import bisect_right
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from functools import partial
from typing import Final

import attrs

from kafka_compat.config import CompactionRule
from kafka_compat.markers import read_marker
from kafka_compat.partition.model import AbortedTransaction
from kafka_compat.protocol.batch_header import BatchHeader, InvalidBatch, read_batch_header
from kafka_compat.records import KafkaRecord, encode_kept, read_records
from kafka_compat.storage.partition_log import PartitionLog
from log.batch import StoredBatch
from log.errors import LogError
from log.manifest import SealedSegment
from log.replacement import Replacement

KEYS_BYTES_MAX: Final = 128 << 20
"""Memory for the keys of one pass (Kafka's `log.cleaner.dedupe.buffer.size`); with more it ends where they were
reached."""
_KEY_BYTES: Final = 120
"""The memory of a key besides its own bytes."""
_CHUNK_BYTES: Final = 256 << 10
NEVER_MS: Final = -(2**63)


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
class _Keys:
    """The offset of the newest record of each key, and the memory of the keys."""

    newest: dict[bytes, int] = attrs.field(factory=dict)
    size_bytes: int = 0

    def note(self, key: bytes, offset: int) -> None:
        """Record a newer record than all before."""
        if key not in self.newest:
            self.size_bytes += len(key) + _KEY_BYTES
        self.newest[key] = offset


@attrs.define
class Compaction:
    """One pass over one log. `steps` carries it out; afterwards `removed` shows its effect.

    If the log loses records in another way meanwhile, the pass stops: the log is unchanged, and `done` is false.
    """

    log: PartitionLog
    high_watermark: int
    """The end of what may be read."""
    now_ms: int
    delete_retention_ms: int
    keys_bytes_max: int = KEYS_BYTES_MAX
    aborted: Sequence[AbortedTransaction] = ()
    """All aborted transactions of the log."""
    producers: Mapping[int, int] = attrs.field(factory=dict)
    """By producer id: the last offset of its last batch."""
    may_end_deletions: bool = True
    """False while a replica may lack a deletion, or a marker, that this log has."""
    clean_offset: int = 0
    """The end of the compacted part: that of earlier passes, and once this one is done, of this one."""
    done: bool = False
    removed: int = 0
    """The number of records and markers of the rewritten segments that leave."""
    next_deletion_ms: int | None = None
    """The time from which on a later pass will remove a deletion, or a marker, that stays."""
    _marked: int = attrs.field(default=0, init=False)
    """The batches that get a time until which their deletions stay."""
    _keys: _Keys = attrs.field(factory=_Keys, init=False)
    _seen_offset: int = attrs.field(default=0, init=False)

    def run(self) -> None:
        """Carry it out in this thread. Raises `NoSpace`, `StorageFailed` or `CorruptLog`.

        The log is unchanged after an error, unless the disk failed.
        """
        with contextlib.closing(self.steps()) as steps:
            for work in steps:
                work()

    def steps(self) -> Generator[Callable[[], None], None, None]:
        """Yields each small part, between which the owner can do other things, also to this log.

        A part must run, in any thread, before the generator goes on. If it raises, or the log is to be deleted or
        closed, close the generator: it waits for a part that is under way, and removes its files.
        """
        changes, run = self.log.changes, self.segments()
        if not run:
            self.done = True
            return
        end = self.log.store_log.segment_facts()[len(run)].first_index
        work = _Work()
        try:
            yield from self._find_newest(work, changes)
            if self.log.changes == changes:
                yield from self._count(work, run, end, changes)
            if self.log.changes == changes:
                if self.removed or self._marked:
                    yield from self._rewrite(work, run, end, changes)
                else:
                    self.done = True
            if self.done:
                self.clean_offset = min(end, self._seen_offset)
        finally:
            work.stop()
            self._keys = _Keys()

    @property
    def over_ms(self) -> int:
        """Returns the time before which a deletion's or a marker's stay has to end, so that it leaves with this pass."""
        return self.now_ms if self.may_end_deletions else NEVER_MS

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

    def _find_newest(self, work: "_Work", changes: int) -> Iterator[Callable[[], None]]:
        end = min(self.high_watermark, self.log.durable_offset)
        transactions = _Transactions.of(self.aborted)
        self._seen_offset = min(self.clean_offset, end)
        for batches in self._chunks(self._seen_offset, end):
            yield work.of(partial(self._note_keys, batches, end, transactions))
            self._seen_offset = min(end, batches[-1].end_offset)
            if self.log.changes != changes or self._keys.size_bytes >= self.keys_bytes_max:
                return
        self._seen_offset = end

    def _note_keys(self, batches: Sequence[StoredBatch], end: int, transactions: _Transactions) -> None:
        for batch in batches:
            if self.aborted and transactions.is_aborted(read_batch_header(_bytes_of(batch))):
                continue
            for record in _records_of(batch) or ():
                if record.key is not None and record.offset < end:
                    self._keys.note(record.key, record.offset)

    def _count(
        self, work: "_Work", run: Sequence[SealedSegment], end: int, changes: int
    ) -> Iterator[Callable[[], None]]:
        transactions = _Transactions.of(self.aborted)
        for batches in self._chunks(run[0].first_offset, end):
            yield work.of(partial(self._count_batches, batches, transactions))
            if self.log.changes != changes:
                return

    def _count_batches(self, batches: Sequence[StoredBatch], transactions: _Transactions) -> None:
        for batch in batches:
            self._count_batch(batch, transactions)

    def _count_batch(self, batch: StoredBatch, transactions: _Transactions) -> None:
        header = read_batch_header(_bytes_of(batch))
        if header.is_control:
            if transactions.ends_nothing(header, _bytes_of(batch)):
                self.removed += self._is_over(header.max_timestamp + self.delete_retention_ms)
            return
        records = _records_of(batch)
        left = self._select(header, records, transactions)
        self._note_left(header, records, left, transactions)
        self.removed += len(records or ()) - len(left)
        if any(each.is_deletion for each in left):
            self._marked += header.delete_horizon_ms is None
            self._is_over(self._horizon_of(header))

    def _is_over(self, until_ms: int) -> bool:
        """Returns True if what stays until a time may leave. The next pass is due when what stays may leave."""
        if until_ms < self.over_ms:
            return True
        known = self.next_deletion_ms
        self.next_deletion_ms = until_ms if known is None else min(known, until_ms)
        return False

    def _horizon_of(self, header: BatchHeader) -> int:
        known = header.delete_horizon_ms
        return self.now_ms + self.delete_retention_ms if known is None else known

    def _select(
        self, header: BatchHeader, records: Sequence[KafkaRecord] | None, transactions: _Transactions
    ) -> list[KafkaRecord]:
        """Returns the records of a batch that stay."""
        if records is None or transactions.is_aborted(header):
            return []
        keeps_deletions = self._horizon_of(header) >= self.over_ms
        return [each for each in records if self._stays(each, keeps_deletions=keeps_deletions)]

    def _stays(self, record: KafkaRecord, *, keeps_deletions: bool) -> bool:
        if record.key is None or record.offset >= self._seen_offset:
            return True
        if self._keys.newest.get(record.key, record.offset) != record.offset:
            return False
        return keeps_deletions or record.value is not None

    def _is_last_of_producer(self, header: BatchHeader) -> bool:
        return header.base_sequence >= 0 and self.producers.get(header.producer_id) == header.last_offset

    def _note_left(
        self,
        header: BatchHeader,
        records: Sequence[KafkaRecord] | None,
        left: Sequence[KafkaRecord],
        transactions: _Transactions,
    ) -> None:
        """Count what stays of a transaction: an empty batch that opens it as well."""
        stays = header.count if records is None else max(len(left), self._is_last_of_producer(header))
        transactions.note_left(header, stays)

    def _rewrite(
        self, work: "_Work", run: Sequence[SealedSegment], end: int, changes: int
    ) -> Iterator[Callable[[], None]]:
        replacement = self.log.store_log.begin_replacement(run)
        transactions = _Transactions.of(self.aborted)
        try:
            for batches in self._chunks(run[0].first_offset, end):
                yield work.of(partial(self._write_left, replacement, batches, transactions))
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

    def _write_left(
        self, replacement: Replacement, batches: Sequence[StoredBatch], transactions: _Transactions
    ) -> None:
        left = (self._left_of(each, transactions) for each in batches)
        replacement.write([each for each in left if each is not None])

    def _left_of(self, batch: StoredBatch, transactions: _Transactions) -> StoredBatch | None:
        """Returns the compacted batch, or None if nothing stays."""
        header = read_batch_header(_bytes_of(batch))
        if header.is_control:
            ends_nothing = transactions.ends_nothing(header, _bytes_of(batch))
            gone = ends_nothing and header.max_timestamp + self.delete_retention_ms < self.over_ms
            return None if gone else batch
        records = _records_of(batch)
        left = self._select(header, records, transactions)
        self._note_left(header, records, left, transactions)
        if records is None and not transactions.is_aborted(header):
            return batch
        if not left and not self._is_last_of_producer(header):
            return None
        horizon_ms = self._horizon_of(header) if any(each.is_deletion for each in left) else None
        if records is not None and len(left) == len(records) and horizon_ms == header.delete_horizon_ms:
            return batch
        payload = encode_kept(header, left, horizon_ms)
        newest_ms = max([0, *(each.timestamp_ms for each in left)])
        return StoredBatch.of(
            payload, base_offset=batch.base_offset, span=batch.span, epoch=batch.epoch, timestamp_ms=newest_ms
        )


@attrs.define
class Compactor:
    """Decides which logs are worth a pass. It starts empty after a restart; then all of each log is new to it."""

    _passes: dict[str, Compaction] = attrs.field(factory=dict)

    def begin(
        self,
        log: PartitionLog,
        rule: CompactionRule,
        *,
        high_watermark: int,
        now_ms: int,
        aborted: Sequence[AbortedTransaction] = (),
        producers: Mapping[int, int] | None = None,
        may_end_deletions: bool = True,
    ) -> Compaction | None:
        """Returns a pass over this log, to be carried out now, or None if the log is not worth one."""
        reach = min(high_watermark, _young_from(log, now_ms - rule.min_lag_ms) if rule.min_lag_ms else high_watermark)
        before = self._passes.get(log.name)
        if before is not None and before.log is not log:
            before = None
        clean_offset = 0 if before is None else min(before.clean_offset, log.lowest_cut)
        compaction = Compaction(
            log,
            reach,
            now_ms,
            rule.delete_retention_ms,
            aborted=aborted,
            producers=producers or {},
            may_end_deletions=may_end_deletions,
            clean_offset=clean_offset,
        )
        if not compaction.segments() or not self._is_due(compaction, before, rule):
            return None
        log.lowest_cut = log.end_offset
        self._passes[log.name] = compaction
        return compaction

    def forget(self, name: str) -> None:
        """Forget the pass of a deleted log."""
        self._passes.pop(name, None)

    @staticmethod
    def _is_due(compaction: Compaction, before: Compaction | None, rule: CompactionRule) -> bool:
        if before is not None and not before.done:
            return True
        now_ms, run, clean = compaction.now_ms, compaction.segments(), compaction.clean_offset
        if before is not None and before.next_deletion_ms is not None and before.next_deletion_ms < compaction.over_ms:
            return True
        ends = [each.first_index for each in compaction.log.store_log.segment_facts()[1 : len(run) + 1]]
        dirty = [each for each, end in zip(run, ends, strict=True) if end > clean]
        if not dirty:
            return False
        if sum(each.size_bytes for each in dirty) > rule.dirty_ratio * sum(each.size_bytes for each in run):
            return True
        if now_ms <= rule.max_lag_ms:
            return False
        oldest = next(compaction.log.headers(max(dirty[0].first_offset, clean)), None)
        return oldest is not None and 0 < oldest.max_timestamp < now_ms - rule.max_lag_ms


def _young_from(log: PartitionLog, since_ms: int) -> int:
    """Returns where the first segment begins that has a record after a time, or the end of the log."""
    facts = log.store_log.segment_facts()
    return next((each.first_index for each in facts if (each.newest_ms or 0) > since_ms), log.end_offset)


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
