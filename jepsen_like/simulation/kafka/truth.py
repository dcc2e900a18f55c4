"""The promises of one partition, and the events that may excuse a broken one.

`committed` is everything that was ever below the high watermark of a leader whose promises count. Two things excuse a
loss: an unclean election, after which what the leader has is the truth, and that no disk has it any more (after damage,
new disks, or power cuts without acknowledged flushes). From there on leaders of epochs up to `excused` count no more.
"""

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from operator import attrgetter

import attrs

from jepsen_like.simulation.kafka.logs import LoggedBatch, LogView
from kafka_compat.model import PartitionState
from kafka_compat.partition.model import BatchKind

_BASE = attrgetter("info.base_offset")


@attrs.define(eq=False)
class PartitionTruth:
    """One partition."""

    state: PartitionState
    committed: list[LoggedBatch] = attrs.field(factory=list)
    let_go: set[tuple[int, int]] = attrs.field(factory=set)
    """Batches that retention or a client removed somewhere, by base offset and leader epoch: any log may lack them."""
    trimmed: int = 0
    """Up to where all that was committed was let go."""
    excused: int = -1
    unclean: bool = False
    """True if an unclean election was held: logs of older epochs may be taken for more than they are worth since."""
    tainted: set[int] = attrs.field(factory=set)
    """Brokers that have lost a part of their log, and were not taken into the ISR since."""
    left: dict[int, int] = attrs.field(factory=dict)
    """By broker, the leader epoch that began when it last ceased to be a replica."""
    acknowledged: dict[int, LoggedBatch] = attrs.field(factory=dict)
    """By base offset, what was acknowledged with acks=all."""
    newest: dict[bytes, int] = attrs.field(factory=dict)
    """The offset of the newest committed record of each key, for a log that is compacted."""
    open: dict[int, list[LoggedBatch]] = attrs.field(factory=dict)
    """By producer id, the committed batches of a transaction without a committed marker."""
    losses: int = 0
    """Acknowledged batches that were lost with an excuse."""

    def may_lack(self, batch: LoggedBatch) -> bool:
        """Returns True if a log need not have this batch, which was committed once."""
        return _name(batch) in self.let_go

    @property
    def end(self) -> int:
        """The first offset that is not committed."""
        return self.committed[-1].info.end_offset if self.committed else 0

    def place(self, offset: int) -> int:
        """Returns how many committed batches begin below `offset`."""
        committed = self.committed
        if not committed or committed[-1].info.base_offset < offset:
            return len(committed)
        return 0 if committed[0].info.base_offset >= offset else bisect_left(committed, offset, key=_BASE)

    def forget(self, log: LogView, end: int) -> None:
        """Retention or a client removes what this log has below `end`."""
        self.let_go.update(_name(batch) for batch in log.read(log.start, end) if batch.info.end_offset <= end)
        self._move_trimmed()

    def _move_trimmed(self) -> None:
        at = self.place(self.trimmed)
        while at < len(self.committed) and _name(self.committed[at]) in self.let_go:
            self.trimmed = self.committed[at].info.end_offset
            at += 1

    def lacks(self, log: LogView | None, end: int) -> str:
        """Returns what a log does not have of the truth up to `end`; empty if it has everything."""
        wanted = self.committed[self.place(self.trimmed) : self.place(end)]
        if not wanted:
            return ""
        if log is None:
            return "nothing"
        first = log.index_of(wanted[0].info.base_offset)
        if log.batches[first : first + len(wanted)] == wanted:
            return ""
        for batch in wanted:
            held = log.at(batch.info.base_offset)
            if not log.holds(batch, self.newest) and _name(batch) not in self.let_go:
                found = f"{held.value} of epoch {held.info.leader_epoch}" if held is not None else "nothing"
                where = f"at {batch.info.base_offset} (it begins at {log.start})"
                return f"{found} {where} instead of {batch.value} of epoch {batch.info.leader_epoch}"
        return ""

    def commit(self, log: LogView, end: int) -> None:
        """Everything in this leader's log below `end` is committed."""
        known = self.end
        if end > known:
            news = [batch for batch in log.read(known, end) if batch.info.base_offset >= known]
            self.committed += news
            self._note_newest(news)
            self._move_trimmed()

    def rebase(self, logs: Sequence[LogView | None], excused: int) -> int:
        """Only what all these logs have, or have let go, is still promised. Returns from which offset on nothing is.

        A log that is new begins at 0 again: what was let go of the old one is no part of it.
        """
        return self._keep(min([self._kept_by(log) for log in logs], default=0), excused)

    def _kept_by(self, log: LogView | None) -> int:
        """Returns how many committed batches, from the first, a log has, or has let go."""
        if log is None:
            return 0
        common = 0
        for batch in self.committed:
            has = log.holds(batch, self.newest) or (
                log.at(batch.info.base_offset) is None and _name(batch) in self.let_go
            )
            if not has or batch.info.end_offset > log.end:
                break
            common += 1
        return common

    def lose_what_no_one_has(self, logs: Iterable[LogView | None], excused: int) -> int | None:
        """Stop expecting what no copy has. Returns the offset from which nothing is promised; None without a loss."""
        kept = max([self._kept_by(log) for log in logs], default=0)
        return None if kept == len(self.committed) else self._keep(kept, excused)

    def _keep(self, kept: int, excused: int) -> int:
        """Only the first `kept` committed batches are promised from now on."""
        del self.committed[kept:]
        before, self.newest = self.newest, {}
        self.open.clear()
        self._note_newest(self.committed)
        # Compaction may have removed a record for one that is promised no more.
        newer = {key for key, offset in before.items() if offset > self.newest.get(key, offset)}
        self.let_go.update(_name(each) for each in self.committed if any((r.key or b"") in newer for r in each.keyed))
        self.excused = max(self.excused, excused)
        end = self.end
        self.trimmed = min(self.trimmed, end)
        for offset in [each for each in self.acknowledged if each >= end]:
            del self.acknowledged[offset]
            self.losses += 1
        return end

    def _note_newest(self, batches: Iterable[LoggedBatch]) -> None:
        """Take committed batches into account. Compaction may remove all of an aborted transaction."""
        for batch in batches:
            match batch.info.kind:
                case BatchKind.TRANSACTIONAL:
                    self.open.setdefault(batch.info.producer_id, []).append(batch)
                case BatchKind.ABORT:
                    self.let_go.update(_name(each) for each in self.open.pop(batch.info.producer_id, ()) if each.keyed)
                case BatchKind.PLAIN | BatchKind.COMMIT:
                    for decided in (batch, *self.open.pop(batch.info.producer_id, ())):
                        for record in decided.keyed:
                            key = record.key or b""
                            self.newest[key] = max(self.newest.get(key, -1), record.offset)


def _name(batch: LoggedBatch) -> tuple[int, int]:
    return batch.info.base_offset, batch.info.leader_epoch
