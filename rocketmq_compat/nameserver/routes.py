"""Decides which brokers are alive and what the routes of topics are. Pure: `step(now, event) -> effects`, and queries.

The rules are RocketMQ's (RouteInfoManager):

- A master's topics replace the known topics of its name if their data version has changed.
- A broker is removed at once when its connection is lost, or when it was silent for too long.
- With the last broker of a name the name's queues go.

Three rules differ:

- The topics of a master are taken as a whole, so a topic that it deleted leaves the routes with its next registration.
- A name belongs to one cluster as long as it has a registered broker.
- An older master (lower state version) never replaces a newer one that is registered, however often it registers.
"""

from collections.abc import Collection, Iterator, Mapping
from typing import Final, assert_never

import attrs

from log.values import evolve
from rocketmq_compat.nameserver.events import (
    BrokerAppeared,
    BrokerBeat,
    BrokerConnectionLost,
    BrokerIdentity,
    BrokerRegistered,
    BrokerRemoved,
    BrokerUnregistered,
    CloseBrokerConnection,
    Connection,
    DataVersionCompared,
    DataVersionQuery,
    KvChanged,
    KvDeletion,
    KvPut,
    KvRefused,
    NamesrvEffect,
    NamesrvEvent,
    RegistrationAccepted,
    RegistrationRefused,
    RegistrationTimePassed,
    TopicDeletion,
    TopicRegistered,
    TopicsChanged,
    WritePermChange,
)
from rocketmq_compat.remoting.bodies import (
    READABLE,
    WRITABLE,
    BrokerData,
    BrokerMemberGroup,
    ClusterInfo,
    DataVersion,
    QueueData,
    TopicConfigSerializeWrapper,
    TopicRouteData,
)

MASTER_ID: Final = 0
ORDER_TOPIC_CONFIG: Final = "ORDER_TOPIC_CONFIG"
"""The namespace of values that pin the queues of ordered topics."""
VALUES_MAX: Final = 10_000
VALUES_CHARACTERS_MAX: Final = 4 * 1024 * 1024
"""The bounds of what administrators store: keys, and the characters of all of it."""
QUEUES_MAX: Final = 1_000_000
"""Topics, each counted for every broker name that has it."""
BROKERS_MAX: Final = 4096
"""The most brokers in all; registrations above it would only cost memory."""


@attrs.define
class _Registered:
    """A broker that is there."""

    broker: BrokerIdentity
    connection: Connection
    seen_at: float
    expires_after_s: float
    version: DataVersion
    ha_address: str


@attrs.define
class _BrokerGroup:
    """The brokers of one name, by id. Never empty."""

    cluster: str
    members: dict[int, _Registered]


