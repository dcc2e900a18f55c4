"""RocketMQ clusters that a test can break: `LocalRocketMq` in this process, `RocketMqProcesses` in real ones.

Unmodified clients connect to `namesrv_addr`, behind fault proxies like the ways between brokers. The loop that this
runs in carries all that traffic: blocking clients belong in another thread, as with the fixtures and `sync`.
"""

import random
import sys
from abc import abstractmethod
from collections import Counter
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

import attrs
import trio

from jepsen_like.cluster.cluster import Cluster, open_cluster
from jepsen_like.cluster.location import Site, open_proxies
from jepsen_like.cluster.ports import LOOPBACK
from jepsen_like.port.port import Member, ProcessPlan, TlsPaths
from jepsen_like.port.wires import Address, Wires, text_of
from jepsen_like.systems.rocketmq.connection import NoBrokerAnswer
from jepsen_like.systems.rocketmq.processes import BROKER, NAMESERVER, tls_words
from jepsen_like.systems.rocketmq.system import RocketMqSystem
from jepsen_like.testing.certified import Papers, papers_of
from jepsen_like.testing.faulty import PATIENCE_S, FaultyCluster, WaitedTooLong, zones_planned
from jepsen_like.testing.processes import DataProcesses, home_of
from jepsen_like.testing.rocketmq.copies import CopyStatus, queues_of, registered_at, status_of
from jepsen_like.testing.rocketmq.groups import MASTER_ID, OF_NAME_SERVER, BrokerGroups
from jepsen_like.testing.rocketmq.ledger import (
    WIPED,
    WITHOUT_POWER,
    AcknowledgedMessage,
    CopyLedger,
    CopyPromise,
    GroupCopies,
    RocketVerdict,
)
from jepsen_like.testing.threaded import DATA, TellOf, ThreadedCluster
from log.disk import Disk
from raft.loop_thread import Opener
from raft.secret_file import credentials_of, fresh_secret, read_secret
from raft.trust import ADMIN, SecretSource
from rocketmq_compat.broker.broker import Broker, BrokerPlan
from rocketmq_compat.broker.fixed_roles import replication_config
from rocketmq_compat.config import Properties
from rocketmq_compat.config_keys import BROKER_PROPERTIES, NAMESRV_PROPERTIES
from rocketmq_compat.nameserver.server import NameServer, NameServerPlan
from rocketmq_compat.replication.acks import SendStatus, copies_needed

CLUSTER_ID: Final = "test"
FIRST_GROUP: Final = "broker-a"
POLL_S: Final = 0.01
ANY_PORT: Final = (LOOPBACK, 0)


@attrs.frozen
class MasterPlace:
    """The broker that is the master of a group."""

    name: str
    node: int
    address: str
    """The address at which clients reach it, HOST:PORT."""


