"""The native framing: whatever way a stream is cut into pieces, its frames and its faults are the same."""

from itertools import pairwise

import crc32c
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from raft.net.decoder import GROWTH, LARGE_BYTES, TRUSTED_BYTES, Buffer
from raft.net.framing import HEADER, Frame, FrameDecoder, encode_frame, header_check
from tests.examples import examples

BODY_BYTES_MAX = 1000

Received = tuple[int, Buffer]

frames = st.lists(st.tuples(st.integers(0, 255), st.binary(max_size=200)), max_size=8)


def check_crcs(frames: list[Frame]) -> list[Received]:
    """Returns types and bodies, after checking the CRC given with each body."""
    assert [crc for _, _, crc in frames] == [crc32c.crc32c(body) for _, body, _ in frames]
    return [(message_type, body) for message_type, body, _ in frames]


def decode(pieces: list[bytes]) -> tuple[list[Received], str | None]:
    decoder = FrameDecoder(BODY_BYTES_MAX)
    decoded = [frame for piece in pieces for frame in check_crcs(decoder.feed(piece))]
    return decoded, None if decoder.failure is None else str(decoder.failure)


def cut(stream: bytes, places: list[int]) -> list[bytes]:
    edges = sorted({0, len(stream), *(place % (len(stream) + 1) for place in places)})
    return [stream[a:b] for a, b in pairwise(edges)]


def test_a_frame_has_the_header_of_the_protocol() -> None:
    checked = b"\x00\x00\x00\x03\x01\x02"
    checks = crc32c.crc32c(checked).to_bytes(4, "big")[2:] + crc32c.crc32c(b"abc").to_bytes(4, "big")
    assert encode_frame(2, b"abc") == checked + checks + b"abc"


@given(frames, st.lists(st.integers(0, 2000), max_size=12))
def test_frames_do_not_depend_on_how_the_stream_was_cut(sent: list[tuple[int, bytes]], places: list[int]) -> None:
    stream = b"".join(encode_frame(*frame) for frame in sent)
    assert decode(cut(stream, places)) == (sent, None)


@given(frames, st.binary(max_size=40), st.integers(0, 400), st.lists(st.integers(0, 2000), max_size=12))
def test_frames_and_failure_of_a_damaged_stream_do_not_depend_on_how_it_was_cut(
    sent: list[tuple[int, bytes]], noise: bytes, at: int, places: list[int]
) -> None:
    stream = bytearray(b"".join(encode_frame(*frame) for frame in sent))
    stream[at : at + len(noise)] = noise
    assert decode(cut(bytes(stream), places)) == decode([bytes(stream)])


def receive(stream: bytes, reads: list[int], body_bytes_max: int, *, trusted: bool = False) -> list[Received]:
    """Decodes a stream as a connection does: every read goes to the room that the decoder wants filled, or into one buffer for all."""
    decoder = FrameDecoder(body_bytes_max)
    decoder.trusted = trusted
    shared = bytearray(256 * 1024)
    frames: list[Received] = []
    position, number = 0, 0
    while position < len(stream):
        room = decoder.room()
        if room is not None:
            ahead = TRUSTED_BYTES if trusted else 0
            assert decoder.pending_bytes + len(room) <= max(ahead, GROWTH * decoder.pending_bytes)
        place = memoryview(shared) if room is None else room
        piece = stream[position : position + min(reads[number % len(reads)], len(place))]
        place[: len(piece)] = piece
        frames += check_crcs(decoder.feed(place[: len(piece)]) if room is None else decoder.fill(len(piece)))
        position, number = position + len(piece), number + 1
    assert decoder.pending_bytes == 0
    return frames


sizes = st.one_of(
    st.integers(0, 100), st.integers(LARGE_BYTES - 20, LARGE_BYTES + 20), st.integers(0, 40 * LARGE_BYTES)
)


