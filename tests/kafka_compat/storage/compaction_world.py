"""A log that is written, compacted and restarted at random, and what compaction promises about it.

`Broken` names the promise first: `last` (the last value of a key is not lost), `lag` (nothing leaves within
`min.compaction.lag.ms`), `deletion` (one stays for `delete.retention.ms` after the first pass over it), `lagging` (and while a replica may lack it), `content` (what
stays is as it was, in order), `aborted` (records of aborted transactions leave), `left` (a pass leaves one record of each
key), `producers` and `open` (a copy of the log knows each producer's sequence and open transactions), and `newest_time`.
"""

import random
from collections.abc import Mapping

import attrs

from kafka_compat.compression import compress
from kafka_compat.config import CompactionRule
from kafka_compat.markers import Marker, encode_marker
from kafka_compat.partition.model import AbortedTransaction
from kafka_compat.protocol.batch_header import HEADER_BYTES, TRANSACTIONAL, encode_batch_header, read_batch_header
from kafka_compat.records import KafkaRecord, encode_records, read_records
from kafka_compat.storage.broker_store import BrokerStore
from kafka_compat.storage.compaction import Compaction, Compactor
from kafka_compat.storage.partition_log import PartitionLog
from tests.kafka_compat.storage.partition_model import memory_disk, new_log, read_all

STEPS = 120
KEYS = [b"key%d" % number for number in range(9)]
TRANSACTORS, NUMBERED = (1, 2), (11, 12)


class Broken(Exception):
    """A promise that was broken, as `promise: details`."""


