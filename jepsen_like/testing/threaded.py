"""Clusters whose servers run in threads of the test's process, on disks in memory: how these start, end and break."""

import random
from abc import abstractmethod
from collections.abc import Callable, Sequence
from typing import Any

from jepsen_like.cluster.cluster import together
from jepsen_like.cluster.location import Site
from jepsen_like.testing.faulty import FaultyCluster
from jepsen_like.testing.server_thread import ServerThread
from log.disk import Disk
from log.memory_disk import MemoryDisk, PowerLoss
from raft.loop_thread import Opener

DATA = "data"
"""The directory of a server on its disk."""

TellOf = Callable[..., None]
"""Takes an event of one server and its fields."""


class ThreadedCluster(FaultyCluster):
    """A subclass gives what its servers are; its constructor calls `_install`."""

    def _install(self, site: Site, rng: random.Random) -> None:
        self._site = site
        self._rng = rng
        self._running: dict[int, ServerThread[Any]] = {}
        self._disks = {node: MemoryDisk(random.Random(rng.getrandbits(64))) for node in self.nodes}

    @abstractmethod
    def _opener(self, node: int, disk: Disk, rng: random.Random, tell: TellOf) -> Opener[Any]:
        """Returns how this server is opened now."""

    @abstractmethod
    async def _leave(self, server: Any) -> None:
        """Have a server do what SIGTERM makes it do before it ends. Called in the server's own loop."""

    @abstractmethod
    def _on_broken(self, what: str) -> None:
        """Something happened that may never happen."""

    @property
    @abstractmethod
    def _wiped_directory(self) -> str:
        """The files that `wipe` removes from a server's disk."""

    def _can_answer(self, node: int) -> bool:
        running = self._running.get(node)
        return running is not None and not running.is_paused and not running.ended.done()

    def disk(self, node: int) -> MemoryDisk:
        """Returns the server's disk, which can be made to fail; another one after `kill`, `power` and `wipe`."""
        self._require(node)
        return self._disks[node]

    async def start(self, *nodes: int) -> None:
        """See `FaultyCluster`: until they listen. Raises what opening them does, in an exception group."""
        self._require(*nodes)
        await together(self._start, [node for node in nodes or self.nodes if not self._is_up(node)])

    def _is_up(self, node: int) -> bool:
        return node in self._running and not self._running[node].ended.done()

    async def _start(self, node: int) -> None:
        await self._end(node)  # what failed by itself is still to be told
        self._regain_power(node)
        drawn = random.Random(self._rng.getrandbits(64))

        def tell(event: str, **told: object) -> None:
            self.tell(node, event, **told)

        thread = ServerThread(self._opener(node, self._disks[node], drawn, tell))
        await thread.open()
        self._running[node] = thread
        self.tell(node, "started")

    async def _end(self, *nodes: int) -> None:
        await together(self._end_one, [node for node in nodes if node in self._running])

    async def _end_one(self, node: int) -> None:
        thread = self._running.pop(node)
        await thread.end()
        error = thread.ended.exception()
        if error is not None:
            self.tell(node, "failed", reason=f"{type(error).__name__}: {error}")
            if isinstance(error, AssertionError):
                self._on_broken(f"broker {node} broke an invariant: {error}")

    async def stop(self, *nodes: int) -> None:
        """See `FaultyCluster`: each takes leave of the others first."""
        self._require(*nodes)
        for node in nodes:
            if self._is_up(node):
                await self._running[node].shut_down(self._leave)
            await self._end(node)
            self.tell(node, "stopped")

    async def kill(self, *nodes: int) -> None:
        """See `FaultyCluster`."""
        await self._bring_down(nodes, lambda disk: disk.after_kill(self._rng))
        for node in nodes:
            self._break_connections(node)
            self.tell(node, "killed")

    async def power(self, *nodes: int) -> None:
        """Cut these servers' power at one moment: all that was not flushed is gone, and no client is informed."""
        await self._bring_down(nodes, lambda disk: disk.after_crash(self._rng, loss=PowerLoss.LOSE_ALL))
        for node in nodes:
            self._lose_power(node)
            self.tell(node, "without power")

    async def wipe(self, *nodes: int) -> None:
        """Kill these servers and take away what they have of the data."""
        await self.kill(*nodes)
        for node in nodes:
            _empty(self._disks[node], self._wiped_directory)
            self.tell(node, "wiped")

    async def _bring_down(self, nodes: Sequence[int], left: Callable[[MemoryDisk], MemoryDisk]) -> None:
        self._require(*nodes)
        self._go_dark(*nodes)  # first: what they acknowledge from now on reaches no client
        disks = {node: left(self._disks[node]) for node in nodes}
        await self._end(*nodes)
        self._disks |= disks

    async def pause(self, *nodes: int) -> None:
        """See `FaultyCluster`."""
        self._require(*nodes)
        for node in nodes:
            if self._is_up(node):
                await self._running[node].pause()
                self.tell(node, "paused")

    async def resume(self, *nodes: int) -> None:
        """See `FaultyCluster`."""
        self._require(*nodes)
        for node in nodes or self.nodes:
            if node in self._running and self._running[node].is_paused:
                self._running[node].resume()
                self.tell(node, "resumed")


def _empty(disk: MemoryDisk, directory: str) -> None:
    """Remove a directory with all that is in it, for good."""
    files = [path for path in disk.paths() if path.startswith(f"{directory}/")]
    for path in files:
        disk.remove(path)
    for parent in {path.rpartition("/")[0] for path in files}:
        disk.sync_directory(parent)
