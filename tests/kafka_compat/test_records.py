"""Records: other implementations read ours, we read theirs, and damage is refused within bounds."""

import gzip
import itertools
import warnings
from typing import Any

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafka_compat import records as module
from kafka_compat.protocol.batch_header import (
    HEADER_BYTES,
    InvalidBatch,
    check_batch,
    encode_batch_header,
    read_batch_header,
)
from kafka_compat.records import (
    KafkaRecord,
    encode_kept,
    encode_records,
    encode_varint,
    first_record_since,
    read_records,
    read_varint,
)
from tests.kafka_compat.packers import PACKERS, Packer

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)  # kafka-python reads its schemas in an old way
    from kafka.record.default_records import DefaultRecordBatchBuilder
    from kafka.record.memory_records import MemoryRecords

FIELDS = st.none() | st.binary(max_size=40)
RECORDS = st.lists(st.tuples(FIELDS, FIELDS), min_size=1, max_size=20)
BATCH = encode_records([(b"a", b"1"), (None, b"2"), (b"c", None)], [1000, 5000, 3000], base_offset=70)


def theirs(records: list[tuple[int, bytes | None, bytes | None]], *, compression: int = 0, headers: Any = ()) -> bytes:
    """A batch by kafka-python."""
    builder = DefaultRecordBatchBuilder(2, compression, 0, -1, -1, -1, 1 << 20)
    for offset, (time, key, value) in enumerate(records):
        assert builder.append(offset, time, key, value, list(headers)) is not None
    return bytes(builder.build())


def content(batch: bytes | memoryview) -> list[tuple[int, int, bytes | None, bytes | None]]:
    return [(each.offset, each.timestamp_ms, each.key, each.value) for each in read_records(batch)]


def with_body(body: bytes, **changes: int) -> bytes:
    header = attrs.evolve(read_batch_header(BATCH), **changes)
    return encode_batch_header(header, body) + body


# ---------------------------------------------------------------- numbers


