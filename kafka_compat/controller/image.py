"""The image of the cluster: brokers, topics, partitions and configs. It changes in place and reports its changes.

One `ClusterImage` lives as long as its machine: a restored snapshot fills the same object. Readers on the same thread
may look up anything at any time and must change nothing. Each command with a change leaves one `ImageDelta`, so that
the reaction of a broker costs as much as the change, not as the cluster. Every change also updates the indexes
(partitions by member of the ISR, partitions without leader, leaderships by broker), so that a fence touches only its
own partitions.
"""

from collections.abc import Iterable, Mapping

import attrs
from attrs import define

from kafka_compat.acls import Acl, AclTable
from kafka_compat.controller.commands import ResourceKind, ResourceName
from kafka_compat.model import (
    NO_LEADER,
    BrokerRegistration,
    PartitionState,
    ScramCredential,
    ScramMechanism,
    TopicPartition,
)
from log.values import frozen

_NO_KEYS: Mapping[TopicPartition, None] = {}
"""The order of the keys themselves, found in a third of the time."""


@define
class TopicImage:
    """One topic. The index of a partition is its place in `partitions`."""

    name: str
    topic_id: bytes
    partitions: list[PartitionState]
    configs: dict[str, str]
    """The settings of this topic alone, as strings."""


@frozen
class ImageDelta:
    """The changes of one command, at `index`. A collection without changes is empty."""

    index: int
    everything: bool = False
    """The image was restored, or too many deltas waited: compare all you hold with the image.

    The other fields are empty.
    """
    brokers: tuple[BrokerRegistration, ...] = ()
    """Registrations as they are now."""
    partitions: dict[TopicPartition, PartitionState] = attrs.field(factory=dict)
    """New states, also of partitions in created topics; deleted partitions are under `topics_deleted`."""
    topics_created: tuple[TopicImage, ...] = ()
    """The topics of the image itself, which later commands change; their first states are in `partitions`."""
    topics_deleted: tuple[TopicImage, ...] = ()
    """With their last states."""
    configs: tuple[ResourceName, ...] = ()
    """The resources whose configs must be read again, without the topics that this command created."""
    users: tuple[str, ...] = ()
    """Those whose credentials have changed."""
    acls: bool = False
    """True if ACLs were made or deleted."""
    brokers_removed: tuple[int, ...] = ()
    """Those whose registrations are gone."""

    @property
    def empty(self) -> bool:
        """True if the command made no change that this delta reports."""
        return not (
            self.everything
            or self.brokers
            or self.brokers_removed
            or self.partitions
            or self.topics_created
            or self.topics_deleted
            or self.configs
            or self.users
            or self.acls
        )


