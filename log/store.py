"""Many logs in one process, as a broker with a log for each partition needs them.

All logs of a store share one directory and its lock, one budget of descriptors (`file_pool.py`), and one flush at a
time, a *round*, which syncs the files of all logs that were written to side by side. A log lies in a directory of its
own; one that is small takes a few blocks of the disk. It is opened when it is first asked for.

    <directory>/lock, room
    <directory>/logs/<name>/manifest, durable, <address>.log

One thread owns the store and its logs; only `FlushRound.run` may be called in another one, while the owner appends and
reads. (With `StoreConfig.threads` above 1 it, `open_all` and `create_all` spread their work over threads of the store.)
"""

import contextlib
import re
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor, wait
from typing import Self

from log.config import StoreConfig
from log.disk import Disk, Lock
from log.errors import LogError, LogExists, UnknownLog
from log.file_pool import FilePool
from log.manifest import DELETED_NAME, ORIGIN, Manifest
from log.manifest import NAME as MANIFEST_NAME
from log.mark import Mark
from log.salvage import PLAN_NAME
from log.segment import SEGMENT_SUFFIX
from log.store_flush import FlushRound, Room
from log.store_log import SharedResources, StoreLog, log_id_of
from log.store_recovery import open_mark
from log.store_salvage import StoreRepaired, StoreSalvage

LOCK_NAME = "lock"
LOGS_NAME = "logs"
ROOM_NAME = "room"
NAME_BYTES_MAX = 255
_NAME = re.compile(r"[A-Za-z0-9._%|-]+")


