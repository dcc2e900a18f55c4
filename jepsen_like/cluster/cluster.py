"""A cluster as the harness holds it: node processes, the network between them, and what the nodes say of themselves.

Everything about a node is learned from outside: its process id, the lines it prints, and STATUS on its own port. That
port is not behind the fault network, so the harness sees a node that is cut off; nodes and clients know the fault
network's ports only.
"""

import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any, TypeVar, assert_never

import attrs
import trio

from jepsen_like.cluster.location import Site, open_proxies
from jepsen_like.cluster.machine import Machine, Need, open_machines
from jepsen_like.cluster.namespaces import open_namespaces
from jepsen_like.cluster.process import ENDED, Event, NodeDidNotStart, NodeProcess
from jepsen_like.cluster.raft_nodes import Address, NodePlan, raft_command
from jepsen_like.cluster.wires import Network, Pair, Wires
from raft.client import Connection
from raft.errors import RaftError

START_WITHIN_S = 30.0
"""How long a node may take to listen; five interpreters that start at once on two busy cores need several seconds."""
STOP_WITHIN_S = 10.0
STATUS_WITHIN_S = 0.5
CARRIES_WITHIN_S = 5.0
"""How long a way that was healed may take to carry a question and its answer."""
POLL_S = 0.05
READ_THROUGH_WITHIN_S = 5.0
READ_THROUGH_BYTES = 1024 * 1024
LEADER = "leader"
TRIMMED, SNAPSHOT = "trimmed", "snapshot_installed"
"""Events of a node whose log begins later than before."""
DOWN = "down"
"""In place of a role, of a node whose process is gone; started again it has none until it says one."""
NO_ANSWER = (RaftError, KeyError, ValueError)

T = TypeVar("T")


@attrs.frozen
class NodeStatus:
    """A node's answer to STATUS, as far as the harness needs it."""

    node: int
    role: str
    term: int
    last_index: int
    commit_index: int
    committed_end: int

    @classmethod
    def of(cls, fields: Mapping[str, Any]) -> "NodeStatus":
        """From the map on the wire; `KeyError` or `ValueError` if it is not one."""
        numbers = (int(fields[name]) for name in ("term", "last_index", "commit_index", "committed_end"))
        return cls(int(fields["node"]), str(fields["role"]), *numbers)


@attrs.frozen
class RoleSeen:
    """A node said that its role has changed, or is `DOWN` (with term 0); `t_ns` is on the monotonic clock, shared by all processes here."""

    node: int
    t_ns: int
    role: str
    term: int


@attrs.frozen
class StartSeen:
    """A node said that its log begins at `offset` now: files have left it, or a snapshot of the leader's took their place."""

    node: int
    offset: int
    is_snapshot: bool

    def __str__(self) -> str:
        how = "began anew with a snapshot, its log" if self.is_snapshot else "let records go, its log begins"
        return f"n{self.node} {how} at offset {self.offset:,}"


@attrs.define
class NotServing(Exception):
    """The cluster did not reach the state that was waited for."""

    what: str

    def __str__(self) -> str:
        return self.what


