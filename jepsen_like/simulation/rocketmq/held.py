"""The commit log of a simulated broker as an onlooker knows it: the bytes that were there, by physical offset.

The broker has a real store on a disk in memory. After each action the onlooker reads what is new, and remembers what
left, so audits know a copy that was there. A log started again must hold what a kill or a power cut leaves.
"""

import enum

import attrs

from log.errors import CorruptLog
from rocketmq_compat.replication.model import MasterEpoch
from rocketmq_compat.storage.commit_log import CommitLog

READ_BYTES = 1 << 30
"""More than any of these logs has."""


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
        """Returns True if these bytes were there."""
        end = offset + len(data)
        if offset < self.start or (durable and end > self.durable_end):
            return False
        return self.data[offset - self.start : end - self.start] == data


@attrs.define(eq=False)
class HeldLog:
    """Ends are exclusive offsets; `ends` are those of the batches, which a push does not cut."""

    start: int = 0
    data: bytearray = attrs.field(factory=bytearray)
    ends: list[int] = attrs.field(factory=list)
    epochs: list[MasterEpoch] = attrs.field(factory=list)
    durable_end: int = 0
    losses: list[LostBytes] = attrs.field(factory=list)
    trimmed: int = 0
    """Retention has come this far here, on this disk or an earlier one."""

    promised: int = 0
    """The end of what its broker has acknowledged as a master, or reported as a slave, in rounds that have ended."""
    promises: int = 0
    """The same with the present round, whose answers leave as it ends, after the note of the log's reach."""

    @property
    def end(self) -> int:
        """The offset of the next byte."""
        return self.start + len(self.data)

    def read(self, start: int, end: int) -> bytes:
        """Returns the bytes from `start` to `end`, as far as they are there."""
        return bytes(self.data[max(start - self.start, 0) : max(end - self.start, 0)])

    def holds(self, offset: int, data: bytes, *, durable: bool = False) -> bool:
        """Returns True if these bytes are at this offset, and survive a power cut if asked."""
        end = offset + len(data)
        return offset >= self.start and (not durable or end <= self.durable_end) and self.read(offset, end) == data

    def has_held(self, offset: int, data: bytes, *, durable: bool = False) -> bool:
        """Returns True if these bytes are there, or were until a fault or an operator took them."""
        if self.holds(offset, data, durable=durable):
            return True
        return any(lost.has_held(offset, data, durable=durable) for lost in self.losses)

    def is_beginning_of(self, other: "HeldLog") -> bool:
        """Returns True if the other log holds all that this one does, where both have begun."""
        start = max(self.start, other.start)
        if not self.data or self.end <= other.start:
            return True
        both = memoryview(self.data)[start - self.start :]
        return self.end <= other.end and other.data.startswith(both, start - other.start)

    # ---------------------------------------------------------------- looking at the log

    def look(self, log: CommitLog, kind: LossKind = LossKind.RESET) -> None:
        """Take over the state of the log after one action of the broker; `kind` is why bytes have left, if any have."""
        start, end = log.start_offset, log.end_offset
        if start == end:
            self.lose(self.start, kind)
        elif end < self.end:
            self.lose(end, kind)
        if start > self.start or not self.data:
            self._begin(start)
        if end > self.end:
            for batch in log.read(self.end, READ_BYTES):
                self.data += bytes(batch.payload)
                self.ends.append(batch.end_offset)
        self.epochs = [MasterEpoch(epoch, at) for epoch, at in log.epochs]
        self.durable_end = log.durable_offset

    def lose(self, kept: int, kind: LossKind) -> None:
        """Everything from `kept` on is gone."""
        if kept < self.end:
            self.losses.append(LostBytes(kept, self.read(kept, self.end), self.durable_end, kind))
            del self.data[kept - self.start :]
            self.ends = [end for end in self.ends if end <= kept]
            self.durable_end = min(self.durable_end, self.end)

    def _begin(self, start: int) -> None:
        """The log begins at `start`."""
        del self.data[: max(0, start - self.start)]
        self.start = start
        self.ends = [end for end in self.ends if end > start]

    def take_back(self, end: int) -> None:
        """Promise nothing any more of what lies beyond this end."""
        self.promised, self.promises = min(self.promised, end), min(self.promises, end)

    def note_trim(self, start: int) -> None:
        """Retention has come this far."""
        self.trimmed = max(self.trimmed, start)

    def reopen(self, log: CommitLog, kind: LossKind | None) -> str | None:
        """Take over the log that a start has found, and return what is wrong with it, or None.

        `kind` may have taken bytes: a power cut those not durable, anything else all; with None nothing may be missing.
        """
        before, start, end = attrs.evolve(self, data=bytearray(self.data)), log.start_offset, log.end_offset
        must_hold = before.end if kind is None else before.durable_end if kind is LossKind.POWER else 0
        if end < min(must_hold, before.end) and start < before.end:
            return f"a start finds [{start},{end}), of [{before.start},{before.end}) durable up to {before.durable_end}"
        self.lose(self.start if start == end else max(end, self.start), kind or LossKind.RESET)
        try:
            batches = log.read(start, READ_BYTES) if end > start else []
        except CorruptLog:  # read later on, or never: until then it counts as there
            self._begin(max(start, self.start))
            return None
        self.start, self.ends = start, [batch.end_offset for batch in batches]
        self.data = bytearray(b"".join(bytes(batch.payload) for batch in batches))
        self.epochs = [MasterEpoch(epoch, at) for epoch, at in log.epochs]
        self.durable_end = log.durable_offset
        both, last = max(start, before.start), min(self.end, before.end)
        if self.end > before.end or (both < last and self.read(both, last) != before.read(both, last)):
            return f"a start finds other bytes in [{start},{end}) than were written in [{before.start},{before.end})"
        return None
