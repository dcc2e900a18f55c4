"""The desk of `quorumlog up` over HTTP/1.1, for tests in any language: JSON objects in, JSON objects out.

It is another door to the same desk: `ROUTES` are its requests, and the fields of a body, or of a query, are theirs. A bad request
gets an `error` in words and a status: 400 it makes no sense, 401 the token is missing, 403 a web page sent it, 404 and 405 there is
no such place, 408, 413 and 431 it is too slow or too large, 409 it is refused, 500 it failed, 503 the cluster is starting, 504 the cluster did not
get there in time. Nothing has happened then, but for 500 and 504.

Anyone on this machine may connect to a loopback port. Pages in a browser may not: they name their `Origin`. Beyond loopback each
request needs `Authorization: Bearer TOKEN`.
"""

import hmac
import json
import logging
from collections.abc import Mapping, Sequence
from typing import Any, Final
from urllib.parse import parse_qsl, urlsplit

import attrs
import h11
import trio

from jepsen_like.run.fault_desk import Desk

logger = logging.getLogger(__name__)

HEAD_BYTES_MAX: Final = 16 * 1024
BODY_BYTES_MAX: Final = 1024 * 1024
CONNECTIONS_MAX: Final = 64
REQUEST_WITHIN_S: Final = 60.0
"""A request arrives, and a connection is used again, within this time."""
ANSWER_WITHIN_S: Final = 60.0
"""A client takes its answer within this time."""
DRAIN_S: Final = 1.0
"""A client that still sends may finish within this time, so that it reads the answer."""
RECEIVE_BYTES: Final = 64 * 1024
ROUTES: Final[Mapping[tuple[str, str], tuple[str, str]]] = {
    ("GET", "/status"): ("status", "nodes, leaders, faults and answers on request; 503 until the cluster serves"),
    ("GET", "/leaders"): ("leaders", "who leads what; ?scope=orders-0 waits for the leader of one partition"),
    ("POST", "/faults"): ("fault", "break something: kind, target or nodes, scope, hold_s"),
    ("POST", "/heal"): ("heal", "undo all faults, and start every node"),
    ("POST", "/answers"): ("answer", "answer an API of Kafka with error, delay or disconnect"),
    ("DELETE", "/answers"): ("undo", "end all answers on request"),
    ("POST", "/acknowledged"): ("acknowledge", "report what a client was acknowledged: records"),
    ("DELETE", "/acknowledged"): ("forget", "forget what was reported"),
    ("POST", "/check"): ("check", "heal, compare all copies, look for what was reported: within_s"),
}
"""By method and path: the request of the desk, and what it does."""


@attrs.frozen
class Refusal(Exception):
    """A request that the desk never sees: the status, the reason, and headers of the answer."""

    status: int
    reason: str
    headers: Sequence[tuple[str, str]] = ()


class HttpDesk:
    """Serves HTTP for the desk of a cluster; 503 while there is none."""

    def __init__(self, token: str | None) -> None:
        """With a `token` every request must carry it."""
        self.desk: Desk | None = None
        self._token = token
        self._open = 0

    async def serve(self, listeners: Sequence[trio.SocketListener]) -> None:
        """Answer on these until cancelled."""
        await trio.serve_listeners(self._serve_one, list(listeners))

    async def _serve_one(self, stream: trio.SocketStream) -> None:
        """One connection; whatever goes wrong ends it alone."""
        self._open += 1
        try:
            await _Conversation(self, stream).hold(is_welcome=self._open <= CONNECTIONS_MAX)
        except (trio.BrokenResourceError, trio.ClosedResourceError, trio.TooSlowError, h11.LocalProtocolError):
            return
        except Exception:
            logger.exception("a connection to the HTTP API failed")
        finally:
            self._open -= 1
            await trio.aclose_forcefully(stream)

    def admit(self, request: h11.Request) -> None:
        """Look at a request before its body is read. Raises `Refusal`."""
        headers = dict(request.headers)
        if b"origin" in headers:
            raise Refusal(403, "web pages are not served: the request has the header Origin")
        if self._token is not None:
            given = headers.get(b"authorization", b"")
            if not hmac.compare_digest(given, b"Bearer " + self._token.encode()):
                raise Refusal(
                    401, "the request needs the header Authorization: Bearer TOKEN", [("WWW-Authenticate", "Bearer")]
                )

    async def answer(self, request: h11.Request, body: bytes) -> tuple[int, dict[str, Any]]:
        """Returns status and answer of a request. Raises `Refusal`."""
        target = urlsplit(request.target.decode("ascii"))
        method, path = request.method.decode("ascii"), target.path.rstrip("/") or "/"
        method = "GET" if method == "HEAD" else method
        if (method, path) == ("GET", "/"):
            return 200, {"requests": {f"{of} {at}": what for (of, at), (_, what) in ROUTES.items()}}
        if (method, path) not in ROUTES:
            allowed = [of for of, at in ROUTES if at == path]
            if allowed:
                there = ", ".join(allowed)
                raise Refusal(405, f"{path} takes {there}, not {method}", [("Allow", there)])
            raise Refusal(404, f"there is no {path}; there are {', '.join(dict.fromkeys(at for _, at in ROUTES))}")
        if self.desk is None:
            raise Refusal(503, "the cluster does not serve yet", [("Retry-After", "1")])
        verb, _ = ROUTES[method, path]
        fields = _fields_of(target.query, body)
        answer = await self.desk.answer({"do": verb, "words": fields} if verb == "answer" else {**fields, "do": verb})
        return _status_of(answer), _show(answer)


