"""A disk in memory that loses, tears, lies, fills up and fails, each on request and all drawn from one random stream.

What a program sees (the page cache) and what would survive a power cut (the platter) are kept apart:

- a write, a cut or a change of names is *pending* until a sync covers it;
- a power cut keeps what was synced, plus any prefix or subset of what was pending, file by file; a write may be torn at
  any byte, keep any subset of its 512-byte sectors, or only make the file longer; a name that was not synced is there
  or not;
- a failed sync leaves pending writes visible but forgotten, as Linux does: a second sync succeeds and saves nothing;
- a process that is merely killed loses nothing but its locks and handles.

The same calls and the same stream of random numbers give the same disk. Nothing is copied per call but the bytes
written. One thread may sync while another writes, as on a real disk: the sync covers what was written before it began.
"""

import contextlib
import enum
import random
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Self

import attrs

from log.disk import File, Lock
from log.errors import DirectoryLocked, NoSpace, StorageFailed
from log.frame import Buffer
from log.values import evolve, frozen

SECTOR_BYTES = 512
_NEVER = 2**63
_ALWAYS: Mapping[str, int] = {}


class PowerLoss(enum.Enum):
    """The fate of one file's pending writes in a power cut."""

    LOSE_ALL = "lose-all"
    KEEP_PREFIX = "keep-prefix"
    """Writes up to some point, the last of them torn."""
    KEEP_SUBSET = "keep-subset"
    """Any of the writes, any of them torn."""
    KEEP_ALL = "keep-all"


@frozen
class _Write:
    sequence: int
    position: int
    content: bytes


@frozen
class _Cut:
    sequence: int
    size: int


@attrs.define(eq=False)
class _Inode:
    """A reader sees `image`, the platter has `durable`; `pending` leads from one to the other, in order."""

    image: bytearray = attrs.field(factory=bytearray)
    durable: bytearray = attrs.field(factory=bytearray)
    pending: list[_Write | _Cut] = attrs.field(factory=list)
    reserved: int = 0

    @property
    def allocated(self) -> int:
        return max(len(self.image), self.reserved)

    def copy(self) -> "_Inode":
        return _Inode(bytearray(self.image), bytearray(self.durable), list(self.pending), self.reserved)


@frozen
class _NameChange:
    """A file was made, removed or renamed: `names` has the file that each name stands for from then on, or None."""

    sequence: int
    directory: str
    names: Sequence[tuple[str, _Inode | None]]


def _apply(change: _Write | _Cut, platter: bytearray) -> None:
    match change:
        case _Write(position=position, content=content):
            _place(platter, position, content)
        case _Cut(size=size):
            _resize(platter, size)


def _place(image: bytearray, position: int, content: bytes) -> None:
    if position == len(image):
        image += content
        return
    if position > len(image):
        _resize(image, position)
    image[position : position + len(content)] = content


def _resize(image: bytearray, size: int) -> None:
    if size <= len(image):
        del image[size:]
    else:
        image.extend(bytes(size - len(image)))


def _apply_name(change: _NameChange, names: dict[str, _Inode], since: Mapping[str, int] = _ALWAYS) -> None:
    """Apply a change of names.

    `since` holds the sequence of the last change applied to each name; an older one is not applied again.
    """
    for path, inode in change.names:
        if since.get(path, 0) > change.sequence:
            continue
        if inode is None:
            names.pop(path, None)
        else:
            names[path] = inode


def _directory_of(path: str) -> str:
    return path.rpartition("/")[0]


