"""Compaction of the offsets topic: it keeps only the newest record of each key.

It reads the log below the high watermark, and rewrites the sealed segments there, from the first one on. A record
leaves when a newer one has its key, and is durable: a loss of power must not take both. A deletion (a record without
a value) leaves when it is older than `delete.retention.ms`, together with everything that it deleted. Offsets stay as
they are, so there are gaps. A batch with unreadable records stays as it is.
"""

import contextlib
import threading
from collections.abc import Callable, Generator, Iterator, Sequence
from functools import partial
from typing import Final

import attrs

from kafka_compat.protocol.batch_header import InvalidBatch, read_batch_header
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
class Compaction:
    """One pass over one log. `steps` carries it out; afterwards the counts show its effect.

    If the log loses records in another way meanwhile, the pass stops: the log is unchanged, and `done` is false.
    """

    log: PartitionLog
    high_watermark: int
    now_ms: int
    delete_retention_ms: int
    keys_max: int = KEYS_MAX
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
        for batches in self._chunks(self.log.start_offset, end):
            for batch in batches:
                for record in _records_of(batch) or ():
                    if record.key is not None and record.offset < end:
                        self._newest[record.key] = record.offset
            self._seen_offset = min(end, batches[-1].end_offset)
            yield None
            if self.log.changes != changes or len(self._newest) >= self.keys_max:
                return
        self._seen_offset = end

    def _count(self, run: Sequence[SealedSegment], end: int, changes: int) -> Iterator[None]:
        for batches in self._chunks(run[0].first_offset, end):
            for batch in batches:
                for record in _records_of(batch) or ():
                    if not self._stays(record):
                        self.removed += 1
                        continue
                    self.kept += 1
                    if record.value is None and record.key is not None:
                        oldest = self.oldest_deletion_ms
                        self.oldest_deletion_ms = (
                            record.timestamp_ms if oldest is None else min(oldest, record.timestamp_ms)
                        )
            yield None
            if self.log.changes != changes:
                return

    def _rewrite(self, run: Sequence[SealedSegment], end: int, changes: int) -> Iterator[Callable[[], None]]:
        replacement = self.log.store_log.begin_replacement(run)
        work = _Work()
        try:
            for batches in self._chunks(run[0].first_offset, end):
                yield work.of(partial(replacement.write, list(filter(None, map(self._left_of, batches)))))
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

    def _left_of(self, batch: StoredBatch) -> StoredBatch | None:
        """Returns the compacted batch, or None if no record stays."""
        records = _records_of(batch)
        if records is None:
            return batch
        left = [each for each in records if self._stays(each)]
        if len(left) == len(records):
            return batch
        if not left:
            return None
        payload = encode_kept(read_batch_header(_bytes_of(batch)), left)
        newest_ms = max(0, *(each.timestamp_ms for each in left))
        return StoredBatch.of(
            payload, base_offset=batch.base_offset, span=batch.span, epoch=batch.epoch, timestamp_ms=newest_ms
        )

    def _stays(self, record: KafkaRecord) -> bool:
        if record.key is None or record.offset >= self._seen_offset:
            return True
        if self._newest[record.key] != record.offset:
            return False
        return record.value is not None or record.timestamp_ms >= self.now_ms - self.delete_retention_ms


@attrs.define
class Compactor:
    """Decides which logs are worth a pass. It starts empty after a restart; then each log gets one pass more."""

    _passes: dict[str, Compaction] = attrs.field(factory=dict)

    def begin(
        self, log: PartitionLog, *, high_watermark: int, now_ms: int, delete_retention_ms: int
    ) -> Compaction | None:
        """Returns a pass over this log, to be carried out now, or None if the log is not worth one."""
        compaction = Compaction(log, high_watermark, now_ms, delete_retention_ms)
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
        if read_batch_header(payload).is_control:
            return None
        return list(read_records(payload))
    except InvalidBatch:
        return None
