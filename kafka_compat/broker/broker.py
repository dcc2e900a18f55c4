"""Broker: one process of a cluster that serves Kafka clients; it runs inside any Trio program.

    async with Broker.open(plan) as broker:
        await broker.serving.wait()

It owns the port, the connections to other brokers, and the raft group. In each round of the reactor, requests and
answers are carried out, and the raft group commits and applies. Then the parts do what is due (`parts.py`).

The life of a broker: it opens its logs and its port, and the raft group elects a leader, the controller. The broker
registers and receives an epoch. Once it has applied its own registration it hosts its replicas, and the controller
unfences it. From then on it sends heartbeats. At the end it asks the controller for a controlled shutdown, so that
others lead before it goes.
"""

import contextlib
import logging
import random
import secrets
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from functools import partial
from typing import Self

import attrs
import trio

from kafka_compat.broker.authentication import mechanisms_of, token_rules
from kafka_compat.broker.context import Context
from kafka_compat.broker.controller_link import ControllerLink
from kafka_compat.broker.metrics import PARTITION_LOGS
from kafka_compat.broker.parts import BrokerParts
from kafka_compat.broker.peer_table import CONTROLLER, FETCH, HEARTBEAT, TRANSACTIONS, PeerTable
from kafka_compat.broker.peers import PeerClient
from kafka_compat.broker.ports import BoundPorts, Ports, budget_of
from kafka_compat.broker.proving import MemberProof
from kafka_compat.broker.reporter import Tell
from kafka_compat.broker.turns import LongWork
from kafka_compat.config import Settings
from kafka_compat.controller.image import ClusterImage
from kafka_compat.controller.machine import MetadataMachine
from kafka_compat.listeners import ListenerPlan, plan_listeners
from kafka_compat.sasl.scram import ScramUsers
from kafka_compat.storage.broker_store import BrokerStore
from log.disk import Disk, RealDisk, this_boot
from log.errors import CorruptLog, LogError
from raft.addresses import is_loopback
from raft.config import MIB, RaftConfig
from raft.directory import IDENTITY_NAME
from raft.disk_thread import DiskThread
from raft.effects import MembersChanged
from raft.group import RaftGroup
from raft.metrics import FLUSH_SECONDS, FLUSHES, Figure, loop_figures
from raft.net.certificates import Certificates, ClientCertificates, TlsFiles
from raft.net.reactor import Reactor
from raft.net.rounds import Rounds
from raft.net.running_clock import RunningClock
from raft.notices import ConnectionClosed, LinkRefused, LogRepaired, LogSetAside, Notice, event_of, warn_of_long_turns
from raft.process import leaves_of
from raft.secret_file import credentials_of
from raft.settings import NodeSettings
from raft.subscription import CommittedEntry, Delivered, LeaderChanged
from raft.trust import SecretSource

logger = logging.getLogger(__name__)

Address = tuple[str, int]