class MemoryFile:
    """An open file of a `MemoryDisk`."""

    __slots__ = ("_disk", "_inode", "_open", "_path")

    def __init__(self, disk: "MemoryDisk", inode: _Inode, path: str) -> None:
        self._disk = disk
        self._inode = inode
        self._path = path
        self._open = True

    def read_at(self, position: int, size: int) -> bytes:
        """See `File`."""
        self._enter("read")
        return bytes(self._inode.image[position : position + size])

    def write_at(self, position: int, buffers: Sequence[Buffer]) -> None:
        """See `File`. A write that fails leaves any prefix of itself."""
        disk, inode = self._disk, self._inode
        content = b"".join(buffers)
        try:
            self._enter("write")
        except StorageFailed:
            self._write(position, content[: disk.rng.randint(0, len(content))])
            raise
        with disk.changing:
            grows = position + len(content) - inode.allocated
            if disk.capacity_bytes is not None and grows > 0:
                room = disk.capacity_bytes - disk.used_bytes()
                if grows > room:
                    kept = inode.allocated + max(room, 0) - position
                    self._write(position, content[: disk.rng.randint(0, max(kept, 0))])
                    raise NoSpace("write", self._path)
            self._write(position, content)

    def _write(self, position: int, content: bytes) -> None:
        inode = self._inode
        with self._disk.changing:
            _place(inode.image, position, content)
            inode.pending.append(_Write(self._disk.next_sequence(), position, content))

    def size(self) -> int:
        """See `File`."""
        self._enter("stat")
        return len(self._inode.image)

    def cut(self, size: int) -> None:
        """See `File`."""
        self._enter("cut")
        inode = self._inode
        with self._disk.changing:
            inode.reserved = 0
            if size != len(inode.image):
                _resize(inode.image, size)
                inode.pending.append(_Cut(self._disk.next_sequence(), size))

    def sync_descriptor(self) -> int | None:
        """See `File`: only `sync` can make it durable."""
        return None

    def sync(self) -> None:
        """See `File`. A sync that fails saves some of the pending writes and forgets the others."""
        inode, disk = self._inode, self._disk
        began = disk.mark()
        try:
            self._enter("sync")
        except StorageFailed:
            with disk.changing:
                for change in self._take_covered(began):
                    if disk.rng.random() < 0.5:
                        _apply(change, inode.durable)
            raise
        if disk.lying_sync:
            return
        with disk.changing:
            for change in self._take_covered(began):
                _apply(change, inode.durable)

    def _take_covered(self, began: int) -> list[_Write | _Cut]:
        """Remove and return the pending changes that a sync which began at this mark covers."""
        inode, covers = self._inode, self._disk.covers
        covered = [change for change in inode.pending if covers(change.sequence, began)]
        inode.pending = [change for change in inode.pending if not covers(change.sequence, began)]
        return covered

    def reserve(self, size: int) -> None:
        """See `File`."""
        self._enter("reserve")
        inode, disk = self._inode, self._disk
        with disk.changing:
            grows = size - inode.allocated
            if grows > 0:
                if disk.capacity_bytes is not None and grows > disk.capacity_bytes - disk.used_bytes():
                    raise NoSpace("reserve", self._path)
                inode.reserved = size

    def close(self) -> None:
        """See `File`."""
        self._open = False

    def _enter(self, operation: str) -> None:
        assert self._open, f"{operation} of {self._path} after close"
        self._disk.enter(operation, self._path)


class _MemoryLock:
    __slots__ = ("_disk", "_path")

    def __init__(self, disk: "MemoryDisk", path: str) -> None:
        self._disk = disk
        self._path = path

    def release(self) -> None:
        """See `Lock`."""
        self._disk.unlock(self._path)


