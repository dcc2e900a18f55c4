"""One budget of descriptors for many files: each is opened when it is needed, and past the bound the idlest is closed.

A file that was written to and not synced is closed last, and synced before: the system reports the error of a delayed
write to the descriptors that are open then, not to later ones. If that sync fails, the file fails at its next use.
"""

import threading
from collections import OrderedDict
from collections.abc import Sequence
from itertools import chain

from log.disk import Disk, File
from log.errors import StorageError, StorageFailed
from log.frame import Buffer


class PooledFile:
    """A file of the pool; holds no descriptor while it is idle.

    See `File` for its calls; they may come from any thread.
    """

    __slots__ = ("_lossy", "_pool", "failed", "file", "is_dirty", "path", "pins", "used")

    def __init__(self, pool: "FilePool", path: str, *, lossy: bool) -> None:
        """Use `FilePool.file`. What is written to a `lossy` one may be lost unless its owner syncs it."""
        self._pool = pool
        self._lossy = lossy
        self.path = path
        self.file: File | None = None
        self.is_dirty = False
        self.pins = 0
        self.used = False
        self.failed: StorageFailed | None = None

    def read_at(self, position: int, size: int) -> bytes:
        """See `File`."""
        file = self._pool.acquire(self)
        try:
            return file.read_at(position, size)
        finally:
            self._pool.release(self)

    def write_at(self, position: int, buffers: Sequence[Buffer]) -> None:
        """See `File`."""
        file = self._pool.acquire(self)
        try:
            self.is_dirty = not self._lossy
            file.write_at(position, buffers)
        finally:
            self._pool.release(self)

    def size(self) -> int:
        """See `File`."""
        file = self._pool.acquire(self)
        try:
            return file.size()
        finally:
            self._pool.release(self)

    def cut(self, size: int) -> None:
        """See `File`."""
        file = self._pool.acquire(self)
        try:
            self.is_dirty = True
            file.cut(size)
        finally:
            self._pool.release(self)

    def sync(self) -> None:
        """See `File`."""
        file = self._pool.acquire(self)
        try:
            self.is_dirty = False  # before, because a write that comes meanwhile is not covered
            file.sync()
        finally:
            self._pool.release(self)

    def sync_descriptor(self) -> int | None:
        """See `File`: the pool may close it at any time."""
        return None

    def reserve(self, size: int) -> None:
        """See `File`."""
        file = self._pool.acquire(self)
        try:
            file.reserve(size)
        finally:
            self._pool.release(self)

    def close(self) -> None:
        """Close the descriptor, without a sync. The next use opens the file again."""
        self._pool.close(self)


class FilePool:
    """Holds at most `files_max` files open; that must be more than there are threads that use them."""

    def __init__(self, disk: Disk, files_max: int) -> None:
        self._disk = disk
        self._files_max = files_max
        self._lock = threading.Lock()
        self._clean: OrderedDict[PooledFile, None] = OrderedDict()
        self._dirty: OrderedDict[PooledFile, None] = OrderedDict()

    @property
    def open_files(self) -> int:
        """The number of files that are open now."""
        return len(self._clean) + len(self._dirty)

    def file(self, path: str, *, create: bool = False, lossy: bool = False) -> PooledFile:
        """Returns a file, which is opened at its first use; with `create` it is opened now, and made if missing."""
        file = PooledFile(self, path, lossy=lossy)
        if create:
            self.acquire(file, create=True)
            self.release(file)
        return file

    def acquire(self, wanted: PooledFile, *, create: bool = False) -> File:
        """Returns the open file, which stays open until `release`.

        Raises `StorageFailed` if an earlier sync of it has failed.
        """
        with self._lock:
            if wanted.failed is not None:
                raise wanted.failed
            file = wanted.file
            if file is None:
                while self.open_files >= self._files_max and self._close_idlest():
                    pass
                file = wanted.file = self._disk.open(wanted.path, create=create)
                self._clean[wanted] = None
            wanted.pins += 1
            wanted.used = True
            return file

    def release(self, used: PooledFile) -> None:
        """Let the file be closed when its descriptor is needed for another."""
        with self._lock:
            used.pins -= 1
            held, others = (self._dirty, self._clean) if used.is_dirty else (self._clean, self._dirty)
            if used not in held:
                others.pop(used, None)
                held[used] = None
            held.move_to_end(used)

    def close_idle(self) -> None:
        """Close the files that nothing has used since the last call, but for those that wait for a sync."""
        with self._lock:
            for each in list(self._clean):
                if not each.used and not each.pins:
                    self._close(each)
                each.used = False

    def close(self, file: PooledFile) -> None:
        """See `PooledFile.close`. Not while another thread uses the file."""
        with self._lock:
            assert not file.pins, "a file that is in use is not closed"
            self._close(file)

    def _close(self, file: PooledFile) -> None:
        if file.file is not None:
            self._forget(file)
            closed, file.file, file.is_dirty = file.file, None, False
            closed.close()

    def _forget(self, file: PooledFile) -> None:
        if self._clean.pop(file, self) is self:
            self._dirty.pop(file, None)

    def _close_idlest(self) -> bool:
        """Returns False if all files are in use."""
        idlest = next((each for each in chain(self._clean, self._dirty) if not each.pins), None)
        if idlest is None:
            return False
        self._forget(idlest)
        file, idlest.file = idlest.file, None
        assert file is not None, "an idle file of the pool is open"
        try:
            if idlest.is_dirty:
                idlest.is_dirty = False
                file.sync()
        except StorageError as error:
            detail = error.detail if isinstance(error, StorageFailed) else str(error)
            idlest.failed = StorageFailed("sync", idlest.path, detail)
        finally:
            file.close()
        return True
