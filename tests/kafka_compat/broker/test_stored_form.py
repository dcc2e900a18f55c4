"""A leader stores batches in the codec of their topic, and with its own time where the topic asks for it."""

import random
from collections.abc import Iterator
from typing import Any

import pytest

from kafka_compat.broker.requests.produce import ProduceRequests
from kafka_compat.compression import GZIP, compress
from kafka_compat.model import TopicPartition
from kafka_compat.protocol.apis.produce import (
    PRODUCE,
    ProducePartition,
    ProducePartitionResponse,
    ProduceRequest,
    ProduceTopic,
)
from kafka_compat.protocol.batch_header import HEADER_BYTES, BatchHeader, check_batch, encode_batch_header
from kafka_compat.protocol.error_codes import KafkaErrorCode
from kafka_compat.records import encode_records, read_records
from kafka_compat.stored_form import CODECS, PRODUCER
from tests.kafka_compat.broker.world import World, ask, world
from tests.kafka_compat.packers import PACKERS, Packer

PART = TopicPartition("t", 0)
VERSION = 9
TIMES = [1_005_000, 1_001_000, 1_003_000]
RECORDS = [(b"k", b"v" * 500), (None, b""), (b"k2", None)]
STAMPED = "log.message.timestamp.type=LogAppendTime"


class Topic:
    """One partition that this broker leads, and Produce."""

    def __init__(self, made: World) -> None:
        self.world = made
        self._produces = ProduceRequests(made.context, made.replicas, made.coordinators.verification)
        made.topic("t")

    @property
    def now_ms(self) -> int:
        return self.world.context.wall_ms()

    def produce(self, batch: bytes) -> ProducePartitionResponse:
        partitions = (ProducePartition(index=0, records=memoryview(batch)),)
        request = ProduceRequest(
            acks=1, timeout_ms=1000, topic_data=(ProduceTopic(name="t", partition_data=partitions),)
        )
        answer: Any = ask(self._produces.produce, PRODUCE, VERSION, request).answer
        (found,) = answer.responses[0].partition_responses
        assert isinstance(found, ProducePartitionResponse)
        return found

    def read_stored(self) -> tuple[BatchHeader, bytes]:
        """The newest batch, checked as a client would check it."""
        log = self.world.replicas.hosted[PART].log
        (batch,) = log.read(log.end_offset - 1, 1)
        return check_batch(batch), bytes(batch)


@pytest.fixture
def topic(request: pytest.FixtureRequest) -> Iterator[Topic]:
    with world(*getattr(request, "param", ())) as made:
        yield Topic(made)


def pack_batch(pack: Packer, **changes: int) -> bytes:
    codec, body = pack(encode_records(RECORDS, TIMES)[HEADER_BYTES:])
    fields: dict[str, int] = {"producer_id": -1, "producer_epoch": -1, "base_sequence": -1} | changes
    header = BatchHeader(0, 0, -1, 2, 0, codec, len(RECORDS) - 1, TIMES[0], max(TIMES), count=len(RECORDS), **fields)
    return encode_batch_header(header, body) + body


def contents(batch: bytes) -> list[tuple[bytes | None, bytes | None]]:
    return [(each.key, each.value) for each in read_records(batch)]


@pytest.mark.parametrize("pack", PACKERS.values(), ids=PACKERS)
@pytest.mark.parametrize("topic", [(f"compression.type={name}",) for name in CODECS], ids=list(CODECS), indirect=True)
def test_a_batch_is_stored_in_the_codec_of_its_topic(topic: Topic, pack: Packer) -> None:
    answer = topic.produce(pack_batch(pack))
    header, batch = topic.read_stored()
    codec = CODECS[topic.world.context.settings.text("compression.type") or ""]
    assert (answer.error_code, answer.log_append_time_ms, header.compression) == (KafkaErrorCode.NONE, -1, codec)
    assert (contents(batch), header.max_timestamp) == (RECORDS, max(TIMES))
    assert [each.timestamp_ms for each in read_records(batch)] == TIMES