class MemoryDisk:
    """See the module. Faults are attributes and calls of the disk:

    - `fail_call(n)`: the n-th call from now fails with `StorageFailed`; `failing = True`: every call does;
    - `capacity_bytes`: what does not fit raises `NoSpace`; None = endless;
    - `lying_sync`: syncs of bytes and of names succeed and do nothing;
    - `flip_bit`: rot, in the cache and on the platter;
    - `before_call(operation, path)`: called first in every call; may wait, to model a slow disk, or raise;
    - `mark` and `issued_before`: a sync that takes time covers only what was issued before it began.

    `calls` counts the calls so far; `failed_as_asked` is whether one of them failed because a fault was set.
    """

    def __init__(self, rng: random.Random, *, capacity_bytes: int | None = None) -> None:
        self.rng = rng
        self.capacity_bytes = capacity_bytes
        self.lying_sync = False
        self.failing = False
        self.failed_as_asked = False
        self.before_call: Callable[[str, str], None] | None = None
        self.calls = 0
        self.changing = threading.RLock()
        """Held while a thread changes the disk or reads all of it, but never while a call waits in `before_call`."""
        self._covers_before = _NEVER
        self._covers_since = _NEVER
        self._fail_at = _NEVER
        self._sequence = 0
        self._names: dict[str, _Inode] = {}
        self._durable_names: dict[str, _Inode] = {}
        self._pending_names: list[_NameChange] = []
        self._names_settled: dict[str, int] = {}
        """By which change each durable name got its meaning."""
        self._directories: set[str] = {""}
        self._locks: set[str] = set()

    # The port

    def open(self, path: str, *, create: bool) -> File:
        """See `Disk`."""
        self.enter("open", path)
        with self.changing:
            inode = self._names.get(path)
            if inode is None:
                if not create:
                    raise StorageFailed("open", path, "No such file or directory")
                self._require_directory("open", path)
                if self.capacity_bytes is not None and self.used_bytes() >= self.capacity_bytes:
                    raise NoSpace("open", path)
                inode = _Inode()
                self._change_names(path, (path, inode))
        return MemoryFile(self, inode, path)

    def exists(self, path: str) -> bool:
        """See `Disk`."""
        self.enter("exists", path)
        return path in self._names or path in self._directories

    def list_directory(self, path: str) -> list[str]:
        """See `Disk`."""
        self.enter("list", path)
        prefix = f"{path}/"
        with self.changing:
            inside = [name[len(prefix) :] for name in (*self._names, *self._directories) if name.startswith(prefix)]
        return sorted(name for name in inside if "/" not in name)

    def remove(self, path: str) -> None:
        """See `Disk`."""
        self.enter("remove", path)
        with self.changing:
            self._existing("remove", path)
            self._change_names(path, (path, None))

    def rename(self, source: str, target: str) -> None:
        """See `Disk`."""
        self.enter("rename", source)
        assert _directory_of(source) == _directory_of(target), "a rename stays in its directory"
        with self.changing:
            self._change_names(source, (source, None), (target, self._existing("rename", source)))

    def drop_cache(self, path: str) -> None:
        """See `Disk`; there is no other memory than this."""

    def make_directory(self, path: str) -> None:
        """See `Disk`. Directories are durable at once."""
        self.enter("make directory", path)
        while path:
            self._directories.add(path)
            path = _directory_of(path)

    def remove_directory(self, path: str) -> None:
        """See `Disk`. Durable at once, as it is made."""
        self.enter("remove directory", path)
        with self.changing:
            if path not in self._directories:
                raise StorageFailed("remove directory", path, "No such file or directory")
            if any(_directory_of(name) == path for name in (*self._names, *self._directories)):
                raise StorageFailed("remove directory", path, "Directory not empty")
            self._directories.remove(path)

    def sync_directory(self, path: str) -> None:
        """See `Disk`. If it fails, some of the pending names are saved and the others stay pending.

        Unlike data, names are not forgotten while they are still visible: a file system whose journal fails stops.
        """
        began = self.mark()
        try:
            self.enter("sync directory", path)
        except StorageFailed:
            with self.changing:
                self._settle_names([change for change in self._covered_names(path, began) if self.rng.random() < 0.5])
            raise
        if not self.lying_sync:
            with self.changing:
                self._settle_names(self._covered_names(path, began))

    def lock(self, path: str) -> Lock:
        """See `Disk`."""
        self.enter("lock", path)
        with self.changing:
            if path in self._locks:
                raise DirectoryLocked(path, by_this_process=True)
            self._locks.add(path)
        return _MemoryLock(self, path)

    # Faults

    def fail_call(self, n: int) -> None:
        """The n-th call from now (1 = the next) fails."""
        with self.changing:
            self._fail_at = self.calls + n

    def write_back(self) -> None:
        """Make everything durable that is pending, as the system does after a while on its own."""
        with self.changing:
            for inode in {*self._names.values(), *self._durable_names.values()}:
                for change in inode.pending:
                    _apply(change, inode.durable)
                inode.pending = []
            self._settle_names(list(self._pending_names))

    def flip_bit(self, path: str, bit: int) -> None:
        """Invert one bit of a file, counted from its begin; what is not on the platter changes in the cache alone."""
        at, mask = bit // 8, 1 << bit % 8
        with self.changing:
            inode = self._names[path]
            inode.image[at] ^= mask
            if at < len(inode.durable):
                inode.durable[at] ^= mask

    def mark(self) -> int:
        """Returns this moment in the order of all changes."""
        return self._sequence + 1

    @contextlib.contextmanager
    def issued_before(self, mark: int) -> Iterator[None]:
        """Inside, a sync covers only the changes made before `mark`, and those made inside before the sync began."""
        outer = self._covers_before, self._covers_since
        self._covers_before, self._covers_since = mark, self.mark()
        try:
            yield
        finally:
            self._covers_before, self._covers_since = outer

    def covers(self, sequence: int, began: int) -> bool:
        """Returns True if a sync begun at the mark `began` covers the change with this place in the order of all."""
        return sequence < began and (sequence < self._covers_before or sequence >= self._covers_since)

    def after_crash(self, rng: random.Random, *, loss: PowerLoss | None = None) -> "MemoryDisk":
        """Returns the disk as it may be after a power cut at this moment; `loss` is drawn for each file if not given.

        This disk is not changed, so that several outcomes can be tried. The new one has no faults set.
        """
        with self.changing:
            names = dict(self._durable_names)
            for change in self._pending_names:
                keep = rng.random() < 0.5 if loss in (None, PowerLoss.KEEP_SUBSET) else loss is not PowerLoss.LOSE_ALL
                if keep:
                    _apply_name(change, names, self._names_settled)
            survivors: dict[_Inode, _Inode] = {}
            for path in sorted(names):
                inode = names[path]
                if inode not in survivors:
                    survivors[inode] = self._survivor(inode, rng, loss)
            return self._successor(rng, {path: survivors[inode] for path, inode in names.items()})

    def durable_copy(self) -> "MemoryDisk":
        """Returns the disk with only what every power cut at this moment would leave."""
        with self.changing:
            names = {path: _inode_of(bytearray(inode.durable)) for path, inode in self._durable_names.items()}
            return self._successor(random.Random(0), names)

    def after_kill(self, rng: random.Random) -> "MemoryDisk":
        """Returns the disk as it is after its process was killed: pending changes are visible, and still pending."""
        with self.changing:
            copies: dict[_Inode, _Inode] = {}

            def copy(inode: _Inode) -> _Inode:
                return copies.get(inode) or copies.setdefault(inode, inode.copy())

            disk = self._successor(rng, {})
            disk._names = {path: copy(inode) for path, inode in self._names.items()}
            disk._durable_names = {path: copy(inode) for path, inode in self._durable_names.items()}
            disk._pending_names = [
                evolve(change, names=[(path, inode and copy(inode)) for path, inode in change.names])
                for change in self._pending_names
            ]
            disk._names_settled = dict(self._names_settled)
            disk._sequence = self._sequence
            return disk

    # What tests and audits may ask

    def used_bytes(self) -> int:
        """Returns the bytes allocated to files, reservations included."""
        with self.changing:
            return sum(inode.allocated for inode in self._names.values())

    def content(self, path: str) -> bytes:
        """Returns the content of a file, as a reader sees it; no call is counted."""
        return bytes(self._names[path].image)

    def durable_content(self, path: str) -> bytes:
        """Returns the durable content of a file; empty if its name is not durable."""
        inode = self._durable_names.get(path)
        return bytes(inode.durable) if inode is not None else b""

    def written_content(self, path: str) -> bytes:
        """Returns the content of a file, as a reader sees it; empty if there is none. No call is counted."""
        inode = self._names.get(path)
        return bytes(inode.image) if inode is not None else b""

    def paths(self) -> list[str]:
        """Returns the paths of all files, sorted; no call is counted."""
        with self.changing:
            return sorted(self._names)

    # How it is done

    def enter(self, operation: str, path: str) -> None:
        """Count a call. Raises `StorageFailed` if it is to fail."""
        with self.changing:
            self.calls += 1
            call = self.calls
        if self.before_call is not None:
            self.before_call(operation, path)
        if self.failing or call == self._fail_at:
            self.failed_as_asked = True
            raise StorageFailed(operation, path, "Input/output error")

    def next_sequence(self) -> int:
        """Returns the place of a new change in the order of all changes."""
        self._sequence += 1
        return self._sequence

    def unlock(self, path: str) -> None:
        """Give a lock back."""
        self._locks.discard(path)

    def _existing(self, operation: str, path: str) -> _Inode:
        inode = self._names.get(path)
        if inode is None:
            raise StorageFailed(operation, path, "No such file or directory")
        return inode

    def _require_directory(self, operation: str, path: str) -> None:
        if _directory_of(path) not in self._directories:
            raise StorageFailed(operation, path, "No such file or directory")

    def _change_names(self, path: str, *names: tuple[str, _Inode | None]) -> None:
        change = _NameChange(self.next_sequence(), _directory_of(path), names)
        _apply_name(change, self._names)
        self._pending_names.append(change)

    def _covered_names(self, directory: str, began: int) -> list[_NameChange]:
        return [
            change
            for change in self._pending_names
            if change.directory == directory and self.covers(change.sequence, began)
        ]

    def _settle_names(self, saved: Sequence[_NameChange]) -> None:
        for change in saved:
            _apply_name(change, self._durable_names, self._names_settled)
            for path, _ in change.names:
                self._names_settled[path] = max(change.sequence, self._names_settled.get(path, 0))
            self._pending_names.remove(change)

    def _survivor(self, inode: _Inode, rng: random.Random, loss: PowerLoss | None) -> _Inode:
        platter = bytearray(inode.durable)
        for change in _pick_survivors(inode.pending, rng, loss if loss is not None else rng.choice(list(PowerLoss))):
            _apply(change, platter)
        return _inode_of(platter)

    def _successor(self, rng: random.Random, names: dict[str, _Inode]) -> Self:
        disk = type(self)(rng, capacity_bytes=self.capacity_bytes)
        disk._names = names
        disk._durable_names = dict(names)
        disk._directories = set(self._directories)
        return disk


