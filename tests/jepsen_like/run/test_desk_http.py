"""The desk over HTTP: what it passes on, what it refuses and with which status, and that a bad client harms no other."""

import contextlib
import json
import socket
from collections.abc import AsyncIterator, Mapping
from typing import Any

import pytest
import trio

from jepsen_like.cluster.ports import LOOPBACK, listen_at
from jepsen_like.run import desk_http
from jepsen_like.run.desk_http import ROUTES, HttpDesk

TOKEN = "a-token-that-no-one-knows"


class FakeDesk:
    def __init__(self, **answer: Any) -> None:
        self.asked: list[Mapping[str, Any]] = []
        self.answers = answer or {"told": ["done"], "valid": True}

    async def answer(self, request: Mapping[str, Any]) -> dict[str, Any]:
        self.asked.append(request)
        return dict(self.answers)


@contextlib.asynccontextmanager
async def serving(desk: FakeDesk | None, token: str | None = None) -> AsyncIterator[int]:
    http = HttpDesk(token)
    http.desk = desk
    listener = listen_at(LOOPBACK, 0, backlog=8)
    listener.setblocking(False)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(http.serve, [trio.SocketListener(trio.socket.from_stdlib_socket(listener))])
        yield int(listener.getsockname()[1])
        nursery.cancel_scope.cancel()


async def exchange(port: int, sent: bytes) -> bytes:
    """Everything that comes back until the server ends the connection."""
    async with await trio.open_tcp_stream(LOOPBACK, port) as stream:
        await stream.send_all(sent)
        return b"".join([chunk async for chunk in stream])


def request_of(line: str, body: bytes = b"", *headers: str) -> bytes:
    lines = [f"{line} HTTP/1.1", "Host: here", "Connection: close", f"Content-Length: {len(body)}", *headers, "", ""]
    return "\r\n".join(lines).encode() + body


async def ask(port: int, line: str, body: bytes = b"", *headers: str) -> tuple[int, dict[str, Any]]:
    answer = await exchange(port, request_of(line, body, *headers))
    head, _, content = answer.partition(b"\r\n\r\n")
    return int(head.split()[1]), json.loads(content)


@pytest.mark.parametrize(
    ("line", "body", "asked"),
    [
        ("GET /status", b"", {"do": "status"}),
        ("GET /status/?", b"", {"do": "status"}),
        ("GET http://there:1/status", b"", {"do": "status"}),
        ("GET /leaders?scope=orders-0", b"", {"do": "leaders", "scope": "orders-0"}),
        ("POST /faults", b'{"kind": "kill", "nodes": [2]}', {"do": "fault", "kind": "kill", "nodes": [2]}),
        ("POST /heal", b"", {"do": "heal"}),
        ("POST /answers", b'{"api": "EndTxn"}', {"do": "answer", "words": {"api": "EndTxn"}}),
        ("DELETE /answers", b"", {"do": "undo"}),
        ("POST /acknowledged", b'{"records": []}', {"do": "acknowledge", "records": []}),
        ("DELETE /acknowledged", b"", {"do": "forget"}),
        ("POST /check", b' {"within_s": 5} ', {"do": "check", "within_s": 5}),
    ],
)
async def test_a_request_reaches_the_desk_as_from_the_socket(line: str, body: bytes, asked: dict[str, Any]) -> None:
    desk = FakeDesk()
    async with serving(desk) as port:
        assert await ask(port, line, body) == (200, {"lines": ["done"], "valid": True})
    assert desk.asked == [asked]


@pytest.mark.parametrize(
    ("line", "body", "headers", "status", "words"),
    [
        ("GET /nowhere", b"", [], 404, "there is no /nowhere; there are /status"),
        ("PUT /status", b"", [], 405, "/status takes GET, not PUT"),
        ("GET /answers", b"", [], 405, "/answers takes POST, DELETE, not GET"),
        ("POST /faults", b"{", [], 400, "the body is no JSON"),
        ("POST /faults", b"\xff\xfe", [], 400, "the body is no JSON"),
        ("POST /faults", b"[" * 60_000, [], 400, "the body is no JSON"),
        ("POST /faults", b"[]", [], 400, "the body is no JSON object"),
        ("POST /faults", b'{"do": "status"}', [], 400, "there is no field do"),
        ("POST /heal", b"{}", ["Origin: http://elsewhere"], 403, "web pages are not served"),
        ("POST /acknowledged", b" " * (desk_http.BODY_BYTES_MAX + 1), [], 413, "at most 1048576 bytes"),
    ],
)
async def test_a_bad_request_is_refused_with_its_reason_before_the_desk_sees_it(
    line: str, body: bytes, headers: list[str], status: int, words: str
) -> None:
    desk = FakeDesk()
    async with serving(desk) as port:
        found = await ask(port, line, body, *headers)
        assert (found[0], words in found[1]["error"]) == (status, True), found
        assert desk.asked == []
        assert (await ask(port, "GET /status"))[0] == 200


