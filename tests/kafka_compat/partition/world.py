"""A small world for replicas: brokers with disks that can lose their page cache, a controller, and links that can be
cut.

It moves on command alone: messages wait on their links, and time stands still. The controller is number 0; it decides
at once, and its decisions reach the brokers as messages.
"""

import math
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any

import attrs

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
    ConsumerFetch,
    Event,
    FetchAnswered,
    FetchWaitOver,
    Flushed,
    FollowerFetch,
    PartitionStateChanged,
    Produce,
    TimePassed,
    Truncated,
)
from kafka_compat.partition.model import BatchInfo, EpochBegin, PartitionConfig, RecoveredReplica
from kafka_compat.partition.producer_state import replay
from kafka_compat.protocol.error_codes import KafkaErrorCode

CONTROLLER = 0
FETCH_WAIT_S = 0.5
BATCH_BYTES = 100
NAME = TopicPartition("t", 0)


@attrs.frozen
class Stored:
    """A batch on a disk. `text` is what its records are."""

    info: BatchInfo
    text: str

    @property
    def end(self) -> int:
        return self.info.end_offset


@attrs.frozen
class Fetch:
    """A follower's request, or (`answer` given) what came back; `batches` were read when it was answered."""

    order: FetchFrom
    replica: int
    broker_epoch: int
    answer: AnswerFetch | None = None
    batches: tuple[Stored, ...] = ()


@attrs.frozen
class Image:
    """The metadata that a broker learns."""

    state: PartitionState
    brokers: dict[int, BrokerRegistration]


Message = Fetch | Image | SendAlterPartition | AlterPartitionAnswered


class Controller:
    """The committed state of one partition and its brokers; the validation order of AlterPartition is Kafka's."""

    def __init__(self, count: int) -> None:
        ids = tuple(range(1, count + 1))
        self.index = 100
        self.brokers = {each: BrokerRegistration(each, 10 + each, bytes(16), "", 1, fenced=False) for each in ids}
        self.state = PartitionState(b"t" * 16, ids, ids, 1, 1, 1)

    def change(self, isr: tuple[int, ...], leader: int, *, recovering: bool | None = None, bump: bool = False) -> None:
        old = self.state
        self.state = attrs.evolve(
            old,
            isr=isr,
            leader=leader,
            leader_epoch=old.leader_epoch + (1 if bump or leader != old.leader else 0),
            partition_epoch=old.partition_epoch + 1,
            recovering=old.recovering if recovering is None else recovering,
        )

    def register(self, broker: int) -> None:
        """A new process: fenced, and out of the ISR unless it is the last one there."""
        self.fence(broker)
        self.index += 1
        self.brokers[broker] = attrs.evolve(self.brokers[broker], epoch=self.index, fenced=True)

    def fence(self, broker: int) -> None:
        self.brokers[broker] = attrs.evolve(self.brokers[broker], fenced=True)
        isr = tuple(each for each in self.state.isr if each != broker) or self.state.isr
        leader = self.state.leader if self.state.leader != broker else self._candidate(isr)
        if (isr, leader) != (self.state.isr, self.state.leader):
            self.change(isr, leader)

    def unfence(self, broker: int) -> None:
        self.brokers[broker] = attrs.evolve(self.brokers[broker], fenced=False)
        if self.state.leader == NO_LEADER and (leader := self._candidate(self.state.isr)) != NO_LEADER:
            self.change(self.state.isr, leader)

    def _candidate(self, isr: tuple[int, ...]) -> int:
        return next((each for each in self.state.replicas if each in isr and self.brokers[each].active), NO_LEADER)

    def alter(self, sender: int, request: SendAlterPartition) -> AlterPartitionAnswered:
        error = self._objection(sender, request)
        if error is KafkaErrorCode.NONE:
            self.change(tuple(member for member, _ in request.isr), sender, recovering=request.recovering)
            return AlterPartitionAnswered(request.request, error, self.state)
        return AlterPartitionAnswered(request.request, error)

    def _objection(self, sender: int, request: SendAlterPartition) -> KafkaErrorCode:
        state, members = self.state, [member for member, _ in request.isr]
        if request.leader_epoch > state.leader_epoch or request.partition_epoch > state.partition_epoch:
            return KafkaErrorCode.NOT_CONTROLLER
        if request.leader_epoch < state.leader_epoch:
            return KafkaErrorCode.FENCED_LEADER_EPOCH
        if sender != state.leader:
            return KafkaErrorCode.INVALID_REQUEST
        if request.partition_epoch < state.partition_epoch:
            return KafkaErrorCode.INVALID_UPDATE_VERSION
        if sender not in members or not set(members) <= set(state.replicas):
            return KafkaErrorCode.INVALID_REQUEST
        if any(not self.brokers[each].active or self.brokers[each].epoch != epoch for each, epoch in request.isr):
            return KafkaErrorCode.INELIGIBLE_REPLICA
        return KafkaErrorCode.NONE


