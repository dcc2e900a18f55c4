"""Clusters of the raft system, as the tests of the harness break them."""

from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager
from pathlib import Path

from jepsen_like.cluster.cluster import Cluster, open_cluster
from jepsen_like.cluster.machine import Need
from jepsen_like.port.port import ProcessPlan
from jepsen_like.port.wires import Network
from jepsen_like.systems.raft.mode import RaftMode
from jepsen_like.systems.raft.system import RaftSystem


class CommandedSystem(RaftSystem):
    """Raft, but for the program that its nodes run."""

    def __init__(self, command: Callable[[ProcessPlan], list[str]]) -> None:
        self._command = command

    def command(self, plan: ProcessPlan) -> list[str]:
        return self._command(plan)


def open_raft_cluster(
    directory: Path,
    *,
    nodes: int,
    settings: Sequence[str] = (),
    command: Callable[[ProcessPlan], list[str]] | None = None,
    needs: frozenset[Need] = frozenset(),
    network: Network = Network.PROXIES,
    seed: int = 0,
    tls: bool = False,
) -> AbstractAsyncContextManager[Cluster]:
    system = RaftSystem() if command is None else CommandedSystem(command)
    mode = RaftMode.of(settings)
    return open_cluster(
        directory, system, mode, nodes=nodes, cluster_id="test", needs=needs, network=network, seed=seed, tls=tls
    )


async def settle_cluster(cluster: Cluster) -> int:
    """Waits until all nodes have the one log, and returns its end."""
    ends = await cluster.control.settle(within_s=60)
    return ends[0]
