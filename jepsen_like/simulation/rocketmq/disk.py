"""The commit log of a simulated broker: bytes by physical offset, of which a power cut loses any part of the unflushed
end.

A killed process loses nothing. Truncating, resetting and trimming are durable at once. What a disk loses is remembered,
so that audits can tell a copy that was there from one that never was. Next to the log there are what the copy has noted
of itself, by the real `CopyFile`, and tables, of which only one number counts: the greatest offset that was committed.
"""

import enum
import random
from collections.abc import Sequence

import attrs

from log.disk import Buffer
from log.errors import CorruptLog
from rocketmq_compat.replication.epochs import EpochTable
from rocketmq_compat.replication.model import LogReach, MasterEpoch, RecoveredCopy
from rocketmq_compat.storage.copy_notes import FILE_BYTES, CopyFile, doubt_of


class LossKind(enum.Enum):
    """Why bytes left a disk."""

    POWER = "power"
    WIPE = "wipe"
    DAMAGE = "damage"
    """The log was damaged, and is cut before that."""
    OPERATOR = "operator"
    """An operator has cut the log where it diverges."""
    RESET = "reset"
    """The log was reset to begin behind its end, because the master's begins there."""


@attrs.frozen
class LostBytes:
    """`data` from offset `start` is gone; it was durable up to `durable_end`."""

    start: int
    data: bytes
    durable_end: int
    kind: LossKind

    def has_held(self, offset: int, data: bytes, *, durable: bool) -> bool:
        """Returns whether these bytes were there."""
        end = offset + len(data)
        if offset < self.start or (durable and end > self.durable_end):
            return False
        return self.data[offset - self.start : end - self.start] == data


@attrs.define(eq=False)
class NotesPage:
    """The file of a `CopyFile`: what is written, and what of it survives a power cut."""

    written: bytearray = attrs.field(factory=lambda: bytearray(FILE_BYTES))
    durable: bytes = bytes(FILE_BYTES)

    def read_at(self, position: int, size: int) -> bytes:
        """See `File`."""
        return bytes(self.written[position : position + size])

    def write_at(self, position: int, buffers: Sequence[Buffer]) -> None:
        """See `File`."""
        for buffer in buffers:
            self.written[position : position + len(buffer)] = buffer
            position += len(buffer)

    def size(self) -> int:
        """See `File`."""
        return len(self.written)

    def sync(self) -> None:
        """See `File`."""
        self.durable = bytes(self.written)

    def lose_power(self) -> None:
        """Lose what was not synced."""
        self.written = bytearray(self.durable)

    def damage(self) -> None:
        """Nothing of it can be read."""
        self.written = bytearray(FILE_BYTES)
        self.durable = bytes(FILE_BYTES)

    def cut(self, size: int) -> None:
        """See `File`."""

    def sync_descriptor(self) -> int | None:
        """See `File`."""
        return None

    def reserve(self, size: int) -> None:
        """See `File`."""

    def close(self) -> None:
        """See `File`."""


