"""A host in small: one process that serves a protocol of its own and a raft group in one loop, and on one port, as a broker would.

Its protocol is a length of four bytes and a body. The body is appended to the group, and the answer is its offset as text, or
`!` and the reason; a body that begins with `?` is echoed at once. Answers come in the order of the requests.
"""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import attrs
import trio

from raft.errors import RaftError
from raft.group import RaftGroup
from raft.net.connection import SocketConnection
from raft.net.decoder import PREFIX, BodyDecoder, Buffer, Decoder
from raft.net.listener import Listener, ListenerLimits, bind
from raft.net.ordered import OrderedSession, Reply
from raft.net.reactor import Reactor
from raft.net.sharing import UndecidedDecoder, is_native
from raft.net.tls_socket import StreamSocket
from raft.results import Appended
from raft.settings import NodeSettings
from raft.subscription import Delivered


@attrs.define
class EchoHost:
    """One such process; `delivered` is what its subscriber was given."""

    reactor: Reactor
    listener: Listener[Any] = attrs.field(init=False)
    group: RaftGroup = attrs.field(init=False)
    delivered: list[Delivered] = attrs.field(factory=list)

    def open_connection(self, accepted: StreamSocket, name: str) -> SocketConnection[Any]:
        session = OrderedSession[Buffer](
            lambda body, reply: self.serve(session, body, reply), lambda gone, reason: self.listener.forget(gone)
        )

        def decide(first: Buffer) -> Decoder[Any]:
            if is_native(first):
                return self.group.take_over(session.connection)
            session.connection.decoder = BodyDecoder(1024 * 1024)
            return session.connection.decoder

        session.connection = SocketConnection(
            self.reactor, accepted, UndecidedDecoder(decide), session, outbound_bytes_max=64 * 1024, name=name
        )
        return session.connection

    def serve(self, session: OrderedSession[Buffer], body: Buffer, reply: Reply) -> None:
        self.listener.on_greeted(session.connection)  # this protocol has no handshake: the first request is one
        if body[:1] == b"?":
            answer(reply, bytes(body))
        else:
            self.group.submit([bytes(body)], lambda outcome: answer(reply, format_outcome(outcome)))


def format_outcome(outcome: Appended | RaftError) -> bytes:
    """Returns the answer that the client gets."""
    return b"!" + str(outcome).encode() if isinstance(outcome, RaftError) else b"%d" % outcome.base_offset


def answer(reply: Reply, body: bytes) -> None:
    """One frame of the protocol."""
    reply.send(PREFIX.pack(len(body)), body)


@asynccontextmanager
async def echo_host(
    node_id: int, members: Mapping[int, tuple[str, int]], directory: Path, settings: NodeSettings
) -> AsyncIterator[EchoHost]:
    """A running host; stopped at the end."""
    reactor = Reactor()
    try:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(reactor.run)
            host = EchoHost(reactor)
            host.listener = Listener(
                reactor,
                bind(*members[node_id]),
                host.open_connection,
                limits=ListenerLimits(),
                on_refused=lambda name, why: None,
            )
            nursery.start_soon(host.listener.run)
            async with RaftGroup.open(
                node_id=node_id,
                members=members,
                directory=str(directory),
                settings=settings,
                reactor=reactor,
                listener=host.listener,
            ) as host.group:
                host.group.subscribe(host.delivered.append)
                try:
                    yield host
                finally:
                    host.listener.close("the host stops")
            nursery.cancel_scope.cancel()
    finally:
        reactor.close()