class Cluster:
    """Nodes 1 to n. Use `open_cluster`; every method may be called while faults hold."""

    def __init__(
        self,
        cluster_id: str,
        nodes: Mapping[int, NodeProcess],
        network: Wires,
        client_addresses: Mapping[int, Address],
        direct: Mapping[int, Address],
        through: Mapping[Pair, Address],
        nursery: trio.Nursery,
        roles: list[RoleSeen],
        starts: list[StartSeen],
    ) -> None:
        self.cluster_id = cluster_id
        self.nodes = dict(nodes)
        self.network = network
        self.client_addresses = dict(client_addresses)
        """Where clients reach each node: behind the fault network."""
        self.direct = dict(direct)
        self._through = dict(through)
        self.roles = roles
        self.starts = starts
        self._nursery = nursery

    @property
    def unasked_ends(self) -> list[str]:
        """Every time a node ended by itself, or did not end when asked: a failure of the node, whatever the history says."""
        return [line for node in self.nodes.values() for line in node.unasked_ends]

    # ---------------------------------------------------------------- processes

    async def start(self, nodes: Iterable[int]) -> None:
        """Start these nodes together and wait until all listen. `NodeDidNotStart`, in a group, if one does not."""
        await _together(
            lambda node: self.nodes[node].start(self._nursery, within_s=START_WITHIN_S),
            [node for node in nodes if not self.nodes[node].is_running],
        )

    async def restart(self, nodes: Iterable[int]) -> None:
        """Like `start`, for nodes that have run before: one that does not come back stands in `unasked_ends`."""

        async def start(node: int) -> None:
            if not self.nodes[node].is_running:
                with contextlib.suppress(NodeDidNotStart):
                    await self.nodes[node].start(self._nursery, within_s=START_WITHIN_S)

        await _together(start, [node for node in nodes if not self.nodes[node].is_running])

    async def kill(self, nodes: Iterable[int]) -> None:
        """SIGKILL them together and wait until they are gone."""
        await _together(lambda node: self.nodes[node].kill(), nodes)

    async def cut_power(self, nodes: Iterable[int]) -> None:
        """Take the power from these together, and wait until their processes are gone and their volumes unmounted.

        The signal comes first, so that no process sees its disk fail; what is on its way to the disk then never arrives.
        Once begun it is completed, also when cancelled: a volume without power that stays mounted could not be used again.
        """
        hit = [self.nodes[node] for node in nodes]
        for process in hit:
            process.strike()
        for process in hit:
            if process.machine.volume is not None:
                process.machine.volume.cut_power()
        with trio.CancelScope(shield=True):
            await self.kill(nodes)
        for process in hit:
            if process.machine.volume is not None:
                process.machine.volume.unmount()

    async def pause(self, nodes: Iterable[int]) -> None:
        """SIGSTOP them together and wait until all have stopped."""
        await _together(lambda node: self.nodes[node].pause(), nodes)

    async def stop(self, nodes: Iterable[int]) -> None:
        """SIGTERM them together and wait until they are gone."""
        running = [node for node in nodes if self.nodes[node].is_running]
        await _together(lambda node: self.nodes[node].stop(within_s=STOP_WITHIN_S), running)

    async def heal(self) -> None:
        """Make everything whole: links open, clocks and disks right, paused nodes running, dead nodes started."""
        self.network.heal()
        for node in self.nodes.values():
            node.machine.heal()
            node.resume()
        await self.restart(self.nodes)

    # ---------------------------------------------------------------- what the nodes say

    async def status(self, node: int) -> NodeStatus | None:
        """One node's STATUS; None if it does not answer at once."""
        if not self.nodes[node].is_running or self.nodes[node].is_paused:
            return None
        with trio.move_on_after(STATUS_WITHIN_S), contextlib.suppress(*NO_ANSWER):
            async with Connection.open(*self.direct[node], self.cluster_id) as connection:
                return NodeStatus.of(await connection.status())
        return None

    async def try_ways(self, pairs: Iterable[Pair], clients: Iterable[int] = ()) -> dict[str, str]:
        """Ask for a STATUS through each of these ways, as they are now. Returns what became of it, by way.

        "carried 1>2 ..." proves that the ways between both nodes pass bytes; any other text is why that is not proved.
        """
        wanted = {f"{one}>{other}": ((one, other), (other, one)) for one, other in pairs}
        clients = tuple(clients)
        failed: dict[Pair | int, str] = {}

        async def try_one(way: Pair | int) -> None:
            node = way if isinstance(way, int) else way[1]
            address = self.client_addresses[way] if isinstance(way, int) else self._through[way]
            if not self.nodes[node].is_running or self.nodes[node].is_paused:
                failed[way] = f"n{node} could not be asked: {self.nodes[node].observe()}"
                return
            try:
                with trio.fail_after(CARRIES_WITHIN_S):
                    async with Connection.open(*address, self.cluster_id, timeout_s=CARRIES_WITHIN_S) as connection:
                        await connection.status()
            except (*NO_ANSWER, trio.TooSlowError) as error:
                why = str(error) or f"no answer within {CARRIES_WITHIN_S:g} s"
                failed[way] = f"n{node} did not answer: {why}; {self.nodes[node].observe()}"

        ways: set[Pair | int] = {pair for both in wanted.values() for pair in both} | set(clients)
        await _together(try_one, ways)
        found = {
            name: next((f"not carried: {failed[pair]}" for pair in both if pair in failed), f"carried {name} and back")
            for name, both in wanted.items()
        }
        for node in clients:
            name = f"client>{node}"
            found[name] = f"not carried: {failed[node]}" if node in failed else f"carried {name} and back"
        return found

    async def read_through(self, node: int) -> None:
        """Read all that one node has committed, as far as it gives it: what it finds on its disk is its own affair."""
        with trio.move_on_after(READ_THROUGH_WITHIN_S), contextlib.suppress(*NO_ANSWER):
            while True:
                status = await self.status(node)
                if status is not None and status.committed_end:
                    break
                await trio.sleep(POLL_S)  # a node that has just begun has to hear what is committed
            async with Connection.open(*self.direct[node], self.cluster_id) as connection:
                offset = 0
                while offset < status.committed_end:
                    records = await connection.read(offset, READ_THROUGH_BYTES)
                    if not records.batches:
                        return
                    offset = records.batches[-1].base_offset + records.batches[-1].span

    async def statuses(self) -> dict[int, NodeStatus]:
        """STATUS of every node that answers."""
        answers: dict[int, NodeStatus] = {}

        async def ask(node: int) -> None:
            answer = await self.status(node)
            if answer is not None:
                answers[node] = answer

        await _together(ask, self.nodes)
        return dict(sorted(answers.items()))

    async def leader(self, *, within_s: float) -> NodeStatus | None:
        """The node that leads in the highest term anyone knows; None if there is none for `within_s`."""
        with trio.move_on_after(within_s):
            while True:
                leader = leader_among((await self.statuses()).values())
                if leader is not None:
                    return leader
                await trio.sleep(POLL_S)
        return None

    async def hold_all_committed(self, nodes: Iterable[int], *, within_s: float) -> bool:
        """Wait until each of these has committed what the leader held when this was called; False if they do not in time.

        With the other nodes stopped before, whatever anybody was promised until then stands on the disks of these.
        """
        wanted = tuple(nodes)
        with trio.move_on_after(within_s):
            leader = None
            while leader is None:
                leader = leader_among((await self.statuses()).values())
            while True:
                statuses = await self.statuses()
                if all(node in statuses and statuses[node].commit_index >= leader.last_index for node in wanted):
                    return True
                await trio.sleep(POLL_S)
        return False

    async def agreed_end(self, *, within_s: float) -> int:
        """Wait until every node has committed all there is; the end of the log.

        Call it when no client writes any more. `NotServing` if the nodes do not agree in time.
        """
        statuses: dict[int, NodeStatus] = {}
        with trio.move_on_after(within_s):
            while True:
                statuses = await self.statuses()
                leader = leader_among(statuses.values())
                indexes = {status.commit_index for status in statuses.values()}
                # A leader that was elected just now holds more than anybody knows to be committed.
                if leader is not None and len(statuses) == len(self.nodes) and indexes == {leader.last_index}:
                    return leader.committed_end
                await trio.sleep(POLL_S)
        seen = ", ".join(f"n{status.node} {status.role} at {status.commit_index}" for status in statuses.values())
        raise NotServing(f"the nodes do not agree {within_s:g} s after everything was healed: {seen or 'none answers'}")


