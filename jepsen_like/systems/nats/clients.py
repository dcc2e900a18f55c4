"""Clients of NATS in Trio: a connection with one server, with one request under way at a time.

Any server takes a request, and passes it on to the one that serves it. `FAIL` only for an answer of the server itself that
no server serves the subject, or when no request can have left; all else is `INFO`.
"""

import itertools
import uuid
from collections.abc import AsyncIterator, Mapping
from typing import Any, Final

import attrs
import trio

from jepsen_like.history.ops import ErrorCode, Outcome
from jepsen_like.port.wires import Address
from jepsen_like.systems.foreign.connection import BROKEN, ForeignConnection
from jepsen_like.systems.nats import wire
from jepsen_like.systems.nats.wire import Heard, Message, NatsError, Ping, Pong, WrongBytes
from jepsen_like.workload.load import Ending, TryLater


@attrs.define
class NoResponders(Exception):
    """No server serves this subject now, so none got the request."""


@attrs.define
class NotThere(Exception):
    """The stream has nothing at this place that the server that answered knows of."""


@attrs.define
class Refused(Exception):
    """JetStream answered with an error, which leaves open what became of the request."""

    error: Mapping[str, Any]


@attrs.define
class NoQuorum(Exception):
    """A probe was answered by a leader that has not had a sign of a majority lately."""


class NatsConnection(ForeignConnection):
    """One connection, with an inbox for answers."""

    def __init__(self, stream: trio.SocketStream, address: Address) -> None:
        super().__init__(stream, address)
        self._inbox = f"_INBOX.{uuid.uuid4().hex}"
        self._numbers = itertools.count()
        self._decoder = wire.Decoder()

    async def _begin(self) -> None:
        await self._send(wire.greet(self._inbox))

    async def ask(self, subject: str, payload: bytes) -> Message:
        """Returns the answer. Raises `NoResponders`, `WrongBytes` or the errors of a stream."""
        async for message in self.ask_many(subject, payload):
            return message
        raise AssertionError("messages come until an error")

    async def ask_api(self, subject: str, payload: bytes) -> dict[str, Any]:
        """Returns JetStream's answer, an object. Raises `NotThere`, `Refused` and the errors of `ask`."""
        answer = wire.answer_of((await self.ask(subject, payload)).payload)
        if (error := answer.get("error")) is not None:
            raise NotThere if error.get("code") == wire.NOT_FOUND else Refused(error)
        return answer

    async def ping(self) -> None:
        """Wait for the server's own sign of life. Raises the errors of a stream."""
        await self._send(b"PING\r\n")
        while not any(isinstance(heard, Pong) for heard in await self._hear()):
            continue

    async def ask_many(self, subject: str, payload: bytes) -> AsyncIterator[Message]:
        """Yields all answers, as long as the caller waits for more."""
        reply = f"{self._inbox}.{next(self._numbers)}"
        is_answered = False
        try:
            await self._send(wire.publish(subject, reply, payload))
            while True:
                for message in await self._receive():
                    if message.subject == reply:
                        if message.status == wire.NO_RESPONDERS and not message.payload:
                            is_answered = True
                            raise NoResponders
                        is_answered = True
                        yield message
        finally:
            if not is_answered:
                self.close()

    async def _send(self, data: bytes) -> None:
        await self._stream.send_all(data)

    async def _receive(self) -> list[Message]:
        return [heard for heard in await self._hear() if isinstance(heard, Message)]

    async def _hear(self) -> list[Heard]:
        found = list(self._decoder.feed(await self._read()))
        for heard in found:
            match heard:
                case Ping():
                    await self._send(b"PONG\r\n")
                case NatsError(reason):
                    raise trio.BrokenResourceError(reason)
                case Message() | Pong():
                    continue
        return found


UNREACHABLE: Final = (*BROKEN, WrongBytes)
"""The errors of a connection that does not work."""
ERRORS: Final = (*UNREACHABLE, NoResponders, NotThere, Refused, NoQuorum)


def ending_of(error: Exception, *, connection_lost: bool) -> Ending:
    """Returns the meaning of an operation's error."""
    match error:
        case NoResponders():
            return Ending(Outcome.FAIL, ErrorCode.NOT_LEADER, TryLater())
        case NotThere():
            return Ending(Outcome.FAIL, ErrorCode.OUT_OF_RANGE, TryLater())
        case NoQuorum():
            return Ending(Outcome.FAIL, ErrorCode.NOT_ENOUGH_REPLICAS)
        case WrongBytes():
            return Ending(Outcome.INFO, ErrorCode.PROTOCOL)
        case _:
            return Ending(Outcome.INFO, ErrorCode.CONNECTION_LOST if connection_lost else ErrorCode.UNKNOWN_OUTCOME)
