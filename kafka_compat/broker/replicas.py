"""The replicas of this broker: carries out their deciders' orders on logs, at the controller and at brokers.

A `LocalReplica` is one replica with its log. `step` takes an event and carries out all of its effects before the next
event.
A caller that waits for a replica watches it: fetch sessions (new data, high watermark, role) and coordinators.

A failed disk ends the broker, as in Kafka with one log directory: this one cannot know its log, another can lead. A full
one does not (`full_disk`).
"""

import heapq
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from itertools import islice
from typing import Final, Protocol

import attrs

from kafka_compat.broker.context import Context
from kafka_compat.broker.controller_link import CommandFailed
from kafka_compat.broker.fetcher import NEVER, FetchPosition
from kafka_compat.broker.full_disk import FullDisk
from kafka_compat.broker.producers import kept_of, snapshots_of, transactions_of
from kafka_compat.broker.turns import Steps
from kafka_compat.config import TopicSettings
from kafka_compat.controller.commands import AlterPartition, CommandResult, IsrChange, PartitionsAltered, ProposedMember
from kafka_compat.model import NO_LEADER, BrokerRegistration, PartitionState, TopicPartition
from kafka_compat.partition.core import PartitionReplica
from kafka_compat.partition.effects import (
    AnswerEpochEnd,
    AnswerFetch,
    AnswerLatestOffset,
    AnswerLogStart,
    AnswerProduce,
    AnswerVerification,
    AppendBatches,
    CloseConnection,
    Effect,
    FetchFrom,
    HighWatermarkMoved,
    MoveLogStart,
    PartitionRole,
    PartitionRoleChanged,
    RefusePeer,
    ResetLog,
    SendAlterPartition,
    StopFetching,
    TransactionHangs,
    TruncateLog,
)
from kafka_compat.partition.events import (
    AlterPartitionAnswered,
    BrokersChanged,
    Event,
    FetchAnswered,
    Flushed,
    PartitionConfigChanged,
    PartitionRemoved,
    PartitionStateChanged,
    Produce,
    ProducerExpiryDue,
    TimePassed,
    Truncated,
)
from kafka_compat.partition.model import EpochBegin, PartitionConfig, RecoveredReplica
from kafka_compat.protocol.error_codes import KafkaErrorCode
from kafka_compat.storage.broker_store import BrokerStore
from kafka_compat.storage.partition_log import PartitionLog
from kafka_compat.storage.producer_snapshots import KeptProducers
from log.errors import NoSpace

LOGS_AT_ONCE: Final = 8
"""Logs that are made side by side: each costs a few calls of the disk that wait for it."""
WORK_S: Final = 0.02
"""The seconds of a round for making and deleting logs; work that has begun is finished."""
HANGING_GRACE_S: Final = 300.0
"""A transaction that is open for so long after its greatest timeout hangs, as for `kafka-transactions`."""
CHANGES_PER_COMMAND: Final = 1_000
"""Changes of ISRs in one command to the controller."""

Answer = (
    AnswerProduce
    | AnswerVerification
    | CloseConnection
    | AnswerFetch
    | AnswerEpochEnd
    | AnswerLatestOffset
    | AnswerLogStart
)


class Watcher(Protocol):
    """A part of the broker that waits for changes of a replica.

    It is called in the middle of a step: it notes the change, and acts when the round ends.
    """

    def on_appended(self, hosted: "LocalReplica") -> None:
        """The log has grown."""

    def on_moved(self, hosted: "LocalReplica") -> None:
        """The high watermark or the start of the log has changed."""

    def on_changed(self, hosted: "LocalReplica") -> None:
        """Role, leader or leader epoch changed, or the replica is gone."""


class Fetchers(Protocol):
    """The receivers of followers' orders."""

    def fetch(self, leader: int, partition: TopicPartition, position: FetchPosition) -> None:
        """Fetch a partition from `leader`, and from no other."""

    def stop(self, partition: TopicPartition) -> None:
        """Do not fetch it any more."""


@attrs.define(eq=False)
class LocalReplica:
    """One replica of this broker."""

    partition: TopicPartition
    topic_id: bytes
    log: PartitionLog
    decider: PartitionReplica
    settings: TopicSettings
    watchers: dict[Watcher, None] = attrs.field(factory=dict)
    role: PartitionRole = PartitionRole.OFFLINE
    leader: int = NO_LEADER
    leader_epoch: int = -1
    high_watermark: int = 0
    armed_for: float = float("inf")

    @property
    def leads(self) -> bool:
        """True if this broker leads the partition, to its knowledge."""
        return self.role is PartitionRole.LEADER


