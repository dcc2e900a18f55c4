"""MessageBroker: one process that RocketMQ's clients talk to; inside any Trio program.

    async with MessageBroker.open(plan, tell=tell) as broker:
        await broker.serving.wait()

It owns the parts and their order. Each round of the reactor: requests arrive and are carried out, messages are appended; then, here, waits
that are over end, consumers see what came, delayed messages that are due are delivered, and pulls that wait are answered. What was
written leaves, and then the disk begins to flush.
"""

import contextlib
import os
import random
import secrets
import socket
import time
from collections.abc import AsyncIterator, Mapping
from typing import Final, Self

import attrs
import trio

from log.config import StoreConfig
from log.disk import Disk, RealDisk
from raft.addresses import address_of, is_address
from raft.disk_thread import DiskThread
from raft.net.listener import ListenerLimits, bind
from raft.net.reactor import Reactor
from rocketmq_compat.broker.context import BrokerContext
from rocketmq_compat.broker.delays import DelayedMessages
from rocketmq_compat.broker.ha_links import SocketLinks
from rocketmq_compat.broker.housekeeping import BrokerHousekeeping
from rocketmq_compat.broker.registration import Registration
from rocketmq_compat.broker.replicated_log import ReplicatedLog
from rocketmq_compat.broker.requests.admin import AdminRequests
from rocketmq_compat.broker.requests.clients import ClientRequests
from rocketmq_compat.broker.requests.locks import LockRequests
from rocketmq_compat.broker.requests.offsets import OffsetQueries
from rocketmq_compat.broker.requests.pull import PullRequests
from rocketmq_compat.broker.requests.query import QueryRequests
from rocketmq_compat.broker.requests.send import SendRequests
from rocketmq_compat.broker.slave_sync import SlaveSync
from rocketmq_compat.broker.tables import BrokerTables, load_tables
from rocketmq_compat.config import InvalidProperty, Properties
from rocketmq_compat.config_keys import BROKER_PROPERTIES
from rocketmq_compat.consumers.delays import BadDelayLevels, DelayLevels
from rocketmq_compat.consumers.groups import GroupTable
from rocketmq_compat.consumers.topics import TopicTable
from rocketmq_compat.records import encode_host
from rocketmq_compat.remoting.server import Guest, RemotingServer, Tell
from rocketmq_compat.remoting.session import Handler, RemotingSession
from rocketmq_compat.replication.core import CommitLogReplica
from rocketmq_compat.replication.ha_codec import HANDSHAKE
from rocketmq_compat.replication.model import (
    INCARNATION_MAX,
    MasterEpoch,
    RecoveredCopy,
    ReplicationConfig,
)
from rocketmq_compat.storage.broker_store import MessageStore, MessageStoreConfig
from rocketmq_compat.storage.dispatch import QueueRun

CONNECTIONS_MAX: Final = 65_536
GREETING_TIMEOUT_S: Final = 30.0
BROKER_STOPS: Final = "the broker stops"
VIP_PORT_DISTANCE: Final = 2
"""Old clients send to `listenPort` - 2."""

Address = tuple[str, int]


@attrs.frozen(kw_only=True)
class MessageBrokerPlan:
    """One broker: where it listens, where its directory is, and what it is set to. Raises `InvalidProperty` for settings that do
    not go with each other."""

    listen: Address
    data: str
    ha_listen: Address | None = None
    """Where a master accepts slaves, besides `listen`; None: at `haListenPort` of the same host."""
    advertised: Address | None = None
    """Where clients and slaves reach this broker, if they go through something else; None: `brokerIP1` and where it listens."""
    detours: Mapping[Address, Address] = attrs.field(factory=dict)
    """Where this slave dials its master instead of where the name servers say that it is, if it goes through something else itself."""
    properties: Properties = attrs.field(factory=lambda: Properties.read(BROKER_PROPERTIES))

    def __attrs_post_init__(self) -> None:
        """Refuse what cannot be."""
        properties = self.properties
        is_slave = properties.text("brokerRole") == "SLAVE"
        if is_slave != (properties.number("brokerId") != 0):
            raise InvalidProperty("brokerId", "brokerId is 0 for a master, and another number for a SLAVE.")
        if properties.flag("enableDLegerCommitLog"):
            raise InvalidProperty("enableDLegerCommitLog", "enableDLegerCommitLog=true is not implemented yet.")
        name_servers(properties)
        self.delay_levels()
        master = properties.text("haMasterAddress")
        if master is not None and not is_address(master):
            raise InvalidProperty("haMasterAddress", f"haMasterAddress={master} is no HOST:PORT.")

    def delay_levels(self) -> DelayLevels:
        """Returns the delay levels. Raises `InvalidProperty` for a list that is none."""
        try:
            return DelayLevels.parse(self.properties.words("messageDelayLevel"))
        except BadDelayLevels as error:
            raise InvalidProperty("messageDelayLevel", f"{error}.") from None


