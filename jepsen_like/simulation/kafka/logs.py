"""The logs of simulated brokers, read from the real storage; equal batches are one object, for quick comparison."""

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Mapping

import attrs

from kafka_compat.markers import batch_info
from kafka_compat.model import TopicPartition
from kafka_compat.partition.model import BatchInfo, BatchKind
from kafka_compat.protocol.batch_header import read_batch_header
from kafka_compat.records import KafkaRecord, read_records
from kafka_compat.storage.broker_store import BrokerStore
from kafka_compat.storage.partition_log import PartitionLog

READ_BYTES = 1 << 20
NOTHING: Mapping[bytes, int] = {}


@attrs.frozen(eq=False)
class LoggedBatch:
    """One batch with its bytes. `value` is what a client calls it; a batch of group records has none."""

    info: BatchInfo
    value: str
    content: bytes = attrs.field(repr=False)
    keyed: tuple[KafkaRecord, ...] = attrs.field(repr=False)
    """Its records with keys, which compaction may remove."""
    newest_ms: int = attrs.field(repr=False)


class Batches:
    """Every batch that any log has held, once."""

    def __init__(self) -> None:
        self._known: dict[bytes, LoggedBatch] = {}

    def of(self, content: bytes) -> LoggedBatch:
        """Returns the batch with these bytes."""
        batch = self._known.get(content)
        if batch is None:
            batch = self._known[content] = _read(content)
        return batch


def _read(content: bytes) -> LoggedBatch:
    header = read_batch_header(content)
    info = batch_info(header, content)
    if header.is_control:
        return LoggedBatch(info, "", content, (), header.max_timestamp)
    records = tuple(read_records(content))  # none in a producer's last batch, which compaction keeps
    if records and records[0].key is None:
        return LoggedBatch(info, (records[0].value or b"").decode(), content, (), header.max_timestamp)
    return LoggedBatch(info, "", content, records, header.max_timestamp)


