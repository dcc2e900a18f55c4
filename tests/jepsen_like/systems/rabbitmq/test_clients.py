"""A message is confirmed, returned or refused by the answer to it, and a message that was got is acknowledged."""

import struct
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import pytest
import trio

from jepsen_like.history.ops import Outcome
from jepsen_like.systems.rabbitmq import wire
from jepsen_like.systems.rabbitmq.clients import Closed, NotConfirmed, RabbitConnection, Returned, StillOut, ending_of
from jepsen_like.systems.rabbitmq.wire import Method, WrongFrames
from tests.jepsen_like.systems.rabbitmq.test_wire import CLOSED, GOT, frame, method
from tests.listening import listening

HELLO = (
    method(Method.START),
    method(Method.TUNE),
    method(Method.OPEN_OK),
    method(Method.CHANNEL_OPEN_OK),
    method(Method.CONFIRM_OK),
)
EMPTY_CONTENT = frame(2, struct.pack(">HHQH", 60, 0, 0, 0))
CONFIRMED = method(Method.ACK, struct.pack(">QB", 1, 0))


@asynccontextmanager
async def answered_by(*answers: bytes, heard: list[bytes] | None = None) -> AsyncIterator[RabbitConnection]:
    """A connection to a server that greets, and then gives one of these answers to each request."""

    async def serve(stream: trio.SocketStream) -> None:
        for answer in (*HELLO, *answers):
            request = await stream.receive_some()
            if heard is not None:
                heard.append(bytes(request))
            await stream.send_all(answer)
        while request := await stream.receive_some():
            if heard is not None:
                heard.append(bytes(request))

    async with listening(serve) as address, RabbitConnection.open(address, within_s=5) as connection:
        yield connection


async def test_a_confirmed_message_is_published() -> None:
    async with answered_by(CONFIRMED) as connection:
        await connection.publish(b"body")
        assert connection.is_open


@pytest.mark.parametrize(
    ("answers", "error", "goes_on"),
    [
        ([method(Method.NACK, struct.pack(">QB", 1, 0))], NotConfirmed, True),
        ([method(Method.RETURN, CLOSED) + EMPTY_CONTENT + CONFIRMED, b""], Returned, True),
        ([method(Method.CHANNEL_CLOSE, CLOSED)], Closed, False),
        ([method(Method.ACK, struct.pack(">QB", 2, 0))], WrongFrames, False),
        ([method(Method.GET_EMPTY)], WrongFrames, False),
    ],
)
async def test_each_other_answer_is_an_error(answers: Sequence[bytes], error: type[Exception], goes_on: bool) -> None:
    async with answered_by(*answers) as connection:
        with pytest.raises(error):
            await connection.publish(b"body")
        assert connection.is_open is goes_on


async def test_a_message_that_was_got_is_acknowledged() -> None:
    heard: list[bytes] = []
    message = method(Method.GET_OK, GOT) + frame(2, struct.pack(">HHQH", 60, 0, 4, 0)) + frame(3, b"body")
    async with answered_by(message, method(Method.GET_EMPTY, b"\0"), heard=heard) as connection:
        assert await connection.get() == b"body"
        assert await connection.get() is None
        assert wire.ack(7) in b"".join(heard)


async def test_a_message_counts_as_got_though_it_comes_with_the_end_of_patience() -> None:
    message = method(Method.GET_OK, GOT) + frame(2, struct.pack(">HHQH", 60, 0, 4, 0)) + frame(3, b"body")
    got: bytes | None = None
    async with answered_by(message) as connection:
        with trio.move_on_after(5) as patience:
            heard = connection._hear

            async def late() -> wire.Heard:
                found = await heard()
                patience.cancel()
                return found

            connection._hear = late  # type: ignore[method-assign]
            got = await connection.get()
    assert got == b"body"


@pytest.mark.parametrize(
    ("error", "outcome"),
    [
        (Returned(), Outcome.FAIL),
        (StillOut(), Outcome.FAIL),
        (NotConfirmed(), Outcome.INFO),
        (Closed(320, "CONNECTION_FORCED"), Outcome.INFO),
        (trio.BrokenResourceError(), Outcome.INFO),
    ],
)
def test_only_what_certainly_had_no_effect_failed(error: Exception, outcome: Outcome) -> None:
    assert ending_of(error, connection_lost=True).outcome is outcome
