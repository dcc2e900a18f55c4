"""One broker of a simulated cluster: its life, its image of the metadata, its link to the controller, and the
controller that it may be.
"""

from collections.abc import Callable
from typing import Protocol

import attrs

from jepsen_like.simulation.kafka.disk import BrokerDisk, SimulatedBatch
from jepsen_like.simulation.kafka.groups import SimulatedCoordinators
from jepsen_like.simulation.kafka.messages import (
    AliveAnswered,
    AliveTold,
    BrokerMessage,
    CommandAnswered,
    CommandAsked,
    CommittedTold,
    ConnectionEnded,
    ReplicaFetch,
    ReplicaFetched,
)
from jepsen_like.simulation.kafka.quorum import ControlQuorum, Settled
from jepsen_like.simulation.kafka.replicas import ReplicaAnswer, ReplicaWatch, SimulatedReplica, SimulatedReplicas
from jepsen_like.simulation.kafka.swarm import KafkaKnobs
from jepsen_like.simulation.kernel.findings import NODE_ERRORS
from jepsen_like.simulation.kernel.process import SimulatedProcess
from jepsen_like.simulation.kernel.streams import stream
from kafka_compat.controller.commands import (
    Acknowledged,
    Command,
    CommandResult,
    RegisterBroker,
    Registered,
    ReportLogs,
    decode_result,
    encode_command,
)
from kafka_compat.controller.image import ImageDelta
from kafka_compat.controller.liveness import (
    AnswerHeartbeat,
    BrokerHeartbeat,
    ControllerElected,
    ControllerLiveness,
    ControllerResigned,
    HeartbeatConnectionClosed,
    LivenessDue,
    LivenessEvent,
    LivenessSettings,
)
from kafka_compat.controller.machine import MetadataMachine
from kafka_compat.model import NO_EPOCH, OFFSETS_TOPIC, TopicPartition
from kafka_compat.partition.effects import AnswerFetch, AnswerProduce, PartitionRoleChanged
from kafka_compat.partition.events import ConsumerFetch, LogStartDue, Produce
from kafka_compat.partition.model import NO_OFFSET, PartitionError
from kafka_compat.protocol.error_codes import KafkaErrorCode

RETRY_S = 0.05
FENCED_HEARTBEAT_S = 0.05
HEARTBEATS_PER_SESSION = 5
OWN_CONNECTION = 0
RESETS_MAX = 1000
"""Connections of one process to one other are numbered below this."""
Done = Callable[[KafkaErrorCode, CommandResult | None], None]


class BrokerWorld(ReplicaWatch, Protocol):
    """The world as a broker sees it."""

    now: float

    def schedule(self, at: float, action: Callable[..., None], *arguments: object) -> None:
        """Call `action(*arguments)` at time `at`."""

    def send(self, sender: int, to: int, message: BrokerMessage) -> None:
        """Put a message on the wire."""

    def acknowledges(
        self, broker: "SimulatedBroker", replica: SimulatedReplica, base_offset: int, batch: SimulatedBatch
    ) -> None:
        """A client is told that its batch is on all members of the ISR."""

    def reads(
        self, broker: "SimulatedBroker", replica: SimulatedReplica, answer: AnswerFetch, batches: list[SimulatedBatch]
    ) -> None:
        """A consumer is given these batches."""

    def on_stopped(self, broker: "SimulatedBroker") -> None:
        """A broker has shut down in good order; it is to start again."""

    def on_replaced(self, broker: "SimulatedBroker") -> None:
        """Another process is registered in its place: it stops, and is started again."""

    def on_crashed(self, broker: "SimulatedBroker", error: Exception) -> None:
        """A broker died of its own assertions, or of a bug."""


@attrs.define(eq=False)
class _Waiting:
    command: bytes
    done: Done
    deadline: float
    ended: bool = False

    def end(self, error: KafkaErrorCode, result: CommandResult | None) -> None:
        """Tell who waits, once."""
        if not self.ended:
            self.ended = True
            self.done(error, result)