def leader_among(statuses: Iterable[NodeStatus]) -> NodeStatus | None:
    """Who leads: the leader of the highest term seen, and only if nobody knows of a higher one."""
    newest = max(statuses, key=lambda status: (status.term, status.role == LEADER), default=None)
    return newest if newest is not None and newest.role == LEADER else None


async def _together(do: Callable[[T], Awaitable[None]], nodes: Iterable[T]) -> None:
    async with trio.open_nursery() as nursery:
        for node in nodes:
            nursery.start_soon(do, node)


Command = Callable[[NodePlan], list[str]]


@asynccontextmanager
async def open_cluster(
    directory: Path,
    *,
    nodes: int,
    cluster_id: str,
    settings: Sequence[str] = (),
    command: Command = raft_command,
    needs: frozenset[Need] = frozenset(),
    network: Network = Network.PROXIES,
    seed: int = 0,
) -> AsyncIterator[Cluster]:
    """Start nodes 1 to `nodes`, each with `directory`/<id> for its data, events and errors; stop them at the end.

    `NodeDidNotStart` (in an exception group) if one does not come up; `NoVolumes` or `NoLibrary` if `needs` cannot be
    met. No process, no port and no mount is left behind.
    """
    ids = range(1, nodes + 1)
    roles: list[RoleSeen] = []
    starts: list[StartSeen] = []

    def hear(node: int, event: Event) -> None:
        if event.get("event") == "role":
            # A node whose clock drifts tells its own time.
            t_ns = machines[node].real_ns(int(event["t_ns"]))
            roles.append(RoleSeen(node, t_ns, str(event["role"]), int(event["term"])))
        elif event.get("event") in (TRIMMED, SNAPSHOT):
            starts.append(StartSeen(node, int(event["start_offset"]), event["event"] == SNAPSHOT))
        elif event.get("event") == ENDED:
            roles.append(RoleSeen(node, int(event["t_ns"]), DOWN, 0))

    machines: dict[int, Machine]
    directories = {node: directory / str(node) for node in ids}
    async with contextlib.AsyncExitStack() as stack:
        machines = stack.enter_context(open_machines(directories, needs))
        site = await stack.enter_async_context(_open_site(network, ids, seed))
        processes = {}
        for node in ids:
            peers = {other: site.peers[node, other] for other in ids if other != node}
            machine = machines[node]
            plan = NodePlan(node, cluster_id, site.listen[node], machine.data, peers, site.clients, settings)
            processes[node] = NodeProcess(node, command(plan), directories[node], hear, machine, site.entrance(node))
        async with trio.open_nursery() as nursery:
            cluster = Cluster(
                cluster_id, processes, site.wires, site.clients, site.direct, site.through, nursery, roles, starts
            )
            try:
                await cluster.start(ids)
                for machine in machines.values():
                    machine.check_heeded()
                yield cluster
                site.wires.heal()
                await cluster.stop(ids)
            finally:
                # Cancelling the readers of the nodes kills what still runs.
                nursery.cancel_scope.cancel()


def _open_site(network: Network, nodes: Iterable[int], seed: int) -> AbstractAsyncContextManager[Site]:
    match network:
        case Network.PROXIES:
            return open_proxies(nodes)
        case Network.NAMESPACES:
            return open_namespaces(nodes, seed)
        case _:
            assert_never(network)
