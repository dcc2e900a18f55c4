"""Methods and messages are the same however the bytes are cut, and bytes of another protocol are refused."""

import struct

import pytest

from jepsen_like.systems.rabbitmq import wire
from jepsen_like.systems.rabbitmq.wire import FrameDecoder, Heard, Method, WrongFrames, reason_of, tag_of

GOT = struct.pack(">QB", 7, 0) + b"\0" + b"\x03log" + struct.pack(">I", 4)
CLOSED = struct.pack(">H", 404) + b"\x09NOT_FOUND" + bytes(4)


def frame(kind: int, payload: bytes) -> bytes:
    return struct.pack(">BHI", kind, 1, len(payload)) + payload + b"\xce"


def method(which: Method, arguments: bytes = b"") -> bytes:
    return frame(1, struct.pack(">HH", *which.value) + arguments)


BYTES = (
    frame(8, b"")
    + method(Method.GET_OK, GOT)
    + frame(2, struct.pack(">HHQH", 60, 0, 11, 0))
    + frame(3, b"hello ")
    + frame(3, b"world")
    + method(Method.GET_EMPTY, b"\0")
    + method(Method.RETURN, CLOSED)
    + frame(2, struct.pack(">HHQH", 60, 0, 0, 0))
    + method(Method.ACK, struct.pack(">QB", 3, 1))
    + method(Method.CHANNEL_CLOSE, CLOSED)
)
HEARD = [
    Heard(Method.GET_OK, GOT, b"hello world"),
    Heard(Method.GET_EMPTY, b"\0"),
    Heard(Method.RETURN, CLOSED),
    Heard(Method.ACK, struct.pack(">QB", 3, 1)),
    Heard(Method.CHANNEL_CLOSE, CLOSED),
]


@pytest.mark.parametrize("size", [1, 2, 7, 1000])
def test_pieces_of_any_size_are_heard_alike(size: int) -> None:
    decoder = FrameDecoder()
    pieces = [BYTES[at : at + size] for at in range(0, len(BYTES), size)]
    assert [heard for piece in pieces for heard in decoder.feed(piece)] == HEARD


def test_tags_and_reasons_are_read() -> None:
    assert [tag_of(HEARD[0]), tag_of(HEARD[3])] == [7, 3]
    assert reason_of(HEARD[4]) == (404, "NOT_FOUND")


@pytest.mark.parametrize(
    "wrong",
    [
        b"AMQP\x00\x00\x09\x01",
        b"HTTP/1.1 400\r\n",
        method(Method.ACK)[:-1] + b"\0",
        frame(1, b"\0\x63\0\x01"),
        frame(3, b"a body of nothing"),
        method(Method.GET_OK, GOT) + method(Method.GET_EMPTY),
        method(Method.GET_OK, GOT) + frame(2, struct.pack(">HHQH", 60, 0, 1, 0)) + frame(3, b"too much"),
    ],
)
def test_another_protocol_is_refused(wrong: bytes) -> None:
    with pytest.raises(WrongFrames):
        list(FrameDecoder().feed(wrong))


def test_what_has_no_tag_or_reason_is_refused() -> None:
    for read in (tag_of, reason_of):
        with pytest.raises(WrongFrames):
            read(Heard(Method.ACK, b"\0"))


def test_a_message_is_persistent_and_must_reach_its_queue() -> None:
    bytes_ = wire.publish("log", b"body")
    assert bytes_.startswith(method(Method.PUBLISH, b"\0\0\0\x03log\x01"))
    assert frame(2, struct.pack(">HHQHB", 60, 0, 4, 0x1000, 2)) + frame(3, b"body") in bytes_


def test_a_message_is_got_with_the_duty_to_acknowledge_it() -> None:
    assert wire.get("log") == method(Method.GET, b"\0\0\x03log\0")
    assert wire.ack(9) == method(Method.ACK, struct.pack(">QB", 9, 0))
