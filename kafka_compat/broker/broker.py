"""Broker: one process of a cluster that serves Kafka clients; it runs inside any Trio program.

    async with Broker.open(plan) as broker:
        await broker.serving.wait()

It owns the parts and their order. In each round of the reactor, requests and answers arrive and are carried out, and
the raft group commits and applies. Then this module hands changes of metadata to the replicas, answers waiting fetches,
and lets followers fetch more.

The life of a broker: it opens its logs and its port, and the raft group elects a leader, the controller. The broker
registers and receives an epoch. Once it has applied its own registration it hosts its replicas, and the controller
unfences it. From then on it sends heartbeats. At the end it asks the controller for a controlled shutdown, so that
others lead before it goes.
"""

import contextlib
import logging
import random
import secrets
import socket
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any, Self

import attrs
import trio

from kafka_compat.broker.calls import Gate, Handler, Requests
from kafka_compat.broker.context import Context
from kafka_compat.broker.controller_link import CommandFailed, ControllerLink
from kafka_compat.broker.controller_node import ControllerNode
from kafka_compat.broker.coordinators import Coordinators, is_offsets_partition
from kafka_compat.broker.following import Following
from kafka_compat.broker.housekeeping import Housekeeping
from kafka_compat.broker.log_reports import LogReports
from kafka_compat.broker.peers import PeerClient
from kafka_compat.broker.replicas import LocalReplica, Replicas
from kafka_compat.broker.reporter import Reporter, Tell
from kafka_compat.broker.requests.cluster import ClusterRequests
from kafka_compat.broker.requests.configs import ConfigRequests
from kafka_compat.broker.requests.fetch import FetchRequests
from kafka_compat.broker.requests.groups import GroupApiRequests
from kafka_compat.broker.requests.logs import LogRequests
from kafka_compat.broker.requests.metadata import MetadataRequests
from kafka_compat.broker.requests.produce import ProduceRequests
from kafka_compat.broker.requests.topics import TopicRequests
from kafka_compat.broker.topic_creation import TopicCreation
from kafka_compat.broker.turns import LongWork
from kafka_compat.config import Settings
from kafka_compat.controller.commands import CommandResult, RegisterBroker, Registered, ResourceKind, ResourceName
from kafka_compat.controller.image import ClusterImage, ImageDelta
from kafka_compat.controller.machine import MetadataMachine
from kafka_compat.model import PartitionState, TopicPartition
from kafka_compat.partition.effects import PartitionRoleChanged
from kafka_compat.protocol.apis.controller import BrokerHeartbeatRequest, BrokerHeartbeatResponse
from kafka_compat.protocol.error_codes import KafkaErrorCode
from kafka_compat.storage.broker_store import BrokerStore
from kafka_compat.storage.run_record import this_boot
from log.disk import Disk, RealDisk
from log.errors import CorruptLog, LogError
from log.store_flush import FlushRound
from raft.config import MIB, RaftConfig
from raft.directory import IDENTITY_NAME
from raft.disk_thread import DiskThread
from raft.group import RaftGroup
from raft.net.connection import CLOSED_BY_OTHER_SIDE, SocketConnection
from raft.net.decoder import BodyDecoder, Buffer, Decoder
from raft.net.listener import Listener, ListenerLimits, bind
from raft.net.reactor import Reactor
from raft.net.rounds import Rounds
from raft.net.sharing import UndecidedDecoder, is_native
from raft.notices import LogRepaired, LogSetAside, Notice, warn_of_long_turns
from raft.process import leaves_of
from raft.settings import NodeSettings
from raft.subscription import CommittedEntry, Delivered, LeaderChanged

logger = logging.getLogger(__name__)

Address = tuple[str, int]

REGISTRATION_RETRY_S = 0.05
FENCED_HEARTBEAT_S = 0.02
"""Between heartbeats until the controller has unfenced this broker."""
SHUTDOWN_HEARTBEAT_S = 0.02
GREETING_TIMEOUT_S = 30.0
"""A connection whose first request has not come by then is closed."""
OUTBOUND_BYTES_MAX = 4 * 1024 * 1024
"""The bound of answers that wait for a client; above it, the broker stops reading the client's requests."""
METADATA_LOG_BYTES = 16 * MIB
"""The least size of the metadata log that is kept; older entries are in its snapshot."""
METADATA, PARTITIONS = "metadata", "partitions"
"""The subdirectories of a broker's directory."""
BROKER_STOPS = "the broker stops"