class BreakableRocketMq(FaultyCluster):
    """The common part of both kinds.

    Nodes are named by numbers: the brokers from 1 on, group by group, each a master and its slaves, and `name_server`
    after them; `ValueError` for any other.
    """

    def __init__(
        self,
        groups: BrokerGroups,
        clients: Mapping[int, Address],
        direct: Mapping[int, Address],
        wires: Wires,
        tls: TlsPaths | None,
        secret: SecretSource,
    ) -> None:
        """Use `open`."""
        self._secret = secret
        super().__init__(CLUSTER_ID, groups.nodes, [text_of(clients[node]) for node in groups.nodes], wires)
        self.tls = tls
        self.groups = groups
        self.ledger = CopyLedger(promise_of(groups))
        self._clients = dict(clients)
        self._direct = dict(direct)

    @property
    def brokers(self) -> tuple[int, ...]:
        """The brokers, without the name server."""
        return self.groups.brokers

    @property
    def name_server(self) -> int:
        """The name server, to which faults can happen as to brokers."""
        return self.groups.name_server

    @property
    def namesrv_addr(self) -> str:
        """As every client takes it."""
        return text_of(self._clients[self.name_server])

    def note_acknowledged(
        self,
        topic: str,
        queue_id: int,
        queue_offset: int,
        body: bytes,
        *,
        broker_name: str = FIRST_GROUP,
        status: int = SendStatus.SEND_OK,
        address: str = "",
        since: int | None = None,
    ) -> None:
        """Have `check` look for this message, which a broker acknowledged; from any thread.

        `status` is the number of RocketMQ's response code; `address` is that of the broker, if it is not the master of
        now; `since` is what `CopyLedger.now` was before it was sent, if a fault may have come between.
        """
        nodes = {told: node for node, told in zip(self.nodes, self.addresses, strict=True)}
        master = nodes[address] if address else self.groups.master_of(broker_name)
        moment = self.ledger.now if since is None else since
        message = AcknowledgedMessage((topic, queue_id), queue_offset, body, SendStatus(status), master, moment)
        self.ledger.on_acknowledged(broker_name, message)

    @abstractmethod
    def _can_answer(self, node: int) -> bool:
        """Returns True if this node is up and does not stand still."""

    @abstractmethod
    def _exchange(self, one: int, other: int) -> None:
        """From their next start on, these brokers have the roles that `groups` tells."""

    # ---------------------------------------------------------------- who is what

    async def master(self, broker_name: str = FIRST_GROUP, *, within_s: float = PATIENCE_S) -> MasterPlace:
        """Returns a group's master, once clients find and reach it. Raises `WaitedTooLong` if there is none in time."""
        with trio.move_on_after(within_s):
            while True:
                node = self.groups.master_of(broker_name)
                if self._can_answer(node) and node not in self._cut_clients and await self._is_found(node):
                    return MasterPlace(broker_name, node, text_of(self._clients[node]))
                await trio.sleep(POLL_S)
        raise WaitedTooLong(f"{broker_name} has no master that clients can reach within {within_s:g} s")

    async def _is_found(self, node: int) -> bool:
        """Returns True if a name server gives clients this broker as it is; without one they keep what they know."""
        try:
            await status_of(self._direct[node])
            known = await self._fetch_registered() if self._can_answer(self.name_server) else self._addresses()
        except NoBrokerAnswer:
            return False
        name, broker_id = self.groups.name_of(node), self.groups.id_of(node)
        return known.get((name, broker_id)) == text_of(self._clients[node])

    async def _fetch_registered(self) -> dict[tuple[str, int], str]:
        return await registered_at(self._direct[self.name_server])

    def _addresses(self) -> dict[tuple[str, int], str]:
        groups = self.groups
        return {(groups.name_of(each), groups.id_of(each)): text_of(self._clients[each]) for each in self.brokers}

    async def wait_until_serving(self, *, within_s: float = PATIENCE_S) -> None:
        """Wait until all brokers are known, masters have all slaves, no copy is in doubt. Raises `WaitedTooLong`."""
        why = "no broker answers"
        with trio.move_on_after(within_s):
            while True:
                try:
                    why = await self._why_not_serving()
                except NoBrokerAnswer as error:
                    why = str(error)
                if not why:
                    return
                await trio.sleep(POLL_S)
        raise WaitedTooLong(f"the brokers do not all serve within {within_s:g} s: {why}")

    async def _why_not_serving(self) -> str:
        if await self._fetch_registered() != self._addresses():
            return f"the name server knows {sorted(await self._fetch_registered())}"
        for name in self.groups.names:
            members, master = self.groups.members(name), self.groups.master_of(name)
            slaves = {self.groups.id_of(each) for each in members} - {MASTER_ID}
            statuses = {each: await status_of(self._direct[each]) for each in members}
            if statuses[master].slaves != slaves:
                return f"broker {master} has not taken all of its slaves"
            for node, status in statuses.items():
                if status.doubt:
                    return f"broker {node}: {status.doubt}"
        return ""

    async def promote(self, node: int, *, within_s: float = PATIENCE_S) -> int:
        """Do what an operator does: start this slave as the master of its group. The result is the former master.

        A former master that is up is killed first, since two would both take messages; from its next start on it is a
        slave. If its log has what the new master lacks, it is refused, and the new master takes no messages while it
        asks: `wipe` it, or leave it down. Returns when clients find the new master and the slaves that reach it follow
        it. Raises `ValueError` for a master or a name server, and `WaitedTooLong`.
        """
        former = self.groups.promote(node)
        self._exchange(node, former)
        if former not in self._without_power:
            await self.kill(former)
        await self.stop(node)
        self.ledger.on_promoted(self.groups.members(self.groups.name_of(node)))
        await self.start(node)
        self.tell(node, "promoted")
        with trio.move_on_after(within_s):
            while not await self._is_followed(node):  # noqa: ASYNC110 - only the brokers know
                await trio.sleep(POLL_S)
            return former
        raise WaitedTooLong(
            f"broker {node} is not found by clients, or not followed by its slaves, within {within_s:g} s"
        )

    async def _is_followed(self, node: int) -> bool:
        """Returns True if clients and slaves know of a new master, those that can."""
        reached = [each for each in self.groups.members(self.groups.name_of(node)) if self._can_learn(each)]
        if node not in reached:
            return True  # nothing of this can be learned until the ways to it are open
        slaves = {self.groups.id_of(each) for each in reached if not self._is_cut(each, node)} - {MASTER_ID}
        try:
            status = await status_of(self._direct[node])
        except NoBrokerAnswer:
            return False
        return slaves <= status.slaves | status.diverged and (node in self._cut_clients or await self._is_found(node))

    def _can_learn(self, node: int) -> bool:
        """Returns True if a name server can tell this broker who its master is."""
        both = (node, self.name_server)
        return all(map(self._can_answer, both)) and not self._is_cut(*both)

    def _is_cut(self, one: int, other: int) -> bool:
        return not self._cut.isdisjoint({(one, other), (other, one)})

    def _note_harm(self, nodes: tuple[int, ...], harm: str) -> None:
        for name in self.groups.names:
            members = self.groups.members(name)
            hit = [node for node in nodes if node in members]
            if hit:
                self.ledger.on_harm(hit, harm, members)

    # ---------------------------------------------------------------- promises

    async def check(self, *, within_s: float = 3 * PATIENCE_S) -> RocketVerdict:
        """Heal and start everything, wait until every slave has what its master has, or is refused by it, compare the
        queues of all copies, and look for everything that is known to be acknowledged. Call it when no client writes
        any more. Raises `WaitedTooLong`.
        """
        await self.heal()
        await self.start()
        why = "no broker answers"
        with trio.move_on_after(within_s):
            while True:
                try:
                    return self.ledger.verdict({name: await self._copies(name) for name in self.groups.names})
                except NoBrokerAnswer as error:
                    why = str(error)
                await trio.sleep(POLL_S)
        raise WaitedTooLong(f"the brokers do not agree {within_s:g} s after everything was healed: {why}")

    async def _copies(self, name: str) -> GroupCopies:
        """Returns the copies of a group's brokers. Raises `NoBrokerAnswer` while some are still catching up."""
        statuses = {node: await status_of(self._direct[node]) for node in self.groups.members(name)}
        master = self.groups.master_of(name)
        for node, status in statuses.items():
            if status.dispatched != status.log_end:
                raise NoBrokerAnswer(f"the queues of broker {node} lack what its log has")
            self._require_settled(node, status, statuses[master])
        also = self.ledger.queues(name)
        brokers_cluster = Properties.read(BROKER_PROPERTIES, self.groups.words(master)).words("brokerClusterName")
        operator = credentials_of(self._secret, brokers_cluster, ADMIN)
        queues = {
            node: await queues_of(self._direct[node], also, status, operator) for node, status in statuses.items()
        }
        diverged = {node for node in statuses if self.groups.id_of(node) in statuses[master].diverged}
        return GroupCopies(master, queues, frozenset(diverged))

    def _require_settled(self, node: int, status: CopyStatus, master: CopyStatus) -> None:
        broker_id = self.groups.id_of(node)
        if broker_id == MASTER_ID or broker_id in master.diverged:
            return
        if not self.ledger.promise.compares and status.log_end > master.log_end:
            return  # as RocketMQ: it waits until the master is as far
        if broker_id not in master.slaves or status.log_end != master.log_end:
            raise NoBrokerAnswer(f"broker {node} is at {status.log_end}, its master at {master.log_end}")