def _fields_of(query: str, body: bytes) -> dict[str, Any]:
    try:
        found = json.loads(body) if body.strip() else {}
    except (ValueError, RecursionError) as error:
        raise Refusal(400, f"the body is no JSON: {error}") from None
    if not isinstance(found, dict):
        raise Refusal(400, "the body is no JSON object")
    given = dict(parse_qsl(query, keep_blank_values=True))
    if "do" in {*found, *given}:
        raise Refusal(400, "there is no field do: the path names the request")
    return {**found, **given}


def _status_of(answer: Mapping[str, Any]) -> int:
    if "error" not in answer:
        return 200
    return next((status for name, status in (("usage", 400), ("late", 504), ("failed", 500)) if name in answer), 409)


def _show(answer: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the answer as it is sent: for programs, with `lines` for people."""
    if "error" in answer:
        return {"error": answer["error"]}
    return {**{name: value for name, value in answer.items() if name != "told"}, "lines": answer["told"]}


class _Conversation:
    """One connection, one request after another."""

    def __init__(self, http: HttpDesk, stream: trio.SocketStream) -> None:
        self._http = http
        self._stream = stream
        self._wire = h11.Connection(h11.SERVER, max_incomplete_event_size=HEAD_BYTES_MAX)

    async def hold(self, *, is_welcome: bool) -> None:
        """Serve until the client leaves or may not go on. Raises what the stream raises."""
        while True:
            is_head = False
            try:
                with trio.fail_after(REQUEST_WITHIN_S):
                    request = await self._next_request()
                    if request is None:
                        return
                    is_head = request.method == b"HEAD"
                    if not is_welcome:
                        raise Refusal(503, f"over {CONNECTIONS_MAX} connections", [("Retry-After", "1")])
                    self._http.admit(request)
                    body = await self._read_body()
                status, answer = await self._http.answer(request, body)
                headers: Sequence[tuple[str, str]] = ()
            except Refusal as refusal:
                status, answer, headers = refusal.status, {"error": refusal.reason}, refusal.headers
            except h11.RemoteProtocolError as error:
                status, answer, headers = error.error_status_hint, {"error": f"not HTTP/1.1: {error}"}, ()
            except trio.TooSlowError:
                if self._wire.their_state is h11.IDLE:
                    return
                status, answer, headers = 408, {"error": f"no whole request within {REQUEST_WITHIN_S:g} s"}, ()
            with trio.fail_after(ANSWER_WITHIN_S):
                await self._send(status, answer, headers, is_head=is_head)
            if self._wire.our_state is not h11.DONE or self._wire.their_state is not h11.DONE:
                await self._leave()
                return
            self._wire.start_next_cycle()

    async def _next_request(self) -> h11.Request | None:
        """Returns the head of a request; None at the end of the connection."""
        event = await self._next()
        return event if isinstance(event, h11.Request) else None

    async def _read_body(self) -> bytes:
        body = bytearray()
        while True:
            event = await self._next()
            if not isinstance(event, h11.Data):
                return bytes(body)
            body += event.data
            if len(body) > BODY_BYTES_MAX:
                raise Refusal(413, f"a body has at most {BODY_BYTES_MAX} bytes; send several")

    async def _next(self) -> h11.Event:
        while True:
            event = self._wire.next_event()
            if event is h11.NEED_DATA:
                if self._wire.they_are_waiting_for_100_continue:
                    go_on = self._wire.send(h11.InformationalResponse(status_code=100, headers=[]))
                    await self._stream.send_all(go_on or b"")
                self._wire.receive_data(await self._stream.receive_some(RECEIVE_BYTES))
                continue
            assert isinstance(event, h11.Event)
            return event

    async def _send(
        self, status: int, answer: Mapping[str, Any], headers: Sequence[tuple[str, str]], *, is_head: bool
    ) -> None:
        content = json.dumps(answer, ensure_ascii=False).encode(errors="replace") + b"\n"
        length = [("Content-Type", "application/json"), ("Content-Length", str(len(content)))]
        ends = [] if self._wire.their_state in (h11.DONE, h11.MUST_CLOSE) else [("Connection", "close")]
        parts = [h11.Response(status_code=status, headers=[*length, *headers, *ends])]
        data = [] if is_head else [h11.Data(data=content)]
        sent = [self._wire.send(event) or b"" for event in (*parts, *data, h11.EndOfMessage())]
        await self._stream.send_all(b"".join(sent))

    async def _leave(self) -> None:
        """End the connection so that the answer arrives: unread bytes would reset it."""
        await self._stream.send_eof()
        left = BODY_BYTES_MAX
        with trio.move_on_after(DRAIN_S):
            while left > 0 and (chunk := await self._stream.receive_some(RECEIVE_BYTES)):
                left -= len(chunk)
