"""The data that a broker derives from its commit log: consume queues, the key index, and the checkpoint of both.

    <directory>/dispatched, consumequeue/…, index/…

*Dispatched* messages are in queues and index, in memory or in files. A checkpoint makes files and the file `dispatched`
durable together: it states up to which physical offset the files hold everything, and how many units each queue had
there. A start loads it and reads the commit log from there on. Without it, everything is derived from the whole log.

The checkpoint never goes beyond the durable part of the commit log, and a trim of the log never beyond the checkpoint.
Before a truncation, a checkpoint of the remaining part is written. So after any crash the log has the bytes that the
checkpoint covers, and queue offsets of lost messages are never given again. A log that ends before its checkpoint has
lost durable bytes: it is refused, until its repair has removed the checkpoint (`forget`).
"""

import contextlib
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Final

import attrs
import msgpack
from attrs.validators import gt

from log.disk import Disk, read_file, replace_file
from log.errors import CorruptLog, NoSpace
from log.file_pool import FilePool
from log.frame import checksum
from rocketmq_compat.storage.commit_log import CommitLog
from rocketmq_compat.storage.consume_queue import UNITS_PER_FILE, ConsumeQueue, ConsumeQueues, UnitsToWrite, write_units
from rocketmq_compat.storage.dispatch import BadRecord, Walk, opaque, walk
from rocketmq_compat.storage.key_index import KeyIndex, KeyIndexConfig, KeyTable, TableFile

DISPATCHED_NAME: Final = "dispatched"
QUEUES_NAME: Final = "consumequeue"
INDEX_NAME: Final = "index"
_VERSION: Final = 1
_WALK_BYTES: Final = 1 << 20


@attrs.frozen(kw_only=True)
class DerivedConfig:
    """The sizes of the derived data. Raises `ValueError` if one is not positive."""

    units_per_file: int = attrs.field(default=UNITS_PER_FILE, validator=gt(0))
    """Units in one file of a consume queue, of 20 bytes each."""
    save_every_bytes: int = attrs.field(default=64 << 20, validator=gt(0))
    """A checkpoint is due after so many bytes of the commit log, so that a restart reads at most about these again."""
    open_files_max: int = attrs.field(default=256, validator=gt(0))
    """Descriptors for reading older units and keys."""
    threads: int = attrs.field(default=16, validator=gt(0))
    """The queue files that a checkpoint writes in parallel; 1 = one after the other, in the caller's thread."""
    index: KeyIndexConfig = attrs.field(factory=KeyIndexConfig)


@attrs.frozen(kw_only=True)
class DerivedReport:
    """The findings of opening. `rebuilt` is the reason why everything was derived from the whole log, or None."""

    rebuilt: str | None = None
    bytes_read: int = 0
    """Bytes of the commit log that were read."""


@attrs.frozen
class DispatchCheckpoint:
    """The content of the file `dispatched`.

    `start` is the start of the commit log, `index_end` the end of the files of the key index.
    """

    start: int
    dispatched: int
    index_end: int
    queues: Sequence[tuple[str, int, int, int]]
    """Topic, queue id, first offset, offset after the last unit in the files."""
    tables: Sequence[TableFile]
    reset_to: int | None = None
    """The offset to which the log is about to be reset, or None. After a reset the other fields do not matter."""

    def encode(self) -> bytes:
        """Returns msgpack, with a version before and a CRC-32C after it."""
        tables = [attrs.astuple(each) for each in self.tables]
        content: bytes = msgpack.packb(
            [_VERSION, self.start, self.dispatched, self.index_end, self.queues, tables, self.reset_to]
        )
        return content + checksum(content).to_bytes(4, "little")

    @classmethod
    def decode(cls, content: bytes) -> "DispatchCheckpoint | None":
        """Returns the content of a file, or None unless it is whole and of this version."""
        if len(content) < 4 or checksum(content[:-4]) != int.from_bytes(content[-4:], "little"):
            return None
        version, *values = msgpack.unpackb(content[:-4], use_list=False)
        if version != _VERSION:
            return None
        start, dispatched, index_end, queues, tables, reset_to = values
        return cls(start, dispatched, index_end, queues, [TableFile(*each) for each in tables], reset_to)


