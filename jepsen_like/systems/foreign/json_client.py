"""A client of a program of others that speaks JSON over HTTP/1.1: one connection, one request at a time."""

import contextlib
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Final

import attrs
import h11
import trio

from jepsen_like.port.wires import Address, text_of

READ_BYTES: Final = 64 * 1024
OK: Final = 200


@attrs.define
class ErrorAnswered(Exception):
    """The program answered with a status that is no success, and this body."""

    status: int
    body: Any


@attrs.define
class Unreadable(Exception):
    """The bytes that came are no answer in JSON by HTTP."""

    what: str


UNREACHABLE: Final = (OSError, Unreadable, trio.BrokenResourceError, trio.ClosedResourceError, trio.TooSlowError)
"""The errors of a connection that does not work."""


class JsonConnection:
    """One connection. A request that has no answer leaves it closed, so that no later one gets its answer."""

    def __init__(self, stream: trio.SocketStream, address: Address) -> None:
        self.is_open = True
        self._stream = stream
        self._host = text_of(address)
        self._state = h11.Connection(h11.CLIENT)

    @classmethod
    async def connect(cls, address: Address, *, within_s: float) -> "JsonConnection":
        """Raises `OSError` or `trio.TooSlowError`."""
        with trio.fail_after(within_s):
            return cls(await trio.open_tcp_stream(*address), address)

    @classmethod
    @asynccontextmanager
    async def open(cls, address: Address, *, within_s: float) -> "AsyncIterator[JsonConnection]":
        """A connection for the time of a block. Entering it raises like `connect`."""
        connection = await cls.connect(address, within_s=within_s)
        with contextlib.closing(connection):
            yield connection

    def close(self) -> None:
        """Close it."""
        self.is_open = False
        self._stream.socket.close()

    async def ask(self, path: str, body: Any) -> Any:
        """Returns the answer to a POST. Raises `ErrorAnswered` or one of `UNREACHABLE`."""
        is_answered = False
        try:
            await self._send(path, json.dumps(body).encode())
            status, content = await self._receive()
            found = json.loads(content)
            is_answered = self._state.our_state is h11.DONE and self._state.their_state is h11.DONE
        except (ValueError, h11.ProtocolError) as error:
            raise Unreadable(str(error)) from error
        finally:
            if is_answered:
                self._state.start_next_cycle()
            else:
                self.close()
        if status != OK:
            raise ErrorAnswered(status, found)
        return found

    async def _send(self, path: str, content: bytes) -> None:
        headers = [("Host", self._host), ("Content-Type", "application/json"), ("Content-Length", str(len(content)))]
        events = (h11.Request(method="POST", target=path, headers=headers), h11.Data(data=content), h11.EndOfMessage())
        await self._stream.send_all(b"".join(filter(None, map(self._state.send, events))))

    async def _receive(self) -> tuple[int, bytes]:
        status, content = 0, bytearray()
        while True:
            match self._state.next_event():
                case h11.NEED_DATA:
                    chunk = await self._stream.receive_some(READ_BYTES)
                    if not chunk and status == 0:
                        raise trio.BrokenResourceError("the program closed the connection")
                    self._state.receive_data(chunk)
                case h11.Response() as response:
                    status = response.status_code
                case h11.Data() as data:
                    content += data.data
                case h11.EndOfMessage():
                    return status, bytes(content)
                case other:
                    raise Unreadable(f"{other} in an answer")
