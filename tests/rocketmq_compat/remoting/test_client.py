"""A server and clients over sockets: answers find their requests, and a failure states if the request may have been
carried out.
"""

import socket
import struct
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, closing
from typing import Any

import attrs
import pytest
import trio

from raft.net.listener import ListenerLimits, bind
from raft.net.reactor import Reactor
from rocketmq_compat.remoting.client import RemotingClient, RemotingFailed, connected_client
from rocketmq_compat.remoting.codes import RequestCode, ResponseCode
from rocketmq_compat.remoting.errors import UnencodableCommand
from rocketmq_compat.remoting.frame import FRAME_BYTES_MAX, Command, Serialization, encode
from rocketmq_compat.remoting.server import RemotingServer
from rocketmq_compat.remoting.session import RemotingCall, RemotingSession
from tests.listening import listening

ECHO, WAIT = 10, 11
CLOSED_PORT_REASON = "Connection refused"


@attrs.define(eq=False)
class World:
    """A server that echoes, keeps calls that the test answers, and a client of it, in one loop."""

    reactor: Reactor
    server: RemotingServer
    client: RemotingClient
    waiting: list[RemotingCall]
    told: list[dict[str, Any]]
    ended: list[RemotingSession]
    came: trio.Event

    async def next_call(self) -> RemotingCall:
        await self.came.wait()
        return self.waiting[-1]


@asynccontextmanager
async def world(on_request: Callable[[Command], Command | None] | None = None, **limits: Any) -> AsyncIterator[World]:
    waiting: list[RemotingCall] = []
    told: list[dict[str, Any]] = []
    ended: list[RemotingSession] = []
    came = trio.Event()

    def keep(call: RemotingCall) -> None:
        waiting.append(call)
        came.set()

    with closing(Reactor()) as reactor, bind("127.0.0.1", 0) as listening:
        server = RemotingServer(
            reactor,
            listening,
            {ECHO: lambda call: call.answer(body=call.request.body), WAIT: keep},
            limits=ListenerLimits(**limits),
            tell=lambda event, **fields: told.append({"event": event, **fields}),
            on_closed=ended.append,
        )
        client = RemotingClient(reactor, server.address, on_request=on_request)
        with trio.fail_after(20):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(reactor.run)
                nursery.start_soon(server.run)
                yield World(reactor, server, client, waiting, told, ended, came)
                client.close()
                server.close("the test ends")
                server.close("the test ends")
                nursery.cancel_scope.cancel()


async def test_requests_overlap_and_each_has_its_own_answer() -> None:
    async with world() as here:
        answers: dict[int, bytes] = {}

        async def ask(number: int) -> None:
            kind = Serialization(number % 2)
            answer = await here.client.ask(Command(ECHO, body=b"%d" % number, serialization=kind), timeout_s=5)
            answers[number] = bytes(answer.body)

        async with trio.open_nursery() as nursery:
            for number in range(50):
                nursery.start_soon(ask, number)
        assert answers == {number: b"%d" % number for number in range(50)}
        assert here.server.connections == 1


async def test_a_call_that_waits_keeps_no_other_waiting() -> None:
    async with world() as here, trio.open_nursery() as nursery:
        late: list[Command] = []

        async def wait() -> None:
            late.append(await here.client.ask(Command(WAIT), timeout_s=10))

        nursery.start_soon(wait)
        call = await here.next_call()
        assert (await here.client.ask(Command(ECHO, body=b"x"), timeout_s=5)).body == b"x"
        assert late == []
        call.answer(ResponseCode.PULL_NOT_FOUND)
    assert late[0].code == ResponseCode.PULL_NOT_FOUND


async def test_a_large_body_arrives_whole() -> None:
    async with world() as here:
        body = bytes(range(256)) * 20_000
        assert (await here.client.ask(Command(ECHO, body=body), timeout_s=10)).body == body


async def test_the_server_asks_the_client_and_is_answered() -> None:
    asked: list[Command] = []

    def on_request(request: Command) -> Command | None:
        asked.append(request)
        return request.answer(ResponseCode.SUCCESS, body=b"running")

    async with world(on_request) as here, trio.open_nursery() as nursery:
        nursery.start_soon(lambda: here.client.ask(Command(WAIT), timeout_s=10))
        call = await here.next_call()
        answered = trio.Event()
        answers: list[Command] = []

        def on_answer(answer: Command) -> None:
            answers.append(answer)
            answered.set()

        assert call.session.notify(Command(RequestCode.NOTIFY_CONSUMER_IDS_CHANGED))
        assert call.session.ask(Command(RequestCode.GET_CONSUMER_RUNNING_INFO), on_answer)
        await answered.wait()
        assert [each.code for each in asked] == [40, 307]
        assert answers[0].body == b"running"
        call.answer()


async def test_a_one_way_request_arrives() -> None:
    async with world() as here:
        await here.client.send_oneway(Command(WAIT), timeout_s=5)
        call = await here.next_call()
        assert call.request.is_oneway
        call.answer()
        assert here.client.is_connected


