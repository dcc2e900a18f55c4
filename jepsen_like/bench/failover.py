"""From a fault on the leader to the next success, as seen by a client that tries all addresses at once.

The client is the same for every system: a connection to each node; from the moment of the fault on, every `BEAT_S`, it
sends one write on each connection it has and reconnects where it has none. Nothing is under way when the fault comes,
so the first success is of a write that began after it. A refusal changes nothing: the next beat asks again.
"""

import contextlib
import errno
import random
import select
import socket
import time
from collections.abc import Callable, Generator, Sequence

from jepsen_like.bench.conversation import Conversation, LoadShape, NotAnAnswer
from jepsen_like.bench.processes import DidNotAnswer, until
from jepsen_like.bench.systems import NODES, BenchCluster

BEAT_S = 0.01
GIVE_UP_S = 60.0
SETTLE_S = (0.1, 0.5)
"""Between whole and the next fault; drawn, so that faults do not keep step with heartbeats."""
KILL, PAUSE = "kill", "pause"
LOAD = LoadShape(NODES, 100)


class FailoverLane:
    """One node's connection, if there is one."""

    def __init__(self, port: int, converse: Callable[[], Conversation]) -> None:
        self.port = port
        self._converse = converse
        self.conversation = converse()
        self.stream: socket.socket | None = None
        self.dials = False

    def dial(self) -> socket.socket:
        """Begin to connect."""
        self.conversation = self._converse()
        self.stream = socket.socket()
        self.stream.setblocking(False)
        self.stream.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.dials = True
        refused = self.stream.connect_ex(("127.0.0.1", self.port))
        if refused not in (0, errno.EINPROGRESS):
            self.drop()
            raise ConnectionError
        return self.stream

    def drop(self) -> None:
        """Close."""
        if self.stream is not None:
            self.stream.close()
        self.stream = None

    def send(self, data: bytes) -> None:
        """Send as much as fits; a connection that takes no more is of no use here."""
        try:
            if data and self.stream is not None and self.stream.send(data) < len(data):
                self.drop()
        except OSError:
            self.drop()

    def take(self) -> int:
        """Read. Returns how many writes succeeded."""
        assert self.stream is not None
        try:
            if self.dials:
                if self.stream.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR):
                    raise ConnectionError
                self.dials = False
                self.send(self.conversation.hello())
                return 0
            chunk = self.stream.recv(65536)
            done = self.conversation.take(chunk) if chunk else 0
        except BlockingIOError:
            return 0
        except (OSError, NotAnAnswer):
            self.drop()
            return 0
        owed, self.conversation.owed = self.conversation.owed, b""
        self.send(owed)
        if not chunk:
            self.drop()
        return done


class FailoverClient:
    """A client of all nodes."""

    def __init__(self, cluster: BenchCluster) -> None:
        cluster.prepare(LOAD)
        self._lanes = [
            FailoverLane(port, lambda number=number: cluster.converse(LOAD, number))  # type: ignore[misc]
            for number, port in enumerate(cluster.ports)
        ]
        self.successes = 0

    def close(self) -> None:
        """Hang up."""
        for lane in self._lanes:
            lane.drop()

    def first_success(self) -> float:
        """Write until one write succeeds. Returns the seconds from now. Raises `DidNotAnswer` after `GIVE_UP_S`."""
        began = time.perf_counter()
        beat = began
        while (now := time.perf_counter()) < began + GIVE_UP_S:
            if now >= beat:
                self._beat(writes=True)
                beat = now + BEAT_S
            if self._listen(max(beat - now, 0.0)):
                return time.perf_counter() - began
        raise DidNotAnswer(f"no write succeeded within {GIVE_UP_S:g} s of a fault")

    def connect(self) -> None:
        """Close all connections, then connect to every node again: afterwards no request is in flight."""
        self.close()
        end = time.perf_counter() + GIVE_UP_S
        while not all(lane.stream is not None and lane.conversation.greeted for lane in self._lanes):
            if time.perf_counter() > end:
                raise DidNotAnswer(f"not every node greeted a client within {GIVE_UP_S:g} s")
            self._beat(writes=False)
            self._listen(BEAT_S)

    def _beat(self, *, writes: bool) -> None:
        for lane in self._lanes:
            if lane.stream is None:
                with contextlib.suppress(ConnectionError):
                    lane.dial()
            elif writes and lane.conversation.greeted:
                lane.send(lane.conversation.request())

    def _listen(self, seconds: float) -> int:
        """Whatever comes within so long, or the first of it; how many writes succeeded."""
        poll = select.poll()
        by_descriptor = {}
        for lane in self._lanes:
            if lane.stream is not None:
                by_descriptor[lane.stream.fileno()] = lane
                poll.register(lane.stream, select.POLLOUT if lane.dials else select.POLLIN)
        done = sum(by_descriptor[descriptor].take() for descriptor, _ in poll.poll(seconds * 1000))
        self.successes += done
        return done


def fail_over(
    lent: contextlib.AbstractContextManager[BenchCluster], faults: Sequence[str], seed: int
) -> Generator[tuple[str, float]]:
    """Yields one fault on the leader of a new cluster after the other, each with its time to the next success.

    Raises `DidNotAnswer` if the system does not come back, `RecordsMissing` if acknowledged records are gone.
    """
    chance = random.Random(seed)
    with lent as cluster:
        before = cluster.count_written()
        with contextlib.closing(FailoverClient(cluster)) as client:
            for fault in faults:
                client.connect()
                time.sleep(chance.uniform(*SETTLE_S))
                leader = cluster.members[cluster.led_by()]
                with leader.under_fault(killed=fault == KILL):
                    took = client.first_success()
                yield fault, took
                until(cluster.ready, "whole cluster after a fault", members=cluster.members)
        cluster.check_holds(before + client.successes)