@attrs.define(eq=False)
class LogView:
    """The content of one log: its bounds and batches. Ends are exclusive offsets."""

    start: int = 0
    end: int = 0
    batches: list[LoggedBatch] = attrs.field(factory=list)
    _bases: list[int] = attrs.field(factory=list)
    newest: dict[bytes, KafkaRecord] = attrs.field(factory=dict)
    """By key, for a log of records with keys; those of open and aborted transactions do not count."""
    _open: dict[int, list[LoggedBatch]] = attrs.field(factory=dict)
    """By producer id, the batches of an open transaction."""
    _aborted: set[LoggedBatch] = attrs.field(factory=set)
    risked: list[KafkaRecord] = attrs.field(factory=list)
    """Records that compaction has removed for ones that were not durable."""
    _log: PartitionLog | None = None
    _changes: int = 0

    def refresh(self, log: PartitionLog, batches: Batches) -> None:
        """Take over what the log holds now. Call it after each truncation and reset: what else leaves is compacted."""
        end = log.end_offset
        if log is self._log and log.changes == self._changes and self.end == end:
            return
        before: list[LoggedBatch] = []
        known, open_before = self.end, self._open
        if log is not self._log or log.changes != self._changes:
            if log is self._log and log.start_offset == self.start and log.end_offset >= self.end:
                before = self.batches.copy()
            else:
                self._aborted.clear()
            self.batches.clear()
            self._bases.clear()
            self.newest.clear()
            self._open = {}
            self._log, self._changes = log, log.changes
            self.start = self.end = log.start_offset
        while self.end < end:
            found = log.read(self.end, READ_BYTES)
            for content in found:
                batch = batches.of(bytes(content))
                self.batches.append(batch)
                self._bases.append(batch.info.base_offset)
                self._count(batch)
                if before and batch.info.base_offset >= known:
                    self._decide(batch, open_before)  # of what compaction may have removed
                self.end = batch.info.end_offset
            if not found:
                break
        self.end = end
        if before:
            open_ = {each for batches_ in self._open.values() for each in batches_}
            uncounted = open_ | self._aborted
            counted = [batch for batch in self.batches if batch not in uncounted]
            left = [record for batch in counted for record in batch.keyed if record.offset < log.durable_offset]
            durable = {record.key: record.offset for record in left}
            counted = [batch for batch in before if batch not in uncounted]
            had = [record for batch in counted for record in batch.keyed if record.value is not None]
            self.risked += [
                record for record in had if durable.get(record.key, -1) < record.offset < log.durable_offset
            ]

    def _count(self, batch: LoggedBatch) -> None:
        """Take a batch into account, or what its marker decides."""
        for record in (record for each in self._decide(batch, self._open) for record in each.keyed):
            newest = self.newest.get(record.key or b"")
            if newest is None or newest.offset < record.offset:
                self.newest[record.key or b""] = record

    def _decide(self, batch: LoggedBatch, open_: dict[int, list[LoggedBatch]]) -> list[LoggedBatch]:
        """Returns what counts from this batch on: itself, or the transaction that it commits."""
        producer_id = batch.info.producer_id
        match batch.info.kind:
            case BatchKind.PLAIN:
                return [batch]
            case BatchKind.TRANSACTIONAL:
                open_.setdefault(producer_id, []).append(batch)
            case BatchKind.COMMIT:
                return open_.pop(producer_id, [])
            case BatchKind.ABORT:
                self._aborted.update(open_.pop(producer_id, ()))
        return []

    @property
    def is_compacted(self) -> bool:
        """True if records with keys have left the log."""
        count = sum(len(batch.keyed) or batch.info.offset_count for batch in self.batches)
        return bool(self.newest) and count < self.end - self.start

    def is_like(self, other: "LogView", may_lack: Callable[[LoggedBatch], bool]) -> bool:
        """Returns True if both logs end alike, and hold the same where both have anything.

        `may_lack`: if compaction removed a record for one that all copies lost since, other logs may still have it.
        """
        common = min(len(self.batches), len(other.batches))
        keys = self.newest.keys() | other.newest.keys()
        if self.end != other.end:
            return False
        if keys:
            return all(self._agrees(other, key, may_lack) for key in keys)
        return not common or self.batches[-common:] == other.batches[-common:]

    def _agrees(self, other: "LogView", key: bytes, may_lack: Callable[[LoggedBatch], bool]) -> bool:
        ours, theirs = self.newest.get(key), other.newest.get(key)
        if ours == theirs:
            return True
        if theirs is None or (ours is not None and ours.offset > theirs.offset):
            newer, log = ours, self
        else:
            newer, log = theirs, other
        assert newer is not None, "one of both logs has the key"
        is_in_both = ours is not None and theirs is not None and ours.offset == theirs.offset
        return not is_in_both and all(map(may_lack, log.read(newer.offset, newer.offset + 1)))

    def leave(self) -> None:
        """Keep what it held when its process ended."""
        self._log = None

    def index_of(self, offset: int) -> int:
        """Returns how many batches begin below `offset`."""
        return bisect_left(self._bases, offset)

    def holds(self, batch: LoggedBatch, newest: Mapping[bytes, int] = NOTHING) -> bool:
        """Returns True if this very batch is in the log, or what compaction leaves of it.

        `newest`: by key, offsets of the newest committed records; a leader's compaction may remove older ones first.
        """
        held = self.at(batch.info.base_offset)
        if held is batch:
            return True
        if not batch.keyed or batch.info.end_offset > self.end or (held is not None and not _is_left_of(held, batch)):
            return False
        if batch in self._aborted:
            return True
        return all(self._covers(each) or newest.get(each.key or b"", -1) > each.offset for each in batch.keyed)

    def _covers(self, record: KafkaRecord) -> bool:
        """Returns True if a record is here, or a newer one of its key, or if it has removed its key."""
        newest = self.newest.get(record.key or b"")
        if newest is None:
            return record.value is None
        return newest.offset > record.offset or newest == record

    def at(self, offset: int) -> LoggedBatch | None:
        """Returns the batch that begins at `offset`, if one does."""
        at = bisect_left(self._bases, offset)
        return self.batches[at] if at < len(self.batches) and self._bases[at] == offset else None

    def read(self, start: int, end: int) -> list[LoggedBatch]:
        """Returns the batches from that of `start` to that before `end`."""
        first = max(bisect_right(self._bases, start) - 1, 0)
        found = self.batches[first : bisect_left(self._bases, end)]
        return [batch for batch in found if batch.info.end_offset > start]


def _is_left_of(held: LoggedBatch, batch: LoggedBatch) -> bool:
    """Returns True if compaction may have made `held` of `batch`."""
    return held.info.leader_epoch == batch.info.leader_epoch and all(record in batch.keyed for record in held.keyed)


def view_all(store: BrokerStore, batches: Batches, views: dict[TopicPartition, LogView]) -> None:
    """Bring the views up to date with all logs of a store."""
    for partition in [each for each in views if each not in store.logs]:
        del views[partition]
    for partition, log in store.logs.items():
        views.setdefault(partition, LogView()).refresh(log, batches)


def find_losses(
    before: Mapping[TopicPartition, LogView], after: Mapping[TopicPartition, LogView]
) -> list[TopicPartition]:
    """Returns the partitions of which a log lacks what it had."""
    nothing = LogView()
    return [
        partition
        for partition, view in before.items()
        for left in (after.get(partition, nothing),)
        if any(batch.info.end_offset > left.start and not left.holds(batch) for batch in view.batches)
    ]
