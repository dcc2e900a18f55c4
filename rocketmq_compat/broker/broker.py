"""Broker: one process that serves RocketMQ clients; it runs inside any Trio program.

    async with Broker.open(plan, tell=tell) as broker:
        await broker.serving.wait()

It owns the parts and their order. In each round of the reactor, requests arrive and are carried out, and messages are
appended. Then this module ends waits whose time is over, shows new messages to consumers, delivers delayed messages
that are due, and answers waiting pulls. Written bytes leave, and then the disk begins to flush.
"""

import contextlib
import logging
import os
import random
import secrets
import socket
import time
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any, Final, Self

import attrs
import trio

from log.config import StoreConfig
from log.disk import Disk, RealDisk
from log.errors import CorruptLog
from log.policy import FlushPolicy
from raft.addresses import address_of, is_address
from raft.client_codec import HELLO
from raft.config import MIB, RaftConfig
from raft.directory import IDENTITY_NAME
from raft.disk_thread import DiskThread
from raft.group import RaftGroup
from raft.net.connection import SocketConnection
from raft.net.decoder import Decoder
from raft.net.errors import WireError
from raft.net.listener import Listener, ListenerLimits, bind
from raft.net.reactor import Reactor
from raft.notices import LogTrimmed, Notice, warn_of_long_turns
from raft.settings import NodeSettings
from rocketmq_compat.broker.catch_up import CatchUp
from rocketmq_compat.broker.context import Context
from rocketmq_compat.broker.delays import DelayedMessages
from rocketmq_compat.broker.dledger import GroupMembers
from rocketmq_compat.broker.ha_links import SocketLinks
from rocketmq_compat.broker.housekeeping import Housekeeping
from rocketmq_compat.broker.raft_copy import ForeignCommitLog, RaftCopy
from rocketmq_compat.broker.registration import Registration
from rocketmq_compat.broker.replicated_log import ReplicatedLog
from rocketmq_compat.broker.reporter import Reporter
from rocketmq_compat.broker.requests.admin import AdminRequests
from rocketmq_compat.broker.requests.clients import ClientRequests
from rocketmq_compat.broker.requests.divergence import DivergenceRequests
from rocketmq_compat.broker.requests.locks import LockRequests
from rocketmq_compat.broker.requests.offsets import OffsetQueries
from rocketmq_compat.broker.requests.pull import PullRequests
from rocketmq_compat.broker.requests.query import QueryRequests
from rocketmq_compat.broker.requests.reply import ReplyRequests
from rocketmq_compat.broker.requests.send import SendRequests
from rocketmq_compat.broker.slave_sync import SlaveSync
from rocketmq_compat.broker.tables import BrokerTables, TablesPort, load_tables
from rocketmq_compat.broker.tables_of_pair import TablesOfPair
from rocketmq_compat.config import InvalidProperty, Properties
from rocketmq_compat.config_keys import BROKER_PROPERTIES, DURABLE
from rocketmq_compat.consumers.delays import BadDelayLevels, DelayLevels
from rocketmq_compat.consumers.groups import GroupTable
from rocketmq_compat.consumers.model import RequestRefused
from rocketmq_compat.consumers.topic_names import validate_topic_name
from rocketmq_compat.consumers.topics import TopicTable
from rocketmq_compat.records import encode_host
from rocketmq_compat.remoting.frame import FRAME_BYTES_MAX
from rocketmq_compat.remoting.server import PortSharer, RemotingServer, Tell
from rocketmq_compat.remoting.session import Handler, RemotingSession
from rocketmq_compat.replication.core import CommitLogReplica
from rocketmq_compat.replication.events import TablesCopied
from rocketmq_compat.replication.ha_codec import HANDSHAKE
from rocketmq_compat.replication.model import (
    INCARNATION_MAX,
    MASTER_ID,
    LogReach,
    MasterEpoch,
    RecoveredCopy,
    ReplicationConfig,
)
from rocketmq_compat.storage.broker_store import MessageStore, MessageStoreConfig
from rocketmq_compat.storage.copy_notes import CopyNotes, doubt_of
from rocketmq_compat.storage.dispatch import QueueRun

logger = logging.getLogger(__name__)

CONNECTIONS_MAX: Final = 65_536
GREETING_TIMEOUT_S: Final = 30.0
BROKER_STOPS: Final = "the broker stops"
RAFT_LOG_BYTES: Final = 256 * MIB
RAFT_DIRECTORY: Final = "raft"
VIP_PORT_DISTANCE: Final = 2
"""Old clients send to `listenPort` - 2."""

