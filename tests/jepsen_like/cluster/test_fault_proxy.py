"""The proxy keeps its promises about bytes and about the end of a connection."""

import random
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import attrs
import pytest
import trio

from jepsen_like.cluster.fault_network import FaultNetwork, beside
from jepsen_like.cluster.fault_proxy import DELAYED_BYTES_MAX, HELD_BYTES_MIN, Link, Way
from jepsen_like.cluster.line import Line
from jepsen_like.cluster.ports import ReservedPorts
from jepsen_like.port.wires import CLEAR, CLIENTS, CUT, Condition, Evidence, Pair, Route

SOON_S = 30.0
QUIET_S = 0.15
"""A link that is silent for so long counts as a black hole; an open link answers in under a millisecond."""


BOTH: list[Pair] = [(1, 2), (2, 1)]


@attrs.define
class Server:
    """A node as far as the network knows: accepts, and keeps what it accepted."""

    listener: trio.SocketListener
    address: tuple[str, int]


@attrs.define
class Net:
    """Two nodes and the network between them."""

    network: FaultNetwork
    servers: dict[int, Server]
    streams: list[trio.SocketStream] = attrs.Factory(list)

    def link(self, dialer: int, node: int) -> Link:
        return self.network.between[dialer, node]

    async def dial(self, link: Link) -> trio.SocketStream:
        self.streams.append(await trio.open_tcp_stream("127.0.0.1", link.port))
        return self.streams[-1]

    async def accept(self, node: int) -> trio.SocketStream:
        with trio.fail_after(SOON_S):
            self.streams.append(await self.servers[node].listener.accept())
        return self.streams[-1]

    async def connect(self, dialer: int, node: int) -> tuple[trio.SocketStream, trio.SocketStream]:
        near = await self.dial(self.link(dialer, node))
        return near, await self.accept(node)


@asynccontextmanager
async def two_nodes(further_port: str = "") -> AsyncIterator[Net]:
    servers = {}
    for node in (1, 2):
        (listener,) = await trio.open_tcp_listeners(0, host="127.0.0.1")
        servers[node] = Server(listener, listener.socket.getsockname())
    addresses = {node: server.address for node, server in servers.items()}
    further = {further_port: addresses} if further_port else {}
    net = Net(FaultNetwork(addresses, further=further), servers)
    try:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(net.network.serve)
            yield net
            nursery.cancel_scope.cancel()
    finally:
        for stream in net.streams:
            stream.socket.close()
        for server in servers.values():
            server.listener.socket.close()


def evidence(net: Net) -> dict[str, Evidence]:
    return {each.way: each for each in net.network.evidence()}


async def receive(stream: trio.SocketStream) -> bytes:
    with trio.fail_after(SOON_S):
        return await stream.receive_some()


async def receive_exactly(stream: trio.SocketStream, size: int) -> bytes:
    received = bytearray()
    while len(received) < size:
        chunk = await receive(stream)
        assert chunk, "the stream ended early"
        received += chunk
    return bytes(received)


async def hears_nothing(stream: trio.SocketStream) -> bool:
    with trio.move_on_after(QUIET_S):
        await stream.receive_some()
        return False
    return True


async def until(condition: Callable[[], bool]) -> None:
    with trio.fail_after(SOON_S):
        while not condition():  # noqa: ASYNC110  what is waited for is the kernel's doing
            await trio.sleep(0.001)


def reset(stream: trio.SocketStream) -> None:
    stream.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\0\0\0\0\0\0\0")
    stream.socket.close()


async def test_each_pair_can_have_a_host_of_its_own_at_the_port_of_the_node() -> None:
    with ReservedPorts(2) as reserved:
        addresses = dict(zip((1, 2), (("127.0.0.1", port) for port in reserved.ports), strict=True))
        network = FaultNetwork(addresses, place=beside)
        assert network.between[1, 2].address == ("127.77.1.2", reserved.ports[1])
        assert network.between[2, 1].address == ("127.77.2.1", reserved.ports[0])
        assert network.clients[2].address[0] == "127.0.0.1"
        for link in network.links:
            link.close()


async def test_bytes_pass_both_ways_unchanged() -> None:
    async with two_nodes() as net:
        near, far = await net.connect(1, 2)
        payload = bytes(range(256)) * 20_000
        async with trio.open_nursery() as nursery:
            nursery.start_soon(near.send_all, payload)
            nursery.start_soon(far.send_all, payload[::-1])
            assert await receive_exactly(far, len(payload)) == payload
            assert await receive_exactly(near, len(payload)) == payload[::-1]
        assert net.link(1, 2).forward.passed_bytes == len(payload)


