"""All partitions that a broker has on its disk.

    <directory>/broker, clean-shutdown, high-watermarks
    <directory>/lock, room, logs/<topic>-<partition>/…      a `LogStore`
    <directory>/logs/<topic>-<partition>/partition          topic, partition, topic id

A partition is known by its topic's id: a topic that was deleted and made again under the same name never gets the old log. A log
without the file `partition` was never written to, because its making did not end; it is removed at the next start.

A partition whose log is damaged, or whose disk calls fail, is *offline*; the others go on. One thread owns the store and its logs;
only `FlushRound.run` and `write_high_watermarks` may be called in another one.
"""

import contextlib
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Self

from kafka_compat.model import TopicPartition
from kafka_compat.storage.checkpoints import (
    IDENTITY_NAME,
    BrokerMeta,
    HighWatermarks,
    read_identity,
    take_clean_marker,
    write_clean_marker,
    write_identity,
)
from kafka_compat.storage.partition_log import SEGMENT_BYTES, PartitionLog
from kafka_compat.storage.producer_snapshots import ProducerStates
from log.config import StoreConfig
from log.disk import Disk
from log.errors import CorruptLog, LogError, NoSpace, StorageFailed, UnknownLog
from log.store import LOGS_NAME, LogStore
from log.store_flush import FlushRound

STORE_CONFIG = StoreConfig(segment_bytes_max=SEGMENT_BYTES)
"""Segments end at a topic's `segment.bytes`; the store's own bound is only the greatest."""


