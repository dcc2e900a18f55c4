"""Bytes by hand, headers and versions; and what damage may do: one error, in bounded time and memory."""

import contextlib
import random
import tracemalloc
from typing import Any

import pytest

from kafka_compat.protocol.api import Api, RequestHeader
from kafka_compat.protocol.apis.api_versions import (
    API_VERSIONS,
    ApiVersionRange,
    ApiVersionsRequest,
    ApiVersionsResponse,
)
from kafka_compat.protocol.apis.fetch import (
    FETCH,
    FetchDivergingEpoch,
    FetchPartitionResponse,
    FetchRequest,
    FetchResponse,
    FetchTopicResponse,
)
from kafka_compat.protocol.apis.metadata import METADATA, MetadataRequest, MetadataRequestTopic
from kafka_compat.protocol.apis.produce import PRODUCE, ProducePartition, ProduceRequest, ProduceResponse, ProduceTopic
from kafka_compat.protocol.compiler import wire_of
from kafka_compat.protocol.error_codes import KafkaErrorCode
from kafka_compat.protocol.errors import CannotEncode, MalformedMessage, UnsupportedVersion
from kafka_compat.protocol.registry import APIS, decode_request, encode_unsupported_version, list_advertised, table
from raft.net.decoder import BodyDecoder
from tests.kafka_compat.protocol import values

TOPIC_ID = bytes(range(16))
PRODUCED = ProduceRequest(
    acks=-1,
    timeout_ms=1000,
    topic_data=(ProduceTopic(name="t", topic_id=TOPIC_ID, partition_data=(ProducePartition(index=7, records=b"RR"),)),),
)
FETCHED = FetchResponse(
    session_id=9,
    responses=(
        FetchTopicResponse(
            topic="t",
            topic_id=TOPIC_ID,
            partitions=(
                FetchPartitionResponse(
                    partition_index=7,
                    error_code=0,
                    high_watermark=5,
                    aborted_transactions=None,
                    records=b"RR",
                    diverging_epoch=FetchDivergingEpoch(epoch=2, end_offset=4),
                ),
            ),
        ),
    ),
)
API_LIST = ApiVersionsResponse(
    error_code=0, api_keys=(ApiVersionRange(api_key=18, min_version=0, max_version=4),), finalized_features_epoch=3
)
ASKED = MetadataRequest(topics=(MetadataRequestTopic(topic_id=TOPIC_ID, name=None),))
MINUS_ONE_64 = "ff" * 8
PARTITION = f"00000007 0000 {5:016x} {MINUS_ONE_64}"
DIVERGING = f"01 00 0d 00000002 {4:016x} 00"
"""One tagged field: tag 0, 13 bytes: epoch, end offset, and a tag section of its own."""

GOLDEN: list[tuple[Api[Any, Any], int, Any, str]] = [
    (API_VERSIONS, 0, ApiVersionsRequest(), ""),
    (API_VERSIONS, 3, ApiVersionsRequest(client_software_name="ab", client_software_version="1"), "03 6162 02 31 00"),
    (API_VERSIONS, 0, API_LIST, "0000 00000001 0012 0000 0004"),
    (API_VERSIONS, 3, API_LIST, f"0000 02 0012 0000 0004 00 00000000 01 01 08 {3:016x}"),
    (API_VERSIONS, 4, API_LIST, f"0000 02 0012 0000 0004 00 00000000 01 01 08 {3:016x}"),
    (METADATA, 12, ASKED, f"02 {TOPIC_ID.hex()} 00 00 01 00 00"),
    (METADATA, 12, MetadataRequest(topics=None, allow_auto_topic_creation=False), "00 00 00 00"),
    (PRODUCE, 3, PRODUCED, "ffff ffff 000003e8 00000001 0001 74 00000001 00000007 00000002 5252"),
    (PRODUCE, 9, PRODUCED, "00 ffff 000003e8 02 02 74 02 00000007 03 5252 00 00 00"),
    (PRODUCE, 13, PRODUCED, f"00 ffff 000003e8 02 {TOPIC_ID.hex()} 02 00000007 03 5252 00 00 00"),
    (FETCH, 4, FETCHED, f"00000000 00000001 0001 74 00000001 {PARTITION} ffffffff 00000002 5252"),
    (
        FETCH,
        13,
        FETCHED,
        f"00000000 0000 00000009 02 {TOPIC_ID.hex()} 02 {PARTITION} {MINUS_ONE_64} 00 ffffffff 03 5252 {DIVERGING} 00 00",
    ),
    (
        FETCH,
        16,
        FetchRequest(max_wait_ms=1, min_bytes=2, topics=()),
        "00000001 00000002 7fffffff 00 00000000 ffffffff 01 01 01 00",
    ),
]


