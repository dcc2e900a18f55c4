"""Clusters whose servers are processes of their own, on the real disk: how these start, end and break."""

import shutil
import tempfile
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from jepsen_like.cluster.cluster import Cluster
from jepsen_like.port.file_damage import empty_disk
from jepsen_like.testing.faulty import FaultyCluster


class ServerProcesses(FaultyCluster):
    """The constructor of a subclass calls `_install`."""

    def _install(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self.tls = cluster.access.tls
        self.zones = cluster.zones

    def _can_answer(self, node: int) -> bool:
        return self._cluster.nodes[node].is_running and not self._cluster.nodes[node].is_paused

    async def start(self, *nodes: int) -> None:
        """See `FaultyCluster`. Raises `NodeDidNotStart`, in an exception group."""
        await self._do(self._cluster.start, nodes or self.nodes, "started", running=False)

    async def stop(self, *nodes: int) -> None:
        """See `FaultyCluster`."""
        await self._do(self._cluster.stop, nodes, "stopped", ends=True)

    async def kill(self, *nodes: int) -> None:
        """See `FaultyCluster`."""
        await self._do(self._cluster.kill, nodes, "killed", ends=True)

    async def pause(self, *nodes: int) -> None:
        """See `FaultyCluster`."""
        await self._do(self._cluster.pause, nodes, "paused")

    async def resume(self, *nodes: int) -> None:
        """See `FaultyCluster`."""
        self._require(*nodes)
        for node in nodes or self.nodes:
            if self._cluster.nodes[node].is_paused:
                self._cluster.nodes[node].resume()
                self.tell(node, "resumed")

    async def _do(
        self,
        do: Callable[[Iterable[int]], Awaitable[None]],
        nodes: Sequence[int],
        event: str,
        *,
        running: bool = True,
        ends: bool = False,
    ) -> None:
        self._require(*nodes)
        for node in nodes if ends else ():
            await self._note(node)
        hit = [node for node in nodes if self._cluster.nodes[node].is_running is running]
        await do(hit)
        for node in hit:
            self.tell(node, event)


class DataProcesses(ServerProcesses):
    """Servers that may lose what they have of the data."""

    async def wipe(self, *nodes: int) -> None:
        """Kill these servers and take away what they have of the data."""
        await self.kill(*nodes)
        for node in nodes:
            empty_disk(self._cluster.nodes[node].machine.data, self._cluster.system.kept_by_wipe)
            self.tell(node, "wiped")


@contextmanager
def home_of(directory: Path | None) -> Iterator[Path]:
    """Gives the directory of a cluster's files: `directory`, or one of its own that is removed at the end."""
    home = directory or Path(tempfile.mkdtemp(prefix="quorumlog-"))
    try:
        yield home
    finally:
        if directory is None:
            shutil.rmtree(home, ignore_errors=True)
