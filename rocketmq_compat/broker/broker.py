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
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Final, Self

import attrs
import trio

from log.config import StoreConfig
from log.disk import Disk, RealDisk, this_boot
from log.errors import CorruptLog
from raft.addresses import address_of, is_address, is_loopback
from raft.config import RaftConfig
from raft.disk_thread import DiskThread
from raft.metrics import FLUSH_SECONDS, FLUSHES, Figure, loop_figures
from raft.net.listener import ListenerLimits, bind
from raft.net.reactor import Reactor
from raft.net.rounds import Rounds
from raft.net.running_clock import RunningClock
from raft.notices import warn_of_long_turns
from raft.secret_file import credentials_of
from raft.trust import SecretSource
from rocketmq_compat.broker.authorization import Authorization
from rocketmq_compat.broker.context import Context, handlers_of
from rocketmq_compat.broker.dledger import GroupMembers
from rocketmq_compat.broker.fixed_roles import FixedRoles, has_other_copies, replication_config
from rocketmq_compat.broker.housekeeping import Housekeeping
from rocketmq_compat.broker.metrics import COMMIT_LOG, broker_figures
from rocketmq_compat.broker.policies import Policies
from rocketmq_compat.broker.raft_group import RAFT_LOG_BYTES, RaftGroupReplication, raft_settings
from rocketmq_compat.broker.registration import Registration
from rocketmq_compat.broker.replication_port import Replication
from rocketmq_compat.broker.reporter import Reporter
from rocketmq_compat.broker.requests.admin import AdminRequests
from rocketmq_compat.broker.requests.clients import ClientRequests
from rocketmq_compat.broker.requests.locks import LockRequests
from rocketmq_compat.broker.requests.offsets import OffsetQueries
from rocketmq_compat.broker.requests.pull import PullRequests
from rocketmq_compat.broker.requests.query import QueryRequests
from rocketmq_compat.broker.requests.reply import ReplyRequests
from rocketmq_compat.broker.requests.send import SendRequests
from rocketmq_compat.config import InvalidProperty, Properties
from rocketmq_compat.config_keys import BROKER_PROPERTIES
from rocketmq_compat.consumers.delays import BadDelayLevels, DelayLevels
from rocketmq_compat.consumers.groups import GroupTable
from rocketmq_compat.consumers.model import RequestRefused
from rocketmq_compat.consumers.topic_names import validate_topic_name
from rocketmq_compat.consumers.topics import TopicTable
from rocketmq_compat.membership import REMOTING, BrokerCredentials, Membership, broker_named, is_of_group, is_operator
from rocketmq_compat.records import encode_host
from rocketmq_compat.remoting.codes import RequestCode
from rocketmq_compat.remoting.server import MEMBER_PLACES, RemotingServer, Tell, budget_of
from rocketmq_compat.remoting.session import Handler, RemotingSession
from rocketmq_compat.storage.broker_store import MessageStore, MessageStoreConfig
from rocketmq_compat.storage.copy_notes import CopyNotes
from rocketmq_compat.storage.dispatch import QueueRun
from rocketmq_compat.tls import Tls, tls_of

logger = logging.getLogger(__name__)

OF_BROKERS: Final = {RequestCode.GET_ALL_CONSUMER_OFFSET, RequestCode.GET_ALL_DELAY_OFFSET, RequestCode.COPY_COMMIT_LOG}
"""The requests of brokers of this one's name alone."""
OF_TOOLS: Final = {
    RequestCode.GET_ALL_TOPIC_CONFIG,
    RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG,
    RequestCode.GET_TOPIC_CONFIG,
}
"""The other tables that slaves copy: for brokers of this name and operators; where there are accounts, for an `admin`."""
OF_OPERATORS: Final = {RequestCode.DECIDE_DIVERGENCE}
CONNECTIONS_MAX: Final = 65_536
GREETING_TIMEOUT_S: Final = 30.0
BROKER_STOPS: Final = "the broker stops"
VIP_PORT_DISTANCE: Final = 2
"""Old clients send to `listenPort` - 2."""

