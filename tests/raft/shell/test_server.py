"""The port of a node: nonsense ends the connection it came on, greed is slowed down, everybody else is served."""

import gc
import os
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import pytest
import trio

from raft import client_codec as wire
from raft.codec import encode_message
from raft.errors import NotLeader, ProtocolError, ShuttingDown
from raft.messages import InstallSnapshot, Message, VoteReply
from raft.model import LogIndex, LogStart, Offset, Position, Term
from raft.net.connection import SocketConnection
from raft.net.framing import HEADER, Frame, FrameDecoder, encode_frame, header_check
from raft.record_batch import pack_batch
from raft.results import Appended, Records
from raft.server import ClientSession, PeerSession
from raft.settings import ConnectionSettings, NodeSettings
from tests.raft.shell.nodes import CLUSTER_ID, FAST, LocalCluster, local_cluster, until

HELLO = wire.encode_hello(wire.Hello(CLUSTER_ID, wire.CLIENT, 0))
RECORD = pack_batch([b"record"])


class RawClient:
    """A socket and the frames that come out of it."""

    def __init__(self, stream: trio.SocketStream) -> None:
        self.stream = stream
        self._decoder = FrameDecoder(1 << 30)
        self._frames: list[Frame] = []

    async def send(self, data: bytes) -> None:
        await self.stream.send_all(data)

    async def frame(self) -> Frame | None:
        """The next frame; None at the end of the connection."""
        while not self._frames:
            try:
                chunk = await self.stream.receive_some()
            except trio.BrokenResourceError:
                return None
            if not chunk:
                return None
            self._frames += self._decoder.feed(chunk)
        return self._frames.pop(0)

    async def last_words(self) -> list[Frame]:
        """Every frame up to the end of the connection."""
        frames = []
        while (frame := await self.frame()) is not None:
            frames.append(frame)
        return frames


@asynccontextmanager
async def raw_client(cluster: LocalCluster, hello: bytes = HELLO, node: int = 1) -> AsyncIterator[RawClient]:
    stream = await trio.open_tcp_stream(*cluster.members[node])
    async with stream:
        client = RawClient(stream)
        await client.send(hello)
        yield client


@asynccontextmanager
async def one_node(directory: Path, settings: NodeSettings | None = None) -> AsyncIterator[LocalCluster]:
    async with local_cluster(directory, 1, settings) as cluster:
        await cluster.leader()
        yield cluster


async def test_the_handshake_tells_who_answers_and_what_it_takes(tmp_path: Path) -> None:
    async with one_node(tmp_path) as cluster, raw_client(cluster) as client:
        frame = await client.frame()
        assert frame is not None
        assert wire.decode_hello_reply(*frame[:2]) == wire.HelloReply(1, NodeSettings().frame_bytes_max)


async def test_a_request_that_arrives_while_the_node_stops_is_refused_and_the_stop_is_clean(tmp_path: Path) -> None:
    async with one_node(tmp_path) as cluster, raw_client(cluster) as client:
        assert await client.frame()
        node = cluster.nodes[1]
        await node.group.append([b"record"])
        # Nothing awaits between the two, so the request is in the socket when the node looks for the last time.
        os.write(client.stream.socket.fileno(), wire.encode_read(7, 0, 100))
        node.stop.cancel()
        (frame,) = await client.last_words()
        request_id, reply = wire.decode_reply(*frame[:2])
        assert (request_id, type(reply)) == (7, ShuttingDown)
        await node.stopped.wait()


async def test_clients_cannot_take_the_places_of_peers(tmp_path: Path) -> None:
    settings = NodeSettings(raft=FAST, connections=ConnectionSettings(connections_max=8))
    async with local_cluster(tmp_path, 2, settings) as cluster, AsyncExitStack() as stack:
        await cluster.leader()
        answers = []
        for _ in range(20):
            client = await stack.enter_async_context(raw_client(cluster))
            frame = await client.frame()
            assert frame is not None
            answers.append(frame[0])
        assert answers[:5] == [wire.HELLO_REPLY] * 5
        assert set(answers[6:]) == {wire.ERROR}
        await cluster.stop(2)
        await cluster.start(2)
        leader = await cluster.leader()
        await leader.append([b"both nodes are needed for this"])