@attrs.define
class Broker:
    """A process (`replica` is None while it is down) and its disk; the part up to `flushed` survives a loss
    of power.
    """

    id: int
    replica: PartitionReplica | None = None
    epoch: int = 0
    log: list[Stored] = attrs.field(factory=list)
    log_start: int = 0
    flushed: int = 0
    high_watermark: int = 0
    fetches: dict[int, Fetch] = attrs.field(factory=dict)
    """The fetches of followers that wait here, by token."""
    order: FetchFrom | None = None
    truncating: Truncated | None = None
    lossy: bool = False
    """Its disk lost something that the replica had, and the controller does not know yet."""

    @property
    def log_end(self) -> int:
        return self.log[-1].end if self.log else self.log_start

    def read(self, start: int, end: int) -> tuple[Stored, ...]:
        return tuple(batch for batch in self.log if start < batch.end <= end)

    def recover(self) -> RecoveredReplica:
        epochs: list[EpochBegin] = []
        for batch in self.log:
            if not epochs or epochs[-1].epoch != batch.info.leader_epoch:
                epochs.append(EpochBegin(batch.info.leader_epoch, batch.info.base_offset))
        producers, transactions = replay((), [batch.info for batch in self.log])
        return RecoveredReplica(
            log_start=self.log_start,
            log_end=self.log_end,
            durable_end=self.flushed,
            high_watermark=self.high_watermark,
            leader_epochs=tuple(epochs),
            producers=producers,
            transactions=transactions,
        )


