"""All partitions that a broker has on its disk.

    <directory>/broker, run, high-watermarks
    <directory>/lock, room, logs/<topic>-<partition>/…      a `LogStore`
    <directory>/logs/<topic>-<partition>/partition          topic, partition, topic id

The topic id identifies a partition: a topic that was deleted and created again under the same name never gets the old
log. A log without the file `partition` is empty, because its creation did not end; the next start removes it.

Opening a damaged log repairs it: the part before the damage stays, the rest is set aside. Such a copy is *doubtful*. So
is a copy that is missing, that ends before its own high watermark, whose checkpoints are damaged, or that may have lost
unflushed records in a loss of power (`doubt_of`). A doubt is durable before its cause disappears, and stays until
`doubts_known`. A partition whose disk calls fail is *offline*; the others go on. One thread owns the store and its
logs; only `FlushRound.run` and `write_high_watermarks` may be called in another one.
"""

import contextlib
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Self

import attrs

from kafka_compat.model import TopicPartition
from kafka_compat.storage.checkpoints import BrokerMeta, HighWatermarks, read_identity, write_identity
from kafka_compat.storage.partition_log import SEGMENT_BYTES, PartitionLog
from kafka_compat.storage.producer_snapshots import KeptProducers
from kafka_compat.storage.run_record import RUN_NAME, RunRecord, Stage
from log.config import StoreConfig
from log.disk import Disk
from log.errors import CorruptLog, LogError, NoSpace, UnknownLog
from log.store import LOGS_NAME, LogStore
from log.store_flush import FlushRound

STORE_CONFIG = StoreConfig(segment_bytes_max=SEGMENT_BYTES)
"""Segments end at a topic's `segment.bytes`; the store's own bound is only the greatest."""
PROBE_NAME = "probe"
PROBE_BYTES = 64 * 1024
"""Room for the files that a truncated or new log needs besides its batches."""


@attrs.frozen
class LogDamage:
    """The damage of a log, and its repair. `partition` is None if the log's name does not name a partition."""

    name: str
    partition: TopicPartition | None
    reason: str
    done: str


