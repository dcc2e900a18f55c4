"""A network of our own carries TCP, fails as told, and leaves nothing behind."""

import os
import select
import socket
import subprocess
import sys
from pathlib import Path

import pytest
import trio

from jepsen_like.cluster import namespaces
from jepsen_like.cluster.location import Site
from jepsen_like.cluster.namespaces import ip_address, new_namespace, open_namespaces, socket_in
from jepsen_like.cluster.process import process_state
from jepsen_like.nemesis.nemesis import Nemesis
from jepsen_like.nemesis.schedule import Fault
from jepsen_like.nemesis.table import KINDS
from jepsen_like.nemesis.targets import Target
from jepsen_like.port.wires import CUT, Condition, Network
from jepsen_like.systems.secret_of import secret_in
from raft.client import Client
from tests.jepsen_like.raft_clusters import open_raft_cluster, settle_cluster

LACKING = namespaces.lacking()
pytestmark = [pytest.mark.cluster, pytest.mark.skipif(LACKING is not None, reason=f"a network of namespaces {LACKING}")]
SOON_S = 10.0
PAYLOAD = bytes(range(256)) * 4000


def own_network() -> str:
    return os.readlink("/proc/thread-self/ns/net")


def children_of_ours() -> set[str]:
    return set(Path(f"/proc/{os.getpid()}/task/{os.getpid()}/children").read_text().split())


async def carry_payload(site: Site, namespace_socket: socket.socket) -> int:
    """Sends PAYLOAD from the clients to a listener in node 1's namespace; returns the bytes that came unchanged and in order."""
    namespace_socket.bind(("0.0.0.0", 7000))
    namespace_socket.listen()
    received = bytearray()
    async with trio.open_nursery() as nursery:

        async def take() -> None:
            listener = trio.SocketListener(trio.socket.from_stdlib_socket(namespace_socket))
            async with await listener.accept() as stream:
                async for chunk in stream:
                    received.extend(chunk)

        nursery.start_soon(take)
        async with await trio.open_tcp_stream(*site.clients[1]) as stream:
            await stream.send_all(PAYLOAD)
    assert received == PAYLOAD
    return len(received)


@pytest.mark.parametrize(
    "condition",
    [
        Condition(),
        Condition(loss=0.05),
        Condition(duplicate=0.3),
        Condition(reorder=0.2, delay_s=0.002),
        Condition(delay_s=0.005, jitter_s=0.005),
        Condition(bytes_per_s=4e6),
    ],
    ids=str,
)
async def test_tcp_gets_through_whatever_packets_suffer(condition: Condition) -> None:
    async with open_namespaces([1], seed=1) as site:
        site.wires.impose(condition, [], [1])
        # Made in the node's namespace: only the way over the switch leads there.
        with socket_in(site_namespace(site)) as listening, trio.fail_after(30):
            assert await carry_payload(site, listening) == len(PAYLOAD)
        (shown,) = site.wires.evidence()
        assert shown.passed_bytes > 0
        assert shown.condition == condition


def site_namespace(site: Site) -> int:
    """The descriptor of node 1's namespace, as its process would enter it."""
    entrance = site.entrance(1)
    descriptor: int = entrance.args[0]  # type: ignore[attr-defined]
    return descriptor


async def test_a_cut_hangs_a_dial_and_lets_it_through_afterwards() -> None:
    async with open_namespaces([1], seed=1) as site:
        with socket_in(site_namespace(site)) as listening:
            listening.bind(("0.0.0.0", 7000))
            listening.listen()
            site.wires.impose(CUT, [], [1])
            with trio.move_on_after(0.2) as hung:
                await trio.open_tcp_stream(*site.clients[1])
            assert hung.cancelled_caught
            site.wires.heal()
            with trio.fail_after(SOON_S):
                await (await trio.open_tcp_stream(*site.clients[1])).aclose()


async def test_the_harness_stands_with_the_clients_and_comes_home() -> None:
    home, children = own_network(), children_of_ours()
    async with open_namespaces([1, 2], seed=1) as site:
        assert own_network() != home
        assert set(site.direct) == set(site.clients) == {1, 2}
        assert site.clients[2] == (ip_address(2), namespaces.PORT)
        (switch,) = children_of_ours() - children
    assert own_network() == home
    assert process_state(int(switch)) is None


ABANDONED = """
import sys, trio
from jepsen_like.cluster.namespaces import open_namespaces

async def main():
    async with open_namespaces([1, 2], seed=1):
        print("open", flush=True)
        await trio.sleep_forever()

trio.run(main)
"""


def test_a_harness_that_is_killed_leaves_no_switch_behind() -> None:
    with subprocess.Popen([sys.executable, "-c", ABANDONED], stdout=subprocess.PIPE) as harness:
        assert harness.stdout is not None
        assert harness.stdout.readline() == b"open\n"
        (switch,) = Path(f"/proc/{harness.pid}/task/{harness.pid}/children").read_text().split()
        watch = os.pidfd_open(int(switch))
        try:
            harness.kill()
            assert select.select([watch], [], [], SOON_S)[0], "the switch lives on"
        finally:
            os.close(watch)


def test_a_namespace_is_empty_and_is_not_ours() -> None:
    namespace = new_namespace()
    try:
        with socket_in(namespace) as stranger, pytest.raises(OSError, match="unreachable"):
            stranger.connect(("127.0.0.1", 1))
    finally:
        os.close(namespace)


async def test_a_cluster_in_namespaces_survives_what_happens_to_packets(tmp_path: Path) -> None:
    # A raft group has no in-sync replicas to shrink, and this one stands in no zones.
    of_links = [kind for kind in KINDS.values() if kind.lane.value == "network" and not kind.takes_zones]
    kinds = [kind.name for kind in of_links if kind.name != "shrink-isr"]
    faults = [Fault(number, kind, Target.LEADER, number / 1000, 0.7, number) for number, kind in enumerate(kinds)]
    async with open_raft_cluster(tmp_path / "nodes", nodes=3, network=Network.NAMESPACES, seed=3) as cluster:
        addresses = [f"{host}:{port}" for host, port in cluster.client_addresses.values()]
        async with Client(addresses, "test", secret=secret_in(cluster.access.secret)) as client:
            with trio.fail_after(SOON_S):
                await client.append([b"before"])
            nemesis = Nemesis(cluster, faults, tmp_path / "nemesis.jsonl")
            await nemesis.run()
            await nemesis.heal()
        assert [record.kind for record in nemesis.records] == kinds
        assert all(set(record.links) <= set(record.observed) for record in nemesis.records)
        for record in nemesis.records:
            assert [record.healed[way] for way in record.links] == [f"carried {way} and back" for way in record.links]
        assert await settle_cluster(cluster) == 1
        assert cluster.unasked_ends == []
