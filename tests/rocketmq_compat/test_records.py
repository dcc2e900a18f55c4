"""Records: their bytes, what is refused, message ids, properties, and the messages inside of batches."""

import contextlib
import random
import timeit
import zlib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rocketmq_compat.record_layout import BORN_HOST_V6, MAGIC_V2, OFFSETS, OFFSETS_AT, STORE_HOST_V6
from rocketmq_compat.records import (
    PROPERTIES_BYTES_MAX,
    BadMessageId,
    IllegalMessage,
    InnerMessage,
    MalformedRecord,
    body_crc,
    encode_host,
    encode_record,
    inner_messages,
    join_messages,
    message_id,
    read_head,
    read_heads,
    read_host,
    read_message_id,
    read_properties,
    write_properties,
)
from rocketmq_compat.storage.dispatch import walk

BORN, STORED = encode_host("10.0.0.1", 4711), encode_host("127.0.0.1", 10911)
TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
FIELDS: dict[str, Any] = {
    "topic": "t",
    "body": b"BODY",
    "properties": "KEYS\x01k\x02",
    "queue_id": 3,
    "born_ms": 5,
    "born_host": BORN,
    "store_ms": 6,
    "store_host": STORED,
}


def record(**fields: Any) -> bytes:
    return encode_record(**{**FIELDS, **fields})


def test_a_record_has_the_bytes_of_the_layout() -> None:
    made = record(flag=7, sys_flag=1, reconsume_times=2, prepared_offset=8, queue_offset=9, physical_offset=10)
    expected = (
        f"{len(made):08x} daa320a7 {zlib.crc32(b'BODY') & 0x7FFFFFFF:08x} 00000003 00000007 {9:016x} {10:016x} 00000001"
        f"{5:016x} 0a000001 00001267 {6:016x} 7f000001 00002a9f 00000002 {8:016x} 00000004 {b'BODY'.hex()}"
        f"01 {b't'.hex()} 0007 {b'KEYS'.hex()} 01 6b 02"
    )
    assert made == bytes.fromhex(expected)


@given(
    topic=st.text("abc%_-", min_size=1, max_size=200),
    body=st.binary(max_size=300),
    properties=TEXTS,
    queue_id=st.integers(0, 2**31 - 1),
    offsets=st.tuples(*[st.integers(0, 2**63 - 1)] * 3),
    hosts=st.tuples(*[st.sampled_from(["1.2.3.4", "::1"])] * 2),
    sys_flag=st.integers(0, 2**31 - 1),
    padding=st.integers(0, 9),
)
def test_a_head_has_what_was_encoded(
    topic: str,
    body: bytes,
    properties: str,
    queue_id: int,
    offsets: tuple[int, int, int],
    hosts: tuple[str, str],
    sys_flag: int,
    padding: int,
) -> None:
    born, stored = (encode_host(host, 9) for host in hosts)
    made = record(
        topic=topic,
        body=body,
        properties=properties,
        queue_id=queue_id,
        queue_offset=offsets[0],
        physical_offset=offsets[1],
        prepared_offset=offsets[2],
        born_host=born,
        store_host=stored,
        sys_flag=sys_flag,
    )
    content = memoryview(bytes(padding) + made + bytes(padding))
    head = read_head(content, padding)
    assert (head.size, head.topic, head.properties, head.queue_id) == (len(made), topic, properties, queue_id)
    assert (head.queue_offset, head.physical_offset, head.prepared_offset) == offsets
    assert (head.born_host, head.store_host, head.born_ms, head.store_ms) == (born, stored, 5, 6)
    assert head.sys_flag & ~(BORN_HOST_V6 | STORE_HOST_V6) == sys_flag & ~(BORN_HOST_V6 | STORE_HOST_V6)
    assert head.body(content[padding:]) == body
    assert head.is_sound(content[padding:])
    assert read_message_id(head.message_id) == (hosts[1], 9, offsets[1])


