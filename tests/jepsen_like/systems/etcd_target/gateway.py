"""A small gateway of etcd's: it answers by path, and keeps what it was asked."""

import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import attrs
import h11
import trio

from jepsen_like.port.wires import Address
from tests.listening import listening

Answer = tuple[int, Mapping[str, Any]]


@attrs.define
class Gateway:
    """`answers` by path; each request is kept with the token that it showed."""

    answers: dict[str, Answer]
    address: Address = ("", 0)
    asked: list[tuple[str, Any, str]] = attrs.field(factory=list)
    refused_tokens: frozenset[str] = frozenset()

    def answer(self, path: str, body: Any, token: str) -> Answer:
        self.asked.append((path, body, token))
        if token in self.refused_tokens:
            return 401, {"message": "etcdserver: invalid auth token"}
        return self.answers.get(path, (404, {"message": "Not Found"}))

    async def serve(self, stream: trio.SocketStream) -> None:
        """One connection, until it ends."""
        state = h11.Connection(h11.SERVER)
        async with stream:
            while True:
                path, token, content = "", "", b""
                while not isinstance(event := state.next_event(), h11.EndOfMessage):
                    match event:
                        case h11.NEED_DATA:
                            state.receive_data(bytes(await stream.receive_some()))
                        case h11.Request():
                            path = event.target.decode()
                            token = dict(event.headers.raw_items()).get(b"Authorization", b"").decode()
                        case h11.Data():
                            content += bytes(event.data)
                        case _:
                            return
                status, found = self.answer(path, json.loads(content), token)
                text = json.dumps(found).encode()
                head = h11.Response(status_code=status, headers=[("Content-Length", str(len(text)))])
                events = (head, h11.Data(data=text), h11.EndOfMessage())
                await stream.send_all(b"".join(filter(None, map(state.send, events))))
                state.start_next_cycle()


@asynccontextmanager
async def gateway(answers: Mapping[str, Answer]) -> AsyncIterator[Gateway]:
    """A gateway that listens."""
    made = Gateway(dict(answers))
    async with listening(made.serve) as made.address:
        yield made
