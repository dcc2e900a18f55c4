"""Member: the parts of one running node, put together: log, driver, links, disk and port.

It takes part in the rounds of a reactor. When everything that was ready has been read, the driver decides; when its
messages to peers have left, the disk begins; then clients are answered. A timer requests rounds for the driver.
"""

import random
import socket
import time
from contextlib import ExitStack
from typing import Any

import attrs
import trio

from log.retention import KEEP_ALL
from raft.calls import Calls
from raft.core import RaftCore
from raft.disk_thread import DiskThread
from raft.driver import DriverConfig, RaftDriver
from raft.effects import RoleChanged
from raft.environment import Environment
from raft.flusher import Flusher
from raft.links import Links
from raft.members import Members
from raft.membership import Configuration
from raft.metrics import ELECTIONS, FLUSH_SECONDS, FLUSHES, WAITING, Figure, raft_figures
from raft.net.certificates import Certificates
from raft.net.listener import Listener
from raft.net.reactor import Reactor
from raft.net.rounds import Rounds
from raft.notices import InvariantBroken, LongTurn, Notice, Notify
from raft.pausing import Pausable
from raft.render import render
from raft.role_watch import RoleWatch
from raft.server import FRAME_OVERHEAD_BYTES, Doorkeeper, ServerIdentity
from raft.settings import NodeSettings
from raft.state_machine import StateMachine
from raft.storage import RaftStorage
from raft.trust import Credentials

RAFT = "raft"
"""The log of a group among those of a process."""


@attrs.frozen(kw_only=True)
class MemberPlan:
    """The parts that a node is made of, and how it is to work: checked."""

    cluster_id: str
    members: Members
    state_machine: StateMachine
    settings: NodeSettings
    rng: random.Random
    notify: Notify
    credentials: Credentials | None = None
    """The cluster's secret, and this node's place in it; without them, all that connect are believed."""
    tls: Certificates | None = None
    """With them the links speak TLS, and so does the port, unless it belongs to a host."""
    skipped: frozenset[int] = frozenset()
    """The indexes whose commands have no effect."""
    joins: bool = False
    """True if this node is none of those with which the group begins."""
    founded: bool = False
    """Vouches for a node in term 0, which is otherwise taken for one that has forgotten."""

    @property
    def configuration(self) -> Configuration:
        """The configuration with which the group begins, as far as this node knows."""
        dialled = self.members.dialled
        voters = [node for node in self.members.ids if node != self.members.own or not self.joins]
        addresses = {node: f"{dialled[node][0]}:{dialled[node][1]}" for node in voters}
        return Configuration(voters, addresses=addresses)


