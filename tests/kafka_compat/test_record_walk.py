"""The walk over a client's records: accepts what an independent decoder reads in full, refuses all else, and knows the
newest time.
"""

import random
import struct
import warnings
from collections.abc import Iterator, Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafka_compat import record_walk
from kafka_compat.protocol.batch_header import (
    HEADER_BYTES,
    BatchHeader,
    InvalidBatch,
    check_batch,
    encode_batch_header,
    read_batch_header,
    with_newest_time,
)
from kafka_compat.protocol.error_codes import KafkaErrorCode
from kafka_compat.record_walk import RECORDS_IN_PART, RecordWalk, TimeBounds
from kafka_compat.records import encode_records, encode_varint
from tests.kafka_compat.packers import PACKERS, Packer

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)
    from aiokafka.record.default_records import DefaultRecordBatch

ANY_TIME = TimeBounds(-(2**63), 2**63 - 1)
BASE_MS = 1_000_000
Headers = Sequence[tuple[bytes, bytes | None]]
FIELDS = st.none() | st.binary(max_size=200)
RECORD = st.tuples(
    st.integers(-(2**40), 2**40) | st.integers(0, 100),
    FIELDS,
    FIELDS,
    st.lists(st.tuples(st.text(max_size=5).map(str.encode), FIELDS), max_size=3),
)
RUNS = st.lists(st.tuples(RECORD, st.integers(1, 70)), min_size=1, max_size=4).map(
    lambda runs: [each for each, times in runs for _ in range(times)]
)
RECORDS = st.lists(RECORD, min_size=1, max_size=30) | RUNS


def field(content: bytes | None) -> bytes:
    return encode_varint(-1) if content is None else encode_varint(len(content)) + content


def record(
    number: int, value: bytes | None = b"v", *, key: bytes | None = None, time: int = 0, headers: Headers = ()
) -> bytes:
    body = b"\0" + encode_varint(time) + encode_varint(number) + field(key) + field(value) + encode_varint(len(headers))
    body += b"".join(field(name) + field(content) for name, content in headers)
    return encode_varint(len(body)) + body


def batch(body: bytes, count: int, *, codec: int = 0, base_ms: int = BASE_MS, newest_ms: int = -1) -> bytes:
    header = BatchHeader(0, 0, -1, 2, 0, codec, count - 1, base_ms, newest_ms, -1, -1, -1, count)
    return encode_batch_header(header, body) + body


def newest(content: bytes, times: TimeBounds = ANY_TIME) -> int:
    """The newest time of a batch that is taken."""
    walk = RecordWalk(read_batch_header(content), memoryview(content), times)
    take_all(walk)
    return walk.newest_ms


def take_all(walk: RecordWalk) -> None:
    while not walk.step():
        pass


@pytest.mark.parametrize("without", [None, 0, 1, 7, 9_999, 10_000, 12_345, 20_004])
def test_every_record_of_a_compacted_topic_needs_a_key(without: int | None) -> None:
    count = 20_005
    keys = [None if at == without else b"k" * (at % 200) for at in range(count)]
    content = encode_records([(key, b"") for key in keys], BASE_MS)
    walk = RecordWalk(read_batch_header(content), memoryview(content), ANY_TIME, keyed=True)
    if without is None:
        take_all(walk)
        return
    with pytest.raises(InvalidBatch, match=f"record {without} has no key, which a compacted topic needs") as caught:
        take_all(walk)
    assert (caught.value.code, caught.value.record) == (KafkaErrorCode.INVALID_RECORD, without)


# ---------------------------------------------------------------- against decoders that share nothing with it


