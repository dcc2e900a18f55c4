"""The port to the disk, and the real disk behind it.

The port is as narrow as a log needs: positioned reads and writes, an explicit sync for bytes (`File.sync`) and another
for names (`Disk.sync_directory`), as a synced file without a synced name can be gone after a power cut.

Errors are three: `NoSpace` (the owner may go on), `DirectoryLocked`, and `StorageFailed` for everything else. No call
is retried after an error; only short transfers are continued, since they are not errors.
"""

import contextlib
import ctypes
import errno
import fcntl
import os
from collections.abc import Sequence
from typing import ClassVar, Protocol

from log.errors import DirectoryLocked, NoSpace, StorageError, StorageFailed
from log.frame import Buffer


class File(Protocol):
    """An open file.

    Positions and sizes in bytes. Reads and writes may run concurrently with a `sync` in another thread.
    """

    def read_at(self, position: int, size: int) -> bytes:
        """Returns `size` bytes, or fewer at the end of the file."""

    def write_at(self, position: int, buffers: Sequence[Buffer]) -> None:
        """Write all buffers one after the other.

        Raises `NoSpace` on a full disk; any prefix may have been written then.
        """

    def size(self) -> int:
        """Returns the size of the file in bytes."""

    def cut(self, size: int) -> None:
        """Truncate the file to `size` bytes, and release what `reserve` allocated beyond it."""

    def sync(self) -> None:
        """Make bytes and size durable, but not the file's name (see `Disk.sync_directory`)."""

    def sync_descriptor(self) -> int | None:
        """Returns a descriptor whose fdatasync is as good as `sync`, until `cut` or `close`; None if there is none."""

    def reserve(self, size: int) -> None:
        """Allocate the first `size` bytes without changing the file's size. Raises `NoSpace` if there is no room."""

    def close(self) -> None:
        """Release the descriptor; makes nothing durable."""


class Lock(Protocol):
    """An exclusive lock that ends with its process at the latest."""

    def release(self) -> None:
        """Release the lock."""


class Disk(Protocol):
    """Names and files. Paths are strings with `/`."""

    def open(self, path: str, *, create: bool) -> File:
        """Returns a file opened for reading and writing.

        `create` makes a missing one; an existing one keeps its content.
        """

    def exists(self, path: str) -> bool:
        """Returns whether the name exists."""

    def list_directory(self, path: str) -> list[str]:
        """Returns the names in a directory, sorted."""

    def remove(self, path: str) -> None:
        """Remove a file's name."""

    def rename(self, source: str, target: str) -> None:
        """Rename a file within its directory, replacing a file of the new name: after a crash either of both has it."""

    def drop_cache(self, path: str) -> None:
        """Advise the system to drop the synced pages of this file from the page cache. Never fails."""

    def make_directory(self, path: str) -> None:
        """Make a directory and its missing parents, durably. Does nothing if the directory holds files already."""

    def remove_directory(self, path: str) -> None:
        """Remove an empty directory; a power cut may bring it back."""

    def sync_directory(self, path: str) -> None:
        """Make the names in a directory durable."""

    def lock(self, path: str) -> Lock:
        """Returns an exclusive lock on a file of this name. Raises `DirectoryLocked` if it is locked already."""


def read_file(disk: Disk, path: str) -> bytes | None:
    """Returns the content of a file, or None if there is none."""
    if not disk.exists(path):
        return None
    with contextlib.closing(disk.open(path, create=False)) as file:
        return file.read_at(0, file.size())


def write_file(disk: Disk, path: str, content: Sequence[Buffer]) -> None:
    """Write a whole file, from its beginning, and sync it, but not its name.

    On a full disk the file is removed again.
    """
    with contextlib.closing(disk.open(path, create=True)) as file:
        try:
            file.cut(0)
            file.write_at(0, content)
            file.sync()
        except NoSpace:
            disk.remove(path)
            raise


def rename_file(disk: Disk, directory: str, source: str, target: str) -> None:
    """Rename a file in its directory, durably."""
    disk.rename(f"{directory}/{source}", f"{directory}/{target}")
    disk.sync_directory(directory)


