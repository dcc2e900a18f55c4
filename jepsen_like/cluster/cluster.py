"""A cluster as the harness holds it: processes, the network between them, and what they report of themselves.

Everything about a process is learned from outside: its process id, the lines it prints, and what it answers on its own
port. That port is not behind the fault network, so the harness sees a node that is cut off; nodes and clients know the
fault network's ports only. What the lines and answers mean is the system's to tell (`systems.port`).
"""

import contextlib
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar, assert_never

import attrs
import trio

from jepsen_like.cluster.keys import Keys
from jepsen_like.cluster.location import ON_LOOPBACK, ClientDoors, FurtherPorts, Site, open_proxies
from jepsen_like.cluster.machine import Machine, Need, open_machines
from jepsen_like.cluster.namespaces import open_namespaces
from jepsen_like.cluster.process import Ended, NodeDidNotStart, NodeProcess, Seen
from jepsen_like.port.observations import (
    DOWN,
    LEADER,
    LogBegins,
    OwnEnd,
    Ready,
    Reports,
    RoleReported,
    RoleSeen,
    Served,
    StartSeen,
    TurnReported,
    TurnSeen,
)
from jepsen_like.port.port import Access, Control, FurtherPort, Leadership, Member, Mode, ProcessPlan, Scope, System
from jepsen_like.port.wires import Address, Network, Pair, Wires
from jepsen_like.port.zones import NO_ZONES, ZoneMap, ZonePlan

if TYPE_CHECKING:
    from jepsen_like.cluster.authority import ClusterPapers

START_WITHIN_S: Final = 60.0
"""A node starts to listen within this time: five interpreters at once on two busy cores need several seconds."""
STOP_WITHIN_S: Final = 10.0
POLL_S: Final = 0.05
TLS_DIRECTORY: Final = "tls"
CARRIES_WITHIN_S: Final = 5.0
"""A healed way carries a question and its answer within this time."""

T = TypeVar("T")