NONCE_BYTES = 24
METADATA_LOG_BYTES = 16 * MIB
"""The least size of the metadata log that is kept; older entries are in its snapshot."""
METADATA, PARTITIONS = "metadata", "partitions"
"""The subdirectories of a broker's directory."""


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
    joins: bool = False
    """True if the cluster began without this broker: `peers` are the present ones, and an operator makes it a member."""
    advertised: Address | None = None
    """The address at which clients reach this broker, if it differs from `listen`."""
    settings: Settings = attrs.field(factory=Settings)
    raft: RaftConfig | None = None
    """The timeouts of the controllers' group; without them `controller.quorum.election.timeout.ms` sets them."""
    secret: SecretSource | None = None
    """The secret by which brokers know each other. Without it, all that connect are believed."""
    insecure: bool = False
    """True if a broker without a secret may listen beyond loopback."""
    boot: str = attrs.field(factory=this_boot)
    """Names the present start of the machine. Another name means that unflushed writes may be lost."""

    @property
    def listeners(self) -> tuple[ListenerPlan, ...]:
        """All listeners, that of the brokers first. Raises `InvalidSetting`."""
        return plan_listeners(self.settings, self.listen, self.advertised)

    @property
    def tls(self) -> TlsFiles | None:
        """The files of TLS; None without any."""
        text = self.settings.text
        keystore, truststore = text("ssl.keystore.location"), text("ssl.truststore.location")
        if keystore is None and truststore is None:
            return None
        return TlsFiles(
            certificate=keystore,
            authority=truststore,
            clients=ClientCertificates(text("ssl.client.auth")),
            checks_host=bool(text("ssl.endpoint.identification.algorithm")),
        )

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
        ports: BoundPorts,
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
        incarnation = rng.randbytes(16)
        self._machine = MetadataMachine()
        clock = RunningClock(trio.lowlevel.current_clock().current_time)
        credentials = credentials_of(plan.secret, plan.cluster_id, str(plan.broker_id)) if plan.secret else None

        def connect(broker: int, purpose: str, address: Address) -> PeerClient:
            proof = MemberProof(credentials, broker) if credentials else None
            name = f"broker-{plan.broker_id}-{purpose}"
            return PeerClient(reactor, address, name, clock, rng, proof, ports.peers_tls)

        self._peers = PeerTable(plan.broker_id, plan.peers, connect)
        context = self._context = Context(
            cluster_id=plan.cluster_id,
            broker_id=plan.broker_id,
            address=ports.address,
            data=plan.partitions,
            image=self._machine.image,
            controller=ControllerLink(
                plan.cluster_id, plan.broker_id, self._peers.of(CONTROLLER), self._peers.of(HEARTBEAT), clock
            ),
            settings=plan.settings,
            clock=clock,
            held_up=lambda: clock.held_up_at,
            wall_ms=lambda: time.time_ns() // 1_000_000,
            rng=rng,
            turns=LongWork(lambda: DiskThread(reactor, name="long work")),
            knows_members=credentials is not None,
            endpoints=ports.endpoints,
        )
        self._disk = DiskThread(reactor)
        self._may_end = trio.Event()
        self._parts = BrokerParts(
            context,
            self._machine,
            store,
            self._disk,
            self._peers.of(FETCH),
            incarnation=incarnation,
            tell=tell,
            on_serving=self.serving.set,
            on_may_end=self._may_end.set,
            transaction_peers=self._peers.of(TRANSACTIONS),
            mechanisms=mechanisms_of(credentials, self._users(), token_rules(plan.settings), context.wall_ms),
        )
        self._failed = False
        self._group: RaftGroup | None = None
        clock.on_stall = self._parts.registration.resume  # the controller has not seen a heartbeat meanwhile
        self._rounds = Rounds(reactor, (self._parts,), clock)
        self._ports = Ports(reactor, ports, self._parts, plan.settings, tell)

    def _users(self) -> ScramUsers:
        """Returns the users as the metadata has them. What must not be guessed comes from the system."""
        known = self._machine.image.credentials
        return ScramUsers(
            find=lambda user, mechanism: known.get(user, {}).get(mechanism),
            secret=secrets.token_bytes(NONCE_BYTES),
            nonce=lambda: secrets.token_urlsafe(NONCE_BYTES),
        )

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

        Raises `ValueError` for a broker without a secret that listens beyond loopback, unless it is `insecure`,
        `OSError` if the port cannot be bound, and the errors of `RaftGroup.open` and `BrokerStore.open` if the
        directory cannot be used. A failed disk, damage that is read in a log (`CorruptLog`) or a broken invariant
        leaves the block as an exception group, as nurseries make them, and all writing ends. After damage the next
        `open` repairs that log.
        """
        if plan.secret is None and not plan.insecure and not is_loopback(plan.listen):
            raise ValueError(
                f"{plan.listen[0]} can be reached from outside: give the broker the `secret` of its cluster"
            )
        used = disk or RealDisk()
        drawn = rng or random.Random(secrets.randbits(64))
        reactor = Reactor(owns_thread=owns_thread, limits=budget_of(plan.settings))
        warn_of_long_turns(reactor.turns, tell or _log)
        try:
            with contextlib.ExitStack() as stack:
                tls = None if plan.tls is None else Certificates(plan.tls)
                ports = BoundPorts(plan.listeners, tls, stack)
                store = BrokerStore.open(
                    used,
                    plan.partitions,
                    cluster_id=plan.cluster_id,
                    broker_id=plan.broker_id,
                    boot=plan.boot,
                    flushed=plan.settings.flushes_before_ack,
                )
                broker = cls(plan, reactor=reactor, ports=ports, store=store, tell=tell or _log, rng=drawn)
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
        members = {plan.broker_id: self.address, **plan.peers}
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._reactor.run)
            self._ports.start(nursery)
            async with RaftGroup.open(
                node_id=plan.broker_id,
                members=members,
                directory=plan.metadata,
                cluster_id=plan.cluster_id,
                joins=plan.joins,
                state_machine=self._machine,
                settings=NodeSettings(
                    raft=plan.election, retention_bytes=METADATA_LOG_BYTES, segment_bytes_max=METADATA_LOG_BYTES // 4
                ),
                rng=rng,
                disk=disk,
                notify=self._notice,
                reactor=self._reactor,
                listener=self._ports.first,
                secret=plan.secret,
                tls=self._ports.peers_tls,
            ) as group:
                self._group = self._context.controller.group = group
                self._context.controller.status = group.status
                self._parts.node.last_index = partial(_index, group, "last_index")
                self._peers.take(group.members)
                self._ports.take_over = group.take_over
                self._reactor.attach(self)
                # Not behind its last entry: what is not committed may be replaced, and this node's leadership begin there.
                group.subscribe(self._on_delivered, after_index=_index(group, "commit_index"))
                group.campaign()
                async with trio.open_nursery() as tasks:
                    self._peers.start(tasks)
                    tasks.start_soon(self._rounds.run)
                    host, port = self.address
                    self._tell("listening", address=f"{host}:{port}")
                    try:
                        yield
                    finally:
                        self._parts.node.on_resigned()  # the connections that end now are no news of other brokers
                        self._ports.close()
                        self._peers.close()
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
            self._parts.stop()
            self._ports.close()
            self._disk.close()
            self._parts.flushing.stop()
        except BaseException:
            self._failed = True
            raise
        finally:
            self._parts.flushing.close(failed=self._failed)

    @property
    def address(self) -> Address:
        """The address on which this broker listens for others, and for clients if there is no other listener."""
        return self._ports.first.address

    def address_of(self, listener: str) -> Address:
        """Returns the address on which this broker listens. Raises `KeyError` for a listener that it lacks."""
        return self._ports.address_of(listener)

    @property
    def image(self) -> ClusterImage:
        """This broker's view of the cluster; it changes in place."""
        return self._context.image

    def figures(self) -> list[Figure]:
        """See `Observed`: those of the loop, the metadata's raft group, the broker and its disk."""
        group = [] if self._group is None else self._group.figures()
        disk = [FLUSHES(self._disk.works, PARTITION_LOGS), FLUSH_SECONDS(self._disk.seconds, PARTITION_LOGS)]
        return [*loop_figures(self._reactor), *group, *self._parts.figures(), *disk]

    def obstacle(self) -> str | None:
        """See `Observed`."""
        return self._parts.obstacle()

    async def shut_down(self, within_s: float = 5.0) -> bool:
        """Ask the controller for a shutdown, so that others take over this broker's leaderships.

        Returns True if it consented in time.
        """
        if not self._context.settings.flag("controlled.shutdown.enable") or not self._parts.hosting.began:
            return False  # who is not registered leads nothing
        self._parts.registration.wants_shutdown = True
        self._parts.registration.hurry()
        self._reactor.request_round()
        with trio.move_on_after(within_s):
            await self._may_end.wait()
        return self._may_end.is_set()

    def _notice(self, notice: Notice) -> None:
        logger.info("%s", notice)
        if isinstance(notice, MembersChanged):
            members = notice.configuration
            self._peers.take(members.addresses, members.nodes if notice.is_settled else None)
        elif isinstance(notice, LogRepaired):
            self._metadata_damaged(f"it was damaged, and is cut at byte {notice.cut_from} of {notice.cut_to}")
        elif isinstance(notice, LogSetAside):
            self._metadata_damaged(notice.reason)
        elif isinstance(notice, LinkRefused | ConnectionClosed):
            event, fields = event_of(notice)
            self._tell(event, **fields)

    def _metadata_damaged(self, reason: str) -> None:
        self._tell("damage", log=METADATA, reason=reason, repair="it is learned from the other brokers")

    # ---------------------------------------------------------------- rounds

    def on_round_end(self) -> None:
        """See `Participant`."""
        now = self._context.clock()
        deltas = self._parts.take_changes()
        node, group = self._parts.node, self._group
        if deltas and node.leads and group is not None:
            group.announce()  # all brokers are to know soon
        if node.is_catching_up and group is not None:
            self._note_applied(group)
        self._parts.work(now)

    def on_urgent_sent(self) -> None:
        """See `Participant`: let the disk begin."""
        self._parts.flushing.begin()

    def on_all_sent(self) -> None:
        """See `Participant`: see to the next deadline."""
        if self._parts.has_more:
            self._reactor.ask_another_round()
        self._rounds.arm()

    def on_failed(self) -> None:
        """See `Participant`: the raft group, which fails with this broker, ends the block."""
        self._failed = True

    # ---------------------------------------------------------------- metadata

    def _on_delivered(self, news: Delivered) -> None:
        parts = self._parts
        if isinstance(news, LeaderChanged):
            self._context.controller.leader_changed(news.leader)
            parts.registration.hurry()
            if parts.node.leader_changed(news):
                self._tell("controller", role="follower", term=news.term)
        elif isinstance(news, CommittedEntry):
            parts.node.note_committed(news)

    def _note_applied(self, group: RaftGroup) -> None:
        """Become the controller once this node has applied everything from before its leadership."""
        if self._parts.node.note_applied(_index(group, "applied_index")):
            self._tell("controller", role="leader", term=group.status()["term"])


def _index(group: RaftGroup, name: str) -> int:
    index = group.status()[name]
    assert isinstance(index, int), "an index is a number"
    return index


def _require_disk(store: BrokerStore) -> None:
    """Raise the error of an offline log: a broker with a failed disk would lead in the metadata and serve nothing."""
    for error in store.offline.values():
        raise error


def _log(event: str, **fields: object) -> None:
    logger.info("%s %s", event, " ".join(f"{name}={value}" for name, value in fields.items()))
