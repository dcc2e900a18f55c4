"""Hosts the replicas that the metadata assigns to this broker: hands each change of the image to the parts.

It begins once this process has applied its own registration. Another process that registers with the same id ends this
one (`BrokerReplaced`).
"""

from collections.abc import Callable, Mapping, Sequence

from kafka_compat.broker.context import Context
from kafka_compat.broker.coordinators import Coordinators
from kafka_compat.broker.log_reports import LogReports
from kafka_compat.broker.replicas import Replicas
from kafka_compat.broker.reporter import Reporter, Tell
from kafka_compat.controller.commands import ResourceKind, ResourceName
from kafka_compat.controller.image import ImageDelta
from kafka_compat.controller.machine import MetadataMachine
from kafka_compat.model import PartitionState, TopicPartition
from kafka_compat.storage.broker_store import BrokerStore


class BrokerReplaced(Exception):
    """Another process has registered with the id of this broker, which therefore stops."""


class Hosting:
    """The replicas of one process, named by `incarnation`. `take_changes` is to be called once a round."""

    def __init__(
        self,
        context: Context,
        machine: MetadataMachine,
        store: BrokerStore,
        replicas: Replicas,
        coordinators: Coordinators,
        reports: LogReports,
        reporter: Reporter,
        *,
        incarnation: bytes,
        on_serving: Callable[[], None],
        tell: Tell,
    ) -> None:
        """`on_serving` is called when the broker is registered, up to date and not fenced for the first time."""
        self.began = self.is_serving = False
        self._context = context
        self._machine = machine
        self._store = store
        self._replicas = replicas
        self._coordinators = coordinators
        self._reports = reports
        self._reporter = reporter
        self._incarnation = incarnation
        self._on_serving = on_serving
        self._tell = tell

    def take_changes(self) -> Sequence[ImageDelta]:
        """Hand on the changes of the image since the last call. Returns them. Raises `BrokerReplaced`."""
        deltas = self._machine.drain_changes()
        for delta in deltas:
            self._take_change(delta)
        return deltas

    def _take_change(self, delta: ImageDelta) -> None:
        context, image = self._context, self._context.image
        own = image.brokers.get(context.broker_id)
        if own is not None and context.broker_epoch >= 0 and own.incarnation != self._incarnation:
            raise BrokerReplaced(f"another process has registered as broker {context.broker_id}")
        if delta.everything or delta.configs:
            self._reconfigure(delta)
        if not self.began:
            if own is not None and own.incarnation == self._incarnation:
                context.broker_epoch = own.epoch
                self._host_all()
        elif delta.everything:
            self._host_all()
        else:
            if delta.brokers or delta.brokers_removed:
                self._replicas.update_brokers(image.brokers)
            if delta.topics_deleted:
                self._delete(delta)
            if delta.partitions:
                self._update(delta.partitions)
        self._reports.image_changed()
        if own is not None and own.active and self.began and not self.is_serving:
            self.is_serving = True
            self._on_serving()
            self._tell("serving")

    def _host_all(self) -> None:
        """Host exactly the replicas that the image assigns to this broker."""
        is_first, self.began = not self.began, True
        image, own = self._context.image, self._context.broker_id
        states = {
            TopicPartition(name, number): state
            for name, topic in image.topics.items()
            for number, state in enumerate(topic.partitions)
        }
        assigned = {each: state.topic_id for each, state in states.items() if own in state.replicas}
        for partition in [each for each in self._replicas.hosted if each not in assigned]:
            self._replicas.remove(partition)
        if is_first:
            # Before logs that are missing are made, because nothing else shows that they are.
            self._reports.begin({each: states[each] for each in assigned})
        for partition in self._store.strays(assigned):
            if partition not in self._replicas.hosted and not self._store.keeps_strays:
                self._store.delete(partition)
        self._replicas.update_brokers(image.brokers)
        self._update(states)
        self._replicas.make_all()

    def _update(self, states: Mapping[TopicPartition, PartitionState]) -> None:
        self._replicas.update(states)
        for partition, state in states.items():
            hosted = self._replicas.hosted.get(partition)
            if hosted is not None:
                self._reporter.state(hosted, state)

    def _delete(self, delta: ImageDelta) -> None:
        for topic in delta.topics_deleted:
            for number in range(len(topic.partitions)):
                partition = TopicPartition(topic.name, number)
                hosted = self._replicas.hosted.get(partition)
                if hosted is not None and hosted.topic_id == topic.topic_id:
                    self._replicas.remove(partition)
        self._coordinators.topics_deleted(tuple(topic.name for topic in delta.topics_deleted))

    def _reconfigure(self, delta: ImageDelta) -> None:
        context, image = self._context, self._context.image
        of_brokers = delta.everything or any(each.kind is ResourceKind.BROKER for each in delta.configs)
        if of_brokers:
            context.settings = context.settings.with_altered(
                cluster=dict(image.configs_of(ResourceName(ResourceKind.BROKER, ""))),
                broker=dict(image.configs_of(ResourceName(ResourceKind.BROKER, str(context.broker_id)))),
            )
            self._replicas.reconfigure(None)
        else:
            for change in delta.configs:
                self._replicas.reconfigure(change.name)
