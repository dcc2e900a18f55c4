"""The bytes of a frame, and everything that is not one."""

import struct

import pytest

from log.frame import (
    FORMAT_VERSION,
    HEADER_BYTES,
    DamagedFrame,
    ForeignFrame,
    Frame,
    FrameKind,
    checksum,
    decode_header,
    encode_header,
)

PAYLOAD = b"hello, log"
FIELDS = {
    "kind": FrameKind.RECORDS,
    "tag": 0xA5,
    "log_id": 0x0102030405060708,
    "address": 0x1112131415161718,
    "epoch": 0x2122232425262728,
    "index": 0x3132333435363738,
    "base_offset": 0x4142434445464748,
    "timestamp_ms": 0x5152535455565758,
    "durable_end": 0x0162636465666768,
    "span": 0x71727374,
    "payload_bytes": len(PAYLOAD),
    "payload_crc": checksum(PAYLOAD),
}
GOLDEN = bytes.fromhex(
    "514c4f470101a500080706050403020118171615141312112827262524232221383736353433323148474645444342415857565554535251"
    "6867666564636201747372710a000000666efb99d7d53aca"
)


def decode(content: bytes, *, log_id: int = FIELDS["log_id"], address: int = FIELDS["address"]) -> object:
    return decode_header(memoryview(content), 0, log_id=log_id, address=address)


def forge_header(at: int, byte: int) -> bytes:
    """Returns the golden header with one byte changed and a checksum that fits."""
    fields = bytearray(GOLDEN[:-4])
    fields[at] = byte
    return bytes(fields) + struct.pack("<I", checksum(fields))


def test_checksums_are_castagnoli() -> None:
    assert checksum(b"123456789") == 0xE3069283


def test_a_header_has_these_bytes_for_ever() -> None:
    assert encode_header(**FIELDS).hex() == GOLDEN.hex()


def test_a_header_reads_back_as_it_was_written() -> None:
    header = decode_header(memoryview(b"xx" + GOLDEN), 2, log_id=FIELDS["log_id"], address=FIELDS["address"])
    assert {**header._asdict(), "index": header.log_index}.items() >= FIELDS.items()
    assert header.frame(memoryview(PAYLOAD)) == Frame.of(
        PAYLOAD,
        index=FIELDS["index"],
        epoch=FIELDS["epoch"],
        base_offset=FIELDS["base_offset"],
        span=FIELDS["span"],
        tag=FIELDS["tag"],
        timestamp_ms=FIELDS["timestamp_ms"],
    )


def test_no_flipped_bit_of_a_header_goes_unseen() -> None:
    for bit in range(HEADER_BYTES * 8):
        damaged = bytearray(GOLDEN)
        damaged[bit // 8] ^= 1 << bit % 8
        with pytest.raises(DamagedFrame):
            decode(bytes(damaged))


@pytest.mark.parametrize("size", [0, 1, HEADER_BYTES - 1])
def test_a_header_that_ends_early_is_damaged(size: int) -> None:
    with pytest.raises(DamagedFrame, match="ends inside"):
        decode(GOLDEN[:size])


def test_zeros_are_told_from_other_bytes_that_are_no_frame() -> None:
    with pytest.raises(DamagedFrame, match="zeros"):
        decode(bytes(HEADER_BYTES))
    with pytest.raises(DamagedFrame, match="no frame begins here"):
        decode(b"?" * HEADER_BYTES)


def test_a_frame_at_another_address_does_not_belong_here() -> None:
    with pytest.raises(DamagedFrame, match="was written for address"):
        decode(GOLDEN, address=FIELDS["address"] + 80)


def test_another_logs_frame_is_foreign_and_not_damaged() -> None:
    with pytest.raises(ForeignFrame, match="belongs to log"):
        decode(GOLDEN, log_id=1)


def test_a_version_of_the_future_is_foreign_and_not_damaged() -> None:
    with pytest.raises(ForeignFrame, match=f"format version {FORMAT_VERSION + 1} is not supported"):
        decode(forge_header(4, FORMAT_VERSION + 1))


@pytest.mark.parametrize(
    ("at", "byte"), [pytest.param(5, 9, id="unknown kind"), pytest.param(63, 0x7F, id="durable beyond itself")]
)
def test_a_whole_header_that_contradicts_itself_is_damaged(at: int, byte: int) -> None:
    with pytest.raises(DamagedFrame, match="contradicts itself"):
        decode(forge_header(at, byte))
