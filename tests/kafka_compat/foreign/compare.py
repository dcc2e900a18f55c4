"""Sends the same requests to three brokers of ours and three of Apache Kafka, and lists the fields of the answers that
differ.

`python -m tests.kafka_compat.foreign.compare` ends with 1 if a difference has no reason in `KNOWN`, or a reason has no
difference any more. Needs the jars of `quorumlog fetch apache-kafka`.
"""

import fnmatch
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import attrs
import click

from jepsen_like.bench.kafka.cluster import KAFKA_SYSTEMS
from kafka_compat.protocol.apis.create_topics import (
    CREATE_TOPICS,
    CreateTopic,
    CreateTopicAssignment,
    CreateTopicsRequest,
)
from kafka_compat.protocol.apis.delete_topics import DELETE_TOPICS, DeleteTopicsRequest
from kafka_compat.protocol.apis.find_coordinator import FIND_COORDINATOR, FindCoordinatorRequest
from kafka_compat.protocol.apis.metadata import METADATA, MetadataRequest, MetadataRequestTopic
from kafka_compat.protocol.apis.offset_commit import (
    OFFSET_COMMIT,
    OffsetCommitPartition,
    OffsetCommitRequest,
    OffsetCommitTopic,
)
from kafka_compat.protocol.apis.produce import PRODUCE, ProducePartition, ProduceRequest, ProduceTopic
from kafka_compat.protocol.error_codes import KafkaErrorCode
from kafka_compat.records import encode_records
from tests.kafka_compat.foreign.known import KNOWN
from tests.kafka_compat.foreign.requests import BASE_MS, GROUP, TOPIC, Place, Step, steps
from tests.kafka_compat.foreign.wire import Wire, differences, flat

SETTINGS = {
    "group.initial.rebalance.delay.ms": "0",
    "offsets.topic.num.partitions": "1",
    "auto.create.topics.enable": "false",
}
WITHIN_S = 60.0
OWN_TO_EACH = frozenset(
    [
        "port",
        "cluster_id",
        "controller_id",
        "producer_id",
        "member_id",
        "leader",
        "log_dir",
        "total_bytes",
        "usable_bytes",
        "partition_size",
        "finalized_features_epoch",
        "session_id",
        "documentation",
    ]
)
"""Fields that differ between any two clusters."""
TEXTS = frozenset({"error_message", "batch_index_error_message"})
"""Fields whose texts are compared only for presence."""


class Brokers:
    """One kind of broker, with what the requests need."""

    def __init__(self, bootstrap: str) -> None:
        self._addresses = bootstrap.split(",")
        self._wires: dict[str, Wire] = {}
        self.topic_id = b""
        self.coordinator = ""

    def prepare(self) -> None:
        """Make the topic, its records and the group, from nothing. Raises `AssertionError` if that takes too long."""
        self.ask(DELETE_TOPICS, 5, DeleteTopicsRequest(topic_names=(TOPIC,), timeout_ms=30_000))
        until(lambda: all(self._lacks(each) for each in self._addresses))
        assignments = tuple(
            CreateTopicAssignment(partition_index=at, broker_ids=brokers)
            for at, brokers in enumerate([(1, 2, 3), (2, 3, 1)])
        )
        topic = CreateTopic(name=TOPIC, num_partitions=-1, replication_factor=-1, assignments=assignments, configs=())
        made = self.ask(CREATE_TOPICS, 7, CreateTopicsRequest(topics=(topic,), timeout_ms=30_000))
        self.topic_id = made.topics[0].topic_id
        records = encode_records([(b"k", b"v%d" % at) for at in range(3)], [BASE_MS + at for at in range(3)])
        until(lambda: self._produce(records))
        until(self._find_coordinator)
        until(self._commit)
        until(lambda: all(self._knows(each) for each in self._addresses))

    def _produce(self, records: bytes) -> bool:
        topic = ProduceTopic(name=TOPIC, partition_data=(ProducePartition(index=0, records=records),))
        answer = self.ask(PRODUCE, 9, ProduceRequest(acks=-1, timeout_ms=5000, topic_data=(topic,)))
        return not answer.responses[0].partition_responses[0].error_code

    def _find_coordinator(self) -> bool:
        (one,) = self.ask(FIND_COORDINATOR, 4, FindCoordinatorRequest(coordinator_keys=(GROUP,))).coordinators
        self.coordinator = f"{one.host}:{one.port}"
        return not one.error_code

    def _commit(self) -> bool:
        partition = OffsetCommitPartition(partition_index=0, committed_offset=2, committed_metadata="noted")
        topic = OffsetCommitTopic(name=TOPIC, partitions=(partition,))
        request = OffsetCommitRequest(group_id=GROUP, member_id="", topics=(topic,))
        answer = self.ask(OFFSET_COMMIT, 8, request, self.coordinator)
        return not answer.topics[0].partitions[0].error_code

    def _lacks(self, address: str) -> bool:
        request = MetadataRequest(topics=(MetadataRequestTopic(name=TOPIC),), allow_auto_topic_creation=False)
        (topic,) = self.ask(METADATA, 9, request, address).topics
        return bool(topic.error_code)

    def _knows(self, address: str) -> bool:
        request = MetadataRequest(topics=(MetadataRequestTopic(name=TOPIC),), allow_auto_topic_creation=False)
        (topic,) = self.ask(METADATA, 9, request, address).topics
        return not topic.error_code and all(
            partition.leader_id == partition.replica_nodes[0] and len(partition.isr_nodes) == 3
            for partition in topic.partitions
        )

    def ask(self, api: Any, version: int, request: Any, address: str = "") -> Any:
        """Returns the response of a broker, of the first by default, or None if it closed the connection."""
        used = address or self._addresses[0]
        wire = self._wires.get(used)
        if wire is None:
            wire = self._wires[used] = Wire(used)
        response = wire.ask(api, version, request)
        if response is None:
            wire.close()
            del self._wires[used]
        return response

    def answer(self, step: Step, version: int, name: str) -> Mapping[str, Any]:
        """The answer to a step, flat, without what is this cluster's own."""
        request = step.request(Place(self.topic_id, version, name))
        response = self.ask(step.api, version, request, self.coordinator if step.of_group else "")
        rows = flat(response).items()
        return {path: comparable(path.rpartition(".")[2], value) for path, value in rows}