Address = tuple[str, int]


def boot_of_machine() -> str:
    """Returns an id of this boot of the machine; empty if the system has none."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return ""


@attrs.frozen(kw_only=True)
class BrokerPlan:
    """One broker: the addresses on which it listens, its directory and its settings.

    Raises `InvalidProperty` for settings that contradict each other.
    """

    listen: Address
    data: str
    ha_listen: Address | None = None
    """The address for slaves, in addition to `listen`; None stands for `haListenPort` of the same host."""
    advertised: Address | None = None
    """The address at which clients and slaves reach this broker through a proxy.

    None stands for `brokerIP1` and the port of `listen`.
    """
    detours: Mapping[Address, Address] = attrs.field(factory=dict)
    """The addresses that this slave dials instead of its master's registered ones, if it uses a proxy itself."""
    properties: Properties = attrs.field(factory=lambda: Properties.read(BROKER_PROPERTIES))
    raft: RaftConfig | None = None
    """The timeouts of a raft group; without them `raftElectionTimeout` sets them."""
    raft_log_bytes: int = RAFT_LOG_BYTES
    """The least size of the raft log that is kept; older entries are in the commit log and in the snapshot."""
    boot: str = attrs.field(factory=boot_of_machine)
    """The id of this boot of the machine. Another id than the last time means that unflushed writes are lost."""

    @property
    def election(self) -> RaftConfig:
        """The timeouts of a raft group."""
        return self.raft or RaftConfig.of_election_timeout(self.properties.seconds("raftElectionTimeout"))

    def __attrs_post_init__(self) -> None:
        """Refuse settings that contradict each other."""
        properties = self.properties
        is_slave = properties.text("brokerRole") == "SLAVE"
        members = GroupMembers.of(properties)
        if members is None and is_slave != (properties.number("brokerId") != 0):
            raise InvalidProperty("brokerId", "brokerId is 0 for a master, and another number for a SLAVE.")
        name_servers(properties)
        self.delay_levels()
        try:
            validate_topic_name(properties.words("msgTraceTopicName"))
        except RequestRefused as refused:
            raise InvalidProperty("msgTraceTopicName", f"msgTraceTopicName: {refused.remark}") from None
        master = properties.text("haMasterAddress")
        if master is not None and not is_address(master):
            raise InvalidProperty("haMasterAddress", f"haMasterAddress={master} is no HOST:PORT.")

    def repairs(self, notes: CopyNotes | None) -> bool:
        """Returns True if a damaged commit log may be cut, because other brokers hold its content.

        `notes` comes from its disk.
        """
        config, members = replication_config(self.properties), GroupMembers.of(self.properties)
        if members is not None:
            return len(members.addresses) > 1
        has_others = config.broker_id != MASTER_ID or config.slaves_expected > 0
        return has_others or config.divergence == "rocketmq" or (notes is not None and bool(notes.slaves))

    def delay_levels(self) -> DelayLevels:
        """Returns the delay levels. Raises `InvalidProperty` for a list that is none."""
        try:
            return DelayLevels.parse(self.properties.words("messageDelayLevel"))
        except BadDelayLevels as error:
            raise InvalidProperty("messageDelayLevel", f"{error}.") from None


@attrs.define
class DamageRead(Exception):
    """Damage was read in the commit log or its derived files.

    The broker must be opened again, which repairs its copy.
    """

    damage: CorruptLog

    def __str__(self) -> str:
        return str(self.damage)


def name_servers(properties: Properties) -> list[Address]:
    """Returns the addresses of `namesrvAddr`. Raises `InvalidProperty` for one that is none."""
    addresses = []
    for address in (properties.text("namesrvAddr") or "").split(";"):
        if address.strip():
            if not is_address(address.strip()):
                raise InvalidProperty("namesrvAddr", f"namesrvAddr: {address.strip()} is no HOST:PORT.")
            addresses.append(address_of(address.strip()))
    return addresses


