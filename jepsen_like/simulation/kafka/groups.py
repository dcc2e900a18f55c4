"""The group coordinators of one simulated broker, as `kafka_compat.broker.coordinators` drives the real deciders."""

from collections.abc import Callable
from typing import Protocol

import attrs

from jepsen_like.simulation.kafka.disk import SimulatedBatch
from jepsen_like.simulation.kafka.replicas import ReplicaAnswer, SimulatedReplica, SimulatedReplicas
from jepsen_like.simulation.kafka.swarm import KafkaKnobs
from kafka_compat.coordinator.config import CoordinatorConfig
from kafka_compat.coordinator.core import GroupCoordinator
from kafka_compat.coordinator.effects import AppendRecords, GroupAnswer, GroupResponse
from kafka_compat.coordinator.events import (
    CoordinatorEvent,
    GroupRequestArrived,
    GroupTimePassed,
    LoadFinished,
    RecordsLoaded,
    Resigned,
    WriteFailed,
    Written,
)
from kafka_compat.partition.effects import AnswerProduce, PartitionRoleChanged
from kafka_compat.partition.events import Produce
from kafka_compat.partition.model import NO_OFFSET, BatchInfo
from kafka_compat.protocol.error_codes import KafkaErrorCode

WRITE_TIMEOUT_S = 1.0
RECORD_BYTES = 100
LOAD_BATCHES = 20
"""The number of batches that one round loads."""
UNKNOWN_WRITES = (KafkaErrorCode.REQUEST_TIMED_OUT, KafkaErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND)


@attrs.define(eq=False)
class SimulatedCoordinator:
    """One coordinator with the replica that it writes to; loaded up to where the log ended when the leadership
    began.
    """

    replica: SimulatedReplica
    leader_epoch: int
    load_end: int
    decider: GroupCoordinator
    loaded_to: int
    loaded: bool = False


class CoordinatorHost(Protocol):
    """The broker, for its coordinators."""

    replicas: SimulatedReplicas

    def reading(self) -> float:
        """Returns the time on this broker's clock."""

    def wall_ms(self) -> int:
        """The wall clock, in milliseconds."""


class SimulatedCoordinators:
    """All of one process. `pump` is to be called after every event."""

    def __init__(self, host: CoordinatorHost, knobs: KafkaKnobs) -> None:
        self._host = host
        self._config = CoordinatorConfig(
            group_min_session_timeout_ms=10,
            group_initial_rebalance_delay_ms=100,
            offsets_retention_check_interval_ms=3_600_000,
        )
        self.coordinators: dict[int, SimulatedCoordinator] = {}
        self._answers: dict[int, Callable[[GroupResponse], None]] = {}
        self._last_token = 0
        self.loads = 0

    def role_changed(self, replica: SimulatedReplica, news: PartitionRoleChanged) -> None:
        """A replica of the offsets topic has another role."""
        number = replica.partition.partition
        before = self.coordinators.get(number)
        if before is not None and not (replica.leads and before.leader_epoch == news.leader_epoch):
            del self.coordinators[number]
            self._step(before, Resigned())
        if replica.leads and number not in self.coordinators:
            start = replica.log.start
            self.coordinators[number] = SimulatedCoordinator(
                replica, news.leader_epoch, max(news.log_end, start), GroupCoordinator(self._config), start
            )

    def pump(self, now: float) -> None:
        """Load a part of what is to be loaded, and tell coordinators whose time has come."""
        for coordinator in tuple(self.coordinators.values()):
            if not coordinator.loaded:
                self._load(coordinator)
            if coordinator.decider.deadline <= now:
                self._step(coordinator, GroupTimePassed(self._host.wall_ms()))

    @property
    def deadline(self) -> float:
        """The time at which `pump` is due."""
        if not self.coordinators:
            return float("inf")
        return min(each.decider.deadline for each in self.coordinators.values())

    @property
    def is_loading(self) -> bool:
        """True if `pump` has more to read at once."""
        return any(not each.loaded and each.loaded_to < each.load_end for each in self.coordinators.values())

    def _load(self, coordinator: SimulatedCoordinator) -> None:
        log, end = coordinator.replica.log, coordinator.load_end
        if coordinator.loaded_to < end:
            batches = log.read(coordinator.loaded_to, end)[:LOAD_BATCHES]
            self._step(coordinator, RecordsLoaded(tuple(record for batch in batches for record in batch.records)))
            coordinator.loaded_to = batches[-1].info.end_offset if batches else end
        if coordinator.loaded_to >= end and coordinator.replica.decider.high_watermark >= end:
            coordinator.loaded = True
            self.loads += 1
            self._step(coordinator, LoadFinished(self._host.wall_ms()))

    def request(
        self, partition: int, arrived: Callable[[int], GroupRequestArrived], done: Callable[[GroupResponse], None]
    ) -> bool:
        """Give a request to the coordinator of this partition. Returns false if it is not here."""
        coordinator = self.coordinators.get(partition)
        if coordinator is None:
            return False
        self._last_token += 1
        self._answers[self._last_token] = done
        self._step(coordinator, arrived(self._last_token))
        return True

    def _step(self, coordinator: SimulatedCoordinator, event: CoordinatorEvent) -> None:
        for effect in coordinator.decider.step(self._host.reading(), event):
            match effect:
                case GroupAnswer():
                    self._answers.pop(effect.token)(effect.response)
                case AppendRecords():
                    self._append(coordinator, effect)

    def _append(self, coordinator: SimulatedCoordinator, order: AppendRecords) -> None:
        def on_done(answer: ReplicaAnswer) -> None:
            assert isinstance(answer, AnswerProduce), "with acks=all there is an answer"
            if self.coordinators.get(coordinator.replica.partition.partition) is not coordinator:
                return
            if answer.error is KafkaErrorCode.NONE:
                self._step(coordinator, Written(order.write_id))
            else:
                error = answer.error
                if answer.base_offset != NO_OFFSET and error not in UNKNOWN_WRITES:
                    error = KafkaErrorCode.REQUEST_TIMED_OUT
                self._step(coordinator, WriteFailed(order.write_id, error))

        info = BatchInfo(len(order.records), RECORD_BYTES * len(order.records))
        batch = SimulatedBatch(info, "group", order.records)
        replicas = self._host.replicas
        replicas.step(coordinator.replica, Produce(replicas.token(on_done), -1, info, WRITE_TIMEOUT_S, (batch,)))
