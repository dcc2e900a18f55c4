"""Kafka Connect: its file source copies a file to a topic, and its file sink copies the topic to another file.

One worker, standalone. Every broker is killed once, while lines are appended.
"""

from collections.abc import Callable, Sequence
from pathlib import Path

from jepsen_like.bench.kafka.cluster import KafkaCluster
from jepsen_like.bench.processes import BenchProcess, running, until
from tests.brought import bring_jars
from tests.kafka_compat.foreign.programs.plan import PATIENCE_S, ForeignProgram, NotKept, strike_each

VERSION = "4.3.1"
STANDALONE = "org.apache.kafka.connect.cli.ConnectStandalone"
TOPIC = "copied"
LINES = 200
ROUNDS = 7
WORKER = {
    "key.converter": "org.apache.kafka.connect.storage.StringConverter",
    "value.converter": "org.apache.kafka.connect.storage.StringConverter",
    "plugin.discovery": "only_scan",
    "offset.flush.interval.ms": "500",
    "listeners": "http://127.0.0.1:0",
    "producer.enable.idempotence": "true",
}
FILE = "org.apache.kafka.connect.file.FileStream"


def write_properties(path: Path, **settings: str) -> str:
    """Write a file of settings, with dots for the underscores of names. Returns its path."""
    path.write_text("".join(f"{name.replace('_', '.')}={value}\n" for name, value in settings.items()))
    return str(path)


def append_lines(source: Path, number: int) -> Sequence[str]:
    """Append the lines of a round, each with a number of its own. Returns them."""
    lines = [f"line {number * LINES + line}" for line in range(LINES)]
    with source.open("a") as file:
        file.writelines(f"{line}\n" for line in lines)
    return lines


def prove_copy(
    cluster: KafkaCluster, home: Path, worker: Callable[[KafkaCluster, Path, Path, Path], BenchProcess]
) -> str:
    """Copy a file through the kills. Raises `NotKept` if a line is lost, doubled or in another place."""
    source, copy = home / "source.txt", home / "copy.txt"
    source.touch()
    cluster.create(TOPIC)
    process = worker(cluster, home, source, copy)
    sent: list[str] = []

    def read_copy() -> list[str]:
        return copy.read_text().splitlines() if copy.exists() else []

    def work(number: int) -> None:
        sent.extend(append_lines(source, number))
        until(lambda: len(read_copy()) >= len(sent), f"copy of round {number}", within_s=PATIENCE_S, members=[process])

    with running([process]):
        strike_each(cluster, [(TOPIC, 1)], work)
    found = read_copy()
    if found != sent:
        lost, more = len(set(sent) - set(found)), len(found) - len(set(found))
        raise NotKept(f"{len(sent)} lines sent, {len(found)} copied: {lost} lost, {more} doubled")
    return f"{len(sent)} lines sent, {len(found)} copied in order"


def standalone(cluster: KafkaCluster, home: Path, source: Path, copy: Path) -> BenchProcess:
    """Returns a worker with both connectors in its command."""
    jars = bring_jars(f"kafka-connect-{VERSION}", Path(__file__).with_name("connect.xml"))
    files = (
        write_properties(
            home / "worker.properties",
            bootstrap_servers=cluster.bootstrap,
            offset_storage_file_filename=str(home / "offsets"),
            **WORKER,
        ),
        write_properties(
            home / "source.properties",
            name="source",
            connector_class=f"{FILE}SourceConnector",
            file=str(source),
            topic=TOPIC,
        ),
        write_properties(
            home / "sink.properties", name="sink", connector_class=f"{FILE}SinkConnector", file=str(copy), topics=TOPIC
        ),
    )
    return BenchProcess(["java", "-XX:TieredStopAtLevel=1", "-cp", jars, STANDALONE, *files], home / "worker")


PROGRAMS = (
    ForeignProgram(
        "Kafka Connect, standalone",
        VERSION,
        "every line from file to topic to file once and in order, through three kills",
        lambda cluster, home: prove_copy(cluster, home, standalone),
    ),
)