class SimulatedBroker(SimulatedProcess):
    """One broker of the cluster."""

    ERRORS = (*NODE_ERRORS, PartitionError)

    def __init__(
        self, world: BrokerWorld, knobs: KafkaKnobs, node: int, nodes: list[int], quorum: ControlQuorum
    ) -> None:
        super().__init__(world, node)
        self.disk = BrokerDisk()
        self.fenced_seen = 0
        self.alters = 0
        self.loads = 0
        self.reports = 0
        self._world = world
        self._knobs = knobs
        self._peers = [each for each in nodes if each != node]
        self._quorum = quorum
        self._rng = stream(knobs.seed, f"broker/{node}")
        self._clear()

    def _clear(self) -> None:
        """Everything that a process has in its memory."""
        knobs = self._knobs
        self.machine = MetadataMachine()
        self.image = self.machine.image
        self.broker_epoch = NO_EPOCH
        self.hosting = False
        self.term = 0
        self.commit = 0
        self.leader: int | None = None
        self.replicas = SimulatedReplicas(self, knobs, self._world, self._rng)
        self.replicas.slowness = self.slowness
        self.coordinators = SimulatedCoordinators(self, knobs)
        self.liveness = ControllerLiveness(
            self.image,
            LivenessSettings(
                session_timeout=knobs.session_s,
                retry_interval=knobs.session_s / 2,
                fence_on_close=knobs.fence_on_close,
                balance_interval=knobs.balance_s or None,
                eligible=knobs.eligible,
            ),
        )
        self.controls = False
        self._results: dict[int, bytes] = {}
        self._waiting: dict[int, _Waiting] = {}
        self._last_ticket = 0
        self._wants_shutdown = False
        self._reporting = False
        self._heartbeat_answers: dict[int, int] = {}
        self._producer_ids: list[int] = []

    # ---------------------------------------------------------------- life and death

    @property
    def incarnation(self) -> bytes:
        """The 16 bytes of this process."""
        return self.process.to_bytes(16, "big")

    def start(self, snapshot: bool, *, registered: bool = False) -> None:
        """A process begins, with what is on the disk; `registered` if the controller knows it already, as at the very
        beginning.
        """
        self.disk.begin(before_ack=self._knobs.before_ack)
        self.begin_life()
        self._clear()
        if snapshot and self.disk.metadata is not None:
            index, content = self.disk.metadata
            self.machine.restore(content)
            self.commit = index
        if not registered:
            self.later(0.0, self._register)
        self.later(self._heartbeat_s * self._rng.random(), self._heartbeat)
        self.later(self._knobs.checkpoint_s, self._checkpoint)
        if self._knobs.writeback_s and not self._knobs.before_ack:
            self.later(self._knobs.writeback_s, self._write_back)

    def stop(self) -> None:
        """The process is gone, whatever it was doing."""
        self.alters += self.replicas.alters
        self.loads += self.coordinators.loads
        self.end_life()
        self._quorum.on_stopped(self.node)

    def shut_down(self) -> None:
        """Ask the controller for leave."""
        self._wants_shutdown = True

    def _end_in_order(self) -> None:
        self._checkpoint_now()
        self.disk.flush()
        self.disk.running = None
        self._world.on_stopped(self)

    def wall_ms(self) -> int:
        """See `CoordinatorHost`."""
        return int(self._world.now * 1000) + 1_600_000_000_000

    @property
    def deadline(self) -> float:
        """See `SimulatedProcess`."""
        return min(self.replicas.deadline, self.coordinators.deadline, self.liveness.deadline or float("inf"))

    def serve_deadline(self) -> None:
        """See `SimulatedProcess`."""
        now = self.reading()
        self.replicas.tick(now)
        due = self.liveness.deadline
        if due is not None and due <= now:
            self._live(LivenessDue())

    def end_round(self) -> None:
        """Follow what the metadata say now, and let the coordinators work."""
        now = self.reading()
        for delta in self.machine.drain_changes():
            self._on_changed(delta)
            if not self.up:
                return
        self.coordinators.pump(now)
        while self.coordinators.is_loading:
            self.coordinators.pump(now)

    def crash(self, error: Exception) -> None:
        """See `SimulatedProcess`."""
        self._world.on_crashed(self, error)

    def _checkpoint(self) -> None:
        self._checkpoint_now()
        self.later(self._knobs.checkpoint_s, self._checkpoint)

    def _checkpoint_now(self) -> None:
        if self.hosting:
            self.replicas.checkpoint()
            self.disk.metadata = self.image.index, self.machine.snapshot()

    def _write_back(self) -> None:
        self.disk.flush()
        self.later(self._knobs.writeback_s, self._write_back)

    # ---------------------------------------------------------------- messages

    def transmit(self, to: int, message: BrokerMessage) -> None:
        """See `ReplicaHost`."""
        self._world.send(self.node, to, message)

    def receive(self, sender: int, message: BrokerMessage, connection: int) -> None:
        """A message arrives, by the connection of this number from its sender."""
        match message:
            case ReplicaFetch():
                self.replicas.on_asked(sender, message)
            case ReplicaFetched() if message.process == self.process:
                self.replicas.on_fetched(message)
            case CommandAsked():
                self._command_asked(sender, message)
            case CommandAnswered() if message.process == self.process:
                self._on_answered(message.ticket, message.error, message.result)
            case AliveTold():
                self._alive(sender, message, message.process * RESETS_MAX + connection)
            case AliveAnswered() if message.process == self.process:
                self._alive_answered(message)
            case ConnectionEnded():
                self.connection_ended(message.process, connection)
            case CommittedTold():
                self.learn(message.term, message.leader, message.commit)
            case _:
                pass  # for a process that is gone

    def connection_ended(self, process: int, connection: int) -> None:
        """A connection of another broker has ended."""
        self._live(HeartbeatConnectionClosed(process * RESETS_MAX + connection))

    # ---------------------------------------------------------------- the raft group

    def learn(self, term: int, leader: int, commit: int) -> None:
        """See `QuorumMember`."""
        elected = False
        if term > self.term:
            self.term, self.leader = term, leader
            if self.controls:
                self.controls = False
                self._live(ControllerResigned())
            elected = leader == self.node
            self._quorum.on_learned(self)
        self.commit = max(self.commit, commit)
        self._apply(lags=leader != self.node)
        if elected:
            self.controls = True
            self._live(ControllerElected())
        self._arm()

    def _apply(self, *, lags: bool) -> None:
        target, applied = self.commit, self.image.index
        if lags and target > applied and self._rng.random() < self._knobs.apply_lag:
            target = self._rng.randint(applied, target)
            self.later(self._rng.choice((0.01, 0.1, 0.4)), self._catch_up)
        log = self._quorum.log
        for index in range(applied + 1, target + 1):
            self._results[index] = self.machine.apply(index, log[index - 1])

    def _catch_up(self) -> None:
        self._apply(lags=False)

    def result_of(self, index: int) -> CommandResult | None:
        """See `QuorumMember`."""
        content = self._results.get(index)
        return None if content is None else decode_result(content)

    def settle(self, process: int, settled: Settled, error: KafkaErrorCode, result: CommandResult | None) -> None:
        """See `QuorumMember`."""
        self.reach(process, settled, (error, result))

    def _live(self, event: LivenessEvent) -> None:
        for effect in self.liveness.step(self.reading(), event):
            if isinstance(effect, AnswerHeartbeat):
                self._answer_alive(effect)
            else:
                self._quorum.propose(self.node, self.process, encode_command(effect.command), _ignore)

    # ---------------------------------------------------------------- commands

    def command(self, command: Command, done: Done) -> None:
        """See `ReplicaHost`."""
        self._last_ticket += 1
        timeout_s = self._knobs.command_timeout_s
        self._waiting[self._last_ticket] = _Waiting(encode_command(command), done, self._world.now + timeout_s)
        self.later(timeout_s, self._on_answered, self._last_ticket, KafkaErrorCode.REQUEST_TIMED_OUT, None)
        self._try_command(self._last_ticket)

    def _try_command(self, ticket: int) -> None:
        waiting = self._waiting.get(ticket)
        if waiting is None:
            return
        if self.leader is None:
            self.later(RETRY_S, self._try_command, ticket)
        elif self.leader == self.node:
            self._quorum.propose(
                self.node, self.process, waiting.command, lambda error, result: self._on_answered(ticket, error, result)
            )
        else:
            self.transmit(self.leader, CommandAsked(self.process, ticket, waiting.command))

    def _on_answered(self, ticket: int, error: KafkaErrorCode, result: CommandResult | None) -> None:
        if error is KafkaErrorCode.NOT_CONTROLLER and ticket in self._waiting:
            self.later(RETRY_S, self._try_command, ticket)
        elif (waiting := self._waiting.pop(ticket, None)) is not None:
            waiting.end(error, result)

    def _command_asked(self, sender: int, message: CommandAsked) -> None:
        def on_settled(error: KafkaErrorCode, result: CommandResult | None) -> None:
            self.transmit(sender, CommandAnswered(message.process, message.ticket, error, result))

        if self.leader == self.node:
            self._quorum.propose(self.node, self.process, message.command, on_settled)
        else:
            on_settled(KafkaErrorCode.NOT_CONTROLLER, None)

    def _register(self) -> None:
        def on_done(error: KafkaErrorCode, result: CommandResult | None) -> None:
            if not (isinstance(result, Registered) and result.error is KafkaErrorCode.NONE):
                self.later(RETRY_S, self._register)

        self.command(
            RegisterBroker(self.node, self.incarnation, f"b{self.node}", 9092, eligible=self._knobs.eligible), on_done
        )

    def _report_logs(self) -> None:
        """Report the logs that are in doubt, before this broker is unfenced, and those that an election by comparison
        waits for.
        """
        if self._reporting or not self.hosting or not self._knobs.eligible:
            return
        reports = [
            report
            for partition in sorted(self.disk.doubts.union(self.image.log_ends_wanted(self.node)))
            if (report := self.replicas.report(partition, doubtful=partition in self.disk.doubts)) is not None
        ]
        if not reports:
            return
        self._reporting = True
        doubts = frozenset(self.disk.doubts)

        def on_done(error: KafkaErrorCode, result: CommandResult | None) -> None:
            self._reporting = False
            if isinstance(result, Acknowledged) and result.error is KafkaErrorCode.NONE:
                self.disk.doubts -= doubts
                self.reports += len(reports)

        self.command(ReportLogs(self.node, self.broker_epoch, tuple(reports)), on_done)

    # ---------------------------------------------------------------- heartbeats

    @property
    def _heartbeat_s(self) -> float:
        return self._knobs.session_s / HEARTBEATS_PER_SESSION

    def _heartbeat(self) -> None:
        own = self.image.brokers.get(self.node)
        fenced = own is None or own.fenced or own.epoch != self.broker_epoch
        hurries = fenced or self._wants_shutdown
        self.later(min(FENCED_HEARTBEAT_S, self._heartbeat_s) if hurries else self._heartbeat_s, self._heartbeat)
        if self.broker_epoch == NO_EPOCH:
            return
        self._report_logs()
        ready = self.hosting and not (self.disk.doubts and self._knobs.eligible)
        told = AliveTold(self.process, self.broker_epoch, self.image.index if ready else -1, self._wants_shutdown)
        for peer in self._peers:
            self.transmit(peer, told)
        if self.controls:
            self._alive(self.node, told, OWN_CONNECTION)

    def _alive(self, sender: int, told: AliveTold, connection: int) -> None:
        self._last_ticket += 1
        self._heartbeat_answers[self._last_ticket] = sender
        self._asker = told.process
        self._live(
            BrokerHeartbeat(
                self._last_ticket,
                connection,
                sender,
                told.broker_epoch,
                told.applied_index,
                wants_shutdown=told.wants_shutdown,
            )
        )

    def _answer_alive(self, effect: AnswerHeartbeat) -> None:
        sender = self._heartbeat_answers.pop(effect.token)
        if not effect.should_shut_down:
            return  # no other answer makes a broker do anything
        answer = AliveAnswered(self._asker, effect.error, effect.fenced, effect.should_shut_down)
        if sender == self.node:
            self._alive_answered(answer)
        else:
            self.transmit(sender, answer)

    def _alive_answered(self, answer: AliveAnswered) -> None:
        if self._wants_shutdown and answer.should_shut_down:
            self._wants_shutdown = False
            self._end_in_order()

    # ---------------------------------------------------------------- metadata

    def _on_changed(self, delta: ImageDelta) -> None:
        own = self.image.brokers.get(self.node)
        if own is not None and self.hosting and own.incarnation != self.incarnation:
            self._world.on_replaced(
                self
            )  # a late registration of an earlier process: this one stops, as a real one does
        elif not self.hosting:
            if own is not None and own.incarnation == self.incarnation:
                self.broker_epoch = own.epoch
                self._host_all()
        elif delta.everything:
            self._host_all()
        else:
            if delta.brokers:
                self.replicas.update_brokers(self.image.brokers)
            if delta.partitions:
                self.replicas.update(delta.partitions, self.image.brokers)
                self._report_logs()

    def _host_all(self) -> None:
        self.hosting = True
        states = {
            TopicPartition(name, number): state
            for name, topic in self.image.topics.items()
            for number, state in enumerate(topic.partitions)
        }
        self.replicas.update_brokers(self.image.brokers)
        self.replicas.update(states, self.image.brokers)

    def role_changed(self, replica: SimulatedReplica, news: PartitionRoleChanged) -> None:
        """See `ReplicaHost`."""
        if replica.partition.topic == OFFSETS_TOPIC:
            self.coordinators.role_changed(replica, news)

    # ---------------------------------------------------------------- clients

    def produce(
        self,
        partition: TopicPartition,
        acks: int,
        batch: SimulatedBatch,
        timeout_s: float,
        done: Callable[[ReplicaAnswer], None],
    ) -> None:
        """A client's produce request."""
        replica = self.replicas.hosted.get(partition)
        if replica is None:
            done(AnswerProduce(0, KafkaErrorCode.UNKNOWN_TOPIC_OR_PARTITION, NO_OFFSET, NO_OFFSET))
            return
        hosted = replica

        def on_answered(answer: ReplicaAnswer) -> None:
            if acks == -1 and isinstance(answer, AnswerProduce) and answer.error is KafkaErrorCode.NONE:
                self._world.acknowledges(self, hosted, answer.base_offset, batch)
            done(answer)

        token = self.replicas.token(on_answered)
        self.replicas.step(replica, Produce(token, acks, batch.info, timeout_s, (batch,)))

    def fetch(
        self, partition: TopicPartition, offset: int, done: Callable[[ReplicaAnswer, list[SimulatedBatch]], None]
    ) -> None:
        """A consumer's fetch request, with the batches that it gets."""
        replica = self.replicas.hosted.get(partition)
        if replica is None:
            code = KafkaErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            done(AnswerFetch(0, code, NO_OFFSET, NO_OFFSET, NO_OFFSET, NO_OFFSET), [])
            return
        hosted = replica

        def on_answered(answer: ReplicaAnswer) -> None:
            assert isinstance(answer, AnswerFetch), "a fetch is answered as one"
            batches = hosted.log.read(answer.start, answer.end) if answer.start < answer.end else []
            self._world.reads(self, hosted, answer, batches)
            done(answer, batches)

        token = self.replicas.token(on_answered)
        self.replicas.step(replica, ConsumerFetch(token, offset, self._knobs.fetch_wait_s))

    def trim(self, partition: TopicPartition, offset: int, *, by_client: bool) -> None:
        """Retention, or DeleteRecords, cuts a log."""
        replica = self.replicas.hosted.get(partition)
        if replica is not None:
            token = self.replicas.token(lambda _: None) if by_client else None
            self.replicas.step(replica, LogStartDue(offset, token))


def _ignore(error: KafkaErrorCode, result: CommandResult | None) -> None:
    pass