@settings(max_examples=examples(36))
@given(
    st.lists(sizes, min_size=1, max_size=6), st.lists(st.integers(1, 300 * 1024), min_size=1, max_size=4), st.booleans()
)
def test_large_frames_grow_in_a_place_of_their_own_whatever_is_read_at_a_time(
    body_sizes: list[int], reads: list[int], trusted: bool
) -> None:
    assume(sum(body_sizes) // min(reads) < 2000)
    sent = [(number, bytes([number]) * size) for number, size in enumerate(body_sizes)]
    stream = b"".join(encode_frame(*frame) for frame in sent)
    assert receive(stream, reads, max(body_sizes), trusted=trusted) == sent


@pytest.mark.parametrize("size", [TRUSTED_BYTES - HEADER.size, 10 * TRUSTED_BYTES])
@pytest.mark.parametrize("trusted", [False, True])
def test_a_trusted_sender_has_a_place_for_more_than_has_arrived_but_not_for_anything(trusted: bool, size: int) -> None:
    whole = encode_frame(1, bytes(size))
    decoder = FrameDecoder(len(whole))
    decoder.trusted = trusted
    decoder.feed(whole[: LARGE_BYTES - 1])
    assert decoder.room() is None
    decoder.feed(whole[LARGE_BYTES - 1 : LARGE_BYTES])
    room = decoder.room()
    assert room is not None
    assert len(room) == (TRUSTED_BYTES if trusted else GROWTH * LARGE_BYTES) - LARGE_BYTES


def test_a_body_stays_what_it_was_when_others_of_its_size_have_followed() -> None:
    sent = [(number, bytes([number]) * 8 * LARGE_BYTES) for number in range(4)]
    reads = [len(encode_frame(*sent[0])) // 3 + 1]
    received = receive(b"".join(encode_frame(*frame) for frame in sent), reads, len(sent[0][1]))
    received += [frame for each in sent for frame in receive(encode_frame(*each), reads, len(each[1]))]
    assert all(isinstance(body, memoryview) for _, body in received[len(sent) :])
    assert received == sent + sent


def test_what_is_fed_goes_behind_what_has_arrived_even_if_room_was_made() -> None:
    whole = encode_frame(1, b"x" * 10 * LARGE_BYTES)
    decoder = FrameDecoder(len(whole))
    decoder.feed(whole[:LARGE_BYTES])
    assert decoder.room() is not None
    assert check_crcs(decoder.feed(whole[LARGE_BYTES:])) == [(1, b"x" * 10 * LARGE_BYTES)]


def test_no_small_body_keeps_the_place_of_a_large_frame() -> None:
    large, small = (encode_frame(1, b"x" * 10 * LARGE_BYTES), encode_frame(2, b"y" * 2 * LARGE_BYTES))
    decoder = FrameDecoder(len(large))
    decoder.feed(large[: 5 * LARGE_BYTES])
    _, (_, body, _) = decoder.feed(large[5 * LARGE_BYTES :] + small)
    assert isinstance(body, bytes)


@pytest.mark.parametrize("behind", [0, LARGE_BYTES // 9, LARGE_BYTES, 2 * LARGE_BYTES - 100])
def test_a_body_keeps_little_that_is_not_its_own(behind: int) -> None:
    large, next_one = encode_frame(1, b"x" * 2 * LARGE_BYTES), encode_frame(2, bytes(2 * LARGE_BYTES))
    decoder = FrameDecoder(len(large))
    decoder.feed(large[:50])
    ((_, body, _),) = decoder.feed(large[50:] + next_one[:behind])
    assert body == b"x" * 2 * LARGE_BYTES
    kept = len(memoryview(body.obj if isinstance(body, memoryview) else body))
    assert kept <= len(body) * 9 / 8
    assert isinstance(body, memoryview) == (behind < LARGE_BYTES // 4)


def header(length: int, *, version: int = 1, check: int | None = None, crc: int = 0) -> bytes:
    """A header whose check is right unless another one is given."""
    return HEADER.pack(length, version, 2, header_check(length, version, 2) if check is None else check, crc)


@pytest.mark.parametrize(
    ("header", "reason"),
    [
        pytest.param(header(BODY_BYTES_MAX + 1), "over the bound", id="too long"),
        pytest.param(header(2**32 - 1), "over the bound", id="absurdly long"),
        pytest.param(header(0, version=2), "version 2 is unknown", id="another version"),
        pytest.param(header(0, version=0), "version 0 is unknown", id="no version"),
        pytest.param(header(0, check=7), "check of a header", id="a wrong check"),
        pytest.param(header(0, crc=1), "CRC", id="a wrong CRC"),
    ],
)
def test_a_header_that_cannot_be_is_refused_on_sight_after_the_frames_before_it(header: bytes, reason: str) -> None:
    decoded, failure = decode([encode_frame(3, b"good") + header])
    assert decoded == [(3, b"good")]
    assert failure is not None
    assert reason in failure


def test_after_a_failure_nothing_more_is_decoded() -> None:
    decoder = FrameDecoder(BODY_BYTES_MAX)
    decoder.feed(header(0, version=9))
    assert decoder.feed(encode_frame(3, b"good")) == []


def test_an_announced_body_takes_no_memory_before_it_arrives() -> None:
    decoder = FrameDecoder(2**30)
    decoder.feed(header(2**30) + b"x" * 100)
    assert decoder.pending_bytes == HEADER.size + 100
    assert decoder.room() is None


def test_a_header_with_one_or_two_turned_bits_is_refused_on_sight_and_never_waited_for() -> None:
    whole = encode_frame(68, b"a body that is long enough")
    bits = 8 * HEADER.size
    for flipped in [{one} | {other} for one in range(bits) for other in range(bits)]:
        damaged = bytearray(whole)
        for bit in flipped:
            damaged[bit // 8] ^= 1 << bit % 8
        decoder = FrameDecoder(2**32)
        assert decoder.feed(bytes(damaged)) == []
        assert decoder.failure is not None, flipped
