"""One log of a store: batches appended to segments, found again by offset, by time or by epoch.

Rules that everything here keeps:

1. Offsets never go backwards and epochs never fall; gaps between batches are allowed, so batches may leave
   (compaction).
2. What is appended is durable once a flush ends. `truncate`, `reset` and `end_replacement` are durable when they
   return. `trim` holds at once and is durable with the next flush; files go only then.
3. Everything but appending is one replacement of the manifest (see `manifest.py`): a crash leaves the log as before or
   after.
4. A failed write or sync is final: every later call raises `StorageFailed`. `NoSpace` is not: the log holds what it
   held before.
5. One thread owns the object. Only `LogFlush.run`, and the writing of a `Replacement`, may run in another one, while
   the owner appends and reads.
"""

import contextlib
from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Sequence

import attrs

from log.batch import StoredBatch
from log.batch_index import BatchIndex
from log.byte_reader import ByteReader
from log.config import StoreConfig
from log.disk import Disk, write_file
from log.epoch_cache import EpochCache
from log.errors import CorruptLog, NoSpace, OffsetOutOfRange, StorageError, StorageFailed
from log.file_pool import FilePool
from log.frame import HEADER_BYTES, Address, Buffer, DamagedFrame, ForeignFrame, Header, buffers_of, checksum
from log.manifest import Manifest, SealedSegment, file_name
from log.mark import Mark
from log.recovery import RecoveryReport
from log.replacement import Replacement
from log.retention import Retention, SegmentFacts
from log.segment import Window
from log.store_flush import LogFlush, Room
from log.store_recovery import SUSPECT_NAME, StoreRecovery, StoreSegment

INDEXES_MAX = 64
"""Indexes of sealed segments that a store keeps in memory, of all logs together."""
RESERVE_CHUNK_BYTES = 1 << 20
"""`reserve` allocates this far ahead when there is room, so that most calls need no disk."""
_WALK_BYTES = 8 * 1024


@attrs.frozen
class SharedResources:
    """The resources that the logs of a store share.

    `dirty` holds the logs that the next flush has work for, by name.
    """

    disk: Disk
    pool: FilePool
    room: Room
    config: StoreConfig
    dirty: "dict[str, StoreLog]" = attrs.field(factory=dict)
    indexes: "OrderedDict[StoreSegment, BatchIndex]" = attrs.field(factory=OrderedDict)