class Slow:
    """Reads records byte by byte, as the format's description has them. Raises `ValueError`."""

    def __init__(self, body: bytes) -> None:
        self.body, self.at = body, 0

    def take(self, size: int) -> bytes:
        if not 0 <= size <= len(self.body) - self.at:
            raise ValueError("short")
        self.at += size
        return self.body[self.at - size : self.at]

    def number(self, bits: int) -> int:
        value = 0
        for shift in range(0, bits, 7):
            byte = self.take(1)[0]
            value += (byte % 128) << shift
            if byte < 128:
                if value >> bits:
                    break
                return value // 2 if value % 2 == 0 else -(value + 1) // 2
        raise ValueError("long")

    def field(self, least: int) -> None:
        size = self.number(32)
        if size < least:
            raise ValueError("negative")
        self.take(max(size, 0))

    def times(self, count: int) -> Iterator[int]:
        for number in range(count):
            end = self.number(32) + self.at
            self.take(1)
            time = self.number(64)
            if self.number(32) != number:
                raise ValueError("delta")
            self.field(-1)
            self.field(-1)
            headers = self.number(32)
            if headers < 0:
                raise ValueError("negative")
            for _ in range(headers):
                self.field(0)
                self.field(-1)
            if self.at != end:
                raise ValueError("length")
            yield time
        if self.at != len(self.body):
            raise ValueError("more")


def slowly(body: bytes, count: int) -> int | KafkaErrorCode:
    """The newest time, or the error."""
    try:
        return max(-1, *Slow(body).times(count))
    except ValueError:
        return KafkaErrorCode.INVALID_RECORD


def quickly(body: bytes, count: int) -> int | KafkaErrorCode:
    try:
        return newest(batch(body, count, base_ms=0))
    except InvalidBatch as error:
        return error.code


@pytest.mark.parametrize("pack", PACKERS.values(), ids=PACKERS)
@given(records=RECORDS)
def test_records_are_taken_in_every_codec_and_aiokafka_reads_them(pack: Packer, records: list[Any]) -> None:
    body = b"".join(
        record(number, value, key=key, time=time, headers=headers)
        for number, (time, key, value, headers) in enumerate(records)
    )
    codec, packed = pack(body)
    content = batch(packed, len(records), codec=codec)
    found = newest(content)
    assert found == max(-1, *(BASE_MS + time for time, *_ in records))
    assert slowly(body, len(records)) == max(-1, *(time for time, *_ in records))
    read = list(DefaultRecordBatch(bytes(content)))
    assert [(each.offset, each.timestamp, each.key, each.value) for each in read] == [
        (number, BASE_MS + time, key, value) for number, (time, key, value, _) in enumerate(records)
    ]


@given(records=RECORDS, seed=st.integers(0, 2**32))
def test_after_any_change_the_walk_and_the_slow_decoder_say_the_same(records: list[Any], seed: int) -> None:
    rng = random.Random(seed)
    body = b"".join(
        record(number, value, key=key, time=time, headers=headers)
        for number, (time, key, value, headers) in enumerate(records)
    )
    for _ in range(20):
        changed = bytearray(body)
        for _ in range(rng.choice([1, 1, 2])):
            at = rng.randrange(len(changed))
            match rng.randrange(5):
                case 0:
                    changed[at] = rng.choice([0, 1, 2, 0x7F, 0x80, 0xFF])
                case 1:
                    changed[at] ^= 1 << rng.randrange(8)
                case 2:
                    changed[at:at] = rng.choice([b"\0", b"\x80", b"\xff" * 4, b"\x80\0"])
                case 3:
                    del changed[at]
                case _:
                    del changed[at:]
            if not changed:
                break
        count = len(records) + rng.choice([0, 0, 0, 1, -1])
        if count > 0 and count <= len(changed) // 7:
            assert quickly(bytes(changed), count) == slowly(bytes(changed), count), (changed.hex(), count)


def test_offset_deltas_are_read_in_each_of_their_sizes() -> None:
    count = 20_000
    assert newest(batch(b"".join(map(record, range(count))), count)) == BASE_MS
    for wrong in (63, 64, 65, 8191, 8192, 8193, count - 1):
        parts = [*map(record, range(wrong)), record(wrong - 1), *map(record, range(wrong + 1, count))]
        with pytest.raises(InvalidBatch, match=f"record {wrong} has the offset delta {wrong - 1}"):
            newest(batch(b"".join(parts), count))