@pytest.mark.parametrize("pack", PACKERS.values(), ids=PACKERS)
def test_by_default_a_batch_keeps_its_bytes(topic: Topic, pack: Packer) -> None:
    assert topic.world.context.settings.text("compression.type") == PRODUCER
    sent = pack_batch(pack)
    topic.produce(sent)
    assert topic.read_stored()[1][16:] == sent[16:]


@pytest.mark.parametrize("pack", PACKERS.values(), ids=PACKERS)
@pytest.mark.parametrize("topic", [(STAMPED,), (STAMPED, "compression.type=zstd")], ids=["", "zstd"], indirect=True)
def test_a_stamped_batch_has_the_time_of_the_leader(topic: Topic, pack: Packer) -> None:
    answer = topic.produce(pack_batch(pack))
    header, batch = topic.read_stored()
    assert header.has_append_time
    assert answer.log_append_time_ms == header.max_timestamp == topic.now_ms
    assert [each.timestamp_ms for each in read_records(batch)] == [topic.now_ms] * 3
    assert contents(batch) == RECORDS


@pytest.mark.parametrize("topic", [(STAMPED,)], indirect=True)
def test_a_stamped_topic_takes_any_time_and_finds_offsets_by_its_own(topic: Topic) -> None:
    topic.produce(encode_records([(b"k", b"v")], 10**15))
    first_ms = topic.now_ms
    topic.world.now += 5
    topic.produce(encode_records([(b"k", b"v")] * 2, 2))
    log = topic.world.replicas.hosted[PART].log
    assert log.find_time(first_ms) == (0, first_ms)
    assert log.find_time(first_ms + 1) == (1, first_ms + 5000)
    assert log.find_time(first_ms + 5001) is None


@pytest.mark.parametrize("topic", [(STAMPED,)], indirect=True)
def test_a_duplicate_is_answered_with_its_first_stamp(topic: Topic) -> None:
    batch = pack_batch(PACKERS["none"], producer_id=5, producer_epoch=0, base_sequence=0)
    first = topic.produce(batch)
    topic.world.now += 5
    again = topic.produce(batch)
    assert (again.base_offset, again.log_append_time_ms) == (first.base_offset, first.log_append_time_ms)
    assert first.log_append_time_ms == topic.now_ms - 5000


@pytest.mark.parametrize("topic", [("compression.type=uncompressed", "message.max.bytes=2000")], indirect=True)
def test_a_batch_that_grows_beyond_the_largest_size_is_refused(topic: Topic) -> None:
    records = encode_records([(None, b"v" * 3000)], 1_000_000)[HEADER_BYTES:]
    codec, body = PACKERS["gzip"](records)
    header = BatchHeader(0, 0, -1, 2, 0, codec, 0, 1_000_000, 1_000_000, -1, -1, -1, 1)
    answer = topic.produce(encode_batch_header(header, body) + body)
    assert answer.error_code == KafkaErrorCode.MESSAGE_TOO_LARGE
    assert (
        answer.error_message
        == f"invalid batch at byte 0: {HEADER_BYTES + len(records)} bytes, max.message.bytes is 2000"
    )
    assert topic.world.replicas.hosted[PART].log.end_offset == 0


@pytest.mark.parametrize(
    "topic", [("compression.type=gzip", f"compression.gzip.level={level}") for level in (1, 9)], indirect=True
)
def test_the_level_counts(topic: Topic) -> None:
    rng = random.Random(1)
    text = b" ".join(rng.choice([b"append", b"trim", b"fence", b"orphan"]) for _ in range(3000))
    sent = encode_records([(None, text)], 1_000_000)
    topic.produce(sent)
    level = int(topic.world.context.settings.text("compression.gzip.level") or 0)
    others = {len(compress(GZIP, sent[HEADER_BYTES:], each)): each for each in (1, 9)}
    assert others[topic.read_stored()[0].size - HEADER_BYTES] == level