def promise_of(groups: BrokerGroups) -> CopyPromise:
    """Returns what the settings of all brokers promise."""
    broker = groups.master_of(groups.names[0])
    config = replication_config(Properties.read(BROKER_PROPERTIES, groups.words(broker)))
    return CopyPromise(copies_needed(config, 1) - 1, config.sync_flush, config.divergence == "refuse")


class LocalRocketMq(ThreadedCluster, BreakableRocketMq):
    """A name server and brokers in threads of this process, on disks in memory. Made by `open`."""

    _wiped_directory = DATA

    def __init__(self, groups: BrokerGroups, site: Site, rng: random.Random, papers: Papers) -> None:
        """Use `open`."""
        super().__init__(groups, site.clients, site.direct, site.wires, papers.client, fresh_secret())
        self._papers = papers
        self._power_cuts: Counter[int] = Counter()
        self._install(site, rng)

    @classmethod
    @asynccontextmanager
    async def open(
        cls,
        *,
        pairs: int = 1,
        slaves: int = 1,
        sync: bool = False,
        properties: Mapping[str, object] | None = None,
        seed: int = 0,
        tls: bool = False,
        zones: str = "",
        zone_delay_s: float = 0.0,
    ) -> AsyncIterator["LocalRocketMq"]:
        """Start a name server and `pairs` masters, each with so many slaves, until all serve; stop them at the end.

        `zones` are as of `quorumlog run`. `sync`: the masters are SYNC_MASTERs. `properties` are those of brokers, by RocketMQ's names.

        With `tls` all processes speak TLS to each other, and take it from clients as well as plain text.
        Raises `WrongMode` for a property or value that does not exist, `WaitedTooLong` if they do not serve in time.
        """
        groups = BrokerGroups.of(pairs=pairs, slaves=slaves, sync=sync, properties=properties or {})
        with papers_of(groups.nodes, tls=tls) as papers:
            async with open_proxies(groups.nodes) as site:
                cluster = cls(groups, site, random.Random(seed), papers)
                cluster._stand(zones_planned(zones, zone_delay_s).settle(groups.all(), [groups.name_server]))
                try:
                    await cluster.start()
                    await cluster.wait_until_serving()
                    yield cluster
                finally:
                    with trio.CancelScope(shield=True):
                        await cluster._end(*cluster.nodes)

    def _opener(self, node: int, disk: Disk, rng: random.Random, tell: TellOf) -> Opener[Broker | NameServer]:
        site, groups = self._site, self.groups
        sealed = tls_words(self._papers.nodes.get(node))
        if node == groups.name_server:
            names = NameServerPlan(
                listen=site.listen[node],
                properties=Properties.read(NAMESRV_PROPERTIES, [*OF_NAME_SERVER, *sealed]),
                secret=self._secret,
            )
            return lambda: NameServer.open(names, tell=tell)
        name_server = f"namesrvAddr={text_of(site.peers[node, groups.name_server])}"
        plan = BrokerPlan(
            listen=site.listen[node],
            ha_listen=ANY_PORT,
            advertised=site.clients[node],
            detours={site.clients[other]: site.peers[node, other] for other in groups.brokers if other != node},
            data=DATA,
            properties=Properties.read(BROKER_PROPERTIES, [*groups.words(node), name_server, *sealed]),
            boot=f"boot {self._power_cuts[node]}",
            secret=self._secret,
        )
        return lambda: Broker.open(plan, tell=tell, disk=disk, rng=rng)

    async def _leave(self, server: Broker | NameServer) -> None:
        """A broker tells the name servers, so that clients ask others at once."""
        if isinstance(server, Broker):
            await server.shut_down()

    def _on_broken(self, what: str) -> None:
        self.ledger.on_broken(what)

    def _exchange(self, one: int, other: int) -> None:
        """Exchange two brokers before the next start: processes are started from `groups`."""

    async def power(self, *nodes: int) -> None:
        """See `ThreadedCluster`."""
        await super().power(*nodes)
        self._power_cuts.update(nodes)
        self._note_harm(nodes, WITHOUT_POWER)

    async def wipe(self, *nodes: int) -> None:
        """See `ThreadedCluster`."""
        await super().wipe(*nodes)
        self._note_harm(nodes, WIPED)


