"""All data of a broker on its disk (RocketMQ's `DefaultMessageStore`).

    <directory>/commitlog/…                          the `LogStore` of the commit log, with the lock of the directory
    <directory>/consumequeue, index, dispatched      derived from it, see `derived.py`
    <directory>/config/*.json                        see `checkpoints.py`
    <directory>/discarded/<start>-<end>.log          records that an operator has given up
    <directory>/copy                                 the copy's past, see `copy_notes.py`

A message is *appended* first, which makes it survive a kill. A round *flushes* it, which makes it survive a power cut.
*Dispatching* makes consumers see it. The caller decides when to acknowledge (`flushDiskType`) and how far to dispatch.

One thread owns the store. Only `FlushRound.run`, `DerivedSave.run` and `BrokerCheckpoints.write` may be called in
another one. Every call raises `StorageFailed` after the disk has failed, and `CorruptLog` where it meets damage.
"""

import contextlib
import enum
from bisect import bisect_left, bisect_right
from collections import deque
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from typing import Final, Self

import attrs
from attrs.validators import gt

from log.byte_reader import CHECKED_BYTES
from log.config import StoreConfig
from log.disk import Disk, replace_file
from log.errors import CorruptLog, LogError, NoSpace
from log.frame import Buffer, buffers_of
from log.store import LogStore
from log.store_flush import FlushRound
from rocketmq_compat.record_layout import RECORD_BYTES_MIN, record_size, store_time
from rocketmq_compat.storage.checkpoints import BrokerCheckpoints
from rocketmq_compat.storage.commit_log import CommitLog
from rocketmq_compat.storage.consume_queue import ConsumeQueue
from rocketmq_compat.storage.copy_notes import CopyFile, CopyNotes
from rocketmq_compat.storage.derived import DerivedConfig, DerivedData, DerivedSave
from rocketmq_compat.storage.dispatch import (
    UNIT,
    AssignedBatch,
    BadRecord,
    QueueKey,
    QueueRun,
    Walk,
    assign,
    has_key,
    key_hash,
    opaque,
    split,
    walk,
)
from rocketmq_compat.storage.retention import CommitLogRetention, start_to_keep

COMMIT_LOG_NAME: Final = "commitlog"
DISCARDED_NAME: Final = "discarded"
KEPT_BYTES: Final = 1 << 20
SEGMENT_BYTES_MAX: Final = 128 << 20
"""A restart after a crash reads the newest segment, so none is as long as RocketMQ's, of 1 GiB."""
_UNITS_LOOKED_AT_MAX: Final = 800
"""Units that one read with a filter looks at (`maxFilterMessageSize`)."""


class GetMessageStatus(enum.Enum):
    """The result of a read, under RocketMQ's names."""

    FOUND = enum.auto()
    NO_MATCHED_MESSAGE = enum.auto()
    """There are messages, but the ones that were read have none of the requested tags."""
    NO_MATCHED_LOGIC_QUEUE = enum.auto()
    NO_MESSAGE_IN_QUEUE = enum.auto()
    OFFSET_TOO_SMALL = enum.auto()
    OFFSET_OVERFLOW_ONE = enum.auto()
    """The offset belongs to the next message."""
    OFFSET_OVERFLOW_BADLY = enum.auto()


@attrs.frozen(kw_only=True)
class MessageStoreConfig:
    """The sizes of a store. Raises `ValueError` if one is invalid."""

    log: StoreConfig = attrs.field(factory=lambda: StoreConfig(segment_bytes_max=SEGMENT_BYTES_MAX, threads=1))
    """`mappedFileSizeCommitLog` is its `segment_bytes_max`, which counts up to `SEGMENT_BYTES_MAX`."""
    derived: DerivedConfig = attrs.field(factory=DerivedConfig)
    undispatched_bytes_max: int = attrs.field(default=64 << 20, validator=gt(0))
    """The greatest distance between the end and the dispatched part that is kept in memory.

    Above, dispatching reads the disk.
    """