@pytest.mark.parametrize(
    ("value", "encoded"),
    [(0, "00"), (-1, "01"), (1, "02"), (63, "7e"), (-64, "7f"), (64, "8001"), (300, "d804"), (2**31 - 1, "feffffff0f")],
)
def test_numbers_are_written_as_zig_zag_varints(value: int, encoded: str) -> None:
    assert encode_varint(value).hex() == encoded
    assert read_varint(bytes.fromhex(encoded), 0, len(encoded) // 2) == (value, len(encoded) // 2)


@given(value=st.integers(-(2**63), 2**63 - 1))
def test_every_number_of_64_bits_is_read_as_written(value: int) -> None:
    encoded = b"-" + encode_varint(value)
    assert read_varint(encoded, 1, len(encoded)) == (value, len(encoded))
    with pytest.raises(InvalidBatch):
        read_varint(encoded, 1, len(encoded) - 1)


def test_a_number_that_does_not_end_is_refused() -> None:
    with pytest.raises(InvalidBatch, match="not whole, or too long"):
        read_varint(b"\xff" * 1000, 0, 1000)


# ---------------------------------------------------------------- against kafka-python


@given(records=RECORDS, times=st.lists(st.integers(0, 2**41), min_size=20, max_size=20))
def test_kafka_python_reads_what_is_written(records: list[tuple[bytes | None, bytes | None]], times: list[int]) -> None:
    batch = encode_records(records, times[: len(records)], base_offset=500)
    check_batch(batch)
    found = MemoryRecords(batch).next_batch()
    assert found.validate_crc()
    expected = [(500 + at, time, *pair) for at, (pair, time) in enumerate(zip(records, times, strict=False))]
    assert [(each.offset, each.timestamp, each.key, each.value) for each in found] == expected
    assert content(batch) == expected


@pytest.mark.parametrize("compression", [0, 1])
@given(records=RECORDS, time=st.integers(0, 2**41), headers=st.lists(st.tuples(st.text(max_size=5), st.binary())))
def test_what_kafka_python_writes_is_read(
    compression: int, records: list[tuple[bytes | None, bytes | None]], time: int, headers: list[tuple[str, bytes]]
) -> None:
    batch = theirs([(time + at, *pair) for at, pair in enumerate(records)], compression=compression, headers=headers)
    assert content(batch) == [(at, time + at, *pair) for at, pair in enumerate(records)]


@given(records=RECORDS, data=st.data(), compression=st.sampled_from([0, 1]))
def test_kafka_python_reads_a_batch_of_which_some_records_left(
    records: list[tuple[bytes | None, bytes | None]], data: st.DataObject, compression: int
) -> None:
    batch = theirs([(9 + at, *pair) for at, pair in enumerate(records)], compression=compression, headers=[("h", b"x")])
    flags = data.draw(st.lists(st.booleans(), min_size=len(records), max_size=len(records)))
    kept = [each for each, stays in zip(read_records(batch), flags, strict=True) if stays]
    if kept:
        left = encode_kept(read_batch_header(batch), kept)
        found = MemoryRecords(left).next_batch()
        assert found.validate_crc()
        assert [(each.offset, each.timestamp, each.key, each.value, each.headers) for each in found] == [
            (record.offset, record.timestamp_ms, record.key, record.value, [("h", b"x")]) for record in kept
        ]
        before, after = read_batch_header(batch), read_batch_header(left)
        assert (after.base_offset, after.end_offset) == (before.base_offset, before.end_offset)
        assert after.max_timestamp == max(each.timestamp_ms for each in kept)


# ---------------------------------------------------------------- what is refused


@pytest.mark.parametrize(("records", "times"), [([], []), ([], 5), ([(b"", b"")], [1, 2])])
def test_a_batch_needs_a_record_and_a_time_for_each(records: list[Any], times: Any) -> None:
    with pytest.raises(ValueError, match="make no batch"):
        encode_records(records, times)


@pytest.mark.parametrize("compression", [5, 6, 7])
def test_a_codec_that_is_unknown_is_named(compression: int) -> None:
    with pytest.raises(InvalidBatch, match=f"codec {compression} is unknown"):
        content(with_body(BATCH[HEADER_BYTES:], attributes=compression))


@pytest.mark.parametrize("pack", PACKERS.values(), ids=PACKERS)
def test_records_in_every_codec_are_read(pack: Packer) -> None:
    codec, body = pack(BATCH[HEADER_BYTES:])
    assert content(with_body(body, attributes=codec)) == content(BATCH)


def test_no_change_of_a_byte_is_read_beyond_the_batch_or_raises_anything_else() -> None:
    body = BATCH[HEADER_BYTES:]
    refused = 0
    for at, value in itertools.product(range(len(body)), [0x00, 0x01, 0x7F, 0x80, 0xFF]):
        damaged = bytearray(body)
        damaged[at] = value
        try:
            assert len(content(with_body(bytes(damaged)))) == 3
        except InvalidBatch:
            refused += 1
    assert refused > 50


@pytest.mark.parametrize("end", range(len(BATCH) - HEADER_BYTES))
def test_records_that_are_cut_short_are_refused(end: int) -> None:
    with pytest.raises(InvalidBatch):
        content(with_body(BATCH[HEADER_BYTES : HEADER_BYTES + end]))


@pytest.mark.parametrize("count", [-1, 2, 4, 1 << 30])
def test_a_count_that_is_not_that_of_the_records_is_refused(count: int) -> None:
    with pytest.raises(InvalidBatch):
        content(with_body(BATCH[HEADER_BYTES:], count=count))


def test_an_offset_beyond_the_batch_is_refused() -> None:
    with pytest.raises(InvalidBatch, match="offset delta"):
        content(with_body(BATCH[HEADER_BYTES:], last_offset_delta=1))


def test_a_header_without_a_key_is_refused() -> None:
    record = b"\0\0\0\x01\x01\x02\x01\x01"
    with pytest.raises(InvalidBatch, match="a header has no key"):
        content(with_body(encode_varint(len(record)) + record, count=1, last_offset_delta=0))


def test_a_count_of_headers_that_cannot_fit_ends_at_once() -> None:
    record = b"\0\0\0\x01\x01" + encode_varint(2**40)
    with pytest.raises(InvalidBatch):
        content(with_body(encode_varint(len(record)) + record, count=1))


def test_a_gzip_that_grows_too_much_is_refused_before_it_is_made(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "DECOMPRESSED_BYTES_MAX", 10_000)
    body = BATCH[HEADER_BYTES:]
    assert len(content(with_body(gzip.compress(body), attributes=1))) == 3
    for bad in (gzip.compress(body + bytes(10_000)), gzip.compress(body)[:-3], b"no gzip", b""):
        with pytest.raises(InvalidBatch, match="gzip"):
            content(with_body(bad, attributes=1))


# ---------------------------------------------------------------- by time


@pytest.mark.parametrize(
    ("since", "start", "expected"),
    [
        (0, 0, (70, 1000)),
        (1000, 0, (70, 1000)),
        (1001, 0, (71, 5000)),
        (5000, 0, (71, 5000)),
        (5001, 0, None),
        (0, 71, (71, 5000)),
        (0, 72, (72, 3000)),
        (4000, 72, None),
        (0, 73, None),
    ],
)
def test_the_first_record_as_young_as_asked_is_found(since: int, start: int, expected: tuple[int, int] | None) -> None:
    assert first_record_since(BATCH, since, start) == expected
    for pack in PACKERS.values():
        codec, body = pack(BATCH[HEADER_BYTES:])
        assert first_record_since(with_body(body, attributes=codec), since, start) == expected


def test_of_records_that_cannot_be_read_the_header_is_believed() -> None:
    snappy = with_body(b"?" * 30, attributes=2)
    assert first_record_since(snappy, 900) == (70, 1000)
    assert first_record_since(snappy, 1001) == (70, 5000)
    assert first_record_since(snappy, 900, 71) == (71, 5000)
    assert first_record_since(snappy, 5001) is None


def test_records_that_a_broker_stamped_all_have_its_time() -> None:
    stamped = with_body(BATCH[HEADER_BYTES:], attributes=1 << 3)
    assert first_record_since(stamped, 4000) == (70, 5000)
    assert {each.timestamp_ms for each in read_records(stamped)} == {5000}


def test_a_record_knows_its_own_bytes() -> None:
    assert b"".join(each.encoded for each in read_records(BATCH)) == BATCH[HEADER_BYTES:]
    assert KafkaRecord(1, 2, b"k", None) == KafkaRecord(1, 2, b"k", None, memoryview(b"x"))