class _GroupsSystem(RocketMqSystem):
    """The processes of several groups, with roles as an operator gives them."""

    def __init__(self, groups: BrokerGroups) -> None:
        self._groups = groups
        self._plans: dict[int, ProcessPlan] = {}

    def members_in_zones(self, nodes: int, zones: int = 1) -> tuple[Member, ...]:
        """The name server first, so that brokers find it."""
        groups = self._groups
        name_server = Member(groups.name_server, NAMESERVER, holds_data=False)
        return (name_server, *(Member(node, BROKER) for node in groups.brokers))

    def command(self, plan: ProcessPlan) -> list[str]:
        """As the roles are now."""
        self._plans[plan.member.id] = plan
        command = [sys.executable, "-m", "rocketmq_compat.process", plan.member.role, "--listen", text_of(plan.listen)]
        if plan.secret is not None:
            command += ["--secret-file", str(plan.secret)]
        words = list(OF_NAME_SERVER)
        if plan.member.role == BROKER:
            node, groups = plan.member.id, self._groups
            command += ["--ha-listen", text_of(ANY_PORT), "--data", str(plan.data)]
            command += ["--advertise", text_of(plan.advertised[node])]
            if plan.boot_id:
                command += ["--boot-id", plan.boot_id]
            for other in groups.brokers:
                if other != node:
                    command += ["--detour", f"{text_of(plan.advertised[other])}={text_of(plan.peers[other])}"]
            words = [*groups.words(node), f"namesrvAddr={text_of(plan.peers[groups.name_server])}"]
        for word in (*words, *tls_words(plan.tls)):
            command += ["--set", word]
        return command

    def command_now(self, node: int) -> list[str]:
        """The command of a node whose role has changed."""
        return self.command(self._plans[node])