@define
class ClusterImage:
    """The cluster after the command at `index`. Read by anyone, changed by its machine only."""

    index: int = 0
    """The index of the last command applied, whether it changed anything or not."""
    brokers: dict[int, BrokerRegistration] = attrs.field(factory=dict)
    topics: dict[str, TopicImage] = attrs.field(factory=dict)
    topics_by_id: dict[bytes, TopicImage] = attrs.field(factory=dict)
    cluster_configs: dict[str, str] = attrs.field(factory=dict)
    """Dynamic defaults of all brokers."""
    broker_configs: dict[int, dict[str, str]] = attrs.field(factory=dict)
    next_producer_id: int = 0
    credentials: dict[str, dict[ScramMechanism, ScramCredential]] = attrs.field(factory=dict)
    """By user; a user without any is not there."""
    acls: AclTable = attrs.field(factory=AclTable)
    """One object for the life of the image."""
    _in_isr: dict[int, dict[TopicPartition, None]] = attrs.field(factory=dict)
    _leaderless: dict[TopicPartition, None] = attrs.field(factory=dict)
    _compared: dict[TopicPartition, None] = attrs.field(factory=dict)
    _not_preferred: dict[TopicPartition, None] = attrs.field(factory=dict)
    _leaderships: dict[int, int] = attrs.field(factory=dict)
    _names: dict[str, dict[str, None]] = attrs.field(factory=dict)
    """Names of topics by their form in metrics, where "." and "_" are one."""

    # ---------------------------------------------------------------- lookups

    def partition(self, key: TopicPartition) -> PartitionState | None:
        """Returns the state of a partition, None if there is none."""
        topic = self.topics.get(key.topic)
        if topic is None or not 0 <= key.partition < len(topic.partitions):
            return None
        return topic.partitions[key.partition]

    def partition_by_id(self, topic_id: bytes, partition: int) -> PartitionState | None:
        """Returns the state of a partition, None if there is none."""
        topic = self.topics_by_id.get(topic_id)
        if topic is None or not 0 <= partition < len(topic.partitions):
            return None
        return topic.partitions[partition]

    def active(self, broker: int) -> bool:
        """Returns True if this broker is registered, not fenced and not shutting down."""
        registration = self.brokers.get(broker)
        return registration is not None and registration.active

    def with_member(self, broker: int) -> list[TopicPartition]:
        """Returns the partitions with this broker in the ISR, sorted."""
        return sorted(self._in_isr.get(broker, _NO_KEYS))

    def leaderless(self) -> list[TopicPartition]:
        """Returns the partitions without leader, sorted."""
        return sorted(self._leaderless)

    def log_ends_wanted(self, broker: int) -> list[TopicPartition]:
        """Returns the partitions, sorted, whose election lacks the log end of this registered broker."""
        registration = self.brokers.get(broker)
        if registration is None:
            return []
        states = [(key, self.topics[key.topic].partitions[key.partition]) for key in self._compared]
        return sorted([key for key, state in states if state.lacks_log_end(broker, registration.epoch)])

    def leaderships(self, broker: int) -> int:
        """Returns how many partitions this broker leads."""
        return self._leaderships.get(broker, 0)

    def followers(self, broker: int) -> set[int]:
        """Returns the active brokers that are in sync with this one on partitions that it leads."""
        found: set[int] = set()
        for key in self._in_isr.get(broker, _NO_KEYS):
            state = self.topics[key.topic].partitions[key.partition]
            if state.leader == broker:
                found.update(state.isr)
        return {member for member in found if member != broker and self.active(member)}

    def not_preferred(self) -> list[TopicPartition]:
        """Returns the partitions that their preferred replica does not lead, sorted."""
        return sorted(self._not_preferred)

    def balanceable(self) -> list[TopicPartition]:
        """Returns the partitions, sorted, that another broker leads than the preferred one, which could."""
        found = []
        for key in self._not_preferred:
            state = self.topics[key.topic].partitions[key.partition]
            if state.replicas[0] in state.isr and self.active(state.replicas[0]):
                found.append(key)
        return sorted(found)

    def colliding(self, name: str) -> str | None:
        """Returns another topic whose name differs from `name` only in "." and "_", or None (Topic.hasCollision)."""
        return min((other for other in self._names.get(_merge_name(name), ()) if other != name), default=None)

    def configs_of(self, resource: ResourceName) -> Mapping[str, str]:
        """Returns the settings of a resource; empty for an unknown one."""
        match resource.kind:
            case ResourceKind.TOPIC:
                topic = self.topics.get(resource.name)
                return topic.configs if topic is not None else {}
            case ResourceKind.BROKER:
                if not resource.name:
                    return self.cluster_configs
                broker = broker_of(resource.name)
                return self.broker_configs.get(broker, {}) if broker is not None else {}

    # ---------------------------------------------------------------- changes, for the machine

    def put_topic(self, topic: TopicImage) -> None:
        """Add a topic, with the partitions it has."""
        self.topics[topic.name] = self.topics_by_id[topic.topic_id] = topic
        self._names.setdefault(_merge_name(topic.name), {})[topic.name] = None
        for partition, state in enumerate(topic.partitions):
            self._index(TopicPartition(topic.name, partition), state)

    def remove_topic(self, topic: TopicImage) -> None:
        """Remove a topic with all its partitions."""
        for partition, state in enumerate(topic.partitions):
            self._forget(TopicPartition(topic.name, partition), state)
        del self.topics[topic.name], self.topics_by_id[topic.topic_id]
        merged = _merge_name(topic.name)
        del self._names[merged][topic.name]
        if not self._names[merged]:
            del self._names[merged]

    def put_partition(self, key: TopicPartition, state: PartitionState) -> None:
        """Replace the state of a partition, or add the next one of its topic."""
        partitions = self.topics[key.topic].partitions
        if key.partition == len(partitions):
            partitions.append(state)
        else:
            self._forget(key, partitions[key.partition])
            partitions[key.partition] = state
        self._index(key, state)

    def set_config(self, resource: ResourceName, name: str, value: str | None) -> None:
        """Set one config of a resource that exists, or with None delete it."""
        match resource.kind:
            case ResourceKind.TOPIC:
                _set(self.topics[resource.name].configs, name, value)
            case ResourceKind.BROKER:
                broker = broker_of(resource.name)
                if broker is None:
                    _set(self.cluster_configs, name, value)
                    return
                configs = self.broker_configs.setdefault(broker, {})
                _set(configs, name, value)
                if not configs:
                    del self.broker_configs[broker]

    def set_credential(self, user: str, mechanism: ScramMechanism, credential: ScramCredential | None) -> None:
        """Set a credential, or with None delete one that exists."""
        of_user = self.credentials.setdefault(user, {})
        if credential is None:
            del of_user[mechanism]
        else:
            of_user[mechanism] = credential
        if not of_user:
            del self.credentials[user]

    def replace(
        self,
        *,
        index: int,
        next_producer_id: int,
        brokers: Iterable[BrokerRegistration],
        topics: Iterable[TopicImage],
        cluster_configs: Mapping[str, str],
        broker_configs: Mapping[int, Mapping[str, str]],
        credentials: Mapping[str, Mapping[ScramMechanism, ScramCredential]],
        acls: Iterable[Acl],
    ) -> None:
        """Become the image that a snapshot describes."""
        for held in (
            self.brokers,
            self.topics,
            self.topics_by_id,
            self.cluster_configs,
            self.broker_configs,
            self.credentials,
        ):
            held.clear()
        for indexed in (
            self._in_isr,
            self._leaderless,
            self._compared,
            self._not_preferred,
            self._leaderships,
            self._names,
        ):
            indexed.clear()
        self.index = index
        self.next_producer_id = next_producer_id
        self.brokers.update((broker.id, broker) for broker in brokers)
        for topic in topics:
            self.put_topic(topic)
        self.cluster_configs.update(cluster_configs)
        self.broker_configs.update((broker, dict(configs)) for broker, configs in broker_configs.items())
        self.credentials.update((user, dict(of_user)) for user, of_user in credentials.items())
        self.acls.replace(acls)

    def _index(self, key: TopicPartition, state: PartitionState) -> None:
        for member in state.isr:
            self._in_isr.setdefault(member, {})[key] = None
        if state.leader == NO_LEADER:
            self._leaderless[key] = None
            if state.awaits_comparison:
                self._compared[key] = None
        else:
            self._leaderships[state.leader] = self._leaderships.get(state.leader, 0) + 1
        if state.leader != state.replicas[0]:
            self._not_preferred[key] = None

    def _forget(self, key: TopicPartition, state: PartitionState) -> None:
        for member in state.isr:
            del self._in_isr[member][key]
        if state.leader == NO_LEADER:
            del self._leaderless[key]
            self._compared.pop(key, None)
        else:
            self._leaderships[state.leader] -= 1
        if state.leader != state.replicas[0]:
            del self._not_preferred[key]


def broker_of(name: str) -> int | None:
    """Returns the broker that the name of a resource means, or None unless the name is an id in plain decimal."""
    if not name.isdecimal() or len(name) > 10 or str(int(name)) != name:
        return None
    return int(name)


def _set(configs: dict[str, str], name: str, value: str | None) -> None:
    if value is None:
        configs.pop(name, None)
    else:
        configs[name] = value


def _merge_name(name: str) -> str:
    return name.replace(".", "_")
