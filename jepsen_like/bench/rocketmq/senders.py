"""The load generator: one process, one epoll loop, several requests a connection; and producers that move on.

Closed loop: a request that is acknowledged is followed by the next one. Latencies are from handing a request to the
kernel until its answer was read; answers may come in any order.
"""

import select
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from functools import partial

import attrs

from jepsen_like.bench.generator import EpollConnections, LoadLane, Sample
from jepsen_like.bench.rocketmq.wire import RECEIVE_BYTES, RocketConversation, SendConversation
from jepsen_like.cluster.ports import LOOPBACK


class WindowLane(LoadLane):
    """One connection, and when each request under way on it was begun, by its number."""

    __slots__ = ("begun_ns", "numbered")

    def __init__(self, port: int, conversation: RocketConversation, tls: ssl.SSLContext | None = None) -> None:
        super().__init__(port, conversation, tls)
        self.numbered = conversation
        self.begun_ns: dict[int, int] = {}


class WindowedLoad(EpollConnections[WindowLane]):
    """EpollConnections to one port, with so many requests under way on each."""

    peer = "broker"
    asked = "request"

    def __init__(
        self, port: int, conversations: Iterable[RocketConversation], window: int, tls: ssl.SSLContext | None = None
    ) -> None:
        super().__init__(WindowLane(port, conversation, tls) for conversation in conversations)
        self._window = window

    def run(self, seconds: float) -> Sample:
        """Drive the load for `seconds` and all answers. Raises `LoadFailed` at a refusal or broken connection."""
        latencies: list[int] = []
        clock = time.perf_counter_ns
        cpu_began, began = time.process_time(), clock()
        end = began + int(seconds * 1e9)
        for lane in self._lanes.values():
            self._ask(lane, self._window)
        under_way = len(self._lanes) * self._window
        while under_way:
            for lane, events in self._wait(under_way):
                if events & select.EPOLLOUT:
                    self._send(lane, b"")
                    if events == select.EPOLLOUT:
                        continue
                done = self._take(lane)
                now = clock()
                latencies += [now - lane.begun_ns.pop(number) for number in lane.numbered.answered]
                if now < end:
                    self._ask(lane, done)
                else:
                    under_way -= done
        return Sample(latencies, (clock() - began) / 1e9, time.process_time() - cpu_began)

    def _ask(self, lane: WindowLane, count: int) -> None:
        if not count:
            return
        requests, conversation = [], lane.numbered
        now = time.perf_counter_ns()
        for _ in range(count):
            requests.append(conversation.request())
            lane.begun_ns[conversation.number] = now
        self._send(lane, b"".join(requests))


# ---------------------------------------------------------------- producers that move on

ATTEMPT_S = 3.0
"""`sendMsgTimeout` of RocketMQ's producers."""
ATTEMPTS = 3
"""One, and `retryTimesWhenSendFailed` more, each to the next master."""
BEAT_S = 0.002
"""Between two sends of a producer."""


@attrs.define
class SendsOfProducers:
    """The outcomes of several producers' sends. A send is unknown if an attempt of it ended without an answer."""

    acknowledged: int = 0
    failed: int = 0
    unknown: int = 0
    moved: int = 0
    """Acknowledged by another master than the first that was tried."""
    longest_s: float = 0.0


class MovingProducers:
    """Threads, each a producer that sends one message after the other to all masters in turn.

    An attempt that has certainly failed is followed by one to the next master. One without an answer is not, because
    its message may be stored: the send is unknown.
    """

    def __init__(self, ports: Sequence[int], topic: str, record_bytes: int, producers: int) -> None:
        self._ports = ports
        self._found = [SendsOfProducers() for _ in range(producers)]
        self._ending = threading.Event()
        self._threads = [
            threading.Thread(target=self._produce, args=(found, topic, record_bytes, lane))
            for lane, found in enumerate(self._found)
        ]

    def start(self) -> None:
        """Begin."""
        for thread in self._threads:
            thread.start()

    def stop(self) -> SendsOfProducers:
        """End, and add up."""
        self._ending.set()
        for thread in self._threads:
            thread.join()
        *counts, longest_s = zip(*map(attrs.astuple, self._found), strict=True)
        acknowledged, failed, unknown, moved = map(sum, counts)
        return SendsOfProducers(acknowledged, failed, unknown, moved, max(longest_s))

    def _produce(self, found: SendsOfProducers, topic: str, record_bytes: int, lane: int) -> None:
        converse = partial(SendConversation, topic, record_bytes, lane=lane)
        links = [MasterLink(port, converse) for port in self._ports]
        turn = lane
        while not self._ending.wait(BEAT_S):
            turn += 1
            began = time.perf_counter()
            outcome: bool | None = False
            for attempt in range(ATTEMPTS):
                outcome = links[(turn + attempt) % len(links)].send()
                if outcome is not False:
                    found.moved += attempt > 0 and outcome is True
                    break
            found.longest_s = max(found.longest_s, time.perf_counter() - began)
            found.acknowledged += outcome is True
            found.failed += outcome is False
            found.unknown += outcome is None
        for link in links:
            link.close()


class MasterLink:
    """A producer's connection to one master, one request at a time, dialed when it is needed."""

    def __init__(self, port: int, converse: Callable[[], SendConversation]) -> None:
        self._port = port
        self._converse = converse
        self._conversation = converse()
        self._stream: socket.socket | None = None

    def send(self) -> bool | None:
        """One attempt. Returns whether the message is stored; None if that is unknown."""
        if self._stream is not None and self._has_ended(self._stream):
            self.close()
        try:
            if self._stream is None:
                self._stream = socket.create_connection((LOOPBACK, self._port), timeout=ATTEMPT_S)
                self._stream.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                self._conversation = self._converse()
        except OSError:
            return False
        conversation = self._conversation
        try:
            self._stream.sendall(conversation.request())
            while chunk := self._stream.recv(RECEIVE_BYTES):
                if conversation.take(chunk):
                    return True
                if conversation.refusal:
                    conversation.refusal = ""
                    return False if conversation.is_definite else None
        except OSError:
            pass
        self.close()
        return None

    @staticmethod
    def _has_ended(stream: socket.socket) -> bool:
        """Returns True if the broker has closed the connection already, so that nothing sent on it is taken."""
        try:
            return bool(select.select([stream], [], [], 0)[0]) and not stream.recv(1, socket.MSG_PEEK)
        except OSError:
            return True

    def close(self) -> None:
        """Hang up."""
        if self._stream is not None:
            self._stream.close()
        self._stream = None
