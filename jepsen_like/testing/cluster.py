"""Clusters that a test can break: `LocalCluster` inside the test's process, `ProcessCluster` of real processes.

    async with LocalCluster.open(nodes=3) as cluster, cluster.client() as client:
        await client.append([b"one"])
        await cluster.kill(await cluster.wait_for_leader())
        await client.append([b"two"])
        assert (await cluster.check()).valid

`LocalCluster` starts in milliseconds. Its nodes are whole: core, driver, wire and storage are those of any node; only
the disks are in memory, so that `crash` can take the power away and with it everything that was not flushed. All nodes
share one loop with the network between them.

`ProcessCluster` starts `quorumlog node` processes on the real disk in about a second, and breaks them by signals.

Their common part is in `breakable` and `faulty`. For Trio; `aio` and `sync` have both for asyncio and plain Python.
"""

import contextlib
import json
import random
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import attrs
import trio

from jepsen_like.cluster.cluster import Cluster, open_cluster
from jepsen_like.cluster.location import Site, open_proxies
from jepsen_like.systems.raft.mode import RaftMode
from jepsen_like.systems.raft.system import RaftSystem
from jepsen_like.systems.secret_of import secret_in
from jepsen_like.systems.tls_of import certificates_in
from jepsen_like.testing.breakable import BreakableCluster
from jepsen_like.testing.certified import Papers, papers_of
from jepsen_like.testing.faulty import NodeEvent, zones_planned
from jepsen_like.testing.processes import ServerProcesses, home_of
from log.memory_disk import MemoryDisk, PowerLoss
from raft.client import Connection
from raft.errors import RaftError, ShuttingDown
from raft.group import RaftGroup
from raft.net.certificates import ClientCertificates
from raft.notices import LinkUp, Notice, event_of
from raft.register import RegisterMachine
from raft.results import Records
from raft.secret_file import fresh_secret
from raft.settings import NodeSettings, parse_settings
from raft.state_machine import StateMachine

CLUSTER_ID = "test"
QUICK = ("heartbeat_s=0.05", "election_timeout_s_min=0.25", "election_timeout_s_max=0.5")
"""Settings that take over quickly, for a network without distance; a test's own come after them."""
LINKS_WITHIN_S = 1.0
STATUS_WITHIN_S = 0.5


@attrs.define
class _LocalNode:
    """A node that runs in this process."""

    group: RaftGroup
    life: trio.CancelScope
    ended: trio.Event
    is_paused: bool = False