class RouteTable:
    """All knowledge of a name server.

    `kv` are the values that administrators stored before the start, by namespace and key.
    """

    def __init__(
        self,
        kv: Mapping[str, Mapping[str, str]] | None = None,
        *,
        brokers_max: int = BROKERS_MAX,
        queues_max: int = QUEUES_MAX,
        values_max: int = VALUES_MAX,
    ) -> None:
        self._brokers_max = brokers_max
        self._queues_max = queues_max
        self._values_max = values_max
        self._groups: dict[str, _BrokerGroup] = {}
        self._topics: dict[str, dict[str, QueueData]] = {}
        """By topic and broker name."""
        self._kv: dict[str, dict[str, str]] = {namespace: dict(each) for namespace, each in (kv or {}).items()}

    @property
    def broker_count(self) -> int:
        """The number of registered brokers."""
        return sum(len(group.members) for group in self._groups.values())

    @property
    def topic_count(self) -> int:
        """The number of topics that have a route."""
        return len(self._topics)

    def step(self, now: float, event: NamesrvEvent) -> list[NamesrvEffect]:
        """Returns the effects of the event, in order. `now` is in seconds and never goes back."""
        match event:
            case BrokerRegistered():
                return self._register(now, event)
            case TopicRegistered():
                return [self._register_topic(event)]
            case BrokerUnregistered(broker):
                found = self._find(broker)
                return [] if found is None else self._remove(found, "it unregistered")
            case BrokerBeat(connection, broker):
                self._refresh(now, connection, broker)
                return []
            case DataVersionQuery(connection, broker, version):
                found = self._find(broker)
                is_changed = found is None or found.version != version
                if not is_changed:
                    self._refresh(now, connection, broker)
                return [DataVersionCompared(is_changed)]
            case BrokerConnectionLost(connection):
                lost = [each for each in self._all() if each.connection == connection]
                return [effect for each in lost for effect in self._remove(each, "its connection was lost")]
            case RegistrationTimePassed():
                return self._expire(now)
            case TopicDeletion(topic, cluster):
                self._delete_topic(topic, cluster)
                return []
            case WritePermChange(broker_name, is_writable):
                return [TopicsChanged(self._change_perm(broker_name, is_writable=is_writable))]
            case KvPut(namespace, key, value):
                if (reason := self._value_refusal(event)) is not None:
                    return [KvRefused(reason)]
                self._kv.setdefault(namespace, {})[key] = value
                return [KvChanged(namespace, key, value)]
            case KvDeletion(namespace, key):
                return self._delete_value(namespace, key)
            case _:
                assert_never(event)

    # ---------------------------------------------------------------- registration

    def _register(self, now: float, event: BrokerRegistered) -> list[NamesrvEffect]:
        broker = event.broker
        group = self._groups.get(broker.name)
        before = None if group is None else group.members.get(broker.broker_id)
        version = DataVersion() if event.topics is None else event.topics.data_version
        reason = self._refusal(broker, group, before, version)
        if reason is None and event.topics is not None and (before is None or before.version != version):
            reason = self._topics_refusal(event.topics.topic_config_table)
        if reason is not None:
            return [RegistrationRefused(reason)]
        effects: list[NamesrvEffect] = []
        if group is None:
            group = self._groups[broker.name] = _BrokerGroup(broker.cluster, {})
        moved = [
            member
            for member in group.members.values()
            if member.broker.address == broker.address and member is not before
        ]
        for member in moved:  # it has another id now
            del group.members[member.broker.broker_id]
            effects.append(BrokerRemoved(member.broker, f"it registered with id {broker.broker_id}"))
        is_same = before is not None and before.broker == broker
        if before is not None and not is_same:
            effects.append(BrokerRemoved(before.broker, f"{broker.address} registered with its id"))
        if not is_same:
            effects.append(BrokerAppeared(broker))
        is_news = before is None or not is_same or before.version != version
        if is_news and event.topics is not None and broker.broker_id == MASTER_ID:
            self._replace_topics(broker.name, event.topics)
        group.members[broker.broker_id] = _Registered(
            broker, event.connection, now, event.expires_after_s, version, event.ha_address
        )
        return [*effects, self._accept(broker, group)]

    def _refusal(
        self, broker: BrokerIdentity, group: _BrokerGroup | None, before: _Registered | None, version: DataVersion
    ) -> str | None:
        """Returns the reason to refuse a broker's registration, or None."""
        if group is not None and group.cluster != broker.cluster:
            return f"the broker name {broker.name} is in use in cluster {group.cluster}"
        if (
            before is not None
            and before.broker.address != broker.address
            and before.version.state_version > version.state_version
        ):
            return f"{before.broker.address} has registered as a newer master of {broker.name}"
        if before is None and sum(1 for _ in self._all()) >= self._brokers_max:
            return f"{self._brokers_max} brokers have registered, no more are taken"
        return None

    def _topics_refusal(self, topics: Collection[str]) -> str | None:
        """Returns the reason to refuse topics of a broker, or None."""
        if sum(map(len, self._topics.values())) + len(topics) > self._queues_max:
            return f"brokers have registered {self._queues_max} topics, no more are taken"
        return None

    @staticmethod
    def _accept(broker: BrokerIdentity, group: _BrokerGroup) -> RegistrationAccepted:
        master = group.members.get(MASTER_ID)
        if broker.broker_id == MASTER_ID or master is None:
            return RegistrationAccepted()
        return RegistrationAccepted(master.broker.address, master.ha_address)

    def _replace_topics(self, name: str, topics: TopicConfigSerializeWrapper) -> None:
        table = topics.topic_config_table
        self._forget_topics(name, except_for=table)
        for topic, config in table.items():
            self._topics.setdefault(topic, {})[name] = QueueData(
                broker_name=name,
                read_queue_nums=config.read_queue_nums,
                write_queue_nums=config.write_queue_nums,
                perm=config.perm,
                topic_sys_flag=config.topic_sys_flag,
            )

    def _register_topic(self, event: TopicRegistered) -> RegistrationAccepted | RegistrationRefused:
        """Take a single topic.

        Its broker keeps its registered version: with the next one it registers again as a whole.
        """
        for data in event.queues:
            if data.broker_name not in self._groups:
                return RegistrationRefused(f"no broker has registered as {data.broker_name}")
        if event.topic not in self._topics and (reason := self._topics_refusal((event.topic,))) is not None:
            return RegistrationRefused(reason)
        for data in event.queues:
            if data.read_queue_nums or data.write_queue_nums:
                self._topics.setdefault(event.topic, {})[data.broker_name] = data
            elif data.broker_name in self._topics.get(event.topic, ()):
                self._forget_queues(event.topic, data.broker_name)
        return RegistrationAccepted()

    def _forget_topics(self, name: str, *, except_for: Mapping[str, object] | None = None) -> None:
        kept = except_for or {}
        for topic in [each for each, queues in self._topics.items() if name in queues and each not in kept]:
            self._forget_queues(topic, name)

    def _forget_queues(self, topic: str, name: str) -> None:
        queues = self._topics[topic]
        del queues[name]
        if not queues:
            del self._topics[topic]

    # ---------------------------------------------------------------- being there

    def _all(self) -> Iterator[_Registered]:
        for group in self._groups.values():
            yield from group.members.values()

    def _find(self, broker: BrokerIdentity) -> _Registered | None:
        """Returns the registered broker, or None if it is not registered, or another one has its id."""
        group = self._groups.get(broker.name)
        found = None if group is None else group.members.get(broker.broker_id)
        return found if found is not None and found.broker == broker else None

    def _refresh(self, now: float, connection: Connection, broker: BrokerIdentity) -> None:
        found = self._find(broker)
        if found is not None:
            found.seen_at, found.connection = now, connection

    def _remove(self, registered: _Registered, reason: str) -> list[NamesrvEffect]:
        broker = registered.broker
        group = self._groups[broker.name]
        del group.members[broker.broker_id]
        if not group.members:
            del self._groups[broker.name]
            self._forget_topics(broker.name)
        return [BrokerRemoved(broker, reason)]

    def _expire(self, now: float) -> list[NamesrvEffect]:
        effects: list[NamesrvEffect] = []
        for registered in [each for each in self._all() if now - each.seen_at > each.expires_after_s]:
            reason = f"it was silent for {registered.expires_after_s:g} s"
            effects += [*self._remove(registered, reason), CloseBrokerConnection(registered.connection, reason)]
        return effects

    # ---------------------------------------------------------------- administration

    def _delete_topic(self, topic: str, cluster: str | None) -> None:
        for name in list(self._topics.get(topic, ())):
            if cluster is None or self._groups[name].cluster == cluster:
                self._forget_queues(topic, name)

    def _change_perm(self, name: str, *, is_writable: bool) -> int:
        count = 0
        for queues in self._topics.values():
            data = queues.get(name)
            if data is not None:
                perm = data.perm | READABLE | WRITABLE if is_writable else data.perm & ~WRITABLE
                queues[name] = evolve(data, perm=perm)
                count += 1
        return count

    def _value_refusal(self, event: KvPut) -> str | None:
        """Returns the reason to refuse a value, or None."""
        size = len(event.namespace) + len(event.key) + len(event.value)
        kept = sum(len(name) + len(key) + len(value) for name, each in self._kv.items() for key, value in each.items())
        count = sum(map(len, self._kv.values()))
        is_new = event.key not in self._kv.get(event.namespace, {})
        if kept + size > VALUES_CHARACTERS_MAX or (is_new and count >= self._values_max):
            return (
                f"values have {VALUES_CHARACTERS_MAX} characters and {self._values_max} keys at most, no more are taken"
            )
        return None

    def _delete_value(self, namespace: str, key: str) -> list[NamesrvEffect]:
        values = self._kv.get(namespace, {})
        if values.pop(key, None) is None:
            return []
        if not values:
            del self._kv[namespace]
        return [KvChanged(namespace, key, None)]

    # ---------------------------------------------------------------- questions

    def route(self, topic: str, *, with_order: bool = False) -> TopicRouteData | None:
        """Returns the route of a topic, `with_order` with the pinned queues, or None if no broker has queues for it."""
        queues = self._topics.get(topic)
        if not queues:
            return None
        names = sorted(queues)
        return TopicRouteData(
            order_topic_conf=self.value(ORDER_TOPIC_CONFIG, topic) if with_order else None,
            queue_datas=tuple(queues[name] for name in names),
            broker_datas=tuple(self._broker_data(name) for name in names),
        )

    def member_group(self, cluster: str, name: str) -> BrokerMemberGroup | None:
        """Returns the brokers of a name in the cluster, or None."""
        group = self._groups.get(name)
        if group is None or group.cluster != cluster:
            return None
        return BrokerMemberGroup(cluster=cluster, broker_name=name, broker_addrs=self._broker_data(name).broker_addrs)

    def cluster_info(self) -> ClusterInfo:
        """Returns all brokers and clusters."""
        clusters: dict[str, list[str]] = {}
        for name, group in sorted(self._groups.items()):
            clusters.setdefault(group.cluster, []).append(name)
        return ClusterInfo(
            broker_addr_table={name: self._broker_data(name) for name in sorted(self._groups)},
            cluster_addr_table={cluster: tuple(names) for cluster, names in sorted(clusters.items())},
        )

    def topics(self, cluster: str | None = None) -> list[str]:
        """Returns the topics that brokers have, of one cluster or of all."""
        return sorted(
            topic
            for topic, queues in self._topics.items()
            if cluster is None or any(self._groups[name].cluster == cluster for name in queues)
        )

    def value(self, namespace: str, key: str) -> str | None:
        """Returns the value that an administrator stored, or None."""
        return self._kv.get(namespace, {}).get(key)

    def values(self, namespace: str) -> Mapping[str, str]:
        """Returns all values that administrators stored in a namespace."""
        return dict(self._kv.get(namespace, {}))

    def all_values(self) -> Mapping[str, Mapping[str, str]]:
        """Returns all values that administrators stored, by namespace."""
        return {namespace: dict(values) for namespace, values in self._kv.items()}

    def _broker_data(self, name: str) -> BrokerData:
        group = self._groups[name]
        addresses = {broker_id: each.broker.address for broker_id, each in sorted(group.members.items())}
        return BrokerData(cluster=group.cluster, broker_name=name, broker_addrs=addresses)

    # ---------------------------------------------------------------- invariants

    def check(self) -> None:
        """Raises `AssertionError` unless all parts of the table agree."""
        for name, group in self._groups.items():
            assert group.members, f"the name {name} has no broker"
            addresses = [each.broker.address for each in group.members.values()]
            assert len(set(addresses)) == len(addresses), f"an address of {name} has two ids"
            for broker_id, member in group.members.items():
                expected = (group.cluster, name, broker_id)
                found = (member.broker.cluster, member.broker.name, member.broker.broker_id)
                assert found == expected, f"{found} is registered as {expected}"
        for topic, queues in self._topics.items():
            assert queues, f"the topic {topic} has no queues"
            for name, data in queues.items():
                assert data.broker_name == name, f"queues of {topic} at {name} name {data.broker_name}"
                assert name in self._groups, f"the topic {topic} has queues at {name}, where no broker is"
