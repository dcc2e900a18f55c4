"""The plain model of a log: a list of entries, a state, and what every single frame and every trim made of them.

What a power cut may leave is the log as it was after some frame, none older than the last flush: `moments` holds every
such log, oldest first, beginning with the flushed one. Where it begins then is where some trim put it that happened before
that frame, or the last one that was flushed.
"""

import attrs

from log.errors import IndexOutOfRange, OffsetOutOfRange
from log.frame import Frame
from log.index import LogTail
from log.segmented_log import SegmentedLog
from tests.log.frames import Entry, content, entry


@attrs.frozen
class Start:
    """The beginning of a log: the index before its first, that one's epoch, the offset that follows, the owner's payload."""

    index: int = 0
    epoch: int = 0
    offset: int = 0
    payload: bytes = b""


@attrs.frozen
class Moment:
    """The log after one frame: its entries, its newest state, the end offset, and what it begins behind."""

    entries: tuple[Entry, ...] = ()
    state: bytes | None = None
    end_offset: int = 0
    start: Start = attrs.field(factory=Start)

    @property
    def last_index(self) -> int:
        return self.start.index + len(self.entries)

    def up_to(self, last_index: int) -> tuple[Entry, ...]:
        return self.entries[: last_index - self.start.index]

    def trim_to(self, start: Start) -> "Moment":
        return attrs.evolve(self, entries=self.entries[start.index - self.start.index :], start=start)


def moment_of(log: SegmentedLog) -> Moment:
    """Returns the visible state of a log, after checking that all its properties agree."""
    read = content(log)
    last_index = log.last_index
    start_index = read[0][0] - 1 if read else last_index
    assert log.first_index == (start_index + 1 if read else 0)
    assert log.start_offset == (read[0][2] if read else log.end_offset)
    assert [index for index, *_ in read] == list(range(start_index + 1, last_index + 1))
    assert log.last_epoch == (read[-1][1] if read else log.epoch_at(start_index))
    for index, epoch, base_offset, span, _ in read:
        assert log.epoch_at(index) == epoch
        for offset in range(base_offset, base_offset + span):
            assert log.find_offset(offset) == index
    starts = [each for each, before in zip(read, [None, *read], strict=False) if before is None or each[1] != before[1]]
    assert [(start.epoch, start.first_index, start.base_offset) for start in log.epochs] == [
        (epoch, index, base_offset) for index, epoch, base_offset, *_ in starts
    ]
    _refuses_what_left(log, start_index)
    start = Start(start_index, log.epoch_at(start_index), log.start_offset) if start_index else Start()
    start = attrs.evolve(start, payload=log.start_payload())
    return Moment(tuple(read), log.state, log.end_offset, start)


def _refuses_what_left(log: SegmentedLog, start_index: int) -> None:
    for call in (lambda: log.read(start_index, 1), lambda: log.epoch_at(start_index - 1)):
        try:
            call()
        except IndexOutOfRange:
            continue
        raise AssertionError(f"nothing up to {start_index} is in the log")
    try:
        log.find_offset(log.start_offset - 1)
    except OffsetOutOfRange:
        return
    raise AssertionError("no offset before the first is in the log")


def trim_both(log: SegmentedLog, model: "Model", first_index: int, payload: bytes) -> int:
    """Trim both. Segments have left if the payload is the new one."""
    start, first = log.start, log.first_index
    trimmed = log.trim(first_index, payload)
    assert log.first_index == trimmed
    if log.start == start:
        assert trimmed == first
    else:
        assert log.start_payload() == payload
        model.trim(trimmed, payload)
    return trimmed


class Model:
    """The log that must be there, and all those that a power cut may leave."""

    def __init__(self) -> None:
        self.moments = [Moment()]
        self._forgotten = 0
        self._trims = [(0, Start())]
        self._resetting: Moment | None = None

    @property
    def now(self) -> Moment:
        return self.moments[-1].trim_to(self._trims[-1][1])

    @property
    def so_far(self) -> tuple[int, int]:
        """Returns the number of frames and of trims until now, for `mark_flushed`."""
        return self._forgotten + len(self.moments), len(self._trims)

    def append(self, frames: list[Frame]) -> None:
        for each in frames:
            newest = self.moments[-1]
            kept = newest.up_to(each.index - 1)
            self._add(attrs.evolve(newest, entries=(*kept, entry(each)), end_offset=each.end_offset))

    def truncate(self, last_index: int) -> None:
        newest = self.moments[-1]
        if last_index < newest.last_index:
            kept, end_offset = newest.up_to(last_index), self.offset_of(last_index + 1)
            self._add(attrs.evolve(newest, entries=kept, end_offset=end_offset))

    def save_state(self, state: bytes) -> None:
        self._add(attrs.evolve(self.moments[-1], state=state))

    def trim(self, first_index: int, payload: bytes) -> None:
        """Everything below `first_index` left, and `payload` stands for it."""
        start = Start(first_index - 1, self.epoch_before(first_index), self.offset_of(first_index), payload)
        self._trims.append((self._forgotten + len(self.moments) - 1, start))

    def begin_reset(self, before: LogTail, payload: bytes) -> None:
        """A reset of the log begins; until `end_reset` a crash may leave it as it was."""
        start = Start(before.last_index, before.last_epoch, before.end_offset, payload)
        self._resetting = Moment((), self.moments[-1].state, before.end_offset, start)

    def end_reset(self) -> None:
        """The reset is durable."""
        assert self._resetting is not None
        self.accept_survivor(self._resetting)

    def offset_of(self, index: int) -> int:
        """The offset that a frame with this index must begin with."""
        now = self.now
        return now.entries[index - now.start.index - 1][2] if index <= now.last_index else now.end_offset

    def epoch_before(self, index: int) -> int:
        """The epoch that a frame with this index may not fall below."""
        now = self.now
        return now.entries[index - now.start.index - 2][1] if index > now.start.index + 1 else now.start.epoch

    def mark_flushed(self, so_far: tuple[int, int]) -> None:
        """Notes that every frame and trim is durable that `so_far` counted."""
        moment_count, trim_count = so_far
        forget = moment_count - 1 - self._forgotten
        del self.moments[:forget]
        self._forgotten += forget
        start = self._trims[trim_count - 1][1]
        self._trims = [(0, start), *self._trims[trim_count:]]
        self.moments = [each.trim_to(start) for each in self.moments]

    def may_be_left(self, moment: Moment) -> bool:
        """Returns True if a power cut now may leave this log."""
        return moment == self._resetting or any(
            each.trim_to(start) == moment
            for at, each in enumerate(self.moments, self._forgotten)
            for trimmed_at, start in self._trims
            if trimmed_at <= at and start.index <= each.last_index
        )

    def accept_survivor(self, moment: Moment) -> None:
        """Takes the log of this moment for the durable one after a crash; fails unless it may be left."""
        assert self.may_be_left(moment), f"{moment} is none of the {len(self.moments)} logs that may be left"
        self.moments = [moment]
        self._trims = [(0, moment.start)]
        self._forgotten = 0
        self._resetting = None

    def _add(self, moment: Moment) -> None:
        self.moments.append(moment)