def _inode_of(platter: bytearray) -> _Inode:
    return _Inode(image=bytearray(platter), durable=platter)


def _pick_survivors(pending: Sequence[_Write | _Cut], rng: random.Random, loss: PowerLoss) -> Sequence[_Write | _Cut]:
    """The pending changes, or parts of them, that a power cut leaves."""
    match loss:
        case PowerLoss.LOSE_ALL:
            return []
        case PowerLoss.KEEP_ALL:
            return pending
        case PowerLoss.KEEP_PREFIX:
            kept = pending[: rng.randint(0, len(pending))]
            return [*kept[:-1], *_tear(kept[-1], rng)] if kept else []
        case PowerLoss.KEEP_SUBSET:
            return [part for change in pending if rng.random() < 0.5 for part in _perhaps_torn(change, rng)]


def _perhaps_torn(change: _Write | _Cut, rng: random.Random) -> list[_Write | _Cut]:
    return _tear(change, rng) if rng.random() < 0.3 else [change]


def _tear(change: _Write | _Cut, rng: random.Random) -> list[_Write | _Cut]:
    """Returns the parts of a change that survive a power cut in the middle of it."""
    match change:
        case _Cut():
            return [change]
        case _Write(sequence=sequence, position=position, content=content):
            fate = rng.random()
            if fate < 0.5:
                return [_Write(sequence, position, content[: rng.randint(0, len(content))])]
            if fate < 0.6:
                # The size is metadata of its own: it may be there without the data, which then reads as zeros.
                return [_Write(sequence, position + len(content), b"")]
            return [
                _Write(sequence, start, content[start - position : end - position])
                for start, end in _sectors(position, position + len(content))
                if rng.random() < 0.5
            ]


def _sectors(start: int, end: int) -> Iterator[tuple[int, int]]:
    while start < end:
        stop = min(end, (start // SECTOR_BYTES + 1) * SECTOR_BYTES)
        yield start, stop
        start = stop
