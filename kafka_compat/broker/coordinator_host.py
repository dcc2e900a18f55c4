"""The coordinators of one internal topic at this broker: one for each partition that it leads, for one leadership.

A coordinator loads the log of its partition up to the log end at which the leadership began, once that end is
committed, so that it serves only state that cannot be lost. It appends its records to the same log like a producer's
batch with acks=all.
"""

from abc import abstractmethod
from collections.abc import Callable, Iterator
from typing import Any, Generic, Protocol, TypeVar

import attrs

from kafka_compat.broker.context import Context
from kafka_compat.broker.replicas import Answer, LocalReplica, Replicas
from kafka_compat.coordinator.effects import AppendRecords
from kafka_compat.coordinator.events import LoadFinished, Resigned, WriteFailed, Written
from kafka_compat.partition.effects import AnswerProduce, PartitionRoleChanged
from kafka_compat.partition.events import Produce
from kafka_compat.partition.model import NO_OFFSET, BatchInfo, BatchKind
from kafka_compat.protocol.batch_header import BatchHeader
from kafka_compat.protocol.error_codes import KafkaErrorCode
from kafka_compat.records import encode_records

LOAD_BYTES = 256 * 1024
"""The bytes of log that one round loads, so that other work continues meanwhile."""
ALL_ACKS = -1
NO_SEQUENCE = -1


class Decider(Protocol):
    """A coordinator's decider."""

    @property
    def deadline(self) -> float:
        """The time at which its time event is due."""

    def step(self, now: float, event: Any) -> tuple[Any, ...]:
        """Takes one event; returns the effects."""


DeciderT = TypeVar("DeciderT", bound=Decider)
NEVER = float("inf")


@attrs.define(eq=False)
class HostedCoordinator(Generic[DeciderT]):
    """One coordinator with the replica that it writes to."""

    hosted: LocalReplica
    leader_epoch: int
    load_end: int
    """The log end at which the leadership began."""
    decider: DeciderT
    loaded_to: int = 0
    loaded: bool = False
    late: list[Any] = attrs.field(factory=list)
    """Events that came while it loaded, from behind the part of the log that it loads."""


