"""Messages are the same however the bytes are cut, and bytes of another protocol are refused."""

import pytest

from jepsen_like.systems.nats.wire import Decoder, Heard, Message, NatsError, Ping, Pong, WrongBytes, publish

HEAD = b"NATS/1.0\r\nNats-Sequence: 7\r\n\r\n"
BYTES = (
    b'INFO {"a":1}\r\n+OK\r\nPING\r\nPONG\r\nMSG in.1 1 5\r\na\r\nb!\r\n'
    + b"HMSG in.2 1 %d %d\r\n%shello\r\n" % (len(HEAD), len(HEAD) + 5, HEAD)
    + b"HMSG in.3 1 16 16\r\nNATS/1.0 503\r\n\r\n\r\n-ERR 'Stale NatsConnection'\r\n"
)
HEARD: list[Heard] = [
    Ping(),
    Pong(),
    Message("in.1", b"a\r\nb!"),
    Message("in.2", b"hello", 0, {"Nats-Sequence": "7"}),
    Message("in.3", b"", 503),
    NatsError("'Stale NatsConnection'"),
]


@pytest.mark.parametrize("size", [1, 2, 7, 1000])
def test_pieces_of_any_size_are_heard_alike(size: int) -> None:
    decoder = Decoder()
    pieces = [BYTES[at : at + size] for at in range(0, len(BYTES), size)]
    assert [heard for piece in pieces for heard in decoder.feed(piece)] == HEARD


@pytest.mark.parametrize("wrong", [b"HTTP/1.1 400\r\n", b"MSG in 1 x\r\n", b"a" * 100_000])
def test_another_protocol_is_refused(wrong: bytes) -> None:
    with pytest.raises(WrongBytes):
        list(Decoder().feed(wrong))


def test_a_request_names_the_size_of_its_bytes() -> None:
    assert publish("log", "in.1", b"a\r\nb") == b"PUB log in.1 4\r\na\r\nb\r\n"