def test_headers_are_walked_in_every_record_of_a_run() -> None:
    body = b"".join(record(number, headers=[(b"k", b"")]) for number in range(4))
    assert newest(batch(body, 4)) == BASE_MS
    wrong = bytearray(body)
    wrong[-4] = 4  # the last record counts two headers where one is
    with pytest.raises(InvalidBatch, match="record 3"):
        newest(batch(bytes(wrong), 4))


@given(body=st.binary(min_size=7, max_size=60), count=st.integers(1, 8))
def test_of_any_bytes_both_say_the_same(body: bytes, count: int) -> None:
    if count <= len(body) // 7:
        assert quickly(body, count) == slowly(body, count)


@pytest.mark.parametrize("size", [0, 1, 63, 64, 8191, 8192, 100_000])
@pytest.mark.parametrize("key", [None, b"", b"k" * 63, b"k" * 64, b"k" * 10_000])
def test_lengths_around_each_size_of_their_numbers_are_taken(size: int, key: bytes | None) -> None:
    body = b"".join(record(number, bytes(size), key=key, time=number) for number in range(3))
    assert newest(batch(body, 3)) == BASE_MS + 2


@pytest.mark.parametrize("time", [0, 63, 64, -64, -65, 8191, 8192, -8192, -8193, 2**31, -(2**40), 2**62 - 1])
def test_times_of_every_size_are_read(time: int) -> None:
    assert newest(batch(record(0, time=time), 1, base_ms=2**61)) == 2**61 + time


# ---------------------------------------------------------------- in parts