class Replicas:
    """All replicas of one broker."""

    def __init__(
        self,
        context: Context,
        store: BrokerStore,
        fetchers: Fetchers,
        tell: Callable[[LocalReplica, PartitionRoleChanged | HighWatermarkMoved | RefusePeer | TransactionHangs], None],
        on_role: Callable[[LocalReplica, PartitionRoleChanged], None],
        on_removed: Callable[[LocalReplica], None],
    ) -> None:
        self.hosted: dict[TopicPartition, LocalReplica] = {}
        self._context = context
        self._store = store
        self._fetchers = fetchers
        self._tell = tell
        self._on_role = on_role
        self._on_removed = on_removed
        self._events: deque[tuple[LocalReplica, Event]] = deque()
        self._stepping = False
        self._answers: dict[int, Callable[[Answer], None]] = {}
        self._last_token = 0
        self._deadlines: list[tuple[float, int, LocalReplica]] = []
        self._flush_before_ack = context.settings.flushes_before_ack
        self._unflushed: dict[LocalReplica, None] = {}
        self._missing: dict[TopicPartition, bytes] = {}
        """Replicas whose logs are to be made, with their topics' ids, in the order in which they were assigned."""
        self._doomed: dict[TopicPartition, bytes] = {}
        """Logs that are to be deleted, with their topics' ids."""
        self.full_disk = FullDisk(store, context.clock)
        self._changes: list[tuple[IsrChange, Callable[[KafkaErrorCode, PartitionState | None], None]]] = []
        """Changes of ISRs that wait for the end of the round, with the callbacks for their outcomes."""
        self.broken = False
        """True once carrying out a step has failed: deciders may then know more than the logs contain."""

    # ---------------------------------------------------------------- lookups

    def by_name(self, topic: str, partition: int) -> LocalReplica | None:
        """Returns the replica, or None if this broker has no copy."""
        return self.hosted.get(TopicPartition(topic, partition))

    def topic_name(self, topic_id: bytes) -> str | None:
        """Returns the name of a topic."""
        topic = self._context.image.topics_by_id.get(topic_id)
        return topic.name if topic is not None else None

    def token(self, done: Callable[[Answer], None]) -> int:
        """Returns a number for a request; `done` is called with the answer."""
        self._last_token += 1
        self._answers[self._last_token] = done
        return self._last_token

    def forget(self, token: int) -> None:
        """Drop the answer of this token: if it has not come by now, it will not come (Produce with acks=0)."""
        self._answers.pop(token, None)

    # ---------------------------------------------------------------- steps

    def step(self, hosted: LocalReplica, event: Event) -> None:
        """Give a replica an event, and carry out its orders.

        An answer may lead to another event. Called while a step is carried out, the event waits until that step ends.
        """
        self._events.append((hosted, event))
        if self._stepping:
            return
        self._stepping = True
        try:
            while self._events:
                self._step(*self._events.popleft())
        except BaseException:
            self.broken = True
            raise
        finally:
            self._stepping = False

    def _step(self, hosted: LocalReplica, event: Event) -> None:
        match event:
            case Produce() if hosted.leads:
                if (refusal := self.full_disk.refusal_of(event, hosted.log)) is not None:
                    self._answers.pop(event.token)(refusal)
                    return
            case FetchAnswered():
                event = self.full_disk.fitting(event, hosted.log)
            case _:
                pass
        self._execute(hosted, hosted.decider.step(self._context.clock(), event))
        deadline = hosted.decider.deadline
        if deadline < hosted.armed_for:
            self._last_token += 1
            hosted.armed_for = deadline
            heapq.heappush(self._deadlines, (deadline, self._last_token, hosted))

    def _execute(self, hosted: LocalReplica, effects: Iterable[Effect]) -> None:
        for effect in effects:
            match effect:
                case AppendBatches():
                    self._append(hosted, effect)
                case AnswerProduce() | AnswerFetch() | AnswerEpochEnd() | AnswerLatestOffset() | AnswerLogStart():
                    self._answers.pop(effect.token)(effect)
                case CloseConnection() | AnswerVerification():
                    self._answers.pop(effect.token)(effect)
                case FetchFrom():
                    self._fetchers.fetch(
                        effect.leader,
                        hosted.partition,
                        FetchPosition(
                            hosted.topic_id,
                            effect.fetch_offset,
                            effect.leader_epoch,
                            effect.last_fetched_epoch,
                            effect.log_start,
                        ),
                    )
                case HighWatermarkMoved():
                    hosted.high_watermark = effect.high_watermark
                    for watcher in tuple(hosted.watchers):
                        watcher.on_moved(hosted)
                    self._tell(hosted, effect)
                case TruncateLog():
                    self._truncate(hosted, effect)
                case ResetLog():
                    hosted.log.reset(effect.start)
                case MoveLogStart():
                    hosted.log.trim(effect.log_start)
                    self._unflushed[hosted] = None  # the files of what was trimmed go with the next flush
                    for watcher in tuple(hosted.watchers):
                        watcher.on_moved(hosted)
                case StopFetching():
                    self._fetchers.stop(hosted.partition)
                case SendAlterPartition():
                    self._alter(hosted, effect)
                case PartitionRoleChanged():
                    self._change_role(hosted, effect)
                case RefusePeer() | TransactionHangs():
                    self._tell(hosted, effect)

    def _append(self, hosted: LocalReplica, order: AppendBatches) -> None:
        payload = order.payload
        assert isinstance(payload, tuple), "batches come one in each buffer"
        if order.leader_epoch >= 0:
            base_offset, _ = hosted.log.append_as_leader(payload, order.leader_epoch)
        else:
            base_offset, _ = hosted.log.append_as_follower(payload)
        assert base_offset == order.base_offset, f"{hosted.partition}: {base_offset} where {order.base_offset} was due"
        if self._flush_before_ack:
            self._unflushed[hosted] = None
        for watcher in tuple(hosted.watchers):
            watcher.on_appended(hosted)
        if hosted.log.snapshot_due:
            self.snapshot_producers(hosted)

    def snapshot_producers(self, hosted: LocalReplica) -> None:
        """Write a snapshot of the producers next to the log, so that a restart has less to read."""
        hosted.log.write_snapshot(self._keep(hosted))

    def _keep(self, hosted: LocalReplica) -> KeptProducers:
        decider = hosted.decider
        producers = decider.producer_snapshot(self._context.clock())
        return kept_of(producers, decider.transactions_snapshot(), self._context.wall_ms())

    def _truncate(self, hosted: LocalReplica, order: TruncateLog) -> None:
        shorter = order.end < hosted.log.end_offset
        end = hosted.log.truncate(order.end)
        if not shorter:
            self.step(hosted, Truncated(end, None))
            return
        kept = hosted.log.producers_on_disk()
        self.step(hosted, Truncated(end, snapshots_of(kept, self._context.wall_ms()), transactions_of(kept)))

    def _alter(self, hosted: LocalReplica, order: SendAlterPartition) -> None:
        change = IsrChange(
            hosted.topic_id,
            hosted.partition.partition,
            order.leader_epoch,
            order.partition_epoch,
            tuple(ProposedMember(broker, epoch) for broker, epoch in order.isr),
            order.recovering,
            order.keeps_eligible,
        )

        def on_altered(error: KafkaErrorCode, state: PartitionState | None) -> None:
            if self.hosted.get(hosted.partition) is hosted:
                self.step(hosted, AlterPartitionAnswered(order.request, error, state))

        self._changes.append((change, on_altered))

    def send_changes(self) -> None:
        """Ask for all ISR changes of this round, many in one command. Call it at the end of a round."""
        while self._changes:
            sent, self._changes = self._changes[:CHANGES_PER_COMMAND], self._changes[CHANGES_PER_COMMAND:]
            self._send(sent)

    def _send(self, sent: list[tuple[IsrChange, Callable[[KafkaErrorCode, PartitionState | None], None]]]) -> None:
        def on_result(result: CommandResult | CommandFailed) -> None:
            if isinstance(result, PartitionsAltered) and result.partitions:
                for (_, settled), altered in zip(sent, result.partitions, strict=True):
                    settled(altered.error, altered.state if altered.error is KafkaErrorCode.NONE else None)
                return
            error = KafkaErrorCode.UNKNOWN_SERVER_ERROR
            if isinstance(result, PartitionsAltered | CommandFailed):
                error = result.error
            for _, settled in sent:
                settled(error, None)

        context = self._context
        command = AlterPartition(context.broker_id, context.broker_epoch, tuple(change for change, _ in sent))
        context.controller.send(command, on_result, at_once=True)

    def _change_role(self, hosted: LocalReplica, news: PartitionRoleChanged) -> None:
        hosted.role = news.role
        hosted.leader = news.leader
        hosted.leader_epoch = news.leader_epoch
        for watcher in tuple(hosted.watchers):
            watcher.on_changed(hosted)
        self._tell(hosted, news)
        self._on_role(hosted, news)

    # ---------------------------------------------------------------- time and disk

    @property
    def deadline(self) -> float:
        """The time at which `tick` or `work` is due."""
        step_due = self._deadlines[0][0] if self._deadlines else NEVER
        return min(step_due, self.full_disk.makes_from) if self._missing else step_due

    def tick(self, now: float) -> None:
        """Step the replicas whose deadline has come."""
        while self._deadlines and self._deadlines[0][0] <= now:
            deadline, _, hosted = heapq.heappop(self._deadlines)
            if deadline != hosted.armed_for or self.hosted.get(hosted.partition) is not hosted:
                continue
            hosted.armed_for = float("inf")
            self.step(hosted, TimePassed())

    def take_unflushed(self) -> list[tuple[LocalReplica, int, int]]:
        """Returns the replicas with unflushed acknowledgements or deletions, their log ends and change counts."""
        taken, self._unflushed = self._unflushed, {}
        return [(each, each.log.end_offset, each.log.changes) for each in taken]

    def flush_soon(self, hosted: LocalReplica) -> None:
        """Have the next round of flushes prove what this log holds."""
        self._unflushed[hosted] = None

    def on_flushed(self, round_: list[tuple[LocalReplica, int, int]]) -> None:
        """Report a completed flush that began after `take_unflushed`.

        A log that was cut meanwhile is flushed once more.
        """
        for hosted, end, changes in round_:
            if self.hosted.get(hosted.partition) is not hosted:
                continue
            if hosted.log.changes != changes:
                self._unflushed[hosted] = None
            else:
                self.step(hosted, Flushed(end))

    @property
    def has_unflushed(self) -> bool:
        """True if acknowledgements or deleted files wait for a flush that has not begun."""
        return bool(self._unflushed)

    def expire_producers(self) -> Steps:
        """Let every replica forget producers that were idle for too long, one a step."""
        for hosted in tuple(self.hosted.values()):
            if self.hosted.get(hosted.partition) is hosted:
                self.step(hosted, ProducerExpiryDue())
            yield 1

    def high_watermarks(self) -> dict[TopicPartition, int]:
        """Returns the high watermarks of all replicas."""
        return {each.partition: each.high_watermark for each in self.hosted.values()}

    def producers(self) -> dict[TopicPartition, KeptProducers]:
        """Returns the producers' states, which spare a restart the reading of batches."""
        return {each.partition: self._keep(each) for each in self.hosted.values()}

    # ---------------------------------------------------------------- metadata

    def update_brokers(self, brokers: Mapping[int, BrokerRegistration]) -> None:
        """Give all replicas the changed brokers of the cluster."""
        event = BrokersChanged(dict(brokers))
        for hosted in tuple(self.hosted.values()):
            self.step(hosted, event)

    def update(self, states: Mapping[TopicPartition, PartitionState]) -> None:
        """Take the controller's new states of these partitions.

        It makes the logs of new replicas first: some at once, and the rest in `work`.
        """
        own = self._context.broker_id
        mine = {partition: state for partition, state in states.items() if own in state.replicas}
        for partition in [each for each in states if each not in mine]:
            if not self._is_assigned(partition, states[partition].topic_id):
                self.remove(partition, moved=True)
        for partition, state in mine.items():
            hosted = self.hosted.get(partition)
            if hosted is not None and hosted.topic_id != state.topic_id:
                self.remove(partition)  # deleted, and made again under the same name
        for partition, state in mine.items():
            hosted = self.hosted.get(partition)
            if hosted is None and self._store.has(partition, state.topic_id):
                hosted = self._host(partition, state.topic_id)
            if hosted is not None:
                self.step(hosted, PartitionStateChanged(state))
            else:
                self._missing[partition] = state.topic_id
        self.work()

    def _is_assigned(self, partition: TopicPartition, topic_id: bytes) -> bool:
        """Returns True if this broker is a replica by the newest metadata.

        A broker that starts is given older states after newer ones: what they removed may have been added again since.
        """
        state = self._context.image.partition(partition)
        return state is not None and state.topic_id == topic_id and self._context.broker_id in state.replicas

    @property
    def has_more(self) -> bool:
        """True if `work` has something to do."""
        return bool(self._doomed) or self._may_make

    @property
    def _may_make(self) -> bool:
        return bool(self._missing) and self._context.clock() >= self.full_disk.makes_from

    def work(self) -> None:
        """Make and delete some logs; call it once a round. A partition has no replica here until its log is made."""
        if not self.has_more:
            return
        stopwatch = self._context.stopwatch
        until = stopwatch() + WORK_S
        while self._may_make and stopwatch() < until:
            try:
                self._make_some()
            except NoSpace as error:
                self.full_disk.put_off(error)
        while self._doomed and stopwatch() < until:
            partition, topic_id = self._doomed.popitem()
            if self._store.topic_id(partition) == topic_id and partition not in self.hosted:
                self._store.delete(partition)

    def make_all(self) -> None:
        """Make all missing logs in this turn: before a broker serves, it must know what each of its copies lacks.

        Raises `NoSpace` without room for them.
        """
        while self._missing:
            self._make_some()

    def _make_some(self) -> None:
        """Make the logs of some new replicas together, and take up the controller's present decisions about them."""
        made: dict[TopicPartition, PartitionState] = {}
        for partition, topic_id in tuple(islice(self._missing.items(), LOGS_AT_ONCE)):
            del self._missing[partition]
            state = self._context.image.partition(partition)
            if state is not None and state.topic_id == topic_id and self._context.broker_id in state.replicas:
                made[partition] = state
        if not made:
            return
        try:
            self._store.create({partition: state.topic_id for partition, state in made.items()})
        except NoSpace:
            self._missing |= {partition: state.topic_id for partition, state in made.items()}
            raise
        for partition, state in made.items():
            self._doomed.pop(partition, None)
            self.step(self._host(partition, state.topic_id), PartitionStateChanged(state))

    def remove(self, partition: TopicPartition, *, moved: bool = False) -> None:
        """Remove the replica of a partition that is gone, or with `moved` no longer has a replica here.

        `work` deletes its log, unless it is a stray that this broker keeps.
        """
        self._missing.pop(partition, None)
        hosted = self.hosted.get(partition)
        if hosted is not None:
            self.step(hosted, PartitionRemoved(moved))
            del self.hosted[partition]
            self._unflushed.pop(hosted, None)
            self._on_removed(hosted)
        topic_id = self._store.topic_id(partition)
        if topic_id is not None and (hosted is not None or not self._store.keeps_strays):
            self._doomed[partition] = topic_id

    def reconfigure(self, topic: str | None) -> None:
        """Settings of a topic have changed; of all topics with None."""
        for hosted in tuple(self.hosted.values()):
            if topic is None or hosted.partition.topic == topic:
                settings = hosted.settings = self._settings_of(hosted.partition.topic)
                hosted.log.segment_bytes = settings.segment_bytes
                self.step(hosted, PartitionConfigChanged(self._config(settings)))

    def _host(self, partition: TopicPartition, topic_id: bytes) -> LocalReplica:
        log = self._store.log(partition)
        settings = self._settings_of(partition.topic)
        log.segment_bytes = settings.segment_bytes
        kept = log.take_producers()
        recovered = RecoveredReplica(
            log_start=log.start_offset,
            log_end=log.end_offset,
            durable_end=log.durable_offset,
            high_watermark=self._store.high_watermark(partition),
            leader_epochs=tuple(EpochBegin(epoch, start) for epoch, start in log.epochs),
            producers=snapshots_of(kept, self._context.wall_ms()),
            transactions=transactions_of(kept),
        )
        decider = PartitionReplica(
            self._context.broker_id, partition, self._config(settings), recovered, self._context.clock()
        )
        hosted = LocalReplica(partition, topic_id, log, decider, settings, high_watermark=recovered.high_watermark)
        self.hosted[partition] = hosted
        if self._flush_before_ack and log.durable_offset < log.end_offset:
            self._unflushed[hosted] = None
        self.step(hosted, BrokersChanged(dict(self._context.image.brokers)))
        return hosted

    def _settings_of(self, topic: str) -> TopicSettings:
        found = self._context.image.topics.get(topic)
        return self._context.topic_settings(found.configs if found is not None else {})

    def _config(self, topic: TopicSettings) -> PartitionConfig:
        settings = self._context.settings
        return PartitionConfig(
            min_insync_replicas=topic.min_insync_replicas,
            replica_lag_time_s=settings.seconds("replica.lag.time.max.ms"),
            flush="before-ack" if self._flush_before_ack else "page-cache",
            eligible_leaders=self._context.eligible,
            max_message_bytes=topic.max_message_bytes,
            hanging_after_s=settings.seconds("transaction.max.timeout.ms") + HANGING_GRACE_S,
            verifies_transactions=settings.flag("transaction.partition.verification.enable"),
            producer_expiry_s=settings.seconds("producer.id.expiration.ms"),
            fetch_backoff_s=max(settings.seconds("replica.fetch.backoff.ms"), 0.01),
        )
