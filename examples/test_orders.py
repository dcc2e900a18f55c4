"""A test that breaks the cluster under its program: with pytest and quorumlog installed, `pytest test_orders.py` on a copy.

The fixtures come with quorumlog. After each test the cluster is healed and held to what it acknowledged.
"""

import pytest

from jepsen_like import LocalCluster, ProcessCluster
from raft import OutcomeUnknown
from raft.sync import Client


def place(log: Client, order: bytes) -> None:
    """The program under test: an order is placed again until it certainly stands in the log."""
    while True:
        try:
            log.append([order])
            return
        except OutcomeUnknown:
            pass  # it may come to stand there twice: see `orders`


def orders(log: Client) -> list[bytes]:
    """All orders, each once, as they were first placed."""
    records: list[bytes] = []
    end = log.tail().committed_end
    while len(records) < end:
        for batch in log.read(len(records)).batches:
            records += batch.records()
    return list(dict.fromkeys(records))


def test_an_order_survives_the_leader(raft_cluster: LocalCluster) -> None:
    with raft_cluster.client() as log:
        place(log, b"tea")
        raft_cluster.kill(raft_cluster.wait_for_leader())
        place(log, b"milk")
        assert orders(log) == [b"tea", b"milk"]


def test_an_order_survives_a_power_cut_of_everything(raft_cluster: LocalCluster) -> None:
    with raft_cluster.client() as log:
        place(log, b"tea")
    raft_cluster.crash(*raft_cluster.nodes)
    raft_cluster.start()
    with raft_cluster.client() as log:
        assert orders(log) == [b"tea"]


@pytest.mark.raft_cluster(nodes=5)
def test_orders_are_taken_while_two_of_five_are_cut_off(raft_cluster: LocalCluster) -> None:
    leader = raft_cluster.wait_for_leader()
    raft_cluster.isolate(leader, leader % 5 + 1)
    with Client(
        raft_cluster.addresses, raft_cluster.cluster_id, connect_timeout_s=0.1, secret=raft_cluster.secret
    ) as log:
        place(log, b"tea")


def test_orders_keep_their_place_though_their_leader_froze(raft_processes: ProcessCluster) -> None:
    with raft_processes.client(deadline_s=1.0) as log:
        place(log, b"tea")
        raft_processes.pause(raft_processes.wait_for_leader())
        place(log, b"milk")
        assert orders(log) == [b"tea", b"milk"]