class RocketMqProcesses(DataProcesses, BreakableRocketMq):
    """A name server and brokers as processes of their own, on the real disk. Made by `open`."""

    def __init__(self, groups: BrokerGroups, system: _GroupsSystem, cluster: Cluster) -> None:
        """Use `open`."""
        access = cluster.access
        assert access.secret is not None, "each cluster gets one"
        secret = read_secret(access.secret)
        super().__init__(groups, cluster.client_addresses, cluster.direct, cluster.network, access.tls, secret)
        self._install(cluster)
        self._system = system

    @classmethod
    @asynccontextmanager
    async def open(
        cls,
        *,
        pairs: int = 1,
        slaves: int = 1,
        sync: bool = False,
        properties: Mapping[str, object] | None = None,
        directory: Path | None = None,
        tls: bool = False,
        zones: str = "",
        zone_delay_s: float = 0.0,
    ) -> AsyncIterator["RocketMqProcesses"]:
        """Like `LocalRocketMq.open`. Without a `directory` the files are removed at the end.

        Raises `WrongMode`; `NodeDidNotStart`, in an exception group; `WaitedTooLong`.
        """
        groups = BrokerGroups.of(pairs=pairs, slaves=slaves, sync=sync, properties=properties or {})
        system, brokers = _GroupsSystem(groups), len(groups.brokers)
        mode, plan = groups.mode, zones_planned(zones, zone_delay_s)
        with home_of(directory) as home:
            opening = open_cluster(home, system, mode, nodes=brokers, cluster_id=CLUSTER_ID, tls=tls, zones=plan)
            async with opening as running:
                cluster = cls(groups, system, running)
                await cluster.wait_until_serving(within_s=3 * PATIENCE_S)
                yield cluster

    def _exchange(self, one: int, other: int) -> None:
        for node in (one, other):
            self._cluster.nodes[node].command = self._system.command_now(node)

    async def wipe(self, *nodes: int) -> None:
        """See `DataProcesses`."""
        await super().wipe(*nodes)
        self._note_harm(nodes, WIPED)
