"""The replicas of one simulated broker: carries out what the real deciders order, as `kafka_compat.broker.replicas`
does.
"""

import random
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Protocol, assert_never

import attrs

from jepsen_like.simulation.kafka.disk import BrokerDisk, SimulatedBatch, SimulatedLog
from jepsen_like.simulation.kafka.messages import BrokerMessage, ReplicaFetch, ReplicaFetched
from jepsen_like.simulation.kafka.swarm import KafkaKnobs
from kafka_compat.controller.commands import (
    AlterPartition,
    Command,
    CommandResult,
    IsrChange,
    LogReport,
    PartitionsAltered,
    ProposedMember,
)
from kafka_compat.model import NO_EPOCH, OFFSETS_TOPIC, BrokerRegistration, PartitionState, TopicPartition
from kafka_compat.partition.core import PartitionReplica
from kafka_compat.partition.effects import (
    AnswerEpochEnd,
    AnswerFetch,
    AnswerLatestOffset,
    AnswerLogStart,
    AnswerProduce,
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
    TruncateLog,
)
from kafka_compat.partition.events import (
    AlterPartitionAnswered,
    BrokersChanged,
    Event,
    Flushed,
    FollowerFetch,
    PartitionStateChanged,
    TimePassed,
    Truncated,
)
from kafka_compat.partition.model import NO_OFFSET, ComparedLog, PartitionConfig
from kafka_compat.protocol.error_codes import KafkaErrorCode

ReplicaAnswer = AnswerProduce | CloseConnection | AnswerFetch | AnswerEpochEnd | AnswerLatestOffset | AnswerLogStart
FETCH_BACKOFF_S = 0.1


@attrs.define(eq=False)
class SimulatedReplica:
    """One replica: its decider, its log, and the fetch that it waits for."""

    partition: TopicPartition
    topic_id: bytes
    log: SimulatedLog
    decider: PartitionReplica
    role: PartitionRole = PartitionRole.OFFLINE
    leader_epoch: int = -1
    ticket: int = 0
    """The fetch that is wanted now; 0: none."""

    @property
    def leads(self) -> bool:
        """True if it serves clients."""
        return self.role is PartitionRole.LEADER


class ReplicaHost(Protocol):
    """The broker, for its replicas."""

    node: int
    process: int
    lives: int
    disk: BrokerDisk
    broker_epoch: int

    def reading(self) -> float:
        """Returns the time on this broker's clock."""

    def later(self, seconds: float, action: Callable[..., None], *arguments: object) -> None:
        """Call `action` after some time, if this process still lives."""

    def transmit(self, to: int, message: BrokerMessage) -> None:
        """Send a message to another broker."""

    def command(self, command: Command, done: Callable[[KafkaErrorCode, CommandResult | None], None]) -> None:
        """Have the controller carry out a command."""

    def role_changed(self, replica: SimulatedReplica, news: PartitionRoleChanged) -> None:
        """The role of a replica is another one."""


class ReplicaWatch(Protocol):
    """The observers: invariants and audits."""

    def on_stepped(self, host: Any, replica: SimulatedReplica, event: Event, effects: Sequence[Effect]) -> None:
        """A decider has decided; nothing is carried out yet."""

    def on_appended(
        self, host: Any, replica: SimulatedReplica, order: AppendBatches, batches: Sequence[SimulatedBatch]
    ) -> None:
        """Batches are in a log."""

    def on_shortened(self, host: Any, replica: SimulatedReplica) -> None:
        """A log was truncated, reset or trimmed."""

    def leads(self, host: Any, replica: SimulatedReplica) -> None:
        """A replica begins to lead."""

    def high_watermark_moved(self, host: Any, replica: SimulatedReplica, high_watermark: int) -> None:
        """A replica has another high watermark."""

    def answers(self, host: Any, replica: SimulatedReplica, answer: ReplicaAnswer) -> None:
        """An answer goes on the wire."""