class BrokerStore:
    """The partitions of one broker; made by `open`."""

    def __init__(
        self,
        disk: Disk,
        directory: str,
        store: LogStore,
        meta: BrokerMeta,
        previous: RunRecord | None,
        *,
        boot: str,
        flushed: bool,
    ) -> None:
        """Use `open`."""
        self.directory = directory
        self.meta = meta
        self.previous = previous
        """The record of the process before this one; None if there was none, or if the record is missing or damaged."""
        self.logs: dict[TopicPartition, PartitionLog] = {}
        """The partitions that can be used. Not to be changed from outside."""
        self.offline: dict[TopicPartition, LogError] = {}
        """The partitions that cannot, and why: their disk calls fail."""
        self.damages: list[LogDamage] = []
        """The damage that opening the logs has found."""
        self.keeps_strays = False
        """If true, creating a partition sets an orphan log of its name aside instead of deleting it.

        The owner sets it.
        """
        self.is_new = previous is None and not meta.found and not store.names()
        """True if the directory was empty. Only the cluster knows the earlier logs of this broker id."""
        self._disk = disk
        self._store = store
        self._topic_ids: dict[TopicPartition, bytes] = {}
        self._headless: set[str] = set()
        """Names of logs without a known partition. They stay until a partition of this name is created."""
        self._high_watermarks = HighWatermarks(disk, directory)
        self._segment_bytes = SEGMENT_BYTES
        record = previous or RunRecord(stage=Stage.OPENING)
        self._run = attrs.evolve(record, stage=Stage.OPENING, boot=boot, flushed=flushed)
        self._run = self._run.with_doubt(self._doubts_of_all(boot))
        self._record()

    @classmethod
    def open(
        cls,
        disk: Disk,
        directory: str,
        *,
        cluster_id: str,
        broker_id: int,
        config: StoreConfig = STORE_CONFIG,
        boot: str = "",
        flushed: bool = True,
    ) -> Self:
        """Returns the store in `directory`, opened or created; call `open_all` next.

        `boot` names the present start of the machine, if known. `flushed` is true if everything is flushed before it is
        acknowledged. Raises `DirectoryLocked` if the directory is open elsewhere, `ForeignDirectory` if it is another
        broker's, `NoSpace` or `StorageFailed` if the disk refuses.
        """
        store = LogStore.open(disk, directory, config)
        try:
            meta = BrokerMeta.claim(disk, directory, cluster_id=cluster_id, broker_id=broker_id)
            previous = RunRecord.read(disk, directory)
            return cls(disk, directory, store, meta, previous, boot=boot, flushed=flushed)
        except BaseException:
            with contextlib.suppress(LogError):
                store.close()
            raise

    def open_all(self, segment_bytes: int = SEGMENT_BYTES) -> None:
        """Open every log and repair the damaged ones. Fills `logs`, `offline` (logs whose disk fails) and `damages`.

        Recovery runs in threads of the store. `segment_bytes` holds for every log until its own `segment_bytes` is set.
        Raises `StorageFailed` if the disk fails outside of a log.
        """
        self._segment_bytes = segment_bytes
        errors = self._store.open_all()
        doubts = dict(self._run.doubts)
        for name in self._store.names():
            known = read_identity(self._disk, self._directory_of(name))
            if known is None:
                self._without_identity(name, errors.get(name))
                continue
            partition, topic_id = known
            self._topic_ids[partition] = topic_id
            try:
                reason = self._open_one(partition, errors.get(name))
            except LogError as failure:
                self.offline[partition] = failure
                reason = f"{failure}"  # a repair may have been half done
            if reason is not None:
                doubts[topic_id, partition.partition] = reason
        self._run = attrs.evolve(self._run, stage=Stage.RUNNING, doubts=doubts)
        self._record()
        if not self._high_watermarks.found:
            with contextlib.suppress(NoSpace):
                self.write_high_watermarks({})

    # Doubts

    @property
    def broker_epoch(self) -> int:
        """The newest registration that may have served from this directory; -1 before the first."""
        return self._run.broker_epoch

    def doubt_of(self, partition: TopicPartition, topic_id: bytes) -> str | None:
        """Returns the reason why this broker's copy of a partition may lack records, or None if the copy is whole."""
        if self._run.everything is not None:
            return self._run.everything
        doubt = self._run.doubts.get((topic_id, partition.partition))
        return "its log is missing" if doubt is None and not self.has(partition, topic_id) else doubt

    def doubt_all(self, reason: str) -> None:
        """Mark every copy as doubtful, durably."""
        self._run = self._run.with_doubt(reason)
        self._record()

    def doubt(self, partitions: Mapping[TopicPartition, tuple[bytes, str]]) -> None:
        """These copies, given with topic ids and reasons, are doubtful; durable when it returns, all at once."""
        doubts = {(topic_id, each.partition): reason for each, (topic_id, reason) in partitions.items()}
        if self._run.everything is None and not doubts.items() <= self._run.doubts.items():
            self._run = attrs.evolve(self._run, doubts={**self._run.doubts, **doubts})
            self._record()

    def doubts_known(self) -> None:
        """Clear all doubts, durably, after the controller has recorded them."""
        self._run = attrs.evolve(self._run, everything=None, doubts={})
        self._record()

    def serves_as(self, broker_epoch: int) -> None:
        """From now on this registration may serve from the directory; durable when it returns."""
        self._run = attrs.evolve(self._run, broker_epoch=broker_epoch)
        self._record()

    def note_damage(self, error: CorruptLog) -> TopicPartition | None:
        """Record durably that a log was found damaged as it was read, so that the next start repairs it.

        Returns the partition of the log, or None if the file belongs to none of the logs.
        """
        for partition, log in self.logs.items():
            if error.file == log.store_log.directory or error.file.startswith(f"{log.store_log.directory}/"):
                self.doubt({partition: (self._topic_ids[partition], f"{error}")})
                log.store_log.note_damage()
                return partition
        return None

    def _doubts_of_all(self, boot: str) -> str | None:
        """Returns the reason why every copy is doubtful from the beginning, or None."""
        if self.is_new:
            return None
        if not self.meta.found:
            return "the file that states whose directory it is was missing or damaged"
        if self.previous is None:
            return f"the record of the last process, `{RUN_NAME}`, was missing or damaged"
        if not self._high_watermarks.found:
            return "the checkpoint of high watermarks was missing or damaged"
        return self.previous.reason_to_doubt(boot)

    def _record(self) -> None:
        """Make the record durable. A full disk removes it, which leaves everything doubtful for the next start."""
        try:
            self._run.write(self._disk, self.directory)
        except NoSpace:
            if self._disk.exists(f"{self.directory}/{RUN_NAME}"):
                self._disk.remove(f"{self.directory}/{RUN_NAME}")
                self._disk.sync_directory(self.directory)

    def _open_one(self, partition: TopicPartition, error: LogError | None) -> str | None:
        """Open the log of a partition, repaired if need be. Returns why it is doubtful, None if it is whole."""
        reason: str | None = None
        try:
            if error is not None:
                raise error
            self._add(partition)
        except CorruptLog as damage:
            done = self._store.repair(str(partition))
            self._add(partition)
            reason = f"{damage}"
            change = "is reset" if done.was_reset else f"is cut at offset {done.end_offset}"
            if done.reason is None:
                change = "was read again and found whole"
            self.damages.append(LogDamage(str(partition), partition, reason, f"the log {change}"))
        log = self.logs[partition]
        found = log.store_log.recovery
        reached = self._high_watermarks.of(self._topic_ids[partition], partition.partition)
        if reason is None and found.torn_bytes_cut:
            reason = f"its end was torn: {found.torn_reason}"
        elif reason is None and found.mark_damaged:
            reason = "the checkpoint of its durable end was missing or damaged"
        elif reason is None and found.segment_missing:
            reason = "its newest segment is missing"
        elif reason is None and log.end_offset < reached:
            reason = f"it ends at {log.end_offset}, before its high watermark {reached}"
        return reason

    # Room

    def require_room(self) -> None:
        """Make sure that files can be written next to those of the logs. Raises `NoSpace`."""
        path = f"{self.directory}/{PROBE_NAME}"
        file = self._disk.open(path, create=True)
        try:
            file.reserve(PROBE_BYTES)
        finally:
            file.close()
            self._disk.remove(path)

    # Partitions

    def log(self, partition: TopicPartition) -> PartitionLog:
        """Returns the log of a partition. Raises the error of an offline log, and `UnknownLog` for an unknown one."""
        log = self.logs.get(partition)
        if log is not None:
            return log
        raise self.offline.get(partition) or UnknownLog(str(partition))

    def topic_id(self, partition: TopicPartition) -> bytes | None:
        """Returns the topic id of the log of this name, or None."""
        return self._topic_ids.get(partition)

    def has(self, partition: TopicPartition, topic_id: bytes) -> bool:
        """Returns True if this partition of this topic has a log, even an offline one."""
        return self._topic_ids.get(partition) == topic_id

    def create(self, partitions: Mapping[TopicPartition, bytes]) -> None:
        """Create the logs of these partitions, given with their topic ids, durably and side by side.

        Existing logs stay. A log of the same name with another topic id is deleted first (see `keeps_strays`); if its
        topic id is unknown, its files are set aside. Raises the error of an offline log, `NoSpace`, `StorageFailed`, or
        `ValueError` for a name that is too long. After an error the created logs stay, and the call may be repeated.
        """
        missing = {each: topic_id for each, topic_id in partitions.items() if not self.has(each, topic_id)}
        for partition in missing:
            if partition in self._topic_ids and self.keeps_strays:
                del self._topic_ids[partition]
                self.logs.pop(partition, None)
                self._headless.add(str(partition))
            elif partition in self._topic_ids:
                self.delete(partition)
            elif partition in self.offline:
                raise self.offline[partition]
        existing = set(self._store.names())
        for partition in missing:
            if str(partition) in self._headless:
                self._store.set_aside(str(partition))
            elif str(partition) in existing:
                # Left over from a call of this that failed.
                self._store.delete(str(partition))
        names = [str(each) for each in missing]
        self._store.create_all([name for name in names if name not in self._headless])
        self._side_by_side(
            lambda each: write_identity(self._disk, self._directory_of(str(each)), each, missing[each]), missing
        )
        for partition, topic_id in missing.items():
            self._topic_ids[partition] = topic_id
            self._headless.discard(str(partition))
            self._add(partition)

    def delete(self, partition: TopicPartition) -> None:
        """Delete the log of a partition, durably, also one that is offline. Raises `UnknownLog` if there is none."""
        if partition not in self._topic_ids and partition not in self.offline:
            raise UnknownLog(str(partition))
        self._store.delete(str(partition))
        self._topic_ids.pop(partition, None)
        self.logs.pop(partition, None)
        self.offline.pop(partition, None)

    def strays(self, assigned: Mapping[TopicPartition, bytes]) -> list[TopicPartition]:
        """Returns the orphans, sorted: partitions with a log here that are not `assigned` with the same topic id.

        Their topics were deleted, or their replicas moved, while the broker was down. The caller decides.
        """
        return sorted(each for each, topic_id in self._topic_ids.items() if assigned.get(each) != topic_id)

    def note_failures(self) -> list[TopicPartition]:
        """Move partitions whose log has failed from `logs` to `offline`. Returns them."""
        failed = [each for each, log in self.logs.items() if log.failed is not None]
        for partition in failed:
            error = self.logs.pop(partition).failed
            assert error is not None, "only what failed is moved"
            self.offline[partition] = error
        return failed

    # High watermarks

    def high_watermark(self, partition: TopicPartition) -> int:
        """Returns the high watermark of the last checkpoint before this start, limited to the log."""
        log = self.logs[partition]
        found = self._high_watermarks.of(self._topic_ids[partition], partition.partition)
        return min(max(found, log.start_offset), log.end_offset)

    def write_high_watermarks(self, values: Mapping[TopicPartition, int]) -> None:
        """Write the checkpoint, durably; every few seconds.

        May be called in any thread, with a mapping that does not change. Partitions that have left the store are
        omitted. Raises `NoSpace` (the old checkpoint stays) or `StorageFailed`.
        """
        ids = self._topic_ids
        known = [(ids.get(each), each.partition, offset) for each, offset in values.items()]
        self._high_watermarks.write(
            {(topic_id, partition): offset for topic_id, partition, offset in known if topic_id is not None}
        )

    # Making durable

    def begin_round(self) -> FlushRound:
        """Returns a round of flushes of everything done so far in all logs; cheap. See `LogStore.begin_round`."""
        return self._store.begin_round()

    def end_round(self, done: FlushRound) -> None:
        """Complete a round that has run, also one that raised; then see `note_failures`."""
        self._store.end_round(done)

    def flush(self) -> None:
        """Make everything durable, in this thread.

        Raises `StorageFailed` if a log failed, after all others are done.
        """
        self._store.flush()

    def close_idle(self) -> None:
        """Close the files of logs that were not used since the last call; to be called every few seconds."""
        self._store.close_idle()

    def close(
        self,
        *,
        producers: Mapping[TopicPartition, KeptProducers] | None = None,
        high_watermarks: Mapping[TopicPartition, int] | None = None,
    ) -> None:
        """Flush, write the state that spares a restart work, record a clean end, and release the directory.

        The end is not clean if anything has failed, also a log that is offline because of it.
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
                if self._run.stage is Stage.RUNNING and not self.offline:
                    self._run = attrs.evolve(self._run, stage=Stage.CLEAN)
                    self._record()
        finally:
            self._store.close()

    def abandon(self) -> None:
        """Release the directory after a failure of the broker, as if it had been killed.

        Only the logs are still written.
        """
        with contextlib.suppress(LogError):
            self._store.close()

    # How it is done

    def _directory_of(self, name: str) -> str:
        return f"{self.directory}/{LOGS_NAME}/{name}"

    def _add(self, partition: TopicPartition) -> None:
        log = self._store.log(str(partition))
        self.logs[partition] = PartitionLog(log, self._disk, segment_bytes=self._segment_bytes)

    def _without_identity(self, name: str, error: LogError | None) -> None:
        if error is not None and not isinstance(error, CorruptLog):
            raise error
        if error is None and self._store.log(name).end_offset == 0:
            self._store.delete(name)
            return
        self._headless.add(name)
        topic, _, number = name.rpartition("-")
        partition = TopicPartition(topic, int(number)) if topic and number.isascii() and number.isdigit() else None
        reason = "the file that states which topic the log belongs to is missing or damaged"
        self.damages.append(
            LogDamage(name, partition, reason, "the log is set aside once a partition of its name is made")
        )

    def _side_by_side(self, work: Callable[[TopicPartition], None], partitions: Iterable[TopicPartition]) -> None:
        each = list(partitions)
        threads = min(self._store.config.threads, len(each))
        if threads <= 1:
            for partition in each:
                work(partition)
            return
        with ThreadPoolExecutor(threads, thread_name_prefix="broker-store") as pool:
            list(pool.map(work, each))
