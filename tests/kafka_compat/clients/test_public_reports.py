"""Public bug reports of brokers that speak Kafka's protocol: here clients see the behaviour of Apache Kafka."""

import time
import uuid
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, NewTopic

from kafka_compat.protocol.apis.describe_groups import DESCRIBE_GROUPS, DescribeGroupsRequest
from kafka_compat.protocol.apis.fetch import FETCH, FetchPartition, FetchRequest, FetchTopic
from kafka_compat.protocol.apis.list_offsets import (
    LIST_OFFSETS,
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from kafka_compat.protocol.apis.offset_for_leader_epoch import (
    OFFSET_FOR_LEADER_EPOCH,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from kafka_compat.protocol.apis.produce import PRODUCE, ProducePartition, ProduceRequest, ProduceTopic
from kafka_compat.protocol.batch_header import HEADER_BYTES, BatchHeader, encode_batch_header, read_batch_header
from kafka_compat.protocol.error_codes import KafkaErrorCode
from kafka_compat.records import encode_records, encode_varint
from tests.kafka_compat.foreign.wire import Wire
from tests.kafka_compat.packers import PACKERS, Packer

WITHIN_S = 30.0
HOUR_MS = 3_600_000
RETRIED = (KafkaErrorCode.UNKNOWN_TOPIC_OR_PARTITION, KafkaErrorCode.NOT_LEADER_OR_FOLLOWER)


@pytest.fixture
def leader(bootstrap: str, topic: str) -> Iterator[Wire]:
    """A connection to the leader of partition 0 of `topic`."""
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
    ends = time.monotonic() + WITHIN_S
    while True:
        known = admin.list_topics(topic, timeout=WITHIN_S)
        partition = known.topics[topic].partitions.get(0)
        if partition is not None and partition.leader in known.brokers:
            break
        assert time.monotonic() < ends, f"{topic} has no leader"
        time.sleep(0.1)  # the broker that was asked does not know it yet
    found = known.brokers[partition.leader]
    wire = Wire(f"{found.host}:{found.port}")
    yield wire
    wire.close()


def produce(leader: Wire, topic: str, records: bytes) -> tuple[KafkaErrorCode, int]:
    """The outcome of one batch, and its offset."""
    ends = time.monotonic() + WITHIN_S
    while True:
        partition = ProducePartition(index=0, records=records)
        data = (ProduceTopic(name=topic, partition_data=(partition,)),)
        answer = leader.ask(PRODUCE, 9, ProduceRequest(acks=-1, timeout_ms=10_000, topic_data=data))
        (found,) = answer.responses[0].partition_responses
        if found.error_code not in RETRIED or time.monotonic() > ends:
            return KafkaErrorCode(found.error_code), found.base_offset
        time.sleep(0.1)  # a new topic: the leader does not know it yets office


def batch(body: bytes, **changes: int) -> bytes:
    now_ms = time.time_ns() // 10**6
    fields: dict[str, int] = {
        "attributes": 0, "last_offset_delta": 0, "base_timestamp": now_ms, "max_timestamp": now_ms,
        "producer_id": -1, "producer_epoch": -1, "base_sequence": -1, "count": 1,
    } | changes  # fmt: skip
    header = BatchHeader(base_offset=0, length=0, leader_epoch=-1, magic=2, crc=0, **fields)
    return encode_batch_header(header, body) + body


def body(*times: int) -> bytes:
    return encode_records([(b"k", b"v")] * len(times), list(times))[HEADER_BYTES:]


def values(bootstrap: str, topic: str, count: int) -> list[bytes]:
    """The first records as librdkafka reads them. Raises `KafkaException` if it cannot."""
    consumer = Consumer(
        {"bootstrap.servers": bootstrap, "group.id": uuid.uuid4().hex, "auto.offset.reset": "earliest", "log_level": 0}
    )
    consumer.assign([TopicPartition(topic, 0, 0)])
    found: list[bytes] = []
    ends = time.monotonic() + WITHIN_S
    while len(found) < count and time.monotonic() < ends:
        message = consumer.poll(0.2)
        if message is None:
            continue
        if message.error():
            raise KafkaException(message.error())
        found.append(message.value())
    consumer.close()
    return found


# ---------------------------------------------------------------- times


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_a_record_is_found_by_its_own_time_in_a_batch_of_any_codec(bootstrap: str, topic: str, codec: str) -> None:
    """redpanda#25769: it was the time of the batch."""
    producer = Producer(
        {"bootstrap.servers": bootstrap, "linger.ms": 500, "compression.type": codec, "enable.idempotence": False}
    )
    first = time.time_ns() // 10**6 - 600_000
    for number in range(12):
        producer.produce(topic, b"record %d" % number + bytes(100), timestamp=first + number * 1000, partition=0)
    assert producer.flush(WITHIN_S) == 0
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "times", "log_level": 0})
    asked = [TopicPartition(topic, 0, first + number * 1000 - 400) for number in range(12)]
    found = [consumer.offsets_for_times([each], timeout=WITHIN_S)[0].offset for each in asked]
    consumer.close()
    assert found == list(range(12))


