"""One flush of one log of a store, and the round that carries out those of many logs side by side."""

import contextlib
import threading
from collections import deque
from collections.abc import Callable, Sequence

from log.disk import Disk, File
from log.errors import NoSpace, StorageFailed
from log.frame import Address
from log.manifest import Manifest
from log.mark import Mark, MarkFile
from log.store_recovery import StoreSegment

ROOM_BYTES = 64 * 1024


class Room:
    """Room on the disk that a store keeps, if there is as much, for manifests, so that a full disk can be trimmed."""

    def __init__(self, disk: Disk, path: str) -> None:
        self._disk = disk
        self._path = path
        self._lock = threading.Lock()
        self.keep()

    def keep(self) -> None:
        """Reserve as much as is free, up to `ROOM_BYTES`."""
        with self._lock, contextlib.suppress(NoSpace), self._file() as file:
            file.reserve(ROOM_BYTES)

    def give(self) -> None:
        """Release the room, for a manifest that needs it now."""
        with self._lock, self._file() as file:
            file.cut(0)

    def _file(self) -> contextlib.AbstractContextManager[File]:
        return contextlib.closing(self._disk.open(self._path, create=True))


class LogFlush:
    """Makes durable what one log held when it began; `run` may be called in any thread, once.

    The owner may `stop` it at any time, to change the log in another way or to delete it.
    """

    def __init__(
        self,
        disk: Disk,
        room: Room,
        name: str,
        directory: str,
        mark: MarkFile,
        *,
        rolled: Sequence[StoreSegment],
        active: StoreSegment | None,
        durable_end: Address,
        end_offset: int,
        names_changed: bool,
        manifest: Manifest | None,
        version: int,
        retired: Sequence[StoreSegment],
        fail: Callable[[BaseException], None],
    ) -> None:
        self.name = name
        self.durable_end = durable_end
        self.end_offset = end_offset
        self.rolled = rolled
        self.manifest = manifest
        """The manifest to write; None if the one in force is still right."""
        self.names_changed = names_changed
        self.retired = retired
        """Segments that left the log; their files go once the manifest is durable."""
        self.done = False
        """True once everything is durable."""
        self.committed = False
        """True once the manifest is in force; on a full disk it may wait for the next flush."""
        self._disk = disk
        self._room = room
        self._directory = directory
        self._mark = mark
        self._active = active
        self._version = version
        self._fail = fail
        self._stopped = False
        self._lock = threading.Lock()

    def stop(self) -> None:
        """Wait until it has run, or keep it from running."""
        with self._lock:
            self._stopped = True

    def run(self) -> None:
        """Sync data, then names, then the manifest, then write the durable-end checkpoint.

        Raises `StorageFailed`, which ends the log.
        """
        with self._lock:
            if self._stopped:
                return
            try:
                self._run()
            except NoSpace as error:
                # Raised by a sync: the system may have dropped the data, so it is as final as any other failure.
                failed = StorageFailed(error.operation, error.path, str(error))
                self._fail(failed)
                raise failed from error
            except BaseException as error:
                self._fail(error)
                raise
            self._stopped = self.done = True

    def _run(self) -> None:
        for segment in self.rolled:
            if segment.index is not None:
                segment.seal()
            segment.file.sync()
        if self._active is not None:
            self._active.file.sync()
        if self.names_changed:
            self._disk.sync_directory(self._directory)
        if self.manifest is not None:
            self.committed = self._has_written(self.manifest)
        self._mark.write(Mark.of(self.durable_end, self._version, 0, None))
        if self.committed and self.retired:
            for segment in self.retired:
                segment.file.close()
                self._disk.remove(segment.file.path)
            self._room.keep()

    def _has_written(self, manifest: Manifest) -> bool:
        """Put a manifest in force.

        Returns False on a full disk; then the data is durable all the same, and no file is removed.
        """
        try:
            manifest.write(self._disk, self._directory)
        except NoSpace:
            if not self.retired:
                return False
            self._room.give()
            try:
                manifest.write(self._disk, self._directory)
            except NoSpace:
                return False
        self._version = manifest.version
        return True


class FlushRound:
    """The flushes of all logs that were written to; made by `LogStore.begin_round`, completed by `end_round`."""

    def __init__(self, flushes: Sequence[LogFlush], side_by_side: Callable[[Callable[[], None], int], None]) -> None:
        self.flushes = flushes
        self._waiting = deque(flushes)
        self._failures: list[StorageFailed] = []
        self._side_by_side = side_by_side

    def run(self) -> None:
        """Carry out all flushes, in any thread, once. Raises the first failure, if there was one, after all are done.

        A log that failed refuses every later call; the others are not affected.
        """
        self._side_by_side(self._work, len(self.flushes))
        if self._failures:
            raise self._failures[0]

    def _work(self) -> None:
        while True:
            try:
                flush = self._waiting.popleft()
            except IndexError:
                return
            try:
                flush.run()
            except StorageFailed as error:
                self._failures.append(error)
