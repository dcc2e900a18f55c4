"""A client of a program of others that speaks JSON over HTTP/1.1: one connection, one request at a time."""

import json
from typing import Any, Final

import attrs
import h11
import trio

from jepsen_like.port.wires import Address, text_of
from jepsen_like.systems.foreign.connection import BROKEN, READ_BYTES, ForeignConnection
from jepsen_like.systems.tls_of import Stream

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


UNREACHABLE: Final = (*BROKEN, Unreadable)
"""The errors of a connection that does not work."""


class JsonConnection(ForeignConnection):
    """One connection that is kept from one request to the next."""

    def __init__(self, stream: Stream, address: Address) -> None:
        super().__init__(stream, address)
        self._host = text_of(address)
        self.authorization = ""
        """The token that each request shows; empty for none."""
        self._state = h11.Connection(h11.CLIENT)

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
        if self.authorization:
            headers.append(("Authorization", self.authorization))
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
                    self._state.receive_data(bytes(chunk))
                case h11.Response() as response:
                    status = response.status_code
                case h11.Data() as data:
                    content += data.data
                case h11.EndOfMessage():
                    return status, bytes(content)
                case other:
                    raise Unreadable(f"{other} in an answer")