class World:
    """Brokers 1 to `count`, all in the ISR; 1 leads. `hear` is called for every effect, in order."""

    def __init__(
        self, count: int, config: PartitionConfig, hear: Callable[[int, Effect], None] = lambda *_: None
    ) -> None:
        self.now = 0.0
        self.config = config
        self.hear = hear
        self.controller = Controller(count)
        self.brokers = {each: Broker(each) for each in range(1, count + 1)}
        self.links: dict[tuple[int, int], deque[Message]] = {}
        self.cut: set[tuple[int, int]] = set()
        self.slow_truncation: set[int] = set()
        self.events: deque[tuple[int, Event]] = deque()
        self.token = 0
        self.texts: dict[int, str] = {}
        self.promised: set[str] = set()
        """The texts produced with acks=all."""
        self.acked: list[tuple[int, str]] = []
        """Base offset and text of each acknowledged produce that was promised to survive."""

    def begin(self) -> None:
        """All brokers start, and learn the metadata."""
        for broker in self.brokers.values():
            broker.epoch = self.controller.brokers[broker.id].epoch
            self._boot(broker)
        self.publish()

    # ------------------------------------------------------------ messages

    def post(self, source: int, target: int, message: Message) -> None:
        if (source, target) in self.cut:
            self.lose(source, target, message)
        else:
            self.links.setdefault((source, target), deque()).append(message)

    def publish(self) -> None:
        """The present metadata is on its way to every broker. An image is not lost: it comes late."""
        for target in self.brokers:
            image = Image(self.controller.state, dict(self.controller.brokers))
            self.links.setdefault((CONTROLLER, target), deque()).append(image)

    def lose(self, source: int, target: int, message: Message) -> None:
        """The sender of a request learns that it failed; metadata is delivered again later."""
        match message:
            case Fetch(order=order, replica=replica):
                self.step(
                    replica, FetchAnswered(order.leader_epoch, order.fetch_offset, KafkaErrorCode.NETWORK_EXCEPTION)
                )
            case SendAlterPartition(request=request):
                self.step(source, AlterPartitionAnswered(request, KafkaErrorCode.REQUEST_TIMED_OUT))
            case AlterPartitionAnswered(request=request):
                self.step(target, AlterPartitionAnswered(request, KafkaErrorCode.REQUEST_TIMED_OUT))
            case Image():
                self.links.setdefault((source, target), deque()).append(message)

    def take(self, source: int, target: int) -> Message | None:
        queue = self.links.get((source, target))
        return queue.popleft() if queue else None

    def deliver(self, source: int, target: int) -> bool:
        """The first message of a link arrives. Returns whether there was one that could."""
        if (source, target) in self.cut:
            return False
        message = self.take(source, target)
        if message is None:
            return False
        if target != CONTROLLER and self.brokers[target].replica is None:
            if not isinstance(message, Image):
                self.lose(source, target, message)
            return True
        match message:
            case Fetch(order=order, answer=answer, batches=batches):
                if answer is None:
                    self._serve(target, message)
                else:
                    self._answer(target, order, answer, batches)
            case Image(state=state, brokers=brokers):
                self.step(target, BrokersChanged(brokers))
                self.step(target, PartitionStateChanged(state))
            case SendAlterPartition():
                before = self.controller.state
                self.post(CONTROLLER, source, self.controller.alter(source, message))
                if self.controller.state is not before:
                    self.publish()
            case AlterPartitionAnswered():
                self.step(target, message)
        return True

    def _serve(self, target: int, fetch: Fetch) -> None:
        self.token += 1
        self.brokers[target].fetches[self.token] = fetch
        order = fetch.order
        self.step(
            target,
            FollowerFetch(
                token=self.token,
                replica=fetch.replica,
                broker_epoch=fetch.broker_epoch,
                leader_epoch=order.leader_epoch,
                fetch_offset=order.fetch_offset,
                last_fetched_epoch=order.last_fetched_epoch,
                log_start=order.log_start,
                max_wait_s=FETCH_WAIT_S,
            ),
        )

    def _answer(self, target: int, order: FetchFrom, answer: AnswerFetch, batches: tuple[Stored, ...]) -> None:
        self.step(
            target,
            FetchAnswered(
                leader_epoch=order.leader_epoch,
                fetch_offset=order.fetch_offset,
                error=answer.error,
                high_watermark=answer.high_watermark,
                log_start=answer.log_start,
                diverging=answer.diverging,
                batches=tuple(batch.info for batch in batches),
                payload=batches,
            ),
        )

    # ------------------------------------------------------------ brokers

    def _boot(self, broker: Broker) -> None:
        broker.replica = PartitionReplica(broker.id, NAME, self.config, broker.recover(), self.now)
        broker.fetches, broker.order, broker.truncating = {}, None, None

    def stop(self, broker_id: int, *, power: bool) -> None:
        """Kill the process; with `power` the page cache is lost, too. Messages on their way to or from it fail."""
        broker = self.brokers[broker_id]
        waiting = list(broker.fetches.values())
        broker.replica, broker.fetches, broker.truncating = None, {}, None
        if power:
            end = broker.log_end
            broker.log = [batch for batch in broker.log if batch.end <= broker.flushed]
            broker.lossy = broker.lossy or broker.log_end < end
        broker.flushed = broker.log_end
        lost: list[tuple[int, int, Message]] = []
        for (source, target), queue in self.links.items():
            if broker_id in (source, target):
                lost += [(source, target, each) for each in queue if not isinstance(each, Image)]
                queue.clear()
        for source, target, message in lost:
            if target != broker_id or isinstance(message, Fetch):
                self.lose(source, target, message)
        for fetch in waiting:
            self.lose(fetch.replica, broker_id, fetch)

    def restart(self, broker_id: int) -> None:
        """The process starts, registers, and learns the metadata from its registration on; it is unfenced later."""
        broker = self.brokers[broker_id]
        self.controller.register(broker_id)
        broker.epoch = self.controller.brokers[broker_id].epoch
        broker.lossy = False
        self._boot(broker)
        self.publish()

    def flush(self, broker_id: int) -> None:
        broker = self.brokers[broker_id]
        broker.flushed = broker.log_end
        if broker.replica is not None:
            broker.high_watermark = broker.replica.high_watermark
        self.step(broker_id, Flushed(broker.flushed))

    def produce(
        self, broker_id: int, text: str, acks: int = -1, producer: tuple[int, int, int] | None = None, count: int = 1
    ) -> int:
        """A client appends `count` records at this broker; `producer` is its id, epoch and base sequence."""
        self.token += 1
        token, ids = self.token, producer or (-1, -1, -1)
        self.texts[token] = text
        if acks == -1:
            self.promised.add(text)
        self.step(broker_id, Produce(token, acks, BatchInfo(count, BATCH_BYTES, *ids), 5.0, text))
        return token

    def consume(self, broker_id: int, offset: int, **bounds: Any) -> int:
        self.token += 1
        self.step(broker_id, ConsumerFetch(self.token, offset, FETCH_WAIT_S, **bounds))
        return self.token

    def pass_time(self, seconds: float) -> None:
        """Deadlines are met in their order."""
        end = self.now + seconds
        while True:
            due = min((each.deadline for each in self.live()), default=math.inf)
            if due > end:
                break
            self.now = max(self.now, due)
            for broker_id, broker in self.brokers.items():
                if broker.replica is not None and broker.replica.deadline <= self.now:
                    self.step(broker_id, TimePassed())
        self.now = end

    def live(self) -> Iterator[PartitionReplica]:
        return (each.replica for each in self.brokers.values() if each.replica is not None)

    def move_one(self) -> bool:
        """One message arrives, if there is any."""
        return any(self.deliver(*link) for link in sorted(link for link, queue in self.links.items() if queue))

    def stabilize(self) -> None:
        """Messages arrive until there are no more; time stands still."""
        for _ in range(2000):
            if not self.move_one():
                return
        raise AssertionError("the brokers do not come to rest")

    # ------------------------------------------------------------ effects

    def step(self, broker_id: int, event: Event) -> None:
        """The effects of one event are carried out before the next event, also one that they cause."""
        self.events.append((broker_id, event))
        if len(self.events) > 1:
            return
        while self.events:
            broker_id, event = self.events[0]
            broker = self.brokers[broker_id]
            if broker.replica is not None:
                for effect in broker.replica.step(self.now, event):
                    self.hear(broker_id, effect)
                    self._carry(broker, effect)
                if broker.truncating is not None and broker_id not in self.slow_truncation:
                    self.end_truncation(broker_id)
            self.events.popleft()

    def end_truncation(self, broker_id: int) -> None:
        event, self.brokers[broker_id].truncating = self.brokers[broker_id].truncating, None
        if event is not None:
            self.step(broker_id, event)

    def _carry(self, broker: Broker, effect: Effect) -> None:
        match effect:
            case AppendBatches():
                self._append(broker, effect)
            case TruncateLog(end=end):
                broker.log = [batch for batch in broker.log if batch.end <= end]
                broker.flushed = min(broker.flushed, broker.log_end)
                rebuilt = replay((), [batch.info for batch in broker.log])
                broker.truncating = Truncated(broker.log_end, *rebuilt)
            case ResetLog(start=start):
                broker.log, broker.log_start, broker.flushed = [], start, start
            case MoveLogStart(log_start=log_start):
                broker.log_start = log_start
                broker.log = [batch for batch in broker.log if batch.end > log_start]
            case FetchFrom():
                if broker.order is not None:
                    self._cancel(broker.id, broker.order)
                broker.order = effect
                self.post(broker.id, effect.leader, Fetch(effect, broker.id, broker.epoch))
            case StopFetching():
                if broker.order is not None:
                    self._cancel(broker.id, broker.order)
                broker.order = None
            case SendAlterPartition():
                self.post(broker.id, CONTROLLER, effect)
            case AnswerFetch(token=token):
                fetch = broker.fetches.pop(token, None)
                if fetch is not None:
                    batches = broker.read(effect.start, effect.end) if effect.end > effect.start else ()
                    self.post(broker.id, fetch.replica, attrs.evolve(fetch, answer=effect, batches=batches))
            case AnswerProduce(token=token, error=KafkaErrorCode.NONE, base_offset=base_offset):
                if self.texts.get(token) in self.promised:
                    self.acked.append((base_offset, self.texts[token]))
            case (
                AnswerProduce()
                | AnswerVerification()
                | CloseConnection()
                | AnswerEpochEnd()
                | AnswerLatestOffset()
                | AnswerLogStart()
                | HighWatermarkMoved()
                | PartitionRoleChanged()
                | RefusePeer()
                | TransactionHangs()
            ):
                pass

    def _cancel(self, follower: int, order: FetchFrom) -> None:
        """The wait at the leader is over. What is on the links already arrives as it is: late."""
        leader = self.brokers[order.leader]
        for token in [token for token, fetch in leader.fetches.items() if fetch.order is order]:
            self.step(order.leader, FetchWaitOver(token))
            leader.fetches.pop(token, None)

    def _append(self, broker: Broker, effect: AppendBatches) -> None:
        if isinstance(effect.payload, tuple):
            broker.log += effect.payload
        else:
            (info,) = effect.batches
            placed = attrs.evolve(info, base_offset=effect.base_offset, leader_epoch=effect.leader_epoch)
            broker.log.append(Stored(placed, str(effect.payload)))