class Broker:
    """One broker, opened by `open`."""

    def __init__(
        self,
        plan: BrokerPlan,
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
        members = self._members = GroupMembers.of(properties)
        context = self.context = _context(plan, listening[0].getsockname()[:2], store, tell, rng)
        self._disk = DiskThread(reactor)
        self._links = SocketLinks(reactor, tell)
        self._copy: RaftCopy | None = None
        self._catch_up: CatchUp | None = None
        self._fixed: ReplicatedLog | None = None
        self._group: RaftGroup | None = None
        self._tables: TablesPort
        if members is not None:
            self._delays = DelayedMessages(context, {})
            self._copy = RaftCopy(context, members.node_id, self._disk, self._delays, self._on_dispatched)
            peers = {node: at for node, at in members.addresses.items() if node != members.node_id}
            self._catch_up = CatchUp(context, reactor, self._copy, peers)
            self._tables = self._copy.tables
        else:
            self._delays = DelayedMessages(context, load_tables(context))
            self._tables = files = BrokerTables(context, self._disk, lambda: self._delays.offsets)
            self._fixed = self._fixed_role(ha_listening, rng, TablesOfPair(context, files, self._delays))
            context.copy_facts = self._fixed.facts
        report = self._fixed.step if self._fixed is not None else lambda event: None
        self._housekeeping = Housekeeping(context, self._tables, self._disk, report)
        self._sync = SlaveSync(context, reactor, self._delays)
        self._registration = Registration(
            context, reactor, name_servers(properties), self._ha_address(), self._master_found
        )
        self._reporter = Reporter(context, self._log)
        self._pulls = PullRequests(context)
        self._clients = ClientRequests(context)
        self._replies = ReplyRequests(context, self._log, self._clients.session_of_producer)
        handlers = self._handlers()
        limits = ListenerLimits(
            connections_max=CONNECTIONS_MAX,
            greeting_timeout_s=GREETING_TIMEOUT_S,
            idle_timeout_s=float(properties.number("serverChannelMaxIdleTimeSeconds")),
        )
        self._servers = [
            RemotingServer(
                reactor,
                socket_,
                handlers,
                limits=limits,
                tell=tell,
                on_closed=self._connection_closed,
                sharers=self._sharers(),
            )
            for socket_ in listening
        ]
        self._armed_for = 0.0
        self._deadline_moved = trio.Event()

    def _fixed_role(
        self, ha_listening: socket.socket | None, rng: random.Random, tables: TablesOfPair
    ) -> ReplicatedLog:
        if ha_listening is not None:
            self._links.listen(ha_listening)
        config, store = replication_config(self.context.properties), self._store
        recovered = _recover(store, self._plan.boot, lacks_tables=bool(self.context.lost_tables))
        decider = CommitLogReplica(
            config, "slave" if self.context.is_slave else "master", recovered, rng.randint(1, INCARNATION_MAX)
        )
        if recovered.doubt is not None:
            floor = recovered.doubt.floor
            reason = None if store.cut is None else str(store.cut)
            self._tell(
                "copy_in_doubt",
                log_end=recovered.log_end,
                floor=None if floor is None else floor.end,
                damage=reason,
                lost_tables=sorted(map(str, self.context.lost_tables)),
            )
        store.copy.change(
            lambda notes: attrs.evolve(
                notes, boot=self._plan.boot, is_running=True, flushes=config.sync_flush, doubt=recovered.doubt
            )
        )
        fixed = ReplicatedLog(self.context, decider, self._disk, self._links, self._on_dispatched, tables)
        self._links.report = fixed.step
        return fixed

    @property
    def _log(self) -> ReplicatedLog | RaftCopy:
        log = self._fixed or self._copy
        assert log is not None, "a broker has a role that is fixed, or a raft group"
        return log

    def _sharers(self) -> Mapping[int, PortSharer]:
        """Returns the other protocols on the clients' port, by the first bytes of a connection."""
        if self._members is not None:
            return {HELLO: self._take_over}
        return {} if self.context.is_slave else {HANDSHAKE: self._links.take_over}

    def _take_over(self, connection: SocketConnection[Any], listener: Listener[Any]) -> Decoder[Any]:
        if self._group is None or listener is not self._servers[0].listener:
            raise WireError("the raft group is not there")
        return self._group.take_over(connection)

    @property
    def epoch(self) -> int:
        """The epoch of the master, to this broker's knowledge; the term in a raft group."""
        return self._log.epoch

    def _handlers(self) -> Mapping[int, Handler]:
        context, fixed = self.context, self._fixed
        handlers = {
            **SendRequests(context, self._log).handlers(),
            **self._pulls.handlers(),
            **OffsetQueries(context, self._tables, lambda: self._delays.offsets).handlers(),
            **self._clients.handlers(),
            **self._replies.handlers(),
            **LockRequests(context).handlers(),
            **QueryRequests(context).handlers(),
            **AdminRequests(context, self._tables, lambda: self.epoch).handlers(),
            **(DivergenceRequests(context, self._fixed).handlers() if self._fixed is not None else {}),
            **(self._catch_up.handlers() if self._catch_up is not None else {}),
        }
        if fixed is None:
            return handlers
        return {code: fixed.when_sure(code, handler) for code, handler in handlers.items()}

    def _ha_address(self) -> str:
        """Returns the address at which slaves reach this broker; empty for a slave, which has no slaves."""
        if self.context.is_slave or self.context.is_raft:
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
        plan: BrokerPlan,
        *,
        tell: Tell,
        disk: Disk | None = None,
        rng: random.Random | None = None,
        owns_thread: bool = False,
    ) -> AsyncIterator[Self]:
        """Start the broker and stop it at the end of the block. `tell` receives its events.

        Raises `OSError` if a port cannot be bound, `DamageRead` if damage was read and other brokers hold the content,
        `ForeignCommitLog`, the errors of `MessageStore.open` and, for a member of a group, of `RaftGroup.open`. A
        failed or full disk or a broken invariant leaves the block as an exception group, as nurseries make them, and
        all writing ends.
        """
        drawn = rng or random.Random(secrets.randbits(64))
        reactor = Reactor(owns_thread=owns_thread)
        warn_of_long_turns(reactor.turns, tell)
        try:
            with contextlib.ExitStack() as sockets:
                listening = [sockets.enter_context(bind(*plan.listen))]
                vip = _bind_vip(plan.listen) if plan.advertised is None else None
                if vip is not None:
                    listening.append(sockets.enter_context(vip))
                ha_listening = None
                is_fixed = GroupMembers.of(plan.properties) is None
                if is_fixed and plan.properties.text("brokerRole") != "SLAVE":
                    ha = plan.ha_listen or (plan.listen[0], plan.properties.number("haListenPort"))
                    ha_listening = sockets.enter_context(bind(*ha))
                store = MessageStore.open(
                    disk or RealDisk(), plan.data, _store_config(plan.properties), repairs=plan.repairs
                )
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
                    async with broker._run(disk or RealDisk()):
                        yield broker
                except BaseException as error:
                    if broker is not None:
                        broker._failed = True
                    damage = damage_in(error)
                    if damage is not None and plan.repairs(store.copy.notes):
                        store.note_damage()
                        raise DamageRead(damage) from error
                    raise
                finally:
                    if broker is not None:
                        broker._close()
                    else:
                        store.abandon()
        finally:
            reactor.close()

    @contextlib.asynccontextmanager
    async def _run(self, disk: Disk) -> AsyncIterator[None]:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._reactor.run)
            for server in self._servers:
                nursery.start_soon(server.run)
            async with self._replicate(disk, nursery):
                nursery.start_soon(self._run_timer)
                nursery.start_soon(self._registration.run)
                nursery.start_soon(self._note_serving)
                self._tell("listening", address=self.context.address, ha_address=self._ha_address())
                try:
                    yield
                finally:
                    for server in self._servers:
                        server.close(BROKER_STOPS)
                    self._links.stop(BROKER_STOPS)
                    self._sync.close()
                    self._registration.close()
                    if self._catch_up is not None:
                        self._catch_up.close()
            nursery.cancel_scope.cancel()

    @contextlib.asynccontextmanager
    async def _replicate(self, disk: Disk, nursery: trio.Nursery) -> AsyncIterator[None]:
        """Begin in the role that is fixed, or as a member of the raft group, until the block ends."""
        if self._members is None:
            self._reactor.attach(self)
            self._begin_fixed(nursery)
            yield
            return
        assert self._copy is not None, "made for a group"
        assert self._catch_up is not None, "made for a group"
        plan, members = self._plan, self._members
        if self._store.log.end_offset and not disk.exists(f"{plan.data}/{RAFT_DIRECTORY}/{IDENTITY_NAME}"):
            self._begin_again(members)
        self._store.copy.change(lambda notes: attrs.evolve(notes, boot=plan.boot, is_running=True, group=members.group))
        durable = plan.properties.text("ack") == DURABLE
        async with RaftGroup.open(
            node_id=members.node_id,
            members=members.addresses,
            directory=f"{plan.data}/{RAFT_DIRECTORY}",
            cluster_id=members.group,
            state_machine=self._copy,
            settings=raft_settings(plan.election, plan.raft_log_bytes, durable=durable),
            disk=disk,
            notify=self._notice,
            reactor=self._reactor,
            listener=self._servers[0].listener,
        ) as group:
            self._copy.open_on(group)
            self._group = group
            self._reactor.attach(self)
            group.campaign()
            nursery.start_soon(self._catch_up.run)
            try:
                yield
            finally:
                self._group = None
                self._copy.close()

    def _begin_again(self, members: GroupMembers) -> None:
        """Begin again after the loss of this member's raft log: keep the commit log aside, and copy the group's.

        Raises `ForeignCommitLog` unless the disk proves that these are messages of this group.
        """
        store = self._store
        if store.copy.notes.group != members.group:
            raise ForeignCommitLog(store.log.directory)
        kept = store.keep_aside(store.log.start_offset)
        store.reset(0)
        self._tell("raft_log_lost", kept=kept)

    def _begin_fixed(self, nursery: trio.Nursery) -> None:
        assert self._fixed is not None, "the role is fixed"
        fixed = self._fixed
        fixed.begin()
        if self.context.is_slave:
            self._sync.on_synced = lambda: fixed.step(TablesCopied())
            self._follow_configured_master()
            nursery.start_soon(self._links.run_dials)
            nursery.start_soon(self._sync.run)
        else:
            nursery.start_soon(self._links.run_listener)

    def _notice(self, notice: Notice) -> None:
        logger.info("%s", notice)
        if isinstance(notice, LogTrimmed):
            self._tell("raft_log_trimmed", start=notice.start_index)

    async def shut_down(self) -> None:
        """Let the name servers know first, so that clients ask others at once."""
        await self._registration.unregister()

    def _close(self) -> None:
        """Close the parts after everything has stopped, and keep the state that spares a restart work."""
        self._reactor.detach(self)
        try:
            for server in self._servers:
                server.close(BROKER_STOPS)
            self._links.stop(BROKER_STOPS)
            if not self._failed:
                if isinstance(self._tables, BrokerTables):
                    self._store.flush()
                    self._tables.save_all()
                else:
                    self._tables.save()
            self._disk.close()
        except BaseException:
            self._failed = True
            raise
        finally:
            if self._failed:
                self._store.abandon()
            else:
                self._note_stop()
                self._store.close()

    def _note_stop(self) -> None:
        """Flush the log and note a clean stop: the log stays as it is until the next start."""
        store = self._store
        store.flush()
        store.copy.note_reach(LogReach(store.log.last_epoch, store.log.end_offset))
        store.copy.change(lambda notes: attrs.evolve(notes, is_running=False))

    @property
    def address(self) -> Address:
        """The address to which clients connect."""
        return self._servers[0].address

    @property
    def ha_address(self) -> Address:
        """The address to which slaves connect at this master."""
        return self._links.address

    @property
    def slaves(self) -> Mapping[int, int]:
        """See `ReplicatedLog.slaves`."""
        return self._fixed.slaves if self._fixed is not None else {}

    @property
    def synced(self) -> trio.Event:
        """Set when a slave has copied the tables of its master once."""
        return self._sync.synced

    # ---------------------------------------------------------------- rounds

    def on_round_end(self) -> None:
        """See `Participant`."""
        now = self.context.clock()
        self._log.tick(now)
        self._delays.tick(self._log)
        self._log.tick(now)  # what was just delivered is seen at once
        self._pulls.tick(now)
        self._clients.tick(now)
        self._replies.tick(now)
        self._housekeeping.tick(now)
        self._registration.tick()
        self._reporter.tick(now)

    def on_urgent_sent(self) -> None:
        """See `Participant`."""
        self._log.flush_if_due(self.context.clock())
        if self._deadline() < self._armed_for:
            self._deadline_moved.set()

    def on_failed(self) -> None:
        """See `Participant`."""
        self._failed = True

    def _deadline(self) -> float:
        return min(
            self._log.deadline,
            self._delays.deadline,
            self._pulls.deadline,
            self._clients.deadline,
            self._replies.deadline,
            self._housekeeping.deadline,
            self._reporter.deadline,
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

    def _on_dispatched(self, runs: list[QueueRun]) -> None:
        self._delays.on_arrived(runs)
        self._pulls.on_arrived(runs)
        if self._fixed is not None and self.context.is_slave:
            self._sync.on_arrived(run.key[0] for run in runs)

    def _connection_closed(self, session: RemotingSession) -> None:
        self._pulls.connection_closed(session)
        self._clients.connection_closed(session)
        self._replies.connection_closed(session)

    # ---------------------------------------------------------------- the master of a slave

    def _follow_configured_master(self) -> None:
        configured = self.context.properties.text("haMasterAddress")
        if configured is not None:
            self._links.set_master(address_of(configured))

    def _master_found(self, master: str | None, ha: str | None) -> None:
        """Take a name server's addresses of the master."""
        if self._fixed is None or not self.context.is_slave:
            return
        self._sync.set_master(self._address_to_dial(master))
        if self.context.properties.text("haMasterAddress") is None:
            self._links.set_master(self._address_to_dial(ha))

    def _address_to_dial(self, told: str | None) -> Address | None:
        """Returns the address to dial for an address from a name server, or None if `told` is not an address."""
        if told is None or not is_address(told):
            return None
        address = address_of(told)
        return self._plan.detours.get(address, address)

    async def _note_serving(self) -> None:
        await self._registration.registered.wait()
        self.serving.set()
        self._tell("serving", role=self.context.role)
        if self._fixed is not None and self._fixed.objection is None:
            role = "slave" if self.context.is_slave else "master"
            self._tell("role", role=role, epoch=self._fixed.epoch, broker=self.context.broker_name)


def _context(plan: BrokerPlan, bound: Address, store: MessageStore, tell: Tell, rng: random.Random) -> Context:
    properties, levels, members = plan.properties, plan.delay_levels(), GroupMembers.of(plan.properties)
    host, port = plan.advertised or (properties.text("brokerIP1") or bound[0], bound[1])
    return Context(
        properties=properties,
        store=store,
        topics=TopicTable.with_system_topics(
            auto_create=properties.flag("autoCreateTopicEnable"),
            default_queues=properties.number("defaultTopicQueueNums"),
            cluster=properties.words("brokerClusterName"),
            broker_name=properties.words("brokerName"),
            delay_levels=levels.highest,
            trace_topic=properties.words("msgTraceTopicName") if properties.flag("traceTopicEnable") else None,
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
        node_id=None if members is None else members.node_id,
    )


def replication_config(properties: Properties) -> ReplicationConfig:
    """Returns the settings of the decider."""
    return ReplicationConfig(
        broker_name=properties.words("brokerName"),
        broker_id=properties.number("brokerId"),
        sync_master=properties.text("brokerRole") == "SYNC_MASTER",
        total_replicas=properties.number("totalReplicas"),
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


def raft_settings(raft: RaftConfig, log_bytes: int, *, durable: bool) -> NodeSettings:
    """Returns the settings of the group: a command may be a client's whole batch, as large as a frame of RocketMQ's."""
    return NodeSettings(
        raft=raft,
        flush=FlushPolicy.BEFORE_ACK if durable else FlushPolicy.INTERVAL,
        frame_bytes_max=FRAME_BYTES_MAX + MIB,
        batch_bytes_max=3 * MIB,
        retention_bytes=log_bytes,
        segment_bytes_max=max(log_bytes // 4, 64 * 1024),
    )


def _recover(store: MessageStore, boot: str, *, lacks_tables: bool) -> RecoveredCopy:
    log, copy = store.log, store.copy
    reach = LogReach(log.last_epoch, log.end_offset)
    return RecoveredCopy(
        log.start_offset,
        log.end_offset,
        log.durable_offset,
        tuple(MasterEpoch(epoch, start) for epoch, start in log.epochs),
        doubt_of(copy, boot=boot, reach=reach, cut=store.cut, lacks_tables=lacks_tables),
        copy.notes.slaves,
    )


def damage_in(error: BaseException) -> CorruptLog | None:
    """Returns the damage that ended a broker, or None for another cause."""
    if isinstance(error, BaseExceptionGroup):
        return next((found for each in error.exceptions if (found := damage_in(each)) is not None), None)
    return error if isinstance(error, CorruptLog) else None


def _store_config(properties: Properties) -> MessageStoreConfig:
    segment_bytes = properties.number("mappedFileSizeCommitLog")
    return MessageStoreConfig(log=StoreConfig(segment_bytes_max=segment_bytes, threads=1))


def _bind_vip(listen: Address) -> socket.socket | None:
    """Returns a socket for old clients, or None without a free port for it."""
    host, port = listen
    if port <= VIP_PORT_DISTANCE:
        return None
    try:
        return bind(host, port - VIP_PORT_DISTANCE)
    except OSError:
        return None
