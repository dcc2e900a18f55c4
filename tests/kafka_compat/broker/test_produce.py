"""Produce at its handler: accepted and refused batches, the words of refusals, and the cutting of long requests."""

import gzip
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from kafka_compat.broker.requests import produce as module
from kafka_compat.broker.requests.produce import ProduceRequests
from kafka_compat.broker.verification import Verification
from kafka_compat.model import TRANSACTIONS_TOPIC, TopicPartition
from kafka_compat.partition.model import BatchKind
from kafka_compat.protocol.apis.produce import (
    PRODUCE,
    ProducePartition,
    ProducePartitionResponse,
    ProduceRequest,
    ProduceTopic,
)
from kafka_compat.protocol.batch_header import (
    HEADER_BYTES,
    TRANSACTIONAL,
    BatchHeader,
    batch_headers,
    check_batch,
    encode_batch_header,
)
from kafka_compat.protocol.error_codes import KafkaErrorCode
from kafka_compat.records import encode_records, encode_varint, read_records
from kafka_compat.transactions.effects import TransactionAnswer
from tests.kafka_compat.broker.world import Asked, Connection, World, ask, world
from tests.kafka_compat.packers import PACKERS, Packer

T0 = TopicPartition("t", 0)
VERSION = 9
HOUR_MS = 3_600_000


class Broker:
    """A world whose only topic is led, with the handler of Produce."""

    def __init__(self, made: World) -> None:
        self.world = made
        self.produces = ProduceRequests(made.context, made.replicas, made.coordinators.verification)
        made.topic("t", partitions=3)

    @property
    def now_ms(self) -> int:
        return self.world.context.wall_ms()

    def send(
        self,
        *batches: bytes,
        acks: int = 1,
        connection: Any = None,
        version: int = VERSION,
        transactional_id: str | None = None,
    ) -> Asked:
        """One batch for each partition."""
        partitions = tuple(ProducePartition(index=at, records=memoryview(each)) for at, each in enumerate(batches))
        request = ProduceRequest(
            transactional_id=transactional_id,
            acks=acks,
            timeout_ms=1000,
            topic_data=(ProduceTopic(name="t", partition_data=partitions),),
        )
        return ask(self.produces.produce, PRODUCE, version, request, connection)

    def outcome(self, content: bytes) -> ProducePartitionResponse:
        (answer,) = self.send(content).answer.responses[0].partition_responses
        assert isinstance(answer, ProducePartitionResponse)
        return answer

    def read_stored(self, partition: int = 0) -> list[bytes]:
        log = self.world.replicas.hosted[TopicPartition("t", partition)].log
        return [bytes(each.payload) for each in log.store_log.read(0, 1 << 24)]


@pytest.fixture
def broker() -> Iterator[Broker]:
    with world() as made:
        yield Broker(made)


def batch(body: bytes, **changes: int) -> bytes:
    fields: dict[str, int] = {
        "attributes": 0, "last_offset_delta": 0, "base_timestamp": 1_000_000, "max_timestamp": 1_000_000,
        "producer_id": -1, "producer_epoch": -1, "base_sequence": -1, "count": 1,
    } | changes  # fmt: skip
    header = BatchHeader(base_offset=0, length=0, leader_epoch=-1, magic=2, crc=0, **fields)
    return encode_batch_header(header, body) + body


def records(*times: int) -> bytes:
    return encode_records([(b"k", b"v")] * len(times), [1_000_000 + time for time in times])[HEADER_BYTES:]


GOOD = batch(records(0))
LONG = encode_varint(200) + records(0)[1:]