@pytest.mark.parametrize(
    ("sent", "status"),
    [
        (b"dear sir\r\n\r\n", b"400"),
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"\r\n\r\n", b"400"),
        (b"GET /status HTTP/1.1\r\nHost: a\r\nX: " + b"x" * 40_000, b"431"),
        (b"POST /heal HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n", b"400"),
        (b"POST /heal HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", b"400"),
        (b"GET /status HTTP/1.1\r\n\r\n", b"400"),
        (b"GET /caf\xc3\xa9 HTTP/1.1\r\nHost: a\r\n\r\n", b"400"),
    ],
)
async def test_bytes_that_are_no_request_end_their_connection_alone(sent: bytes, status: bytes) -> None:
    desk = FakeDesk()
    async with serving(desk) as port:
        answer = await exchange(port, sent)
        assert answer.split()[1] == status, answer
        assert desk.asked == []
        assert (await ask(port, "GET /status"))[0] == 200


@pytest.mark.parametrize(
    ("mark", "status"), [({"usage": True}, 400), ({}, 409), ({"failed": True}, 500), ({"late": True}, 504)]
)
async def test_what_the_desk_refuses_has_a_status_of_its_own(mark: dict[str, bool], status: int) -> None:
    async with serving(FakeDesk(error="no", **mark)) as port:
        assert await ask(port, "POST /check") == (status, {"error": "no"})


async def test_until_the_cluster_serves_the_answer_is_to_come_again() -> None:
    async with serving(None) as port:
        answer = await exchange(port, request_of("GET /status"))
        assert answer.startswith(b"HTTP/1.1 503 ")
        assert b"Retry-After: 1" in answer
        assert (await ask(port, "GET /"))[1]["requests"].keys() == {" ".join(route) for route in ROUTES}


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ([f"Authorization: Bearer {TOKEN}"], 200),
        ([f"Authorization: Bearer {TOKEN}x"], 401),
        ([f"Authorization: Basic {TOKEN}"], 401),
        (["Authorization: Bearer "], 401),
        ([], 401),
    ],
)
async def test_only_who_knows_the_token_reaches_the_desk(headers: list[str], status: int) -> None:
    desk = FakeDesk()
    async with serving(desk, TOKEN) as port:
        assert (await ask(port, "POST /heal", b"", *headers))[0] == status
        assert len(desk.asked) == (status == 200)


async def test_a_connection_serves_one_request_after_another() -> None:
    desk = FakeDesk()
    async with serving(desk) as port:
        first = request_of("POST /heal").replace(b"Connection: close\r\n", b"")
        answer = await exchange(port, first + first + request_of("HEAD /status"))
        assert answer.count(b"HTTP/1.1 200 ") == 3
        assert answer.endswith(b"\r\n\r\n"), "the answer to HEAD has no body"
    assert [each["do"] for each in desk.asked] == ["heal", "heal", "status"]


async def test_a_client_that_waits_before_its_body_is_asked_for_it() -> None:
    async with serving(FakeDesk()) as port, await trio.open_tcp_stream(LOOPBACK, port) as stream:
        await stream.send_all(b"POST /heal HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n")
        assert (await stream.receive_some()).startswith(b"HTTP/1.1 100 ")
        await stream.send_all(b"{}")
        assert (await stream.receive_some()).startswith(b"HTTP/1.1 200 ")


async def test_a_request_that_never_ends_is_given_up(autojump_clock: trio.testing.MockClock) -> None:
    ours, theirs = socket.socketpair()
    async with trio.open_nursery() as nursery:
        http = HttpDesk(None)
        http.desk = desk = FakeDesk()
        nursery.start_soon(http._serve_one, trio.SocketStream(_of(theirs)))
        async with trio.SocketStream(_of(ours)) as stream:
            await stream.send_all(b"POST /heal HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\n{")
            assert b" 408 " in b"".join([chunk async for chunk in stream])
    assert desk.asked == []


async def test_more_connections_than_there_is_room_for_are_sent_away(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(desk_http, "CONNECTIONS_MAX", 1)
    async with serving(FakeDesk()) as port, await trio.open_tcp_stream(LOOPBACK, port) as first:
        await first.send_all(request_of("GET /status").replace(b"Connection: close\r\n", b""))
        assert b" 200 " in await first.receive_some()
        assert (await ask(port, "GET /status"))[0] == 503


def _of(plain: socket.socket) -> trio.socket.SocketType:
    plain.setblocking(False)
    return trio.socket.from_stdlib_socket(plain)