class BrokerReplaced(Exception):
    """Another process has registered with the id of this broker, which therefore stops."""


@attrs.frozen(kw_only=True)
class BrokerPlan:
    """One broker: its identity, the addresses that it listens on and dials, and its settings."""

    cluster_id: str
    broker_id: int
    listen: Address
    data: str
    """Its directory."""
    peers: Mapping[int, Address] = attrs.field(factory=dict)
    """The addresses at which this broker dials the others."""
    advertised: Address | None = None
    """The address at which clients reach this broker, if it differs from `listen`."""
    settings: Settings = attrs.field(factory=Settings)
    raft: RaftConfig | None = None
    """The timeouts of the controllers' group; without them `controller.quorum.election.timeout.ms` sets them."""
    boot: str = attrs.field(factory=this_boot)
    """Names the present start of the machine. Another name means that unflushed writes may be lost."""

    @property
    def election(self) -> RaftConfig:
        """The timeouts of the controllers' group."""
        timeout_s = self.settings.seconds("controller.quorum.election.timeout.ms")
        return self.raft or RaftConfig.of_election_timeout(timeout_s)

    @property
    def metadata(self) -> str:
        """The directory of the raft group's log."""
        return f"{self.data}/{METADATA}"

    @property
    def partitions(self) -> str:
        """The directory of the partitions' logs."""
        return f"{self.data}/{PARTITIONS}"


