"""A node that answers as it is told: the native protocol on a real port, and no log behind it."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import attrs
import msgpack
import trio

from raft import client_codec
from raft.client_codec import HelloReply
from raft.errors import RaftError
from raft.net.decoder import Buffer
from raft.net.framing import FrameDecoder
from raft.record_batch import count_batch
from tests.listening import listening

SILENCE = b""
"""An answer that never comes."""


class HangUp(Exception):
    """Raised by an `answer` to close the connection instead."""


Answer = Callable[[int, list[Any]], bytes]
"""From message type and the fields of a request, its id first, to a frame; `SILENCE` for none, or `HangUp`."""


@attrs.define
class FakeNode:
    """`requests` counts what arrived, by message type."""

    answer: Answer
    address: tuple[str, int] = ("", 0)
    requests: dict[int, int] = attrs.field(factory=dict)

    async def serve(self, stream: trio.SocketStream) -> None:
        decoder = FrameDecoder(1 << 24)
        try:
            async for chunk in stream:
                for message_type, body, _ in decoder.feed(bytes(chunk)):
                    await self._take(stream, message_type, body)
        except (HangUp, trio.BrokenResourceError, trio.ClosedResourceError):
            pass
        finally:
            stream.socket.close()

    async def _take(self, stream: trio.SocketStream, message_type: int, body: Buffer) -> None:
        if message_type == client_codec.HELLO:
            await stream.send_all(client_codec.encode_hello_reply(HelloReply(1, 1 << 20)))
            return
        self.requests[message_type] = self.requests.get(message_type, 0) + 1
        frame = self.answer(message_type, msgpack.unpackb(body))
        if frame:
            await stream.send_all(frame)


@asynccontextmanager
async def fake_node(answer: Answer) -> AsyncIterator[FakeNode]:
    node = FakeNode(answer)
    async with listening(node.serve) as node.address:
        yield node


def refuses(error: RaftError) -> Answer:
    return lambda message_type, fields: client_codec.encode_error(fields[0], error)


def is_silent(message_type: int, fields: list[Any]) -> bytes:
    return SILENCE


def hangs_up(message_type: int, fields: list[Any]) -> bytes:
    raise HangUp


def leads(message_type: int, fields: list[Any]) -> bytes:
    """A leader of an endless log in which everything lands at offset 7."""
    if message_type == client_codec.APPEND:
        return client_codec.encode_appended(fields[0], 7, count_batch(fields[1]), 3)
    if message_type == client_codec.READ:
        return client_codec.encode_records(fields[0], 7, [])
    return client_codec.encode_tail_reply(fields[0], 7, 3)