# What the failures tell


async def test_where_no_one_listens_the_request_was_certainly_not_carried_out() -> None:
    with bind("127.0.0.1", 0) as listening:
        address = listening.getsockname()
    async with connected_client(address) as client:
        with pytest.raises(RemotingFailed, match="was not sent") as caught:
            await client.ask(Command(ECHO), timeout_s=5)
        assert caught.value.definite
        with pytest.raises(RemotingFailed, match=CLOSED_PORT_REASON):
            await client.send_oneway(Command(ECHO), timeout_s=5)


async def test_without_an_answer_in_time_the_request_may_have_been_carried_out_and_the_connection_stays() -> None:
    async with world() as here:
        with pytest.raises(RemotingFailed, match="may have been carried out") as caught:
            await here.client.ask(Command(WAIT), timeout_s=0.05)
        assert not caught.value.definite
        (await here.next_call()).answer()  # too late: it is dropped
        assert (await here.client.ask(Command(ECHO, body=b"x"), timeout_s=5)).body == b"x"


async def test_when_the_connection_breaks_the_request_may_have_been_carried_out_and_the_next_dials_again() -> None:
    async with world() as here:
        async with trio.open_nursery() as nursery:

            async def wait() -> None:
                with pytest.raises(RemotingFailed, match=r"the connection to .* ended") as caught:
                    await here.client.ask(Command(WAIT), timeout_s=10)
                assert not caught.value.definite

            nursery.start_soon(wait)
            (await here.next_call()).connection.close("broken for the test")
        assert (await here.client.ask(Command(ECHO, body=b"x"), timeout_s=5)).body == b"x"
        assert {"event": "connection_closed", "reason": "broken for the test"}.items() <= here.told[0].items()


async def test_a_closed_client_sends_nothing() -> None:
    async with world() as here:
        here.client.close()
        with pytest.raises(RemotingFailed) as caught:
            await here.client.ask(Command(ECHO), timeout_s=5)
        assert caught.value.definite


async def test_a_request_that_has_no_place_in_a_frame_is_an_error_of_the_caller() -> None:
    async with world() as here:
        with pytest.raises(UnencodableCommand):
            await here.client.ask(Command(ECHO, body=bytes(FRAME_BYTES_MAX)), timeout_s=5)


async def test_a_server_that_sends_no_frames_is_left() -> None:
    async def nonsense(stream: trio.SocketStream) -> None:
        await stream.receive_some()
        await stream.send_all(struct.pack("!I", 3) + b"abc")
        await stream.receive_some()

    async with listening(nonsense) as address, connected_client(address) as client:
        with pytest.raises(RemotingFailed, match="malformed frame") as caught:
            await client.ask(Command(ECHO), timeout_s=5)
        assert not caught.value.definite


# What the server does to bad clients


@pytest.mark.parametrize(
    ("sent", "reason"),
    [
        (struct.pack("!I", 2**31), "a frame of 2147483648 bytes is over the bound"),
        (struct.pack("!II", 4, 100), "malformed frame: a header of 100 bytes"),
        (b"GET / HTTP/1.1\r\n\r\n", "is over the bound"),
    ],
)
async def test_a_frame_that_is_none_closes_its_connection_alone_and_the_reason_is_told(
    sent: bytes, reason: str
) -> None:
    async with world() as here:
        assert (await here.client.ask(Command(ECHO), timeout_s=5)).code == 0
        stranger = await trio.open_tcp_stream(*here.server.address)
        await stranger.send_all(sent)
        assert await stranger.receive_some() == b""
        await stranger.aclose()
        assert reason in here.told[0]["reason"]
        assert (await here.client.ask(Command(ECHO), timeout_s=5)).code == 0
        assert len(here.ended) == 1


async def test_a_silent_connection_is_closed() -> None:
    async with world(greeting_timeout_s=0.05) as here:
        stranger = await trio.open_tcp_stream(*here.server.address)
        assert await stranger.receive_some() == b""
        await stranger.aclose()
        assert "no handshake" in here.told[0]["reason"]


async def test_a_connection_over_the_limit_is_refused() -> None:
    async with world(connections_max=1) as here:
        assert (await here.client.ask(Command(ECHO), timeout_s=5)).code == 0
        stranger = await trio.open_tcp_stream(*here.server.address)
        assert await stranger.receive_some() == b""
        await stranger.aclose()
        assert here.told[0]["event"] == "connection_refused"


async def test_a_client_that_does_not_read_its_answers_costs_bounded_memory() -> None:
    async with world() as here:
        stranger = await trio.open_tcp_stream(*here.server.address)
        request = b"".join(encode(Command(ECHO, 1, body=bytes(100_000))))
        sent = 0
        with trio.move_on_after(0.3):
            while sent < 4000 * len(request):
                await stranger.send_all(request)
                sent += len(request)
        assert sent < 2000 * len(request), "it was slowed down"
        assert (await here.client.ask(Command(ECHO), timeout_s=5)).code == 0
        stranger.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        await stranger.aclose()