async def test_a_slow_receiver_holds_the_sender_back_and_loses_nothing() -> None:
    async with two_nodes() as net:
        near, far = await net.connect(1, 2)
        payload = b"abcdefgh" * 4_000_000
        with trio.move_on_after(0.5) as stuck:
            await near.send_all(payload)
        assert stuck.cancelled_caught, "32 MB vanished into a proxy that no client reads from"
        near.socket.shutdown(socket.SHUT_WR)
        received = bytearray()
        while chunk := await receive(far):
            received += chunk
        assert received == payload[: len(received)]
        assert len(received) > 64 * 1024


async def test_a_cut_passes_nothing_and_ends_nothing_and_heals_late() -> None:
    async with two_nodes() as net:
        near, far = await net.connect(1, 2)
        net.network.impose(CUT, BOTH)
        await near.send_all(b"late")
        await far.send_all(b"answer")
        assert await hears_nothing(far)
        assert await hears_nothing(near)
        found = evidence(net)
        assert set(found) == {"1>2", "2>1"}
        assert found["1>2"].details["bytes waiting"] == len(b"late")
        assert found["2>1"].details["bytes waiting"] == len(b"answer")
        assert str(found["1>2"]).startswith("cut 1>2: 0 bytes passed")
        net.network.heal()
        assert await receive(far) == b"late"
        assert await receive(near) == b"answer"
        assert net.network.evidence() == []


async def test_a_one_way_cut_stops_one_sender_on_both_links() -> None:
    async with two_nodes() as net:
        dialed_by_1 = await net.connect(1, 2)
        dialed_by_2 = await net.connect(2, 1)
        net.network.impose(CUT, [(1, 2)])
        await dialed_by_1[0].send_all(b"from 1")
        await dialed_by_2[1].send_all(b"from 1")
        assert await hears_nothing(dialed_by_1[1])
        assert await hears_nothing(dialed_by_2[0])
        await dialed_by_1[1].send_all(b"from 2")
        await dialed_by_2[0].send_all(b"from 2")
        assert await receive(dialed_by_1[0]) == b"from 2"
        assert await receive(dialed_by_2[1]) == b"from 2"


async def test_a_new_connection_hangs_in_a_cut_and_comes_through_after_it() -> None:
    async with two_nodes() as net:
        net.network.impose(CUT, [(2, 1)])
        near = await net.dial(net.link(1, 2))
        await near.send_all(b"hello")
        with trio.move_on_after(QUIET_S):
            await net.servers[2].listener.accept()
            pytest.fail("a connection came through a cut")
        net.network.heal()
        far = await net.accept(2)
        assert await receive(far) == b"hello"


async def test_the_end_of_a_stream_passes_at_once_and_the_other_way_stays_open() -> None:
    async with two_nodes() as net:
        near, far = await net.connect(1, 2)
        await far.send_eof()
        assert await receive(near) == b""
        await near.send_all(b"still open")
        assert await receive(far) == b"still open"
        await near.aclose()
        assert await receive(far) == b""
        await until(lambda: not net.link(1, 2).connections)


@pytest.mark.parametrize("side", ["dialer", "destination"])
async def test_a_reset_passes_as_a_reset(side: str) -> None:
    async with two_nodes() as net:
        near, far = await net.connect(1, 2)
        dying, living = (near, far) if side == "dialer" else (far, near)
        reset(dying)
        with pytest.raises(trio.BrokenResourceError):
            await receive(living)
        assert net.link(1, 2).connections == 0


async def test_a_killed_process_with_unread_bytes_resets_through_the_proxy() -> None:
    async with two_nodes() as net:
        near, far = await net.connect(1, 2)
        await near.send_all(b"never read")
        await until(lambda: net.link(1, 2).forward.passed_bytes > 0)
        far.socket.close()
        with pytest.raises(trio.BrokenResourceError):
            await receive(near)


async def test_not_even_the_end_of_a_connection_passes_a_cut() -> None:
    async with two_nodes() as net:
        near, far = await net.connect(1, 2)
        net.network.impose(CUT, [(2, 1)])
        reset(far)
        assert await hears_nothing(near)
        await near.send_all(b"into the void")
        assert await hears_nothing(near)
        net.network.heal()
        with pytest.raises(trio.BrokenResourceError):
            await receive(near)


async def test_a_destination_that_refuses_resets_its_dialer() -> None:
    async with two_nodes() as net:
        await net.servers[2].listener.aclose()
        near = await net.dial(net.link(1, 2))
        with pytest.raises(trio.BrokenResourceError):
            await receive(near)


async def test_reset_ends_the_open_connections_and_welcomes_new_ones() -> None:
    async with two_nodes() as net:
        near, far = await net.connect(1, 2)
        assert net.link(1, 2).reset() == 1
        for stream in (near, far):
            with pytest.raises(trio.BrokenResourceError):
                await receive(stream)
        near, far = await net.connect(1, 2)
        await near.send_all(b"again")
        assert await receive(far) == b"again"