BAD_OPENINGS = [
    pytest.param(
        wire.encode_hello(wire.Hello("another", wire.CLIENT, 0)), "this is cluster 'test'", id="another cluster"
    ),
    pytest.param(wire.encode_hello(wire.Hello(CLUSTER_ID, wire.PEER, 1)), "not a peer", id="itself as a peer"),
    pytest.param(wire.encode_hello(wire.Hello(CLUSTER_ID, wire.PEER, 0)), "not a peer", id="a peer without an id"),
    pytest.param(
        wire.encode_hello(wire.Hello(CLUSTER_ID, wire.CLIENT, 3)), "a client has no node id", id="a client with an id"
    ),
    pytest.param(wire.encode_bare(wire.STATUS, 1), "begins with HELLO", id="no handshake"),
    pytest.param(encode_frame(wire.HELLO, b"\xc1"), "not the msgpack", id="a handshake of nonsense"),
    pytest.param(b"GET / HTTP/1.1\r\n\r\n", "version", id="another protocol"),
    pytest.param(HEADER.pack(5000, 1, 1, header_check(5000, 1, 1), 0), "over the bound", id="a long handshake"),
]

BAD_REQUESTS = [
    pytest.param(encode_frame(77, b""), "not a request", id="an unknown type"),
    pytest.param(encode_frame(wire.APPENDED, b""), "not a request", id="a reply"),
    pytest.param(HELLO, "not a request", id="a second handshake"),
    pytest.param(encode_frame(wire.APPEND, b"\x90"), "an array of 2", id="a short append"),
    pytest.param(wire.encode_append(1, b"\x93"), "the records are not", id="records of nonsense"),
    pytest.param(HEADER.pack(2**31, 1, 2, header_check(2**31, 1, 2), 0), "over the bound", id="an oversized frame"),
    pytest.param(HEADER.pack(0, 7, 2, header_check(0, 7, 2), 0), "version 7", id="a newer version"),
    pytest.param(HEADER.pack(3, 1, 2, header_check(3, 1, 2), 99) + b"abc", "CRC", id="a wrong CRC"),
]


@pytest.mark.parametrize(("opening", "reason"), BAD_OPENINGS)
async def test_a_bad_opening_closes_its_connection_with_one_logged_reason(
    tmp_path: Path, opening: bytes, reason: str
) -> None:
    async with one_node(tmp_path) as cluster:
        await closes_with(cluster, opening, reason, greeted=False)


@pytest.mark.parametrize(("request_frame", "reason"), BAD_REQUESTS)
async def test_a_bad_request_closes_its_connection_with_one_logged_reason(
    tmp_path: Path, request_frame: bytes, reason: str
) -> None:
    async with one_node(tmp_path) as cluster:
        await closes_with(cluster, HELLO + request_frame, reason, greeted=True)


async def closes_with(cluster: LocalCluster, sent: bytes, reason: str, *, greeted: bool) -> None:
    async with raw_client(cluster) as other, raw_client(cluster, sent) as client:
        words = await client.last_words()
        assert [message_type for message_type, _, _ in words] == ([wire.HELLO_REPLY] if greeted else []) + [wire.ERROR]
        _, error = wire.decode_error(words[-1][1])
        assert isinstance(error, ProtocolError)
        assert reason in error.detail
        (closed,) = cluster.notices("connection_closed")
        assert reason in closed["reason"]
        await other.send(wire.encode_append(5, RECORD))
        assert [(await other.frame() or (0,))[0] for _ in range(2)] == [wire.HELLO_REPLY, wire.APPENDED]


async def test_a_connection_that_says_nothing_is_closed_in_time(tmp_path: Path) -> None:
    settings = NodeSettings(raft=FAST, connections=ConnectionSettings(greeting_timeout_s=0.1))
    async with (
        one_node(tmp_path, settings) as cluster,
        raw_client(cluster, HELLO[:-1]) as silent,
        raw_client(cluster) as greeted,
    ):
        assert await silent.last_words() == []
        assert "no handshake" in cluster.notices("connection_closed")[0]["reason"]
        await greeted.send(wire.encode_bare(wire.STATUS, 1))
        assert [(await greeted.frame() or (0,))[0] for _ in range(2)] == [wire.HELLO_REPLY, wire.STATUS_REPLY]