@attrs.frozen
class FoundMessages:
    """The result of a read. `records` are views of whole records, as clients get them; offsets are queue offsets."""

    status: GetMessageStatus
    next_offset: int
    """The offset at which the consumer should go on: behind the messages read, or at an offset that the queue holds."""
    min_offset: int = 0
    max_offset: int = 0
    """The offset of the next message."""
    records: Sequence[memoryview] = ()
    physical_end: int = 0
    """The physical offset behind the last of the records; the gap to the end of the log is the consumer's lag."""


@attrs.frozen
class AppendedMessages:
    """The places of appended records: the physical and the queue offset of each.

    `end` is the end of the log behind them.
    """

    end: int
    physical_offsets: Sequence[int]
    queue_offsets: Sequence[int]


@attrs.frozen
class AssignedMessages:
    """Records with the places that they get if they are appended next, in batches of up to 64 KiB or of one record."""

    start: int
    batches: Sequence[AssignedBatch]
    places: AppendedMessages


class MessageStore:
    """The messages of one broker; made by `open`. Times in ms since 1970."""

    def __init__(
        self,
        disk: Disk,
        directory: str,
        store: LogStore,
        config: MessageStoreConfig,
        *,
        copy: CopyFile,
        cut: CorruptLog | None,
    ) -> None:
        """Use `open`."""
        self._config = config
        self._store = store
        self._disk = disk
        self._directory = directory
        self.copy = copy
        """The notes on disk about the past of this copy."""
        self.cut = cut
        """The damage for which opening has cut the commit log, or None if it found none."""
        if COMMIT_LOG_NAME not in store.names():
            store.create(COMMIT_LOG_NAME)
        self.log = CommitLog(store.log(COMMIT_LOG_NAME))
        """For reading, epochs and facts. What changes it goes through this store."""
        self.checkpoints = BrokerCheckpoints(disk, directory)
        self.derived = DerivedData(disk, directory, self.log, config.derived)
        """Consume queues and key index, for reading; `derived.report` has the findings of opening."""
        self._closed = False
        self._waiting: deque[Walk] = deque()
        """The appended walks that are not dispatched yet.

        Of the oldest only as many as `undispatched_bytes_max` allows.
        """
        self._assigned: dict[QueueKey, int] = {}
        """The next offset of the queues to which something was appended that is not dispatched yet."""
        self._untold: list[QueueRun] = []
        """The runs that a deletion made visible, and that `dispatch` has not returned yet."""

    @classmethod
    def open(
        cls,
        disk: Disk,
        directory: str,
        config: MessageStoreConfig | None = None,
        *,
        repairs: Callable[[CopyNotes | None], bool] = lambda notes: False,
    ) -> Self:
        """Returns the store in `directory`, opened or created, with all derived data up to date and dispatched.

        `repairs` decides, by the notes on disk, if there are other copies of the commit log. Then a damaged one is cut
        before the damage (`LogStore.repair`) and `cut` is set; the owner must not take it for a whole one.

        Raises `DirectoryLocked` if it is open elsewhere, `CorruptLog` if the commit log is damaged below its durable
        end and not repaired, `NoSpace` or `StorageFailed` if the disk refuses.
        """
        config = config or MessageStoreConfig()
        cut: CorruptLog | None = None
        while True:
            try:
                return cls._open(disk, directory, config, cut)
            except CorruptLog as damage:
                if cut is not None or not cls._try_repair(disk, directory, config, damage, repairs):
                    raise
                cut = damage

    @classmethod
    def _log_store(cls, disk: Disk, directory: str, config: MessageStoreConfig) -> LogStore:
        segment_bytes_max = min(config.log.segment_bytes_max, SEGMENT_BYTES_MAX)
        log_config = attrs.evolve(config.log, segment_bytes_max=segment_bytes_max)
        return LogStore.open(disk, f"{directory}/{COMMIT_LOG_NAME}", log_config)

    @classmethod
    def _open(cls, disk: Disk, directory: str, config: MessageStoreConfig, cut: CorruptLog | None) -> Self:
        with contextlib.ExitStack() as undo:
            store = cls._log_store(disk, directory, config)
            undo.callback(_closed_in_any_case, store.close)
            copy = CopyFile.open(disk, directory)
            undo.callback(_closed_in_any_case, copy.close)
            opened = cls(disk, directory, store, config, copy=copy, cut=cut)
            undo.pop_all()
            return opened

    @classmethod
    def _try_repair(
        cls,
        disk: Disk,
        directory: str,
        config: MessageStoreConfig,
        damage: CorruptLog,
        repairs: Callable[[CopyNotes | None], bool],
    ) -> bool:
        """Cut the commit log before its damage, if that is allowed. Returns True if it was cut."""
        store = cls._log_store(disk, directory, config)
        with contextlib.closing(store), contextlib.closing(CopyFile.open(disk, directory)) as copy:
            if not repairs(copy.found):
                return False
            # It may be why there was damage: units that lead to no record, or a log that ends before them.
            DerivedData.forget(disk, directory)
            store.repair(COMMIT_LOG_NAME)
            return True

    def keep_aside(self, start: int) -> str:
        """Copy the commit log from this physical offset on to a file, durably, before an operator gives it up.

        Returns the file's path. Raises `NoSpace` on a full disk, and keeps no file then.
        """
        log = self.log
        start = max(start, log.start_offset)
        directory = f"{self._directory}/{DISCARDED_NAME}"
        self._disk.make_directory(directory)
        path = f"{directory}/{start:020d}-{log.end_offset:020d}.log"
        with contextlib.closing(self._disk.open(path, create=True)) as file:
            try:
                file.cut(0)
                at = start
                while at < log.end_offset:
                    pieces = [buffer for each in log.read(at, KEPT_BYTES) for buffer in buffers_of(each.payload)]
                    file.write_at(at - start, pieces)
                    at += sum(map(len, pieces))
                file.sync()
            except NoSpace:
                self._disk.remove(path)
                raise
        self._disk.sync_directory(directory)
        return path

    def note_damage(self) -> None:
        """Record durably that damage was read: the next opening reads all of the log, and derives everything again."""
        DerivedData.forget(self._disk, self._directory)
        self._store.log(COMMIT_LOG_NAME).note_damage()

    # Appending

    def next_offset(self, key: QueueKey) -> int:
        """Returns the queue offset of the next message that is appended to a queue."""
        found = self._assigned.get(key)
        return self.derived.queues.next_of(key) if found is None else found

    def append(self, records: Sequence[Buffer], *, epoch: int) -> AppendedMessages:
        """Append records, each whole, as the master: `assign` and `append_messages`."""
        assigned = self.assign(records)
        self.append_messages(assigned, epoch=epoch)
        return assigned.places

    def assign(self, records: Sequence[Buffer]) -> AssignedMessages:
        """Returns these whole records with the offsets of the log's present end; all other bytes stay.

        Nothing is written. Raises `BadRecord` (a `ValueError`) for a malformed record.
        """
        nexts: dict[QueueKey, int] = {}

        def next_of(key: QueueKey) -> int:
            found = nexts.get(key)
            return self.next_offset(key) if found is None else found

        start = physical = self.log.end_offset
        batches: list[AssignedBatch] = []
        for group in _groups(records):
            batch = assign(group, physical, next_of)
            nexts.update((run.key, run.next) for run in batch.found.runs)
            physical = batch.found.end
            batches.append(batch)
        places = AppendedMessages(
            physical,
            [offset for each in batches for offset in each.found.physical_offsets],
            [offset for each in batches for offset in each.found.queue_offsets],
        )
        return AssignedMessages(start, batches, places)

    def reserve(self, messages: AssignedMessages) -> None:
        """Make sure that the log has room for these messages. Raises `NoSpace` without the room."""
        self.log.reserve([each.payload for each in messages.batches])

    def reserve_bytes(self, size: int) -> None:
        """Make sure that the log has room for `size` bytes in one append. Raises `NoSpace` without the room."""
        self.log.reserve_bytes(size)

    def append_messages(self, messages: AssignedMessages, *, epoch: int) -> int:
        """Append messages in one write, at the end for which they were assigned. Returns the new end.

        Raises `ValueError` for another end and for an epoch below the log's, and `NoSpace` on a full disk; the log is
        unchanged then.
        """
        self._require_end(messages.start)
        return self._write([(each.payload, each.found) for each in messages.batches], epoch)

    def append_copy(self, payload: Buffer, *, offset: int, epoch: int) -> int:
        """Append bytes of another copy of the log where this one ends, as a slave. Returns the new end.

        They are appended as `append` does, in parts. A part that does not consist of whole records of that place is
        kept as it is, but consumers never see it. Only a slave that goes on behind other bytes than its master's gets
        one (`haDivergence=rocketmq`). The buffer must not change any more. Raises `ValueError` unless `offset` is the
        end of the log, and `NoSpace` on a full disk; the log is unchanged then.
        """
        self._require_end(offset)
        parts: list[tuple[Buffer, Walk]] = []
        for part in split(payload, CHECKED_BYTES):
            try:
                found = walk(bytes(part), offset)
            except BadRecord:
                found = opaque(offset, offset + len(part))
            parts.append((part, found))
            offset = found.end
        return self._write(parts, epoch)

    def append_assigned(self, payload: Buffer, *, offset: int, epoch: int) -> int:
        """Append records that have their offsets, at the end of the log. Returns the new end.

        They form one batch: a crash leaves all of them or none. The buffer must not change any more. Raises
        `ValueError` unless `offset` is the end of the log, its subclass `BadRecord` unless there are whole records that
        belong there, and `NoSpace` on a full disk; the log is unchanged then.
        """
        self._require_end(offset)
        return self._write([(payload, walk(bytes(payload), offset))], epoch)

    def dispatch(self, up_to: int | None = None) -> list[QueueRun]:
        """Make messages visible to consumers, in whole batches: all, or the ones before the physical offset `up_to`
        (the confirm offset).

        Returns the visible runs, so that waiting pulls can be answered.
        """
        end = self.log.end_offset if up_to is None else min(up_to, self.log.end_offset)
        runs, self._untold = self._untold, []
        while self.derived.dispatched < end:
            waiting = self._waiting[0] if self._waiting else None
            if waiting is not None and waiting.start == self.derived.dispatched:
                if waiting.end > end:
                    break
                self.derived.dispatch(self._waiting.popleft())
                runs += waiting.runs
                continue
            before = self.derived.dispatched
            for found in self.derived.walks(before, end if waiting is None else min(end, waiting.start)):
                self.derived.dispatch(found)
                runs += found.runs
            if self.derived.dispatched == before:
                break
        if self.derived.dispatched == self.log.end_offset:
            self._assigned.clear()
        return runs

    # Next to the messages

    def read_note(self, name: str) -> bytes | None:
        """Returns the content of a small file of the broker's; None if there is none."""
        path = f"{self._directory}/{name}"
        if not self._disk.exists(path):
            return None
        file = self._disk.open(path, create=False)
        try:
            return bytes(file.read_at(0, file.size()))
        finally:
            file.close()

    def write_note(self, name: str, content: bytes) -> None:
        """Replace that file, durably; in any thread. Raises `NoSpace`, and the old one stays, or `StorageFailed`."""
        replace_file(self._disk, self._directory, name, content)

    # Making durable

    @property
    def is_dirty(self) -> bool:
        """True if a round would have anything to flush."""
        return self._store.is_dirty

    def begin_flush(self) -> FlushRound:
        """Returns a round that makes the commit log durable as it is now; cheap. There must be no other under way."""
        return self._store.begin_round()

    def end_flush(self, done: FlushRound) -> int:
        """Complete a round that has run.

        Returns the durable offset: messages before it may be acknowledged with `SYNC_FLUSH`.
        """
        self._store.end_round(done)
        return self.log.durable_offset

    def flush(self) -> int:
        """Make the commit log durable, in this thread. Returns the durable offset."""
        return self.log.flush()

    def begin_save(self) -> DerivedSave:
        """Returns a checkpoint of the derived data (see `DerivedData.begin_save`).

        Call it when `derived.save_due`, and at intervals.
        """
        return self.derived.begin_save()

    def end_save(self, save: DerivedSave) -> None:
        """Complete a checkpoint that has run, also one that raised."""
        self.derived.end_save(save)

    def close(self) -> None:
        """Flush, write a checkpoint, so that a restart reads nothing again, and release the directory.

        Closing twice is harmless.
        """
        if self._closed:
            return
        try:
            if self.log.failed is None:
                self.log.roll()  # a segment that has ended is not read when the log is opened
                self.flush()
                self.derived.index.end_table()
                with contextlib.suppress(NoSpace):
                    self.derived.save()
        finally:
            self.abandon()

    def abandon(self) -> None:
        """Release the directory without a checkpoint, for instance after a failure.

        A restart reads the missing part again.
        """
        if not self._closed:
            self.copy.close()
        self._closed = True
        with contextlib.suppress(LogError):
            self.derived.close()
        with contextlib.suppress(LogError):
            self._store.close()

    def close_idle(self) -> None:
        """Close the files that were not used since the last call; to be called every few seconds."""
        self._store.close_idle()
        self.derived.close_idle()

    # What leaves

    def truncate(self, offset: int) -> int:
        """Cut every record from this physical offset on, and all data derived from them.

        Returns the new end. Durable when it returns. A crash meanwhile may leave less of the batch that holds `offset`.
        Raises `BadRecord` unless a record begins there, `OffsetOutOfRange` before the start, and `NoSpace`: then more
        of that batch may be gone, and `dispatch` has to be called again.
        """
        if offset >= self.log.end_offset:
            return self.log.end_offset
        batch_start = self.log.start_of_batch(offset)
        kept = self.log.read(batch_start, 1)[0]
        rest, are_records = bytes(kept.payload)[: offset - batch_start], self.log.holds_records(kept)
        if are_records:
            walk(rest, batch_start)
        dispatched = self.derived.dispatched
        with self._changing():
            self.derived.cut(batch_start)
            self.log.truncate(batch_start)
            if rest:
                self.log.append([rest], epoch=kept.epoch, timestamp_ms=kept.timestamp_ms, are_records=[are_records])
                self.log.flush()
        self.dispatch(dispatched)
        return self.log.end_offset

    def reset(self, offset: int) -> None:
        """Remove everything.

        The log goes on at this physical offset, with any epoch; its next records set the offsets of its queues.
        Durable. Raises `NoSpace`, as `truncate` does.
        """
        with self._changing():
            self.derived.begin_reset(offset)
            self.log.reset(offset)
            self.derived.end_reset()

    def trim(self, offset: int) -> int:
        """Trim the log before the batch at this physical offset, but only within the last checkpoint.

        Returns the start. Consumers no longer see the messages; the files go with the next flush and checkpoint.
        """
        before = self.log.start_offset
        start = self.log.trim(min(offset, self.derived.saved))
        if start > before:
            self.derived.trim(start)
        return start

    def retain(self, rule: CommitLogRetention, now_ms: int, keep_from: int | None = None) -> int:
        """Trim by the retention rule, at most to the physical offset `keep_from`. Returns the start; see `trim`."""
        start = start_to_keep(self.log, rule, now_ms)
        return self.trim(start if keep_from is None else max(self.log.start_offset, min(start, keep_from)))

    def delete_topic(self, topic: str) -> None:
        """Forget the queues of a topic, durably. Its messages stay in the commit log until they are trimmed.

        If the queues' checkpoint is lost later, they are found again. Raises `NoSpace`; the call may be repeated.
        """
        self.flush()
        self._untold = [run for run in self.dispatch() if run.key[0] != topic]
        self.derived.delete(topic)

    def begin_queues(self, nexts: Mapping[QueueKey, int]) -> None:
        """Let unknown queues begin at these offsets, without messages: theirs were in a part of the log that is gone.

        It is in the next checkpoint. All that the log holds must be dispatched.
        """
        self._untold = self.dispatch()
        for key, first in nexts.items():
            if first and self.derived.queues.get(key) is None:
                self.derived.queues.begin(key, first)

    # Reading

    def queue(self, key: QueueKey) -> tuple[int, int] | None:
        """Returns the offsets of a queue's first and next message, or None if it never had a message."""
        queue = self.derived.queues.get(key)
        return None if queue is None else (queue.min_offset(self.log.start_offset), queue.next)

    def read(
        self,
        key: QueueKey,
        offset: int,
        *,
        bytes_max: int = 256 << 10,
        count_max: int = 32,
        tags: Container[int] | None = None,
    ) -> FoundMessages:
        """Returns messages of a queue from `offset` on: at most `count_max` and `bytes_max`, at least one of any.

        With `tags` only messages whose tag has one of these hashes; the consumer compares the tags themselves, since
        two may have one hash.
        """
        queue = self.derived.queues.get(key)
        if queue is None:
            return FoundMessages(GetMessageStatus.NO_MATCHED_LOGIC_QUEUE, 0)
        first, end = queue.min_offset(self.log.start_offset), queue.next
        outside: tuple[GetMessageStatus, int] | None = None
        if end == 0:
            outside = GetMessageStatus.NO_MESSAGE_IN_QUEUE, 0
        elif offset < first:
            outside = GetMessageStatus.OFFSET_TOO_SMALL, first
        elif offset == end:
            outside = GetMessageStatus.OFFSET_OVERFLOW_ONE, end
        elif offset > end:
            outside = GetMessageStatus.OFFSET_OVERFLOW_BADLY, end
        if outside is not None:
            return FoundMessages(*outside, first, end)
        records, next_offset, physical_end = self._collect(queue, offset, bytes_max, count_max, tags)
        status = GetMessageStatus.FOUND if records else GetMessageStatus.NO_MATCHED_MESSAGE
        return FoundMessages(status, next_offset, first, end, records, physical_end)

    def lookup(
        self, topic: str, key: str, *, begin_ms: int = 0, end_ms: int = 1 << 63, count_max: int = 32
    ) -> list[memoryview]:
        """Returns the messages of a topic with this key or unique key, stored in this time, newest first."""
        name, found, last = key.encode(), list[memoryview](), -1
        for physical in self.derived.index.find(key_hash(topic, name), begin_ms, end_ms):
            if len(found) >= count_max or physical < self.log.start_offset:
                break
            record = self.log.record_at(physical) if physical != last else None
            last = physical
            with contextlib.suppress(BadRecord):
                if record is not None and has_key(record, topic, name):
                    found.append(record)
        return found

    def offset_at_time(self, key: QueueKey, timestamp_ms: int, *, is_upper: bool = False) -> int:
        """Returns the queue offset of the first message stored at this time or later, or else the next offset; 0
        without such a queue.

        With `is_upper`, returns the offset of the last message stored at this time or earlier, or 0 (`BoundaryType`).
        If the clocks of masters went back, it returns some message with an older one before it.
        """
        queue = self.derived.queues.get(key)
        if queue is None:
            return 0
        first = queue.min_offset(self.log.start_offset)
        offsets = range(first, queue.next)
        if is_upper:
            found = bisect_right(offsets, timestamp_ms, key=lambda offset: self._stored_at(queue, offset))
            return first + found - 1 if found else 0
        return first + bisect_left(offsets, timestamp_ms, key=lambda offset: self._stored_at(queue, offset))

    def place(self, key: QueueKey, offset: int) -> int | None:
        """Returns the physical offset of the message at this queue offset, or None."""
        queue = self.derived.queues.get(key)
        if queue is None or not queue.min_offset(self.log.start_offset) <= offset < queue.next:
            return None
        return queue.place(offset)

    def store_time(self, key: QueueKey, offset: int) -> int | None:
        """Returns the store time of the message at this queue offset, or None."""
        queue = self.derived.queues.get(key)
        if queue is None or not queue.min_offset(self.log.start_offset) <= offset < queue.next:
            return None
        return self._stored_at(queue, offset)

    # How it is done

    def _require_end(self, offset: int) -> None:
        if offset != self.log.end_offset:
            raise ValueError(f"bytes at physical offset {offset} do not follow the end, {self.log.end_offset}")

    def _write(self, batches: Sequence[tuple[Buffer, Walk]], epoch: int) -> int:
        end = self.log.append(
            [payload for payload, _ in batches],
            epoch=epoch,
            timestamp_ms=max((found.newest_ms for _, found in batches), default=0),
            are_records=[bool(found.physical_offsets) for _, found in batches],
        )
        for _, found in batches:
            self._note(found)
        return end

    @contextlib.contextmanager
    def _changing(self) -> Iterator[None]:
        """A context in which the log is cut; behind it, undispatched batches are found again."""
        try:
            yield
        finally:
            self._waiting.clear()
            self._assigned.clear()
            for found in self.derived.walks(self.derived.dispatched, self.log.end_offset):
                self._note(found)

    def _note(self, found: Walk) -> None:
        self._waiting.append(found)
        self._assigned.update((run.key, run.next) for run in found.runs)
        while found.end - self._waiting[0].start > self._config.undispatched_bytes_max and len(self._waiting) > 1:
            self._waiting.popleft()

    def _collect(
        self, queue: ConsumeQueue, offset: int, bytes_max: int, count_max: int, tags: Container[int] | None
    ) -> tuple[list[memoryview], int, int]:
        """Returns the matching records from `offset` on, the offset behind the last one read, and their end."""
        reader = self.log.byte_reader()
        records: list[memoryview] = []
        left, physical_end = bytes_max, 0
        end = min(queue.next, offset + (count_max if tags is None else _UNITS_LOOKED_AT_MAX))
        while offset < end:
            for physical, size, tag in UNIT.iter_unpack(queue.units(offset, end - offset)):
                if size and (tags is None or tag in tags):
                    if records and (size > left or len(records) >= count_max):
                        return records, offset, physical_end
                    record = reader.read(physical, size)
                    if record is None or record_size(record, physical) != size:
                        raise self._loss_error(queue, offset, physical)
                    records.append(record)
                    left -= size
                    physical_end = physical + size
                offset += 1
        return records, offset, physical_end

    def _stored_at(self, queue: ConsumeQueue, offset: int) -> int:
        physical = queue.place(offset)
        start = self.log.byte_reader().read(physical, RECORD_BYTES_MIN)
        if start is None or record_size(start, physical) is None:
            raise self._loss_error(queue, offset, physical)
        return store_time(start)

    def _loss_error(self, queue: ConsumeQueue, offset: int, physical: int) -> CorruptLog:
        topic, queue_id = queue.key
        reason = f"queue {queue_id} of {topic} has its message {offset} there, but there is none"
        return CorruptLog(self.log.directory, physical, reason)


def _closed_in_any_case(close: Callable[[], None]) -> None:
    with contextlib.suppress(LogError):
        close()


def _groups(records: Sequence[Buffer]) -> Iterator[Sequence[Buffer]]:
    """These records in groups of up to `CHECKED_BYTES`, or of one longer record."""
    begin = size = 0
    for at, record in enumerate(records):
        if size and size + len(record) > CHECKED_BYTES:
            yield records[begin:at]
            begin, size = at, 0
        size += len(record)
    if size:
        yield records[begin:]
