"""The plain model of a log: a list of entries, a state, and what every single frame made of them.

What a power cut may leave is the log as it was after some frame, none older than the last flush: `moments` holds every
such log, oldest first, beginning with the flushed one.
"""

import attrs

from log.segmented_log import Frame, SegmentedLog
from tests.log.frames import Entry, content, entry


@attrs.frozen
class Moment:
    """The log after one frame: its entries, its newest state, and the end offset."""

    entries: tuple[Entry, ...] = ()
    state: bytes | None = None
    end_offset: int = 0


def moment_of(log: SegmentedLog) -> Moment:
    """What a log says of itself, all of it cross-checked."""
    read = content(log)
    assert [index for index, *_ in read] == list(range(1, len(read) + 1))
    assert (log.last_index, log.last_epoch) == ((read[-1][0], read[-1][1]) if read else (0, 0))
    for index, epoch, base_offset, span, _ in read:
        assert log.epoch_at(index) == epoch
        for offset in range(base_offset, base_offset + span):
            assert log.find_offset(offset) == index
    starts = [each for each, before in zip(read, [None, *read], strict=False) if before is None or each[1] != before[1]]
    assert [(start.epoch, start.first_index, start.base_offset) for start in log.epochs] == [
        (epoch, index, base_offset) for index, epoch, base_offset, *_ in starts
    ]
    return Moment(tuple(read), log.state, log.end_offset)


class Model:
    """What a log must hold, and what it may hold after a power cut."""

    def __init__(self) -> None:
        self.moments = [Moment()]

    @property
    def now(self) -> Moment:
        return self.moments[-1]

    def append(self, frames: list[Frame]) -> None:
        for each in frames:
            kept = self.now.entries[: each.index - 1]
            self._add(attrs.evolve(self.now, entries=(*kept, entry(each)), end_offset=each.end_offset))

    def truncate(self, last_index: int) -> None:
        entries = self.now.entries
        if last_index < len(entries):
            end_offset = entries[last_index][2]
            self._add(attrs.evolve(self.now, entries=entries[:last_index], end_offset=end_offset))

    def save_state(self, state: bytes) -> None:
        self._add(attrs.evolve(self.now, state=state))

    def offset_of(self, index: int) -> int:
        """The offset that a frame with this index must begin with."""
        return self.now.entries[index - 1][2] if index <= len(self.now.entries) else self.now.end_offset

    def epoch_before(self, index: int) -> int:
        """The epoch that a frame with this index may not fall below."""
        return self.now.entries[index - 2][1] if index > 1 else 0

    def flushed(self, moment_count: int) -> None:
        """Everything up to the moment that was the newest when `moment_count` were known is durable."""
        del self.moments[: moment_count - 1]

    def survived(self, moment: Moment) -> None:
        """After a crash the log is this one, durably; raises unless it is one that may be left."""
        assert moment in self.moments, f"{moment} is none of the {len(self.moments)} logs that may be left"
        self.moments = [moment]

    def _add(self, moment: Moment) -> None:
        self.moments.append(moment)
