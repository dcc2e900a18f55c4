"""The findings of a walk over records: units, keys, offsets, and malformed bytes."""

import contextlib

import pytest

from log.frame import checksum
from rocketmq_compat.record_layout import BORN_HOST_V6, MAGIC_V2, STORE_HOST_V6, java_hash, record_size, store_time
from rocketmq_compat.storage.dispatch import UNIT, BadRecord, QueueKey, has_key, tag_hash, topic_of, walk
from tests.rocketmq_compat.storage.records import record

KINDS = pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])


def units(run_units: bytes | bytearray) -> list[tuple[int, int, int]]:
    return list(UNIT.iter_unpack(bytes(run_units)))


@KINDS
def test_each_record_becomes_a_unit_of_its_queue(kind: type[bytes]) -> None:
    first = record("A", 3, physical=100, queue_offset=7, body=b"x" * 50, properties={"TAGS": "red"}, store_ms=5)
    second = record("B-%|_1", 0, physical=100 + len(first), queue_offset=0, store_ms=9)
    third = record("A", 3, physical=100 + len(first + second), queue_offset=8, properties="K\1TAGS\1x\2", store_ms=7)
    found = walk(kind(first + second + third), 100)
    assert [(run.key, run.first, run.next) for run in found.runs] == [(("A", 3), 7, 9), (("B-%|_1", 0), 0, 1)]
    assert units(found.runs[0].units) == [
        (100, len(first), java_hash("red")),
        (100 + len(first + second), len(third), 0),
    ]
    assert units(found.runs[1].units) == [(100 + len(first), len(second), 0)]
    assert (found.start, found.end, found.newest_ms) == (100, 100 + len(first + second + third), 9)
    assert found.queue_offsets == [7, 0, 8]
    assert found.keys == []


@pytest.mark.parametrize("flags", [0, BORN_HOST_V6, STORE_HOST_V6, BORN_HOST_V6 | STORE_HOST_V6])
@pytest.mark.parametrize("magic", [None, MAGIC_V2])
def test_long_hosts_and_long_topics_are_read(flags: int, magic: int | None) -> None:
    topic = "t" * (200 if magic else 127)
    content = record(
        topic,
        body=b"b" * 10,
        flags=flags,
        physical=5,
        store_ms=77,
        properties={"KEYS": "k1"},
        **({"magic": magic} if magic else {}),
    )
    found = walk(content, 5)
    assert (found.runs[0].key, found.newest_ms) == ((topic, 0), 77)
    assert found.keys == [(checksum(f"{topic}#k1".encode()), 5, 77)]
    assert (store_time(content), record_size(content, 5), record_size(content, 6)) == (77, len(content), None)


def test_a_first_copy_gets_its_offsets_and_no_other_byte_changes() -> None:
    sent = [record("A", 1, body=b"one"), record("B", 2), record("A", 1, body=b"two"), record("A", 0)]
    payload = bytearray().join(sent)
    asked: list[QueueKey] = []

    def next_of(key: QueueKey) -> int:
        asked.append(key)
        return {("A", 1): 10, ("B", 2): 20}.get(key, 0)

    found = walk(payload, 1000, next_of)
    assert found.queue_offsets == [10, 20, 11, 0]
    assert asked == [("A", 1), ("B", 2), ("A", 0)]
    at = 0
    for message, offset in zip(sent, found.queue_offsets, strict=True):
        stored = bytes(payload[at : at + len(message)])
        assert stored[20:36] == offset.to_bytes(8, "big") + (1000 + at).to_bytes(8, "big")
        assert stored[:20] + stored[36:] == message[:20] + message[36:]
        at += len(message)
    again = walk(payload, 1000)
    assert [(run.key, run.first, run.next, run.units) for run in again.runs] == [
        (run.key, run.first, run.next, run.units) for run in found.runs
    ]


def test_only_committed_messages_of_transactions_take_a_place_in_their_queue() -> None:
    payload = bytearray().join(
        record(flags=flags, properties={"UNIQ_KEY": f"u{flags}"}, body=bytes(flags)) for flags in (4, 8, 12, 0)
    )
    found = walk(payload, 0, lambda key: 40)
    assert found.queue_offsets == [0, 40, 0, 41]
    assert [(run.first, run.next) for run in found.runs] == [(40, 42)]
    assert [entry[0] for entry in found.keys] == [checksum(f"Orders#u{flags}".encode()) for flags in (4, 8, 0)]
    assert walk(payload, 0).queue_offsets == [0, 40, 0, 41]


def test_offsets_that_do_not_follow_each_other_begin_another_run() -> None:
    first = record(queue_offset=5)
    second = record(queue_offset=9, physical=len(first))
    assert [(run.first, run.next) for run in walk(first + second, 0).runs] == [(5, 6), (9, 10)]