def until(done: Any) -> None:
    """Ask again until it is so."""
    ends = time.monotonic() + WITHIN_S
    while not done():
        assert time.monotonic() < ends, "not in time"
        time.sleep(0.2)


def comparable(name: str, value: Any) -> Any:
    """Returns the part of a value that both brokers should have in common."""
    if name in OWN_TO_EACH:
        return f"a {type(value).__name__}"
    return "a text" if name in TEXTS and value else value


@attrs.frozen
class Difference:
    """One field that differs in some versions of an API."""

    api: str
    what: str
    path: str
    ours: Any
    theirs: Any

    def reason(self) -> str | None:
        """Returns the reason for the difference, or None."""
        return next((reason for key, reason in KNOWN.items() if self.is_known_by(key)), None)

    def is_known_by(self, key: tuple[str, str, str]) -> bool:
        """Returns True if this row of `KNOWN` is about the difference."""
        mine = (self.api, self.what, self.path)
        patterns = [each.replace("[", "[[]") for each in key]
        return all(fnmatch.fnmatchcase(value, pattern) for value, pattern in zip(mine, patterns, strict=True))


def compare(ours: Brokers, theirs: Brokers, only: str) -> Iterator[tuple[Difference, int]]:
    """Yields each difference and the version in which it was seen."""
    for number, step in enumerate(steps()):
        if only not in f"{step.api.name} {step.what}":
            continue
        for version in step.api.versions:
            if version < step.first:
                continue
            name = f"made-{BASE_MS}-{number}-{version}"
            answers = [each.answer(step, version, name) for each in (ours, theirs)]
            for path, (mine, other) in differences(*answers).items():
                yield Difference(step.api.name, step.what, path, mine, other), version


def show(path: str, value: Any) -> str:
    """A value in few characters; an error code by its name."""
    if path.endswith("error_code") and value in list(KafkaErrorCode):
        return KafkaErrorCode(value).name
    return "-" if value is ... else repr(value)[:60]


@click.command()
@click.option("--ours", help="Brokers of ours that run already, instead.")
@click.option("--apache", help="Apache's that run already, instead.")
@click.option("--only", default="", help="A part of the names of the requests to send.")
@click.option("--all", "every", is_flag=True, help="Show what is known as well.")
def main(ours: str | None, apache: str | None, only: str, every: bool) -> None:
    """The answers of our brokers and of Apache Kafka's, field by field."""
    found: dict[Difference, list[int]] = {}
    with ExitStack() as stack:
        home = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="compare-")))
        given = {"quorumlog": ours, "apache": apache}
        kinds = []
        for key, bootstrap in given.items():
            if bootstrap is None:
                bootstrap = stack.enter_context(KAFKA_SYSTEMS[key].cluster(home / key, SETTINGS)).bootstrap
            kinds.append(Brokers(bootstrap))
            kinds[-1].prepare()
        for difference, version in compare(kinds[0], kinds[1], only):
            found.setdefault(difference, []).append(version)
    unknown = [each for each in found if each.reason() is None]
    stale = [] if only else [key for key in KNOWN if not any(each.is_known_by(key) for each in found)]
    for difference, versions in found.items():
        if every or difference in unknown:
            where = f"{difference.api} {versions[0]}-{versions[-1]}, {difference.what}: {difference.path}"
            reason = f"  ({difference.reason()})" if difference.reason() else ""
            click.echo(
                f"{where}: {show(difference.path, difference.ours)} | {show(difference.path, difference.theirs)}{reason}"
            )
    for row in stale:
        click.echo(f"no difference any more: {' / '.join(row)}")
    click.echo(f"{len(found)} fields differ, {len(found) - len(unknown)} for a reason that is known")
    sys.exit(1 if unknown or stale else 0)


if __name__ == "__main__":
    main()