@pytest.mark.parametrize(
    ("content", "error", "words"),
    [
        (GOOD, "NONE", None),
        (GOOD[:17] + b"\0\0\0\1" + GOOD[21:], "CORRUPT_MESSAGE", "CRC-32C 00000001"),
        (GOOD[:-1], "CORRUPT_MESSAGE", "left"),
        (batch(b"", count=0, last_offset_delta=-1), "INVALID_RECORD", "0 records, last offset delta -1"),
        (batch(records(0, 0), count=2, last_offset_delta=5), "INVALID_RECORD", "2 records, last offset delta 5"),
        (batch(records(0), attributes=0x20), "INVALID_RECORD", "no control batches"),
        (batch(records(0), attributes=0x10), "INVALID_RECORD", "has a producer id and a sequence"),
        (
            batch(records(0), attributes=0x10, producer_id=5, producer_epoch=0, base_sequence=0),
            "TRANSACTIONAL_ID_AUTHORIZATION_FAILED",
            "needs the transactional id",
        ),
        (batch(records(0), producer_id=5, producer_epoch=0), "INVALID_RECORD", None),
        (batch(records(0), producer_id=5, base_sequence=0), "INVALID_RECORD", None),
        (batch(records(0), count=3, last_offset_delta=2), "INVALID_RECORD", "3 records in 9 bytes"),
        (batch(records(0, 0, 0)), "INVALID_RECORD", "18 bytes follow the 1 records"),
        (batch(b"\xff" * 40), "INVALID_RECORD", "record 0 holds a number that is not whole"),
        (batch(LONG), "INVALID_RECORD", "record 0 has a length of 200 bytes"),
        (batch(records(0), attributes=1), "INVALID_RECORD", "no gzip"),
        (batch(records(0), attributes=2), "INVALID_RECORD", "no snappy"),
        (batch(records(0), attributes=3), "INVALID_RECORD", "no LZ4"),
        (batch(records(0), attributes=4), "INVALID_RECORD", "no zstd"),
        (batch(records(0), attributes=5), "UNSUPPORTED_COMPRESSION_TYPE", "codec 5 is unknown"),
        (batch(gzip.compress(records(0, 0), mtime=0), attributes=1), "INVALID_RECORD", "9 bytes follow the 1 records"),
        (GOOD + GOOD, "INVALID_RECORD", "more than one batch"),
        (batch(records(0), attributes=8), "INVALID_TIMESTAMP", "time of appending"),
        (b"", "INVALID_RECORD", "exactly one batch"),
        (GOOD + bytes(1_100_000), "MESSAGE_TOO_LARGE", "max.message.bytes is 1048588"),
    ],
)
def test_a_batch_is_taken_or_refused_in_words(broker: Broker, content: bytes, error: str, words: str | None) -> None:
    answer = broker.outcome(content)
    assert KafkaErrorCode(answer.error_code).name == error
    assert (answer.error_message or "").find(words or "") >= 0
    assert len(broker.read_stored()) == (error == "NONE")


@pytest.mark.parametrize(
    ("ahead_ms", "error"),
    [
        (0, "NONE"),
        (HOUR_MS, "NONE"),
        (HOUR_MS + 1, "INVALID_TIMESTAMP"),
        (-(2**40), "NONE"),
        (2**50, "INVALID_TIMESTAMP"),
    ],
)
def test_a_time_too_far_ahead_is_refused_and_the_record_is_named(broker: Broker, ahead_ms: int, error: str) -> None:
    time = broker.now_ms + ahead_ms
    answer = broker.outcome(encode_records([(None, b"a"), (None, b"b")], [broker.now_ms, time]))
    assert KafkaErrorCode(answer.error_code).name == error
    assert [each.batch_index for each in answer.record_errors] == ([] if error == "NONE" else [1])


def test_how_far_a_time_may_be_off_is_a_setting() -> None:
    with world("log.message.timestamp.after.max.ms=5", "log.message.timestamp.before.max.ms=7") as made:
        broker = Broker(made)
        for off, error in ((5, "NONE"), (6, "INVALID_TIMESTAMP"), (-7, "NONE"), (-8, "INVALID_TIMESTAMP")):
            answer = broker.outcome(encode_records([(None, b"a")], broker.now_ms + off))
            assert KafkaErrorCode(answer.error_code).name == error


@pytest.mark.parametrize("pack", PACKERS.values(), ids=PACKERS)
@pytest.mark.parametrize("claimed", [-1, 5, 1_000_007, 2**62])
def test_the_leader_writes_the_newest_time(broker: Broker, pack: Packer, claimed: int) -> None:
    codec, body = pack(records(0, 7, 3))
    content = batch(body, attributes=codec, count=3, last_offset_delta=2, max_timestamp=claimed)
    assert broker.outcome(content).error_code == KafkaErrorCode.NONE
    (stored,) = broker.read_stored()
    assert check_batch(stored).max_timestamp == 1_000_007
    assert stored[HEADER_BYTES:] == content[HEADER_BYTES:]
    log = broker.world.replicas.hosted[T0].log
    found = [log.find_time(1_000_000 + time) for time in (0, 1, 7, 8)]
    assert found == [(0, 1_000_000), (1, 1_000_007), (1, 1_000_007), None]
    assert log.find_newest_time() == (1, 1_000_007)


def test_a_batch_whose_newest_time_is_right_is_stored_as_it_was_sent(broker: Broker) -> None:
    broker.outcome(GOOD)
    (stored,) = broker.read_stored()
    assert stored[16:] == GOOD[16:]


