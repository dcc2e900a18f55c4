"""Records compressed in each of the ways in which Kafka's clients do it."""

import gzip
from collections.abc import Callable, Mapping

import cramjam

Packer = Callable[[bytes], tuple[int, bytes]]
"""Returns the codec of a batch's attributes, and the compressed records."""


def lz4_frame(content: bytes, *, linked: bool = False, checksum: bool = False) -> bytes:
    """An LZ4 frame of blocks of 64 KiB."""
    packer = cramjam.lz4.Compressor(level=1, block_linked=linked, content_checksum=checksum)
    packer.compress(content)
    return bytes(packer.finish())


def xerial(content: bytes, block_bytes: int = 32 * 1024) -> bytes:
    """Snappy as snappy-java writes it."""
    parts = [b"\x82SNAPPY\0", b"\0\0\0\1" * 2]
    for at in range(0, len(content), block_bytes):
        block = bytes(cramjam.snappy.compress_raw(content[at : at + block_bytes]))
        parts += [len(block).to_bytes(4, "big"), block]
    return b"".join(parts)


PACKERS: Mapping[str, Packer] = {
    "none": lambda content: (0, content),
    "gzip": lambda content: (1, gzip.compress(content)),
    "snappy of librdkafka": lambda content: (2, bytes(cramjam.snappy.compress_raw(content))),
    "snappy of Java": lambda content: (2, xerial(content)),
    "lz4": lambda content: (3, lz4_frame(content)),
    "lz4 with a checksum": lambda content: (3, lz4_frame(content, checksum=True)),
    "zstd": lambda content: (4, bytes(cramjam.zstd.compress(content))),
}
COMPRESSED: Mapping[str, Packer] = {name: pack for name, pack in PACKERS.items() if name != "none"}
