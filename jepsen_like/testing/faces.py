"""Every cluster of a test in plain Python: `faulty.FaultyCluster`, in blocking calls."""

from typing import TypeVar

from jepsen_like.port.port import TlsPaths
from jepsen_like.testing.faulty import FaultyCluster, NodeEvent
from raft.sync import Face, blocking

FaultyT_co = TypeVar("FaultyT_co", bound=FaultyCluster, covariant=True)


class FaultyFace(Face[FaultyT_co]):
    """See `faulty.FaultyCluster`."""

    @property
    def nodes(self) -> tuple[int, ...]:
        """The ids of the nodes, 1 to n."""
        return self._loop.living.nodes

    @property
    def tls(self) -> TlsPaths | None:
        """The files with which clients connect, if the cluster speaks TLS."""
        return self._loop.living.tls

    def zone(self, name: str) -> tuple[int, ...]:
        """Returns the nodes in a zone; see `faulty.FaultyCluster.zone`."""
        return self._loop.living.zone(name)

    def events(self) -> list[NodeEvent]:
        """Everything so far, oldest first."""
        return self._loop.living.events()

    def story(self, last: int = 40) -> str:
        """The last events, a line each."""
        return self._loop.living.story(last)

    start = blocking(FaultyCluster.start)
    stop = blocking(FaultyCluster.stop)
    kill = blocking(FaultyCluster.kill)
    pause = blocking(FaultyCluster.pause)
    resume = blocking(FaultyCluster.resume)
    cut = blocking(FaultyCluster.cut)
    cut_one_way = blocking(FaultyCluster.cut_one_way)
    cut_clients = blocking(FaultyCluster.cut_clients)
    isolate = blocking(FaultyCluster.isolate)
    partition = blocking(FaultyCluster.partition)
    heal = blocking(FaultyCluster.heal)