async def test_a_delay_keeps_order_and_no_chunk_comes_early() -> None:
    async with two_nodes() as net:
        near, far = await net.connect(1, 2)
        net.network.impose(Condition(delay_s=0.1), BOTH)
        began = trio.current_time()
        await near.send_all(b"one")
        assert await receive(far) == b"one"
        assert trio.current_time() - began >= 0.1
        await near.send_all(b"two")
        await near.send_eof()
        net.network.heal()
        await far.send_all(b"back")
        assert await receive_exactly(far, 3) == b"two"
        assert await receive(far) == b""
        assert await receive(near) == b"back"


async def test_a_line_delays_both_links_that_a_way_leads_over_and_stays_when_healed() -> None:
    async with two_nodes() as net:
        near, far = await net.connect(1, 2)
        other_near, other_far = await net.connect(2, 1)
        client = await net.dial(net.network.clients[1])
        server = await net.accept(1)
        net.network.lay([Route(ways=((1, 2), (CLIENTS, 1)), delay_s=0.1)])
        net.network.impose(Condition(delay_s=600), BOTH)
        net.network.heal()
        for sender, receiver, is_late in (
            (near, far, True),
            (far, near, False),
            (other_far, other_near, True),
            (client, server, True),
            (server, client, False),
        ):
            began = trio.current_time()
            await sender.send_all(b"x")
            assert await receive(receiver) == b"x"
            assert not is_late or trio.current_time() - began >= 0.1
        assert [net.link(1, 2).forward.is_late, net.link(1, 2).backward.is_late] == [True, False]


def test_ways_over_a_line_share_its_bandwidth_behind_what_is_imposed_on_them() -> None:
    line = Line(delay_s=0.5, bytes_per_s=100.0)
    one, other = Way(random.Random(1)), Way(random.Random(1))
    for way in (one, other):
        way.lay(line)
    assert one.due(0.0, 100) == 1.5
    assert other.due(0.0, 100) == 2.5
    other.impose(Condition(delay_s=1.0))
    assert other.due(0.0, 100) == 4.5


async def test_the_way_of_the_clients_is_cut_apart_from_the_nodes() -> None:
    async with two_nodes() as net:
        client = await net.dial(net.network.clients[1])
        server = await net.accept(1)
        near, far = await net.connect(2, 1)
        net.network.impose(CUT, [], clients=[1])
        await client.send_all(b"request")
        await near.send_all(b"peer")
        assert await receive(far) == b"peer"
        assert await hears_nothing(server)
        assert [each.way for each in net.network.evidence()] == ["client>1"]


async def send(stream: trio.SocketStream, payload: bytes) -> None:
    await stream.send_all(payload)
    await stream.send_eof()


async def test_jitter_keeps_the_order_of_a_stream() -> None:
    async with two_nodes() as net:
        near, far = await net.connect(1, 2)
        net.network.impose(Condition(delay_s=0.001, jitter_s=0.01), [(1, 2)])
        payload = b"".join(number.to_bytes(4, "big") for number in range(200_000))
        async with trio.open_nursery() as nursery:
            nursery.start_soon(send, near, payload)
            assert await receive_exactly(far, len(payload)) == payload
            assert await receive(far) == b""
        shown = evidence(net)["1>2"]
        assert shown.details["bytes delayed"] == shown.passed_bytes == len(payload)
        assert "slow by 1 to 11 ms" in str(shown)


async def test_what_was_late_leaves_at_once_when_the_way_is_clear() -> None:
    async with two_nodes() as net:
        near, far = await net.connect(1, 2)
        net.network.impose(Condition(delay_s=600), [(1, 2)])
        await send(near, b"an age away")
        await until(lambda: bool(evidence(net)["1>2"].details["bytes held at most"]))
        net.network.heal()
        assert await receive(far) == b"an age away"
        assert await receive(far) == b""


async def test_a_slow_way_holds_the_sender_back_before_it_holds_too_much() -> None:
    async with two_nodes() as net:
        near, _ = await net.connect(1, 2)
        net.network.impose(Condition(delay_s=600), [(1, 2)])
        async with trio.open_nursery() as nursery:
            nursery.start_soon(near.send_all, bytes(32 * 1024 * 1024))
            await until(lambda: evidence(net)["1>2"].details["bytes held at most"] >= DELAYED_BYTES_MAX)
            await trio.sleep(QUIET_S)
            assert evidence(net)["1>2"].details["bytes held at most"] < 2 * DELAYED_BYTES_MAX
            nursery.cancel_scope.cancel()