@pytest.mark.parametrize(("api", "version", "message", "expected"), GOLDEN)
def test_bytes_are_those_of_the_specification(api: Api[Any, Any], version: int, message: Any, expected: str) -> None:
    assert values.encode(type(message), api, version, message) == bytes.fromhex(expected)


def frame(api: Api[Any, Any], version: int, body: Any, client_id: str | None = "me") -> bytes:
    return b"".join(api.encode_request(RequestHeader(api.key, version, 42, client_id), body))


def test_a_request_passes_the_framing_and_its_records_are_no_copy() -> None:
    sent = frame(PRODUCE, 9, PRODUCED)
    assert sent[4:].hex() == "0000" + "0009" + "0000002a" + "0002" + b"me".hex() + "00" + sent[17:].hex()
    (body,) = BodyDecoder(body_bytes_max=1000).feed(sent)
    request = decode_request(body)
    assert request.header == RequestHeader(0, 9, 42, "me")
    records = request.body.topic_data[0].partition_data[0].records
    assert records == b"RR"
    assert records.obj is body


def test_large_records_leave_as_they_are() -> None:
    large = bytes(10_000)
    partition = ProducePartition(index=0, records=large)
    body = ProduceRequest(acks=1, timeout_ms=1, topic_data=(ProduceTopic(name="t", partition_data=(partition,)),))
    pieces = PRODUCE.encode_request(RequestHeader(0, 3, 1), body)
    assert any(piece is large for piece in pieces)
    assert int.from_bytes(pieces[0][:4]) == sum(map(len, pieces)) - 4


@pytest.mark.parametrize(("api", "version"), [(FETCH, 4), (FETCH, 13), (API_VERSIONS, 3)])
def test_a_response_is_read_as_it_was_written(api: Api[Any, Any], version: int) -> None:
    response = API_LIST if api is API_VERSIONS else FETCHED
    body = b"".join(api.encode_response(version, 42, response))[4:]
    correlation_id, read = api.decode_response(body, version)
    assert correlation_id == 42
    assert read.error_code == 0
    flexible_header = version in api.flexible and api is not API_VERSIONS
    assert body[:5] == b"\0\0\0\x2a" + (b"\0" if flexible_header else body[4:5])
    assert len(body) == 4 + flexible_header + len(values.encode(api.response, api, version, response))


def test_an_unsupported_version_of_api_versions_is_answered_in_version_0() -> None:
    body = bytes.fromhex("0012 0005 0000002a ffff 00 02 61 02 31 00 00")
    with pytest.raises(UnsupportedVersion) as caught:
        decode_request(body)
    pieces = encode_unsupported_version(caught.value)
    assert pieces is not None
    correlation_id, response = API_VERSIONS.decode_response(b"".join(pieces)[4:], 0)
    assert (correlation_id, response.error_code) == (42, KafkaErrorCode.UNSUPPORTED_VERSION)
    assert response.api_keys == list_advertised()


@pytest.mark.parametrize("start", ["0000 0002", "03e7 0000", "0001 0013"])
def test_other_unsupported_requests_have_no_answer(start: str) -> None:
    with pytest.raises(UnsupportedVersion) as caught:
        decode_request(bytes.fromhex(start + "0000002a ffff"))
    assert encode_unsupported_version(caught.value) is None


def test_unknown_tagged_fields_are_skipped() -> None:
    known = bytes.fromhex("03 6162 02 31")
    read = values.decode(ApiVersionsRequest, API_VERSIONS, 3, known + bytes.fromhex("02 05 02 ffff 7f 00"))
    assert read == ApiVersionsRequest(client_software_name="ab", client_software_version="1")


@pytest.mark.parametrize("tags", ["02 05 00 05 00", "01 05 09 00", "ff ff ff ff 0f", "ff ff ff ff ff 01"])
def test_bad_tag_sections_are_refused(tags: str) -> None:
    with pytest.raises(MalformedMessage):
        values.decode(ApiVersionsRequest, API_VERSIONS, 3, bytes.fromhex("01 01" + tags))