def test_what_is_not_given_is_zero() -> None:
    head = read_head(record())
    numbers = (head.flag, head.sys_flag, head.reconsume_times, head.prepared_offset)
    assert (*numbers, head.queue_offset, head.physical_offset) == (0,) * 6


def test_the_crc_of_a_body_lacks_its_highest_bit_alone() -> None:
    assert {body_crc(bytes([each])) for each in range(9)} == {
        zlib.crc32(bytes([value])) & 0x7FFFFFFF for value in range(9)
    }


def test_the_store_reads_what_is_encoded_here_and_writes_the_offsets_into_it() -> None:
    content = bytearray(record(properties="UNIQ_KEY\x01u\x02TAGS\x01a\x02") + record(topic="x" * 200))
    found = walk(content, 1000, lambda key: 42)
    assert [run.key for run in found.runs] == [("t", 3), ("x" * 200, 3)]
    heads = [head for _, head in read_heads(memoryview(content))]
    assert [(each.queue_offset, each.physical_offset) for each in heads] == [(42, 1000), (42, 1000 + heads[0].size)]
    assert OFFSETS.unpack_from(content, OFFSETS_AT) == (42, 1000)


def test_a_long_topic_needs_the_second_layout() -> None:
    assert record(topic="x" * 127)[4:8] == bytes.fromhex("daa320a7")
    assert record(topic="x" * 128)[4:8] == MAGIC_V2.to_bytes(4, "big")


@pytest.mark.parametrize(
    ("fields", "complaint"),
    [
        ({"topic": ""}, "a topic has 1 to 255 bytes, not 0"),
        ({"topic": "x" * 256}, "a topic has 1 to 255 bytes, not 256"),
        ({"properties": "x" * (PROPERTIES_BYTES_MAX + 1)}, "its properties have 32768 bytes; at most 32767"),
        ({"body": bytes(11), "body_bytes_max": 10}, "its body has 11 bytes; at most 10"),
        ({"queue_id": 2**31}, "a number has no place"),
        ({"born_ms": 2**63}, "a number has no place"),
    ],
)
def test_what_is_too_large_is_refused_with_its_size(fields: dict[str, Any], complaint: str) -> None:
    with pytest.raises(IllegalMessage, match=complaint):
        record(**fields)


def test_the_largest_parts_are_taken() -> None:
    made = record(topic="x" * 255, properties="x" * PROPERTIES_BYTES_MAX, body=bytes(10), body_bytes_max=10)
    assert len(read_head(made).properties) == PROPERTIES_BYTES_MAX


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        (b"", "ends early"),
        (record()[:-1], "do not add up"),
        (record()[:90], "ends early"),
        (b"\0" * 100, "the magic is 0x0"),
        (record().replace(b"KEYS", b"\xff\xff\xff\xff"), "not UTF-8"),
        (record(body=b"BODY").replace(b"\0\0\0\4BODY", b"\0\0\0\5BODY"), "do not add up|ends early"),
        (record(body=b"BODY").replace(b"\0\0\0\4BODY", b"\xff\xff\xff\xffBODY"), "ends early"),
    ],
)
def test_what_is_no_record_is_refused(content: bytes, complaint: str) -> None:
    with pytest.raises(MalformedRecord, match=complaint):
        read_head(content)


def test_a_damaged_body_is_seen() -> None:
    damaged = record().replace(b"BODY", b"BODX")
    assert not read_head(damaged).is_sound(damaged)


def test_mutated_records_raise_nothing_but_their_error() -> None:
    rng = random.Random(7)
    samples = [record(), record(topic="x" * 130, born_host=encode_host("::1", 5)), join_messages([INNER, INNER])]
    for _ in range(5_000):
        content = bytearray(rng.choice(samples))
        for _ in range(rng.randint(1, 3)):
            content[rng.randrange(len(content))] = rng.randrange(256)
        cut = bytes(content[: rng.randint(0, len(content))]) if rng.random() < 0.3 else bytes(content)
        with contextlib.suppress(MalformedRecord):
            list(read_heads(cut))
        with contextlib.suppress(IllegalMessage):
            inner_messages(cut)