def test_without_acks_a_refused_batch_closes_its_connection(broker: Broker) -> None:
    connection = Connection()
    assert not broker.send(batch(b"\xff" * 40), acks=0, connection=connection).is_answered
    assert (connection.is_closed, connection.reason) == (True, "a batch was refused: INVALID_RECORD")


# ---------------------------------------------------------------- long requests


@pytest.fixture
def slow(monkeypatch: pytest.MonkeyPatch) -> Iterator[Broker]:
    """A broker that walks ten records a round."""
    monkeypatch.setattr("kafka_compat.record_walk.RECORDS_IN_PART", 5)
    monkeypatch.setattr(module, "TURN_WORK", 10)
    monkeypatch.setattr(module, "PARTITION_WORK", 1)
    with world() as made:
        yield Broker(made)


def many(count: int, value: bytes = b"v") -> bytes:
    return encode_records([(None, value)] * count, 1_000_000)


def test_a_long_batch_is_walked_in_several_rounds_and_appended_once(slow: Broker) -> None:
    asked = slow.send(many(95))
    rounds = 0
    while slow.produces.has_more:
        assert slow.read_stored() == []
        slow.produces.pump()
        rounds += 1
    assert asked.is_answered
    assert 7 <= rounds <= 12
    assert [each.count for _, each in batch_headers(slow.read_stored()[0])] == [95]


def test_what_follows_on_a_connection_waits_and_other_connections_do_not(slow: Broker) -> None:
    first, second = Connection(), Connection()
    asked = [slow.send(many(95, b"first"), connection=first), slow.send(many(1, b"second"), connection=first)]
    slow.produces.pump()
    slow.produces._work_left = 10  # another round
    other = slow.send(many(1, b"other"), connection=second)
    assert other.is_answered
    assert not any(each.is_answered for each in asked)
    while slow.produces.has_more:
        slow.produces.pump()
    assert all(each.is_answered for each in asked)
    values = [next(iter(read_records(each))).value for each in slow.read_stored()]
    assert values == [b"other", b"first", b"second"]


def test_connections_with_long_requests_take_turns(slow: Broker) -> None:
    busy, other = Connection(), Connection()
    queued = [slow.send(many(30), connection=busy) for _ in range(10)]
    late = slow.send(many(30), connection=other)
    while not late.is_answered:
        slow.produces.pump()
    assert sum(each.is_answered for each in queued) <= 2


def test_a_request_of_many_partitions_is_cut_between_them(slow: Broker) -> None:
    asked = slow.send(many(8), many(8), many(8))
    assert [len(slow.read_stored(each)) for each in range(3)] == [1, 0, 0]
    while slow.produces.has_more:
        slow.produces.pump()
    assert [each.error_code for each in asked.answer.responses[0].partition_responses] == [0, 0, 0]


def test_a_request_of_a_connection_that_has_closed_is_given_up(slow: Broker) -> None:
    connection = Connection()
    slow.send(many(95), connection=connection)
    slow.send(many(95), connection=connection)
    connection.close("gone")
    slow.produces.pump()
    assert not slow.produces.has_more
    assert slow.read_stored() == []


def test_a_partition_that_is_lost_while_its_batch_is_walked_is_answered_so(slow: Broker) -> None:
    asked = slow.send(many(95))
    slow.world.replicas.remove(T0)
    while slow.produces.has_more:
        slow.produces.pump()
    (answer,) = asked.answer.responses[0].partition_responses
    assert answer.error_code == KafkaErrorCode.UNKNOWN_TOPIC_OR_PARTITION


class Coordinator:
    """Stands for the verification of transactions: answers when a test wants it."""

    def __init__(self) -> None:
        self.asked: list[Callable[[KafkaErrorCode, int], None]] = []

    def verify(self, *about: Any, adds: bool) -> None:
        self.asked.append(about[-1])


@pytest.mark.parametrize("partitions", [1, 2])
def test_a_verified_batch_that_is_refused_at_once_is_answered_once(broker: Broker, partitions: int) -> None:
    coordinator = Coordinator()
    broker.produces = ProduceRequests(broker.world.context, broker.world.replicas, coordinator)  # type: ignore[arg-type]
    first = batch(records(0), attributes=TRANSACTIONAL, producer_id=7, producer_epoch=0, base_sequence=0)
    asked = broker.send(*[first] * partitions, transactional_id="x")
    for done in coordinator.asked:
        assert not asked.is_answered
        done(KafkaErrorCode.NONE, 99)  # of a question that is void by now
    (topic,) = asked.answer.responses
    assert [each.error_code for each in topic.partition_responses] == [KafkaErrorCode.INVALID_TXN_STATE] * partitions


