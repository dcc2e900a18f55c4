"""Three brokers that speak Kafka's protocol, Apache's or ours, as a client sees them: leaders and replicas in sync."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import attrs
from confluent_kafka import KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec
from confluent_kafka.cimpl import NewTopic

from jepsen_like.bench.guard import OPEN, PLAIN, Guard, Protection
from jepsen_like.bench.kafka.apache import APACHE_PORTS, BROKERS, apache_brokers
from jepsen_like.bench.kafka.own import own_brokers
from jepsen_like.bench.processes import BenchProcess, running, until
from jepsen_like.bench.systems import Contender, lend_directory
from jepsen_like.cluster.ports import LOOPBACK, ReservedPorts
from jepsen_like.systems.archives.catalogue import APACHE_KAFKA
from jepsen_like.systems.kafka.client_config import security_config

ASK_WITHIN_S = 2.0
"""Of one question; a broker that was just killed answers none."""
WHOLE_WITHIN_S = 60.0
COMMON_SETTINGS: Mapping[str, str] = {
    "default.replication.factor": f"{BROKERS}",
    "min.insync.replicas": "2",
    "offsets.topic.replication.factor": f"{BROKERS}",
}
"""The settings with which both kinds are started."""


class KafkaCluster:
    """Three brokers, ids from 1; `members[0]` is the process of broker 1. No members: they belong to another."""

    def __init__(self, bootstrap: str, members: Sequence[BenchProcess] = (), guard: Guard = OPEN) -> None:
        self.bootstrap = bootstrap
        self.members = members
        tls = guard.tls
        self.client: Mapping[str, Any] = {
            "bootstrap.servers": bootstrap,
            "log_level": 0,
            **({} if tls is None else security_config(str(tls.authority), str(tls.keystore))),
        }
        """The settings of every client."""
        self._clients: dict[str, AdminClient] = {}

    @property
    def admin(self) -> AdminClient:
        """A client for administration, made when it is first asked for."""
        return self._client("administration")

    def _client(self, purpose: str) -> AdminClient:
        if purpose not in self._clients:
            self._clients[purpose] = AdminClient(dict(self.client))
        return self._clients[purpose]

    def brokers(self) -> frozenset[int]:
        """Returns the ids that metadata names; none if no broker answers."""
        try:
            return frozenset(self.admin.list_topics(timeout=ASK_WITHIN_S).brokers)
        except KafkaException:
            return frozenset()

    def _places_three(self) -> bool:
        """Returns True if a topic could be created now: metadata may name brokers that are all fenced."""
        wanted = NewTopic("placeable", num_partitions=1, replication_factor=BROKERS)
        try:
            for answer in self.admin.create_topics([wanted], validate_only=True).values():
                answer.result(ASK_WITHIN_S)
        except (KafkaException, TimeoutError):
            return False
        return True

    def await_brokers(self) -> None:
        """Wait until metadata names all three, and all are unfenced. Raises `DidNotAnswer`."""
        everyone = frozenset(range(1, BROKERS + 1))
        until(
            lambda: self.brokers() == everyone and self._places_three(),
            "cluster of three unfenced brokers",
            within_s=WHOLE_WITHIN_S,
            every_s=0.1,
            members=self.members,
        )

    def create(self, topic: str, partitions: int = 1, settings: Mapping[str, str] | None = None) -> None:
        """Create a topic; return with all three replicas in sync. Raises `KafkaException`, `DidNotAnswer`."""
        wanted = NewTopic(topic, num_partitions=partitions, replication_factor=BROKERS, config=dict(settings or {}))
        for answer in self.admin.create_topics([wanted]).values():
            answer.result(WHOLE_WITHIN_S)
        self.await_in_sync(topic, partitions)

    def delete(self, topic: str) -> None:
        """Delete a topic. Raises `KafkaException`."""
        for answer in self.admin.delete_topics([topic]).values():
            answer.result(WHOLE_WITHIN_S)

    def leader(self, topic: str, partition: int = 0) -> int | None:
        """Returns the broker that leads; None while none does, or no broker answers."""
        found = self._partitions(topic).get(partition)
        return None if found is None or found.leader < 1 else int(found.leader)

    def ends(self, topic: str) -> Sequence[int]:
        """Returns the end of each partition. Raises `KafkaException`."""
        wanted = {TopicPartition(topic, partition): OffsetSpec.latest() for partition in self._partitions(topic)}
        found = self.admin.list_offsets(wanted) if wanted else {}
        return [
            answer.result(ASK_WITHIN_S).offset
            for _, answer in sorted(found.items(), key=lambda item: item[0].partition)
        ]

    def in_sync(self, topic: str) -> Sequence[int]:
        """Returns the size of each partition's set of replicas in sync; empty if no broker answers."""
        return [len(each.isrs) for _, each in sorted(self._partitions(topic).items())]

    def _partitions(self, topic: str) -> Mapping[int, Any]:
        """By number, as metadata has them.

        Asked by a client of its own: librdkafka remembers for a while that a broker did not know a new topic yet, and
        then finds no leader for requests that go to leaders.
        """
        try:
            return dict(self._client("metadata").list_topics(topic, timeout=ASK_WITHIN_S).topics[topic].partitions)
        except KafkaException:
            return {}

    def await_in_sync(self, topic: str, partitions: int = 1) -> None:
        """Wait until every partition has all its replicas in sync. Raises `DidNotAnswer`."""
        until(
            lambda: list(self.in_sync(topic)) == [BROKERS] * partitions,
            f"whole set of replicas in sync of {topic}",
            within_s=WHOLE_WITHIN_S,
            every_s=0.05,
            members=self.members,
        )


def addresses(ports: Sequence[int]) -> str:
    """Returns the clients' addresses as `bootstrap.servers` takes them."""
    return ",".join(f"{LOOPBACK}:{port}" for port in ports[:BROKERS])


@attrs.frozen(kw_only=True)
class KafkaSystem(Contender):
    """One kind of broker."""

    promise: str = "in the page cache of every replica in sync, two at least"
    """The meaning of an acknowledgement of acks=all, as it is run here."""
    ports: int = BROKERS
    start: Callable[[Path, Sequence[int], Mapping[str, str]], Sequence[BenchProcess]]
    """Brokers that are not started yet, in a directory, on so many ports, with settings."""
    protection: Protection = PLAIN
    """Of the brokers that `start` returns."""

    @contextmanager
    def cluster(self, directory: Path, settings: Mapping[str, str] | None = None) -> Iterator[KafkaCluster]:
        """Three brokers that know each other; afterwards they and their data are gone."""
        with lend_directory(directory), ReservedPorts(self.ports) as reserved:
            members = self.start(directory, reserved.ports, {**COMMON_SETTINGS, **(settings or {})})
            with running(members):
                cluster = KafkaCluster(addresses(reserved.ports), members, self.protection.guard(directory))
                cluster.await_brokers()
                yield cluster


OWN = KafkaSystem(key="quorumlog", title="quorumlog", start=own_brokers)
APACHE = KafkaSystem(
    key="apache",
    title="Apache Kafka",
    ports=APACHE_PORTS,
    start=apache_brokers,
    missing=APACHE_KAFKA.missing,
    version=lambda: APACHE_KAFKA.version,
    warm_up_s=8.0,
)
KAFKA_SYSTEMS: Mapping[str, KafkaSystem] = {system.key: system for system in (OWN, APACHE)}