def test_a_record_is_found_by_its_unique_key_and_by_each_of_its_keys() -> None:
    content = record("T", properties={"UNIQ_KEY": "0A", "KEYS": " k1  k2 ", "X": "KEYS\1no"}, store_ms=3)
    assert walk(content, 0).keys == [(checksum(f"T#{key}".encode()), 0, 3) for key in ("0A", "k1", "k2")]
    assert [has_key(content, "T", key) for key in (b"0A", b"k1", b"k2", b"no", b"")] == [True, True, True, False, False]
    assert not has_key(content, "U", b"k1")


@pytest.mark.parametrize(
    ("properties", "tag"),
    [
        ("TAGS\1a\2", "a"),
        ("TAGS\1a", "a"),
        ("X\1y\2TAGS\1a\2K\1v\2", "a"),
        ("X\1y\2TAGS\1a", "a"),
        ("XTAGS\1a\2", ""),
        ("TAGS\1\2", ""),
        ("", ""),
        ("XTAGS\1b\2TAGS\1a\2", "a"),
        ("X\1TAGS\1b\2TAGS\1a\2", "a"),
    ],
)
def test_the_tag_is_that_of_the_property_and_of_nothing_that_looks_like_it(properties: str, tag: str) -> None:
    ((_, _, found),) = units(walk(record(properties=properties), 0).runs[0].units)
    assert found == java_hash(tag)


@pytest.mark.parametrize(
    ("text", "value"),
    [("", 0), ("a", 97), ("TagA", 2598919), ("polygenelubricants", -(1 << 31)), ("你好", 652829), ("😀", 1772899)],
)
def test_tags_hash_as_in_java(text: str, value: int) -> None:
    """`"TagA".hashCode()`, and the hashes of texts that overflow, or lie beyond one byte or one code unit."""
    assert java_hash(text) == tag_hash(text.encode()) == value


@KINDS
def test_bytes_that_are_no_record_are_refused_and_named(kind: type[bytes]) -> None:
    good = record("T", body=b"body", properties={"TAGS": "a"})
    following = record("T", physical=len(good), queue_offset=1)

    def with_field(at: int, value: bytes) -> bytes:
        return good[:at] + value + good[at + len(value) :]

    wrong = {
        "magic": with_field(4, b"\0\0\0\0"),
        "blank": with_field(4, bytes.fromhex("CBD43194")),
        "short size": with_field(0, (len(good) - 1).to_bytes(4, "big")),
        "long size": with_field(0, (len(good) + 1).to_bytes(4, "big")),
        "no size": with_field(0, bytes(4)),
        "body size": with_field(84, b"\xff\xff\xff\xff"),
        "place": with_field(28, (1).to_bytes(8, "big")),
        "queue offset": with_field(20, b"\xff" * 8),
        "queue": with_field(12, b"\xff" * 4),
        "topic": with_field(88 + 4 + 1, b"/"),
        "no topic": record("", body=b"body"),
        "torn": good[:-1],
        "head": good[:60],
    }
    for name, content in wrong.items():
        with pytest.raises(BadRecord, match="no record at physical offset 0"):
            walk(kind(content), 0)
        if name not in ("torn", "head"):
            with pytest.raises(BadRecord, match="no record at physical offset"):
                walk(kind(content + following), 0)
    with pytest.raises(BadRecord, match=f"offset {len(good)}"):
        walk(kind(good + following[:-1]), 0)
    assert walk(kind(good + following), 0).queue_offsets == [0, 1]
    assert walk(b"", 7).end == 7


def test_any_prefix_and_any_changed_byte_is_read_or_refused_and_never_fails_otherwise() -> None:
    good = record("T", body=b"body", properties={"KEYS": "a b", "TAGS": "x"}, flags=BORN_HOST_V6)
    for at in range(len(good)):
        with pytest.raises(BadRecord):
            walk(good[:at] or b"\0", 0)
        for value in (0, 1, 0x7F, 0x80, 0xFF):
            content = good[:at] + bytes([value]) + good[at + 1 :]
            with contextlib.suppress(BadRecord):
                assert walk(content, 0).end == len(good)


@pytest.mark.parametrize("name", ["", "a b", "a/b", "..", "a.b", "ä", "x" * 256])
def test_what_cannot_be_a_topic_is_refused(name: str) -> None:
    assert topic_of(name.encode()) is None


@pytest.mark.parametrize("name", ["a", "%RETRY%group-1", "RMQ_SYS_TRANS_HALF_TOPIC", "a|b", "x" * 255])
def test_names_of_topics_are_those_of_rocketmq(name: str) -> None:
    assert topic_of(name.encode()) == name
