"""Clusters that a test can break, for plain Python: those of `cluster`, by the same names, in blocking calls."""

from typing import TypeVar

from jepsen_like.testing import cluster
from jepsen_like.testing.breakable import BreakableCluster
from jepsen_like.testing.faces import FaultyFace
from raft import client
from raft.client import client_is_closed
from raft.errors import ShuttingDown
from raft.loop_thread import Opener, in_loop, opening
from raft.sync import Client, Face, blocking
from raft.trust import Secret

ClusterT_co = TypeVar("ClusterT_co", bound=BreakableCluster, covariant=True)


class _ClusterClient(Client):
    """A client that its cluster made."""

    def __init__(self, opener: Opener[client.Client]) -> None:
        Face.__init__(self, opener, client_is_closed)


class _ClusterFace(FaultyFace[ClusterT_co]):
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
    def addresses(self) -> list[str]:
        """The addresses at which clients reach the nodes: "host:port", behind the faults."""
        return self._loop.living.addresses

    def client(self, *, deadline_s: float = 10.0, connect_timeout_s: float = 1.0) -> Client:
        """Returns a client of this cluster; `check` looks for everything that is acknowledged to it."""
        living = self._loop.living
        return _ClusterClient(lambda: living.client(deadline_s=deadline_s, connect_timeout_s=connect_timeout_s))

    status = blocking(BreakableCluster.status)
    leader = blocking(BreakableCluster.leader)
    wait_for_leader = blocking(BreakableCluster.wait_for_leader)
    fetch_committed = blocking(BreakableCluster.fetch_committed)
    check = blocking(BreakableCluster.check)


class LocalCluster(_ClusterFace[cluster.LocalCluster]):
    """See `cluster.LocalCluster`; use as `with`."""

    @staticmethod
    @opening(cluster.LocalCluster.open)
    def open(opener: Opener[cluster.LocalCluster]) -> "LocalCluster":
        """See `cluster.LocalCluster.open`."""
        return LocalCluster(opener, ShuttingDown)

    crash = blocking(cluster.LocalCluster.crash)
    disk = blocking(in_loop(cluster.LocalCluster.disk))


class ProcessCluster(_ClusterFace[cluster.ProcessCluster]):
    """See `cluster.ProcessCluster`; use as `with`."""

    @staticmethod
    @opening(cluster.ProcessCluster.open)
    def open(opener: Opener[cluster.ProcessCluster]) -> "ProcessCluster":
        """See `cluster.ProcessCluster.open`."""
        return ProcessCluster(opener, ShuttingDown)
