"""Frames between a client and a broker pass, or are answered by request."""

import itertools
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jepsen_like.port.answers import WrongAnswer
from jepsen_like.systems.kafka.answers import conversation as decider
from jepsen_like.systems.kafka.answers.conversation import (
    AnswerDesk,
    Close,
    Effect,
    FromBroker,
    FromClient,
    TimePassed,
    ToBroker,
    ToClient,
)
from jepsen_like.systems.kafka.answers.refusals import NoErrorThere, error_answer
from jepsen_like.systems.kafka.answers.rules import API_KEYS, AnswerRule, Rules
from kafka_compat.protocol.api import Api, ApiRequest, RequestHeader
from kafka_compat.protocol.apis.api_versions import (
    API_VERSIONS,
    ApiVersionRange,
    ApiVersionsRequest,
    ApiVersionsResponse,
)
from kafka_compat.protocol.apis.fetch import FETCH, FetchPartition, FetchRequest, FetchTopic
from kafka_compat.protocol.apis.find_coordinator import (
    FIND_COORDINATOR,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)
from kafka_compat.protocol.apis.heartbeat import HEARTBEAT, HeartbeatRequest, HeartbeatResponse
from kafka_compat.protocol.apis.metadata import (
    METADATA,
    MetadataBroker,
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataTopic,
)
from kafka_compat.protocol.apis.produce import PRODUCE, ProducePartition, ProduceRequest, ProduceTopic
from kafka_compat.protocol.apis.sasl import SASL_HANDSHAKE, SaslHandshakeRequest
from kafka_compat.protocol.apis.transactions import END_TXN, EndTxnRequest, EndTxnResponse
from kafka_compat.protocol.error_codes import KafkaErrorCode
from kafka_compat.protocol.registry import APIS
from kafka_compat.protocol.schema import Kind, rows

ID = bytes(range(16))
BEAT = HeartbeatRequest(group_id="g", generation_id=1, member_id="m")
END = EndTxnRequest(transactional_id="t", producer_id=7, producer_epoch=1, committed=True)


def ask(api: Api[Any, Any], body: Any, number: int, version: int, client: str = "app") -> bytes:
    return b"".join(api.encode_request(RequestHeader(api.key, version, number, client), body))


def answer_to(api: Api[Any, Any], body: Any, number: int, version: int) -> bytes:
    return b"".join(api.encode_response(version, number, body))


def beat(number: int, client: str = "app") -> bytes:
    return ask(HEARTBEAT, BEAT, number, 4, client)


def beat_answer(number: int, code: int = 0) -> bytes:
    return answer_to(HEARTBEAT, HeartbeatResponse(error_code=code), number, 4)


def produce(number: int, topic: str, acks: int = 1, version: int = 9) -> bytes:
    partition = ProducePartition(index=3, records=b"batch")
    data = ProduceTopic(name=topic, topic_id=ID, partition_data=(partition,))
    return ask(PRODUCE, ProduceRequest(acks=acks, timeout_ms=1, topic_data=(data,)), number, version)


def talk(*wishes: AnswerRule, **options: Any) -> AnswerDesk:
    return AnswerDesk(Rules(list(wishes)), {}, **options)


def show(effects: list[Effect]) -> list[tuple[str, bytes | str]]:
    return [
        (type(each).__name__, each.reason if isinstance(each, Close) else b"".join(each.pieces)) for each in effects
    ]


def bytes_of(effects: list[Effect], kind: type[ToClient] | type[ToBroker]) -> bytes:
    return b"".join(
        piece
        for each in effects
        if isinstance(each, ToClient | ToBroker) and isinstance(each, kind)
        for piece in each.pieces
    )


def test_what_no_rule_means_passes_as_it_is() -> None:
    between = talk(AnswerRule.of("EndTxn", error="NOT_COORDINATOR"))
    assert show(between.step(0, FromClient(beat(1)))) == [("ToBroker", beat(1))]
    assert show(between.step(0, FromBroker(beat_answer(1)))) == [("ToClient", beat_answer(1))]


