"""The group coordinators of this broker: one for each partition of the offsets topic that it leads, for one leadership.

A coordinator loads the log of its partition up to the log end at which the leadership began, once that end is
committed, so that it serves only state that cannot be lost. It appends its records to the same log like a producer's
batch with acks=all.
"""

from collections.abc import Callable

import attrs

from kafka_compat.broker.context import Context
from kafka_compat.broker.replicas import Answer, LocalReplica, Replicas
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
    TopicsRemoved,
    WriteFailed,
    Written,
)
from kafka_compat.model import OFFSETS_TOPIC
from kafka_compat.partition.effects import AnswerProduce, PartitionRoleChanged
from kafka_compat.partition.events import Produce
from kafka_compat.partition.model import NO_OFFSET, BatchInfo
from kafka_compat.protocol.batch_header import read_batch_header
from kafka_compat.protocol.error_codes import KafkaErrorCode
from kafka_compat.records import encode_records, read_records

LOAD_BYTES = 256 * 1024
"""The bytes of log that one round loads, so that other work continues meanwhile."""
ALL_ACKS = -1


@attrs.define(eq=False)
class HostedCoordinator:
    """One coordinator with the replica that it writes to."""

    hosted: LocalReplica
    leader_epoch: int
    load_end: int
    """The log end at which the leadership began."""
    decider: GroupCoordinator
    loaded_to: int = 0
    loaded: bool = False


class Coordinators:
    """All of this broker. `pump` is to be called once a round."""

    def __init__(self, context: Context, replicas: Callable[[], Replicas]) -> None:
        settings = context.settings
        self._context = context
        self._replicas = replicas
        self._config = CoordinatorConfig(
            group_min_session_timeout_ms=settings.number("group.min.session.timeout.ms"),
            group_max_session_timeout_ms=settings.number("group.max.session.timeout.ms"),
            group_initial_rebalance_delay_ms=settings.number("group.initial.rebalance.delay.ms"),
            group_max_size=settings.number("group.max.size"),
            offset_metadata_max_bytes=settings.number("offset.metadata.max.bytes"),
            offsets_retention_ms=settings.number("offsets.retention.minutes") * 60_000,
            offsets_retention_check_interval_ms=settings.number("offsets.retention.check.interval.ms"),
        )
        self._timeout_s = settings.seconds("offsets.commit.timeout.ms")
        self._coordinators: dict[int, HostedCoordinator] = {}
        self._loading: dict[int, HostedCoordinator] = {}
        self._answers: dict[int, Callable[[GroupResponse], None]] = {}
        self._last_token = 0
        self.loads = 0
        """The logs that were loaded to their ends."""

    @property
    def led(self) -> tuple[int, ...]:
        """The partitions of the offsets topic that this broker leads."""
        return tuple(self._coordinators)

    def leads(self, partition: int) -> bool:
        """Returns True if this broker has a coordinator for the partition, loaded or not."""
        return partition in self._coordinators

    # ---------------------------------------------------------------- leaderships

    def role_changed(self, hosted: LocalReplica, news: PartitionRoleChanged) -> None:
        """Take the new role of a replica of the offsets topic."""
        number = hosted.partition.partition
        before = self._coordinators.get(number)
        if before is not None and not (hosted.leads and before.leader_epoch == news.leader_epoch):
            del self._coordinators[number]
            self._loading.pop(number, None)
            self._step(before, Resigned())
        if hosted.leads and number not in self._coordinators:
            coordinator = HostedCoordinator(
                hosted,
                news.leader_epoch,
                max(news.log_end, hosted.log.start_offset),
                GroupCoordinator(self._config),
                hosted.log.start_offset,
            )
            self._coordinators[number] = self._loading[number] = coordinator

    def topics_deleted(self, topics: tuple[str, ...]) -> None:
        """Drop the committed offsets of deleted topics."""
        for coordinator in tuple(self._coordinators.values()):
            self._step(coordinator, TopicsRemoved(topics))

    @property
    def is_loading(self) -> bool:
        """True if `pump` has more to do at once."""
        return bool(self._loading) and any(each.loaded_to < each.load_end for each in self._loading.values())

    def pump(self, now: float) -> None:
        """Load the next part of each loading log, and step the coordinators whose deadline has come."""
        if not self._coordinators:
            return
        for number, coordinator in list(self._loading.items()) if self._loading else ():
            self._load(coordinator)
            if coordinator.loaded:
                del self._loading[number]
        for coordinator in [each for each in self._coordinators.values() if each.decider.deadline <= now]:
            self._step(coordinator, GroupTimePassed(self._context.wall_ms()))

    @property
    def deadline(self) -> float:
        """The time at which `pump` is due."""
        if not self._coordinators:
            return float("inf")
        return min([each.decider.deadline for each in self._coordinators.values()])

    def _load(self, coordinator: HostedCoordinator) -> None:
        log, end = coordinator.hosted.log, coordinator.load_end
        if coordinator.loaded_to < end:
            batches = log.read(max(coordinator.loaded_to, log.start_offset), LOAD_BYTES, end)
            records = tuple(
                (record.key, record.value)
                for batch in batches
                for record in read_records(batch)
                if record.key is not None
            )
            self._step(coordinator, RecordsLoaded(records))
            coordinator.loaded_to = read_batch_header(batches[-1]).end_offset if batches else end
        if coordinator.loaded_to >= end and coordinator.hosted.high_watermark >= end:
            coordinator.loaded = True
            self.loads += 1
            self._step(coordinator, LoadFinished(self._context.wall_ms()))

    # ---------------------------------------------------------------- requests

    def request(
        self, partition: int, arrived: Callable[[int], GroupRequestArrived], done: Callable[[GroupResponse], None]
    ) -> bool:
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

    def _step(self, coordinator: HostedCoordinator, event: CoordinatorEvent) -> None:
        for effect in coordinator.decider.step(self._context.clock(), event):
            if isinstance(effect, GroupAnswer):
                self._answers.pop(effect.token)(effect.response)
            else:
                self._append(coordinator, effect)

    def _append(self, coordinator: HostedCoordinator, order: AppendRecords) -> None:
        batch = encode_records(order.records, self._context.wall_ms())

        def on_appended(answer: Answer) -> None:
            assert isinstance(answer, AnswerProduce), "with acks=all there is an answer"
            if self._coordinators.get(coordinator.hosted.partition.partition) is not coordinator:
                return
            if answer.error is KafkaErrorCode.NONE:
                self._step(coordinator, Written(order.write_id))
            else:
                self._step(coordinator, WriteFailed(order.write_id, _error_of(answer)))

        replicas = self._replicas()
        info = BatchInfo(len(order.records), len(batch))
        replicas.step(
            coordinator.hosted, Produce(replicas.token(on_appended), ALL_ACKS, info, self._timeout_s, (batch,))
        )


def is_offsets_partition(hosted: LocalReplica) -> bool:
    """Returns True if this partition holds groups."""
    return hosted.partition.topic == OFFSETS_TOPIC


def _error_of(answer: AnswerProduce) -> KafkaErrorCode:
    """Returns the error of an append. If the batch may still be committed, it is one of the two errors for that."""
    unknown = (KafkaErrorCode.REQUEST_TIMED_OUT, KafkaErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND)
    if answer.base_offset != NO_OFFSET and answer.error not in unknown:
        return KafkaErrorCode.REQUEST_TIMED_OUT
    return answer.error