class StoreLog:
    """A log of a store; made by `LogStore.create` or `LogStore.log`.

    Every call raises `StorageFailed` after a write or sync has failed, and `ValueError` after the store was closed or
    the log deleted.
    """

    def __init__(self, shared: SharedResources, name: str, directory: str) -> None:
        """Open the log. Raises `CorruptLog` for damage below the durable end."""
        self.name = name
        self.directory = directory
        self.log_id = log_id_of(name)
        self._shared = shared
        self._disk = shared.disk
        interval = shared.config.index_interval_bytes
        recovered = StoreRecovery(
            shared.disk, shared.pool, directory, log_id=self.log_id, interval_bytes=interval
        ).run()
        self.recovery: RecoveryReport = recovered.report
        """The findings and repairs of the recovery."""
        self.epochs: EpochCache = recovered.epochs
        """Which epoch begins where; an index there is an offset here."""
        self._manifest = recovered.manifest
        self._version = recovered.manifest.version
        self._mark = recovered.mark
        self._segments = recovered.segments
        self._rolled = recovered.segments[len(recovered.manifest.sealed) : -1]
        self._retired: list[StoreSegment] = []
        self._active = recovered.segments[-1]
        self.start_offset = recovered.manifest.start_offset
        """The first offset that may be read; batches before it are gone, or will be."""
        self.end_offset = max(recovered.end_offset, self.start_offset)
        """The lowest offset that the next batch may begin with."""
        self.durable_offset = self.end_offset
        """Everything before this offset survives a crash."""
        self._durable_end = self._active.end
        self._names_changed = recovered.names_changed
        self._manifest_changed = False
        self._flushing: LogFlush | None = None
        self.failed: StorageFailed | None = None
        """The failure that ended this log; None if there was none."""
        self._closed = False
        if self._rolled:
            self._note_dirty()

    # What the log holds

    @property
    def last_epoch(self) -> int:
        """The newest epoch; 0 = none."""
        return self.epochs.last_epoch

    @property
    def size_bytes(self) -> int:
        """Bytes of all frames in its segments."""
        return sum(each.size for each in self._segments)

    @property
    def sealed(self) -> Sequence[SealedSegment]:
        """The segments that may be replaced, oldest first: a flush proved them after the log went on behind them."""
        return [each.sealed for each in self._segments[: len(self._segments) - 1 - len(self._rolled)]]

    @property
    def awaits_flush(self) -> bool:
        """True if segments have ended that become `sealed` with the next flush."""
        return bool(self._rolled)

    def segment_facts(self) -> list[SegmentFacts]:
        """Returns what a retention rule needs of each segment, oldest first; an index is an offset here."""
        sealed = [each.sealed for each in self._segments]
        return [SegmentFacts(each.first_offset, each.size_bytes, each.newest_ms or None) for each in sealed]

    def end_of_epoch(self, epoch: int) -> tuple[int, int] | None:
        """Returns the newest epoch not above `epoch`, and the offset after its last; None without such an epoch."""
        return self.epochs.end_of(epoch, self.end_offset)

    def __repr__(self) -> str:
        return f"<StoreLog {self.name} [{self.start_offset}, {self.end_offset}) durable={self.durable_offset}>"

    # Writing

    def append(self, batches: Sequence[StoredBatch]) -> int:
        """Write batches in one write. Returns the new end offset. Not durable yet.

        Raises `ValueError` for batches that do not follow each other or the log (offset, epoch), and `NoSpace` on a
        full disk; the log is unchanged then.
        """
        self._require_usable()
        if not batches:
            return self.end_offset
        if self._active.size >= self._shared.config.segment_bytes_max:
            self.roll()
        segment = self._active
        end_offset, epoch, address = self.end_offset, self.last_epoch, segment.end
        buffers: list[Buffer] = []
        for batch in batches:
            if objection := batch.objection(end_offset, epoch):
                raise ValueError(objection)
            buffers.append(batch.header(log_id=self.log_id, address=address, durable_end=self._durable_end))
            buffers += buffers_of(batch.payload)
            address = Address(address + HEADER_BYTES + len(batch.payload))
            end_offset, epoch = batch.end_offset, batch.epoch
        self._write(segment, buffers)
        index = segment.index
        assert index is not None, "the active segment has an index"
        position = segment.size
        for batch in batches:
            index.note(batch.base_offset, batch.timestamp_ms, position)
            self.epochs.note(batch.epoch, batch.base_offset, batch.base_offset)
            position += HEADER_BYTES + len(batch.payload)
        segment.size = position
        self.end_offset = end_offset
        self._note_dirty()
        return end_offset

    def reserve(self, size: int, *, ahead_bytes: int = RESERVE_CHUNK_BYTES) -> None:
        """Make sure that the next append has room for frames of `size` bytes in all, headers included.

        If that needs the disk, `ahead_bytes` more are reserved if they are there. Raises `NoSpace` without the room. The log holds what it held; a full segment is ended. Most calls need no disk.
        """
        self._require_usable()
        if self._active.size >= self._shared.config.segment_bytes_max:
            self.roll()
        segment = self._active
        wanted = segment.size + size
        if wanted <= segment.reserved:
            return
        with self._fatal():
            ahead = wanted + ahead_bytes
            try:
                segment.file.reserve(ahead)
            except NoSpace:
                ahead = wanted
                segment.file.reserve(ahead)
            segment.reserved = ahead

    def roll(self) -> None:
        """Let the next batch begin a segment; nothing to do if the newest one is empty.

        The next flush seals the one before.
        """
        self._require_usable()
        if self._active.size:
            rolled = self._active
            with self._fatal():
                self._active = self._new_segment(rolled.end, self.end_offset)
            self._segments.append(self._active)
            self._rolled.append(rolled)
            self._names_changed = True
            self._note_dirty()

    def truncate(self, offset: int) -> int:
        """Cut every batch that ends after `offset`.

        Returns the new end offset, which may be lower. Durable when it returns.

        Raises `OffsetOutOfRange` for an offset before the log's start; one after the end changes nothing.
        """
        self._require_usable()
        if offset < self.start_offset:
            raise OffsetOutOfRange(offset, self.start_offset, self.end_offset)
        if offset >= self.end_offset:
            return self.end_offset
        self._settle()
        kept = self._segments
        cut: tuple[StoreSegment, BatchIndex] | None = None
        for at, position, header in self._headers(offset):
            kept = self._segments[:at]
            offset = min(offset, header.base_offset)
            if position:
                cut = self._cut(self._segments[at], position)
                kept = [*kept, cut[0]]
                self._shared.indexes.pop(self._segments[at], None)
            break
        kept = [each for each in kept if each.size]
        self._restart(kept, self.start_offset, max(offset, self.start_offset))
        if cut is not None:
            left, index = cut
            left.index = index
            with self._fatal():
                left.seal()
        return self.end_offset

    def reset(self, offset: int) -> None:
        """Reset to an empty log that continues at `offset`, with any epoch. Durable when it returns."""
        self._require_usable()
        self._settle()
        self._restart([], offset, offset)

    def trim(self, offset: int) -> int:
        """Trim what lies before `offset`. Returns the new start offset. Durable with the next flush.

        Reads before it are refused from now on; that flush removes the files of segments that lie wholly before it.
        Raises `OffsetOutOfRange` for an offset after the end; one before the start changes nothing.
        """
        self._require_usable()
        if offset > self.end_offset:
            raise OffsetOutOfRange(offset, self.start_offset, self.end_offset)
        if offset > self.start_offset:
            self.start_offset = offset
            self.epochs.trim(offset, offset)
            while len(self._segments) > 1 and self._segments[1].first_offset <= offset:
                left = self._segments.pop(0)
                self._retired.append(left)
                self._shared.indexes.pop(left, None)
                if left in self._rolled:
                    self._rolled.remove(left)
            self._manifest_changed = True
            self._note_dirty()
        return self.start_offset

    def retain(self, rule: Retention, now_ms: int) -> int:
        """Trim whole segments by a retention rule. Returns the new start offset. See `trim`."""
        facts = self.segment_facts()
        first_offset = rule.first_index(facts, now_ms)
        return self.trim(first_offset) if first_offset > facts[0].first_index else self.start_offset

    # Replacing sealed segments

    def replace(self, segments: Sequence[SealedSegment], batches: Iterable[StoredBatch]) -> None:
        """Replace a run of `sealed` segments by `batches`, all at once; durable when it returns.

        A crash leaves either. Raises as `begin_replacement`, `Replacement.write` and `end_replacement` do, which are
        the same in three steps, the first and the last in the log's own thread; the log is unchanged after any error.
        """
        replacement = self.begin_replacement(segments)
        try:
            replacement.write(batches)
            replacement.finish()
        except (ValueError, NoSpace):
            replacement.abandon()
            raise
        self.end_replacement(replacement)

    def begin_replacement(self, segments: Sequence[SealedSegment]) -> Replacement:
        """Returns a replacement for a run of `sealed` segments, which takes effect only with `end_replacement`.

        Call that, or `Replacement.abandon`, before the log is deleted or closed. Raises `ValueError` unless the log
        holds these segments, one after the other.
        """
        self._require_usable()
        at = self._place_of(segments)
        self._version += 1
        return Replacement(
            self._disk,
            self._shared.pool,
            self.directory,
            segments,
            self._segments[at + len(segments)].first_offset,
            log_id=self.log_id,
            generation=self._version,
            config=self._shared.config,
        )

    def end_replacement(self, replacement: Replacement) -> None:
        """Put the replacement in force, all at once; durable when it returns.

        Raises `ValueError` if the log does not hold the segments any more (they were trimmed, or cut), and `NoSpace` if
        there is no room for the manifest: the log is unchanged then, and what was written is removed.
        """
        self._require_usable()
        assert replacement.finished, "a replacement is finished before it takes effect"
        self._settle()
        try:
            at = self._place_of(replacement.replaced)
            segments = list(self._segments)
            gone = segments[at : at + len(replacement.replaced)]
            segments[at : at + len(gone)] = replacement.segments
            listed = segments[: len(segments) - 1 - len(self._rolled)]
            self._commit(listed, (self._rolled or [self._active])[0])
        except (ValueError, NoSpace):
            with self._fatal():
                replacement.abandon()
            raise
        self._segments = segments
        self._remove(gone)

    def _place_of(self, segments: Sequence[SealedSegment]) -> int:
        sealed = list(self.sealed)
        at = sealed.index(segments[0]) if segments and segments[0] in sealed else -1
        if at < 0 or sealed[at : at + len(segments)] != list(segments):
            raise ValueError("the log does not hold these segments, one after the other")
        return at

    # Making durable

    def begin_flush(self) -> LogFlush:
        """Returns a flush of everything done so far; cheap. There must be no other under way."""
        self._require_usable()
        assert self._flushing is None, "a flush is under way: call end_flush first"
        manifest = None
        if self._rolled or self._manifest_changed:
            manifest = self._build(self._segments[:-1], self._active)
        flush = LogFlush(
            self._disk,
            self._shared.room,
            self.name,
            self.directory,
            self._mark,
            rolled=tuple(self._rolled),
            active=self._active if self._active.end > self._durable_end and self._active.size else None,
            durable_end=self._active.end,
            end_offset=self.end_offset,
            names_changed=self._names_changed,
            manifest=manifest,
            version=self._manifest.version,
            retired=tuple(self._retired) if manifest is not None else (),
            fail=self._fail,
        )
        self._names_changed = self._manifest_changed = False
        self._shared.dirty.pop(self.name, None)
        self._flushing = flush
        return flush

    def end_flush(self, flush: LogFlush) -> int:
        """Complete a flush that has run or was stopped. Returns the durable offset."""
        if flush is not self._flushing:
            return self.durable_offset
        self._flushing = None
        if self.failed is not None or self._closed:
            return self.durable_offset
        if flush.done:
            self._durable_end, self.durable_offset = flush.durable_end, flush.end_offset
        else:
            self._names_changed |= flush.names_changed
        if flush.committed:
            assert flush.manifest is not None, "what was committed is a manifest"
            self._manifest = flush.manifest
            self._rolled = [each for each in self._rolled if each not in flush.rolled]
            del self._retired[: len(flush.retired)]
        elif flush.manifest is not None:
            self._manifest_changed = True
        if self._manifest_changed or self._rolled or not flush.done:
            self._note_dirty()
        return self.durable_offset

    def flush(self) -> int:
        """Make everything durable, in this thread.

        Returns the durable offset. Raises `StorageFailed` if the disk fails.
        """
        self._settle()
        flush = self.begin_flush()
        flush.run()
        return self.end_flush(flush)

    def close(self, *, deleted: bool = False) -> None:
        """Release the files, without a flush; called by the store. Closing twice is harmless."""
        if self._closed:
            return
        if self._flushing is not None:
            self._flushing.stop()
        self._closed = True
        self._shared.dirty.pop(self.name, None)
        for each in [*self._segments, *self._retired]:
            self._shared.indexes.pop(each, None)
            each.file.close()
        self._mark.close()

    def note_damage(self) -> None:
        """Record durably that damage was read: the log opens again only after `LogStore.repair` has read it all."""
        write_file(self._disk, f"{self.directory}/{SUSPECT_NAME}", [b""])
        self._disk.sync_directory(self.directory)

    # Reading

    def read(self, offset: int, bytes_max: int, end_offset: int | None = None) -> list[StoredBatch]:
        """Returns batches from the one that holds or follows `offset` on: at most `bytes_max` bytes, at least one.

        Batches that begin at or after `end_offset` are left out. Payloads are views of the bytes read, checked against
        their CRC. Raises `OffsetOutOfRange` before the start or after the end, `CorruptLog` for damage.
        """
        self._require_usable()
        if not self.start_offset <= offset <= self.end_offset:
            raise OffsetOutOfRange(offset, self.start_offset, self.end_offset)
        batches: list[StoredBatch] = []
        left = bytes_max
        for segment, window, position, header in self._walk(offset, bytes_max + _WALK_BYTES):
            size = header.payload_bytes
            if (batches and HEADER_BYTES + size > left) or (
                end_offset is not None and header.base_offset >= end_offset
            ):
                break
            payload = window.at(position + HEADER_BYTES, size)
            if len(payload) != size:
                raise self._damage(segment, position, "the file ends inside the frame", header)
            if checksum(payload) != header.payload_crc:
                raise self._damage(segment, position, "the checksum of the payload does not match", header)
            batches.append(StoredBatch.read(header, payload))
            left -= HEADER_BYTES + size
            if left <= 0:
                break
        return batches

    def byte_reader(self) -> ByteReader:
        """Returns a reader of ranges of bytes, for a log with an offset for each byte; until it changes.

        What is gone or not yet written reads as nothing: the caller knows `start_offset` and `end_offset`.
        """
        self._require_usable()
        return ByteReader(self._walk, self._damage)

    def find_time(self, timestamp_ms: int) -> int | None:
        """Returns the first offset of the first batch whose newest time is `timestamp_ms` or later, or None.

        Which record of the batch that is, only the owner knows.
        """
        self._require_usable()
        for segment in self._segments:
            if segment.sealed.newest_ms < timestamp_ms or not segment.size:
                continue
            near = self._index_of(segment).near_time(timestamp_ms)
            window = Window(segment.file, segment.size, _WALK_BYTES)
            for _, header in self._headers_in(segment, window, near):
                if header.timestamp_ms >= timestamp_ms and header.end_offset > self.start_offset:
                    return max(header.base_offset, self.start_offset)
        return None

    # How it is done: reading

    def _walk(self, offset: int, chunk_bytes: int) -> Iterator[tuple[StoreSegment, Window, int, Header]]:
        """The batches from the one that holds or follows `offset` on."""
        at = max(0, bisect_right(self._segments, offset, key=lambda each: each.first_offset) - 1)
        for segment in self._segments[at:]:
            if not segment.size:
                continue
            near = self._index_of(segment).near_offset(offset)
            window = Window(segment.file, segment.size, chunk_bytes)
            for position, header in self._headers_in(segment, window, near):
                if header.base_offset + header.span > offset:
                    yield segment, window, position, header

    def _headers(self, offset: int) -> Iterator[tuple[int, int, Header]]:
        for segment, _, position, header in self._walk(offset, _WALK_BYTES):
            yield self._segments.index(segment), position, header

    def _headers_in(self, segment: StoreSegment, window: Window, position: int) -> Iterator[tuple[int, Header]]:
        while position < segment.size:
            try:
                header = window.header(position, base=segment.base, log_id=self.log_id)
            except (DamagedFrame, ForeignFrame) as damage:
                raise self._damage(segment, position, damage.reason) from None
            yield position, header
            position += HEADER_BYTES + header.payload_bytes

    def _index_of(self, segment: StoreSegment) -> BatchIndex:
        index = segment.index
        if index is not None:
            return index
        indexes = self._shared.indexes
        index = indexes.get(segment)
        if index is None:
            index = indexes[segment] = self._load_index(segment)
            if len(indexes) > INDEXES_MAX:
                indexes.popitem(last=False)
        else:
            indexes.move_to_end(segment)
        return index

    def _load_index(self, segment: StoreSegment) -> BatchIndex:
        interval = self._shared.config.index_interval_bytes
        footer = segment.file.read_at(segment.size, max(0, segment.file.size() - segment.size))
        index = BatchIndex.decode(footer, segment.size, interval)
        if index is None:
            index = BatchIndex(interval)
            for position, header in self._headers_in(segment, Window(segment.file, segment.size, 1 << 18), 0):
                index.note(header.base_offset, header.timestamp_ms, position)
        return index

    @staticmethod
    def _damage(segment: StoreSegment, position: int, reason: str, header: Header | None = None) -> CorruptLog:
        named = (header.log_index, header.epoch, header.base_offset) if header is not None else (None, None, None)
        return CorruptLog(segment.file.path, position, reason, *named)

    # How it is done: changing

    def _write(self, segment: StoreSegment, buffers: Sequence[Buffer]) -> None:
        try:
            segment.file.write_at(segment.size, buffers)
        except NoSpace:
            # Durably: a part of it must not turn up behind later frames after a crash.
            segment.reserved = 0
            with self._final():
                segment.file.cut(segment.size)
                segment.file.sync()
            raise
        except StorageFailed as error:
            self._fail(error)
            raise

    def _new_segment(self, base: Address, first_offset: int) -> StoreSegment:
        file = self._shared.pool.file(f"{self.directory}/{file_name(base, 0)}", create=True)
        return StoreSegment(base, file, first_offset, index=BatchIndex(self._shared.config.index_interval_bytes))

    def _cut(self, segment: StoreSegment, position: int) -> tuple[StoreSegment, BatchIndex]:
        """Returns a segment without the frames from `position` on, and the index of what is left."""
        index = BatchIndex(self._shared.config.index_interval_bytes)
        for at, header in self._headers_in(segment, Window(segment.file, segment.size, 1 << 18), 0):
            if at >= position:
                break
            index.note(header.base_offset, header.timestamp_ms, at)
        left = attrs.evolve(segment, size=position, index=None, newest_ms=index.newest_ms)
        return left, index

    def _restart(self, kept: Sequence[StoreSegment], start_offset: int, end_offset: int) -> None:
        """Replace the log by the segments in `kept`, all sealed, followed by a new one; durable when it returns."""
        old_files = {each.file: each for each in [*self._segments, *self._retired]}
        with self._final():
            for each in kept:
                if each in self._rolled or each.file is self._active.file or each not in self._segments:
                    each.file.sync()
            if self._names_changed:
                self._disk.sync_directory(self.directory)
        with self._fatal():
            # One byte further: no file has had this name.
            active = self._new_segment(Address(self._active.end + 1), end_offset)
        epochs = EpochCache()
        for begun in self.epochs:
            if kept and begun.first_index < end_offset:
                epochs.note(begun.epoch, begun.first_index, begun.base_offset)
        before = self.start_offset, self.epochs
        self.start_offset, self.epochs = start_offset, epochs
        try:
            self._commit(kept, active)
        except NoSpace:
            self.start_offset, self.epochs = before
            with self._fatal():
                active.file.close()
                self._disk.remove(active.file.path)
            raise
        for each in kept:
            if each.index is not None:
                with self._fatal():
                    each.seal()
            old_files.pop(each.file, None)
        self._segments, self._active = [*kept, active], active
        self._rolled, self._retired, self._manifest_changed, self._names_changed = [], [], False, False
        self.end_offset = self.durable_offset = end_offset
        self._durable_end = active.base
        self._shared.dirty.pop(self.name, None)
        self._remove(list(old_files.values()))

    def _build(self, listed: Sequence[StoreSegment], following: StoreSegment) -> Manifest:
        self._version += 1
        return Manifest(
            log_id=self.log_id,
            version=self._version,
            start_offset=self.start_offset,
            open_base=following.base,
            open_offset=following.first_offset,
            sealed=tuple(each.sealed for each in listed),
            epochs=tuple(each for each in self.epochs if each.first_index < following.first_offset),
        )

    def _commit(self, listed: Sequence[StoreSegment], following: StoreSegment) -> None:
        manifest = self._build(listed, following)
        with self._fatal():
            manifest.write(self._disk, self.directory)
            durable_end = max(following.base, self._durable_end)
            self._mark.write(Mark.of(Address(durable_end), manifest.version, 0, None))
        self._manifest = manifest

    def _remove(self, segments: Sequence[StoreSegment]) -> None:
        with self._fatal():
            for each in segments:
                self._shared.indexes.pop(each, None)
                each.file.close()
                self._disk.remove(each.file.path)

    def _settle(self) -> None:
        """Wait for the flush that is under way, or keep it from running."""
        flush = self._flushing
        if flush is not None:
            flush.stop()
            self.end_flush(flush)
            self._require_usable()

    def _note_dirty(self) -> None:
        self._shared.dirty[self.name] = self

    def _fail(self, error: BaseException) -> None:
        if self.failed is None:
            detail = str(error) if isinstance(error, StorageError) else f"interrupted by {error!r}"
            self.failed = error if isinstance(error, StorageFailed) else StorageFailed("sync", self.directory, detail)

    @contextlib.contextmanager
    def _fatal(self) -> Iterator[None]:
        """A context in which any exception but `NoSpace` ends the log."""
        try:
            yield
        except NoSpace:
            raise
        except BaseException as error:
            self._fail(error)
            raise

    @contextlib.contextmanager
    def _final(self) -> Iterator[None]:
        """A context in which any exception ends the log, `NoSpace` too."""
        try:
            yield
        except BaseException as error:
            self._fail(error)
            if isinstance(error, StorageError):
                self._require_usable()
            raise

    def _require_usable(self) -> None:
        if self._closed:
            raise ValueError(f"the log {self.name!r} is closed")
        if self.failed is not None:
            raise StorageFailed(self.failed.operation, self.failed.path, self.failed.detail)


def log_id_of(name: str) -> int:
    """Returns the number in every frame of a log, so that a file in a wrong directory is not taken for its own."""
    return checksum(name.encode())