class Cluster:
    """The processes of one cluster. Use `open_cluster`; every method may be called while faults hold."""

    def __init__(
        self,
        access: Access,
        system: System,
        mode: Mode,
        members: Iterable[Member],
        nodes: Mapping[int, NodeProcess],
        plans: Mapping[int, ProcessPlan],
        site: Site,
        nursery: trio.Nursery,
        reports: Reports,
        keys: Keys,
    ) -> None:
        self.access = access
        self.keys = keys
        self.system = system
        self.mode = mode
        self.members = {member.id: member for member in members}
        self.nodes = dict(nodes)
        self.client_addresses = dict(site.clients)
        """The addresses at which clients on this machine reach each node: behind the fault network."""
        self.direct: dict[int, Address] = dict(site.direct)
        self.control: Control = system.control(mode, access, self.direct, self.can_answer)
        self._site = site
        self._plans = dict(plans)
        self._promoted: tuple[int, ...] = ()
        self.reports = reports
        self._own_words: dict[Scope, Leadership] = {}
        self._nursery = nursery

    @property
    def network(self) -> Wires:
        """The ways between its processes."""
        return self._site.wires

    @property
    def advertised(self) -> Mapping[int, Address]:
        """The addresses that clients are given."""
        return self._site.advertised

    @property
    def zones(self) -> ZoneMap:
        """Returns the zones in which its members and clients stand."""
        return self._site.zones

    @property
    def cluster_id(self) -> str:
        """The id that its clients must name."""
        return self.access.cluster_id

    @property
    def targets(self) -> tuple[int, ...]:
        """The nodes that faults choose from: those that hold data."""
        return tuple(member.id for member in self.members.values() if member.holds_data)

    @property
    def entrances(self) -> dict[int, Address]:
        """The addresses given to clients to begin at: of the members that hold no data, if there are any, else of all."""
        without_data = [member.id for member in self.members.values() if not member.holds_data]
        return {node: self.advertised[node] for node in without_data or self.members}

    def can_answer(self, node: int) -> bool:
        """Returns True if a node neither ended nor stands still."""
        return self.nodes[node].is_running and not self.nodes[node].is_paused

    @property
    def unasked_ends(self) -> list[str]:
        """Every time a node ended by itself, or did not end when asked: a failure even if the history is valid."""
        return [line for node in self.nodes.values() for line in node.unasked_ends]

    # ---------------------------------------------------------------- processes

    async def start(self, nodes: Iterable[int]) -> None:
        """Start these nodes together; return when all listen. Raises `NodeDidNotStart`, in a group, if one does not."""
        await together(
            lambda node: self.nodes[node].start(self._nursery, within_s=START_WITHIN_S + self.system.slower_by_s),
            [node for node in nodes if not self.nodes[node].is_running],
        )

    async def restart(self, nodes: Iterable[int]) -> None:
        """Like `start`, for nodes that have run before: one that does not come back stands in `unasked_ends`."""

        async def start(node: int) -> None:
            if not self.nodes[node].is_running:
                with contextlib.suppress(NodeDidNotStart):
                    await self.nodes[node].start(self._nursery, within_s=START_WITHIN_S + self.system.slower_by_s)

        await together(start, [node for node in nodes if not self.nodes[node].is_running])

    async def kill(self, nodes: Iterable[int]) -> None:
        """SIGKILL them together and wait until they are gone."""
        await together(lambda node: self.nodes[node].kill(), nodes)

    async def cut_power(self, nodes: Iterable[int]) -> None:
        """Take the power from these together, and wait until their processes are gone and their volumes unmounted.

        The signal comes first, so that no process sees its disk fail; what is on its way to the disk then never
        arrives. Once begun it is completed, also when cancelled: a volume without power that stays mounted could not be
        used again.
        """
        hit = [self.nodes[node] for node in nodes]
        for process in hit:
            process.strike()
        for process in hit:
            process.machine.lose_power()
            self._plan_again(process.node, boot_id=process.machine.boot_id)
        with trio.CancelScope(shield=True):
            await self.kill(nodes)
        for process in hit:
            if process.machine.volume is not None:
                process.machine.volume.unmount()

    def _plan_again(self, node: int, **changes: Any) -> None:
        """From its next start on, this process is another in this."""
        self._plans[node] = attrs.evolve(self._plans[node], **changes)
        self.nodes[node].command = self.system.command(self._plans[node])

    async def pause(self, nodes: Iterable[int]) -> None:
        """SIGSTOP them together and wait until all have stopped."""
        await together(lambda node: self.nodes[node].pause(), nodes)

    async def stop(self, nodes: Iterable[int]) -> None:
        """SIGTERM them together and wait until they are gone."""
        running = [node for node in nodes if self.nodes[node].is_running]
        left = [node for node in self.targets if self.nodes[node].is_running and node not in running]
        must_end = len(left) > len(self.targets) // 2 or not self.system.ends_by_majority
        within_s = STOP_WITHIN_S + self.system.slower_by_s
        await together(lambda node: self.nodes[node].stop(within_s=within_s, must_end=must_end), running)

    async def promote(self, master: int) -> None:
        """Have an operator make this node lead: those whom it concerns are restarted if they run, or start so later."""
        self._promoted += (master,)
        before = {node: process.command for node, process in self.nodes.items()}
        for node in self.nodes:
            self._plan_again(node, promoted=self._promoted)
        running = [
            node for node, process in self.nodes.items() if process.command != before[node] and process.is_running
        ]
        await self.stop(running)
        await self.restart(running)

    async def heal(self) -> None:
        """Make everything whole: links open, clocks and disks right, paused nodes running, dead nodes started."""
        self.network.heal()
        for node in self.nodes.values():
            node.machine.heal()
            node.resume()
        await self.restart(self.nodes)

    # ---------------------------------------------------------------- what the nodes answer

    async def find_misplaced(self) -> list[str]:
        """Returns a sentence for each scope whose copies do not stand in the zones that the rule of placement demands."""
        return self.zones.find_misplaced(
            {scope: await self.control.copies(scope) for scope in await self.control.leaders()}
        )

    async def try_ways(self, pairs: Iterable[Pair], clients: Iterable[int] = ()) -> dict[str, str]:
        """Ask a question through each of these ways, as they are now. Returns what became of it, by way.

        "carried 1>2 ..." proves that the ways between both nodes pass bytes; any other text is why that is not proved.
        """
        wanted = {f"{one}>{other}": ((one, other), (other, one)) for one, other in pairs}
        clients = tuple(clients)
        failed: dict[Pair | int, str] = {}

        async def try_one(way: Pair | int) -> None:
            node = way if isinstance(way, int) else way[1]
            address = self.client_addresses[way] if isinstance(way, int) else self._site.through[way]
            deadline = trio.current_time() + CARRIES_WITHIN_S
            why: str | None = "it has not started yet"
            is_asked = False
            while self.can_answer(node) and trio.current_time() < deadline:
                # Another fault may have killed the node: until it listens again, it refuses connections on every way.
                if self.nodes[node].is_ready:
                    if not is_asked:  # one that has only just started gets the whole time, too
                        is_asked, deadline = True, trio.current_time() + CARRIES_WITHIN_S
                    why = await self.control.why_silent_at(address, within_s=deadline - trio.current_time())
                    if why is None:
                        return
                await trio.sleep(POLL_S)
            if self.can_answer(node):
                failed[way] = f"n{node} did not answer: {why}; {self.nodes[node].observe()}"
            else:
                failed[way] = f"n{node} could not be asked: {self.nodes[node].observe()}"

        ways: set[Pair | int] = {pair for both in wanted.values() for pair in both} | set(clients)
        await together(try_one, ways)
        found = {
            name: next((f"not carried: {failed[pair]}" for pair in both if pair in failed), f"carried {name} and back")
            for name, both in wanted.items()
        }
        for node in clients:
            name = f"client>{node}"
            found[name] = f"not carried: {failed[node]}" if node in failed else f"carried {name} and back"
        return found

    async def leaders(self, *, within_s: float) -> Mapping[Scope, Leadership]:
        """Returns who leads which scope; empty if no scope has a leader for `within_s`."""
        with trio.move_on_after(within_s):
            while True:
                leaders = await self.control.leaders()
                if leaders:
                    for scope, leader in leaders.items():
                        self._note(scope, leader)
                    return leaders
                await trio.sleep(POLL_S)
        return {}

    async def leader_of(self, scope: Scope, *, within_s: float) -> Leadership | None:
        """Returns who leads a scope; None if it has no leader for `within_s`."""
        with trio.move_on_after(within_s):
            while (leader := await self.control.leader_of(scope)) is None:  # noqa: ASYNC110 - only the nodes know
                await trio.sleep(POLL_S)
            self._note(scope, leader)
            return leader
        return None

    def _note(self, scope: Scope, leader: Leadership) -> None:
        """Keep a leader's own word: a fault that follows may silence it before its next report."""
        if leader.is_own_word and self._own_words.get(scope) != leader:
            self._own_words[scope] = leader
            t_ns = time.monotonic_ns()
            self.reports.roles.append(RoleSeen(leader.node, t_ns, LEADER, leader.epoch, scope))

    async def leader(self, *, within_s: float) -> Leadership | None:
        """Returns who leads the first scope; None if no scope has a leader for `within_s`."""
        leaders = await self.leaders(within_s=within_s)
        return leaders[min(leaders)] if leaders else None

    async def wait_until_caught_up(self, nodes: Iterable[int], *, within_s: float) -> bool:
        """Wait until each of these holds all that was acknowledged before this was called.

        Returns False if they do not in time. With the other nodes stopped before, everything that was promised until
        then is on the disks of these.
        """
        wanted = tuple(nodes)
        with trio.move_on_after(within_s):
            while (goal := await self.control.goal()) is None:  # noqa: ASYNC110 - only the nodes know
                await trio.sleep(POLL_S)
            while not all([await self.control.has_reached(node, goal) for node in wanted]):  # noqa: ASYNC110
                await trio.sleep(POLL_S)
            return True
        return False


