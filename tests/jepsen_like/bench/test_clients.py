"""The load generator and the client of failovers against a server that misbehaves on command."""

import contextlib
import socket
import threading
from collections.abc import Callable, Iterator, Sequence

import pytest

from jepsen_like.bench.conversation import Conversation, LoadShape
from jepsen_like.bench.failover import FailoverClient
from jepsen_like.bench.generator import Generator, LoadFailed
from jepsen_like.bench.own_wire import CLUSTER_ID, QuorumlogConversation
from jepsen_like.bench.systems import BenchCluster
from jepsen_like.cluster.ports import LOOPBACK
from raft import client_codec
from raft.errors import NotLeader
from raft.net.decoder import Buffer
from raft.net.framing import FrameDecoder

Answer = Callable[[int], bytes | None]
"""From the number of an append, counted over all connections from 1, to the answer; None closes the connection."""
LOAD = LoadShape(4, 10)


def accept(number: int) -> bytes:
    return client_codec.encode_appended(1, number, 1, 1)


def refuse(number: int) -> bytes:
    return client_codec.encode_error(1, NotLeader(None, None))


class Server:
    """One node as clients see it, a thread for each connection."""

    def __init__(self, answer: Answer, turned_away: int = 0) -> None:
        self._answer = answer
        self._turned_away = turned_away
        """Connections that are closed instead of greeted."""
        self.appends = 0
        self._lock = threading.Lock()
        self._listener = socket.create_server((LOOPBACK, 0))
        self._threads: list[threading.Thread] = []
        self._streams: list[socket.socket] = []
        self.port = int(self._listener.getsockname()[1])
        self._begin(self._accept)

    def _begin(self, target: Callable[..., None], *arguments: object) -> None:
        thread = threading.Thread(target=target, args=arguments, daemon=True)
        self._threads.append(thread)
        thread.start()

    def close(self) -> None:
        # A thread that waits in accept or recv wakes up at a shutdown, not at a close.
        for stream in (self._listener, *self._streams):
            with contextlib.suppress(OSError):  # its own thread or the client may have closed it
                stream.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join(10)
        self._listener.close()

    def _accept(self) -> None:
        while True:
            try:
                stream, _ = self._listener.accept()
            except OSError:
                return
            self._streams.append(stream)
            self._begin(self._serve, stream)

    def _serve(self, stream: socket.socket) -> None:
        decoder = FrameDecoder(2**20)
        with stream:
            try:
                while chunk := stream.recv(65536):
                    for message_type, body, _ in decoder.feed(chunk):
                        answer = self._one(message_type, body)
                        if answer is None:
                            return
                        stream.sendall(answer)
            except OSError:
                return

    def _one(self, message_type: int, body: Buffer) -> bytes | None:
        if message_type == client_codec.HELLO:
            assert client_codec.decode_hello(message_type, body).cluster_id == CLUSTER_ID
            with self._lock:
                self._turned_away -= 1
                if self._turned_away >= 0:
                    return None
            return client_codec.encode_hello_reply(client_codec.HelloReply(1, 2**20))
        with self._lock:
            self.appends += 1
            return self._answer(self.appends)


class Nodes(BenchCluster):
    """As much of a cluster as a client of failovers needs."""

    def __init__(self, ports: Sequence[int]) -> None:
        super().__init__(ports, [])

    def converse(self, load: LoadShape, lane: int) -> Conversation:
        return QuorumlogConversation(load)

    def leader(self) -> int | None:
        return 0

    def count_written(self) -> int:
        return 0

    def ready(self) -> bool:
        return True


@pytest.fixture
def serving() -> Iterator[Callable[..., Server]]:
    servers: list[Server] = []

    def begin(answer: Answer, turned_away: int = 0) -> Server:
        servers.append(Server(answer, turned_away))
        return servers[-1]

    yield begin
    for server in servers:
        server.close()


def generator(server: Server) -> Generator:
    return Generator(server.port, [QuorumlogConversation(LOAD) for _ in range(LOAD.connections)])


def test_every_append_that_is_acknowledged_is_counted_once(serving: Callable[..., Server]) -> None:
    server = serving(accept)
    driver = generator(server)
    samples = [driver.run(0.05) for _ in range(2)]
    driver.close()
    assert sum(len(sample.latencies_ns) for sample in samples) == server.appends > 2 * LOAD.connections
    assert all(sample.lasted_s >= 0.05 and min(sample.latencies_ns) > 0 for sample in samples)


def test_a_refused_append_ends_the_load(serving: Callable[..., Server]) -> None:
    driver = generator(serving(lambda number: accept(number) if number < 20 else refuse(number)))
    with pytest.raises(LoadFailed, match="refused"):
        driver.run(5.0)
    driver.close()


def test_a_closed_connection_ends_the_load(serving: Callable[..., Server]) -> None:
    driver = generator(serving(lambda number: accept(number) if number < 20 else None))
    with pytest.raises(LoadFailed, match=r"closed|broke"):
        driver.run(5.0)
    driver.close()


def test_a_client_of_failovers_asks_again_after_refusals(serving: Callable[..., Server]) -> None:
    follower = serving(refuse)
    elected = serving(lambda number: accept(number) if number >= 4 else refuse(number))
    client = FailoverClient(Nodes([follower.port, elected.port]))
    client.connect()
    took = client.first_success()
    client.close()
    assert elected.appends >= 4
    assert took > 0
    assert client.successes == 1


def test_nothing_is_under_way_when_the_fault_comes(serving: Callable[..., Server]) -> None:
    quick, slow = serving(accept), serving(accept, turned_away=5)
    client = FailoverClient(Nodes([quick.port, slow.port]))
    client.connect()
    client.close()
    quick.close()
    assert quick.appends == slow.appends == 0


def test_a_client_of_failovers_dials_again_when_a_connection_breaks(serving: Callable[..., Server]) -> None:
    server = serving(lambda number: accept(number) if number >= 3 else None)
    client = FailoverClient(Nodes([server.port]))
    client.connect()
    client.first_success()
    client.close()
    assert server.appends >= 3


def test_a_client_of_failovers_is_not_held_up_by_a_node_that_is_gone(serving: Callable[..., Server]) -> None:
    gone, server = serving(accept), serving(accept)
    client = FailoverClient(Nodes([gone.port, server.port]))
    client.connect()
    gone.close()
    assert client.first_success() < 5.0
    client.close()
    assert gone.appends == 0