class BrokerStore:
    """The partitions of one broker; made by `open`."""

    def __init__(self, disk: Disk, directory: str, store: LogStore, meta: BrokerMeta, clean_epoch: int | None) -> None:
        """Use `open`."""
        self.directory = directory
        self.meta = meta
        self.clean_epoch = clean_epoch
        """The broker epoch before this start if it ended with `close`; None if it did not, or there was none."""
        self.logs: dict[TopicPartition, PartitionLog] = {}
        """The partitions that can be used. Not to be changed from outside."""
        self.offline: dict[TopicPartition, LogError] = {}
        """The partitions that cannot, and why."""
        self.unknown: dict[str, LogError] = {}
        """Names of damaged logs whose partition cannot be told; they stay where they are."""
        self._disk = disk
        self._store = store
        self._topic_ids: dict[TopicPartition, bytes] = {}
        self._high_watermarks = HighWatermarks(disk, directory)
        self._segment_bytes = SEGMENT_BYTES

    @classmethod
    def open(
        cls, disk: Disk, directory: str, *, cluster_id: str, broker_id: int, config: StoreConfig = STORE_CONFIG
    ) -> Self:
        """Returns the store in `directory`, opened or made; call `open_all` next.

        Raises `DirectoryLocked` if it is open elsewhere, `ForeignDirectory` if it is another broker's, `NoSpace` or `StorageFailed`
        if the disk refuses.
        """
        store = LogStore.open(disk, directory, config)
        try:
            meta = BrokerMeta.claim(disk, directory, cluster_id=cluster_id, broker_id=broker_id)
            return cls(disk, directory, store, meta, take_clean_marker(disk, directory))
        except BaseException:
            with contextlib.suppress(LogError):
                store.close()
            raise

    def open_all(self, segment_bytes: int = SEGMENT_BYTES) -> None:
        """Open every log: `logs`, and `offline` for those that cannot be. Recovery runs in threads of the store.

        `segment_bytes` holds for every log until its own `segment_bytes` is set. Raises `StorageFailed` if the disk fails outside of
        a log.
        """
        self._segment_bytes = segment_bytes
        errors = self._store.open_all()
        for name in self._store.names():
            directory = self._directory_of(name)
            known = read_identity(self._disk, directory)
            if known is None:
                self._without_identity(name, errors.get(name))
                continue
            partition, topic_id = known
            self._topic_ids[partition] = topic_id
            error = errors.get(name)
            if error is None:
                try:
                    self._add(partition)
                except LogError as failure:
                    error = failure
            if error is not None:
                self.offline[partition] = error

    # Partitions

    def log(self, partition: TopicPartition) -> PartitionLog:
        """Returns the log of a partition. Raises the error of one that is offline, and `UnknownLog` if there is none."""
        log = self.logs.get(partition)
        if log is not None:
            return log
        raise self.offline.get(partition) or UnknownLog(str(partition))

    def topic_id(self, partition: TopicPartition) -> bytes | None:
        """Returns the id of the topic that the log of this name belongs to; None if there is none."""
        return self._topic_ids.get(partition)

    def has(self, partition: TopicPartition, topic_id: bytes) -> bool:
        """Whether there is a log of this partition of this topic, be it offline."""
        return self._topic_ids.get(partition) == topic_id

    def create(self, partitions: Mapping[TopicPartition, bytes]) -> None:
        """Make the logs of these partitions, given with their topics' ids, durably and side by side; those that are there stay.

        A log of the same name that belongs to another topic id is deleted first; if it is not known what it belongs to, its error is
        raised, and only `delete` removes it. Raises `NoSpace`, `StorageFailed`, or `ValueError` for a name that is too long; what was
        made until then stays, and the call may be repeated.
        """
        missing = {each: topic_id for each, topic_id in partitions.items() if not self.has(each, topic_id)}
        for each in missing:
            if each in self._topic_ids:
                self.delete(each)
            elif each in self.offline:
                raise self.offline[each]
        existing = set(self._store.names())
        for each in missing:
            if str(each) in existing:
                # Left over from a call of this that failed.
                self._store.delete(str(each))
        self._store.create_all(map(str, missing))
        self._side_by_side(
            lambda each: write_identity(self._disk, self._directory_of(str(each)), each, missing[each]), missing
        )
        for each, topic_id in missing.items():
            self._topic_ids[each] = topic_id
            self._add(each)

    def delete(self, partition: TopicPartition) -> None:
        """Delete the log of a partition, durably, also one that is offline. Raises `UnknownLog` if there is none."""
        if partition not in self._topic_ids and partition not in self.offline:
            raise UnknownLog(str(partition))
        self._store.delete(str(partition))
        self._topic_ids.pop(partition, None)
        self.logs.pop(partition, None)
        self.offline.pop(partition, None)

    def strays(self, assigned: Mapping[TopicPartition, bytes]) -> list[TopicPartition]:
        """Returns the partitions that have a log here, but are not among `assigned`, or there with another topic id; sorted.

        Their topics were deleted, or their replicas moved, while the broker was down. The caller decides, then calls `delete`.
        """
        return sorted(each for each, topic_id in self._topic_ids.items() if assigned.get(each) != topic_id)

    def note_failures(self) -> list[TopicPartition]:
        """Move partitions whose log has failed from `logs` to `offline`. Returns them."""
        failed = [each for each, log in self.logs.items() if log.failed is not None]
        for each in failed:
            error = self.logs.pop(each).failed
            assert error is not None, "only what failed is moved"
            self.offline[each] = error
        return failed

    # High watermarks

    def high_watermark(self, partition: TopicPartition) -> int:
        """Returns the high watermark as of the last checkpoint before this start, within what the log holds."""
        log = self.logs[partition]
        found = self._high_watermarks.of(self._topic_ids[partition], partition.partition)
        return min(max(found, log.start_offset), log.end_offset)

    def write_high_watermarks(self, values: Mapping[TopicPartition, int]) -> None:
        """Write the checkpoint, durably; every few seconds. May be called in any thread, with a mapping that does not change.

        Partitions that are not here any more are left out. Raises `NoSpace` (the old one stays) or `StorageFailed`.
        """
        ids = self._topic_ids
        known = [(ids.get(each), each.partition, offset) for each, offset in values.items()]
        self._high_watermarks.write(
            {(topic_id, partition): offset for topic_id, partition, offset in known if topic_id is not None}
        )

    # Making durable

    @property
    def is_dirty(self) -> bool:
        """Whether a round would have anything to flush."""
        return self._store.is_dirty

    def begin_round(self) -> FlushRound:
        """Returns a round of flushes of everything done so far in all logs; cheap. See `LogStore.begin_round`."""
        return self._store.begin_round()

    def end_round(self, done: FlushRound) -> None:
        """Complete a round that has run, also one that raised; then see `note_failures`."""
        self._store.end_round(done)

    def flush(self) -> None:
        """Make everything durable, in this thread. Raises `StorageFailed` if a log failed, after all others are done."""
        self._store.flush()

    def close_idle(self) -> None:
        """Close the files of logs that were not used since the last call; to be called every few seconds."""
        self._store.close_idle()

    def close(
        self,
        *,
        broker_epoch: int = -1,
        producers: Mapping[TopicPartition, ProducerStates] | None = None,
        high_watermarks: Mapping[TopicPartition, int] | None = None,
    ) -> None:
        """Flush, keep what a restart would have to find out again, mark the end as clean, and release the directory.

        The marker is left out if anything failed, also a log that is offline because of it.
        """
        try:
            self.note_failures()
            for partition, states in (producers or {}).items():
                if (log := self.logs.get(partition)) is not None:
                    log.write_snapshot(states)
            if self._store.is_dirty:
                self._store.flush()
            with contextlib.suppress(NoSpace):
                if high_watermarks is not None:
                    self.write_high_watermarks(high_watermarks)
                if not any(isinstance(each, StorageFailed) for each in self.offline.values()):
                    write_clean_marker(self._disk, self.directory, broker_epoch)
        finally:
            self._store.close()

    def abandon(self) -> None:
        """Release the directory after a failure of the broker: nothing is written outside of the logs, as if it had been killed."""
        with contextlib.suppress(LogError):
            self._store.close()

    # How it is done

    def _directory_of(self, name: str) -> str:
        return f"{self.directory}/{LOGS_NAME}/{name}"

    def _add(self, partition: TopicPartition) -> None:
        log = self._store.log(str(partition))
        self.logs[partition] = PartitionLog(log, self._disk, segment_bytes=self._segment_bytes)

    def _without_identity(self, name: str, error: LogError | None) -> None:
        log = None if error is not None else self._store.log(name)
        if log is not None and log.end_offset == 0:
            self._store.delete(name)
            return
        path = f"{self._directory_of(name)}/{IDENTITY_NAME}"
        error = error or CorruptLog(
            path, 0, "the file that states which topic the log belongs to is missing or damaged"
        )
        topic, _, partition = name.rpartition("-")
        if topic and partition.isascii() and partition.isdigit():
            self.offline[TopicPartition(topic, int(partition))] = error
        else:
            self.unknown[name] = error

    def _side_by_side(self, work: Callable[[TopicPartition], None], partitions: Iterable[TopicPartition]) -> None:
        each = list(partitions)
        threads = min(self._store.config.threads, len(each))
        if threads <= 1:
            for partition in each:
                work(partition)
            return
        with ThreadPoolExecutor(threads, thread_name_prefix="broker-store") as pool:
            list(pool.map(work, each))