@pytest.mark.parametrize(
    ("ahead_ms", "error"),
    [(0, "NONE"), (HOUR_MS - 60_000, "NONE"), (2 * HOUR_MS, "INVALID_TIMESTAMP"), (10**15, "INVALID_TIMESTAMP")],
)
def test_a_time_far_ahead_is_refused(leader: Wire, topic: str, ahead_ms: int, error: str) -> None:
    """KAFKA-14991: microseconds that were taken for milliseconds never expire."""
    now_ms = time.time_ns() // 10**6
    assert produce(leader, topic, encode_records([(None, b"v")], now_ms + ahead_ms))[0].name == error


@pytest.mark.parametrize("pack", [PACKERS["none"], PACKERS["gzip"], PACKERS["zstd"]], ids=["none", "gzip", "zstd"])
@pytest.mark.parametrize("claimed", [None, -7, 500_000], ids=["unset", "too small", "too large"])
def test_the_leader_writes_the_newest_time_of_a_batch(
    leader: Wire, topic: str, pack: Packer, claimed: int | None
) -> None:
    """IBM/sarama#3108: a client left it unset, so its records were never found by time and never expired."""
    base = time.time_ns() // 10**6 - 100_000
    codec, packed = pack(body(base, base + 2000, base + 1000))
    sent = -1 if claimed is None else base + claimed
    content = batch(packed, attributes=codec, count=3, last_offset_delta=2, base_timestamp=base, max_timestamp=sent)
    assert produce(leader, topic, content) == (KafkaErrorCode.NONE, 0)
    partition = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1 << 20)
    request = FetchRequest(max_wait_ms=500, min_bytes=1, topics=(FetchTopic(topic=topic, partitions=(partition,)),))
    (fetched,) = leader.ask(FETCH, 11, request).responses[0].partitions
    assert read_batch_header(fetched.records).max_timestamp == base + 2000
    assert [by_time(leader, topic, base + each) for each in (0, 1, 2000, 2001)] == [0, 1, 1, -1]


def by_time(leader: Wire, topic: str, timestamp: int) -> int:
    partition = ListOffsetsPartition(partition_index=0, timestamp=timestamp)
    request = ListOffsetsRequest(replica_id=-1, topics=(ListOffsetsTopic(name=topic, partitions=(partition,)),))
    (found,) = leader.ask(LIST_OFFSETS, 5, request).topics[0].partitions
    return int(found.offset)


# ---------------------------------------------------------------- broken batches


def test_what_no_client_could_read_is_refused_and_the_partition_stays_readable(
    leader: Wire, bootstrap: str, topic: str
) -> None:
    """KAFKA-5031: a leader that takes such a batch leaves a partition that no consumer gets past."""
    now = time.time_ns() // 10**6
    good, two = body(now), body(now, now)
    unreadable = {"INVALID_RECORD", "CORRUPT_MESSAGE", "UNKNOWN_SERVER_ERROR"}  # Apache answers the last for some
    wrong = [
        (batch(good)[:17] + bytes(4) + batch(good)[21:], {"CORRUPT_MESSAGE"}),
        (batch(b"", count=0, last_offset_delta=-1), {"INVALID_RECORD"}),
        (batch(two, count=2, last_offset_delta=5), {"INVALID_RECORD"}),
        (batch(good, attributes=0x20), {"INVALID_RECORD"}),
        (batch(good, producer_id=5, producer_epoch=0), {"INVALID_RECORD"}),
        (batch(good) + batch(good), {"INVALID_RECORD"}),
        (batch(good, count=3, last_offset_delta=2), unreadable),
        (batch(two), unreadable),
        (batch(b"\xff" * 40), unreadable),
        (batch(encode_varint(200) + good[1:]), unreadable),
        (batch(PACKERS["gzip"](two)[1], attributes=1), unreadable),
        *((batch(good, attributes=codec), unreadable) for codec in (1, 2, 3, 4)),
    ]
    for number, (content, errors) in enumerate(wrong):
        assert produce(leader, topic, content)[0].name in errors, number
    assert produce(leader, topic, encode_records([(None, b"after")], now)) == (KafkaErrorCode.NONE, 0)
    assert values(bootstrap, topic, 1) == [b"after"]


# ---------------------------------------------------------------- settings


def test_what_is_described_of_a_topic_can_be_written_when_it_is_made_and_afterwards(bootstrap: str, topic: str) -> None:
    """redpanda#135, #4310: tools give each setting that they know, and write back what they read."""
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
    resource = ConfigResource(ConfigResource.Type.TOPIC, topic)
    rows = admin.describe_configs([resource])[resource].result(WITHIN_S)
    described = {name: each.value for name, each in rows.items()}
    assert len(described) >= 33
    new = NewTopic("settings", 1, 1, config=described)
    admin.create_topics([new], validate_only=True)["settings"].result(WITHIN_S)
    entries = [
        ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET) for name, value in described.items()
    ]
    back = ConfigResource(ConfigResource.Type.TOPIC, topic, incremental_configs=entries)
    admin.incremental_alter_configs([back])[back].result(WITHIN_S)


