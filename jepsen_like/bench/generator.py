"""The load generator: one process, one epoll loop, sockets without any layer above, the same for every system.

Closed loop: a connection sends its next request when the last one is acknowledged. What is measured is from handing a
request to the kernel until its whole acknowledgement was read. The generator's own CPU time is kept apart.
"""

import select
import ssl
import time
from collections.abc import Iterable, Sequence
from typing import Generic, Self, TypeVar

import attrs

from jepsen_like.bench.conversation import Conversation
from jepsen_like.bench.streams import connect

PATIENCE_S = 30.0
"""A server may be silent for this long before a load is given up."""
READ_BYTES = 256 * 1024


class LoadFailed(Exception):
    """A server refused a write, broke the connection or stopped answering during a load; the message names which."""


@attrs.frozen
class Sample:
    """The results of a load: latencies of the requests that succeeded, its duration, CPU of the generator."""

    latencies_ns: Sequence[int]
    lasted_s: float
    client_cpu_s: float


class LoadLane:
    """One connection with what waits to be sent on it."""

    __slots__ = ("conversation", "started_ns", "stream", "unsent")

    def __init__(self, port: int, conversation: Conversation, tls: ssl.SSLContext | None = None) -> None:
        self.stream = connect(port, tls, PATIENCE_S)
        self.conversation = conversation
        self.unsent = b""
        self.started_ns = 0
        self.stream.sendall(conversation.hello())

    def greet(self) -> None:
        """Wait until the handshake is done. Raises `LoadFailed` if the server refuses it."""
        while not self.conversation.greeted:
            chunk = self.stream.recv(READ_BYTES)
            if not chunk:
                raise LoadFailed(
                    f"the server closed a new connection ({self.conversation.refusal or 'without an error message'})"
                )
            self.conversation.take(chunk)
            self.stream.sendall(self.conversation.owed)
            self.conversation.owed = b""
        self.stream.setblocking(False)


LaneT = TypeVar("LaneT", bound=LoadLane)


class EpollConnections(Generic[LaneT]):
    """EpollConnections to one server in one epoll loop, one conversation each; use as a context manager."""

    peer = "server"
    asked = "write"
    """The words of its errors."""

    def __init__(self, lanes: Iterable[LaneT]) -> None:
        self._epoll = select.epoll()
        self._lanes: dict[int, LaneT] = {}
        try:
            for lane in lanes:
                self._lanes[lane.stream.fileno()] = lane
            for descriptor, lane in self._lanes.items():
                lane.greet()
                self._epoll.register(descriptor, select.EPOLLIN)
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def close(self) -> None:
        """Close every connection."""
        self._epoll.close()
        for lane in self._lanes.values():
            lane.stream.close()

    def _wait(self, under_way: int) -> list[tuple[LaneT, int]]:
        """Returns the connections that are ready. Raises `LoadFailed` if none is for `PATIENCE_S`."""
        ready = self._epoll.poll(PATIENCE_S)
        if not ready:
            raise LoadFailed(f"{under_way} requests without an answer for {PATIENCE_S:g} s")
        return [(self._lanes[descriptor], events) for descriptor, events in ready]

    def _take(self, lane: LaneT) -> int:
        try:
            chunk = lane.stream.recv(READ_BYTES)
        except BlockingIOError:
            return 0  # what has come is no data, or not a whole record
        except OSError as error:
            raise LoadFailed(f"a connection broke: {error}") from error
        conversation = lane.conversation
        if not chunk:
            why = conversation.refusal or "without an error message"
            raise LoadFailed(f"the {self.peer} closed a connection ({why})")
        done = conversation.take(chunk)
        if conversation.refusal:
            raise LoadFailed(f"a {self.asked} was refused: {conversation.refusal}")
        return done

    def _send(self, lane: LaneT, data: bytes) -> None:
        if lane.unsent:
            data = lane.unsent + data
        try:
            sent = lane.stream.send(data)
        except BlockingIOError:
            sent = 0
        except OSError as error:
            raise LoadFailed(f"a connection broke: {error}") from error
        waits = sent < len(data)
        if waits or lane.unsent:
            lane.unsent = data[sent:]
            self._epoll.modify(lane.stream, select.EPOLLIN | (select.EPOLLOUT if waits else 0))


class Generator(EpollConnections[LoadLane]):
    """One request under way on each connection."""

    def __init__(self, port: int, conversations: Iterable[Conversation], tls: ssl.SSLContext | None = None) -> None:
        super().__init__(LoadLane(port, conversation, tls) for conversation in conversations)

    def run(self, seconds: float) -> Sample:
        """Drive the load for `seconds`, then wait for the last answers. Returns the latencies.

        Raises `LoadFailed` at the first refusal, or if a connection breaks or stops answering.
        """
        latencies: list[int] = []
        clock = time.perf_counter_ns
        cpu_began, began = time.process_time(), clock()
        end = began + int(seconds * 1e9)
        under_way = len(self._lanes)
        for lane in self._lanes.values():
            lane.started_ns = clock()
            self._send(lane, lane.conversation.request())
        while under_way:
            for lane, events in self._wait(under_way):
                if events & select.EPOLLOUT:
                    self._send(lane, b"")
                    if events == select.EPOLLOUT:
                        continue
                conversation = lane.conversation
                done = self._take(lane)
                if conversation.owed:
                    owed, conversation.owed = conversation.owed, b""
                    self._send(lane, owed)
                if not done:
                    continue
                now = clock()
                latencies.append(now - lane.started_ns)
                if now < end:
                    lane.started_ns = now
                    self._send(lane, conversation.request())
                else:
                    under_way -= 1
        return Sample(latencies, (clock() - began) / 1e9, time.process_time() - cpu_began)