class Member:
    """One node in a reactor. It answers calls of this process through `calls`."""

    def __init__(
        self,
        plan: MemberPlan,
        storage: RaftStorage,
        port: socket.socket | Listener[Any],
        reactor: Reactor,
        *,
        owns_reactor: bool,
    ) -> None:
        self.calls = Calls()
        self.storage = storage
        self.reactor = reactor
        self.owns_reactor = owns_reactor
        self.has_failed = False
        self.roles = RoleWatch()
        self.pausable = Pausable()
        self._notify_program = plan.notify
        self._block = trio.CancelScope()
        members, settings = plan.members, plan.settings
        self._disk = DiskThread(reactor)
        self._links = Links(
            reactor=reactor,
            cluster_id=plan.cluster_id,
            node_id=members.own,
            addresses=members.peers,
            own_address=lambda: members.told_address(self.driver.core.configuration.addresses),
            outbound_bytes_max=settings.link_bytes_max,
            rng=random.Random(plan.rng.getrandbits(64)),
            notify=plan.notify,
            credentials=plan.credentials,
            tls=plan.tls,
        )
        self.driver = self._make_driver(plan)
        core = self.driver.core
        self._links.connect(
            core.configuration.others(members.own), core.configuration.addresses, alone=core.membership.is_known
        )
        self._flusher = Flusher(reactor, self.driver.on_flushed)
        self._rounds = Rounds(reactor, [self.driver])
        identity = ServerIdentity(
            cluster_id=plan.cluster_id,
            node_id=members.own,
            peers=frozenset(members.peers),
            frame_bytes_max=settings.frame_bytes_max,
            read_bytes_max=settings.read_bytes_max,
            credentials=plan.credentials,
        )
        self.doorkeeper = Doorkeeper(
            reactor, port, identity, settings, self.driver, self._notify, self._links, plan.tls
        )
        if owns_reactor:
            reactor.turns.on_long = lambda turn: plan.notify(LongTurn.of(turn))

    def _make_driver(self, plan: MemberPlan) -> RaftDriver:
        settings, reactor = plan.settings, self.reactor
        hard_state, view = self.storage.restore(settings.raft.cache_bytes_max)
        core = RaftCore(
            node_id=plan.members.own,
            configuration=plan.configuration,
            config=settings.raft,
            log=view,
            hard_state=hard_state,
            rng=random.Random(plan.rng.getrandbits(64)),
            now=trio.current_time(),
            takes_snapshots=settings.retention != KEEP_ALL,
            was_member=self.storage.was_lost,
            founded=plan.founded,
        )
        return RaftDriver(
            core=core,
            storage=self.storage,
            state_machine=plan.state_machine,
            environment=Environment(
                transport=self._links,
                has_more=reactor.has_more,
                clock=trio.lowlevel.current_clock().current_time,  # `trio.current_time` looks the clock up at each call
                wall_clock_ms=lambda: time.time_ns() // 1_000_000,
                notify=self._notify,
                addresses=plan.members.for_clients,
                turns=reactor.turns,
                work_beside=self._disk.submit,
            ),
            config=driver_config(settings, plan.skipped),
        )

    def _notify(self, notice: Notice) -> None:
        if isinstance(notice, RoleChanged):
            self.roles.note(notice)
        self._notify_program(notice)

    # ---------------------------------------------------------------- the life of a node

    def start(self, nursery: trio.Nursery) -> None:
        """Start the tasks of this node; the nursery ends with it."""
        self._block = nursery.cancel_scope
        self.reactor.attach(self)
        tasks = (self.reactor.run, self._rounds.run) if self.owns_reactor else (self._rounds.run,)
        nursery.start_soon(self.pausable.run, *tasks)
        if self.doorkeeper.owns_listener:
            nursery.start_soon(self.doorkeeper.listener.run)
        nursery.start_soon(self._links.run, self.driver.on_disconnected)

    def close_with(self, stack: ExitStack) -> None:
        """Close the parts at the end of `stack`. Last pushed, first done; each is done even if one before it fails."""
        stack.callback(self.driver.settle_flush)
        if self.owns_reactor:
            stack.callback(self.reactor.close)
        stack.callback(self._flusher.close)
        stack.callback(self._disk.close)  # waits for what is written outside of the loop
        stack.callback(self.driver.abandon_snapshots)
        stack.callback(self.doorkeeper.close)
        stack.callback(self._answer_all)

    def _answer_all(self) -> None:
        """Answer all calls that wait, unless the node has failed. From here on nothing more is decided."""
        if not self.has_failed:
            self.driver.close()
        self.reactor.detach(self)
        if not self.has_failed:
            self.reactor.round()

    def figures(self) -> list[Figure]:
        """Returns the figures of the group and its disk; those of the loop are the reactor's owner's."""
        return [
            *raft_figures(self.driver.status()),
            ELECTIONS(self.roles.elections),
            WAITING(self.driver.waiting_bytes),
            FLUSHES(self._flusher.flushes, RAFT),
            FLUSH_SECONDS(self._flusher.seconds, RAFT),
        ]

    # ---------------------------------------------------------------- rounds

    def on_round_end(self) -> None:
        """See `Participant`: decide."""
        try:
            self.driver.pump()
        except AssertionError as error:
            # The state of the moment is worth more than the traceback, and gone in the next.
            self._notify(InvariantBroken(str(error), render(self.driver.core)))
            raise

    def on_urgent_sent(self) -> None:
        """See `Participant`: let the disk begin."""
        flush = self.driver.begin_flush()
        if flush is not None:
            self._flusher.submit(flush)

    def on_all_sent(self) -> None:
        """See `Participant`."""
        if self.driver.has_postponed:
            self.reactor.ask_another_round()  # as soon as the answers of this one have been sent
        self._rounds.arm()

    def on_failed(self) -> None:
        """See `Participant`: the node itself has failed, as opposed to its user, so no call may get a definite answer.

        Callers in this process must not wait forever; clients see their connections close.
        """
        self.has_failed = True
        # First, so that calls made within the block end as cancelled, and what comes out of it is the cause alone.
        self._block.cancel()
        self.calls.give_up()
        self.roles.moved.set()


def driver_config(settings: NodeSettings, skipped: frozenset[int] = frozenset()) -> DriverConfig:
    """Returns the bounds and times of the driver of a node with these settings."""
    return DriverConfig(
        flush_policy=settings.flush,
        flush_interval_s=settings.flush_interval_s,
        flush_stall_s=settings.flush_stall_s,
        batch_bytes_max=settings.batch_bytes_max,
        pending_bytes_max=settings.pending_bytes_max,
        retention=settings.retention,
        skipped=skipped,
        snapshot_bytes_max=settings.snapshot_bytes_max,
        result_bytes_max=settings.frame_bytes_max - FRAME_OVERHEAD_BYTES,
    )