class DerivedSave:
    """One checkpoint; made by `DerivedData.begin_save`.

    `run` may be called in any thread, once, while the owner goes on.
    """

    def __init__(
        self,
        disk: Disk,
        directory: str,
        checkpoint: DispatchCheckpoint,
        *,
        ends: dict[ConsumeQueue, int],
        units: Sequence[UnitsToWrite],
        tables: Sequence[KeyTable],
        write_table: Callable[[KeyTable], None],
        gone_units: Sequence[str],
        gone_tables: Sequence[str],
        threads: int,
    ) -> None:
        self.checkpoint = checkpoint
        self.ends = ends
        """Up to where the files hold the units of each queue that changed, once this is done."""
        self.tables = tables
        self.gone_units, self.gone_tables = gone_units, gone_tables
        """Files that are removed once this is done."""
        self.done = False
        """True once everything is durable."""
        self._disk = disk
        self._directory = directory
        self._units = units
        self._write_table = write_table
        self._threads = threads
        self._lock = threading.Lock()
        self._stopped = False

    def stop(self) -> None:
        """Wait until it has run, or keep it from running."""
        with self._lock:
            self._stopped = True

    def run(self) -> None:
        """Write units, tables, and then the file that states their ends.

        Raises `NoSpace`, after which it may begin again, or `StorageFailed`.
        """
        with self._lock:
            if self._stopped:
                return
            self._stopped = True
            write_units(self._disk, self._units, self._threads)
            for table in self.tables:
                self._write_table(table)
            replace_file(self._disk, self._directory, DISPATCHED_NAME, self.checkpoint.encode())
            self.done = True
            for path in (*self.gone_units, *self.gone_tables):
                self._disk.remove(path)