class CoordinatorHost(Generic[DeciderT]):
    """All coordinators of a topic at this broker. `pump` is to be called once a round."""

    def __init__(self, context: Context, replicas: Callable[[], Replicas], timeout_s: float) -> None:
        self._context = context
        self._replicas = replicas
        self._timeout_s = timeout_s
        self._coordinators: dict[int, HostedCoordinator[DeciderT]] = {}
        self._loading: dict[int, HostedCoordinator[DeciderT]] = {}
        self._answers: dict[int, Callable[[Any], None]] = {}
        self._last_token = 0
        self.deadline = NEVER
        """The time at which `pump` is due, or earlier: only steps move the deadlines of coordinators."""
        self.loads = 0
        """The logs that were loaded to their ends."""

    @abstractmethod
    def _make(self) -> DeciderT:
        """Returns a new decider."""

    @abstractmethod
    def _read_batch(self, header: BatchHeader, batch: memoryview) -> Iterator[Any]:
        """Yields the events for one batch that is loaded."""

    @abstractmethod
    def _time_passed(self) -> Any:
        """Returns the event for a deadline that was reached."""

    @abstractmethod
    def _execute(self, coordinator: HostedCoordinator[DeciderT], effect: Any) -> None:
        """Carries out an effect of a decider."""

    @property
    def led(self) -> tuple[int, ...]:
        """The partitions of the topic that this broker leads."""
        return tuple(self._coordinators)

    def leads(self, partition: int) -> bool:
        """Returns True if this broker has a coordinator for the partition, loaded or not."""
        return partition in self._coordinators

    # ---------------------------------------------------------------- leaderships

    def role_changed(self, hosted: LocalReplica, news: PartitionRoleChanged) -> None:
        """Take the new role of a replica of the topic."""
        number = hosted.partition.partition
        before = self._coordinators.get(number)
        if before is not None and not (hosted.leads and before.leader_epoch == news.leader_epoch):
            del self._coordinators[number]
            self._loading.pop(number, None)
            self._step(before, Resigned())
            self._stop_work(before)
        if hosted.leads and number not in self._coordinators:
            coordinator = HostedCoordinator(
                hosted,
                news.leader_epoch,
                max(news.log_end, hosted.log.start_offset),
                self._make(),
                hosted.log.start_offset,
            )
            self._coordinators[number] = self._loading[number] = coordinator
            self.deadline = min(self.deadline, coordinator.decider.deadline)

    def _stop_work(self, coordinator: HostedCoordinator[DeciderT]) -> None:
        """Stop the work for a coordinator that has ended."""

    @property
    def is_loading(self) -> bool:
        """True if `pump` has more to do at once."""
        return bool(self._loading) and any(each.loaded_to < each.load_end for each in self._loading.values())

    def pump(self, now: float) -> None:
        """Load the next part of each loading log, and step the coordinators whose deadline has come."""
        for number, coordinator in list(self._loading.items()) if self._loading else ():
            self._load(coordinator)
            if coordinator.loaded:
                del self._loading[number]
        if self.deadline > now:
            return
        for coordinator in [each for each in self._coordinators.values() if each.decider.deadline <= now]:
            self._step(coordinator, self._time_passed())
        self.deadline = min([each.decider.deadline for each in self._coordinators.values()], default=NEVER)

    def _load(self, coordinator: HostedCoordinator[DeciderT]) -> None:
        log, end = coordinator.hosted.log, coordinator.load_end
        if coordinator.loaded_to < end:
            start = max(coordinator.loaded_to, log.start_offset)
            coordinator.loaded_to = end
            for header, batch in log.walk_some(start, LOAD_BYTES, end):
                for event in self._read_batch(header, batch):
                    self._step(coordinator, event)
                coordinator.loaded_to = header.end_offset
        if coordinator.loaded_to >= end and coordinator.hosted.high_watermark >= end:
            coordinator.loaded = True
            self.loads += 1
            self._step(coordinator, LoadFinished(self._context.wall_ms()))
            for event in coordinator.late:
                self._step(coordinator, event)
            coordinator.late.clear()

    # ---------------------------------------------------------------- requests and writes

    def request(self, partition: int, arrived: Callable[[int], Any], done: Callable[[Any], None]) -> bool:
        """Give a request to the coordinator of this partition; `done` is called once.

        Returns False if this broker has no such coordinator.
        """
        coordinator = self._coordinators.get(partition)
        if coordinator is None:
            return False
        self._last_token += 1
        self._answers[self._last_token] = done
        self._step(coordinator, arrived(self._last_token))
        return True

    def _is_present(self, coordinator: HostedCoordinator[DeciderT]) -> bool:
        return self._coordinators.get(coordinator.hosted.partition.partition) is coordinator

    def _step(self, coordinator: HostedCoordinator[DeciderT], event: Any) -> None:
        for effect in coordinator.decider.step(self._context.clock(), event):
            if isinstance(effect, AppendRecords):
                self._append(coordinator, effect)
            else:
                self._execute(coordinator, effect)
        if coordinator.decider.deadline < self.deadline:
            self.deadline = coordinator.decider.deadline

    def _append(self, coordinator: HostedCoordinator[DeciderT], order: AppendRecords) -> None:
        producer_id, epoch = order.producer
        kind = BatchKind.TRANSACTIONAL if producer_id >= 0 else BatchKind.PLAIN
        batch = encode_records(order.records, self._context.wall_ms(), producer=order.producer)

        def on_appended(answer: Answer) -> None:
            assert isinstance(answer, AnswerProduce), "with acks=all there is an answer"
            if not self._is_present(coordinator):
                return
            if answer.error is KafkaErrorCode.NONE:
                self._step(coordinator, Written(order.write_id))
            else:
                self._step(coordinator, WriteFailed(order.write_id, _error_of(answer)))

        replicas = self._replicas()
        info = BatchInfo(len(order.records), len(batch), producer_id, epoch, NO_SEQUENCE, kind=kind)
        token = replicas.token(on_appended)
        replicas.step(coordinator.hosted, Produce(token, ALL_ACKS, info, self._timeout_s, (batch,), guard=order.guard))


def _error_of(answer: AnswerProduce) -> KafkaErrorCode:
    """Returns the error of an append. If the batch may still be committed, it is one of the two errors for that."""
    unknown = (KafkaErrorCode.REQUEST_TIMED_OUT, KafkaErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND)
    if answer.base_offset != NO_OFFSET and answer.error not in unknown:
        return KafkaErrorCode.REQUEST_TIMED_OUT
    return answer.error