Address = tuple[str, int]


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
    joins: bool = False
    """True if the raft group began without this broker: an operator makes it a member."""
    raft_log_bytes: int = RAFT_LOG_BYTES
    """The least size of the raft log that is kept; older entries are in the commit log and in the snapshot."""
    secret: SecretSource | None = None
    """The secret by which brokers and name servers know each other. Without it, all that connect are believed."""
    insecure: bool = False
    """True if it may listen beyond loopback without a secret."""
    boot: str = attrs.field(factory=this_boot)
    """The id of this boot of the machine. Another id than the last time means that unflushed writes are lost."""

    @property
    def slaves_at(self) -> Address | None:
        """The address at which a master listens for slaves; None for a slave and for a member of a raft group."""
        properties = self.properties
        if GroupMembers.of(properties) is not None or properties.text("brokerRole") == "SLAVE":
            return None
        return self.ha_listen or (self.listen[0], properties.number("haListenPort"))

    @property
    def listens_at(self) -> tuple[Address, ...]:
        """All addresses on which it listens."""
        return (self.listen,) if self.slaves_at is None else (self.listen, self.slaves_at)

    @property
    def election(self) -> RaftConfig:
        """The timeouts of a raft group."""
        return self.raft or RaftConfig.of_election_timeout(self.properties.seconds("raftElectionTimeout"))

    def __attrs_post_init__(self) -> None:
        """Refuse settings that contradict each other."""
        properties = self.properties
        if properties.flag("aclEnable") and properties.text("aclFile") is None:
            raise InvalidProperty("aclFile", "aclEnable=true needs accounts: set aclFile to the file that has them.")
        if properties.flag("authorizationEnabled") and not properties.flag("authenticationEnabled"):
            detail = "authorizationEnabled=true needs users who have proven themselves: set authenticationEnabled=true."
            raise InvalidProperty("authorizationEnabled", detail)
        if properties.flag("aclEnable") and properties.flag("authenticationEnabled"):
            detail = (
                "aclEnable has accounts in a file (ACL 1.0), authenticationEnabled users (ACL 2.0): set one of them."
            )
            raise InvalidProperty("aclEnable", detail)
        is_slave = properties.text("brokerRole") == "SLAVE"
        members = GroupMembers.of(properties)
        if self.joins and members is None:
            raise InvalidProperty("dLegerPeers", "only a broker of a raft group joins one: set enableDLegerCommitLog.")
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
        members = GroupMembers.of(self.properties)
        if members is not None:
            return len(members.addresses) > 1
        return has_other_copies(replication_config(self.properties), notes)

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
        tls: Tls,
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
        clock = RunningClock(trio.lowlevel.current_clock().current_time)
        context = self.context = _context(plan, listening[0].getsockname()[:2], store, tell, clock, rng)
        trust = None if plan.secret is None else _credentials(plan.secret, context)
        self._disk = DiskThread(reactor)
        replication = self._replication = self._make_replication(ha_listening, rng, trust, tls)
        self._log = replication.log
        self._authorization = Authorization.of(context) or Policies.of(context, self._disk)
        self._housekeeping = Housekeeping(context, replication.tables, self._disk, replication.on_log_trimmed)
        self._registration = Registration(
            context,
            reactor,
            name_servers(properties),
            replication.ha_registered,
            replication.on_master_found,
            None if trust is None else trust.to_name_server(),
            tls.client,
        )
        self._reporter = Reporter(context, self._log)
        self._pulls = PullRequests(context)
        self._clients = ClientRequests(context)
        self._replies = ReplyRequests(context, self._log, self._clients.session_of_producer)
        handlers = {code: replication.when_sure(code, handler) for code, handler in self._handlers(trust).items()}
        if self._authorization is not None:
            handlers = {code: self._authorization.guard(handler) for code, handler in handlers.items()}
        limits = ListenerLimits(
            connections_max=CONNECTIONS_MAX,
            member_places=MEMBER_PLACES,
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
                sharers=replication.guests,
                tls=tls,
            )
            for socket_ in listening
        ]
        self._rounds = Rounds(
            reactor,
            (
                *(self._log, self._replication.delays, self._pulls, self._clients, self._replies, self._housekeeping),
                *(self._reporter, *((self._authorization,) if self._authorization is not None else ())),
            ),
            clock,
        )

    def _make_replication(
        self, ha_listening: socket.socket | None, rng: random.Random, trust: BrokerCredentials | None, tls: Tls
    ) -> Replication:
        plan, context, members = self._plan, self.context, GroupMembers.of(self._plan.properties)
        if members is None:
            return FixedRoles(
                context,
                self._reactor,
                self._disk,
                rng,
                self._on_dispatched,
                boot=plan.boot,
                ha_listening=ha_listening,
                is_advertised=plan.advertised is not None,
                detours=plan.detours,
                trust=trust,
                tls=tls,
            )
        return RaftGroupReplication(
            context,
            self._reactor,
            self._disk,
            self._on_dispatched,
            members=attrs.evolve(members, joins=plan.joins),
            directory=plan.data,
            boot=plan.boot,
            settings=raft_settings(plan.election, plan.raft_log_bytes, ack=plan.properties.text("ack")),
            listener=lambda: self._servers[0].listener,
            secret=plan.secret,
            trust=trust,
            tls=tls.client,
        )

    @property
    def epoch(self) -> int:
        """The epoch of the master, to this broker's knowledge; the term in a raft group."""
        return self._log.epoch

    def _handlers(self, trust: BrokerCredentials | None) -> Mapping[int, Handler]:
        context, tables = self.context, self._replication.tables
        own = handlers_of(
            SendRequests(context, self._log),
            self._pulls,
            OffsetQueries(context, tables, lambda: self._replication.delays.offsets),
            self._clients,
            self._replies,
            LockRequests(context),
            QueryRequests(context),
            AdminRequests(context, tables, lambda: self.epoch),
        )
        handlers = own | self._replication.handlers()
        if isinstance(self._authorization, Policies):
            handlers |= handlers_of(self._authorization)
        membership = Membership(None if trust is None else trust.credentials, REMOTING, context.clock)
        for code in OF_BROKERS & handlers.keys():
            handlers[code] = membership.for_members(
                handlers[code], lambda member: is_of_group(member, context.broker_name)
            )
        if self._authorization is None:
            for code in OF_TOOLS & handlers.keys():
                handlers[code] = membership.for_members(
                    handlers[code], lambda member: is_of_group(member, context.broker_name) or is_operator(member)
                )
        for code in OF_OPERATORS & handlers.keys():
            handlers[code] = membership.for_members(handlers[code], is_operator)
        return handlers | {RequestCode.PROVE_MEMBERSHIP: membership.prove}

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

        Raises `ValueError` without a secret beyond loopback, unless it is `insecure`, `OSError` if a port cannot be
        bound, `UnusableAclFile`, `DamageRead` if damage was read and other brokers hold the content,
        `ForeignCommitLog`, the errors of `MessageStore.open` and, for a member of a group, of `RaftGroup.open`. A
        failed or full disk or a broken invariant leaves the block as an exception group, as nurseries make them, and
        all writing ends.
        """
        if plan.secret is None and not plan.insecure and not all(map(is_loopback, plan.listens_at)):
            raise ValueError(
                f"{plan.listen[0]} can be reached from outside: give the broker the `secret` of its cluster"
            )
        drawn = rng or random.Random(secrets.randbits(64))
        reactor = Reactor(owns_thread=owns_thread, limits=budget_of(plan.properties))
        warn_of_long_turns(reactor.turns, tell)
        try:
            with contextlib.ExitStack() as sockets:
                tls = tls_of(plan.properties)
                listening = [sockets.enter_context(bind(*plan.listen))]
                vip = _bind_vip(plan.listen) if plan.advertised is None else None
                if vip is not None:
                    listening.append(sockets.enter_context(vip))
                slaves_at = plan.slaves_at
                ha_listening = None if slaves_at is None else sockets.enter_context(bind(*slaves_at))
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
                        tls=tls,
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
            async with self._replication.run(disk, nursery):
                self._reactor.attach(self)
                nursery.start_soon(self._rounds.run)
                nursery.start_soon(self._registration.run)
                nursery.start_soon(self._note_serving)
                self._tell("listening", address=self.context.address, ha_address=self._replication.ha_registered)
                try:
                    yield
                finally:
                    for server in self._servers:
                        server.close(BROKER_STOPS)
                    self._replication.close(BROKER_STOPS)
                    self._registration.close()
            nursery.cancel_scope.cancel()

    async def shut_down(self) -> None:
        """Let the name servers know first, so that clients ask others at once."""
        await self._registration.unregister()

    def _close(self) -> None:
        """Close the parts after everything has stopped, and keep the state that spares a restart work."""
        self._reactor.detach(self)
        try:
            for server in self._servers:
                server.close(BROKER_STOPS)
            self._replication.close(BROKER_STOPS)
            if not self._failed:
                self._replication.save()
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
        store.copy.note_reach(store.log.last_epoch, store.log.end_offset)
        store.copy.change(lambda notes: attrs.evolve(notes, is_running=False))

    @property
    def address(self) -> Address:
        """The address to which clients connect."""
        return self._servers[0].address

    @property
    def ha_address(self) -> Address:
        """The address to which slaves connect at this master."""
        address = self._replication.ha_address
        assert address is not None, "a master listens"
        return address

    def figures(self) -> list[Figure]:
        """See `Observed`: those of the loop, the replication, the broker and its disk."""
        own = broker_figures(
            self.context,
            epoch=self.epoch,
            confirmed=self._log.confirmed,
            slaves=self.slaves,
            is_in_doubt=self._replication.objection is not None,
        )
        disk = [FLUSHES(self._disk.works, COMMIT_LOG), FLUSH_SECONDS(self._disk.seconds, COMMIT_LOG)]
        return [*loop_figures(self._reactor), *self._replication.figures(), *own, *disk]

    def obstacle(self) -> str | None:
        """See `Observed`."""
        if self._replication.objection is not None:
            return self._replication.objection
        return None if self.serving.is_set() else "no name server knows the broker"

    @property
    def slaves(self) -> Mapping[int, int]:
        """See `ReplicatedLog.slaves`."""
        return self._replication.slaves

    @property
    def synced(self) -> trio.Event:
        """Set when a slave has copied the tables of its master once."""
        return self._replication.synced

    # ---------------------------------------------------------------- rounds

    def on_round_end(self) -> None:
        """See `Participant`."""
        now = self.context.clock()
        self._log.tick(now)
        if self._replication.delays.tick(self._log):
            self._log.tick(now)  # what was just delivered is seen at once
        self._pulls.tick(now)
        self._clients.tick(now)
        self._replies.tick(now)
        self._housekeeping.tick(now)
        self._registration.tick()
        self._reporter.tick(now)
        if self._authorization is not None:
            self._authorization.tick(now)

    def on_urgent_sent(self) -> None:
        """See `Participant`."""
        self._log.flush_if_due(self.context.clock())

    def on_all_sent(self) -> None:
        """See `Participant`."""
        self._rounds.arm()

    def on_failed(self) -> None:
        """See `Participant`."""
        self._failed = True

    def _on_dispatched(self, runs: list[QueueRun]) -> None:
        self._replication.delays.on_arrived(runs)
        self._pulls.on_arrived(runs)
        self._replication.on_dispatched(runs)

    def _connection_closed(self, session: RemotingSession) -> None:
        self._pulls.connection_closed(session)
        self._clients.connection_closed(session)
        self._replies.connection_closed(session)

    async def _note_serving(self) -> None:
        await self._registration.registered.wait()
        self.serving.set()
        self._tell("serving", role=self.context.role)
        self._replication.on_serving()


def _context(
    plan: BrokerPlan, bound: Address, store: MessageStore, tell: Tell, clock: Callable[[], float], rng: random.Random
) -> Context:
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
        clock=clock,
        wall_ms=lambda: time.time_ns() // 1_000_000,
        rng=rng,
        tell=tell,
        node_id=None if members is None else members.node_id,
    )


def _credentials(secret: SecretSource, context: Context) -> BrokerCredentials:
    own = broker_named(context.broker_name, context.broker_id, context.node_id)
    return BrokerCredentials(credentials_of(secret, context.cluster, own))


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
