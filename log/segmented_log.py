"""The log: frames appended to one byte stream in segment files, found again by index or by offset.

Rules that everything here keeps:

1. Bytes that were written are never changed. A frame at or below the last index replaces everything from that index on;
   `truncate` writes down what it cuts. Both are data, so a crash leaves the log as it was before or after, and a STATE
   frame behind a cut is as good as any other. Files are cut only when recovery finds a torn tail, or to take back a
   write that met a full disk.
2. `durable_end` moves only in `end_flush`, after the syncs that prove it. Every frame records it, and so does the
   durable-end checkpoint (`mark.py`), which is written before the new durable end is returned to the owner.
3. The newest state is written again first in every new segment, so the newest segment always contains the newest state.
4. A failed write or sync is final, and so is a sync that was interrupted: the object refuses every later call with
   `StorageFailed`. `NoSpace` is not: the log then holds what it held before.
5. One thread owns the object. Only `Flush.run`, or the sync between `Flush.start` and `Flush.finish`, may run
   elsewhere, concurrently with appends and reads; one flush at a time.

Frames are counted by index, from 1, without gaps; offsets by the owner's spans, without gaps. Epochs never fall, except
across a `reset`. A log begins at index 1, in the segment at address 0, until `trim` or `reset` removes segments.
"""

import contextlib
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Self

import attrs

from log.config import LogConfig
from log.disk import Disk, File, Lock, rename_file, write_file
from log.errors import CorruptLog, IndexOutOfRange, NoSpace, OffsetOutOfRange, StorageError, StorageFailed
from log.flush import Flush
from log.frame import (
    HEADER_BYTES,
    Address,
    Buffer,
    Frame,
    FrameKind,
    Header,
    Payload,
    buffers_of,
    checksum,
    encode_header,
)
from log.index import LogTail, SegmentIndex, SparseIndex
from log.lookup import Lookup
from log.mark import Mark, MarkFile
from log.recovery import Recovered, Recovery, write_sidecar
from log.retention import SegmentFacts
from log.retirement import Retirement, remove_sidecar
from log.salvage import Amend, Repair, Salvage
from log.segment import Segment, Window, reset_name, segment_name
from log.start import Start
from log.start import commit as commit_start
from log.start import read as read_start

LOCK_NAME = "lock"
RESERVE_SLACK_BYTES = 64 * 1024
"""Room that `reserve` keeps beyond what it was asked for, so that a full disk still takes small states (votes)."""