# Ids and properties


def test_a_message_id_is_where_the_message_is() -> None:
    assert message_id(STORED, 255) == "7F00000100002A9F00000000000000FF"
    assert read_message_id("7F00000100002A9F00000000000000FF") == ("127.0.0.1", 10911, 255)
    assert len(message_id(encode_host("::1", 1), 0)) == 56


@pytest.mark.parametrize(
    "text", ["", "7F", "x" * 32, "7F00000100002A9F00000000000000F", "7F 00000100002A9F00000000000000", "é" * 32]
)
def test_what_is_no_message_id_is_refused(text: str) -> None:
    with pytest.raises(BadMessageId, match="is no message id"):
        read_message_id(text)


def test_a_host_is_an_address() -> None:
    assert read_host(encode_host("::1", 65535)) == ("::1", 65535)
    with pytest.raises(ValueError, match="localhost"):
        encode_host("localhost", 1)


@given(st.dictionaries(TEXTS, TEXTS))
def test_properties_survive_their_text(properties: dict[str, str]) -> None:
    if any(mark in text for pair in properties.items() for text in pair for mark in "\x01\x02"):
        with pytest.raises(IllegalMessage, match="contains a separator"):
            write_properties(properties)
    else:
        assert read_properties(write_properties(properties)) == properties


def test_properties_are_read_as_java_reads_them() -> None:
    assert read_properties("A\x01x\x02B\x01\x02nothing\x02C\x01x\x01y\x02D\x01z") == {"A": "x", "B": "", "D": "z"}


# Batches

INNER = InnerMessage(7, b"body", "KEYS\x01k\x02")


def test_a_batch_has_the_bytes_of_the_protocol() -> None:
    expected = "00000021 00000000 00000000 00000007 00000004 626f6479 0007 4b455953 01 6b 02"
    assert join_messages([INNER]) == bytes.fromhex(expected)


@given(st.lists(st.builds(InnerMessage, st.integers(-(2**31), 2**31 - 1), st.binary(max_size=50), TEXTS), min_size=1))
def test_messages_survive_their_batch(messages: list[InnerMessage]) -> None:
    assert inner_messages(join_messages(messages)) == messages


@pytest.mark.parametrize(
    ("batch", "complaint"),
    [
        (b"", "a batch without a message"),
        (join_messages([INNER])[:-1], "the parts of message 0"),
        (join_messages([INNER, INNER])[:50], "message 1 of the batch ends early"),
        (join_messages([INNER]).replace(b"KEYS", b"\xff\xff\xff\xff"), "message 0 of the batch are not UTF-8"),
    ],
)
def test_what_is_no_batch_is_refused_with_its_message(batch: bytes, complaint: str) -> None:
    with pytest.raises(IllegalMessage, match=complaint):
        inner_messages(batch)


def test_properties_of_a_message_in_a_batch_have_a_bound() -> None:
    assert inner_messages(join_messages([InnerMessage(0, b"", "x" * 32_767)]))[0].properties == "x" * 32_767
    with pytest.raises(IllegalMessage, match="32768 bytes"):
        join_messages([InnerMessage(0, b"", "x" * 32_768)])


def test_a_small_record_is_encoded_fast() -> None:
    fields = {
        **FIELDS,
        "body": bytes(128),
        "topic": "Orders",
        "properties": "UNIQ_KEY\x01" + "A" * 32 + "\x02WAIT\x01true\x02",
    }
    best_s = min(timeit.repeat(lambda: encode_record(**fields), number=1000, repeat=5)) / 1000
    assert best_s < 100e-6, "an order of magnitude above what it takes"