async def together(do: Callable[[T], Awaitable[None]], nodes: Iterable[T]) -> None:
    """Do it with each of these at the same time."""
    async with trio.open_nursery() as nursery:
        for node in nodes:
            nursery.start_soon(do, node)


@asynccontextmanager
async def open_cluster(
    directory: Path,
    system: System,
    mode: Mode,
    *,
    nodes: int,
    cluster_id: str,
    needs: frozenset[Need] = frozenset(),
    network: Network = Network.PROXIES,
    seed: int = 0,
    tls: bool = False,
    zones: ZonePlan = NO_ZONES,
    doors: ClientDoors = ON_LOOPBACK,
) -> AsyncIterator[Cluster]:
    """Start the processes of `system`, each with `directory`/<id> for its data, events and errors; stop them at the
    end.

    With `tls` all connections speak TLS; the certificates are in `directory`/tls, made if they are missing. Clients
    enter through `doors`, which only a network of proxies can have elsewhere.

    Raises `CannotListen`; `NodeDidNotStart` (in an exception group) if one does not come up; `NoVolumes` or `NoLibrary` if `needs`
    cannot be met; `WrongZones` if the members do not fit into `zones`. No process, no port and no mount is left behind.
    """
    members = system.members_in_zones(nodes, zones.count)
    stand = zones_of(zones, mode, members)
    ids = [member.id for member in members]
    reports = Reports()

    def on_seen(node: int, t_ns: int, seen: Seen) -> None:
        match seen:
            case RoleReported(role, epoch, scope):
                # A node whose clock drifts tells its own time.
                reports.roles.append(RoleSeen(node, machines[node].real_ns(t_ns), role, epoch, scope))
            case LogBegins(offset, is_snapshot):
                reports.starts.append(StartSeen(node, offset, is_snapshot))
            case TurnReported():
                reports.turns.append(TurnSeen(node, machines[node].real_ns(t_ns), seen))
            case Served(what, times):
                reports.served[what] += times
            case Ended():
                reports.roles.append(RoleSeen(node, t_ns, DOWN, 0))
            case Ready() | OwnEnd():
                return
            case _:
                assert_never(seen)

    machines: dict[int, Machine]
    directories = {node: directory / str(node) for node in ids}
    async with contextlib.AsyncExitStack() as stack:
        machines = stack.enter_context(open_machines(directories, needs))
        opened = await stack.enter_async_context(_open_site(network, ids, seed, doors, system.further_ports))
        site = attrs.evolve(opened, zones=stand)
        site.wires.lay(stand.routes())
        papers = _certify(directory / TLS_DIRECTORY, site) if tls else None
        access = Access(
            cluster_id,
            system.keep_secret(directory),
            papers.client if papers else None,
            {name: ports.direct for name, ports in site.further.items()},
        )
        keys = Keys(access.secret, system.secret_steps(), papers)
        processes, plans = {}, {}
        for member in members:
            node, machine = member.id, machines[member.id]
            plan = plans[node] = ProcessPlan(
                member=member,
                cluster_id=cluster_id,
                listen=site.listen[node],
                data=machine.data,
                peers={other: site.peers[node, other] for other in ids if other != node},
                advertised=site.advertised,
                mode=mode,
                secret=access.secret,
                tls=papers.nodes[node] if papers else None,
                boot_id=machine.boot_id,
                zone=stand.zone_of(node),
                further={name: _further_port(ports, node, ids) for name, ports in site.further.items()},
            )
            processes[node] = NodeProcess(
                node, system.command(plan), directories[node], system, on_seen, machine, site.entrance(node)
            )
        async with trio.open_nursery() as nursery:
            cluster = Cluster(access, system, mode, members, processes, plans, site, nursery, reports, keys)
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


