"""What one partition has promised, and what may excuse that it is not kept.

`committed` is everything that was ever below the high watermark of a leader whose promises count. Two things excuse a loss: an unclean
election, and that every member of the controller's ISR has lost a part of its disk (a power cut where acknowledgements do not wait for the
disk, or a new disk). Then what the survivors have is the truth from there on, and leaders of epochs up to `excused` count no more.
"""

from bisect import bisect_left
from collections.abc import Sequence

import attrs

from jepsen_like.simulation.kafka.disk import SimulatedBatch, SimulatedLog
from kafka_compat.model import PartitionState


@attrs.define(eq=False)
class PartitionTruth:
    """One partition."""

    state: PartitionState
    committed: list[SimulatedBatch] = attrs.field(factory=list)
    trimmed: int = 0
    """Up to where leaders have let records go."""
    excused: int = -1
    tainted: set[int] = attrs.field(factory=set)
    """Brokers that have lost a part of their log, and were not taken into the ISR since."""
    acknowledged: dict[int, SimulatedBatch] = attrs.field(factory=dict)
    """By base offset, what was acknowledged with acks=all."""
    losses: int = 0
    """Acknowledged batches that were lost with an excuse."""

    @property
    def end(self) -> int:
        """The first offset that is not committed."""
        return self.committed[-1].info.end_offset if self.committed else 0

    def place(self, offset: int) -> int:
        """Returns how many committed batches begin below `offset`."""
        return bisect_left(self.committed, offset, key=_base)

    def lacks(self, log: SimulatedLog | None, end: int) -> str:
        """Returns what a log does not have of the truth up to `end`; empty if it has everything."""
        committed = self.committed
        if not committed or end <= self.trimmed:
            return ""
        if log is None:
            return "nothing"
        if log.start > self.trimmed:
            return f"begins at {log.start}, where nothing up to {end} may be missing"
        first = self.place(log.batches[0].info.base_offset) if log.batches else self.place(log.start)
        wanted = committed[first : self.place(end)]
        if log.batches[: len(wanted)] == wanted:
            return ""
        for at, batch in enumerate(wanted):
            held = log.batches[at] if at < len(log.batches) else None
            if held != batch:
                found = f"{held.value} of epoch {held.info.leader_epoch}" if held is not None else "nothing"
                return (
                    f"{found} at {batch.info.base_offset} instead of {batch.value} of epoch {batch.info.leader_epoch}"
                )
        return ""

    def commit(self, log: SimulatedLog, end: int) -> None:
        """Everything in this leader's log below `end` is committed."""
        known = self.end
        if end > known:
            self.committed += [batch for batch in log.read(known, end) if batch.info.base_offset >= known]

    def rebase(self, logs: Sequence[SimulatedLog | None], excused: int) -> int:
        """Only what all these logs have is still promised. Returns from which offset on nothing is."""
        kept = len(self.committed)
        for log in logs:
            common = 0
            held = {} if log is None else {batch.info.base_offset: batch for batch in log.batches}
            for batch in self.committed[:kept]:
                base = batch.info.base_offset
                if held.get(base) != batch and base >= self.trimmed:
                    break
                common += 1
            kept = common
        del self.committed[kept:]
        self.excused = max(self.excused, excused)
        end = self.end
        for offset in [each for each in self.acknowledged if each >= end]:
            del self.acknowledged[offset]
            self.losses += 1
        return end


def _base(batch: SimulatedBatch) -> int:
    return batch.info.base_offset
