"""Brokers as processes, stopped in turn or killed at once, with damage on one disk: no acknowledged record is lost."""

import json
import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, TopicPartition

from jepsen_like.testing.kafka.sync import ProcessKafka

pytestmark = pytest.mark.cluster

QUICK = {
    "broker.session.timeout.ms": 2000,
    "broker.heartbeat.interval.ms": 300,
    "default.replication.factor": 3,
    "num.partitions": 1,
}
RECORDS = 60


def send(cluster: ProcessKafka, name: str) -> None:
    producer = cluster.producer({"log_level": 0, "linger.ms": 0})
    for number in range(RECORDS):
        producer.produce("orders", f"{name} {number}".encode())
        if number % 20 == 0:
            producer.flush(30)
    assert producer.flush(60) == 0


def log_of(home: Path, broker: int) -> Path:
    (found,) = home.glob(f"**/{broker}/**/logs/orders-0")
    return found


def flip(home: Path, broker: int) -> None:
    """Flip a bit in the middle of the newest segment that holds anything."""
    newest = max(
        (each for each in log_of(home, broker).glob("*.log") if each.stat().st_size), key=lambda each: each.name
    )
    content = bytearray(newest.read_bytes())
    content[len(content) // 2] ^= 8
    newest.write_bytes(content)


def remove_partition(home: Path, broker: int) -> None:
    shutil.rmtree(log_of(home, broker))


def remove_disk(home: Path, broker: int) -> None:
    """All of its partitions; its metadata stays."""
    shutil.rmtree(log_of(home, broker).parents[1])


@pytest.fixture
def open_cluster(tmp_path: Path) -> Iterator[Callable[..., ProcessKafka]]:
    """Opens a cluster on the directory of the test."""
    opened: list[ProcessKafka] = []

    def begin(min_insync: int, **more: int) -> ProcessKafka:
        given = {name.replace("_", "."): value for name, value in more.items()}
        settings = {**QUICK, "min.insync.replicas": min_insync, **given}
        opened.append(ProcessKafka.open(brokers=3, settings=settings, directory=tmp_path).__enter__())
        return opened[-1]

    yield begin
    for cluster in opened:
        cluster.__exit__(None, None, None)


@pytest.mark.campaign
@pytest.mark.parametrize("min_insync", [1, 2])
def test_all_are_stopped_in_turn_and_the_last_one_is_damaged(
    open_cluster: Callable[..., ProcessKafka], tmp_path: Path, min_insync: int
) -> None:
    cluster = open_cluster(min_insync)
    send(cluster, "before")
    for broker in (2, 3, 1):
        cluster.stop(broker)
    flip(tmp_path, 1)
    for broker in (1, 2, 3):
        cluster.start(broker)
    cluster.wait_until_serving()
    verdict = cluster.check()
    assert (verdict.valid, verdict.acknowledged) == (True, RECORDS), str(verdict)


@pytest.mark.parametrize(
    ("min_insync", "damage"),
    [
        pytest.param(1, remove_partition, id="partition", marks=pytest.mark.campaign),
        pytest.param(2, flip, id="flip", marks=pytest.mark.campaign),
        pytest.param(1, remove_disk, id="disk", marks=pytest.mark.campaign),
    ],
)
def test_all_are_killed_at_once_and_one_is_damaged(
    open_cluster: Callable[..., ProcessKafka], tmp_path: Path, min_insync: int, damage: Callable[[Path, int], None]
) -> None:
    """The damaged one is the one that a controller would fence last, and the first to start."""
    cluster = open_cluster(min_insync)
    send(cluster, "before")
    cluster.kill(1, 2, 3)
    damage(tmp_path, 3)
    for broker in (3, 1, 2):
        cluster.start(broker)
    cluster.wait_until_serving()
    send(cluster, "after")
    verdict = cluster.check()
    assert (verdict.valid, verdict.acknowledged) == (True, 2 * RECORDS), str(verdict)


def test_damage_that_a_consumer_meets_ends_no_process_and_is_fetched_again(
    open_cluster: Callable[..., ProcessKafka], tmp_path: Path
) -> None:
    cluster = open_cluster(1, log_segment_bytes=4096)
    send(cluster, "before")
    leader = cluster.leader("orders")
    oldest = min(each for each in log_of(tmp_path, leader).glob("*.log"))
    content = bytearray(oldest.read_bytes())
    content[100] ^= 8
    oldest.write_bytes(content)
    settings = {"bootstrap.servers": cluster.bootstrap_servers, "group.id": "g", "auto.offset.reset": "earliest"}
    consumer = Consumer({**settings, "log_level": 0})
    consumer.assign([TopicPartition("orders", 0, 0)])
    found: list[bytes] = []
    deadline = time.monotonic() + 60
    while len(found) < RECORDS and time.monotonic() < deadline:
        message = consumer.poll(0.2)
        if message is not None and message.error() is None:
            found.append(message.value())
    consumer.close()
    assert found == [f"before {number}".encode() for number in range(RECORDS)]
    send(cluster, "after")
    verdict = cluster.check()
    assert (verdict.valid, verdict.acknowledged) == (True, 2 * RECORDS), str(verdict)
    events = [json.loads(line)["event"] for line in (tmp_path / str(leader) / "events.jsonl").read_text().splitlines()]
    assert events.count("damage") == 2  # as it is met, and as it is repaired
    assert not {"failed", "stopped"} & {*events}
