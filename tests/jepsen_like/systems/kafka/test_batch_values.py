"""Values are read out of batches as brokers keep them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jepsen_like.systems.kafka.batch_values import BatchRecord, records_of, whole_batches
from kafka_compat.protocol.batch_header import BatchHeader, InvalidBatch, encode_batch_header


def varint(number: int) -> bytes:
    zigzag = number << 1 if number >= 0 else (-number << 1) - 1
    out = bytearray()
    while zigzag >= 0x80:
        out.append(zigzag & 0x7F | 0x80)
        zigzag >>= 7
    return bytes([*out, zigzag])


def record(delta: int, key: bytes | None, value: bytes | None) -> bytes:
    body = b"\0" + varint(delta * 7) + varint(delta)
    for part in (key, value):
        body += varint(-1) if part is None else varint(len(part)) + part
    body += varint(0)
    return varint(len(body)) + body


def batch(base: int, values: list[tuple[bytes | None, bytes | None]], attributes: int = 0) -> bytes:
    body = b"".join(record(delta, key, value) for delta, (key, value) in enumerate(values))
    count = len(values)
    header = BatchHeader(base, 0, 5, 2, 0, attributes, count - 1, 0, 0, -1, -1, -1, count)
    return encode_batch_header(header, body) + body


parts = st.none() | st.binary(max_size=200)


@given(st.lists(st.lists(st.tuples(parts, parts), min_size=1, max_size=5), min_size=1, max_size=4), st.integers(0, 60))
def test_offsets_and_values_come_back_and_a_torn_end_is_left_out(
    batches: list[list[tuple[bytes | None, bytes | None]]], torn: int
) -> None:
    data, expected, base = b"", [], 100
    for values in batches:
        data += batch(base, values)
        expected += [BatchRecord(base + at, key, value, []) for at, (key, value) in enumerate(values)]
        base += len(values)
    data += batch(base, [(None, b"never")])[:torn]
    found = [one for position, header in whole_batches(data) for one in records_of(data, position, header)]
    assert found == expected


def test_a_control_batch_has_no_values_and_a_compressed_one_is_refused() -> None:
    control = batch(0, [(b"k", b"v")], attributes=1 << 5)
    ((position, header),) = whole_batches(control)
    assert list(records_of(control, position, header)) == []
    packed = batch(0, [(b"k", b"v")], attributes=2)
    ((position, header),) = whole_batches(packed)
    with pytest.raises(InvalidBatch, match="compressed"):
        list(records_of(packed, position, header))


def test_records_that_leave_their_batch_are_refused() -> None:
    good = bytearray(batch(0, [(None, b"value")]))
    good[61] = 0x7E  # the length of the first record
    ((position, header),) = whole_batches(bytes(good))
    with pytest.raises(InvalidBatch, match="beyond their batch"):
        list(records_of(bytes(good), position, header))