class TransactionCoordinators:
    """Stands for the coordinators: answers when a test wants it."""

    def __init__(self) -> None:
        self.asked: list[Callable[[TransactionAnswer], None]] = []

    def ask(self, _name: str, _request: object, respond: Callable[[TransactionAnswer], None]) -> None:
        self.asked.append(respond)


def test_a_question_that_waits_for_the_marker_of_the_transaction_before_is_not_void_by_it(broker: Broker) -> None:
    world, coordinators = broker.world, TransactionCoordinators()
    world.topic(TRANSACTIONS_TOPIC, partitions=1)
    verification = Verification(world.context, lambda: world.replicas, coordinators, {})  # type: ignore[arg-type]
    hosted = world.replicas.hosted[T0]
    transactions = hosted.decider.log.producers.transactions
    outcomes: list[tuple[KafkaErrorCode, int]] = []
    verification.verify(hosted, "x", (7, 1), 0, lambda *outcome: outcomes.append(outcome), adds=True)
    transactions.end(7, BatchKind.COMMIT, 0)
    coordinators.asked.pop()(TransactionAnswer(0, KafkaErrorCode.NONE))
    assert not outcomes
    verification.pump(verification.deadline)
    coordinators.asked.pop()(TransactionAnswer(0, KafkaErrorCode.NONE))
    ((error, guard),) = outcomes
    assert error is KafkaErrorCode.NONE
    assert transactions.is_verified(7, 1, guard)


@pytest.mark.parametrize("first", [KafkaErrorCode.NONE, KafkaErrorCode.CONCURRENT_TRANSACTIONS])
def test_batches_that_a_producer_sends_without_waiting_are_appended_in_their_order(
    broker: Broker, first: KafkaErrorCode
) -> None:
    world, coordinators = broker.world, TransactionCoordinators()
    world.topic(TRANSACTIONS_TOPIC, partitions=1)
    verification = Verification(world.context, lambda: world.replicas, coordinators, {})  # type: ignore[arg-type]
    broker.produces = ProduceRequests(world.context, world.replicas, verification)

    def send(sequence: int) -> Asked:
        about = {"attributes": TRANSACTIONAL, "producer_id": 7, "producer_epoch": 1, "base_sequence": sequence}
        return broker.send(batch(records(0), **about), version=12, transactional_id="x")

    asked = [send(0)]
    if first is not KafkaErrorCode.NONE:
        coordinators.asked.pop()(TransactionAnswer(0, first))
    asked += [send(1), send(2)]
    assert len(coordinators.asked) == (first is KafkaErrorCode.NONE), "a later batch asks before the first"
    verification.pump(verification.deadline)
    coordinators.asked.pop()(TransactionAnswer(0, KafkaErrorCode.NONE))
    answers = [each.answer.responses[0].partition_responses[0] for each in asked]
    assert [(each.error_code, each.base_offset) for each in answers] == [(0, 0), (0, 1), (0, 2)]


def test_batches_behind_one_that_is_refused_are_sent_again_with_it(broker: Broker) -> None:
    world, coordinators = broker.world, TransactionCoordinators()
    world.topic(TRANSACTIONS_TOPIC, partitions=1)
    verification = Verification(world.context, lambda: world.replicas, coordinators, {})  # type: ignore[arg-type]
    hosted = world.replicas.hosted[T0]
    outcomes: list[tuple[int, KafkaErrorCode]] = []

    def verify(sequence: int) -> None:
        def note(error: KafkaErrorCode, _guard: int) -> None:
            outcomes.append((sequence, error))

        verification.verify(hosted, "x", (7, 1), sequence, note, adds=True)

    verify(0)
    verify(1)
    coordinators.asked.pop()(TransactionAnswer(0, KafkaErrorCode.COORDINATOR_NOT_AVAILABLE))
    assert outcomes == [(0, KafkaErrorCode.COORDINATOR_NOT_AVAILABLE), (1, KafkaErrorCode.COORDINATOR_NOT_AVAILABLE)]
    outcomes.clear()
    verify(0)
    verify(1)
    coordinators.asked.pop()(TransactionAnswer(0, KafkaErrorCode.NONE))  # and then no batch follows
    assert outcomes == [(0, KafkaErrorCode.NONE), (1, KafkaErrorCode.NOT_ENOUGH_REPLICAS)]
