"""Clients of RabbitMQ in Trio: a connection with one node, one channel, and one request under way at a time.

Any node takes a request, and passes it on to the one that serves it. A message that was got is acknowledged as soon as it is
here, and counts as taken then: a lost acknowledgement lets it come again.
"""

import time
from collections.abc import Mapping
from typing import Final

import attrs
import trio

from jepsen_like.history.ops import ErrorCode, Outcome
from jepsen_like.port.wires import Address
from jepsen_like.systems.foreign.connection import BROKEN, ForeignConnection
from jepsen_like.systems.rabbitmq import wire
from jepsen_like.systems.rabbitmq.wire import Heard, Method, WrongFrames
from jepsen_like.workload.load import Ending, TryLater

USER, PASSWORD, HOST = "guest", "guest", "/"
QUEUE: Final = "log"
IDLE_S_MAX: Final = 1.5
"""A connection that was idle for longer is given up, before the server does so for lack of heartbeats."""
ACK_WITHIN_S: Final = 0.2


@attrs.define
class Closed(Exception):
    """The server closed the channel or the connection, and told why."""

    code: int
    reason: str


@attrs.define
class Returned(Exception):
    """The message reached no queue."""


@attrs.define
class NotConfirmed(Exception):
    """The server could not take the message over, which leaves open what became of it."""


@attrs.define
class StillOut(Exception):
    """The queue is empty now, but messages that another client got without acknowledging them may come back."""


class RabbitConnection(ForeignConnection):
    """One connection, with one channel that confirms."""

    def __init__(self, stream: trio.SocketStream, address: Address) -> None:
        super().__init__(stream, address)
        self._decoder = wire.FrameDecoder()
        self._heard: list[Heard] = []
        self._used_s = time.monotonic()
        self._published = 0

    @property
    def is_open(self) -> bool:
        """Returns True if the server still expects requests on it."""
        return super().is_open and time.monotonic() - self._used_s < IDLE_S_MAX

    async def declare(self, arguments: Mapping[str, str]) -> None:
        """Make the queue, unless it is there. Raises `Closed` or one of `UNREACHABLE`; so do all below."""
        await self._ask(wire.declare(QUEUE, arguments), Method.DECLARE_OK)

    async def publish(self, body: bytes) -> None:
        """Returns when the message is confirmed. Raises `Returned` and `NotConfirmed`, too."""
        self._published += 1
        heard = await self._ask(wire.publish(QUEUE, body), Method.ACK, Method.NACK, Method.RETURN)
        if heard.method is Method.NACK:
            raise NotConfirmed
        if heard.method is Method.RETURN:  # it is confirmed, too: that it went nowhere
            await self._ask(b"", Method.ACK)
            raise Returned
        if wire.tag_of(heard) != self._published:
            self.close()
            raise WrongFrames(f"message {wire.tag_of(heard)} is confirmed, not {self._published}")

    async def get(self) -> bytes | None:
        """Returns the next message, and acknowledges it; None if the queue is empty."""
        heard = await self._ask(wire.get(QUEUE), Method.GET_OK, Method.GET_EMPTY)
        if heard.method is Method.GET_EMPTY:
            return None
        with trio.CancelScope(shield=True), trio.move_on_after(ACK_WITHIN_S) as patience:
            try:
                await self._stream.send_all(wire.ack(wire.tag_of(heard)))
            except (OSError, trio.BrokenResourceError, trio.ClosedResourceError):
                self.close()
        if patience.cancelled_caught:
            self.close()
        return heard.body

    async def _begin(self) -> None:
        await self._ask(wire.GREETING, Method.START)
        await self._ask(wire.start_ok(USER, PASSWORD), Method.TUNE)
        await self._ask(wire.tune_ok() + wire.open_connection(HOST), Method.OPEN_OK)
        await self._ask(wire.open_channel(), Method.CHANNEL_OPEN_OK)
        await self._ask(wire.confirm(), Method.CONFIRM_OK)

    async def _ask(self, request: bytes, *answers: Method) -> Heard:
        is_answered = False
        try:
            await self._stream.send_all(request)
            heard = await self._hear()
            if heard.method in (Method.CLOSE, Method.CHANNEL_CLOSE):
                raise Closed(*wire.reason_of(heard))
            if heard.method not in answers:
                raise WrongFrames(f"{heard.method.name} answers nothing that was asked")
            is_answered = True
        finally:
            if is_answered:
                self._used_s = time.monotonic()
            else:
                self.close()
        return heard

    async def _hear(self) -> Heard:
        while not self._heard:
            self._heard += self._decoder.feed(await self._read())
        return self._heard.pop(0)


UNREACHABLE: Final = (*BROKEN, WrongFrames)
"""The errors of a connection that does not work."""
ERRORS: Final = (*UNREACHABLE, Closed, Returned, NotConfirmed, StillOut)


def ending_of(error: Exception, *, connection_lost: bool) -> Ending:
    """Returns the meaning of an operation's error. `FAIL` only where nothing can have been changed."""
    match error:
        case Returned():
            return Ending(Outcome.FAIL, ErrorCode.INVALID_REQUEST)
        case StillOut():
            return Ending(Outcome.FAIL, ErrorCode.BUSY, TryLater())
        case WrongFrames():
            return Ending(Outcome.INFO, ErrorCode.PROTOCOL)
        case _:
            return Ending(Outcome.INFO, ErrorCode.CONNECTION_LOST if connection_lost else ErrorCode.UNKNOWN_OUTCOME)
