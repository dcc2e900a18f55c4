"""A session that answers requests in the order in which they came, while work on several of them overlaps.

For wires whose clients match answers to requests by their order, as Kafka's do. Each request is given to `serve` with a
`Reply`, which is answered once, at once or whenever the work is done; an answer leaves after all earlier ones.

No more requests are taken, and then read from the socket, while

- `requests_max` of them have no answer on its way yet, or these hold `taken_bytes_max`, or
- the answers that wait for an earlier one hold `held_bytes_max`, or
- the client does not read what it was sent (the connection `is_full`).

So a connection holds a bounded amount of memory (one request more than `taken_bytes_max`), apart from the answers to
requests already taken, and its client feels it as back-pressure. A request that is never answered holds up its own
connection and no other.
"""

from collections import deque
from collections.abc import Callable, Sequence
from typing import Generic

from raft.net.bounded import REQUEST_BYTES, BoundedSession
from raft.net.connection import SocketConnection
from raft.net.decoder import Buffer, FrameT

REQUESTS_MAX = 64
HELD_BYTES_MAX = 1024 * 1024
TAKEN_BYTES_MAX = 32 * 1024 * 1024


class Reply:
    """The place of one request in the order of answers; for the thread of the loop."""

    __slots__ = ("_session", "pieces", "request_bytes")

    def __init__(self, session: "OrderedSession[FrameT]", request_bytes: int) -> None:
        self.request_bytes = request_bytes
        """The size of the request, which its session counts until it is answered."""
        self._session: OrderedSession[FrameT] | None = session
        self.pieces: Sequence[Buffer] | None = None
        """The answer as pieces; None before it is given."""

    def send(self, *pieces: Buffer) -> None:
        """Answer with these bytes, laid end to end; with none for a request that has no answer. To be called once.

        Ignored if the connection has closed since.
        """
        assert self.pieces is None, "a request is answered once"
        self.pieces = pieces
        session, self._session = self._session, None
        assert session is not None
        session.on_answered(self)


class OrderedSession(BoundedSession[FrameT], Generic[FrameT]):
    """The requests of one connection, answered in their order.

    `serve` may answer at once, later, or raise `WireError`, which closes the connection. `on_closed` is called once.
    """

    def __init__(
        self,
        serve: Callable[[FrameT, Reply], None],
        on_closed: Callable[[SocketConnection[FrameT], str], None],
        *,
        requests_max: int = REQUESTS_MAX,
        held_bytes_max: int = HELD_BYTES_MAX,
        taken_bytes_max: int = TAKEN_BYTES_MAX,
    ) -> None:
        super().__init__(taken_bytes_max)
        self._serve = serve
        self._on_closed = on_closed
        self._requests_max = requests_max
        self._held_bytes_max = held_bytes_max
        self._replies: deque[Reply] = deque()
        """Those not yet sent, in the order of their requests."""
        self._held_bytes = 0

    def on_answered(self, reply: Reply) -> None:
        """A request has its answer: it leaves, with those that waited for it, or waits for others itself."""
        if self.connection.is_closed:
            return
        assert reply.pieces is not None
        self._taken_bytes -= reply.request_bytes
        self._held_bytes += sum(map(len, reply.pieces))
        while self._replies and (pieces := self._replies[0].pieces) is not None:
            self._replies.popleft()
            self._held_bytes -= sum(map(len, pieces))
            self.connection.write_pieces(pieces)
        self._resume()

    def held_bytes(self) -> int:
        """See `Session`."""
        waiting = self._backlog_bytes if self._backlog else 0
        return waiting + self._taken_bytes + self._held_bytes + REQUEST_BYTES * len(self._replies)

    def on_closed(self, reason: str) -> None:
        """See `Session`. Work under way goes on; its answers are ignored."""
        self._backlog.clear()
        self._replies.clear()
        self._on_closed(self.connection, reason)

    def _take(self, frame: FrameT) -> None:
        reply = Reply(self, len(frame) if isinstance(frame, bytes | memoryview) else 0)
        self._replies.append(reply)
        self._taken_bytes += reply.request_bytes
        self._serve(frame, reply)

    def _is_busy(self) -> bool:
        return len(self._replies) >= self._requests_max or self._held_bytes >= self._held_bytes_max
