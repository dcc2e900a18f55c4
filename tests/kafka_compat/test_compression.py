"""Codecs: what others compress is read, nothing grows beyond its bound, and what clients could not read is refused."""

import gzip
import random

import cramjam
import pytest

from kafka_compat.compression import CannotDecompress, compress, decompress
from tests.kafka_compat.packers import COMPRESSED, Packer, lz4_frame, xerial

SOME = random.Random(1).randbytes(1000) * 300
CONTENTS = {"empty": b"", "a byte": b"a", "small": SOME[:500], "blocks": SOME, "zeros": bytes(3 << 20)}


@pytest.mark.parametrize("name", CONTENTS)
@pytest.mark.parametrize("pack", COMPRESSED.values(), ids=COMPRESSED)
def test_content_is_read_up_to_its_bound_exactly(pack: Packer, name: str) -> None:
    content = CONTENTS[name]
    codec, body = pack(content)
    for bound in (max(len(content), 1), len(content) + 1, 64 << 20):
        assert bytes(decompress(codec, body, bound)) == content
        assert bytes(decompress(codec, memoryview(body), bound)) == content
    if len(content) > 1:
        with pytest.raises(CannotDecompress, match="more than"):
            decompress(codec, body, len(content) - 1)


@pytest.mark.parametrize("name", CONTENTS)
@pytest.mark.parametrize("codec", [1, 2, 3, 4])
def test_what_a_broker_compresses_is_read_as_it_was(codec: int, name: str) -> None:
    content = CONTENTS[name]
    assert bytes(decompress(codec, compress(codec, memoryview(content), 3), max(len(content), 1))) == content


@pytest.mark.parametrize("pack", COMPRESSED.values(), ids=COMPRESSED)
def test_damage_is_refused_or_read_as_something_else_within_the_bound(pack: Packer) -> None:
    rng = random.Random(2)
    codec, body = pack(SOME[:5000])
    for _ in range(300):
        damaged = bytearray(body)
        for _ in range(rng.choice([1, 3])):
            damaged[rng.randrange(len(damaged))] = rng.randrange(256)
        if rng.random() < 0.3:
            del damaged[rng.randrange(len(damaged)) :]
        try:
            assert len(decompress(codec, bytes(damaged), 10_000)) <= 10_000
        except CannotDecompress:
            continue


@pytest.mark.parametrize("codec", [1, 2, 3, 4])
@pytest.mark.parametrize("body", [b"", b"?", b"no codec writes these bytes", b"\xff" * 64])
def test_what_is_not_compressed_is_refused(codec: int, body: bytes) -> None:
    with pytest.raises(CannotDecompress, match=r"no gzip|not whole|no snappy|no LZ4|no zstd"):
        decompress(codec, body, 1000)


@pytest.mark.parametrize("codec", [0, 5, 6, 7])
def test_an_unknown_codec_is_named(codec: int) -> None:
    with pytest.raises(CannotDecompress, match=f"codec {codec} is unknown"):
        decompress(codec, b"", 10)


@pytest.mark.parametrize("codec", [1, 3, 4])
def test_a_bomb_is_refused_and_costs_its_bound(codec: int) -> None:
    bombs = {1: gzip.compress, 3: lz4_frame, 4: lambda content: bytes(cramjam.zstd.compress(content))}
    with pytest.raises(CannotDecompress, match="more than 1048576 bytes"):
        decompress(codec, bombs[codec](bytes(200 << 20)), 1 << 20)


def test_a_snappy_that_states_too_much_is_refused_before_any_memory_is_taken() -> None:
    with pytest.raises(CannotDecompress, match="more than 1048576 bytes"):
        decompress(2, b"\xff\xff\xff\xff\x0f", 1 << 20)
    block = bytes(cramjam.snappy.compress_raw(bytes(600_000)))
    twice = xerial(b"") + (len(block).to_bytes(4, "big") + block) * 2
    with pytest.raises(CannotDecompress, match="more than 1048576 bytes"):
        decompress(2, twice, 1 << 20)


@pytest.mark.parametrize("size", [0, 5, 100, -1, -(2**31), 2**31 - 1])
def test_a_snappy_block_that_is_not_whole_is_refused(size: int) -> None:
    with pytest.raises(CannotDecompress, match="a snappy block of"):
        decompress(2, xerial(b"") + size.to_bytes(4, "big", signed=True) + b"abc", 1000)


def test_an_lz4_frame_whose_blocks_depend_on_each_other_is_refused_as_kafkas_clients_refuse_it() -> None:
    with pytest.raises(CannotDecompress, match="blocks depend on each other"):
        decompress(3, lz4_frame(SOME, linked=True), 1 << 20)


@pytest.mark.parametrize("codec", [1, 3])
def test_nothing_may_follow_the_content(codec: int) -> None:
    packed = {1: gzip.compress(b"a"), 3: lz4_frame(b"a")}[codec]
    for more in (b"x", packed):
        with pytest.raises(CannotDecompress, match=r"follow the gzip|an LZ4 frame of"):
            decompress(codec, packed + more, 1000)
