"""The commit log of a simulated broker: bytes by physical offset, of which a power cut loses any part of the unflushed end.

A killed process loses nothing. Truncating, resetting and trimming are durable at once. What a disk loses is remembered, so that audits can
tell a copy that was there from one that never was.
"""

import enum
import random

import attrs

from rocketmq_compat.replication.epochs import EpochTable
from rocketmq_compat.replication.model import MasterEpoch, RecoveredCopy


class LossKind(enum.Enum):
    """Why bytes left a disk."""

    POWER = "power"
    WIPE = "wipe"
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

    def held(self, offset: int, data: bytes, *, durable: bool) -> bool:
        """Returns whether these bytes were there."""
        end = offset + len(data)
        if offset < self.start or (durable and end > self.durable_end):
            return False
        return self.data[offset - self.start : end - self.start] == data


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
    """How far retention has ever come here, on this disk or an earlier one."""

    @property
    def end(self) -> int:
        """Where the next byte goes."""
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

    def held(self, offset: int, data: bytes, *, durable: bool = False) -> bool:
        """Returns whether these bytes are there, or were until a fault or an operator took them."""
        if self.holds(offset, data, durable=durable):
            return True
        return any(lost.held(offset, data, durable=durable) for lost in self.losses)

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

    def lose_page_cache(self, rng: random.Random) -> bool:
        """Power is lost: some beginning of what was not flushed is left. Returns whether anything is gone."""
        if self.durable_end >= self.end:
            return False
        whole = [self.durable_end, *[end for end in self.ends if end >= self.durable_end]]
        kept = rng.choice(whole)
        is_less = kept < self.end
        self.truncate(kept, LossKind.POWER)
        self.durable_end = self.end
        return is_less

    def recovered(self) -> RecoveredCopy:
        """Returns what a restart finds here."""
        return RecoveredCopy(self.start, self.end, self.durable_end, tuple(self.epochs))