class LocalCluster(BreakableCluster):
    """Nodes in this process, on disks in memory. Made by `open`."""

    def __init__(
        self,
        nodes: Iterable[int],
        site: Site,
        nursery: trio.Nursery,
        settings: NodeSettings,
        state_machine: Callable[[], StateMachine],
        rng: random.Random,
        papers: Papers,
    ) -> None:
        """Use `open`."""
        ids = tuple(nodes)
        addresses = [f"{host}:{port}" for host, port in site.clients.values()]
        super().__init__(CLUSTER_ID, fresh_secret(), ids, addresses, site.wires, settings)
        self.tls = papers.client
        self._papers = papers
        self._site = site
        self._nursery = nursery
        self._settings = settings
        self._state_machine = state_machine
        self._rng = rng
        self._running: dict[int, _LocalNode] = {}
        self._disks = {node: MemoryDisk(random.Random(rng.getrandbits(64))) for node in ids}
        self._links_up = trio.Event()
        self._links_missing = set(self._pairs())

    @classmethod
    @asynccontextmanager
    async def open(
        cls,
        *,
        nodes: int = 3,
        settings: Sequence[str] = (),
        state_machine: Callable[[], StateMachine] = RegisterMachine,
        seed: int = 0,
        tls: bool = False,
        zones: str = "",
        zone_delay_s: float = 0.0,
    ) -> AsyncIterator["LocalCluster"]:
        """Start nodes 1 to `nodes`, with a leader; stop them at the end. No task, port or file is left behind.

        `settings` are `name=value`, as for `quorumlog node --set`; `state_machine` makes one for each start of a node;
        `seed` decides the election timeouts and what else is drawn; `zones` are as of `quorumlog run`. With `tls` nodes and clients have certificates
        and reach each other over TLS. Raises `WrongSetting` for a setting or value that does not exist.
        """
        parsed = parse_settings([*QUICK, *settings])
        ids = range(1, nodes + 1)
        with papers_of(ids, tls=tls) as papers:
            async with open_proxies(ids) as site, trio.open_nursery() as nursery:
                cluster = cls(ids, site, nursery, parsed, state_machine, random.Random(seed), papers)
                cluster._stand(zones_planned(zones, zone_delay_s).settle([ids]))
                await cluster.start()
                await cluster._elect()
                try:
                    yield cluster
                finally:
                    nursery.cancel_scope.cancel()

    async def _elect(self) -> None:
        """A new group need not sit out an election timeout: once all can hear each other, one asks for votes."""
        with trio.move_on_after(LINKS_WITHIN_S):
            if len(self.nodes) > 1:
                await self._links_up.wait()
        self._running[self.nodes[0]].group.campaign()
        await self.wait_for_leader()

    # ---------------------------------------------------------------- what the nodes report

    async def status(self, node: int) -> dict[str, object] | None:
        """See `BreakableCluster`; a paused node shows what it believed when it stopped."""
        self._require(node)
        running = self._running.get(node)
        return running.group.status() if running is not None else None

    async def _read(self, node: int, offset: int) -> Records:
        if node not in self._running:
            raise ShuttingDown
        return await self._running[node].group.read(offset)

    async def _probe(self, node: int) -> None:
        await self._running[node].group.tail()

    # ---------------------------------------------------------------- nodes

    def disk(self, node: int) -> MemoryDisk:
        """Returns the node's disk, which can be made to fail, fill up or lie; another one after `kill` and `crash`."""
        self._require(node)
        return self._disks[node]

    async def start(self, *nodes: int) -> None:
        """See `BreakableCluster`. Raises `StorageFailed` and errors of `RaftGroup.open` if a disk was made to fail."""
        self._require(*nodes)
        for node in nodes or self.nodes:
            if node in self._running:
                continue
            self._regain_power(node)
            self._running[node] = await self._nursery.start(self._run, node)
            self.tell(node, "started")

    async def _run(self, node: int, task_status: trio.TaskStatus[_LocalNode]) -> None:
        site, ended, is_up = self._site, trio.Event(), False
        refused: BaseException | None = None
        members = {other: site.listen[node] if other == node else site.peers[node, other] for other in self.nodes}
        try:
            with trio.CancelScope() as life:
                async with RaftGroup.open(
                    node_id=node,
                    members=members,
                    directory="data",
                    cluster_id=self.cluster_id,
                    advertised={other: f"{host}:{port}" for other, (host, port) in site.clients.items()},
                    state_machine=self._state_machine(),
                    settings=self._settings,
                    rng=random.Random(self._rng.getrandbits(64)),
                    disk=self._disks[node],
                    notify=lambda notice: self._on_notice(node, notice),
                    secret=self.secret,
                    tls=certificates_in(self._papers.nodes.get(node), ClientCertificates.REQUIRED),
                ) as group:
                    is_up = True
                    task_status.started(_LocalNode(group, life, ended))
                    await trio.sleep_forever()
        except* Exception as errors:  # noqa: BLE001 - whatever ended a node is an event, and what kept it from starting is raised
            self.tell(node, "failed", reason=_first(errors))
            if not is_up:
                refused = _leaves(errors)[0]
            if any(isinstance(error, AssertionError) for error in _leaves(errors)):
                self.ledger.on_broken(f"node {node} broke an invariant: {_first(errors)}")
        finally:
            self._running.pop(node, None)
            ended.set()
        if refused is not None:
            raise refused

    def _on_notice(self, node: int, notice: Notice) -> None:
        event, fields = event_of(notice)
        self.tell(node, event, **fields)
        if isinstance(notice, LinkUp):
            self._links_missing.discard((node, notice.peer))
            if not self._links_missing:
                self._links_up.set()

    async def stop(self, *nodes: int) -> None:
        """See `BreakableCluster`."""
        self._require(*nodes)
        for node in nodes:
            await self._note(node)
            await self._end(node)
            self.tell(node, "stopped")

    async def kill(self, *nodes: int) -> None:
        """See `BreakableCluster`."""
        self._require(*nodes)
        for node in nodes:
            await self._note(node)
            disk = self._disks[node].after_kill(self._rng)
            self._go_dark(node)
            await self._end(node)
            self._disks[node] = disk
            self._break_connections(node)
            self.tell(node, "killed")

    async def crash(self, *nodes: int) -> None:
        """Cut these nodes' power at one moment: what was not flushed is gone, and peers get no sign until a restart."""
        self._require(*nodes)
        for node in nodes:
            await self._note(node)
        disks = {node: self._disks[node].after_crash(self._rng, loss=PowerLoss.LOSE_ALL) for node in nodes}
        self._go_dark(*nodes)
        for node in nodes:
            await self._end(node)
            self._disks[node] = disks[node]
            self._lose_power(node)
            self.tell(node, "crashed")

    async def _end(self, node: int) -> None:
        running = self._running.get(node)
        if running is not None:
            running.life.cancel()
            await running.ended.wait()

    async def pause(self, *nodes: int) -> None:
        """See `BreakableCluster`."""
        self._require(*nodes)
        for node in nodes:
            running = self._running.get(node)
            if running is not None:
                running.group.pause()
                running.is_paused = True
                self.tell(node, "paused")

    async def resume(self, *nodes: int) -> None:
        """See `BreakableCluster`."""
        self._require(*nodes)
        for node in nodes or self.nodes:
            running = self._running.get(node)
            if running is not None and running.is_paused:
                running.group.resume()
                running.is_paused = False
                self.tell(node, "resumed")


