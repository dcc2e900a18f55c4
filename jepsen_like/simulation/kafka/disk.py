"""The disks of the brokers of a simulated cluster: the logs of partitions, checkpoints, and a snapshot of the metadata.

A log is a list of batches, each one object in all replicas that have it, so that logs are compared quickly. What was
appended lies in the page cache until a flush: a killed process loses nothing, a power cut loses any part of the
unflushed end. Truncating and resetting are durable at once, as in `kafka_compat.storage`.
"""

import random
from bisect import bisect_left, bisect_right
from collections.abc import Sequence

import attrs

from kafka_compat.coordinator.events import Record
from kafka_compat.model import TopicPartition
from kafka_compat.partition.model import BatchInfo, EpochBegin, ProducerSnapshot, RecoveredReplica
from kafka_compat.partition.producer_state import replay
from log.values import frozen


@frozen
class SimulatedBatch:
    """One batch in a log: its header with base offset and leader epoch, what a client calls it, and the records of a
    group.
    """

    info: BatchInfo
    value: str
    records: tuple[Record, ...] = ()


@attrs.define(eq=False)
class SimulatedLog:
    """The log of one replica. Ends are exclusive offsets; `durable_end` is the end of what survives a power cut."""

    topic_id: bytes
    start: int = 0
    end: int = 0
    durable_end: int = 0
    damaged: bool = False
    """Its end was corrupt, as a restart will find."""
    changes: int = 0
    """Counts truncations and resets: a flush that began before one proves nothing about what came after."""
    batches: list[SimulatedBatch] = attrs.field(factory=list)
    _bases: list[int] = attrs.field(factory=list)
    _trimmed: tuple[ProducerSnapshot, ...] = ()
    """The producers of what has left at the beginning, as a snapshot of producers keeps them."""

    def append(self, batches: Sequence[SimulatedBatch]) -> None:
        """Put batches behind the last one; their base offsets are where they belong."""
        for batch in batches:
            self.batches.append(batch)
            self._bases.append(batch.info.base_offset)
            self.end = batch.info.end_offset

    def _whole_below(self, offset: int) -> int:
        at = bisect_right(self._bases, offset) - 1
        return max(at, 0)

    def index_of(self, offset: int) -> int:
        """Returns how many batches begin below `offset`."""
        return bisect_left(self._bases, offset)

    def holds(self, batch: SimulatedBatch) -> bool:
        """Returns whether this very batch is in the log."""
        at = bisect_left(self._bases, batch.info.base_offset)
        return at < len(self.batches) and self.batches[at] == batch

    def at(self, offset: int) -> SimulatedBatch | None:
        """Returns the batch that begins at `offset`, if one does."""
        at = bisect_left(self._bases, offset)
        return self.batches[at] if at < len(self.batches) and self._bases[at] == offset else None

    def read(self, start: int, end: int) -> list[SimulatedBatch]:
        """Returns the batches from that of `start` to that before `end`."""
        first = max(bisect_right(self._bases, start) - 1, 0)
        found = self.batches[first : bisect_left(self._bases, end)]
        return [batch for batch in found if batch.info.end_offset > start]

    def truncate(self, end: int) -> int:
        """Remove every batch that reaches above `end`; returns where the log ends now."""
        if end >= self.end:
            return self.end
        keep = self._whole_below(end)
        del self.batches[keep:], self._bases[keep:]
        self.end = self.batches[-1].info.end_offset if self.batches else self.start
        self.durable_end = min(self.durable_end, self.end)
        self.changes += 1
        return self.end

    def reset(self, start: int) -> None:
        """Drop everything; the log begins at `start`."""
        self.batches.clear()
        self._bases.clear()
        self.start = self.end = self.durable_end = start
        self._trimmed = ()
        self.changes += 1

    def trim(self, start: int) -> None:
        """The log begins at `start`; whole batches below leave."""
        self.start = max(self.start, start)
        keep = bisect_right(self._bases, self.start) - 1
        if keep > 0:
            self._trimmed = replay(self._trimmed, _of_producers(self.batches[:keep]))
            del self.batches[:keep], self._bases[:keep]

    def lose_page_cache(self, rng: random.Random) -> bool:
        """Power is lost: some beginning of what was not flushed is left. Returns whether anything is gone."""
        unflushed = [batch for batch in self.batches if batch.info.base_offset >= self.durable_end]
        if not unflushed:
            return False
        left = rng.randint(0, len(unflushed))
        if left < len(unflushed):
            self.truncate(unflushed[left].info.base_offset)
        self.durable_end = self.end
        return left < len(unflushed)

    def recover(self, high_watermark: int) -> RecoveredReplica:
        """Returns what a restart finds here, with the checkpointed high watermark."""
        epochs: list[EpochBegin] = []
        for batch in self.batches:
            if not epochs or batch.info.leader_epoch != epochs[-1].epoch:
                epochs.append(EpochBegin(batch.info.leader_epoch, max(batch.info.base_offset, self.start)))
        return RecoveredReplica(self.start, self.end, self.durable_end, high_watermark, tuple(epochs), self.producers())

    def producers(self) -> tuple[ProducerSnapshot, ...]:
        """Returns the idempotent producers at the end of the log, read from its batches."""
        return replay(self._trimmed, _of_producers(self.batches))