def replace_file(disk: Disk, directory: str, name: str, *content: Buffer) -> None:
    """Replace a file so that after a crash either the old or the new content is there, whole."""
    scratch = f"{name}.tmp"
    write_file(disk, f"{directory}/{scratch}", content)
    rename_file(disk, directory, scratch, name)


def this_boot() -> str:
    """Returns the name of the time since this machine was started; empty where the system has none."""
    try:
        with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
            return file.read().strip()
    except OSError:
        return ""


_FALLOC_FL_KEEP_SIZE = 1
_BUFFERS_PER_CALL_MAX = os.sysconf("SC_IOV_MAX")

_libc_fallocate = ctypes.CDLL(None, use_errno=True).fallocate
_libc_fallocate.argtypes = [ctypes.c_int, ctypes.c_int, ctypes.c_int64, ctypes.c_int64]
_libc_fallocate.restype = ctypes.c_int


def storage_error(error: OSError, operation: str, path: str) -> StorageError:
    """Returns the error of this package for an error of the operating system."""
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return NoSpace(operation, path)
    return StorageFailed(operation, path, error.strerror or str(error))


class _translating:  # noqa: N801 - reads like the context managers of contextlib, but costs a third: one is used at every sync
    """A context in which errors of the operating system are raised as those of this package."""

    __slots__ = ("_operation", "_path")

    def __init__(self, operation: str, path: str) -> None:
        self._operation = operation
        self._path = path

    def __enter__(self) -> None:
        """Nothing to prepare."""

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: object) -> None:
        if isinstance(error, OSError):
            raise storage_error(error, self._operation, self._path) from error


class RealFile:
    """A file of the operating system; its descriptor is not inherited by child processes."""

    __slots__ = ("_descriptor", "_path", "_size_changed")

    def __init__(self, descriptor: int, path: str) -> None:
        self._descriptor = descriptor
        self._path = path
        self._size_changed = False

    def read_at(self, position: int, size: int) -> bytes:
        """See `File`."""
        try:
            first = os.pread(self._descriptor, size, position)
            if not first or len(first) == size:
                return first
            parts = [first]
            got = len(first)
            while got < size and (part := os.pread(self._descriptor, size - got, position + got)):
                parts.append(part)
                got += len(part)
            return b"".join(parts)
        except OSError as error:
            raise storage_error(error, "read", self._path) from error

    def write_at(self, position: int, buffers: Sequence[Buffer]) -> None:
        """See `File`. The common case is one system call without a copy."""
        try:
            size = sum(map(len, buffers))
            written = os.pwritev(self._descriptor, buffers[:_BUFFERS_PER_CALL_MAX], position)
            if written < size:
                self._write_rest(position + written, buffers, written)
        except OSError as error:
            raise storage_error(error, "write", self._path) from error

    def _write_rest(self, position: int, buffers: Sequence[Buffer], skipped: int) -> None:
        rest = [memoryview(buffer) for buffer in buffers]
        done = skipped
        while rest:
            while rest and done >= len(rest[0]):
                done -= len(rest.pop(0))
            if not rest:
                return
            rest[0] = rest[0][done:]
            done = os.pwritev(self._descriptor, rest[:_BUFFERS_PER_CALL_MAX], position)
            position += done

    def size(self) -> int:
        """See `File`."""
        with _translating("stat", self._path):
            return os.fstat(self._descriptor).st_size

    def cut(self, size: int) -> None:
        """See `File`."""
        with _translating("cut", self._path):
            self._size_changed = True
            os.ftruncate(self._descriptor, size)

    def sync(self) -> None:
        """See `File`: fdatasync, or fsync when the file was cut, since a smaller size need not count as data."""
        with _translating("sync", self._path):
            if self._size_changed:
                os.fsync(self._descriptor)
                self._size_changed = False
            else:
                os.fdatasync(self._descriptor)

    def sync_descriptor(self) -> int | None:
        """See `File`."""
        return None if self._size_changed else self._descriptor

    def reserve(self, size: int) -> None:
        """See `File`: fallocate that keeps the size; where a file system has none, only the free space is checked."""
        if size <= 0 or _libc_fallocate(self._descriptor, _FALLOC_FL_KEEP_SIZE, 0, size) == 0:
            return
        code = ctypes.get_errno()
        if code not in (errno.EOPNOTSUPP, errno.ENOSYS):
            raise storage_error(OSError(code, os.strerror(code)), "reserve", self._path)
        with _translating("reserve", self._path):
            free = os.fstatvfs(self._descriptor)
            allocated = os.fstat(self._descriptor).st_blocks * 512
        if free.f_bavail * free.f_frsize < size - allocated:
            raise NoSpace("reserve", self._path)

    def close(self) -> None:
        """See `File`; closing twice is harmless."""
        if self._descriptor >= 0:
            descriptor, self._descriptor = self._descriptor, -1
            with _translating("close", self._path):
                os.close(descriptor)