async def test_thousands_of_requests_in_flight_are_all_answered_in_order(tmp_path: Path) -> None:
    async with one_node(tmp_path) as cluster, raw_client(cluster) as client:
        count = 5000
        requests = b"".join(wire.encode_append(request_id, RECORD) for request_id in range(1, count + 1))
        async with trio.open_nursery() as nursery:
            nursery.start_soon(client.send, requests)
            await client.frame()
            for request_id in range(1, count + 1):
                frame = await client.frame()
                assert frame is not None
                assert wire.decode_reply(*frame[:2]) == (request_id, Appended(request_id - 1, 1, 1))


async def test_a_client_that_does_not_read_is_not_read_from_and_holds_a_bounded_queue(tmp_path: Path) -> None:
    settings = NodeSettings(raft=FAST, outbound_bytes_max=64 * 1024, read_bytes_max=256 * 1024)
    async with one_node(tmp_path, settings) as cluster, raw_client(cluster) as other, raw_client(cluster) as client:
        group = cluster.nodes[1].group
        await group.append([b"x" * 200_000])
        await client.frame()
        count = 400
        requests = b"".join(wire.encode_read(request_id, 0, 10**6) for request_id in range(count))
        queue = group_connection_queue(cluster)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(client.send, requests)
            await until(lambda: queue() >= settings.outbound_bytes_max)
            # The other client is served, and its answers prove that rounds have passed.
            await other.frame()
            for request_id in range(50):
                await other.send(wire.encode_append(request_id, RECORD))
                assert (await other.frame() or (0,))[0] == wire.APPENDED
                assert queue() <= settings.outbound_bytes_max + 300_000
            for request_id in range(count):
                frame = await client.frame()
                assert frame is not None
                answered, reply = wire.decode_reply(*frame[:2])
                assert answered == request_id
                assert isinstance(reply, Records)


def group_connection_queue(cluster: LocalCluster) -> Callable[[], int]:
    """The largest outbound queue of any connection of node 1, in bytes."""
    guests = cluster.nodes[1].group._member.doorkeeper.listener._guests
    return lambda: max(connection.outbound_bytes for connection in guests)


async def test_many_linearizable_reads_in_flight_are_all_answered(tmp_path: Path) -> None:
    async with local_cluster(tmp_path) as cluster:
        leader = await cluster.leader()
        node_id = next(number for number, node in cluster.nodes.items() if node.group is leader)
        async with raw_client(cluster, node=node_id) as client:
            await client.frame()
            requests = [wire.encode_bare(wire.TAIL, 7)] * 100 + [wire.encode_read(8, 0, 100)] * 100
            await client.send(b"".join(requests))
            answered = [await client.frame() for _ in requests]
            ids = [wire.decode_reply(*frame[:2])[0] for frame in answered if frame is not None]
            assert sorted(ids) == [7] * 100 + [8] * 100


async def test_a_request_to_a_follower_is_answered_by_the_name_of_the_leader(tmp_path: Path) -> None:
    async with local_cluster(tmp_path) as cluster:
        leader = await cluster.leader()
        node_id = next(number for number, node in cluster.nodes.items() if node.group is not leader)
        await until(lambda: cluster.nodes[node_id].group.status()["leader"])
        async with raw_client(cluster, node=node_id) as client:
            await client.frame()
            await client.send(wire.encode_append(3, RECORD) + wire.encode_bare(wire.TAIL, 4))
            answers = [wire.decode_reply(*(await client.frame() or (0, b""))[:2]) for _ in range(2)]
            assert {request_id for request_id, _ in answers} == {3, 4}
            for _, error in answers:
                assert isinstance(error, NotLeader)
                assert error.leader == leader.status()["node"]


