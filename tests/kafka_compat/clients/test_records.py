"""Records go in and come out as they were, by every client, with every codec and every acks."""

import time
from collections.abc import Callable, Sequence

import pytest

from jepsen_like.bench.kafka.cluster import KafkaCluster
from tests.kafka_compat.clients.adapters import Acks, Client, Message, number_messages, read_some, values
from tests.kafka_compat.clients.by_confluent import ConfluentClient
from tests.kafka_compat.clients.conftest import CLIENTS
from tests.kafka_compat.clients.log_dirs import stored_bytes

REPEATING = [Message(b"the same again " * 60) for _ in range(200)]
LARGE_BYTES = 900_000


@pytest.mark.parametrize("acks", ["0", "1", "all"])
def test_records_arrive_in_order_with_every_acks(client: Client, topic: str, acks: Acks) -> None:
    sent = number_messages(50)
    offsets = client.produce(topic, sent, acks=acks)
    if acks != "0":
        assert offsets == list(range(50))
    read = client.consume(topic, 50)
    assert [one.offset for one in read] == list(range(50))
    assert values(read) == [message.value for message in sent]


def test_keys_headers_timestamps_and_nulls_come_back_as_they_were_sent(client: Client, topic: str) -> None:
    sent = [
        Message(b"value", b"key", (("name", b"header"), ("name", b"again")), 1_700_000_000_123),
        Message(None, b"deleted", (), 1_700_000_000_124),
        Message(b"", b"", (("empty", b""),), 1_700_000_000_125),
    ]
    client.produce(topic, sent)
    read = client.consume(topic, 3)
    assert [Message(one.value, one.key, one.headers, one.timestamp_ms) for one in read] == sent


@pytest.mark.parametrize(
    ("kind", "codec"),
    [pytest.param(kind, codec, id=f"{kind.name}-{codec}") for kind in CLIENTS for codec in kind.codecs],
)
def test_what_a_client_compresses_is_stored_compressed_and_read_the_same(
    kind: type[Client], codec: str, cluster: KafkaCluster, topic: str
) -> None:
    client = kind(cluster.bootstrap)
    client.produce(topic, REPEATING, codec=codec)
    raw = sum(len(message.value or b"") for message in REPEATING)
    size = stored_bytes(cluster.bootstrap, topic)[0]
    assert size > raw if codec == "none" else size < raw / 10
    assert values(client.consume(topic, len(REPEATING))) == [message.value for message in REPEATING]


def test_an_idempotent_producer_writes_each_record_once(client: Client, topic: str) -> None:
    assert client.produce(topic, number_messages(200), idempotent=True) == list(range(200))
    assert client.bounds(topic) == (0, 200)


def test_what_one_client_writes_every_other_reads(bootstrap: str, client: Client, topic: str) -> None:
    sent = number_messages(20)
    ConfluentClient(bootstrap).produce(topic, sent, codec="gzip")
    assert values(client.consume(topic, 20)) == [message.value for message in sent]


def test_reading_starts_at_any_offset_also_within_a_batch(client: Client, topic: str) -> None:
    sent = number_messages(100)
    client.produce(topic, sent)
    for start in (0, 37, 99):
        read = client.consume(topic, 100 - start, start=start)
        assert [one.offset for one in read] == list(range(start, 100))
        assert values(read) == [message.value for message in sent[start:]]


def test_large_records_arrive_whole(client: Client, topic: str) -> None:
    sent = [Message(bytes([number]) * LARGE_BYTES) for number in range(3)]
    client.produce(topic, sent)
    assert values(client.consume(topic, 3)) == [message.value for message in sent]


def test_every_partition_has_offsets_of_its_own(client: Client, new_topic: Callable[..., str]) -> None:
    topic = new_topic(3)
    for partition in range(3):
        assert client.produce(topic, number_messages(partition + 1, f"p{partition}"), partition=partition) == [
            *range(partition + 1)
        ]
    assert [client.bounds(topic, partition) for partition in range(3)] == [(0, 1), (0, 2), (0, 3)]
    assert values(client.consume(topic, 3, partition=2)) == [b"p2 0", b"p2 1", b"p2 2"]


def test_a_time_finds_the_first_record_that_is_not_older(client: Client, new_topic: Callable[..., str]) -> None:
    topic = new_topic(retention_ms="-1")
    start = 1_700_000_000_000
    for part in range(4):
        client.produce(topic, [Message(f"{n}".encode(), timestamp_ms=start + 1000 * n) for n in times(part)])
    assert client.offset_at(topic, start) == 0
    assert client.offset_at(topic, start - 5) == 0
    assert client.offset_at(topic, start + 7000) == 7
    assert client.offset_at(topic, start + 7001) == 8
    assert client.offset_at(topic, start + 19_000) == 19
    assert client.offset_at(topic, start + 19_001) is None


def times(part: int) -> Sequence[int]:
    """Five in each batch."""
    return range(5 * part, 5 * part + 5)


def test_a_waiting_consumer_gets_a_record_at_once(client: Client, topic: str) -> None:
    """Within half of what it would wait for: a fetch that waits is answered when there is something to read."""
    with client.joining(f"{topic}-readers", topic) as reader, client.sending(topic) as sender:
        sender.send(b"first")
        read_some(reader)
        took = []
        for number in range(5):
            began = time.monotonic()
            sender.send(f"{number}".encode())
            read_some(reader)
            took.append(time.monotonic() - began)
    assert sorted(took)[2] < 0.25
