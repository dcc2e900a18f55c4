"""Kafka's codecs, written as Java writes them and read within bounds: gzip (RFC 1952), snappy raw or in xerial's blocks, LZ4 frames, zstd frames (RFC
8878).

The caller bounds the decompressed size. Snappy states its size in advance. Gzip, LZ4 and zstd are written into a buffer
of the maximal size, which takes memory only for its written part.

Data that Apache Kafka's own clients cannot read is refused, too: a gzip with bytes behind its first member, and an LZ4
frame whose blocks depend on each other or that more bytes follow.
"""

import mmap
import zlib
from collections.abc import Callable
from typing import Final

import attrs
import cramjam

from raft.net.decoder import Buffer

NONE: Final = 0
GZIP: Final = 1
SNAPPY: Final = 2
LZ4: Final = 3
ZSTD: Final = 4

USUAL_LEVELS: Final = {GZIP: -1, LZ4: 9, ZSTD: 3}
"""Kafka's default levels."""
_SMALL_BYTES: Final = 64 << 10
_SMALL_GROWTH: Final = 8
_XERIAL_START: Final = b"\x82SNAPPY\x00"
_XERIAL_VERSIONS: Final = b"\0\0\0\x01" * 2
_XERIAL_HEADER_BYTES: Final = 16
_XERIAL_BLOCK_BYTES: Final = 32 << 10
_LZ4_START: Final = b"\x04\x22\x4d\x18"


@attrs.define
class CannotDecompress(Exception):
    """The bytes do not fit their codec, or grow beyond the bound."""

    detail: str

    def __str__(self) -> str:
        return self.detail


def decompress(codec: int, body: Buffer, bytes_max: int) -> Buffer:
    """Returns the content of compressed records, at most `bytes_max` bytes.

    Raises `CannotDecompress`, also for an unknown codec.
    """
    if codec == GZIP:
        return _gunzip(body, bytes_max)
    if codec == SNAPPY:
        return _decompress_snappy(body, bytes_max)
    if codec == LZ4:
        _check_lz4_frame(body)
        return _decompress_with(cramjam.lz4.decompress_into, "lz4", body, bytes_max)
    if codec == ZSTD:
        return _decompress_with(cramjam.zstd.decompress_into, "zstd", body, bytes_max)
    raise CannotDecompress(f"codec {codec} is unknown")


def compress(codec: int, content: Buffer, level: int) -> Buffer:
    """Returns the content compressed, in the form that Java's clients write. `level` counts for gzip, LZ4 and zstd."""
    if codec == GZIP:
        packer = zlib.compressobj(level, wbits=16 + zlib.MAX_WBITS)
        return packer.compress(content) + packer.flush()
    if codec == SNAPPY:
        return _compress_snappy(memoryview(content))
    if codec == LZ4:
        frame = cramjam.lz4.Compressor(level=level, content_checksum=False, block_linked=False)
        frame.compress(bytes(content))
        return memoryview(frame.finish())
    if codec == ZSTD:
        return memoryview(cramjam.zstd.compress(content, level=level))
    assert codec == NONE, f"codec {codec} is unknown"
    return content


def _compress_snappy(content: memoryview) -> bytes:
    """Returns snappy-java's stream: a header, and blocks that each follow their length."""
    parts: list[Buffer] = [_XERIAL_START, _XERIAL_VERSIONS]
    for at in range(0, len(content), _XERIAL_BLOCK_BYTES):
        block = bytes(cramjam.snappy.compress_raw(content[at : at + _XERIAL_BLOCK_BYTES]))
        parts += [len(block).to_bytes(4, "big"), block]
    return b"".join(parts)


def _gunzip(body: Buffer, bytes_max: int) -> bytes:
    unzip = zlib.decompressobj(wbits=16 + zlib.MAX_WBITS)
    try:
        content = unzip.decompress(body, bytes_max)
        if not unzip.eof and not unzip.unconsumed_tail:
            content += unzip.decompress(b"", 1)  # the trailer behind content that has just as many bytes
    except zlib.error as error:
        raise CannotDecompress(f"the records are no gzip: {error}") from None
    if not unzip.eof:
        raise CannotDecompress(f"the gzip is not whole, or holds more than {bytes_max} bytes")
    if unzip.unused_data:
        raise CannotDecompress(f"{len(unzip.unused_data)} bytes follow the gzip")
    return content


def _decompress_with(decompress_into: Callable[..., int], name: str, body: Buffer, bytes_max: int) -> Buffer:
    """Returns the content that `decompress_into` writes.

    It tries a small buffer first, which is enough for nearly all batches.
    """
    small = min(bytes_max, _SMALL_GROWTH * len(body) + 4096)
    if small < bytes_max and len(body) <= _SMALL_BYTES:
        place = bytearray(small)
        try:
            return memoryview(place)[: decompress_into(body, place)].toreadonly()
        except cramjam.DecompressionError:
            pass  # perhaps only for want of room
    if not bytes_max:
        raise CannotDecompress(f"the records hold more than {bytes_max} bytes")
    with mmap.mmap(-1, bytes_max) as pages:
        try:
            return pages[: decompress_into(body, pages)]
        except cramjam.DecompressionError as error:
            detail = f"the records are no {name}, or hold more than {bytes_max} bytes: {error}"
            raise CannotDecompress(detail) from None


def _decompress_snappy(body: Buffer, bytes_max: int) -> bytes:
    framed = bytes(body[: len(_XERIAL_START)]) == _XERIAL_START
    blocks = _xerial_blocks(body) if framed else [body]
    try:
        total = 0
        for block in blocks:
            total += cramjam.snappy.decompress_raw_len(block)
            if total > bytes_max:
                raise CannotDecompress(f"the snappy holds more than {bytes_max} bytes")
        return b"".join([bytes(cramjam.snappy.decompress_raw(block)) for block in blocks])
    except cramjam.DecompressionError as error:
        raise CannotDecompress(f"the records are no snappy: {error}") from None


def _xerial_blocks(body: Buffer) -> list[Buffer]:
    """Returns the blocks of snappy-java's stream, each with its length in four bytes, behind a header."""
    blocks: list[Buffer] = []
    at = _XERIAL_HEADER_BYTES
    while at < len(body):
        end = at + 4 + int.from_bytes(body[at : at + 4], "big", signed=True)
        if not at + 4 < end <= len(body):
            raise CannotDecompress(f"a snappy block of {end - at - 4} bytes, {max(len(body) - at - 4, 0)} left")
        blocks.append(body[at + 4 : end])
        at = end
    return blocks


def _check_lz4_frame(body: Buffer) -> None:
    """Raises `CannotDecompress` unless the body is a single frame of independent blocks without a dictionary."""
    if len(body) < 7 or bytes(body[:4]) != _LZ4_START:
        raise CannotDecompress("the records are no LZ4 frame")
    flags = body[4]
    if flags & 0b1100_0011 != 0b0100_0000:
        raise CannotDecompress(f"an LZ4 frame with flags {flags:08b}: another version, or a dictionary")
    if not flags & 0b0010_0000:
        raise CannotDecompress("an LZ4 frame whose blocks depend on each other, which Kafka's clients cannot read")
    at = 15 if flags & 0b1000 else 7
    after_block = 4 if flags & 0b1_0000 else 0
    while (size := int.from_bytes(body[at : at + 4], "little")) and at + 4 <= len(body):
        at += 4 + (size & 0x7FFF_FFFF) + after_block
    end = at + 4 + (4 if flags & 0b100 else 0)
    if end != len(body):
        raise CannotDecompress(f"an LZ4 frame of {end} bytes in {len(body)}")