def test_the_second_call_and_the_third_fail_and_the_fourth_is_served() -> None:
    rule = AnswerRule.of("Heartbeat", error="REBALANCE_IN_PROGRESS", call=2, times=2)
    between, seen = talk(rule), []
    for number in range(1, 5):
        effects = between.step(0, FromClient(beat(number)))
        if bytes_of(effects, ToBroker):
            effects += between.step(0, FromBroker(beat_answer(number)))
        seen.append(HEARTBEAT.decode_response(bytes_of(effects, ToClient)[4:], 4)[1].error_code)
    assert seen == [0, 27, 27, 0]
    assert (rule.seen, rule.done) == (4, 2)


def test_an_error_waits_for_the_answers_to_earlier_requests() -> None:
    between = talk(AnswerRule.of("EndTxn", error="CONCURRENT_TRANSACTIONS"))
    effects = between.step(0, FromClient(beat(1) + ask(END_TXN, END, 2, 5) + beat(3)))
    assert show(effects) == [("ToBroker", beat(1)), ("ToBroker", beat(3))]
    refusal = answer_to(END_TXN, EndTxnResponse(error_code=51, producer_id=7, producer_epoch=1), 2, 5)
    assert show(between.step(0, FromBroker(beat_answer(1) + beat_answer(3)))) == [
        ("ToClient", beat_answer(1)),
        ("ToClient", refusal),
        ("ToClient", beat_answer(3)),
    ]


def test_a_late_answer_holds_back_those_after_it_and_an_undone_wish_holds_none() -> None:
    rule = AnswerRule.of("Heartbeat", delay=5)
    between = talk(rule)
    between.step(0, FromClient(beat(1) + beat(2)))
    assert between.step(10, FromBroker(beat_answer(1) + beat_answer(2))) == []
    assert between.wakes_at == 15
    assert between.held_bytes == 2 * len(beat_answer(1))
    assert between.step(14.9, TimePassed()) == []
    assert bytes_of(between.step(15, TimePassed()), ToClient) == beat_answer(1) + beat_answer(2)
    assert (between.wakes_at, between.held_bytes) == (math.inf, 0)
    rule.times = None
    between.step(15, FromClient(beat(3)))
    between.step(15, FromBroker(beat_answer(3)))
    rule.is_undone = True
    assert bytes_of(between.step(15.1, TimePassed()), ToClient) == beat_answer(3)


def test_before_no_broker_sees_the_request_and_after_the_answer_is_lost() -> None:
    before = talk(AnswerRule.of("Heartbeat", disconnect="before", call=2))
    assert show(before.step(0, FromClient(beat(1) + beat(2)))) == [("ToBroker", beat(1))]
    assert show(before.step(0, FromBroker(beat_answer(1)))) == [("ToClient", beat_answer(1)), ("Close", "")]
    after = talk(AnswerRule.of("Heartbeat", disconnect="after"))
    assert show(after.step(0, FromClient(beat(1)))) == [("ToBroker", beat(1))]
    assert show(after.step(0, FromBroker(beat_answer(1)))) == [("Close", "")]
    assert after.step(0, FromClient(beat(2))) == []


def test_a_produce_without_an_answer_is_waited_for_by_none() -> None:
    between = talk()
    between.step(0, FromClient(produce(1, "a", acks=0) + beat(2)))
    assert show(between.step(0, FromBroker(beat_answer(2)))) == [("ToClient", beat_answer(2))]
    refused = talk(AnswerRule.of("Produce", error="NOT_LEADER_OR_FOLLOWER"))
    assert show(refused.step(0, FromClient(produce(1, "a", acks=0)))) == [("Close", "")]


def test_a_topic_is_known_by_its_name_and_by_an_id_that_metadata_told() -> None:
    rule = AnswerRule.of("Produce", error="NOT_LEADER_OR_FOLLOWER", topic="a", times=None)
    between = talk(rule)
    between.step(0, FromClient(produce(1, "b") + produce(2, "a") + produce(3, "", version=13)))
    assert (rule.seen, rule.done) == (1, 1)
    named = MetadataTopic(error_code=0, name="a", topic_id=ID, partitions=())
    between = talk(rule)
    between.step(0, FromClient(ask(METADATA, MetadataRequest(topics=None), 1, 12)))
    between.step(0, FromBroker(answer_to(METADATA, MetadataResponse(brokers=(), topics=(named,)), 1, 12)))
    refusal = bytes_of(between.step(0, FromClient(produce(2, "", version=13))), ToClient)
    answer = PRODUCE.decode_response(refusal[4:], 13)[1].responses[0]
    assert (answer.topic_id, answer.partition_responses[0].index, answer.partition_responses[0].error_code) == (
        ID,
        3,
        6,
    )


