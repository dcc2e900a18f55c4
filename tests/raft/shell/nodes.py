"""Nodes for the tests of this folder: a few in this process, on real sockets and real or imagined disks."""

import random
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import attrs
import trio

from raft.config import RaftConfig
from raft.errors import RaftError
from raft.group import RaftGroup
from raft.net.certificates import Certificates
from raft.notices import event_of
from raft.settings import NodeSettings
from raft.trust import SecretSource
from tests.ports import free_ports

CLUSTER_ID = "test"
FAST = RaftConfig(heartbeat_s=0.03, election_timeout_s_min=0.15, election_timeout_s_max=0.3)


class FoundedGroup(RaftGroup):
    """A node of a group that is vouched to be new, so that it begins though some of its members are not there."""

    _founded = True


@attrs.define
class RunningNode:
    """A node that can be stopped on its own."""

    group: RaftGroup
    stop: trio.CancelScope
    stopped: trio.Event


@attrs.define
class LocalCluster:
    """Nodes of one group in this process."""

    directory: Path
    members: Mapping[int, tuple[str, int]]
    settings: NodeSettings
    nursery: trio.Nursery
    nodes: dict[int, RunningNode] = attrs.field(factory=dict)
    joined: dict[int, Mapping[int, tuple[str, int]]] = attrs.field(factory=dict)
    """By node that joined: the members whose addresses it was given."""
    kind: type[RaftGroup] = RaftGroup
    secret: SecretSource | None = None
    """Given to the nodes that start from now on."""
    tls: Certificates | None = None
    told: list[tuple[int, str, dict[str, Any]]] = attrs.field(factory=list)

    @property
    def founders(self) -> Mapping[int, tuple[str, int]]:
        """The members with which the group began."""
        return {node_id: address for node_id, address in self.members.items() if node_id not in self.joined}

    async def start(self, node_id: int) -> RaftGroup:
        """Start a node, again after a stop as well."""
        self.nodes[node_id] = await self.nursery.start(self._run, node_id)
        return self.nodes[node_id].group

    async def join(self, node_id: int) -> str:
        """Start a node that is none of the members yet, which know nothing of it. Returns its address."""
        host, port = "127.0.0.1", free_ports(1)[0]
        present = {member: self.members[member] for member in self.nodes}
        self.members = {**self.members, node_id: (host, port)}
        self.joined[node_id] = {**present, node_id: (host, port)}
        await self.start(node_id)
        return f"{host}:{port}"

    async def _run(self, node_id: int, task_status: trio.TaskStatus[RunningNode]) -> None:
        stopped = trio.Event()
        with trio.CancelScope() as stop:
            async with self.kind.open(
                node_id=node_id,
                members=self.joined.get(node_id, self.founders),
                joins=node_id in self.joined,
                directory=str(self.directory / str(node_id)),
                cluster_id=CLUSTER_ID,
                settings=self.settings,
                rng=random.Random(node_id),
                notify=lambda notice: self.told.append((node_id, *event_of(notice))),
                secret=self.secret,
                tls=self.tls,
            ) as group:
                task_status.started(RunningNode(group, stop, stopped))
                await trio.sleep_forever()
        stopped.set()

    async def stop(self, node_id: int) -> None:
        """Stop a node and wait until it has let go of its port and directory."""
        node = self.nodes.pop(node_id)
        node.stop.cancel()
        await node.stopped.wait()

    async def leader(self) -> RaftGroup:
        """Returns the node that leads, once it has committed something in its term."""
        while True:
            for node in self.nodes.values():
                status = node.group.status()
                if status["role"] == "leader":
                    try:
                        await node.group.tail()
                    except RaftError:
                        break
                    return node.group
            await trio.sleep(0.005)

    async def followers(self) -> list[RaftGroup]:
        """All others."""
        leader = await self.leader()
        return [node.group for node in self.nodes.values() if node.group is not leader]

    def address(self, group: RaftGroup) -> tuple[str, int]:
        """Returns the host and the port on which a node listens."""
        return group.address

    def notices(self, event: str) -> list[dict[str, Any]]:
        """Returns the fields of all notices of this name, from all nodes."""
        return [fields for _, name, fields in self.told if name == event]


@asynccontextmanager
async def local_cluster(
    directory: Path,
    count: int = 3,
    settings: NodeSettings | None = None,
    start: Iterable[int] | None = None,
    kind: type[RaftGroup] = RaftGroup,
    secret: SecretSource | None = None,
    tls: Certificates | None = None,
) -> AsyncIterator[LocalCluster]:
    """A running cluster; stopped at the end."""
    members = {number: ("127.0.0.1", port) for number, port in enumerate(free_ports(count), 1)}
    with trio.fail_after(20):
        async with trio.open_nursery() as nursery:
            cluster = LocalCluster(
                directory, members, settings or NodeSettings(raft=FAST), nursery, kind=kind, secret=secret, tls=tls
            )
            for node_id in members if start is None else start:
                await cluster.start(node_id)
            yield cluster
            nursery.cancel_scope.cancel()


async def until(condition: Callable[[], object]) -> None:
    """Wait for something that other tasks bring about."""
    with trio.fail_after(60):
        while not condition():  # noqa: ASYNC110 - the tasks waited for know nothing of tests
            await trio.sleep(0.002)