@attrs.define(eq=False)
class SimulatedCommitLog:
    """Ends are exclusive offsets; `ends` are those of the appends, which a push does not cut."""

    start: int = 0
    data: bytearray = attrs.field(factory=bytearray)
    ends: list[int] = attrs.field(factory=list)
    epochs: list[MasterEpoch] = attrs.field(factory=list)
    durable_end: int = 0
    changes: int = 0
    """Counts truncations and resets: a flush that began before one proves nothing about what came after."""
    losses: list[LostBytes] = attrs.field(factory=list)
    trimmed: int = 0
    """Retention has come this far here, on this disk or an earlier one."""
    page: NotesPage = attrs.field(factory=NotesPage)
    boots: int = 0
    """The number of times that power was lost."""
    cut: CorruptLog | None = None
    """The damage for which the next start cuts the log."""
    tables: int = 0
    has_lost_tables: bool = False

    @property
    def boot(self) -> str:
        """The id of the machine's boot."""
        return f"boot {self.boots}"

    @property
    def reach(self) -> LogReach:
        """The reach of the log."""
        return LogReach(self.epochs[-1].epoch if self.epochs and self.data else 0, self.end)

    @property
    def end(self) -> int:
        """The offset of the next byte."""
        return self.start + len(self.data)

    def append(self, epoch: int, payload: bytes) -> None:
        """Put one append, or one push, behind the last one."""
        if not self.epochs or self.epochs[-1].epoch != epoch:
            self.epochs.append(MasterEpoch(epoch, self.end))
        self.data += payload
        self.ends.append(self.end)

    def read(self, start: int, end: int) -> bytes:
        """Returns the bytes from `start` to `end`, as far as they are there."""
        return bytes(self.data[max(start - self.start, 0) : max(end - self.start, 0)])

    def push_end(self, offset: int, end_max: int, bytes_max: int) -> int:
        """Returns the end of the whole appends from `offset` that fit, one at least."""
        ends = [end for end in self.ends if offset < end <= end_max] or [end_max]
        return max((end for end in ends if end - offset <= bytes_max), default=ends[0])

    def holds(self, offset: int, data: bytes, *, durable: bool = False) -> bool:
        """Returns whether these bytes are at this offset, and survive a power cut if asked."""
        end = offset + len(data)
        return offset >= self.start and (not durable or end <= self.durable_end) and self.read(offset, end) == data

    def has_held(self, offset: int, data: bytes, *, durable: bool = False) -> bool:
        """Returns whether these bytes are there, or were until a fault or an operator took them."""
        if self.holds(offset, data, durable=durable):
            return True
        return any(lost.has_held(offset, data, durable=durable) for lost in self.losses)

    def is_beginning_of(self, other: "SimulatedCommitLog") -> bool:
        """Returns whether the other log holds all that this one does, where both have begun."""
        start = max(self.start, other.start)
        if not self.data or self.end <= other.start:
            return True
        return self.end <= other.end and self.read(start, self.end) == other.read(start, self.end)

    # ---------------------------------------------------------------- what shortens it

    def truncate(self, end: int, kind: LossKind) -> None:
        """Everything from `end` on is gone."""
        if end >= self.end:
            return
        kept = max(end, self.start)
        self.losses.append(LostBytes(kept, self.read(kept, self.end), self.durable_end, kind))
        del self.data[kept - self.start :]
        self.ends = [each for each in self.ends if each <= kept]
        self.epochs = [each for each in self.epochs if each.start < kept]
        self.durable_end = min(self.durable_end, self.end)
        self.changes += 1

    def reset(self, start: int, kind: LossKind) -> None:
        """Drop everything; the log begins at `start`."""
        self.truncate(self.start, kind)
        self.start = self.durable_end = start
        self.epochs.clear()
        self.changes += 1

    def trim(self, start: int) -> None:
        """The log begins at `start`."""
        del self.data[: start - self.start]
        self.start = start
        self.trimmed = max(self.trimmed, start)
        self.durable_end = max(self.durable_end, start)
        self.ends = [end for end in self.ends if end > start]
        table = EpochTable(self.epochs)
        table.trim(start)
        self.epochs = list(table.entries())

    def flush(self) -> None:
        """Everything in the page cache is on the disk."""
        self.durable_end = self.end

    def vanish(self) -> None:
        """The whole disk is another one."""
        self.reset(0, LossKind.WIPE)
        self.page = NotesPage()
        self.tables, self.has_lost_tables, self.cut = 0, True, None

    def damage(self, rng: random.Random) -> str:
        """Some of what is here cannot be read any more. Returns what it is."""
        what = rng.choice(("log", "log", "log", "notes", "tables", "log and notes"))
        if "log" in what:
            kept = rng.choice([self.start, *self.ends])
            self.truncate(kept, LossKind.DAMAGE)
            self.durable_end = self.end
            self.cut = CorruptLog("commitlog", 0, "damaged")
        if "notes" in what:
            self.page.damage()
        if "tables" in what:
            self.tables, self.has_lost_tables = 0, True
        return what

    def vanish_in_part(self, rng: random.Random) -> str:
        """A directory or a file is gone, or all of it. Returns what."""
        what = rng.choice(("everything", "everything", "log", "notes", "tables"))
        match what:
            case "everything":
                self.vanish()
            case "log":
                self.reset(0, LossKind.WIPE)
            case "notes":
                self.page.damage()
            case _:
                self.tables, self.has_lost_tables = 0, True
        return what

    def lose_page_cache(self, rng: random.Random) -> bool:
        """Power is lost: some beginning of what was not flushed is left. Returns whether anything is gone."""
        self.boots += 1
        self.page.lose_power()
        if self.durable_end >= self.end:
            return False
        whole = [self.durable_end, *[end for end in self.ends if end >= self.durable_end]]
        kept = rng.choice(whole)
        is_less = kept < self.end
        self.truncate(kept, LossKind.POWER)
        self.durable_end = self.end
        return is_less

    def recover(self, notes: CopyFile) -> RecoveredCopy:
        """Returns what a restart finds here; `notes` was just opened."""
        doubt = doubt_of(notes, boot=self.boot, reach=self.reach, cut=self.cut, lacks_tables=self.has_lost_tables)
        self.cut = None
        return RecoveredCopy(self.start, self.end, self.durable_end, tuple(self.epochs), doubt, notes.notes.slaves)
