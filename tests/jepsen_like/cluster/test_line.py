"""A line takes so many bytes and requests a second, and finds requests in any cut of a stream."""

import random

import pytest
import trio

from jepsen_like.cluster.line import PREFIX, FrameCount, Line
from jepsen_like.cluster.switch import Switch
from jepsen_like.port.wires import CLIENTS, Route
from tests.jepsen_like.cluster.test_fault_proxy import receive, two_nodes


def frame(size: int) -> bytes:
    """A request of so many bytes after its length."""
    return PREFIX.pack(size) + bytes(size)


def test_frames_are_counted_where_they_end_however_the_stream_is_cut() -> None:
    rng = random.Random(1)
    for _ in range(200):
        sizes = [rng.randrange(1, 40) for _ in range(rng.randrange(1, 8))]
        stream = b"".join(map(frame, sizes))
        cuts = sorted(rng.randrange(len(stream) + 1) for _ in range(rng.randrange(6)))
        count, begin, ended = FrameCount(), 0, 0
        for end in [*cuts, len(stream)]:
            ended += count.take(stream[begin:end])
            begin = end
            whole = sum(1 for number in range(len(sizes)) if sum(size + 4 for size in sizes[: number + 1]) <= end)
            assert ended == whole


def test_a_line_takes_requests_one_after_the_other() -> None:
    line = Line(requests_per_s=10.0)
    assert line.due(1.0, 500, 2) == 1.2
    assert line.due(1.0, 500, 1) == pytest.approx(1.3)
    assert line.due(1.0, 500) == pytest.approx(1.3)
    assert line.due(5.0, 500) == 5.0


def test_the_narrower_of_bytes_and_requests_counts() -> None:
    assert Line(requests_per_s=10.0, bytes_per_s=100.0).due(0.0, 50, 1) == 0.5
    assert Line(requests_per_s=10.0, bytes_per_s=1000.0).due(0.0, 50, 1) == 0.1


async def test_all_connections_of_clients_share_the_capacity_of_a_broker() -> None:
    async with two_nodes() as net:
        net.network.lay([Route(ways=((CLIENTS, 1),), requests_per_s=20.0)])
        clients = [await net.dial(net.network.clients[1]) for _ in range(2)]
        servers = [await net.accept(1) for _ in clients]
        began = trio.current_time()
        for client in clients:
            await client.send_all(frame(10) + frame(10))
        for server in servers:
            got = b""
            while len(got) < 28:
                got += await receive(server)
        assert trio.current_time() - began >= 0.19
        began, got = trio.current_time(), b""
        await servers[0].send_all(100 * frame(10))
        while len(got) < 1400:
            got += await receive(clients[0])
        assert trio.current_time() - began < 2.5, "answers are counted, which would take five seconds"


def test_a_network_of_packets_refuses_to_count_requests() -> None:
    with pytest.raises(ValueError, match="counts no requests"):
        Switch(1).lay([Route(ways=((CLIENTS, 1),), requests_per_s=20.0)])
