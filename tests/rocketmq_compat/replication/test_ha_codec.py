"""The HA stream on the wire: any division returns the encoded messages, and malformed bytes end only the connection."""

import random

import crc32c
import pytest
from hypothesis import given
from hypothesis import strategies as st

from raft.net.errors import WireError
from raft.net.framing import encode_frame
from rocketmq_compat.replication import ha_codec
from rocketmq_compat.replication.ha_codec import decode, encode, ha_decoder
from rocketmq_compat.replication.messages import (
    FetchBack,
    HaMessage,
    Handshake,
    HandshakeRefused,
    Heartbeat,
    Push,
    Report,
    Tables,
    TablesWanted,
    Welcome,
)
from rocketmq_compat.replication.model import EPOCHS_MAX, MasterEpoch

GOLDEN = [
    "000000400160f7464c89891b01000000010000000000000000000000000000000900020862726f6b65722d61000000000000"
    "0001000000000000000000000000000000030000000000000004",
    "0000001001618916c9a7292a00000000000000090000000000000004",
    "0000000a01626ba036914cbb00000000000000046e6f",
    "0000002201632d72e4e3f6ac0000000000000009000000000000000300000000000000047996acd47265636f7264",
    "000000080164de45d23b8eae000000000000000f",
    "0000000801655d46d23b8eae000000000000000f",
    "000000100169d1d9c9a7292a00000000000000090000000000000004",
    "00000008016a6162d23b8eae000000000000000f",
    "000000100166edfde40d831500000000000000040000000000000009",
    "000000000167137400000000",
    "000000060168d94746fd745b7461626c6573",
]

OFFSETS = st.integers(0, ha_codec.OFFSET_MAX)
EPOCHS = st.integers(1, ha_codec.EPOCH_MAX)


@st.composite
def handshakes(draw: st.DrawFn) -> Handshake:
    """Any handshake that a slave may send."""
    count = draw(st.integers(0, 5))
    bounds = sorted(draw(st.sets(OFFSETS, min_size=count + 2, max_size=count + 2)))
    numbers = sorted(draw(st.sets(EPOCHS, min_size=count, max_size=count)))
    epochs = tuple(map(MasterEpoch, numbers, bounds[1:-1]))
    name = draw(
        st.text(max_size=60).filter(lambda text: len(text.encode(errors="replace")) < 256 and text.isprintable())
    )
    return Handshake(name, draw(st.integers(0, 2**32 - 1)), draw(st.booleans()), bounds[0], bounds[-1], epochs)


def _push(offset: int, epoch: int, confirm: int, payload: bytes) -> Push:
    return Push(offset, epoch, confirm, crc32c.crc32c(payload), payload)


MESSAGES: st.SearchStrategy[HaMessage] = st.one_of(
    handshakes(),
    st.builds(Welcome, OFFSETS, OFFSETS, st.booleans()),
    st.builds(lambda ends: FetchBack(*sorted(ends)), st.sets(OFFSETS, min_size=2, max_size=2)),
    st.just(TablesWanted()),
    st.builds(Tables, st.binary(max_size=300)),
    st.builds(HandshakeRefused, st.text(max_size=200).filter(str.isprintable), st.integers(-1, ha_codec.OFFSET_MAX)),
    st.builds(_push, OFFSETS, EPOCHS, OFFSETS, st.binary(min_size=1, max_size=300)),
    st.builds(Report, OFFSETS),
    st.builds(Heartbeat, OFFSETS, st.booleans()),
)


def read(pieces: list[bytes]) -> list[HaMessage]:
    """Returns the messages in these pieces of a stream. Raises the error that would end a connection."""
    decoder = ha_decoder()
    messages = [decode(frame) for piece in pieces for frame in decoder.feed(piece)]
    if decoder.failure is not None:
        raise decoder.failure
    return messages


@given(st.lists(MESSAGES, max_size=5), st.randoms(use_true_random=False))
def test_messages_come_back_however_the_stream_is_cut(messages: list[HaMessage], rng: random.Random) -> None:
    data = b"".join(b"".join(encode(message)) for message in messages)
    cuts = sorted(rng.randint(0, len(data)) for _ in range(6))
    pieces = [data[start:end] for start, end in zip([0, *cuts], [*cuts, len(data)], strict=True)]
    assert read(pieces) == messages


@given(MESSAGES, st.data())
def test_a_changed_bit_ends_the_connection_and_makes_no_message(message: HaMessage, data: st.DataObject) -> None:
    sound = bytearray(b"".join(encode(message)))
    at = data.draw(st.integers(0, 8 * len(sound) - 1))
    sound[at // 8] ^= 1 << at % 8
    try:
        assert read([bytes(sound)]) == []
    except WireError:
        return


@given(st.integers(0, 255), st.binary(max_size=200))
def test_any_body_makes_a_message_or_a_wire_error(kind: int, body: bytes) -> None:
    try:
        message = read([encode_frame(kind, body)])
    except WireError:
        return
    assert read([b"".join(encode(message[0]))]) == message


@given(MESSAGES, st.data())
def test_a_body_that_is_cut_or_changed_makes_a_message_or_a_wire_error(message: HaMessage, data: st.DataObject) -> None:
    frame = b"".join(encode(message))
    kind, body = frame[5], bytearray(frame[12:])
    del body[data.draw(st.integers(0, len(body))) :]
    if body:
        body[data.draw(st.integers(0, len(body) - 1))] = data.draw(st.integers(0, 255))
    test_any_body_makes_a_message_or_a_wire_error.hypothesis.inner_test(kind, bytes(body))  # type: ignore[attr-defined]


def test_a_frame_over_the_bound_is_refused_by_its_header() -> None:
    payload = bytes(ha_codec.FRAME_BYTES_MAX)
    with pytest.raises(WireError, match="over the bound"):
        read([b"".join(encode(_push(0, 1, 0, payload)))[:20]])


@pytest.mark.parametrize(
    "shake",
    [
        Handshake("b", 1, True, 9, 4, ()),
        Handshake("b", 1, True, 0, 9, (MasterEpoch(2, 0), MasterEpoch(2, 4))),
        Handshake("b", 1, True, 0, 9, (MasterEpoch(1, 4), MasterEpoch(2, 4))),
        Handshake("b", 1, True, 2, 9, (MasterEpoch(1, 0),)),
        Handshake("b", 1, True, 0, 9, (MasterEpoch(1, 10),)),
        Handshake("b", 1, True, 0, 9, (MasterEpoch(0, 0),)),
        Handshake("b", 1, True, 0, 9, tuple(MasterEpoch(each, each) for each in range(1, EPOCHS_MAX + 2))),
    ],
)
def test_a_handshake_that_no_slave_sends_is_refused(shake: Handshake) -> None:
    with pytest.raises(WireError):
        read([b"".join(encode(shake))])


def test_the_payload_of_a_push_is_not_copied() -> None:
    payload = bytes(100_000)
    pieces = encode(_push(0, 1, 0, payload))
    assert pieces[-1] is payload


def test_the_bytes_of_the_stream_do_not_change() -> None:
    messages: list[HaMessage] = [
        Handshake("broker-a", 1, True, 0, 9, (MasterEpoch(1, 0), MasterEpoch(3, 4))),
        Welcome(9, 4),
        HandshakeRefused("no", 4),
        _push(9, 3, 4, b"record"),
        Report(15),
        Heartbeat(15),
        Welcome(9, 4, is_sure=False),
        Heartbeat(15, is_sure=False),
        FetchBack(4, 9),
        TablesWanted(),
        Tables(b"tables"),
    ]
    assert [b"".join(encode(message)).hex() for message in messages] == GOLDEN