def name_servers(properties: Properties) -> list[Address]:
    """Returns the addresses of `namesrvAddr`. Raises `InvalidProperty` for one that is none."""
    addresses = []
    for each in (properties.text("namesrvAddr") or "").split(";"):
        if each.strip():
            if not is_address(each.strip()):
                raise InvalidProperty("namesrvAddr", f"namesrvAddr: {each.strip()} is no HOST:PORT.")
            addresses.append(address_of(each.strip()))
    return addresses


class MessageBroker:
    """One broker, opened by `open`."""

    def __init__(
        self,
        plan: MessageBrokerPlan,
        *,
        reactor: Reactor,
        listening: list[socket.socket],
        ha_listening: socket.socket | None,
        store: MessageStore,
        tell: Tell,
        rng: random.Random,
    ) -> None:
        """Use `open`."""
        properties = plan.properties
        self.serving = trio.Event()
        """Set when clients are served, and one name server knows the broker, if there are any."""
        self._plan = plan
        self._reactor = reactor
        self._store = store
        self._tell = tell
        self._failed = False
        context = self.context = _context(plan, listening[0].getsockname()[:2], store, tell, rng)
        self._delays = DelayedMessages(context, load_tables(context))
        self._disk = DiskThread(reactor)
        self._links = SocketLinks(reactor, tell)
        if ha_listening is not None:
            self._links.listen(ha_listening)
        decider = CommitLogReplica(
            replication_config(properties),
            "slave" if context.is_slave else "master",
            _recovered(store),
            rng.randint(1, INCARNATION_MAX),
        )
        self._replicated = ReplicatedLog(context, decider, self._disk, self._links, self._dispatched)
        context.copy_facts = self._replicated.facts
        self._links.report = self._replicated.step
        self._tables = BrokerTables(context, self._disk, lambda: self._delays.offsets)
        self._housekeeping = BrokerHousekeeping(context, self._tables, self._disk, self._replicated.step)
        self._sync = SlaveSync(context, reactor, self._delays)
        self._registration = Registration(
            context, reactor, name_servers(properties), self._ha_address(), self._master_found
        )
        self._pulls = PullRequests(context)
        self._clients = ClientRequests(context)
        handlers = self._handlers()
        limits = ListenerLimits(
            connections_max=CONNECTIONS_MAX,
            greeting_timeout_s=GREETING_TIMEOUT_S,
            idle_timeout_s=float(properties.number("serverChannelMaxIdleTimeSeconds")),
        )
        guests: Mapping[int, Guest] = {} if context.is_slave else {HANDSHAKE: self._links.take_over}
        self._servers = [
            RemotingServer(
                reactor, each, handlers, limits=limits, tell=tell, on_closed=self._connection_closed, guests=guests
            )
            for each in listening
        ]
        self._armed_for = 0.0
        self._deadline_moved = trio.Event()

    def _handlers(self) -> Mapping[int, Handler]:
        context = self.context
        return {
            **SendRequests(context, self._replicated).handlers(),
            **self._pulls.handlers(),
            **OffsetQueries(context, lambda: self._delays.offsets).handlers(),
            **self._clients.handlers(),
            **LockRequests(context).handlers(),
            **QueryRequests(context).handlers(),
            **AdminRequests(context, self._tables).handlers(),
        }

    def _ha_address(self) -> str:
        """Where slaves reach this broker; empty for a slave, which no other slave copies."""
        if self.context.is_slave:
            return ""
        if self._plan.advertised is not None:
            return self.context.address  # slaves are taken at the port of clients, too
        host = self.context.properties.text("brokerIP2") or self.context.address.rpartition(":")[0]
        return f"{host}:{self._links.address[1]}"

    # ---------------------------------------------------------------- opening and closing

    @classmethod
    @contextlib.asynccontextmanager
    async def open(
        cls,
        plan: MessageBrokerPlan,
        *,
        tell: Tell,
        disk: Disk | None = None,
        rng: random.Random | None = None,
        owns_thread: bool = False,
    ) -> AsyncIterator[Self]:
        """Start the broker and stop it at the end of the block. `tell` is called with what happens.

        Raises `OSError` if a port cannot be bound, and what `MessageStore.open` raises. A failed or full disk or a broken invariant
        is raised out of the block, in an exception group as nurseries make them, and nothing is written any more.
        """
        drawn = rng or random.Random(secrets.randbits(64))
        reactor = Reactor(owns_thread=owns_thread)
        try:
            with contextlib.ExitStack() as sockets:
                listening = [sockets.enter_context(bind(*plan.listen))]
                vip = _bind_vip(plan.listen) if plan.advertised is None else None
                if vip is not None:
                    listening.append(sockets.enter_context(vip))
                ha_listening = None
                if plan.properties.text("brokerRole") != "SLAVE":
                    ha = plan.ha_listen or (plan.listen[0], plan.properties.number("haListenPort"))
                    ha_listening = sockets.enter_context(bind(*ha))
                store = MessageStore.open(disk or RealDisk(), plan.data, _store_config(plan.properties))
                broker: Self | None = None
                try:
                    broker = cls(
                        plan,
                        reactor=reactor,
                        listening=listening,
                        ha_listening=ha_listening,
                        store=store,
                        tell=tell,
                        rng=drawn,
                    )
                    async with broker._run():
                        yield broker
                except BaseException:
                    if broker is not None:
                        broker._failed = True
                    raise
                finally:
                    if broker is not None:
                        broker._close()
                    else:
                        store.abandon()
        finally:
            reactor.close()

    @contextlib.asynccontextmanager
    async def _run(self) -> AsyncIterator[None]:
        context = self.context
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._reactor.run)
            self._reactor.attach(self)
            self._replicated.begin()
            for server in self._servers:
                nursery.start_soon(server.run)
            if context.is_slave:
                self._follow_configured_master()
                nursery.start_soon(self._links.run_dials)
                nursery.start_soon(self._sync.run)
            else:
                nursery.start_soon(self._links.run_listener)
            nursery.start_soon(self._run_timer)
            nursery.start_soon(self._registration.run)
            nursery.start_soon(self._note_serving)
            self._tell("listening", address=context.address, ha_address=self._ha_address())
            try:
                yield
            finally:
                for server in self._servers:
                    server.close(BROKER_STOPS)
                self._links.stop(BROKER_STOPS)
                self._sync.close()
                self._registration.close()
                nursery.cancel_scope.cancel()

    async def shut_down(self) -> None:
        """Let the name servers know first, so that clients ask others at once."""
        await self._registration.unregister()

    def _close(self) -> None:
        """Everything has stopped; keep what a restart would have to find out again."""
        self._reactor.detach(self)
        try:
            for server in self._servers:
                server.close(BROKER_STOPS)
            self._links.stop(BROKER_STOPS)
            if not self._failed:
                self._tables.save()
            self._disk.close()
        except BaseException:
            self._failed = True
            raise
        finally:
            if self._failed:
                self._store.abandon()
            else:
                self._store.close()

    @property
    def address(self) -> Address:
        """Where clients connect."""
        return self._servers[0].address

    @property
    def ha_address(self) -> Address:
        """Where slaves connect to this master."""
        return self._links.address

    @property
    def slaves(self) -> Mapping[int, int]:
        """See `ReplicatedLog.slaves`."""
        return self._replicated.slaves

    @property
    def synced(self) -> trio.Event:
        """Set when a slave has copied the tables of its master once."""
        return self._sync.synced

    # ---------------------------------------------------------------- rounds

    def on_round_end(self) -> None:
        """See `Participant`."""
        now = self.context.clock()
        self._replicated.tick(now)
        self._delays.tick(self._replicated)
        self._replicated.tick(now)  # what was just delivered is seen at once
        self._pulls.tick(now)
        self._clients.tick(now)
        self._housekeeping.tick(now)
        self._registration.tick()

    def on_urgent_sent(self) -> None:
        """See `Participant`."""
        self._replicated.flush_if_due(self.context.clock())
        if self._deadline() < self._armed_for:
            self._deadline_moved.set()

    def on_failed(self) -> None:
        """See `Participant`."""
        self._failed = True

    def _deadline(self) -> float:
        return min(
            self._replicated.deadline,
            self._delays.deadline,
            self._pulls.deadline,
            self._clients.deadline,
            self._housekeeping.deadline,
        )

    async def _run_timer(self) -> None:
        """Request a round whenever something is due."""
        while True:
            self._armed_for = self._deadline()
            self._deadline_moved = trio.Event()
            with trio.move_on_at(self._armed_for):
                await self._deadline_moved.wait()
            if self.context.clock() >= self._deadline():
                self._armed_for = float("inf")
                self._deadline_moved = trio.Event()
                self._reactor.request_round()
                await self._deadline_moved.wait()

    def _dispatched(self, runs: list[QueueRun]) -> None:
        self._delays.arrived(runs)
        self._pulls.arrived(runs)
        if self.context.is_slave:
            self._sync.arrived(run.key[0] for run in runs)

    def _connection_closed(self, session: RemotingSession) -> None:
        self._pulls.connection_closed(session)
        self._clients.connection_closed(session)

    # ---------------------------------------------------------------- the master of a slave

    def _follow_configured_master(self) -> None:
        configured = self.context.properties.text("haMasterAddress")
        if configured is not None:
            self._links.set_master(address_of(configured))

    def _master_found(self, master: str | None, ha: str | None) -> None:
        """A name server has answered."""
        if not self.context.is_slave:
            return
        self._sync.set_master(self._dialed(master))
        if self.context.properties.text("haMasterAddress") is None:
            self._links.set_master(self._dialed(ha))

    def _dialed(self, told: str | None) -> Address | None:
        """Returns where this broker dials an address of a name server's answer; None if it is none."""
        if told is None or not is_address(told):
            return None
        address = address_of(told)
        return self._plan.detours.get(address, address)

    async def _note_serving(self) -> None:
        await self._registration.registered.wait()
        self.serving.set()
        self._tell("serving", role=self.context.properties.words("brokerRole"))