class Broker:
    """One broker, opened by `open`."""

    def __init__(
        self,
        plan: BrokerPlan,
        *,
        reactor: Reactor,
        listening: socket.socket,
        store: BrokerStore,
        tell: Tell,
        rng: random.Random,
    ) -> None:
        self.serving = trio.Event()
        """Set when the broker is registered, up to date and not fenced for the first time."""
        self._plan = plan
        self._reactor = reactor
        self._store = store
        self._tell = tell
        self._incarnation = rng.randbytes(16)
        self._machine = MetadataMachine()
        self._image = self._machine.image
        clock = trio.lowlevel.current_clock().current_time
        self._peer_clients = {
            (broker, purpose): PeerClient(reactor, address, f"broker-{plan.broker_id}-{purpose}", rng)
            for broker, address in plan.peers.items()
            for purpose in ("fetch", "controller", "heartbeat")
        }
        peers, heartbeat_peers = self._peers_for("controller"), self._peers_for("heartbeat")
        self._link = ControllerLink(plan.cluster_id, plan.broker_id, peers, heartbeat_peers, clock)
        self._link.applied = lambda: self._image.index
        context = self._context = Context(
            cluster_id=plan.cluster_id,
            broker_id=plan.broker_id,
            address=plan.advertised or listening.getsockname(),
            data=plan.partitions,
            image=self._image,
            controller=self._link,
            settings=plan.settings,
            clock=clock,
            wall_ms=lambda: time.time_ns() // 1_000_000,
            rng=rng,
            turns=LongWork(lambda: DiskThread(reactor, name="encoder")),
        )
        self._disk, self._reporter = DiskThread(reactor), Reporter(context, tell)
        self._following = Following(context, self._peers_for("fetch"), lambda: self._replicas)
        self._replicas = Replicas(
            context, store, self._following, self._reporter.replica, self._role_changed, self._forget_replica
        )
        self._coordinators = Coordinators(context, lambda: self._replicas)
        self._produces, self._fetches = ProduceRequests(context, self._replicas), FetchRequests(context, self._replicas)
        self._node = ControllerNode(context, lambda command, reason: tell("proposes", command=command, reason=reason))
        self._cluster_requests = ClusterRequests(context, self._node)
        self._reports = LogReports(context, store, self._replicas, tell)
        self._housekeeping = Housekeeping(context, store, self._replicas, self._disk)
        self._handlers = self._all_handlers()
        self._gate = Gate()
        self._flush_round: tuple[FlushRound, list[tuple[LocalReplica, int, int]]] | None = None
        self._failed = self._hosting = False
        self._leadership: LeaderChanged | None = None
        self._elected_at: int | None = None
        self._group: RaftGroup | None = None
        self._wants_shutdown = False
        self._may_end = trio.Event()
        self._controller_changed = trio.Event()
        self._rounds = Rounds(
            reactor,
            (
                self._link,
                self._node,
                self._reports,
                self._replicas,
                self._coordinators,
                self._housekeeping,
                self._fetches,
                self._following,
                self._reporter,
            ),
        )
        self._listener: Listener[Any] = Listener(
            reactor,
            listening,
            self._open_connection,
            limits=_limits(plan.settings),
            on_refused=lambda name, reason: tell("connection_refused", peer=name, reason=reason),
        )

    def _peers_for(self, purpose: str) -> dict[int, PeerClient]:
        return {broker: client for (broker, each), client in self._peer_clients.items() if each == purpose}

    def _all_handlers(self) -> dict[int, Handler]:
        context, creation = self._context, TopicCreation(self._context)
        return {
            **MetadataRequests(context, creation).handlers(),
            **TopicRequests(context).handlers(),
            **ConfigRequests(context).handlers(),
            **self._produces.handlers(),
            **self._fetches.handlers(),
            **LogRequests(context, self._replicas).handlers(),
            **GroupApiRequests(context, self._coordinators, creation).handlers(),
            **self._cluster_requests.handlers(),
        }

    # ---------------------------------------------------------------- opening and closing

    @classmethod
    @asynccontextmanager
    async def open(
        cls,
        plan: BrokerPlan,
        *,
        tell: Tell | None = None,
        disk: Disk | None = None,
        rng: random.Random | None = None,
        owns_thread: bool = False,
    ) -> AsyncIterator[Self]:
        """Start the broker and stop it at the end of the block.

        Raises `OSError` if the port cannot be bound, and the errors of `RaftGroup.open` and `BrokerStore.open` if the
        directory cannot be used. A failed disk, damage that is read in a log (`CorruptLog`) or a broken invariant
        leaves the block as an exception group, as nurseries make them, and all writing ends. After damage the next
        `open` repairs that log.
        """
        used = disk or RealDisk()
        drawn = rng or random.Random(secrets.randbits(64))
        reactor = Reactor(owns_thread=owns_thread)
        warn_of_long_turns(reactor.turns, tell or _log)
        try:
            with bind(*plan.listen) as listening:
                store = BrokerStore.open(
                    used,
                    plan.partitions,
                    cluster_id=plan.cluster_id,
                    broker_id=plan.broker_id,
                    boot=plan.boot,
                    flushed=plan.settings.flushes_before_ack,
                )
                broker = cls(plan, reactor=reactor, listening=listening, store=store, tell=tell or _log, rng=drawn)
                try:
                    store.open_all(plan.settings.number("log.segment.bytes"))
                    _require_disk(store)
                    if not (store.is_new or used.exists(f"{plan.metadata}/{IDENTITY_NAME}")):
                        broker._metadata_damaged("it is missing")
                    async with broker._run(used, drawn):
                        yield broker
                except BaseException as error:
                    broker._note_damage(error)
                    raise
                finally:
                    broker._close()
        finally:
            reactor.close()

    @asynccontextmanager
    async def _run(self, disk: Disk, rng: random.Random) -> AsyncIterator[None]:
        plan = self._plan
        members = {plan.broker_id: plan.listen, **plan.peers}
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._reactor.run)
            nursery.start_soon(self._listener.run)
            async with RaftGroup.open(
                node_id=plan.broker_id,
                members=members,
                directory=plan.metadata,
                cluster_id=plan.cluster_id,
                state_machine=self._machine,
                settings=NodeSettings(
                    raft=plan.election, retention_bytes=METADATA_LOG_BYTES, segment_bytes_max=METADATA_LOG_BYTES // 4
                ),
                rng=rng,
                disk=disk,
                notify=self._notice,
                reactor=self._reactor,
                listener=self._listener,
            ) as group:
                self._group = self._link.group = group
                self._reactor.attach(self)
                group.subscribe(self._on_delivered, after_index=_last_index(group))
                group.campaign()
                async with trio.open_nursery() as tasks:
                    for client in self._peer_clients.values():
                        tasks.start_soon(client.run)
                    tasks.start_soon(self._rounds.run)
                    tasks.start_soon(self._live)
                    host, port = self.address
                    self._tell("listening", address=f"{host}:{port}")
                    try:
                        yield
                    finally:
                        self._node.on_resigned()  # the connections that end now are no news of other brokers
                        self._listener.close(BROKER_STOPS)
                        for client in self._peer_clients.values():
                            client.close()
                        tasks.cancel_scope.cancel()
            nursery.cancel_scope.cancel()

    def _note_damage(self, error: BaseException) -> None:
        """Record the damage of a log that ends this broker, so that the next start repairs it."""
        for damage in leaves_of(error):
            if isinstance(damage, CorruptLog):
                self._failed = True
                with contextlib.suppress(LogError):
                    self._store.note_damage(damage)

    def _close(self) -> None:
        """Close the parts after everything has stopped, and keep the state that spares a restart work."""
        self._reactor.detach(self)
        try:
            self._housekeeping.stop()
            self._context.turns.close()
            self._listener.close(BROKER_STOPS)
            self._disk.close()
            if self._flush_round is not None:
                self._store.end_round(self._flush_round[0])
        except BaseException:
            self._failed = True
            raise
        finally:
            if self._failed or self._replicas.broken:
                # What deciders know may be more than what the logs hold: a restart reads it from these.
                self._store.abandon()
            else:
                self._store.close(
                    producers=self._replicas.producers(),
                    high_watermarks=self._replicas.high_watermarks(),
                )

    @property
    def address(self) -> Address:
        """The address on which this broker listens."""
        return self._listener.address

    @property
    def image(self) -> ClusterImage:
        """This broker's view of the cluster; it changes in place."""
        return self._image

    async def shut_down(self, within_s: float = 5.0) -> bool:
        """Ask the controller for a shutdown, so that others take over this broker's leaderships.

        Returns True if it consented in time.
        """
        if not self._context.settings.flag("controlled.shutdown.enable") or not self._hosting:
            return False  # who is not registered leads nothing
        self._wants_shutdown = True
        self._controller_changed.set()
        with trio.move_on_after(within_s):
            await self._may_end.wait()
        return self._may_end.is_set()

    # ---------------------------------------------------------------- connections

    def _open_connection(self, accepted: socket.socket, name: str) -> SocketConnection[Any]:
        requests = Requests(self._handlers, self._gate, self._connection_closed, self._listener.on_greeted)
        session = requests.session
        request_bytes_max = self._context.settings.number("socket.request.max.bytes")

        def decide(first: Buffer) -> Decoder[Any]:
            if is_native(first) and self._group is not None:
                return self._group.take_over(session.connection)
            session.connection.decoder = BodyDecoder(request_bytes_max)
            return session.connection.decoder

        session.connection = SocketConnection(
            self._reactor,
            accepted,
            UndecidedDecoder(decide),
            session,
            outbound_bytes_max=OUTBOUND_BYTES_MAX,
            name=name,
        )
        return session.connection

    def _connection_closed(self, connection: SocketConnection[Any], reason: str) -> None:
        self._listener.forget(connection)
        self._gate.forget(connection)
        self._fetches.connection_closed(connection)
        self._node.connection_closed(connection)
        if reason not in (CLOSED_BY_OTHER_SIDE, BROKER_STOPS):
            self._tell("connection_closed", peer=connection.name, reason=reason)

    def _notice(self, notice: Notice) -> None:
        logger.info("%s", notice)
        if isinstance(notice, LogRepaired):
            self._metadata_damaged(f"it was damaged, and is cut at byte {notice.cut_from} of {notice.cut_to}")
        elif isinstance(notice, LogSetAside):
            self._metadata_damaged(notice.reason)

    def _metadata_damaged(self, reason: str) -> None:
        self._tell("damage", log=METADATA, reason=reason, repair="it is learned from the other brokers")

    # ---------------------------------------------------------------- rounds

    def on_round_end(self) -> None:
        """See `Participant`."""
        now = self._context.clock()
        deltas = self._machine.drain_changes()
        for delta in deltas:
            self._apply_delta(delta)
        if self._hosting and not self._gate.is_open:
            self._gate.open()
        if deltas and self._node.leads and self._group is not None:
            self._group.announce()  # all brokers are to know soon
        self._note_elected()
        self._link.pump(now)
        self._reports.pump(now)
        self._node.tick(now)
        self._replicas.tick(now)
        self._coordinators.pump(now)
        self._housekeeping.tick(now)
        self._produces.pump()
        self._fetches.pump(now)
        self._context.turns.pump()
        self._replicas.work()
        self._replicas.send_changes()
        self._following.pump(now)
        self._reporter.tick(now)

    def on_urgent_sent(self) -> None:
        """See `Participant`: let the disk begin, and see to the next deadline."""
        if self._replicas.has_unflushed and self._flush_round is None:
            waiting = self._replicas.take_unflushed()
            round_ = self._store.begin_round()
            self._flush_round = round_, waiting
            self._disk.submit(round_.run, self._on_flushed)
        parts = (self._housekeeping, self._produces, self._fetches, self._replicas, self._context.turns)
        if self._coordinators.is_loading or any(each.has_more for each in parts):
            self._reactor.ask_another_round()
        self._rounds.arm()

    def on_failed(self) -> None:
        """See `Participant`: the raft group, which fails with this broker, ends the block."""
        self._failed = True

    def _on_flushed(self, error: BaseException | None) -> None:
        assert self._flush_round is not None, "a flush that has ended had begun"
        (round_, waiting), self._flush_round = self._flush_round, None
        self._store.end_round(round_)
        if error is not None:
            raise error
        self._replicas.on_flushed(waiting)

    # ---------------------------------------------------------------- metadata

    def _on_delivered(self, news: Delivered) -> None:
        if isinstance(news, LeaderChanged):
            led = self._node.leads
            self._leadership = news
            self._elected_at = None
            self._link.leader_changed(news.leader)
            self._controller_changed.set()
            if led:
                self._node.on_resigned()
                self._tell("controller", role="follower", term=news.term)
        elif isinstance(news, CommittedEntry):
            leadership = self._leadership
            own = leadership is not None and leadership.leader == self._plan.broker_id
            if own and leadership is not None and news.term == leadership.term and not self._node.leads:
                self._elected_at = self._elected_at or news.index

    def _note_elected(self) -> None:
        """Become the controller once this node has applied everything from before its leadership."""
        if self._elected_at is None or self._group is None:
            return
        status = self._group.status()
        applied = status["applied_index"]
        assert isinstance(applied, int), "an index is a number"
        if applied >= self._elected_at:
            self._elected_at = None
            self._node.on_elected()
            self._tell("controller", role="leader", term=status["term"])

    def _apply_delta(self, delta: ImageDelta) -> None:
        context = self._context
        own = self._image.brokers.get(context.broker_id)
        if own is not None and context.broker_epoch >= 0 and own.incarnation != self._incarnation:
            raise BrokerReplaced(f"another process has registered as broker {context.broker_id}")
        if delta.everything or delta.configs:
            self._reconfigure(delta)
        if not self._hosting:
            if own is not None and own.incarnation == self._incarnation:
                context.broker_epoch = own.epoch
                self._host_all()
        elif delta.everything:
            self._host_all()
        else:
            if delta.brokers:
                self._replicas.update_brokers(self._image.brokers)
            if delta.topics_deleted:
                self._delete(delta)
            if delta.partitions:
                self._update(delta.partitions)
        self._reports.image_changed()
        if own is not None and own.active and self._hosting and not self.serving.is_set():
            self.serving.set()
            self._tell("serving")

    def _host_all(self) -> None:
        """Host exactly the replicas that the image assigns to this broker."""
        is_first, self._hosting = not self._hosting, True
        states = {
            TopicPartition(name, number): state
            for name, topic in self._image.topics.items()
            for number, state in enumerate(topic.partitions)
        }
        own = self._plan.broker_id
        assigned = {each: state.topic_id for each, state in states.items() if own in state.replicas}
        for partition in [each for each in self._replicas.hosted if each not in assigned]:
            self._replicas.remove(partition)
        if is_first:
            # Before logs that are missing are made, because nothing else shows that they are.
            self._reports.begin({each: states[each] for each in assigned})
        for partition in self._store.strays(assigned):
            if partition not in self._replicas.hosted and not self._store.keeps_strays:
                self._store.delete(partition)
        self._replicas.update_brokers(self._image.brokers)
        self._update(states)
        self._replicas.make_all()

    def _update(self, states: Mapping[TopicPartition, PartitionState]) -> None:
        self._replicas.update(states)
        for partition, state in states.items():
            hosted = self._replicas.hosted.get(partition)
            if hosted is not None:
                self._reporter.state(hosted, state)

    def _delete(self, delta: ImageDelta) -> None:
        for topic in delta.topics_deleted:
            for number in range(len(topic.partitions)):
                partition = TopicPartition(topic.name, number)
                hosted = self._replicas.hosted.get(partition)
                if hosted is not None and hosted.topic_id == topic.topic_id:
                    self._replicas.remove(partition)
        self._coordinators.topics_deleted(tuple(topic.name for topic in delta.topics_deleted))

    def _reconfigure(self, delta: ImageDelta) -> None:
        context, image = self._context, self._image
        of_brokers = delta.everything or any(each.kind is ResourceKind.BROKER for each in delta.configs)
        if of_brokers:
            context.settings = context.settings.with_altered(
                cluster=dict(image.configs_of(ResourceName(ResourceKind.BROKER, ""))),
                broker=dict(image.configs_of(ResourceName(ResourceKind.BROKER, str(context.broker_id)))),
            )
            self._replicas.reconfigure(None)
        else:
            for change in delta.configs:
                self._replicas.reconfigure(change.name)

    def _role_changed(self, hosted: LocalReplica, news: PartitionRoleChanged) -> None:
        self._fetches.role_changed()
        if is_offsets_partition(hosted):
            self._coordinators.role_changed(hosted, news)

    def _forget_replica(self, hosted: LocalReplica) -> None:
        self._housekeeping.forget(hosted)
        self._reporter.forget(hosted)

    # ---------------------------------------------------------------- the life of a broker

    async def _live(self) -> None:
        """Register, then send heartbeats until there is leave to end."""
        await self._register()
        interval_s = self._context.settings.seconds("broker.heartbeat.interval.ms")
        while not self._may_end.is_set():
            self._controller_changed = trio.Event()
            answer = await self._heartbeat(wait_s=interval_s)
            pause_s = interval_s
            if answer is None or answer.error_code or answer.is_fenced:
                pause_s = min(FENCED_HEARTBEAT_S, interval_s)
            if self._wants_shutdown:
                pause_s = SHUTDOWN_HEARTBEAT_S
                if answer is not None and not answer.error_code and answer.should_shut_down:
                    self._may_end.set()
            with trio.move_on_after(pause_s):
                await self._controller_changed.wait()

    async def _register(self) -> None:
        plan = self._plan
        host, port = self._context.address
        command = RegisterBroker(
            plan.broker_id,
            self._incarnation,
            host,
            port,
            plan.settings.text("broker.rack"),
            self._context.unclean_default,
            self._context.eligible,
        )
        waits_told = False
        while True:
            answered = trio.Event()
            outcome: list[CommandResult | CommandFailed] = []

            def on_result(
                result: CommandResult | CommandFailed,
                answered: trio.Event = answered,
                outcome: list[CommandResult | CommandFailed] = outcome,
            ) -> None:
                outcome.append(result)
                answered.set()

            self._link.send(command, on_result)
            self._reactor.request_round()
            await answered.wait()
            (result,) = outcome
            if isinstance(result, Registered) and result.error is KafkaErrorCode.NONE:
                return
            if not waits_told and isinstance(result, Registered):
                waits_told = True
                self._tell("registration_refused", reason=result.message)
            await trio.sleep(REGISTRATION_RETRY_S)

    async def _heartbeat(self, *, wait_s: float) -> BrokerHeartbeatResponse | None:
        """Report to all brokers that this one is alive.

        Returns the controller's answer, or None if it does not come within `wait_s`. The connection stays open while an
        answer is late: closing it would fence this broker, and a controller that stalls answers later.
        """
        # Who has applied nothing is not unfenced: not before the controller knows which logs may lack something.
        applied = self._image.index if self._reports.ready else -1
        answers: list[BrokerHeartbeatResponse] = []
        answered = trio.Event()

        def on_answer(answer: BrokerHeartbeatResponse) -> None:
            answers.append(answer)
            answered.set()

        self._link.heartbeat(
            self._context.broker_epoch,
            applied,
            on_answer,
            wants_shutdown=self._wants_shutdown,
            timeout_s=self._context.settings.seconds("broker.session.timeout.ms"),
        )
        if self._node.leads:
            own = BrokerHeartbeatRequest(
                cluster_id=self._plan.cluster_id,
                broker_id=self._plan.broker_id,
                broker_epoch=self._context.broker_epoch,
                applied_index=applied,
                wants_shutdown=self._wants_shutdown,
            )
            self._node.heartbeat(None, own, on_answer)
        self._reactor.request_round()
        with trio.move_on_after(wait_s):
            await answered.wait()
        return answers[0] if answers else None


def _limits(settings: Settings) -> ListenerLimits:
    idle_ms = settings.number("connections.max.idle.ms")
    return ListenerLimits(
        connections_max=min(settings.number("max.connections"), 100_000),
        greeting_timeout_s=GREETING_TIMEOUT_S,
        idle_timeout_s=None if idle_ms < 0 else max(idle_ms, 1) / 1000,
    )


def _last_index(group: RaftGroup) -> int:
    last = group.status()["last_index"]
    assert isinstance(last, int), "an index is a number"
    return last


def _require_disk(store: BrokerStore) -> None:
    """Raise the error of an offline log: a broker with a failed disk would lead in the metadata and serve nothing."""
    for error in store.offline.values():
        raise error


def _log(event: str, **fields: object) -> None:
    logger.info("%s %s", event, " ".join(f"{name}={value}" for name, value in fields.items()))