def test_many_records_are_walked_in_parts_and_the_newest_is_that_of_all(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(record_walk, "RECORDS_IN_PART", 100)
    times = [5] * 1050
    times[3], times[420], times[1049] = 9, 70, 11
    content = batch(b"".join(record(number, time=time) for number, time in enumerate(times)), 1050)
    walk = RecordWalk(read_batch_header(content), content, ANY_TIME)
    parts = [walk.part]
    while not walk.step():
        parts.append(walk.part)
    assert parts == [100] * 10 + [50]
    assert walk.newest_ms == BASE_MS + 70


def test_a_record_after_a_part_is_walked_too() -> None:
    body = b"".join(map(record, range(RECORDS_IN_PART + 1)))
    with pytest.raises(InvalidBatch, match=f"record {RECORDS_IN_PART} has the offset delta 5") as caught:
        newest(batch(body[: -len(record(RECORDS_IN_PART))] + record(5), RECORDS_IN_PART + 1))
    assert caught.value.record == RECORDS_IN_PART


# ---------------------------------------------------------------- what is refused


@pytest.mark.parametrize(
    ("body", "count", "reason"),
    [
        (record(0), 3, "3 records in 8 bytes"),
        (record(0, bytes(20)) + record(1), 3, "record 2 holds a number that is not whole"),
        (record(0) + record(1) + record(2), 1, "16 bytes follow the 1 records"),
        (b"\xff" * 40, 1, "record 0 holds a number that is not whole, or too long"),
        (encode_varint(200) + record(0)[1:], 1, "record 0 has a length of 200 bytes, 7 are left"),
        (encode_varint(2**31 - 1) + record(0)[1:], 1, "record 0 has a length of 2147483647 bytes"),
        (encode_varint(-5) + record(0)[1:], 1, "record 0 has a length of -5 bytes"),
        (record(0) + record(0), 2, "record 1 has the offset delta 0"),
        (record(1), 1, "record 0 has the offset delta 1"),
        (b"\x0f\0\0\0\x01\x02v\0", 1, "record 0 has a length of -8 bytes"),
        (b"\x20\0" + b"\x80" * 9 + b"\x02\0\x01\x02v\0", 1, "record 0 holds a number that is not whole, or too long"),
        (b"\x0e\0\0\0\x01\x63\0\0", 1, "record 0 has a value of -50 bytes"),
        (b"\x0e\0\0\0\x03\x02v\0", 1, "record 0 has a key of -2 bytes"),
        (b"\x0e\0\0\0\x01\x02v\x01", 1, "with a count of headers of -1"),
        (b"\x0e\0\0\0\x01\x02v\x08", 1, "with a count of headers of 4"),
    ],
)
def test_a_batch_that_is_not_what_it_says_is_refused_with_the_reason(body: bytes, count: int, reason: str) -> None:
    with pytest.raises(InvalidBatch, match=reason) as caught:
        newest(batch(body, count))
    assert caught.value.code is KafkaErrorCode.INVALID_RECORD


@pytest.mark.parametrize("codec", [1, 2, 3, 4])
def test_records_that_are_not_what_their_codec_writes_are_refused(codec: int) -> None:
    with pytest.raises(InvalidBatch, match=r"no gzip|no snappy|no LZ4|no zstd") as caught:
        newest(batch(record(0, b"plain" * 10), 1, codec=codec))
    assert caught.value.code is KafkaErrorCode.INVALID_RECORD


def test_records_that_grow_beyond_the_bound_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(record_walk, "TAKEN_BYTES_MAX", 10_000)
    for name, pack in PACKERS.items():
        codec, packed = pack(record(0, bytes(11_000)))
        if name != "none":
            with pytest.raises(InvalidBatch, match="more than 10000 bytes"):
                newest(batch(packed, 1, codec=codec))


@pytest.mark.parametrize("count", [0, -1, 2**31 - 1])
def test_a_count_that_cannot_be_is_refused_before_any_record_is_looked_at(count: int) -> None:
    with pytest.raises(InvalidBatch, match=f"{count} records in"):
        newest(batch(record(0), count))


# ---------------------------------------------------------------- times


def test_times_out_of_bounds_are_refused_and_the_record_is_named() -> None:
    times = TimeBounds.around(BASE_MS, 5_000, 3_000)
    good = [record(0), record(1, time=3_000), record(2, time=-5_000)]
    assert newest(batch(b"".join(good), 3), times) == BASE_MS + 3_000
    for wrong in (3_001, -5_001, 2**60, -(2**60)):
        with pytest.raises(InvalidBatch, match=f"record 3 has the time {BASE_MS + wrong}") as caught:
            newest(batch(b"".join([*good, record(3, time=wrong)]), 4), times)
        assert (caught.value.code, caught.value.record) == (KafkaErrorCode.INVALID_TIMESTAMP, 3)


def test_a_record_without_a_time_is_not_compared() -> None:
    times = TimeBounds.around(BASE_MS, 5_000, 3_000)
    assert newest(batch(record(0), 1, base_ms=-1), times) == -1
    assert newest(batch(record(0, time=-BASE_MS - 1) + record(1), 2), times) == BASE_MS


def test_a_time_beyond_64_bits_is_refused() -> None:
    for base_ms, time in ((2**63 - 1, 1), (-(2**63), -1)):
        with pytest.raises(InvalidBatch) as caught:
            newest(batch(record(0, time=time), 1, base_ms=base_ms), TimeBounds.around(2**62, 2**63 - 1, 2**63 - 1))
        assert caught.value.code is KafkaErrorCode.INVALID_TIMESTAMP


@pytest.mark.parametrize("newest_ms", [-1, 5, 2**62])
def test_the_newest_time_is_written_with_a_crc_that_fits(newest_ms: int) -> None:
    content = batch(record(0, time=7), 1, newest_ms=newest_ms)
    written = with_newest_time(memoryview(content), BASE_MS + 7)
    assert check_batch(written).max_timestamp == BASE_MS + 7
    changed = [at for at in range(len(content)) if content[at] != written[at]]
    assert set(changed) <= {*range(17, 21), *range(35, 43)}
    assert struct.unpack_from(">q", written, 35) == (BASE_MS + 7,)
    assert bytes(written[HEADER_BYTES:]) == content[HEADER_BYTES:]