def test_a_topic_stores_the_codec_and_the_time_that_it_asks_for(bootstrap: str, new_topic: Callable[..., str]) -> None:
    """redpanda#866, confluent-kafka-python#835: both settings were taken, and without effect."""
    before = time.time_ns() // 10**6
    producer = Producer({"bootstrap.servers": bootstrap, "compression.type": "gzip", "log_level": 0})
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "stored", "log_level": 0})
    for codec in ("uncompressed", "snappy", "lz4"):
        topic = new_topic(compression_type=codec, message_timestamp_type="LogAppendTime")
        for number in range(3):
            producer.produce(topic, b"record %d" % number + bytes(1000), timestamp=2, partition=0)
        assert producer.flush(WITHIN_S) == 0
        consumer.assign([TopicPartition(topic, 0, 0)])
        found = consumer.consume(3, WITHIN_S)
        assert [each.value()[:8] for each in found] == [b"record 0", b"record 1", b"record 2"]
        assert all(each.timestamp()[0] == 2 and each.timestamp()[1] >= before for each in found), codec
    consumer.close()


@pytest.mark.filterwarnings("ignore:alter_configs:DeprecationWarning")
def test_older_clients_replace_all_settings_of_a_topic(bootstrap: str, new_topic: Callable[..., str]) -> None:
    """redpanda#1502, kafka-python#2191: clients that know only AlterConfigs were refused."""
    topic = new_topic(retention_ms="1000000", segment_bytes="2000000")
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
    altered = ConfigResource(ConfigResource.Type.TOPIC, topic, set_config={"retention.ms": "2000000"})
    admin.alter_configs([altered])[altered].result(WITHIN_S)
    asked = ConfigResource(ConfigResource.Type.TOPIC, topic)
    ends = time.monotonic() + WITHIN_S
    while True:  # the broker that is asked may be behind
        rows = admin.describe_configs([asked])[asked].result(WITHIN_S)
        found = {name: (rows[name].value, rows[name].is_default) for name in ("retention.ms", "segment.bytes")}
        if found == {"retention.ms": ("2000000", False), "segment.bytes": ("1073741824", True)}:
            return
        assert time.monotonic() < ends, found
        time.sleep(0.1)


# ---------------------------------------------------------------- what is not there


def test_the_newer_group_protocol_is_there_or_refused_with_a_reason(bootstrap: str, topic: str, group: str) -> None:
    """KAFKA-17536: a consumer waited without end."""
    consumer = Consumer(
        {"bootstrap.servers": bootstrap, "group.id": group, "group.protocol": "consumer", "log_level": 0}
    )
    consumer.subscribe([topic])
    seen = ""
    ends = time.monotonic() + WITHIN_S
    try:
        while not seen and time.monotonic() < ends:
            message = consumer.poll(0.2)
            if message is not None and message.error():
                seen = message.error().str()
            elif consumer.assignment():
                seen = "assigned"
    except KafkaException as refused:
        seen = refused.args[0].str()
    finally:
        consumer.close()
    assert seen == "assigned" or "API version not supported" in seen


# ---------------------------------------------------------------- fields


def test_an_epoch_that_is_to_come_has_no_end(leader: Wire, topic: str) -> None:
    """KIP-320: a consumer takes an end for the place from which records were lost."""
    assert produce(leader, topic, encode_records([(None, b"v")], time.time_ns() // 10**6))[0].name == "NONE"

    def end_of(epoch: int) -> tuple[int, int, int]:
        partition = OffsetForLeaderPartition(partition=0, leader_epoch=epoch)
        topics = (OffsetForLeaderTopic(topic=topic, partitions=(partition,)),)
        answer = leader.ask(OFFSET_FOR_LEADER_EPOCH, 3, OffsetForLeaderEpochRequest(replica_id=-1, topics=topics))
        (found,) = answer.topics[0].partitions
        return found.error_code, found.leader_epoch, found.end_offset

    assert end_of(0) == (0, 0, 1)
    assert end_of(7) == (0, -1, -1)


def test_operations_on_a_group_are_answered_to_who_asks(
    bootstrap: str, new_topic: Callable[..., str], group: str
) -> None:
    """KIP-430."""
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": group, "log_level": 0})
    name = new_topic()
    consumer.commit(offsets=[TopicPartition(name, 0, 0)], asynchronous=False)
    consumer.close()
    found: Any = admin.describe_consumer_groups([group])[group].result(WITHIN_S)
    wire = Wire(f"{found.coordinator.host}:{found.coordinator.port}")
    for asks, expected in ((False, -(2**31)), (True, 3400)):
        request = DescribeGroupsRequest(groups=(group,), include_authorized_operations=asks)
        (described,) = wire.ask(DESCRIBE_GROUPS, 5, request).groups
        assert (described.error_code, described.authorized_operations) == (0, expected)
    wire.close()