def zones_of(plan: ZonePlan, mode: Mode, members: Iterable[Member]) -> ZoneMap:
    """Returns the zones of a cluster with these members. Raises `WrongZones` if they do not fit."""
    with_data = [member.id for member in members if member.holds_data]
    return plan.settle(mode.groups(with_data), [member.id for member in members if not member.holds_data])


def _certify(directory: Path, site: Site) -> "ClusterPapers":
    from jepsen_like.cluster.authority import ClusterPapers  # its package is an extra

    at = (site.listen, site.clients, site.advertised, site.peers, site.direct)
    dialled = [address for each in at for address in each.values()]
    return ClusterPapers(directory, site.listen, hosts=sorted({host for host, _ in dialled}))


def _further_port(ports: FurtherPorts, node: int, nodes: Iterable[int]) -> FurtherPort:
    peers = {other: ports.peers[node, other] for other in nodes if other != node}
    return FurtherPort(listen=ports.listen[node], peers=peers)


def _open_site(
    network: Network, nodes: Iterable[int], seed: int, doors: ClientDoors, further_ports: Iterable[str]
) -> AbstractAsyncContextManager[Site]:
    match network:
        case Network.PROXIES:
            return open_proxies(nodes, doors, further_ports)
        case Network.NAMESPACES:
            assert doors == ON_LOOPBACK, "the option was refused"
            return open_namespaces(nodes, seed, further_ports)
        case _:
            assert_never(network)