class DerivedData:
    """Queues and index of a commit log. One thread owns it, and the log."""

    def __init__(self, disk: Disk, directory: str, log: CommitLog, config: DerivedConfig) -> None:
        """Derive all data of `log`, from the last checkpoint on. The caller holds the lock of the directory.

        Raises `CorruptLog` if the log holds a malformed record or ends before its durable end, and `NoSpace` or
        `StorageFailed` if the disk refuses.
        """
        self.directory = directory
        self.dispatched = log.start_offset
        """Messages before this physical offset are in the queues and in the index."""
        self.saved = log.start_offset
        """They are in a checkpoint before this one."""
        self.strange_runs = 0
        """The number of times since the start that queue offsets did not follow each other.

        See `ConsumeQueue.extend`.
        """
        self._disk = disk
        self._log = log
        self._config = config
        self._pool = FilePool(disk, config.open_files_max)
        self.queues = ConsumeQueues(disk, self._pool, f"{directory}/{QUEUES_NAME}", config.units_per_file)
        self.index = KeyIndex(disk, self._pool, f"{directory}/{INDEX_NAME}", config.index)
        self._saving: DerivedSave | None = None
        self._reset_to: int | None = None
        self.report = self._recover()

    @staticmethod
    def forget(disk: Disk, directory: str) -> None:
        """Let everything be derived again from the log, durably: the log or its derived data was damaged."""
        path = f"{directory}/{DISPATCHED_NAME}"
        if disk.exists(path):
            disk.remove(path)
            disk.sync_directory(directory)

    # Going on

    def dispatch(self, found: Walk) -> None:
        """Add a walk over the bytes that follow the dispatched part."""
        assert found.start == self.dispatched, f"a walk from {found.start} on does not follow {self.dispatched}"
        self.strange_runs += self.queues.extend(found.runs)
        self.index.add(found.keys, found.end)
        self.dispatched = found.end

    def walks(self, start: int, end: int) -> Iterator[Walk]:
        """Yields the walks over the batches from `start`, where one begins, up to the last that ends by `end`.

        Raises `CorruptLog` if one holds a malformed record. The log must not change meanwhile.
        """
        while start < end:
            batches = self._log.read(start, _WALK_BYTES, end)
            if not batches:
                return
            for batch in batches:
                try:
                    if self._log.holds_records(batch):
                        yield walk(bytes(batch.payload), batch.base_offset)
                    else:
                        yield opaque(batch.base_offset, batch.end_offset)
                except BadRecord as error:
                    raise CorruptLog(self._log.directory, error.physical, error.reason) from None
                start = batch.end_offset

    def trim(self, start: int) -> None:
        """Trim the derived data to this start of the commit log."""
        self.queues.trim(start)
        self.index.trim(start)

    def cut(self, end: int) -> None:
        """Remove the entries at and behind the physical offset `end`, before the log is truncated there.

        Durable when it returns. Raises `NoSpace` if there is no room for the checkpoint; everything is as before then.
        """
        self._settle()
        before = self.dispatched
        self.dispatched = min(before, end)
        self.queues.truncate(end)
        for found in self.walks(max(self.index.cut(end), self._log.start_offset), self.dispatched):
            self.index.add(found.keys, found.end)
        try:
            self.save()
        except NoSpace:
            for found in self.walks(self.dispatched, before):
                self.queues.extend(found.runs)
                if found.start >= self.index.end:
                    self.index.add(found.keys, found.end)
            self.dispatched = before
            raise

    def begin_reset(self, offset: int) -> None:
        """Forget the log's content, durably, before the log is reset to this physical offset; then call `end_reset`.

        Raises `NoSpace`, as `cut` does.
        """
        self._reset_to = offset
        try:
            self.cut(self._log.start_offset)
        finally:
            self._reset_to = None

    def end_reset(self) -> None:
        """Begin again where the log does."""
        self.dispatched = self.saved = self._log.start_offset
        self.queues.clear()
        self.index.load([], self.dispatched)
        self.queues.remove_unknown()
        self.index.remove_unknown()
        self._remove_checkpoint()
        with contextlib.suppress(NoSpace):
            self.save()

    def delete(self, topic: str) -> None:
        """Forget the queues of a topic, durably.

        The log must be durable and dispatched: units outside of the checkpoint would come back. Raises `NoSpace` if
        there is no room for the checkpoint: then they may come back with a restart.
        """
        self._settle()
        self.queues.delete(topic)
        self.save()
        self.queues.remove_unknown()

    # Checkpoints

    @property
    def save_due(self) -> bool:
        """True if a checkpoint is due, so that a restart has less to read."""
        end = min(self.dispatched, self._log.durable_offset)
        return self._saving is None and end - self.saved >= self._config.save_every_bytes

    def begin_save(self) -> DerivedSave:
        """Returns a checkpoint of the data that is dispatched and durable in the log. No other may be under way."""
        assert self._saving is None, "a checkpoint is under way: call end_save first"
        end = min(self.dispatched, self._log.durable_offset)
        changed, gone_units = self.queues.take_changed()
        ends = {each: each.save_end(end) for each in changed}
        tables = self.index.to_save(end)
        self._saving = DerivedSave(
            self._disk,
            self.directory,
            DispatchCheckpoint(
                self._log.start_offset,
                end,
                self.index.saved_end(tables, end),
                self.queues.rows(ends),
                self.index.files_with(tables),
                self._reset_to,
            ),
            ends=ends,
            units=[part for each in changed for part in each.to_write(ends[each])],
            tables=tables,
            write_table=self.index.write_table,
            gone_units=gone_units,
            gone_tables=self.index.take_gone(),
            threads=self._config.threads,
        )
        return self._saving

    def end_save(self, save: DerivedSave) -> None:
        """Complete a checkpoint that has run, also one that raised or was stopped."""
        if save is not self._saving:
            return
        self._saving = None
        if not save.done:
            self.queues.note_changed(save.ends, save.gone_units)
            self.index.note_gone(save.gone_tables)
            return
        for queue, end in save.ends.items():
            queue.note_saved(end)
        self.queues.note_changed([each for each in save.ends if each.saved < each.next], [])
        self.index.note_saved(save.tables)
        self.saved = save.checkpoint.dispatched

    def save(self) -> None:
        """Write a checkpoint in this thread. Raises `NoSpace` or `StorageFailed`."""
        self._settle()
        save = self.begin_save()
        try:
            save.run()
        finally:
            self.end_save(save)

    def close_idle(self) -> None:
        """Close the files that were not read since the last call."""
        self._pool.close_idle()

    def close(self) -> None:
        """Release the files, without a checkpoint."""
        self._settle()
        self.queues.clear()
        self.index.load([], 0)

    # How it is done

    def _settle(self) -> None:
        """Wait for the checkpoint that is under way, or keep it from running."""
        if self._saving is not None:
            self._saving.stop()
            self.end_save(self._saving)

    def _recover(self) -> DerivedReport:
        log = self._log
        # Which checkpoint is read must not change any more: files that it does not name are removed.
        self._disk.sync_directory(self.directory)
        checkpoint, why = self._read_checkpoint()
        if checkpoint is not None and checkpoint.reset_to == log.start_offset == log.end_offset:
            self._remove_checkpoint()
            checkpoint = None
        elif checkpoint is not None and checkpoint.dispatched > log.end_offset:
            raise CorruptLog(
                log.directory, log.end_offset, f"it ends there, but was durable up to {checkpoint.dispatched}"
            )
        if checkpoint is not None:
            log.trim(checkpoint.start)  # a trim that was not durable yet, although a checkpoint knew of it
            self.queues.load(checkpoint.queues)
            self.index.load(checkpoint.tables, checkpoint.index_end)
            self.dispatched = self.saved = checkpoint.dispatched
        else:
            self.index.load([], self.dispatched)
        missing = [*self.queues.remove_unknown(), *self.index.remove_unknown()]
        if missing and checkpoint is not None:
            why = f"{missing[0]} is missing"
            self.dispatched = log.start_offset
            self.queues.clear()
            # A queue that has lost all its messages still must not give their offsets again.
            self.queues.load((topic, queue_id, end, end) for topic, queue_id, _, end in checkpoint.queues)
            self.index.load([], self.dispatched)
        self.index.go_on()
        start = max(log.start_offset, min(self.dispatched, self.index.end))
        has_room = True
        for found in self.walks(start, log.end_offset):
            if found.start >= self.dispatched:
                self.strange_runs += self.queues.extend(found.runs)
                self.dispatched = found.end
            if found.start >= self.index.end:
                self.index.add(found.keys, found.end)
            if self.save_due and has_room:
                try:
                    self.save()
                except NoSpace:
                    has_room = False
        if missing:
            self.strange_runs = 0  # every queue began again
        nothing = log.start_offset == log.end_offset
        return DerivedReport(rebuilt=None if nothing else why, bytes_read=log.end_offset - start)

    def _remove_checkpoint(self) -> None:
        """Remove the checkpoint of a log that was reset, durably, before it can stand for later appends."""
        self._disk.remove(f"{self.directory}/{DISPATCHED_NAME}")
        self._disk.sync_directory(self.directory)

    def _read_checkpoint(self) -> tuple[DispatchCheckpoint | None, str | None]:
        path = f"{self.directory}/{DISPATCHED_NAME}"
        content = read_file(self._disk, path)
        if content is None:
            return None, f"{path} is missing"
        checkpoint = DispatchCheckpoint.decode(content)
        return checkpoint, None if checkpoint is not None else f"{path} is damaged"
