"""The group coordinators of this broker: one for each partition of the offsets topic that it leads."""

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from kafka_compat.broker.context import Context
from kafka_compat.broker.coordinator_host import CoordinatorHost, HostedCoordinator
from kafka_compat.broker.replicas import LocalReplica, Replicas
from kafka_compat.coordinator.config import CoordinatorConfig
from kafka_compat.coordinator.consumer_group import KnownTopic
from kafka_compat.coordinator.core import GroupCoordinator
from kafka_compat.coordinator.effects import GroupAnswer
from kafka_compat.coordinator.events import (
    NO_PRODUCER,
    CoordinatorEvent,
    GroupTimePassed,
    RecordsLoaded,
    TopicsKnown,
    TopicsRemoved,
    TransactionEnded,
)
from kafka_compat.markers import read_marker
from kafka_compat.model import OFFSETS_TOPIC
from kafka_compat.protocol.batch_header import BatchHeader
from kafka_compat.records import read_records


class Coordinators(CoordinatorHost[GroupCoordinator]):
    """All group coordinators of this broker."""

    def __init__(self, context: Context, replicas: Callable[[], Replicas]) -> None:
        settings = context.settings
        super().__init__(context, replicas, settings.seconds("offsets.commit.timeout.ms"))
        self._counts: dict[str, tuple[bytes, int]] = {}
        self._topics: dict[str, KnownTopic] = {}
        self._config = CoordinatorConfig(
            group_min_session_timeout_ms=settings.number("group.min.session.timeout.ms"),
            group_max_session_timeout_ms=settings.number("group.max.session.timeout.ms"),
            group_initial_rebalance_delay_ms=settings.number("group.initial.rebalance.delay.ms"),
            group_max_size=settings.number("group.max.size"),
            group_consumer_session_timeout_ms=settings.number("group.consumer.session.timeout.ms"),
            group_consumer_heartbeat_interval_ms=settings.number("group.consumer.heartbeat.interval.ms"),
            group_consumer_max_size=settings.number("group.consumer.max.size"),
            group_consumer_regex_refresh_interval_ms=settings.number("group.consumer.regex.refresh.interval.ms"),
            offset_metadata_max_bytes=settings.number("offset.metadata.max.bytes"),
            offsets_retention_ms=settings.number("offsets.retention.minutes") * 60_000,
            offsets_retention_check_interval_ms=settings.number("offsets.retention.check.interval.ms"),
        )

    def topics_deleted(self, topics: tuple[str, ...]) -> None:
        """Drop the committed offsets of deleted topics."""
        for coordinator in tuple(self._coordinators.values()):
            self._step(coordinator, TopicsRemoved(topics))

    def topics_known(self, partitions: Iterable[int]) -> None:
        """Give the topics of the cluster to the coordinators of these partitions, if they have changed."""
        image = self._context.image
        counts = {name: (topic.topic_id, len(topic.partitions)) for name, topic in image.topics.items()}
        if counts != self._counts:
            self._counts = counts
            self._topics = {name: KnownTopic(*each) for name, each in counts.items()}
        for partition in partitions:
            coordinator = self._coordinators.get(partition)
            if coordinator is not None and coordinator.decider.topics is not self._topics:
                self._step(coordinator, TopicsKnown(self._topics))

    def transaction_ended(self, partition: int, producer_id: int, *, commits: bool) -> None:
        """A marker in this partition of the offsets topic is committed."""
        coordinator = self._coordinators.get(partition)
        if coordinator is None:
            return
        event = TransactionEnded(producer_id, commits)
        if coordinator.loaded:
            self._step(coordinator, event)
        else:
            coordinator.late.append(event)

    def replica_of(self, partition: int) -> LocalReplica | None:
        """Returns the replica that the coordinator of this partition writes to, or None without a coordinator."""
        coordinator = self._coordinators.get(partition)
        return None if coordinator is None else coordinator.hosted

    # See `CoordinatorHost`

    def _make(self) -> GroupCoordinator:
        return GroupCoordinator(self._config)

    def _read_batch(self, header: BatchHeader, batch: memoryview) -> Iterator[CoordinatorEvent]:
        if header.is_control:
            marker = read_marker(header, batch)
            if marker is not None:
                yield TransactionEnded(marker.producer_id, marker.commits)
            return
        records = tuple((each.key, each.value) for each in read_records(batch) if each.key is not None)
        yield RecordsLoaded(records, header.producer_id if header.is_transactional else NO_PRODUCER)

    def _time_passed(self) -> GroupTimePassed:
        return GroupTimePassed(self._context.wall_ms())

    def _execute(self, coordinator: HostedCoordinator[GroupCoordinator], effect: Any) -> None:
        assert isinstance(effect, GroupAnswer), "what is not appended is an answer"
        self._answers.pop(effect.token)(effect.response)


def is_offsets_partition(hosted: LocalReplica) -> bool:
    """Returns True if this partition holds groups."""
    return hosted.partition.topic == OFFSETS_TOPIC