class _RealLock:
    """An `flock` on an open file: it conflicts within one process too, and ends with the process."""

    __slots__ = ("_descriptor", "_file")

    held: ClassVar[set[tuple[int, int]]] = set()
    """The files, as device and inode, that this process has locked."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._file = _file_of(descriptor)
        self.held.add(self._file)

    def release(self) -> None:
        """See `Lock`; releasing twice is harmless."""
        if self._descriptor >= 0:
            self.held.discard(self._file)
            os.close(self._descriptor)
            self._descriptor = -1


def _file_of(descriptor: int) -> tuple[int, int]:
    status = os.fstat(descriptor)
    return status.st_dev, status.st_ino


class RealDisk:
    """The disk of the operating system."""

    def open(self, path: str, *, create: bool) -> File:
        """See `Disk`."""
        flags = os.O_RDWR | os.O_CLOEXEC | (os.O_CREAT if create else 0)
        with _translating("open", path):
            return RealFile(os.open(path, flags, 0o644), path)

    def exists(self, path: str) -> bool:
        """See `Disk`."""
        return os.path.lexists(path)

    def list_directory(self, path: str) -> list[str]:
        """See `Disk`."""
        with _translating("list", path):
            return sorted(os.listdir(path))

    def remove(self, path: str) -> None:
        """See `Disk`."""
        with _translating("remove", path):
            os.unlink(path)

    def rename(self, source: str, target: str) -> None:
        """See `Disk`."""
        with _translating("rename", source):
            os.rename(source, target)

    def drop_cache(self, path: str) -> None:
        """See `Disk`."""
        with contextlib.suppress(OSError):
            descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
            try:
                os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
            finally:
                os.close(descriptor)

    def make_directory(self, path: str) -> None:
        """See `Disk`."""
        parent = os.path.dirname(os.path.realpath(path))
        with _translating("make directory", path):
            is_there = os.path.isdir(path)
            if is_there and os.listdir(path):
                return  # it has been in use, so it was made durable
            if not is_there:
                self.make_directory(parent)
                with contextlib.suppress(FileExistsError):
                    os.mkdir(path)
        try:
            self.sync_directory(parent)
        except StorageFailed as error:
            # The directory was made by another user, in a parent that this process may not open: its name is for that
            # user to sync.
            if not (is_there and isinstance(error.__cause__, PermissionError)):
                raise

    def remove_directory(self, path: str) -> None:
        """See `Disk`."""
        with _translating("remove directory", path):
            os.rmdir(path)

    def sync_directory(self, path: str) -> None:
        """See `Disk`."""
        with _translating("sync directory", path):
            descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            try:
                os.fsync(descriptor)
            finally:
                os.close(descriptor)

    def lock(self, path: str) -> Lock:
        """See `Disk`."""
        with _translating("lock", path):
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                by_this_process = _file_of(descriptor) in _RealLock.held
                os.close(descriptor)
                raise DirectoryLocked(path, by_this_process=by_this_process) from None
            except OSError:
                os.close(descriptor)
                raise
        return _RealLock(descriptor)
