"""Record batches: what is refused, and what can be written without touching the checked part."""

import attrs
import crc32c
import pytest

from kafka_compat.protocol.batch_header import (
    CHECKED_AT,
    HEADER_BYTES,
    BatchHeader,
    InvalidBatch,
    assigned_start,
    batch_headers,
    check_batch,
    encode_batch_header,
    read_batch_header,
)
from kafka_compat.protocol.error_codes import KafkaErrorCode

HEADER = BatchHeader(0, 0, 3, 2, 0, 0, 1, 1000, 1001, -1, -1, -1, 2)
BODY = bytes.fromhex("0e 00 00 00 01 02 61 00") * 2
BATCH = encode_batch_header(HEADER, BODY) + BODY


def test_the_header_is_where_the_format_has_it() -> None:
    assert len(BATCH) == HEADER_BYTES + len(BODY) == 77
    assert BATCH[:17].hex() == "0000000000000000" + "00000041" + "00000003" + "02"
    assert int.from_bytes(BATCH[17:21]) == crc32c.crc32c(BATCH[21:])
    assert BATCH[21:61].hex() == "0000" + "00000001" + f"{1000:016x}{1001:016x}" + "f" * 28 + "00000002"
    header = check_batch(BATCH)
    assert (header.size, header.end_offset, header.count) == (77, 2, 2)


def test_offset_and_epoch_stand_before_what_the_crc_covers() -> None:
    assigned = assigned_start(check_batch(BATCH).length, 500, 9) + BATCH[16:]
    header = check_batch(b"--" + assigned, 2)
    assert (header.base_offset, header.leader_epoch, header.last_offset) == (500, 9, 501)
    assert assigned[CHECKED_AT:] == BATCH[CHECKED_AT:]


def test_a_record_set_is_taken_apart_by_lengths() -> None:
    found = list(batch_headers(BATCH + BATCH))
    assert [position for position, _ in found] == [0, 77]
    with pytest.raises(InvalidBatch) as caught:
        list(batch_headers(BATCH + BATCH[:-1]))
    assert caught.value.position == 77


@pytest.mark.parametrize("end", range(len(BATCH)))
def test_a_truncated_batch_is_refused(end: int) -> None:
    with pytest.raises(InvalidBatch):
        read_batch_header(BATCH[:end])


@pytest.mark.parametrize("place", range(17, len(BATCH)))
def test_a_change_under_the_crc_is_refused(place: int) -> None:
    damaged = bytearray(BATCH)
    damaged[place] ^= 1
    with pytest.raises(InvalidBatch) as caught:
        check_batch(bytes(damaged))
    assert caught.value.code is KafkaErrorCode.CORRUPT_MESSAGE


@pytest.mark.parametrize("magic", [0, 1, 3])
def test_other_formats_are_refused(magic: int) -> None:
    with pytest.raises(InvalidBatch) as caught:
        read_batch_header(BATCH[:16] + bytes((magic,)) + BATCH[17:])
    expected = KafkaErrorCode.INVALID_RECORD if magic < 2 else KafkaErrorCode.CORRUPT_MESSAGE
    assert caught.value.code is expected


@pytest.mark.parametrize("length", [-1, 0, 48, 66, 2**31 - 1])
def test_a_wrong_length_is_refused(length: int) -> None:
    with pytest.raises(InvalidBatch):
        read_batch_header(BATCH[:8] + length.to_bytes(4, signed=True) + BATCH[12:])


def test_counts_have_to_fit() -> None:
    header = encode_batch_header(attrs.evolve(HEADER, count=3), BODY)
    with pytest.raises(InvalidBatch) as caught:
        check_batch(header + BODY)
    assert caught.value.code is KafkaErrorCode.INVALID_RECORD
