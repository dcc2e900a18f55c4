"""Clusters that a test can break, for asyncio: those of `cluster`, by the same names."""

from typing import TypeVar

from jepsen_like.port.port import TlsPaths
from jepsen_like.testing import cluster
from jepsen_like.testing.breakable import BreakableCluster
from jepsen_like.testing.faulty import NodeEvent
from raft import client
from raft.aio import Client, Face, awaiting
from raft.client import client_is_closed
from raft.errors import ShuttingDown
from raft.loop_thread import Opener, in_loop, opening
from raft.trust import Secret

__all__ = ["LocalCluster", "ProcessCluster"]

ClusterT_co = TypeVar("ClusterT_co", bound=BreakableCluster, covariant=True)


class _ClusterClient(Client):
    """A client that its cluster made."""

    def __init__(self, opener: Opener[client.Client]) -> None:
        Face.__init__(self, opener, client_is_closed)


class _ClusterFace(Face[ClusterT_co]):
    """The common part of both kinds: see `breakable.BreakableCluster`."""

    @property
    def cluster_id(self) -> str:
        """The id that clients must name."""
        return self._loop.living.cluster_id

    @property
    def secret(self) -> Secret | None:
        """The secret that clients must know."""
        return self._loop.living.secret

    @property
    def nodes(self) -> tuple[int, ...]:
        """The ids of the nodes, 1 to n."""
        return self._loop.living.nodes

    @property
    def addresses(self) -> list[str]:
        """The addresses at which clients reach the nodes: "host:port", behind the faults."""
        return self._loop.living.addresses

    @property
    def tls(self) -> TlsPaths | None:
        """The files with which clients connect, if the cluster speaks TLS."""
        return self._loop.living.tls

    def client(self, *, deadline_s: float = 10.0, connect_timeout_s: float = 1.0) -> Client:
        """Returns a client of this cluster; `check` looks for everything that is acknowledged to it."""
        living = self._loop.living
        return _ClusterClient(lambda: living.client(deadline_s=deadline_s, connect_timeout_s=connect_timeout_s))

    def events(self) -> list[NodeEvent]:
        """Everything so far, oldest first."""
        return self._loop.living.events()

    def story(self, last: int = 40) -> str:
        """The last events, a line each."""
        return self._loop.living.story(last)

    status = awaiting(BreakableCluster.status)
    leader = awaiting(BreakableCluster.leader)
    wait_for_leader = awaiting(BreakableCluster.wait_for_leader)
    fetch_committed = awaiting(BreakableCluster.fetch_committed)
    start = awaiting(BreakableCluster.start)
    stop = awaiting(BreakableCluster.stop)
    kill = awaiting(BreakableCluster.kill)
    pause = awaiting(BreakableCluster.pause)
    resume = awaiting(BreakableCluster.resume)
    cut = awaiting(BreakableCluster.cut)
    cut_one_way = awaiting(BreakableCluster.cut_one_way)
    cut_clients = awaiting(BreakableCluster.cut_clients)
    isolate = awaiting(BreakableCluster.isolate)
    partition = awaiting(BreakableCluster.partition)
    heal = awaiting(BreakableCluster.heal)
    check = awaiting(BreakableCluster.check)


class LocalCluster(_ClusterFace[cluster.LocalCluster]):
    """See `cluster.LocalCluster`; use as `async with`."""

    @staticmethod
    @opening(cluster.LocalCluster.open)
    def open(opener: Opener[cluster.LocalCluster]) -> "LocalCluster":
        """See `cluster.LocalCluster.open`."""
        return LocalCluster(opener, ShuttingDown)

    crash = awaiting(cluster.LocalCluster.crash)
    disk = awaiting(in_loop(cluster.LocalCluster.disk))


class ProcessCluster(_ClusterFace[cluster.ProcessCluster]):
    """See `cluster.ProcessCluster`; use as `async with`."""

    @staticmethod
    @opening(cluster.ProcessCluster.open)
    def open(opener: Opener[cluster.ProcessCluster]) -> "ProcessCluster":
        """See `cluster.ProcessCluster.open`."""
        return ProcessCluster(opener, ShuttingDown)
