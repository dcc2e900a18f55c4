"""Consume queues: map each message of a queue to its place in the commit log, one unit for each, found by queue offset.

    <directory>/<topic>/<queue id>-<queue offset of its first unit>      units, `units_per_file` of them

All of it is derived from the commit log. Units since the last checkpoint are only in memory, so an append costs no call
to the disk, and a consumer that keeps up reads none. A checkpoint (`derived.py`) writes them to the files and records
how many units of each queue they hold; later bytes of a file mean nothing, and are written again. So a queue needs no
call when it is opened, and no open file.
"""

import contextlib
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from typing import Final, TypeVar

import attrs

from log.disk import Disk
from log.errors import CorruptLog
from log.file_pool import FilePool, PooledFile
from rocketmq_compat.storage.dispatch import UNIT, QueueKey, QueueRun

UNITS_PER_FILE: Final = 300_000
"""As in RocketMQ: files of 6 MB."""
_UNIT_BYTES: Final = UNIT.size
_UNKNOWN: Final = -1
_Item = TypeVar("_Item")


@attrs.frozen
class UnitsToWrite:
    """A part of one file of a queue. `is_new` is whether the file may not be there yet."""

    directory: str
    name: str
    position: int
    content: bytes
    is_new: bool


class ConsumeQueue:
    """The units of one queue; made by `ConsumeQueues`. Offsets are queue offsets unless they are called physical."""

    __slots__ = (
        "_began_again",
        "_files",
        "_first_place",
        "_first_saved",
        "_owner",
        "_tail",
        "first",
        "key",
        "next",
        "saved",
    )

    def __init__(self, owner: "ConsumeQueues", key: QueueKey, first: int, following: int) -> None:
        """Use `ConsumeQueues`. The files hold the units from `first` up to `following`."""
        self.key = key
        self.first = first
        """The lowest offset that was last known to be in the commit log; see `min_offset`."""
        self.next = following
        """The offset of the next message."""
        self._owner = owner
        self.saved = following
        """Units before this offset are in files, the others in memory."""
        self._tail = bytearray()
        self._first_saved = first
        """The files hold the units from this one up to `saved`, and there are no others."""
        self._first_place = _UNKNOWN
        self._began_again = False
        """True if the queue began again since `to_write` was called."""
        self._files: dict[int, PooledFile] = {}

    def min_offset(self, start: int) -> int:
        """Returns the offset of the first message in a commit log that begins at the physical offset `start`.

        Returns `next` if there is none.
        """
        if self.first < self.next:
            if self._first_place == _UNKNOWN:
                self._first_place = self.place(self.first)
            if self._first_place < start:
                self.first = self.offset_behind(start)
                self._first_place = _UNKNOWN if self.first == self.next else self.place(self.first)
        return self.first

    def offset_behind(self, physical: int) -> int:
        """Returns the first offset whose message lies at this physical offset or behind it; `next` if there is none."""
        return self.first + bisect_left(range(self.first, self.next), physical, key=self.place)

    def place(self, offset: int) -> int:
        """Returns the physical offset of the message at `offset`, which the queue must hold."""
        return int(UNIT.unpack(self.units(offset, 1))[0])

    def units(self, offset: int, count: int) -> bytes:
        """Returns up to `count` units from `offset` on, which must be within `first` and `next`.

        Returns fewer if the queue or the file ends. Raises `CorruptLog` if a file is too short.
        """
        if offset >= self.saved:
            begin = (offset - self.saved) * _UNIT_BYTES
            return bytes(self._tail[begin : begin + count * _UNIT_BYTES])
        base = self._base(offset)
        count = min(count, self.saved - offset, base + self._owner.units_per_file - offset)
        file = self._files.get(base)
        if file is None:
            file = self._files[base] = self._owner.pool.file(f"{self._directory}/{self._name(base)}")
        position = (offset - base) * _UNIT_BYTES
        found = file.read_at(position, count * _UNIT_BYTES)
        if len(found) != count * _UNIT_BYTES:
            raise CorruptLog(file.path, position, "the consume queue ends early")
        return found

    # Changing

    def extend(self, run: QueueRun) -> bool:
        """Add units.

        Returns False if they do not follow the queue's end, which never happens in a log that one master after the
        other wrote. Units that are already present are skipped, and a gap is filled with blank units of size 0, which
        lead to no message. Behind a gap that is longer than a file, and if it is empty, the queue begins again with the
        first unit. It does so, too, with offset 0 behind others: the topic was deleted in between.
        """
        if run.first == self.next:
            self._tail += run.units
            self.next = run.next
            return True
        if run.first and self.first < self.next and run.first - self.next <= self._owner.units_per_file:
            physical, *_ = UNIT.unpack_from(run.units)
            self._tail += UNIT.pack(physical, 0, 0) * (run.first - self.next)
            self._tail += run.units[max(0, self.next - run.first) * _UNIT_BYTES :]
            self.next = max(self.next, run.next)
            return False
        is_first = self.next == 0  # this copy of the log begins behind the first messages of the queue
        self._owner.note_gone(self._paths(self._bases_before(run.first)))
        self.close()
        self._began_again = True
        self.first = self.saved = self._first_saved = run.first
        self._first_place = _UNKNOWN
        self._tail = bytearray(run.units)
        self.next = run.next
        return is_first

    def truncate(self, physical: int) -> None:
        """Remove the units of messages that lie at this physical offset or behind it."""
        self.next = self.offset_behind(physical)
        self.saved = min(self.saved, self.next)
        self._first_saved = min(self._first_saved, self.saved)
        del self._tail[(self.next - self.saved) * _UNIT_BYTES :]
        if self.first == self.next:
            self._first_place = _UNKNOWN

    def close(self) -> None:
        """Close the files that were read."""
        for file in self._files.values():
            file.close()
        self._files.clear()

    # Writing to files

    @property
    def spans_files(self) -> bool:
        """True if some of its files may hold no message of the commit log any more."""
        return self._base(self._first_saved) < self._base(self.saved)

    def save_end(self, physical: int) -> int:
        """Returns the offset up to which units may be saved: the first message at this physical offset or behind it."""
        units = memoryview(self._tail)
        count = len(units) // _UNIT_BYTES
        if not count or UNIT.unpack_from(units, (count - 1) * _UNIT_BYTES)[0] < physical:
            return self.next
        at = bisect_left(range(count), physical, key=lambda each: UNIT.unpack_from(units, each * _UNIT_BYTES)[0])
        return self.saved + at

    def to_write(self, end: int) -> list[UnitsToWrite]:
        """Returns the writes that extend the files from `saved` up to `end`."""
        self._began_again = False
        parts: list[UnitsToWrite] = []
        offset = self.saved
        while offset < end:
            base = self._base(offset)
            stop = min(end, base + self._owner.units_per_file)
            begin = (offset - self.saved) * _UNIT_BYTES
            content = bytes(self._tail[begin : begin + (stop - offset) * _UNIT_BYTES])
            is_new = base not in self._bases()
            parts.append(
                UnitsToWrite(self._directory, self._name(base), (offset - base) * _UNIT_BYTES, content, is_new)
            )
            offset = stop
        return parts

    def note_saved(self, end: int) -> None:
        """Note that the result of `to_write` is in the files, unless the queue has begun again since."""
        if not self._began_again:
            del self._tail[: (end - self.saved) * _UNIT_BYTES]
            self.saved = end

    def take_gone(self) -> list[str]:
        """Returns the paths of files that hold only units before `first`, and forgets them."""
        gone = self._bases_before(self.first)
        for base in gone:
            if base in self._files:
                self._files.pop(base).close()
        if gone:
            self._first_saved = min(self._base(self.first), self.saved)
        if self.first > self.saved:
            del self._tail[: (self.first - self.saved) * _UNIT_BYTES]
            self.saved = self._first_saved = self.first
        return self._paths(gone)

    def names(self) -> list[str]:
        """Returns the names of the files that hold its units."""
        return [self._name(each) for each in self._bases()]

    # How it is done

    def _bases(self) -> range:
        """Returns the first offsets of the existing files."""
        if self._first_saved == self.saved:
            return range(0)
        return range(self._base(self._first_saved), self.saved, self._owner.units_per_file)

    def _bases_before(self, offset: int) -> list[int]:
        """Returns the bases of files whose units all lie before `offset`."""
        return [each for each in self._bases() if each + self._owner.units_per_file <= offset]

    def _paths(self, bases: Iterable[int]) -> list[str]:
        return [f"{self._directory}/{self._name(each)}" for each in bases]

    def _base(self, offset: int) -> int:
        return offset - offset % self._owner.units_per_file

    @property
    def _directory(self) -> str:
        return f"{self._owner.directory}/{self.key[0]}"

    def _name(self, base: int) -> str:
        return f"{self.key[1]}-{base:020}"