class LogStore:
    """Many named logs in one directory; made by `open`."""

    def __init__(self, disk: Disk, directory: str, config: StoreConfig, lock: Lock) -> None:
        """Use `open`."""
        self.directory = directory
        self.config = config
        self._disk = disk
        self._lock = lock
        self._shared = SharedResources(
            disk, FilePool(disk, config.open_files_max), Room(disk, f"{directory}/{ROOM_NAME}"), config
        )
        self._names: set[str] = set()
        self._logs: dict[str, StoreLog] = {}
        self._round: FlushRound | None = None
        self._threads = ThreadPoolExecutor(config.threads, thread_name_prefix="log-store")
        self._closed = False
        for name in disk.list_directory(f"{directory}/{LOGS_NAME}"):
            found = disk.list_directory(self._path(name))
            if DELETED_NAME in found:
                self._clear(name)
            elif {MANIFEST_NAME, PLAN_NAME} & {*found} or any(each.endswith(SEGMENT_SUFFIX) for each in found):
                # A log that has lost its manifest is damaged: opening it raises, and only `repair` and `delete` change
                # it.
                self._names.add(name)

    @classmethod
    def open(cls, disk: Disk, directory: str, config: StoreConfig | None = None) -> Self:
        """Returns the store in `directory`, opened or made. Opens no log.

        Raises `DirectoryLocked` if it is open elsewhere, `NoSpace` or `StorageFailed` if the disk refuses.
        """
        disk.make_directory(directory)
        lock = disk.lock(f"{directory}/{LOCK_NAME}")
        try:
            disk.make_directory(f"{directory}/{LOGS_NAME}")
            return cls(disk, directory, config or StoreConfig(), lock)
        except BaseException:
            lock.release()
            raise

    # Logs

    def names(self) -> list[str]:
        """Returns the names of all logs, sorted."""
        return sorted(self._names)

    @property
    def open_files(self) -> int:
        """The number of descriptors that the files of all logs hold now."""
        return self._shared.pool.open_files

    def close_idle(self) -> None:
        """Close the files of logs that were not used since the last call; they are opened again when needed.

        A host calls it every few seconds. Without it files stay open until the budget needs their descriptors.
        """
        self._shared.pool.close_idle()

    def create(self, name: str) -> StoreLog:
        """Returns a new, empty log, made durably.

        Raises `LogExists` if there is one of this name, `ValueError` for an invalid name.
        """
        self.create_all([name])
        return self.log(name)

    def create_all(self, names: Iterable[str]) -> None:
        """Make several logs, in parallel. Raises as `create` does; no log is made if a name is refused."""
        self._require_open()
        wanted = list(dict.fromkeys(names))
        for name in wanted:
            require_name(name)
            if name in self._names:
                raise LogExists(name)
        waiting, errors = iter(wanted), list[LogError]()

        def work() -> None:
            for name in waiting:
                try:
                    self._make(name)
                except LogError as error:
                    errors.append(error)

        self._side_by_side(work, len(wanted))
        if errors:
            raise errors[0]

    def log(self, name: str) -> StoreLog:
        """Returns the log of this name, opened if it was not yet.

        Raises `UnknownLog` if there is none, `CorruptLog` if it is damaged below its durable end (see `repair`).
        """
        self._require_open()
        log = self._logs.get(name)
        if log is None:
            if name not in self._names:
                raise UnknownLog(name)
            log = self._logs[name] = StoreLog(self._shared, name, self._path(name))
        return log

    def open_all(self, names: Iterable[str] | None = None) -> Mapping[str, LogError]:
        """Open these logs, or all, in parallel.

        Returns the errors of those that cannot be opened, by name. See `log`.
        """
        self._require_open()
        wanted = [name for name in (self.names() if names is None else names) if name not in self._logs]
        errors: dict[str, LogError] = {}
        waiting = iter(wanted)

        def work() -> None:
            for name in waiting:
                try:
                    self.log(name)
                except LogError as error:
                    errors[name] = error

        self._side_by_side(work, len(wanted))
        return errors

    def delete(self, name: str) -> None:
        """Delete a log, durably, even if it is damaged. Raises `UnknownLog` if there is none.

        Its part of a round that is under way is waited for, or left out.
        """
        self._require_open()
        if name not in self._names:
            raise UnknownLog(name)
        log = self._logs.pop(name, None)
        if log is not None:
            log.close()
        path = self._path(name)
        if self._disk.exists(f"{path}/{MANIFEST_NAME}"):
            self._disk.rename(f"{path}/{MANIFEST_NAME}", f"{path}/{DELETED_NAME}")
        else:
            self._disk.open(f"{path}/{DELETED_NAME}", create=True).close()
        self._disk.sync_directory(path)
        self._names.discard(name)
        self._clear(name)

    def repair(self, name: str) -> StoreRepaired:
        """Cut a log before its damage, or reset it, durably (see `store_salvage.py`).

        Returns what was done; then it can be opened.

        For a log that `log` refused with `CorruptLog`, or in which damage was read, and of which there are other
        copies: the owner must not take it for a whole one. A log that is open is closed. Raises `UnknownLog` if there
        is none, and what the disk raises; then it may be called again.
        """
        return self._salvage(name).repair()

    def set_aside(self, name: str) -> StoreRepaired:
        """Reset a log to offset 0, durably, and keep the files of what it held as `repair` does.

        Raises as `repair` does.
        """
        return self._salvage(name).repair(reset="it was set aside")

    def _salvage(self, name: str) -> StoreSalvage:
        self._require_open()
        if name not in self._names:
            raise UnknownLog(name)
        opened = self._logs.get(name)
        if opened is not None:
            opened.note_damage()
            opened.close()
            del self._logs[name]
        interval = self.config.index_interval_bytes
        pool, path = self._shared.pool, self._path(name)
        return StoreSalvage(self._disk, pool, path, log_id=log_id_of(name), interval_bytes=interval)

    # Making durable

    @property
    def is_dirty(self) -> bool:
        """True if there is anything to flush."""
        return bool(self._shared.dirty)

    def begin_round(self) -> FlushRound:
        """Returns a round of flushes for everything that was done so far, in all logs; cheap.

        There must be no other under way.
        """
        self._require_open()
        assert self._round is None, "a round is under way: call end_round first"
        dirty = list(self._shared.dirty.values())
        self._shared.dirty.clear()  # a log that has failed will not be flushed any more
        flushes = [log.begin_flush() for log in dirty if log.failed is None]
        self._round = FlushRound(flushes, self._side_by_side)
        return self._round

    def end_round(self, done: FlushRound) -> None:
        """Complete a round that has run. A log whose flush failed keeps its durable offset."""
        assert done is self._round, "not the round that is under way"
        self._round = None
        for flush in done.flushes:
            log = self._logs.get(flush.name)
            if log is not None:
                log.end_flush(flush)

    def flush(self) -> None:
        """Make everything in all logs durable, in this thread.

        Raises `StorageFailed` if a log failed, after all others are done.
        """
        done = self.begin_round()
        try:
            done.run()
        finally:
            self.end_round(done)

    def close(self) -> None:
        """Flush, release all files and the directory. Closing twice is harmless. After a failure nothing is flushed."""
        if self._closed:
            return
        try:
            if self._round is None and not any(log.failed for log in self._logs.values()):
                self.flush()
        finally:
            self._closed = True
            for log in self._logs.values():
                with contextlib.suppress(LogError):
                    log.close()
            self._threads.shutdown()
            self._lock.release()

    # How it is done

    def _path(self, name: str) -> str:
        return f"{self.directory}/{LOGS_NAME}/{name}"

    def _make(self, name: str) -> None:
        path, log_id = self._path(name), log_id_of(name)
        self._disk.make_directory(path)
        if self._disk.list_directory(path):
            self._clear(name, keep_directory=True)
        Manifest(log_id=log_id).write(self._disk, path)
        # Only now, because a checkpoint file is taken as proof that there was a manifest.
        with contextlib.closing(open_mark(self._shared.pool, path, log_id)) as mark:
            mark.write(Mark.of(ORIGIN, 1, 0, None))
        self._names.add(name)

    def _clear(self, name: str, *, keep_directory: bool = False) -> None:
        """Remove all files of a log that is deleted. Whatever a power cut leaves of them, the next opening removes."""
        path = self._path(name)
        for each in self._disk.list_directory(path):
            if each != DELETED_NAME:
                self._disk.remove(f"{path}/{each}")
        self._disk.sync_directory(path)
        if self._disk.exists(f"{path}/{DELETED_NAME}"):
            self._disk.remove(f"{path}/{DELETED_NAME}")
            self._disk.sync_directory(path)
        if not keep_directory:
            self._disk.remove_directory(path)

    def _side_by_side(self, work: Callable[[], None], count: int) -> None:
        """Carry out `work`, which ends where none of `count` things is left to do, in several threads at once."""
        threads = min(self.config.threads, count)
        if threads <= 1:
            work()
            return
        for each in wait([self._threads.submit(work) for _ in range(threads)]).done:
            each.result()

    def _require_open(self) -> None:
        if self._closed:
            raise ValueError("the store is closed")


def require_name(name: str) -> None:
    """Raises `ValueError` unless a name is 1 to 255 letters, digits and `._%|-`, and neither `.` nor `..`."""
    if not _NAME.fullmatch(name) or len(name) > NAME_BYTES_MAX or name in (".", ".."):
        raise ValueError(f"{name[:300]!r} is no name of a log: use 1 to {NAME_BYTES_MAX} of A-Z, a-z, 0-9 and ._%|-")