class SegmentedLog:
    """An append-only log in one directory; made by `open`.

    Every call raises `StorageFailed` after a write or sync has failed, and `ValueError` after `close`.
    """

    def __init__(
        self,
        disk: Disk,
        directory: str,
        config: LogConfig,
        *,
        log_id: int,
        lock: Lock,
        mark: MarkFile,
        recovered: Recovered,
    ) -> None:
        """Use `open`."""
        self.log_id = log_id
        self.directory = directory
        self.config = config
        self.recovery = recovered.report
        self.epochs = recovered.epochs
        self._disk = disk
        self._lock = lock
        self._mark = mark
        self.start = recovered.start.without_payload()
        """The start of the log. After a `trim` the next flush makes it durable; its payload is held until then."""
        self._retirement = Retirement(disk, directory, config, log_id=log_id, begins_at=recovered.start.base)
        self.state = recovered.state
        """The newest state that was saved; None if none ever was."""
        self.last_index = recovered.tail.last_index
        """The last index held; 0 = none."""
        self.last_epoch = recovered.tail.last_epoch
        """The epoch of the last index; 0 = none."""
        self.end_offset = recovered.tail.end_offset
        """The offset that the next frame begins with."""
        self._segments = recovered.segments
        self._lookup = Lookup(
            disk,
            directory,
            self._segments,
            log_id=log_id,
            interval_bytes=config.index_interval_bytes,
            files_max=config.open_files_max,
        )
        self.failed: StorageFailed | None = None
        """The failure that ended this log; None if there was none."""
        self._closed = False
        self._names_changed = False
        self._unproven: list[Segment] = []
        self._retiring: list[Segment] = []
        self._waits_for_room = False
        self._warm: deque[str] = deque()
        self._flushing: Flush | None = None
        self._frontier = threading.Lock()
        self._zero_ahead_bytes = config.zero_ahead_bytes
        if not self._segments:
            self._begin_segment(self.start.base, reserve_bytes=0)
        self._active = self._segments[-1]
        self.end = self._active.end
        """The address that the next frame will have."""
        self.durable_end = self.end
        """Everything before this address survives a crash."""
        if self.start.base:
            self._retirement.keep_room(len(recovered.start.payload))
        mark.write(self._next_mark())
        mark.sync()

    @classmethod
    def open(cls, disk: Disk, directory: str, config: LogConfig, *, log_id: int, amend: Amend | None = None) -> Self:
        """Returns the log in `directory`, opened or made, with all of it durable; `recovery` reports what recovery did.

        With `amend` a log that is damaged below its durable end is repaired: cut, and its state replaced by what
        `amend` returns (see `salvage.py`). Raises `CorruptLog` for such damage without `amend`, or if the newest state
        may be lost; `DirectoryLocked` if the log is open elsewhere; `NoSpace` or `StorageFailed` if the disk refuses.
        """
        disk.make_directory(directory)
        with contextlib.ExitStack() as undo:
            lock = disk.lock(f"{directory}/{LOCK_NAME}")
            undo.callback(lock.release)
            # A process that was killed may have left names that no sync covers; what is done next relies on them.
            disk.sync_directory(directory)
            mark = undo.enter_context(contextlib.closing(MarkFile.open(disk, directory, log_id=log_id)))
            salvage = Salvage(disk, directory, log_id=log_id, mark=mark)
            recovered, repair = cls._recover(disk, directory, config, log_id, salvage, mark, amend)
            log = cls(disk, directory, config, log_id=log_id, lock=lock, mark=mark, recovered=recovered)
            if repair is not None:
                log.save_state(repair.state)
                log.flush()
                mark.sync()  # from here on the checkpoint holds the floor, as the plan did until now
                salvage.finish()
                log.recovery = attrs.evolve(log.recovery, repaired=repair.outcome)
            undo.pop_all()
        return log

    @staticmethod
    def _recover(
        disk: Disk,
        directory: str,
        config: LogConfig,
        log_id: int,
        salvage: Salvage,
        mark: MarkFile,
        amend: Amend | None,
    ) -> tuple[Recovered, Repair | None]:
        """Recovery; and if that finds damage, or a repair was interrupted, the repair before it."""
        repair = salvage.pending()
        if repair is None:
            recovery = Recovery(disk, directory, mark, log_id=log_id, interval_bytes=config.index_interval_bytes)
            try:
                return recovery.run(), None
            except CorruptLog as damage:
                if amend is None or recovery.durable_end is None:
                    raise
                repair = salvage.plan(damage, recovery.durable_end, amend)
        salvage.carry_out(repair)
        recovery = Recovery(disk, directory, mark, log_id=log_id, interval_bytes=config.index_interval_bytes)
        return recovery.run(), repair

    # What the log holds

    def start_payload(self) -> bytes:
        """Returns the owner's payload of the log-start checkpoint, read from the disk once it is durable there."""
        if self.start.base > self._retirement.begins_at:
            return bytes(self.start.payload)
        with self._fatal():
            return read_start(self._disk, self.directory, log_id=self.log_id).payload  # type: ignore[return-value] # read as bytes

    @property
    def first_index(self) -> int:
        """The first index held; 0 = none."""
        first_index = self._segments[0].first_index
        return first_index if first_index <= self.last_index else 0

    @property
    def start_offset(self) -> int:
        """The first offset held; equals `end_offset` if there is none."""
        return self._segments[0].first_offset if self.first_index else self.end_offset

    @property
    def sealed_pending(self) -> bool:
        """True if a sealed segment waits for the flush that proves its index, or a retired one for its removal."""
        return bool(self._unproven or (self._retiring and not self._waits_for_room))

    @property
    def retiring(self) -> bool:
        """True if trimmed segments wait for the next flush, or on a full disk for `retry_retiring`, to be removed."""
        return bool(self._retiring)

    def __repr__(self) -> str:
        return (
            f"<SegmentedLog {self.directory} last={self.last_index}@{self.last_epoch} offset={self.end_offset}"
            f" end={self.end} durable={self.durable_end}>"
        )

    # Writing

    def append(self, frames: Sequence[Frame]) -> Address:
        """Write RECORDS and CONTROL frames of consecutive indexes in one write. Returns the new end. Not durable yet.

        The first may be at or below `last_index`: then it replaces everything from there on. Raises `ValueError` for
        frames that do not follow each other or the log (index, offset, epoch), and `NoSpace` on a full disk; the log is
        unchanged then. Call `reserve` first, because it finds a full disk before anything is written.
        """
        if self.failed is not None or self._closed:
            self._refuse_use()
        if not frames:
            return self.end
        index = first_index = frames[0].index
        if index == self.last_index + 1:
            offset, epoch = self.end_offset, self.last_epoch
        else:
            offset, epoch = self._tail_before(index)
        if index == 1:
            offset = frames[0].base_offset
        segment = self._segment_for(sum([len(frame.payload) for frame in frames]) + HEADER_BYTES * len(frames))
        buffers: list[Buffer] = []
        first_address = address = self._first_address(segment, buffers)
        log_id, durable_end = self.log_id, self.durable_end
        for frame in frames:
            kind, payload, span = frame.kind, frame.payload, frame.span
            if (
                frame.index != index
                or frame.base_offset != offset
                or frame.epoch < epoch
                or (kind != 1 and (kind != 2 or span))
            ):
                raise ValueError(
                    f"{self._describe(frame)} does not follow index {index - 1}, epoch {epoch}, offset {offset}"
                )
            size = len(payload)
            epoch = frame.epoch
            buffers.append(
                encode_header(
                    kind,
                    frame.tag,
                    log_id,
                    address,
                    epoch,
                    index,
                    offset,
                    frame.timestamp_ms,
                    durable_end,
                    span,
                    size,
                    frame.payload_crc,
                )
            )
            if size:
                buffers += buffers_of(payload)
            index += 1
            offset += span
            address += HEADER_BYTES + size
        self._write(segment, buffers)
        self._note_appended(segment, frames, first_index, first_address)
        return self.end

    def save_state(self, payload: bytes) -> Address:
        """Write the owner's newest state, which replaces the one before. Returns the new end. Not durable yet.

        Raises `NoSpace` on a full disk; the log is unchanged then.
        """
        self._require_usable()
        segment = self._segment_for(HEADER_BYTES + len(payload))
        position = segment.size
        self._write(segment, [self._own_header(FrameKind.STATE, segment.end, self._tail(), payload), payload])
        self._index_of(segment).note_state(self._tail(), position)
        self.state = bytes(payload)
        return self.end

    def truncate(self, last_index: int) -> Address:
        """Cut everything above `last_index`. Returns the new end of the log. Not durable yet.

        The cut is a frame of its own, so the end moves up. Raises `IndexOutOfRange` unless 0 <= `last_index` <= the
        log's last; in a trimmed log it may be the index before the first at least.
        """
        self._require_usable()
        if not self.start.before.last_index <= last_index <= self.last_index:
            raise IndexOutOfRange(last_index, self.first_index, self.last_index)
        if last_index == self.last_index:
            return self.end
        end_offset, epoch = self._tail_before(last_index + 1)
        tail = LogTail(last_index, epoch, end_offset)
        segment = self._segment_for(HEADER_BYTES)
        buffers: list[Buffer] = []
        address = self._first_address(segment, buffers)
        buffers.append(self._own_header(FrameKind.TRUNCATE, address, tail, b""))
        self._write(segment, buffers)
        self._index_of(segment).note_truncate(tail, address - segment.base)
        self._lookup.cut(last_index + 1, end_offset)
        self.epochs.cut(last_index + 1)
        self.last_index, self.last_epoch, self.end_offset = last_index, epoch, end_offset
        return self.end

    def _start_before(self, first: Segment, payload: Payload) -> Start:
        last_index = first.first_index - 1
        return Start(first.base, LogTail(last_index, self.epoch_at(last_index), first.first_offset), payload)

    def stage_trim(self, first_index: int, payload: Payload) -> Callable[[], None] | None:
        """Returns the slow part of such a `trim`, for any thread; None if there is none."""
        count = self._lookup.leaving(first_index, self.durable_end)
        return self._staging(self._start_before(self._segments[count], payload)) if count else None

    def stage_reset(self, before: LogTail, payload: Payload) -> Callable[[], None] | None:
        """Returns the slow part of a `reset` with these arguments, as `stage_trim` does; an append makes it useless."""
        return self._staging(Start(Address(self.end + 1), before, payload))

    def _staging(self, start: Start) -> Callable[[], None] | None:
        return None if self.start.base > self._retirement.begins_at else partial(self._stage, start)

    def _stage(self, start: Start) -> None:
        with self._fatal():
            self._retirement.stage(start)

    def trim(self, first_index: int, payload: Payload = b"") -> int:
        """Trim the segments that lie wholly below `first_index`. Returns the new first index, at most `first_index`.

        Reads below it are refused from now on. The next flush makes the trim durable and removes the files, eight at
        most; later flushes remove the rest, and a few files are kept to be written to again. On a full disk all that
        waits for `retry_retiring`, or the next trim. A segment that is not durable yet stays. If any segment is
        trimmed, `payload`, which the owner keeps in its place, replaces the one before. Raises `IndexOutOfRange`.
        """
        self._require_usable()
        if not (self.first_index and 1 <= first_index <= self.last_index):
            raise IndexOutOfRange(first_index, self.first_index, self.last_index)
        self.retry_retiring()
        count = self._lookup.leaving(first_index, self.durable_end)
        if count:
            first, self.start = self._segments[count], self._start_before(self._segments[count], payload)
            self._retiring += self._lookup.forget(count)
            self.epochs.trim(first.first_index, first.first_offset)
        return self.first_index

    def retry_retiring(self) -> None:
        """Let the next flush retry a trim that met a full disk. Each attempt may write a whole payload."""
        self._waits_for_room = False

    def keep_room(self, payload_bytes: int) -> None:
        """Keep room for a `trim` with a payload of this size on a disk that fills up later, as far as the disk has it.
        From the first trim on, room for 1.5 times the last one is kept unasked. Not while a flush is under way."""
        self._require_usable()
        assert self._flushing is None, "a flush is under way: call end_flush first"
        self._retirement.room_bytes = payload_bytes
        with self._fatal():
            self._retirement.keep_room(0)

    def reset(self, before: LogTail, payload: Payload) -> None:
        """Reset to an empty log that continues after `before`; durable when it returns.

        The newest state stays, and `payload` stands for what the log does not hold, as in `trim`. Epochs may fall. A
        crash leaves the log as it was before or after. Raises `NoSpace` on a full disk; the log is unchanged then. Must
        not be called while a flush is under way.
        """
        self._require_usable()
        assert self._flushing is None, "a flush is under way: call end_flush first"
        # One byte further, because an empty old segment may have the name of the end.
        start = Start(Address(self.end + 1), before, payload)
        index = SegmentIndex(start.base, self.config.index_interval_bytes)
        buffers: list[Buffer] = []
        if self.state is not None:
            buffers += [self._own_header(FrameKind.STATE, start.base, before, self.state), self.state]
            index.note_state(before, 0)
        self._prepare_reset(start, buffers)
        segment = Segment(
            start.base,
            f"{self.directory}/{segment_name(start.base)}",
            size=sum(map(len, buffers)),
            first_index=before.last_index + 1,
            first_offset=before.end_offset,
            index=index,
            live=SparseIndex(),
        )
        with self._final():
            self._carry_out_reset(start, segment)
        with contextlib.suppress(NoSpace), self._fatal():
            # What was reserved for states was released with the old segments.
            self._reserve_file(segment, segment.size + RESERVE_SLACK_BYTES)
        with self._fatal():
            self._retirement.keep_room(len(payload))

    def segment_facts(self) -> list[SegmentFacts]:
        """Returns what a retention rule needs of each segment, oldest first."""
        return self._lookup.facts()

    @property
    def room(self) -> int:
        """The bytes that can be written whatever room the disk has: they are reserved."""
        return max(0, self._active.reserved - self._active.size)

    def reserve(self, size: int) -> None:
        """Make sure that frames of `size` bytes in all (headers included) can be written; else raises `NoSpace`.

        Nothing is written, whatever the outcome. Room for 64 KiB beyond is kept too. Most calls need no disk.
        """
        if self.failed is not None or self._closed:
            self._refuse_use()
        segment = self._active
        if segment.size >= self.config.segment_bytes_max:
            state_bytes = HEADER_BYTES + len(self.state or b"")
            self._roll(reserve_bytes=state_bytes + size + RESERVE_SLACK_BYTES)
            return
        wanted = segment.size + size + RESERVE_SLACK_BYTES
        if not segment.size and self.state is not None:
            wanted += HEADER_BYTES + len(self.state)
        if wanted > segment.reserved:
            with self._fatal():
                self._reserve_file(segment, wanted)

    # Making durable

    def begin_flush(self) -> Flush:
        """Returns a flush of everything appended so far; cheap. There must be no other under way."""
        self._require_usable()
        assert self._flushing is None, "a flush is under way: call end_flush first"
        dirty_bytes = self.end - self.durable_end
        flush = Flush(self.end, tuple(self._unproven), self._fail)
        steps = flush.steps
        # Names first: a sidecar then proves that its segment was there to stay, so that its loss is noticed.
        if self._names_changed:
            steps.append(self._sync_directory)
        steps += [partial(self._seal, segment) for segment in flush.sealed]
        is_lone = False
        if self.end > max(self.durable_end, self._active.base):
            is_lone = not steps
            file = self._active.file
            assert file is not None, "the active segment is open"
            steps += [partial(self._zero_ahead, self._active, dirty_bytes), file.sync]
        if dirty_bytes:
            steps.append(partial(self._mark.write, self._next_mark()))
        syncs = len(steps)
        if self._retiring and not self._waits_for_room:
            flush.retiring, self._retiring = tuple(self._retiring), []
            steps.append(partial(self._retire, flush, self.start))
        if len(self._warm) > self.config.cached_segments_max:
            steps.append(partial(self._drop_caches, self._take_cold()))
        flush.lone = self._active if is_lone and len(steps) == syncs else None
        self._names_changed = False
        self._flushing = flush
        return flush

    def end_flush(self, flush: Flush) -> Address:
        """Complete a flush that has run. Returns the new durable end."""
        if self.failed is not None or self._closed:
            self._refuse_use()
        assert flush is self._flushing, "not the flush that is under way"
        assert flush.done, "the flush is not done"
        for segment in flush.sealed:
            assert segment.index is not None, "an unproven segment has an index"
            segment.newest_ms = segment.index.newest_ms
            segment.index = segment.live = None
            self._lookup.open.adopt(segment)
            self._warm.append(segment.path)
        del self._unproven[: len(flush.sealed)]
        flush.steps.clear()  # a step may refer to the flush; without the cycle no garbage collection is needed
        if flush.retiring:
            self._retiring[:0] = flush.retiring
            self._waits_for_room = flush.retiring[0].base >= self._retirement.begins_at
        if self.start.payload and self.start.base <= self._retirement.begins_at:
            self.start = self.start.without_payload()
        self.durable_end = max(self.durable_end, flush.target)
        self._flushing = None
        return self.durable_end

    def flush(self) -> Address:
        """Make everything durable, in this thread. Returns the durable end. Raises `StorageFailed`."""
        flush = self.begin_flush()
        flush.run()
        return self.end_flush(flush)

    def close(self) -> None:
        """Flush, make the durable-end checkpoint durable, release the directory. Closing twice is harmless.

        After a failure, or if a flush was begun and interrupted, only the directory is released.
        """
        if self._closed:
            return
        try:
            if self.failed is None and self._flushing is None:
                self._zero_ahead_bytes = 0
                self._release_reserved(self._active)
                self.flush()
                with self._fatal():
                    self._mark.sync()
        finally:
            self._closed = True
            for segment in self._segments:
                if segment.file is not None:
                    segment.file.close()
                    segment.file = None
            self._mark.close()
            self._lock.release()

    # Reading

    def read(self, first_index: int, bytes_max: int, last_index: int | None = None) -> list[Frame]:
        """Returns frames from `first_index` on, to `last_index` inclusive: one at least, `bytes_max` bytes at most.

        None if `first_index` is beyond the last. Payloads are views of the bytes read, checked against their CRC.
        Raises `IndexOutOfRange` before the first index, `CorruptLog` for damage.
        """
        self._require_usable()
        last = self.last_index if last_index is None else min(last_index, self.last_index)
        if first_index <= self.start.before.last_index or first_index < 1:
            raise IndexOutOfRange(first_index, self.first_index, self.last_index)
        if first_index > last:
            return []
        frames: list[Frame] = []
        left = bytes_max
        chunk = self._lookup.bytes_between(first_index, last, bytes_max + self._lookup_bytes())
        for header, window, segment, position in self._headers(first_index, chunk):
            if frames and header.frame_bytes > left:
                break
            payload = window.at(position + HEADER_BYTES, header.payload_bytes)
            if len(payload) != header.payload_bytes:
                raise self._lookup.damage(segment, position, "the file ends inside the frame", header)
            if checksum(payload) != header.payload_crc:
                raise self._lookup.damage(segment, position, "the checksum of the payload does not match", header)
            frames.append(header.frame(payload))
            left -= header.frame_bytes
            if header.log_index >= last or left <= 0:
                break
        return frames

    def find_offset(self, offset: int) -> int:
        """Returns the index of the frame that holds `offset`. Raises `OffsetOutOfRange` if none does."""
        self._require_usable()
        if self.start_offset <= offset < self.end_offset:
            near = self._lookup.index_before_offset(offset, self.last_index)
            for header, *_ in self._headers(near, self._lookup_bytes()):
                if header.base_offset <= offset < header.end_offset:
                    return header.log_index
        raise OffsetOutOfRange(offset, self.start_offset, self.end_offset)

    def epoch_at(self, index: int) -> int:
        """Returns the epoch of an index that the log holds, or of the one before its first; 0 for index 0.

        Raises `IndexOutOfRange` for any other index.
        """
        before = self.start.before
        if not before.last_index <= index <= self.last_index:
            raise IndexOutOfRange(index, self.first_index, self.last_index)
        return self.epochs.at(index) if index > before.last_index else before.last_epoch

    # How it is done: writing

    def _write(self, segment: Segment, buffers: Sequence[Buffer]) -> None:
        file = segment.file
        assert file is not None, "the active segment is open"
        size = sum(map(len, buffers))
        try:
            if segment.size + size + HEADER_BYTES <= segment.zeroed:
                file.write_at(segment.size, buffers)
                segment.size += size
            else:
                # A flush writes zeros behind `zeroed`: not now.
                with self._frontier:
                    segment.overwrite(buffers, size)
        except NoSpace:
            self._take_back(segment, file)
            raise
        except StorageFailed as error:
            self._fail(error)
            raise
        self.end = segment.end

    def _take_back(self, segment: Segment, file: File) -> None:
        """Undo a write that met a full disk, durably: no part of it may turn up behind later frames after a crash."""
        with self._final(), self._frontier:
            segment.cut()
            file.sync()

    def _note_appended(self, segment: Segment, frames: Sequence[Frame], first_index: int, first_address: int) -> None:
        index = self._index_of(segment)
        position = first_address - segment.base
        if first_index <= self.last_index or first_index == 1:
            self._lookup.cut(first_index, frames[0].base_offset)
            self.epochs.cut(first_index)
        live = segment.live
        assert live is not None, "the active segment has an index"
        note = index.note_indexed
        for frame in frames:
            if note(frame.index, frame.epoch, frame.base_offset, frame.span, frame.timestamp_ms, position):
                live.add(frame.index, frame.base_offset, segment.base + position)
                self.epochs.note(frame.epoch, frame.index, frame.base_offset)
            position += HEADER_BYTES + len(frame.payload)
        self.last_index = index.last_index
        self.last_epoch = index.last_epoch
        self.end_offset = index.end_offset

    def _tail(self) -> LogTail:
        return LogTail(self.last_index, self.last_epoch, self.end_offset)

    def _tail_before(self, index: int) -> tuple[int, int]:
        """The end offset and the epoch that hold before `index`, one that the log holds."""
        before = self.start.before
        if not before.last_index < index <= self.last_index:
            raise ValueError(f"index {index} does not follow the log, which ends at {self.last_index}")
        if index == before.last_index + 1:
            return (before.end_offset, before.last_epoch) if before.last_index else (self.start_offset, 0)
        header, *_ = next(self._headers(index - 1, self._lookup_bytes()))
        return header.end_offset, header.epoch

    def _first_address(self, segment: Segment, buffers: list[Buffer]) -> int:
        """Returns the next frame's address; in a new segment behind the newest state, which is put into `buffers`."""
        if segment.size or self.state is None:
            return segment.base + segment.size
        buffers.append(self._own_header(FrameKind.STATE, segment.base, self._tail(), self.state))
        buffers.append(self.state)
        # True even if this write meets a full disk: the next one begins with the state again.
        self._index_of(segment).note_state(self._tail(), 0)
        return segment.base + HEADER_BYTES + len(self.state)

    def _own_header(self, kind: FrameKind, address: int, tail: LogTail, payload: bytes) -> bytes:
        return encode_header(
            kind,
            0,
            self.log_id,
            address,
            tail.last_epoch,
            tail.last_index,
            tail.end_offset,
            0,
            self.durable_end,
            0,
            len(payload),
            checksum(payload),
        )

    @staticmethod
    def _describe(frame: Frame) -> str:
        return f"{frame.kind.name} frame (index {frame.index}, epoch {frame.epoch}, offset {frame.base_offset}, span {frame.span})"

    # How it is done: segments

    def _segment_for(self, size: int) -> Segment:
        """The segment that takes a write of `size` bytes: a full one only if room for it was reserved there."""
        segment = self._active
        if segment.size >= self.config.segment_bytes_max and segment.size + size > segment.reserved:
            self._roll(reserve_bytes=0)
        return self._active

    def _roll(self, *, reserve_bytes: int) -> None:
        sealed = self._active
        self._begin_segment(self.end, reserve_bytes=reserve_bytes)
        self._active = self._segments[-1]
        self._unproven.append(sealed)

    def _begin_segment(self, base: Address, *, reserve_bytes: int) -> None:
        path = f"{self.directory}/{segment_name(base)}"
        with self._fatal():
            spare = self._retirement.take_spare()
            if spare is not None:
                self._disk.rename(spare.path, path)
            file = self._disk.open(path, create=True)
            segment = Segment(base, path, index=SegmentIndex(base, self.config.index_interval_bytes), file=file)
            if spare is not None:
                segment.reserved = segment.filled = spare.size
            try:
                if reserve_bytes > segment.reserved:
                    self._reserve_file(segment, reserve_bytes)
            except NoSpace:
                # The old segment stays in use, with the slack that was reserved there for states.
                file.close()
                self._disk.remove(path)
                raise
        segment.live = SparseIndex()
        segment.first_index, segment.first_offset = self.last_index + 1, self.end_offset
        self._segments.append(segment)
        self._names_changed = True

    def _reserve_file(self, segment: Segment, wanted: int) -> None:
        file = self._open_file(segment)
        ahead = max(wanted, segment.size + self.config.reserve_chunk_bytes)
        while True:
            try:
                file.reserve(ahead)
                break
            except NoSpace:
                if ahead > wanted:
                    ahead = wanted
                elif not self._retirement.give_up_spare():
                    raise
        segment.reserved = ahead

    def _release_reserved(self, segment: Segment) -> None:
        if segment.file is not None:
            with self._fatal():
                segment.cut()

    def _open_file(self, segment: Segment) -> File:
        return self._lookup.open.file(segment)

    @staticmethod
    def _index_of(segment: Segment) -> SegmentIndex:
        assert segment.index is not None, "the active segment has an index"
        return segment.index

    # How it is done: resetting

    def _prepare_reset(self, start: Start, buffers: Sequence[Buffer]) -> None:
        """Do what needs room: write the new first segment, durably, under another name, and the next checkpoint."""
        active, reserved = self._active, self._active.reserved
        scratch = f"{self.directory}/{reset_name(start.base)}"
        try:
            # Release what was only reserved, because that may be the room that is missing.
            active.cut()
            write_file(self._disk, scratch, buffers)
            self._sync_directory()
            self._retirement.prepare(start)
        except NoSpace:
            with self._final():
                if self._disk.exists(scratch):
                    self._disk.remove(scratch)
                with contextlib.suppress(NoSpace):
                    self._open_file(active).reserve(reserved)
                    active.reserved = reserved
            raise
        except BaseException as error:
            self._fail(error)
            raise

    def _carry_out_reset(self, start: Start, segment: Segment) -> None:
        """Put the prepared reset into effect. The first step makes the log the new one; recovery completes the rest."""
        before = start.before
        commit_start(self._disk, self.directory)
        # Before the rename, because the other name is what marks all of the segment as durable.
        self._mark.replace(Mark.of(segment.end, before.last_index, before.last_epoch, self.state))
        rename_file(self._disk, self.directory, reset_name(start.base), segment_name(start.base))
        segment.file = self._disk.open(segment.path, create=False)
        forgotten = [*self._retiring, *self._lookup.forget(len(self._segments))]
        self._segments.append(segment)
        self._active = segment
        self.start, self._retirement.begins_at = start.without_payload(), start.base
        self.last_index, self.last_epoch, self.end_offset = before.last_index, before.last_epoch, before.end_offset
        self.end = self.durable_end = segment.end
        self._unproven, self._retiring, self._names_changed = [], [], False
        self._warm.clear()
        self.epochs.cut(0)
        for each in forgotten:
            remove_sidecar(self._disk, self.directory, each)
            self._disk.remove(each.path)

    # How it is done: flushing

    def _next_mark(self) -> Mark:
        """Returns the checkpoint to write once everything appended so far is durable."""
        return Mark.of(self.end, self.last_index, self.last_epoch, self.state)

    def _seal(self, segment: Segment) -> None:
        """Sync a sealed segment, to which no one writes any more, and write its sidecar. Runs in the flush's thread."""
        file, index = segment.file, segment.index
        assert file is not None, "an unproven segment is open"
        assert index is not None, "an unproven segment has an index"
        segment.cut()
        file.sync()
        write_sidecar(self._disk, self.directory, segment, index, self.log_id)

    def _zero_ahead(self, segment: Segment, dirty_bytes: int) -> None:
        """Write zeros behind the end of the segment that is about to be synced. Runs in a flush, maybe with appends.

        So only one sync in many has to grow the file. Large appends get none: they would soon overwrite them.
        """
        ahead = self._zero_ahead_bytes
        if dirty_bytes <= ahead // 4 and segment.zeroed - segment.size < ahead // 2:
            with self._frontier:
                segment.zero_ahead(min(segment.size + ahead, self.config.segment_bytes_max))

    def _retire(self, flush: Flush, start: Start) -> None:
        with self._final():
            self._retirement.carry_out(flush, start)

    def _take_cold(self) -> list[str]:
        """Returns the sealed segments that are too old to be kept in the page cache.

        A log is read at its end. Memory that follows the whole log costs more than the reads it saves: a page that was
        used before is far cheaper to write to than one that the system has to find first.
        """
        return [self._warm.popleft() for _ in range(len(self._warm) - self.config.cached_segments_max)]

    def _drop_caches(self, paths: Sequence[str]) -> None:
        for path in paths:
            self._disk.drop_cache(path)

    def _sync_directory(self) -> None:
        self._disk.sync_directory(self.directory)

    def _fail(self, error: BaseException) -> None:
        if self.failed is not None:
            return
        if isinstance(error, StorageFailed):
            self.failed = error
        else:
            detail = str(error) if isinstance(error, StorageError) else f"interrupted by {error!r}"
            self.failed = StorageFailed("sync", self.directory, detail)

    @contextlib.contextmanager
    def _fatal(self) -> Iterator[None]:
        """A context in which any exception but `NoSpace` ends the log."""
        try:
            yield
        except StorageFailed as error:
            self._fail(error)
            raise

    @contextlib.contextmanager
    def _final(self) -> Iterator[None]:
        """A context in which any exception ends the log, `NoSpace` too, because its work must be done as a whole."""
        try:
            yield
        except BaseException as error:
            self._fail(error)
            if isinstance(error, StorageError):
                raise self._failure() from error
            raise

    def _failure(self) -> StorageFailed:
        failed = self.failed
        assert failed is not None, "only a failed log has a failure"
        return StorageFailed(failed.operation, failed.path, failed.detail)

    def _require_usable(self) -> None:
        if self.failed is not None or self._closed:
            self._refuse_use()

    def _refuse_use(self) -> None:
        if self._closed:
            raise ValueError("the log is closed")
        raise self._failure()

    # How it is done: reading

    def _lookup_bytes(self) -> int:
        return self.config.index_interval_bytes + HEADER_BYTES

    def _headers(self, first_index: int, chunk_bytes: int) -> Iterator[tuple[Header, Window, Segment, int]]:
        """See `Lookup.headers`."""
        return self._lookup.headers(first_index, self.last_index, chunk_bytes)