class ConsumeQueues:
    """The consume queues of a broker, by topic and queue id."""

    def __init__(self, disk: Disk, pool: FilePool, directory: str, units_per_file: int = UNITS_PER_FILE) -> None:
        """Knows no queue yet. Raises `StorageFailed` if the disk fails."""
        self.pool = pool
        self.directory = directory
        self.units_per_file = units_per_file
        self._disk = disk
        self._queues: dict[QueueKey, ConsumeQueue] = {}
        self._changed: dict[ConsumeQueue, None] = {}
        self._gone: list[str] = []
        disk.make_directory(directory)

    def load(self, rows: Iterable[tuple[str, int, int, int]]) -> None:
        """Load the rows of a checkpoint: topic, queue id, first offset, and end of the units in files."""
        for topic, queue_id, first, following in rows:
            key = (topic, queue_id)
            self._queues[key] = ConsumeQueue(self, key, first, following)

    def rows(self, ends: dict[ConsumeQueue, int]) -> list[tuple[str, int, int, int]]:
        """Returns the rows for `load`, once the units of these queues are saved up to these offsets."""
        return [(*key, each.first, ends.get(each, each.saved)) for key, each in self._queues.items()]

    # What there is

    def get(self, key: QueueKey) -> ConsumeQueue | None:
        """Returns the queue, or None if it never received a message."""
        return self._queues.get(key)

    def __iter__(self) -> Iterator[ConsumeQueue]:
        return iter(self._queues.values())

    def __len__(self) -> int:
        return len(self._queues)

    def next_of(self, key: QueueKey) -> int:
        """Returns the offset of the next message of a queue; 0 if there was none yet."""
        queue = self._queues.get(key)
        return queue.next if queue is not None else 0

    # Changing

    def extend(self, runs: Iterable[QueueRun]) -> int:
        """Add units. Returns the number of runs that did not follow their queue's end; see `ConsumeQueue.extend`."""
        strange = 0
        for run in runs:
            queue = self._queues.get(run.key)
            if queue is None:
                queue = self._queues[run.key] = ConsumeQueue(self, run.key, 0, 0)
            strange += not queue.extend(run)
            self._changed[queue] = None
        return strange

    def begin(self, key: QueueKey, first: int) -> None:
        """Begin an unknown queue with its next message at this offset."""
        queue = self._queues[key] = ConsumeQueue(self, key, first, first)
        self._changed[queue] = None

    def truncate(self, physical: int) -> None:
        """Remove the units of messages that lie at this physical offset or behind it, in all queues."""
        for queue in self._queues.values():
            queue.truncate(physical)
            self._changed[queue] = None

    def trim(self, start: int) -> None:
        """Trim the queues to this start of the commit log. The next checkpoint removes files without messages."""
        for queue in self._queues.values():
            if queue.spans_files:
                queue.min_offset(start)
                self._changed[queue] = None

    def delete(self, topic: str) -> None:
        """Forget the queues of a topic. Their files go with `remove_unknown`."""
        for key in [each for each in self._queues if each[0] == topic]:
            queue = self._queues.pop(key)
            queue.close()
            self._changed.pop(queue, None)

    def clear(self) -> None:
        """Forget all queues. Their files go with `remove_unknown`."""
        for queue in self._queues.values():
            queue.close()
        self._queues.clear()
        self._changed.clear()
        self._gone.clear()

    def remove_unknown(self) -> list[str]:
        """Remove the files without units of any queue, which a crash, a truncation or a deletion left.

        Returns the paths of missing files.
        """
        known: dict[str, set[str]] = {}
        for (topic, _), queue in self._queues.items():
            known.setdefault(topic, set()).update(queue.names())
        missing = {f"{self.directory}/{topic}/{name}" for topic, names in known.items() for name in names}
        for topic in self._disk.list_directory(self.directory):
            directory = f"{self.directory}/{topic}"
            for name in self._disk.list_directory(directory):
                if name not in known.get(topic, ()):
                    self._disk.remove(f"{directory}/{name}")
                missing.discard(f"{directory}/{name}")
            if topic not in known:
                self._disk.remove_directory(directory)
        return sorted(missing)

    def note_gone(self, paths: Iterable[str]) -> None:
        """Note files that are useless once the next checkpoint is written."""
        self._gone += paths

    # Writing to files

    def take_changed(self) -> tuple[list[ConsumeQueue], list[str]]:
        """Returns the queues that changed since the last call, and files that their checkpoint makes useless."""
        changed, gone = list(self._changed), self._gone
        self._changed, self._gone = {}, []
        for queue in changed:
            gone += queue.take_gone()
        return changed, gone

    def note_changed(self, queues: Iterable[ConsumeQueue], gone: Iterable[str]) -> None:
        """Take back a result of `take_changed` that was not saved."""
        self._changed.update(dict.fromkeys(queues))
        self._gone += gone


def write_units(disk: Disk, parts: Sequence[UnitsToWrite], threads: int) -> None:
    """Write these parts of files with their names, durably, in so many threads, to share commits.

    Raises `NoSpace` or `StorageFailed`, after all are done; the call may be repeated.
    """

    def write(part: UnitsToWrite) -> None:
        with contextlib.closing(disk.open(f"{part.directory}/{part.name}", create=part.is_new)) as file:
            file.write_at(part.position, [part.content])
            file.sync()

    directories = list(dict.fromkeys(each.directory for each in parts if each.is_new))
    _side_by_side(disk.make_directory, directories, threads)
    _side_by_side(write, parts, threads)
    _side_by_side(disk.sync_directory, directories, threads)


def _side_by_side(work: Callable[[_Item], None], items: Sequence[_Item], threads: int) -> None:
    threads = min(threads, len(items))
    if threads <= 1:
        for item in items:
            work(item)
        return
    with ThreadPoolExecutor(threads, thread_name_prefix="consume-queues") as pool:
        done = wait([pool.submit(work, each) for each in items]).done
    for each_done in done:
        each_done.result()