def _context(
    plan: MessageBrokerPlan, bound: Address, store: MessageStore, tell: Tell, rng: random.Random
) -> BrokerContext:
    properties, levels = plan.properties, plan.delay_levels()
    host, port = plan.advertised or (properties.text("brokerIP1") or bound[0], bound[1])
    return BrokerContext(
        properties=properties,
        store=store,
        topics=TopicTable.with_system_topics(
            auto_create=properties.flag("autoCreateTopicEnable"),
            default_queues=properties.number("defaultTopicQueueNums"),
            cluster=properties.words("brokerClusterName"),
            broker_name=properties.words("brokerName"),
            delay_levels=levels.highest,
        ),
        groups=GroupTable(auto_create=properties.flag("autoCreateSubscriptionGroup")),
        levels=levels,
        store_host=encode_host(host, port),
        address=f"{host}:{port}",
        memory_bytes=os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"),
        clock=trio.lowlevel.current_clock().current_time,
        wall_ms=lambda: time.time_ns() // 1_000_000,
        rng=rng,
        tell=tell,
    )


def replication_config(properties: Properties) -> ReplicationConfig:
    """Returns the settings of the decider."""
    return ReplicationConfig(
        broker_name=properties.words("brokerName"),
        broker_id=properties.number("brokerId"),
        sync_master=properties.text("brokerRole") == "SYNC_MASTER",
        sync_flush=properties.text("flushDiskType") == "SYNC_FLUSH",
        flavor="5.x" if properties.text("replicationFlavor") == "5.x" else "4.x",
        divergence="rocketmq" if properties.text("haDivergence") == "rocketmq" else "refuse",
        sync_flush_timeout_s=properties.seconds("syncFlushTimeout"),
        slave_timeout_s=properties.seconds("slaveTimeout"),
        in_sync_replicas=properties.number("inSyncReplicas"),
        min_in_sync_replicas=properties.number("minInSyncReplicas"),
        slave_fallbehind_bytes_max=max(1, properties.number("haSlaveFallbehindMax")),
        heartbeat_s=properties.seconds("haSendHeartbeatInterval"),
        silence_s_max=properties.seconds("haHousekeepingInterval"),
        push_bytes_max=properties.number("haTransferBatchSize"),
        reconnect_s=properties.seconds("haReconnectInterval"),
    )


def _recovered(store: MessageStore) -> RecoveredCopy:
    log = store.log
    return RecoveredCopy(
        log.start_offset,
        log.end_offset,
        log.durable_offset,
        tuple(MasterEpoch(epoch, start) for epoch, start in log.epochs),
    )


def _store_config(properties: Properties) -> MessageStoreConfig:
    segment_bytes = properties.number("mappedFileSizeCommitLog")
    return MessageStoreConfig(log=StoreConfig(segment_bytes_max=segment_bytes, threads=1))


def _bind_vip(listen: Address) -> socket.socket | None:
    """Returns a socket for old clients; None if there is no room for one."""
    host, port = listen
    if port <= VIP_PORT_DISTANCE:
        return None
    try:
        return bind(host, port - VIP_PORT_DISTANCE)
    except OSError:
        return None
