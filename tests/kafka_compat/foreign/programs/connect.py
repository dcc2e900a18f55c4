"""Kafka Connect: its file source copies a file to a topic, and its file sink copies the topic to another file.

A worker that stands alone keeps its offsets in a file. A distributed one keeps them in compacted topics, and its source
writes by transactions. Every broker is killed once, while lines are appended.
"""

import json
import urllib.request
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import attrs

from jepsen_like.bench.kafka.cluster import KafkaCluster
from jepsen_like.bench.processes import BenchProcess, running, until
from jepsen_like.cluster.ports import LOOPBACK, ReservedPorts
from tests.brought import bring_jars
from tests.kafka_compat.foreign.programs.plan import PATIENCE_S, ForeignProgram, NotKept, strike_each

VERSION = "4.3.1"
CLI = "org.apache.kafka.connect.cli"
TOPIC = "copied"
LINES = 200
ROUNDS = 7
STRING = "org.apache.kafka.connect.storage.StringConverter"
COMMON = {
    "key.converter": STRING,
    "value.converter": STRING,
    "plugin.discovery": "only_scan",
    "offset.flush.interval.ms": "500",
}
TOPICS = ("config", "offset", "status")
"""In which a distributed worker keeps its state."""
FILE = "org.apache.kafka.connect.file.FileStream"


@attrs.frozen
class Worker:
    """A worker's process, and the call that starts its connectors once it runs."""

    process: BenchProcess
    begin: Callable[[], None] = lambda: None


def write_properties(path: Path, settings: Mapping[str, str]) -> str:
    """Write a file of settings. Returns its path."""
    path.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
    return str(path)


def list_connectors(source: Path, copy: Path) -> Mapping[str, Mapping[str, str]]:
    """Returns the settings of both connectors by name."""
    return {
        "source": {"connector.class": f"{FILE}SourceConnector", "file": str(source), "topic": TOPIC},
        "sink": {"connector.class": f"{FILE}SinkConnector", "file": str(copy), "topics": TOPIC},
    }


def start_java(home: Path, program: str, *files: str) -> BenchProcess:
    """Returns the process of a worker, not started yet. Raises `ClientMissing`."""
    jars = bring_jars(f"kafka-connect-{VERSION}", Path(__file__).with_name("connect.xml"))
    command = ["java", "-XX:TieredStopAtLevel=1", "-cp", jars, f"{CLI}.{program}", *files]
    return BenchProcess(command, home / "worker")


def append_lines(source: Path, number: int) -> Sequence[str]:
    """Append the lines of a round, each with a number of its own. Returns them."""
    lines = [f"line {number * LINES + line}" for line in range(LINES)]
    with source.open("a") as file:
        file.writelines(f"{line}\n" for line in lines)
    return lines


def prove_copy(cluster: KafkaCluster, home: Path, worker_of: Callable[[KafkaCluster, Path, Path, Path], Worker]) -> str:
    """Copy a file through the kills. Raises `NotKept` if a line is lost, doubled or in another place."""
    source, copy = home / "source.txt", home / "copy.txt"
    source.touch()
    cluster.create(TOPIC)
    worker = worker_of(cluster, home, source, copy)
    sent: list[str] = []

    def read_copy() -> list[str]:
        return copy.read_text().splitlines() if copy.exists() else []

    def work(number: int) -> None:
        sent.extend(append_lines(source, number))
        until(
            lambda: len(read_copy()) >= len(sent),
            f"copy of round {number}",
            within_s=PATIENCE_S,
            members=[worker.process],
        )

    with running([worker.process]):
        worker.begin()
        strike_each(cluster, [(TOPIC, 1)], work)
    found = read_copy()
    if found != sent:
        lost, more = len(set(sent) - set(found)), len(found) - len(set(found))
        raise NotKept(f"{len(sent)} lines sent, {len(found)} copied: {lost} lost, {more} doubled")
    return f"{len(sent)} lines sent, {len(found)} copied in order"


def stand_alone(cluster: KafkaCluster, home: Path, source: Path, copy: Path) -> Worker:
    """Returns a worker with both connectors in its command."""
    settings = {
        **COMMON,
        "bootstrap.servers": cluster.bootstrap,
        "offset.storage.file.filename": str(home / "offsets"),
        "listeners": f"http://{LOOPBACK}:0",
        "producer.enable.idempotence": "true",
    }
    files = [write_properties(home / "worker.properties", settings)]
    for name, connector in list_connectors(source, copy).items():
        files.append(write_properties(home / f"{name}.properties", {"name": name, **connector}))
    return Worker(start_java(home, "ConnectStandalone", *files))


def distribute(cluster: KafkaCluster, home: Path, source: Path, copy: Path) -> Worker:
    """Returns a worker of a group, which gets its connectors over HTTP."""
    with ReservedPorts(1) as reserved:
        address = f"http://{LOOPBACK}:{reserved.ports[0]}"
    settings = {
        **COMMON,
        "bootstrap.servers": cluster.bootstrap,
        "group.id": "connect",
        "listeners": address,
        "exactly.once.source.support": "enabled",
        "consumer.isolation.level": "read_committed",
        "offset.storage.partitions": "3",
        **{f"{kind}.storage.topic": f"connect-{kind}" for kind in TOPICS},
        **{f"{kind}.storage.replication.factor": "3" for kind in TOPICS},
    }

    def ask(path: str, body: Mapping[str, str] | None = None) -> object:
        """Returns the answer; None if there is none yet, as while the group has no leader."""
        data = None if body is None else json.dumps(body).encode()
        headers = {"Content-Type": "application/json"}
        request = urllib.request.Request(f"{address}{path}", data, headers, method="PUT" if data else "GET")
        try:
            with urllib.request.urlopen(request, timeout=PATIENCE_S) as response:
                return json.load(response)
        except OSError:
            return None

    def begin() -> None:
        until(lambda: ask("/connectors") is not None, "answer of the worker", within_s=PATIENCE_S, members=[process])
        for name, connector in list_connectors(source, copy).items():
            until(
                lambda name=name, connector=connector: ask(f"/connectors/{name}/config", connector) is not None,  # type: ignore[misc]
                f"connector {name}",
                within_s=PATIENCE_S,
                members=[process],
            )

    process = start_java(home, "ConnectDistributed", write_properties(home / "worker.properties", settings))
    return Worker(process, begin)


PROGRAMS = (
    ForeignProgram(
        "Kafka Connect, standalone",
        VERSION,
        "every line from file to topic to file once and in order, through three kills",
        lambda cluster, home: prove_copy(cluster, home, stand_alone),
    ),
    ForeignProgram(
        "Kafka Connect, distributed",
        VERSION,
        "every line from file to topic by transactions to file once and in order, through three kills",
        lambda cluster, home: prove_copy(cluster, home, distribute),
    ),
)