def test_a_known_tag_fills_the_bytes_that_it_announces() -> None:
    body = bytes.fromhex(f"0000 01 00000000 01 01 09 {3:016x} 00")
    with pytest.raises(MalformedMessage, match="finalized_features_epoch at byte"):
        values.decode(ApiVersionsResponse, API_VERSIONS, 3, body)


def test_errors_name_the_field_and_the_byte() -> None:
    good = frame(PRODUCE, 3, PRODUCED)[4:]
    with pytest.raises(MalformedMessage) as caught:
        decode_request(good[:-1])
    assert caught.value.path == "topic_data[0].partition_data[0].records"
    assert good[caught.value.offset :] == b"\0\0\0\2RR"
    with pytest.raises(CannotEncode, match=r"topic_data\[0\]\.name: null"):
        values.encode(ProduceRequest, PRODUCE, 3, ProduceRequest(acks=1, timeout_ms=1, topic_data=(nameless(),)))


def nameless() -> Any:
    name: Any = None
    return ProduceTopic(name=name, partition_data=())


def test_bytes_after_a_request_are_ignored_as_kafka_does() -> None:
    request = frame(PRODUCE, 9, PRODUCED)[4:]
    assert decode_request(request + b"\0").body == decode_request(request).body


def test_the_request_of_librdkafka_for_the_metadata_of_all_topics_is_understood() -> None:
    # Version 13, as librdkafka 2.16 sends it: the null array of topics takes four bytes where it should take one.
    sent = bytes.fromhex("0003000d00000003000772646b61666b610000000000010000")
    assert decode_request(sent).body == MetadataRequest(topics=None, allow_auto_topic_creation=False)


def test_bytes_after_a_response_are_refused() -> None:
    response = PRODUCE.encode_response(9, 1, ProduceResponse(responses=()))
    with pytest.raises(MalformedMessage, match="1 bytes follow"):
        PRODUCE.decode_response(b"".join(response)[4:] + b"\0", 9)


@pytest.mark.parametrize(("api", "version", "message"), [case[:3] for case in GOLDEN if case[3]])
def test_a_message_that_is_cut_or_flipped_raises_only_the_one_error(
    api: Api[Any, Any], version: int, message: Any
) -> None:
    whole = values.encode(type(message), api, version, message)
    for end in range(len(whole)):
        with pytest.raises(MalformedMessage):
            values.decode(type(message), api, version, whole[:end])
    chance = random.Random(version)
    for _ in range(300):
        damaged = bytearray(whole)
        for _ in range(chance.randint(1, 3)):
            damaged[chance.randrange(len(damaged))] = chance.randrange(256)
        cls: Any = type(message)
        with contextlib.suppress(MalformedMessage):
            wire_of(cls, version, version in api.flexible).read(memoryview(bytes(damaged)), 0)


@pytest.mark.parametrize(("api", "version"), values.VERSIONS, ids=values.NAMES)
def test_absurd_counts_cost_nothing(api: Api[Any, Any], version: int) -> None:
    tracemalloc.start()
    try:
        for filler in (b"\x7f", b"\xff", b"\xfe\xff\xff\xff\x0f\x7f"):
            for cls in values.both(api):
                with contextlib.suppress(MalformedMessage):
                    wire_of(cls, version, version in api.flexible).read(memoryview(filler * 200), 0)
        assert tracemalloc.get_traced_memory()[1] < 2**20
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("version", [3, 9])
def test_a_count_that_cannot_fit_is_refused_before_its_first_element(version: int) -> None:
    few, many = (b"\0\0\0\2", b"\0\0\0\x7f") if version == 3 else (b"\3", b"\x7f")
    partition = ProducePartition(index=7, records=b"RR")
    topic = ProduceTopic(name="t", partition_data=(partition, partition))
    good = values.encode(ProduceRequest, PRODUCE, version, ProduceRequest(acks=1, timeout_ms=1, topic_data=(topic,)))
    place = good.index(few + b"\0\0\0\7")
    with pytest.raises(MalformedMessage) as caught:
        values.decode(ProduceRequest, PRODUCE, version, good[:place] + many + good[place + len(few) :])
    assert (caught.value.path, caught.value.offset) == ("topic_data[0].partition_data", place)


def test_the_table_names_every_api() -> None:
    text = table()
    assert "| 0 | Produce | 3-13 | 9 |" in text
    assert "| 47 | OffsetDelete | 0 | - |" in text
    assert len(text.splitlines()) == 2 + len(APIS)
    produce = next(each for each in list_advertised() if each.api_key == 0)
    assert produce.min_version == 0