async def test_a_client_that_leaves_with_requests_in_flight_harms_nobody(tmp_path: Path) -> None:
    async with one_node(tmp_path) as cluster:
        for _ in range(20):
            async with raw_client(cluster) as client:
                await client.send(wire.encode_append(1, RECORD) * 10 + wire.encode_bare(wire.TAIL, 2))
        async with raw_client(cluster) as client:
            await client.send(wire.encode_append(1, RECORD))
            assert [(await client.frame() or (0,))[0] for _ in range(2)] == [wire.HELLO_REPLY, wire.APPENDED]


async def test_a_connection_that_is_over_leaves_nothing_to_the_garbage_collector(tmp_path: Path) -> None:
    async with one_node(tmp_path) as cluster:
        gc.collect()
        gc.disable()
        try:
            for ending in (b"", b"\xff" * 12, wire.encode_append(1, b"\x93")):
                async with raw_client(cluster) as client:
                    await client.send(wire.encode_append(1, RECORD) + wire.encode_bare(wire.TAIL, 2))
                    for _ in range(3):
                        await client.frame()
                    await client.send(ending)
            await until(
                lambda: not [each for each in gc.get_objects() if isinstance(each, ClientSession | SocketConnection)]
            )
        finally:
            gc.enable()


async def test_a_peer_that_sends_nonsense_loses_its_connection_and_the_group_goes_on(tmp_path: Path) -> None:
    async with local_cluster(tmp_path) as cluster:
        leader = await cluster.leader()
        hello = wire.encode_hello(wire.Hello(CLUSTER_ID, wire.PEER, 2))
        async with raw_client(cluster, hello + encode_frame(68, b"\x97")) as impostor:
            assert [message_type for message_type, _, _ in await impostor.last_words()] == [
                wire.HELLO_REPLY,
                wire.ERROR,
            ]
        (closed,) = cluster.notices("connection_closed")
        assert closed["role"] == "peer 2"
        assert (await (await cluster.leader()).append([b"x"])).base_offset == 0
        assert leader is not None


FAR = LogStart(Position(LogIndex(1_000_000), Term(1)), Offset(1_000_000), Position(LogIndex(1_000_000), Term(1)))
FORGED = [
    pytest.param(
        VoteReply(Term(2**62), granted=True), "no correct node can have reached term", id="a term of no election"
    ),
    pytest.param(InstallSnapshot(Term(2**20), FAR, 0), "nothing leaves a log", id="a snapshot where there are none"),
]


@pytest.mark.parametrize(("message", "reason"), FORGED)
async def test_what_no_correct_peer_sends_costs_its_link_and_neither_records_nor_a_term(
    tmp_path: Path, message: Message, reason: str
) -> None:
    async with local_cluster(tmp_path) as cluster:
        leader = await cluster.leader()
        await leader.append([b"kept"])
        forged = b"".join(bytes(piece) for piece in encode_message(message))
        for node in (1, 2, 3):
            hello = wire.encode_hello(wire.Hello(CLUSTER_ID, wire.PEER, node % 3 + 1))
            async with raw_client(cluster, hello + forged, node) as impostor:
                *_, (message_type, body, _) = await impostor.last_words()
                assert message_type == wire.ERROR
                assert reason in str(wire.decode_error(body)[1])
        closed = cluster.notices("connection_closed")
        assert [reason in each["reason"] for each in closed] == [True] * 3
        leader = await cluster.leader()
        assert (await leader.append([b"after"])).base_offset == 1
        assert [batch.records() for batch in (await leader.read(0)).batches] == [[b"kept"], [b"after"]]
        for running in cluster.nodes.values():
            status = running.group.status()
            assert (status["start_offset"], int(str(status["end_offset"])) > 0) == (0, True)
            assert int(str(status["term"])) < 1000


async def test_memory_for_what_is_only_announced_is_given_to_peers_alone(tmp_path: Path) -> None:
    async with local_cluster(tmp_path, 2) as cluster:
        await cluster.leader()
        async with raw_client(cluster) as client:
            assert await client.frame()
            guests = cluster.nodes[1].group._member.doorkeeper.listener._guests
            decoders = {type(guest.session): guest.decoder for guest in guests}
            given = {kind: isinstance(one, FrameDecoder) and one.trusted for kind, one in decoders.items()}
            assert given == {ClientSession: False, PeerSession: True}