class SimulatedReplicas:
    """All replicas of one process."""

    def __init__(self, host: ReplicaHost, knobs: KafkaKnobs, watch: ReplicaWatch, rng: random.Random) -> None:
        self.hosted: dict[TopicPartition, SimulatedReplica] = {}
        self.slowness = 1.0
        self._host = host
        self._knobs = knobs
        self._watch = watch
        self._rng = rng
        self._events: deque[tuple[SimulatedReplica, Event]] = deque()
        self._stepping = False
        self._answers: dict[int, Callable[[ReplicaAnswer], None]] = {}
        self._last_token = 0
        self._orders: dict[int, FetchFrom] = {}
        self._last_ticket = 0
        self._unflushed: dict[SimulatedReplica, None] = {}
        self._flushing = False
        self.alters = 0

    def token(self, done: Callable[[ReplicaAnswer], None]) -> int:
        """Returns a number for a request; `done` is called with what answers it."""
        self._last_token += 1
        self._answers[self._last_token] = done
        return self._last_token

    # ---------------------------------------------------------------- steps

    def step(self, replica: SimulatedReplica, event: Event) -> None:
        """Give a replica an event, and carry out what it orders; inside of a step, after it."""
        self._events.append((replica, event))
        if self._stepping:
            return
        self._stepping = True
        try:
            while self._events:
                stepped, next_event = self._events.popleft()
                effects = stepped.decider.step(self._host.reading(), next_event)
                self._watch.on_stepped(self._host, stepped, next_event, effects)
                self._execute(stepped, effects)
        finally:
            self._stepping = False

    def _execute(self, replica: SimulatedReplica, effects: Iterable[Effect]) -> None:
        watch, host = self._watch, self._host
        for effect in effects:
            match effect:
                case AppendBatches():
                    self._append(replica, effect)
                case AnswerFetch() | AnswerProduce() | AnswerEpochEnd() | AnswerLatestOffset() | AnswerLogStart():
                    watch.answers(host, replica, effect)
                    self._answers.pop(effect.token)(effect)
                case CloseConnection():
                    watch.answers(host, replica, effect)
                    self._answers.pop(effect.token)(effect)
                case FetchFrom():
                    self._fetch(replica, effect)
                case HighWatermarkMoved():
                    watch.high_watermark_moved(host, replica, effect.high_watermark)
                case TruncateLog():
                    self._truncate(replica, effect)
                case ResetLog():
                    replica.log.reset(effect.start)
                    watch.on_shortened(host, replica)
                case MoveLogStart():
                    replica.log.trim(effect.log_start)
                    watch.on_shortened(host, replica)
                case StopFetching():
                    replica.ticket = 0
                case SendAlterPartition():
                    self._alter(replica, effect)
                case PartitionRoleChanged():
                    replica.role, replica.leader_epoch = effect.role, effect.leader_epoch
                    if replica.leads:
                        watch.leads(host, replica)
                        watch.high_watermark_moved(host, replica, replica.decider.high_watermark)
                    host.role_changed(replica, effect)
                case RefusePeer():
                    pass
                case _:
                    assert_never(effect)

    def _append(self, replica: SimulatedReplica, order: AppendBatches) -> None:
        payload = order.payload
        assert isinstance(payload, tuple), "batches come one in each buffer"
        batches: Sequence[SimulatedBatch] = payload
        if order.leader_epoch >= 0:
            (batch,) = batches
            info = attrs.evolve(batch.info, base_offset=order.base_offset, leader_epoch=order.leader_epoch)
            batches = [SimulatedBatch(info, batch.value, batch.records)]
        replica.log.append(batches)
        self._watch.on_appended(self._host, replica, order, batches)
        if self._knobs.before_ack:
            self._unflushed[replica] = None
            self._flush()

    def _truncate(self, replica: SimulatedReplica, order: TruncateLog) -> None:
        shorter = order.end < replica.log.end
        end = replica.log.truncate(order.end)
        self._watch.on_shortened(self._host, replica)
        event = Truncated(end, replica.log.producers() if shorter else None)
        if self._knobs.truncation_s:
            self._host.later(self._knobs.truncation_s * self._rng.random(), self.step, replica, event)
        else:
            self.step(replica, event)

    def _alter(self, replica: SimulatedReplica, order: SendAlterPartition) -> None:
        self.alters += 1
        change = IsrChange(
            replica.topic_id,
            replica.partition.partition,
            order.leader_epoch,
            order.partition_epoch,
            tuple([ProposedMember(broker, epoch) for broker, epoch in order.isr]),
            order.recovering,
            order.keeps_eligible,
        )

        def on_done(error: KafkaErrorCode, result: CommandResult | None) -> None:
            answer = AlterPartitionAnswered(order.request, error)
            if isinstance(result, PartitionsAltered):
                if result.partitions:
                    altered = result.partitions[0]
                    state = altered.state if altered.error is KafkaErrorCode.NONE else None
                    answer = AlterPartitionAnswered(order.request, altered.error, state)
                else:
                    answer = AlterPartitionAnswered(order.request, result.error)
            self.step(replica, answer)

        self._host.command(AlterPartition(self._host.node, self._host.broker_epoch, (change,)), on_done)

    # ---------------------------------------------------------------- fetching

    def _fetch(self, replica: SimulatedReplica, order: FetchFrom) -> None:
        self._last_ticket += 1
        replica.ticket = self._last_ticket
        self._orders[replica.ticket] = order
        self._send_fetch(replica, replica.ticket)

    def _send_fetch(self, replica: SimulatedReplica, ticket: int) -> None:
        """Send it, and again for as long as no answer comes."""
        if replica.ticket != ticket:
            return
        order, host = self._orders[ticket], self._host
        fetch = FollowerFetch(
            0,
            host.node,
            host.broker_epoch,
            order.leader_epoch,
            order.fetch_offset,
            order.last_fetched_epoch,
            order.log_start,
            self._knobs.fetch_wait_s,
        )
        host.later(self._knobs.fetch_timeout_s, self._send_fetch, replica, ticket)
        host.transmit(order.leader, ReplicaFetch(host.process, ticket, replica.partition, replica.topic_id, fetch))

    def on_asked(self, sender: int, message: ReplicaFetch) -> None:
        """A follower's fetch arrives."""
        replica = self.hosted.get(message.partition)

        def on_done(answer: ReplicaAnswer) -> None:
            assert isinstance(answer, AnswerFetch), "a fetch is answered as one"
            batches: list[SimulatedBatch] = []
            if replica is not None and answer.start < answer.end:
                batches = replica.log.read(answer.start, answer.end)
            self._host.transmit(
                sender,
                ReplicaFetched(
                    message.process,
                    message.ticket,
                    message.partition,
                    answer.error,
                    answer.high_watermark,
                    answer.log_start,
                    answer.diverging,
                    tuple(batches[: self._rng.randint(1, 4)] if len(batches) > 1 else batches),
                ),
            )

        if replica is None:
            code = KafkaErrorCode.UNKNOWN_TOPIC_ID
            on_done(AnswerFetch(0, code, NO_OFFSET, NO_OFFSET, NO_OFFSET, NO_OFFSET))
        else:
            self.step(replica, attrs.evolve(message.fetch, token=self.token(on_done)))

    def on_fetched(self, message: ReplicaFetched) -> None:
        """An answer arrives.

        One that came too late goes to the replica, too, with the order that it answers: it must ignore it.
        """
        replica, order = self.hosted.get(message.partition), self._orders.get(message.ticket)
        if replica is None or order is None:
            return
        if replica.ticket == message.ticket:
            replica.ticket = 0
        elif self._orders.get(replica.ticket) == order:
            return  # one answer to each order, or repeated fetches would multiply
        self.step(replica, message.event(order.leader_epoch, order.fetch_offset, order.last_fetched_epoch))

    # ---------------------------------------------------------------- time and disk

    @property
    def deadline(self) -> float:
        """The time at which `tick` is due."""
        return min((each.decider.deadline for each in self.hosted.values()), default=float("inf"))

    def tick(self, now: float) -> None:
        """Tell replicas whose time has come that it has."""
        for replica in self.hosted.values():
            if replica.decider.deadline <= now:
                self.step(replica, TimePassed())

    def _flush(self) -> None:
        if self._flushing or not self._unflushed:
            return
        self._flushing = True
        taken, self._unflushed = self._unflushed, {}
        round_ = [(each, each.log.end, each.log.changes) for each in taken]
        seconds = self._knobs.flush_s * self.slowness * (0.3 + self._rng.expovariate(1.0))
        self._host.later(seconds, self._on_flushed, round_)

    def _on_flushed(self, round_: Sequence[tuple[SimulatedReplica, int, int]]) -> None:
        self._flushing = False
        for replica, end, changes in round_:
            if replica.log.changes != changes:
                self._unflushed[replica] = None
            else:
                replica.log.durable_end = max(replica.log.durable_end, end)
                self.step(replica, Flushed(end))
        self._flush()

    def checkpoint(self) -> None:
        """Keep the high watermarks."""
        self._host.disk.high_watermarks = {each.partition: each.decider.high_watermark for each in self.hosted.values()}

    def report(self, partition: TopicPartition, *, doubtful: bool) -> LogReport | None:
        """Returns how far a log reaches, for the controller; None if there is none here, or it may still change and
        need not be reported.
        """
        replica = self.hosted.get(partition)
        if replica is None:
            return None
        log = replica.decider.compared_log
        if log is None:
            if not doubtful:
                return None
            log = ComparedLog(NO_EPOCH, NO_EPOCH, 0)
        return LogReport(
            replica.topic_id, partition.partition, log.leader_epoch, doubtful, log.last_epoch, log.end_offset
        )

    # ---------------------------------------------------------------- metadata

    def update_brokers(self, brokers: Mapping[int, BrokerRegistration]) -> None:
        """The brokers of the cluster have changed."""
        event = BrokersChanged(dict(brokers))
        for replica in tuple(self.hosted.values()):
            self.step(replica, event)

    def update(
        self, states: Mapping[TopicPartition, PartitionState], brokers: Mapping[int, BrokerRegistration]
    ) -> None:
        """The controller has decided about these partitions."""
        for partition, state in states.items():
            if self._host.node not in state.replicas:
                continue
            replica = self.hosted.get(partition) or self._open(partition, state.topic_id, brokers)
            self.step(replica, PartitionStateChanged(state))

    def _open(
        self, partition: TopicPartition, topic_id: bytes, brokers: Mapping[int, BrokerRegistration]
    ) -> SimulatedReplica:
        disk, knobs = self._host.disk, self._knobs
        log = disk.logs.get(partition)
        if log is None:
            log = disk.logs[partition] = SimulatedLog(topic_id)
            if self._host.lives > 1:  # the image has it from an earlier life
                disk.doubts.add(partition)
            if disk.inventory is not None:
                disk.inventory.add(partition)
        config = PartitionConfig(
            min_insync_replicas=knobs.min_isr if partition.topic != OFFSETS_TOPIC else max(knobs.min_isr, 2),
            replica_lag_time_s=knobs.lag_s,
            flush="before-ack" if knobs.before_ack else "page-cache",
            fetch_backoff_s=FETCH_BACKOFF_S,
            eligible_leaders=knobs.eligible,
        )
        recovered = log.recover(disk.high_watermarks.get(partition, 0))
        decider = PartitionReplica(self._host.node, partition, config, recovered, self._host.reading())
        replica = self.hosted[partition] = SimulatedReplica(partition, topic_id, log, decider)
        if knobs.before_ack and log.durable_end < log.end:
            self._unflushed[replica] = None
            self._flush()
        self.step(replica, BrokersChanged(dict(brokers)))
        return replica