def _of_producers(batches: Sequence[SimulatedBatch]) -> list[BatchInfo]:
    return [batch.info for batch in batches if batch.info.producer_id >= 0]


@attrs.define(eq=False)
class BrokerDisk:
    """The disk of one broker; it outlives the process.

    `metadata` is the newest snapshot of the image, with its index.
    """

    logs: dict[TopicPartition, SimulatedLog] = attrs.field(factory=dict)
    high_watermarks: dict[TopicPartition, int] = attrs.field(factory=dict)
    metadata: tuple[int, bytes] | None = None
    inventory: set[TopicPartition] | None = attrs.field(factory=set)
    """The logs that this disk should have, which lies next to the high watermarks; None where that file is gone."""
    doubts: set[TopicPartition] = attrs.field(factory=set)
    """Logs that may lack what they had, until the controller knows."""
    boot: int = 1
    """The boot of the machine: another one after every loss of power."""
    running: int | None = None
    """The boot in which a process began that has not ended in good order."""

    def flush(self) -> None:
        """Everything in the page cache is on the disk."""
        for log in self.logs.values():
            log.durable_end = log.end

    def begin(self, *, before_ack: bool) -> None:
        """A process begins, and looks for what is missing, damaged, shorter than it was, or may have been lost with the
        power.
        """
        all_of_them = self.inventory is None or (self.running not in (None, self.boot) and not before_ack)
        for partition, log in self.logs.items():
            if all_of_them or log.damaged or log.end < self.high_watermarks.get(partition, 0):
                self.doubts.add(partition)
            log.damaged = False
        self.doubts.update((self.inventory or set()).difference(self.logs))
        self.inventory = set(self.logs)
        self.running = self.boot

    # ---------------------------------------------------------------- what may happen to it

    def lose_power(self, rng: random.Random) -> list[TopicPartition]:
        """Returns the logs that have lost something."""
        self.boot += 1
        return [partition for partition, log in self.logs.items() if log.lose_page_cache(rng)]

    def vanish(self) -> list[TopicPartition]:
        """The whole disk is gone. Returns the logs that it had."""
        gone = [partition for partition, log in self.logs.items() if log.end > 0]
        self.logs.clear()
        self.doubts.clear()
        self.metadata = self.running = None
        self.lose_checkpoint()
        return gone

    def lose_checkpoint(self) -> None:
        """The files next to the logs are gone."""
        self.high_watermarks.clear()
        self.inventory = None

    def lose_log(self, partition: TopicPartition) -> bool:
        """The directory of a partition is gone. Returns whether anything was in it."""
        return self.logs.pop(partition).end > 0

    def damage(self, partition: TopicPartition, rng: random.Random) -> bool:
        """A log is corrupt at a batch, from which on a restart cuts it, or cut below its checkpoint.

        Returns whether there was one.
        """
        log = self.logs[partition]
        if log.start == log.end:
            return False
        checkpoint = min(self.high_watermarks.get(partition, 0), log.end)
        cut = checkpoint > log.start and rng.random() < 0.5
        log.truncate(rng.randrange(log.start, checkpoint if cut else log.end))
        log.damaged = not cut
        return True