def test_only_the_client_that_is_named_is_meant() -> None:
    rule = AnswerRule.of("Heartbeat", disconnect="before", client_id="other")
    assert show(talk(rule).step(0, FromClient(beat(1)))) == [("ToBroker", beat(1))]
    assert show(talk(rule).step(0, FromClient(beat(1, "other")))) == [("Close", "")]


def test_an_error_of_metadata_keeps_the_brokers() -> None:
    between = talk(AnswerRule.of("Metadata", error="LEADER_NOT_AVAILABLE"))
    request = ask(METADATA, MetadataRequest(topics=(MetadataRequestTopic(name="a"),)), 1, 12)
    assert bytes_of(between.step(0, FromClient(request)), ToBroker) == request
    broker = MetadataBroker(node_id=1, host="h", port=9)
    real = MetadataResponse(
        brokers=(broker,), topics=(MetadataTopic(error_code=0, name="a", topic_id=ID, partitions=()),)
    )
    out = bytes_of(between.step(0, FromBroker(answer_to(METADATA, real, 1, 12))), ToClient)
    answer = METADATA.decode_response(out[4:], 12)[1]
    assert (answer.brokers, answer.topics[0].error_code) == ((broker,), 5)


def test_a_proxy_puts_its_own_addresses_into_answers_and_lists_what_it_can_read() -> None:
    between = talk(translate=lambda host, port: ("proxy", port + 1))
    between.step(0, FromClient(ask(METADATA, MetadataRequest(topics=None), 1, 12)))
    real = MetadataResponse(brokers=(MetadataBroker(node_id=1, host="h", port=9),), topics=())
    out = bytes_of(between.step(0, FromBroker(answer_to(METADATA, real, 1, 12))), ToClient)
    assert METADATA.decode_response(out[4:], 12)[1].brokers == (MetadataBroker(node_id=1, host="proxy", port=10),)
    between.step(0, FromClient(ask(FIND_COORDINATOR, FindCoordinatorRequest(key="g"), 2, 3)))
    found = FindCoordinatorResponse(error_code=0, node_id=1, host="h", port=9)
    out = bytes_of(between.step(0, FromBroker(answer_to(FIND_COORDINATOR, found, 2, 3))), ToClient)
    assert FIND_COORDINATOR.decode_response(out[4:], 3)[1].port == 10
    between.step(0, FromClient(ask(API_VERSIONS, ApiVersionsRequest(), 3, 3)))
    ranges = tuple(ApiVersionRange(api_key=key, min_version=0, max_version=99) for key in (3, 12, 78))
    out = bytes_of(
        between.step(0, FromBroker(answer_to(API_VERSIONS, ApiVersionsResponse(error_code=0, api_keys=ranges), 3, 3))),
        ToClient,
    )
    listed = API_VERSIONS.decode_response(out[4:], 3)[1].api_keys
    assert [(each.api_key, each.max_version) for each in listed] == [(3, METADATA.version_max), (12, 99)]


def sample(of: Any, version: int) -> Any:
    """Returns a value with one element in each array of this version, at any depth."""
    if isinstance(of, Kind):
        return "x" if of.zero == "" else of.zero
    there = [row for row in rows(of) if version in row.field.versions]
    arrays = {row.name: (sample(row.field.of, version),) for row in there if row.field.is_array}
    return of(**arrays)


LACKING = {("DescribeLogDirs", version) for version in (1, 2)}
"""Answers whose parts the broker chooses, from before they had an error of the whole."""


@pytest.mark.parametrize("name", sorted(set(API_KEYS) - {METADATA.name}))
def test_every_api_has_an_error_in_every_version(name: str) -> None:
    api = APIS[API_KEYS[name]]
    for version in api.versions:
        request = ApiRequest(RequestHeader(api.key, version, 5), sample(api.request, version))
        if (name, version) in LACKING:
            with pytest.raises(NoErrorThere):
                error_answer(api, request, KafkaErrorCode.INVALID_REQUEST)
            continue
        pieces = error_answer(api, request, KafkaErrorCode.INVALID_REQUEST)
        number, answer = api.decode_response(b"".join(pieces)[4:], version)
        assert (number, "error_code=42" in repr(answer)) == (5, True), version