def _leaves(group: BaseExceptionGroup[BaseException]) -> list[BaseException]:
    return [
        leaf
        for error in group.exceptions
        for leaf in (_leaves(error) if isinstance(error, BaseExceptionGroup) else [error])
    ]


def _first(group: BaseExceptionGroup[BaseException]) -> str:
    error = _leaves(group)[0]
    return f"{type(error).__name__}: {error}"


class ProcessCluster(ServerProcesses, BreakableCluster):
    """Nodes as processes of their own, on the real disk. Made by `open`."""

    def __init__(self, cluster: Cluster, directory: Path, settings: NodeSettings) -> None:
        """Use `open`."""
        addresses = [f"{host}:{port}" for host, port in cluster.client_addresses.values()]
        secret = secret_in(cluster.access.secret)
        known = None if secret is None else secret.now()
        super().__init__(cluster.cluster_id, known, cluster.nodes, addresses, cluster.network, settings)
        self.directory = directory
        """The files that the nodes leave behind, each under its id: data, `events.jsonl`, `stderr.log`."""
        self._install(cluster)

    @classmethod
    @asynccontextmanager
    async def open(
        cls,
        *,
        nodes: int = 3,
        settings: Sequence[str] = (),
        directory: Path | None = None,
        tls: bool = False,
        zones: str = "",
        zone_delay_s: float = 0.0,
    ) -> AsyncIterator["ProcessCluster"]:
        """Start nodes 1 to `nodes`, with a leader; stop them at the end. No process and no port is left behind.

        `settings` are those of `quorumlog node --set`. Without a `directory` the files are removed at the end.
        Raises `NodeDidNotStart`, in an exception group, if a node does not come up.
        """
        parsed = parse_settings([*QUICK, *settings])
        with home_of(directory) as home:
            mode, plan = RaftMode.of([*QUICK, *settings]), zones_planned(zones, zone_delay_s)
            opening = open_cluster(home, RaftSystem(), mode, nodes=nodes, cluster_id=CLUSTER_ID, tls=tls, zones=plan)
            async with opening as running:
                cluster = cls(running, home, parsed)
                await cluster.wait_for_leader()
                yield cluster

    # ---------------------------------------------------------------- what the nodes report

    async def status(self, node: int) -> dict[str, object] | None:
        """See `BreakableCluster`."""
        self._require(node)
        if self._can_answer(node):
            with trio.move_on_after(STATUS_WITHIN_S), contextlib.suppress(RaftError):
                async with self._connection(node) as connection:
                    return await connection.status()
        return None

    async def _read(self, node: int, offset: int) -> Records:
        async with self._connection(node) as connection:
            return await connection.read(offset)

    async def _probe(self, node: int) -> None:
        async with self._connection(node) as connection:
            await connection.tail()

    def events(self) -> list[NodeEvent]:
        """See `BreakableCluster`: what was done to the nodes, and what they reported themselves."""
        told = [event for node in self.nodes for event in self._told_by(node)]
        return sorted([*self._events, *told], key=lambda event: event.at_s)

    def _told_by(self, node: int) -> Iterator[NodeEvent]:
        with contextlib.suppress(FileNotFoundError), (self.directory / str(node) / "events.jsonl").open() as lines:
            for line in lines:
                with contextlib.suppress(ValueError):  # a line torn by a kill
                    fields = json.loads(line)
                    at_s = fields.pop("t_ns") / 1e9 - self._began
                    yield NodeEvent(at_s, node, fields.pop("event"), fields)

    def _connection(self, node: int) -> contextlib.AbstractAsyncContextManager[Connection]:
        return Connection.open(
            *self._cluster.direct[node], self.cluster_id, secret=self.secret, tls=certificates_in(self.tls)
        )