async def test_a_throttled_way_passes_no_more_than_it_may_and_loses_nothing() -> None:
    rate = 256 * 1024
    async with two_nodes() as net:
        near, far = await net.connect(1, 2)
        net.network.impose(Condition(bytes_per_s=rate), BOTH)
        payload = bytes(range(256)) * 512
        began = trio.current_time()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(send, near, payload)
            assert await receive_exactly(far, len(payload)) == payload
            took_s = trio.current_time() - began
        assert took_s >= len(payload) / rate
        shown = evidence(net)["1>2"]
        assert shown.details["bytes held at most"] <= HELD_BYTES_MIN + 0.13 * rate
        await far.send_all(b"the other way is throttled apart")
        assert await receive(near) == b"the other way is throttled apart"


async def test_many_connections_share_a_throttled_way() -> None:
    rate = 512 * 1024
    async with two_nodes() as net:
        pairs = [await net.connect(1, 2) for _ in range(4)]
        net.network.impose(Condition(bytes_per_s=rate), [(1, 2)])
        payload = bytes(64 * 1024)
        began = trio.current_time()
        async with trio.open_nursery() as nursery:
            for near, far in pairs:
                nursery.start_soon(send, near, payload)
                nursery.start_soon(receive_exactly, far, len(payload))
        assert trio.current_time() - began >= len(pairs) * len(payload) / rate


async def test_a_half_open_way_takes_everything_and_says_nothing_until_it_is_clear() -> None:
    async with two_nodes() as net:
        near, far = await net.connect(1, 2)
        quiet = await net.connect(1, 2)
        net.network.impose(Condition(is_swallowing=True), BOTH)
        payload = bytes(16 * 1024 * 1024)
        with trio.fail_after(SOON_S):
            await near.send_all(payload)
        reset(far)
        assert await hears_nothing(near)
        await until(lambda: evidence(net)["1>2"].details["bytes swallowed"] == len(payload))
        assert evidence(net)["1>2"].passed_bytes == 0
        net.network.heal()
        with pytest.raises(trio.BrokenResourceError):
            await receive(near)
        # A connection that lost no byte lives on.
        await quiet[0].send_all(b"whole")
        assert await receive(quiet[1]) == b"whole"


@pytest.mark.parametrize("refuses", [False, True])
async def test_new_connections_to_a_half_open_node_hang_or_are_refused(refuses: bool) -> None:
    async with two_nodes() as net:
        net.network.impose(Condition(is_swallowing=True, refuses=refuses), BOTH)
        if refuses:
            with pytest.raises((trio.BrokenResourceError, OSError)):  # at the dial already, or just after it
                await receive(await net.dial(net.link(1, 2)))
            assert evidence(net)["1>2"].details["connections refused"] == 1
            return
        near = await net.dial(net.link(1, 2))
        await near.send_all(b"hello")
        assert await hears_nothing(near)
        net.network.heal()
        far = await net.accept(2)
        assert await receive(far) == b"hello"


async def test_resets_are_counted_for_each_way() -> None:
    async with two_nodes() as net:
        streams = [*await net.connect(1, 2), *await net.connect(2, 1)]
        assert net.network.reset(BOTH) == 2
        for stream in streams:
            with pytest.raises(trio.BrokenResourceError):
                await receive(stream)
        assert str(evidence(net)["1>2"]).startswith("reset 1>2: 0 bytes passed")
        assert evidence(net)["1>2"].resets == 2


async def test_flaps_are_counted_and_the_last_cut_is_remembered() -> None:
    async with two_nodes() as net:
        for _ in range(3):
            net.network.impose(CUT, BOTH)
            net.network.impose(CLEAR, BOTH)
        shown = evidence(net)["2>1"]
        assert (shown.condition, shown.changes) == (CUT, 6)
        assert "broken 3 times" in str(shown)


async def test_a_network_of_streams_refuses_what_is_about_packets() -> None:
    async with two_nodes() as net:
        with pytest.raises(ValueError, match="loses 5%"):
            net.network.impose(Condition(loss=0.05), BOTH)


@pytest.mark.parametrize("lost", ["bytes", "the end"])
async def test_no_living_connection_misses_anything_after_a_half_open_way(lost: str) -> None:
    async with two_nodes() as net:
        near, far = await net.connect(1, 2)
        net.network.impose(Condition(is_swallowing=True), [(1, 2)])
        await (near.send_all(b"lost") if lost == "bytes" else near.send_eof())
        assert await hears_nothing(far)
        net.network.heal()
        with pytest.raises(trio.BrokenResourceError):
            await receive(far)


async def test_a_cut_between_two_nodes_cuts_their_further_ports_too() -> None:
    async with two_nodes(further_port="raft") as net:
        near = await net.dial(net.network.further["raft"][1, 2])
        far = await net.accept(2)
        net.network.impose(CUT, BOTH)
        await near.send_all(b"there")
        await far.send_all(b"back")
        assert await hears_nothing(far)
        assert await hears_nothing(near)
        net.network.heal()
        assert await receive(far) == b"there"
        assert await receive(near) == b"back"