def test_an_error_of_a_fetch_is_that_of_its_partitions_and_a_session_error_that_of_the_whole() -> None:
    part = FetchTopic(
        topic="a", topic_id=ID, partitions=(FetchPartition(partition=4, fetch_offset=0, partition_max_bytes=1),)
    )
    request = FetchRequest(replica_id=-1, max_wait_ms=1, min_bytes=1, session_id=9, topics=(part,))
    for code, whole in ((KafkaErrorCode.NOT_LEADER_OR_FOLLOWER, 0), (KafkaErrorCode.FETCH_SESSION_ID_NOT_FOUND, 70)):
        pieces = error_answer(FETCH, ApiRequest(RequestHeader(FETCH.key, 12, 5), request), code)
        answer = FETCH.decode_response(b"".join(pieces)[4:], 12)[1]
        assert (answer.error_code, answer.session_id) == (whole, 9)
        partition = answer.responses[0].partitions[0]
        assert (partition.partition_index, partition.error_code, partition.high_watermark) == (4, int(code), -1)


def test_an_answer_that_was_not_asked_ends_the_connection() -> None:
    between = talk()
    between.step(0, FromClient(beat(1)))
    assert show(between.step(0, FromBroker(beat_answer(2))))[-1][0] == "Close"


def test_tls_and_the_oldest_handshake_end_the_connection_with_the_reason() -> None:
    assert "speaks TLS" in str(show(talk().step(0, FromClient(b"\x16\x03\x01\x02\x00\x01")))[0][1])
    handshake = ask(SASL_HANDSHAKE, SaslHandshakeRequest(mechanism="PLAIN"), 1, 0)
    assert "SaslHandshake 0" in str(show(talk().step(0, FromClient(handshake)))[0][1])


def test_a_client_with_too_many_requests_and_a_broker_with_too_many_answers_are_not_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(decider, "REQUESTS_MAX", 2)
    monkeypatch.setattr(decider, "HELD_BYTES_MAX", 1)
    between = talk(AnswerRule.of("Heartbeat", delay=9))
    between.step(0, FromClient(beat(1)))
    assert (between.reads_client, between.reads_broker) == (True, True)
    between.step(0, FromClient(beat(2)))
    between.step(0, FromBroker(beat_answer(1)))
    assert (between.reads_client, between.reads_broker) == (False, False)


REQUESTS = beat(1) + produce(2, "a", acks=0) + ask(END_TXN, END, 3, 5) + produce(4, "a") + beat(5)
ANSWERS = beat_answer(1) + beat_answer(5, 27)


@given(st.lists(st.integers(0, len(REQUESTS)), max_size=8), st.lists(st.integers(0, len(ANSWERS)), max_size=5))
def test_any_split_of_the_bytes_gives_the_same_frames(cuts: list[int], others: list[int]) -> None:
    def run(cuts: list[int], others: list[int]) -> tuple[bytes, bytes]:
        rules = (
            AnswerRule.of("EndTxn", error="NOT_COORDINATOR"),
            AnswerRule.of("Produce", error="REQUEST_TIMED_OUT", call=2),
        )
        between, effects = talk(*rules), []
        for event, data, where in ((FromClient, REQUESTS, cuts), (FromBroker, ANSWERS, others)):
            edges = [0, *sorted(where), len(data)]
            for begin, end in itertools.pairwise(edges):
                effects += between.step(0, event(data[begin:end]))
        return bytes_of(effects, ToBroker), bytes_of(effects, ToClient)

    assert run(cuts, others) == run([], [])


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        ({"api": "Fetch"}, "one of error, delay and disconnect"),
        ({"api": "Fetch", "error": "NONE"}, "no error 'NONE'"),
        ({"api": "Fetch", "delay": -1}, "delay is a number"),
        ({"api": "Fetch", "delay": 1, "times": 0}, "times is a whole number"),
        ({"api": "Fetch", "delay": 1, "call": True}, "call is a whole number"),
        ({"api": "Fetch", "disconnect": "now"}, "'before' or 'after'"),
        ({"api": "Fetch", "delay": 1, "nth": 2}, "has no 'nth'"),
        ({"delay": 1}, "names its api"),
    ],
)
def test_a_wrong_wish_is_refused_with_the_reason(words: dict[str, Any], reason: str) -> None:
    with pytest.raises(WrongAnswer, match=reason):
        AnswerRule.from_words(words)
