"""A request is answered on its own connection, and one without an answer leaves none behind."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
import trio

from jepsen_like.systems.foreign.json_client import ErrorAnswered, JsonConnection, Unreadable
from tests.listening import listening

CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\n[1, \r\n2\r\n2]\r\n0\r\n\r\n"
REFUSED = b'HTTP/1.1 429 Too Many\r\nContent-Length: 8\r\n\r\n{"a": 1}'


@asynccontextmanager
async def answered_by(*answers: bytes) -> AsyncIterator[JsonConnection]:
    """A connection to a server that gives these answers, one a request, and then closes it."""

    async def serve(stream: trio.SocketStream) -> None:
        for answer in answers:
            await stream.receive_some()
            await stream.send_all(answer)
        await stream.receive_some()
        await stream.aclose()

    async with listening(serve) as address, JsonConnection.open(address, within_s=5) as connection:
        yield connection


async def test_answers_of_any_framing_are_read_one_after_the_other() -> None:
    async with answered_by(CHUNKED, CHUNKED) as connection:
        assert [await connection.ask("/", {}) for _ in range(2)] == [[1, 2], [1, 2]]
        assert connection.is_open


async def test_a_refusal_is_an_error_with_its_body_and_the_connection_goes_on() -> None:
    async with answered_by(REFUSED, CHUNKED) as connection:
        with pytest.raises(ErrorAnswered) as refused:
            await connection.ask("/", {})
        assert (refused.value.status, refused.value.body) == (429, {"a": 1})
        assert await connection.ask("/", {}) == [1, 2]


@pytest.mark.parametrize("answer", [b"words\r\n\r\n", b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nwords"])
async def test_what_is_no_answer_closes_the_connection(answer: bytes) -> None:
    async with answered_by(answer) as connection:
        with pytest.raises(Unreadable):
            await connection.ask("/", {})
        assert not connection.is_open


async def test_a_connection_that_ends_early_is_broken() -> None:
    async with answered_by() as connection:
        with pytest.raises(trio.BrokenResourceError):
            await connection.ask("/", {})
        assert not connection.is_open
