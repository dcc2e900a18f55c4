"""Periodic work of a broker: retention, compaction, checkpoints, forgetting idle producers and files."""

import logging
from bisect import bisect_right
from collections.abc import Callable, Generator, Iterator

from kafka_compat.broker.context import Context, DiskWork
from kafka_compat.broker.fetcher import AT_ONCE
from kafka_compat.broker.replicas import LocalReplica, Replicas
from kafka_compat.broker.turns import Steps
from kafka_compat.config import TopicSettings
from kafka_compat.model import TopicPartition
from kafka_compat.partition.events import LogStartDue
from kafka_compat.storage.broker_store import BrokerStore
from kafka_compat.storage.compaction import Compaction, Compactor
from kafka_compat.storage.retention import roll_if_due, start_to_keep
from log.errors import NoSpace

logger = logging.getLogger(__name__)

PRODUCER_EXPIRY_EVERY_S = 600.0
CLOSE_IDLE_EVERY_S = 10.0
CHECKPOINTS, COMPACTED = "checkpoints of high watermarks are", "compacted logs are"
"""The works that go on without room, in the words of the log."""


class Housekeeping:
    """Does the work that is due.

    Call `tick` once a round. Long work goes on in small parts, one a round, or in the disk thread.
    """

    def __init__(self, context: Context, store: BrokerStore, replicas: Replicas, disk: DiskWork) -> None:
        settings = context.settings
        now = context.clock()
        self._context = context
        self._store = store
        self._replicas = replicas
        self._disk = disk
        self._compactor = Compactor()
        self._steps: Generator[Callable[[], None], None, None] | None = None
        self._compaction: Compaction | None = None
        self._compacted: LocalReplica | None = None
        """The replica of the newest pass; the next look at all logs begins behind it."""
        self._step_under_way = False
        self._walking: set[str] = set()
        """The walks over all replicas that are under way."""
        self._checkpoint_under_way = False
        self._without_room: set[str] = set()
        """The works that a full disk has prevented the last time."""
        self._every: list[tuple[float, Callable[[], None]]] = [
            (settings.seconds("replica.high.watermark.checkpoint.interval.ms"), self._checkpoint),
            (settings.seconds("log.retention.check.interval.ms"), lambda: self._walk("retention", self._retain)),
            (max(settings.seconds("log.cleaner.backoff.ms"), 1.0), lambda: self._walk("compaction", self._compact)),
            (PRODUCER_EXPIRY_EVERY_S, lambda: self._walk("producers", self._replicas.expire_producers)),
            (CLOSE_IDLE_EVERY_S, store.close_idle),
        ]
        self._due = [now + every_s for every_s, _ in self._every]
        self.deadline = min(self._due)
        """The time at which `tick` is due; at once while a part of the long work can go on."""

    def tick(self, now: float) -> None:
        """Begin the work that is due, and continue the work under way."""
        if min(self._due) <= now:
            for number, (every_s, work) in enumerate(self._every):
                if self._due[number] <= now:
                    self._due[number] = now + every_s
                    work()
        if self._steps is not None and not self._step_under_way:
            self._go_on()
        self._note_deadline()

    def _note_deadline(self) -> None:
        self.deadline = AT_ONCE if self._steps is not None and not self._step_under_way else min(self._due)

    # ---------------------------------------------------------------- checkpoints

    def _checkpoint(self) -> None:
        if self._checkpoint_under_way:
            return
        values = self._replicas.high_watermarks()
        self._checkpoint_under_way = True
        self._disk.submit(lambda: self._store.write_high_watermarks(values), self._on_checkpointed)

    def _on_checkpointed(self, error: BaseException | None) -> None:
        self._checkpoint_under_way = False
        if error is not None and not isinstance(error, NoSpace):
            raise error
        self._note_room(CHECKPOINTS, error)

    def _note_room(self, work: str, error: NoSpace | None) -> None:
        """Log that a full disk prevents a work, or prevents it no more: once for each change."""
        if error is not None and work not in self._without_room:
            self._without_room.add(work)
            logger.warning("%s not written until there is room: %s", work, error)
        elif error is None and work in self._without_room:
            self._without_room.discard(work)
            logger.warning("%s written again", work)

    # ---------------------------------------------------------------- walks over all replicas

    def _walk(self, name: str, steps: Callable[[], Steps]) -> None:
        """Begin a walk, which goes on a part a round, unless the last one of its name is still under way."""
        if name in self._walking:
            return

        def walk() -> Steps:
            yield from steps()
            self._walking.discard(name)

        self._walking.add(name)
        self._context.turns.run_later(walk())

    def _settings(self, after: TopicPartition | None = None) -> Iterator[tuple[LocalReplica, TopicSettings]]:
        """Returns the replicas with the settings of their topics, as they are when they are come to.

        They are sorted by partition, and those behind `after` come first.
        """
        topic, settings = "", self._context.topic_settings({})
        found = sorted(self._replicas.hosted.items())
        first = 0 if after is None else bisect_right(found, after, key=lambda each: each[0])
        for partition, hosted in [*found[first:], *found[:first]]:
            known = self._context.image.topics.get(partition.topic)
            if known is None or self._replicas.hosted.get(partition) is not hosted:
                continue
            if partition.topic != topic:
                topic, settings = partition.topic, self._context.topic_settings(known.configs)
            yield hosted, settings

    def _retain(self) -> Steps:
        for hosted, settings in self._settings():
            now_ms = self._context.wall_ms()
            if roll_if_due(hosted.log, settings, hosted.high_watermark, now_ms):
                self._replicas.snapshot_producers(hosted)
            start = start_to_keep(hosted.log, settings, hosted.high_watermark, now_ms)
            if start > hosted.log.start_offset:
                self._replicas.step(hosted, LogStartDue(start))
            yield 1

    # ---------------------------------------------------------------- compaction

    def _compact(self) -> Steps:
        for hosted, settings in self._settings(None if self._compacted is None else self._compacted.partition):
            yield 1
            if self._steps is not None:
                return
            if not settings.compacted or self._replicas.hosted.get(hosted.partition) is not hosted:
                continue
            if hosted.log.store_log.awaits_flush:
                self._replicas.flush_soon(
                    hosted
                )  # with page-cache nothing else would prove that its segments are whole
            decider = hosted.decider
            found = self._compactor.begin(
                hosted.log,
                settings.compaction,
                high_watermark=decider.last_stable_offset,
                now_ms=self._context.wall_ms(),
                aborted=tuple(decider.log.producers.transactions.aborted),
                producers=decider.log.producers.last_offsets(),
                may_end_deletions=self._all_in_sync(hosted.partition),
            )
            if found is not None:
                self._compaction, self._steps, self._compacted = found, found.steps(), hosted
                self._note_deadline()
                return

    def _all_in_sync(self, partition: TopicPartition) -> bool:
        """Returns True if every replica surely has all that is committed."""
        state = self._context.image.partition(partition)
        return state is not None and set(state.isr) == set(state.replicas) and self._context.is_confirmed()

    def _go_on(self) -> None:
        steps, compaction = self._steps, self._compaction
        assert steps is not None, "only called with work to do"
        assert compaction is not None, "the steps are those of a pass"
        try:
            work = next(steps)
        except StopIteration:
            self.stop()
            self._note_room(COMPACTED, None)
            if compaction.done:
                self._walk("compaction", self._compact)  # the next log does not wait for its time
            return
        except NoSpace as error:
            self.stop()
            self._note_room(COMPACTED, error)
            return
        self._step_under_way = True
        self._disk.submit(work, self._step_done)

    def _step_done(self, error: BaseException | None) -> None:
        self._step_under_way = False
        self._note_deadline()
        if error is not None:
            self.stop()
            if not isinstance(error, NoSpace):
                raise error
            self._note_room(COMPACTED, error)

    def forget(self, hosted: LocalReplica) -> None:
        """Stop working on a replica whose log is about to be deleted."""
        if self._compacted is hosted:
            self.stop()
        self._compactor.forget(hosted.log.name)

    def stop(self) -> None:
        """Give up the pass that is under way."""
        if self._steps is not None:
            self._steps.close()
        self._steps = self._compaction = None
        self._note_deadline()