@attrs.define(eq=False)
class World:
    """One log and what was written to it."""

    rng: random.Random
    store: BrokerStore
    log: PartitionLog
    rule: CompactionRule
    now_ms: int = 1_000_000
    written: dict[int, KafkaRecord] = attrs.field(factory=dict)
    void: set[int] = attrs.field(factory=set)
    """The offsets of aborted records."""
    pending: dict[int, list[int]] = attrs.field(factory=dict)
    """By producer id: the offsets of its open transaction."""
    aborted: list[AbortedTransaction] = attrs.field(factory=list)
    sequences: dict[int, int] = attrs.field(factory=dict)
    last_offsets: dict[int, int] = attrs.field(factory=dict)
    looked_at: dict[int, int] = attrs.field(factory=dict)
    """By offset of a deletion: the time of the first pass over it."""
    compactor: Compactor = attrs.field(factory=Compactor)
    passes: int = 0
    removed: int = 0

    # ---------------------------------------------------------------- what is written

    def write(self) -> None:
        """A batch: plain, of a numbered producer, or in a transaction; compressed or not."""
        rng, log = self.rng, self.log
        count = rng.randint(1, 4)
        pairs = [(rng.choice(KEYS), None if rng.random() < 0.2 else rng.randbytes(200)) for _ in range(count)]
        times = [self.now_ms - rng.choice((0, 0, 10, 40_000)) for _ in range(count)]
        batch = encode_records(pairs, times)
        header, body = read_batch_header(batch), batch[HEADER_BYTES:]
        codec = rng.choice((0, 0, 1, 4))
        body = bytes(compress(codec, body, 1))
        producer = rng.choice((-1, *NUMBERED, *TRANSACTORS))
        attributes = codec | (TRANSACTIONAL if producer in TRANSACTORS else 0)
        if producer >= 0:
            first = self.sequences.get(producer, 0)
            self.sequences[producer] = first + count
            header = attrs.evolve(header, producer_id=producer, producer_epoch=0, base_sequence=first)
        base, end = log.append_as_leader(
            [encode_batch_header(attrs.evolve(header, attributes=attributes), body) + body], 1
        )
        for at, ((key, value), time) in enumerate(zip(pairs, times, strict=True)):
            self.written[base + at] = KafkaRecord(base + at, time, key, value)
        if producer >= 0:
            self.last_offsets[producer] = end - 1
        if producer in TRANSACTORS:
            self.pending.setdefault(producer, []).extend(range(base, end))

    def decide(self) -> None:
        """A transaction ends."""
        if not self.pending:
            return
        producer, offsets = self.pending.popitem()
        commits = self.rng.random() < 0.6
        at, _ = self.log.append_as_leader([encode_marker(Marker(producer, 0, commits, 0), self.now_ms)], 1)
        if not commits:
            self.void.update(offsets)
            self.aborted.append(AbortedTransaction(producer, offsets[0], at))

    @property
    def stable(self) -> int:
        """The last stable offset."""
        return min((offsets[0] for offsets in self.pending.values()), default=self.log.end_offset)

    # ---------------------------------------------------------------- a pass

    def compact(self) -> None:
        """A pass, if one is due, and what is left by it."""
        log, reach = self.log, min(self.stable, self.log.durable_offset)
        compaction = self.compactor.begin(
            log,
            self.rule,
            high_watermark=self.stable,
            now_ms=self.now_ms,
            aborted=tuple(self.aborted),
            producers=self.last_offsets,
            may_end_deletions=self.rng.random() < 0.8,
        )
        if compaction is None:
            return
        if self.rng.random() < 0.3:
            compaction.keys_bytes_max = 1
        before = {each.offset: each for each in records_of(log)}
        run = compaction.segments()
        end = log.store_log.segment_facts()[len(run)].first_index
        compaction.run()
        self.passes += 1
        self.removed += compaction.removed
        self._judge(compaction, before, end, reach)

    def _judge(self, compaction: Compaction, before: Mapping[int, KafkaRecord], end: int, reach: int) -> None:
        found = records_of(self.log)
        if [each.offset for each in found] != sorted({each.offset for each in found}):
            raise Broken("content: the order is another one")
        for each in found:
            if each != self.written[each.offset]:
                raise Broken(f"content: {each} was {self.written[each.offset]}")
        newest = {
            record.key: offset
            for offset, record in sorted(self.written.items())
            if offset not in self.void and offset < reach
        }
        left = {each.offset for each in found}
        for offset, record in before.items():
            if offset not in left:
                self._judge_removed(record, newest)
                if record.is_deletion and newest.get(record.key) == offset and not compaction.may_end_deletions:
                    raise Broken(f"lagging: {record} has left, and a replica may lack it")
            elif offset < end and offset in self.void:
                raise Broken(f"aborted: {record} stays")
        if not compaction.done:
            raise Broken("left: the pass is not done")
        kept = [each for each in found if each.offset < compaction.clean_offset]
        for record in kept:
            if any(other.key == record.key for other in kept if other.offset > record.offset):
                raise Broken(f"left: {record}, and a newer one of its key")
            if record.is_deletion:
                self.looked_at.setdefault(record.offset, self.now_ms)
        self._judge_copy()

    def _judge_removed(self, record: KafkaRecord, newest: Mapping[bytes | None, int]) -> None:
        if record.timestamp_ms > self.now_ms - self.rule.min_lag_ms and self.rule.min_lag_ms:
            raise Broken(f"lag: {record} has left at {self.now_ms}")
        if record.offset in self.void or newest.get(record.key, -1) > record.offset:
            return
        if not record.is_deletion:
            raise Broken(f"last: {record} has left")
        since = self.looked_at.get(record.offset)
        if since is None or self.now_ms <= since + self.rule.delete_retention_ms:
            raise Broken(f"deletion: {record} has left at {self.now_ms}, and was found at {since}")

    def _judge_copy(self) -> None:
        _, copy = new_log(memory_disk())
        for content in read_all(self.log):
            copy.append_as_follower([content])
        known = copy.producers_on_disk()
        for producer, following in self.sequences.items():
            batches = known.by_id.get(producer, (0, ()))[1]
            if not batches or batches[-1][1] != following - 1:
                raise Broken(f"producers: {producer} is at {batches[-1:]}, and was at {following - 1}")
        if known.open.keys() != self.pending.keys():
            raise Broken(f"open: {sorted(known.open)} in a copy, {sorted(self.pending)} were")
        headers = [read_batch_header(each) for each in read_all(copy)]
        times = [each.timestamp_ms for each in records_of(copy)]
        times += [each.max_timestamp for each in headers if each.is_control]
        found = copy.find_newest_time()
        if times and (found is None or found[1] != max(times)):
            raise Broken(f"newest_time: {found}, and a record has {max(times)}")

    def step(self) -> None:
        """One event."""
        draw = self.rng.random()
        if draw < 0.45:
            self.write()
        elif draw < 0.6:
            self.now_ms += self.rng.choice((1, 500, 5_000, 60_000))
        elif draw < 0.7:
            self.decide()
        elif draw < 0.78:
            self.log.roll()
        elif draw < 0.85:
            self.store.flush()
        else:
            self.compact()


def records_of(log: PartitionLog) -> list[KafkaRecord]:
    """The records of all batches but markers."""
    batches = [each for each in read_all(log) if not read_batch_header(each).is_control]
    return [record for each in batches for record in read_records(each)]


def play(seed: int) -> World:
    """Returns a world that kept all promises. Raises `Broken`."""
    rng = random.Random(seed)
    rule = CompactionRule(
        delete_retention_ms=rng.choice((0, 10_000, 100_000)),
        min_lag_ms=rng.choice((0, 0, 5_000, 50_000)),
        max_lag_ms=rng.choice((20_000, 2**63 - 1)),
        dirty_ratio=rng.choice((0.0, 0.2, 0.5)),
    )
    world = World(rng, *new_log(memory_disk(seed)), rule)
    for _ in range(STEPS):
        world.step()
    return world
