"""RaftGroup: one node of a replicated log, inside any Trio program.

    async with RaftGroup.open(node_id=1, members={1: ("127.0.0.1", 4001), 2: ..., 3: ...}, directory="data/1") as group:
        appended = await group.append([b"a record"])
        records = await group.read(appended.base_offset)

It puts the parts together (log, storage, core, driver, links, port) and owns their tasks. The error that a call raises
(`raft.errors`) states whether the operation took effect; a cancelled `append` or `apply` may still take effect. A
failed disk or a broken invariant ends the group: the error is raised out of the `async with`, in an exception group as
nurseries make them, and nothing is written any more. Calls of other tasks that wait for an answer then raise
`OutcomeUnknown`, and later calls `ShuttingDown`.
"""

import logging
import math
import random
import socket
import time
from collections.abc import AsyncIterator, Callable, Collection, Mapping, Sequence
from contextlib import ExitStack, asynccontextmanager
from typing import Any, ClassVar

import attrs
import trio

from log.disk import Disk, RealDisk
from log.retention import KEEP_ALL
from log.segmented_log import RecoveryReport
from raft.addresses import address_of
from raft.client_codec import CLUSTER_ID_LENGTH_MAX, NODE_ID_MAX, check_command, check_read
from raft.core import RaftCore
from raft.directory import Identity, open_storage
from raft.disk_thread import DiskThread
from raft.driver import DriverConfig, RaftDriver
from raft.effects import RoleChanged
from raft.environment import Environment
from raft.errors import InvalidRequest, NotLeader, OutcomeUnknown, RaftError, ShuttingDown, WrongStateMachine
from raft.flusher import Flusher
from raft.links import Links
from raft.membership import Configuration
from raft.model import LogIndex, NodeId, Position, Term
from raft.net.connection import CLOSED_BY_OTHER_SIDE, SocketConnection
from raft.net.framing import Frame, FrameDecoder
from raft.net.listener import Listener, ListenerLimits, bind
from raft.net.reactor import Reactor
from raft.notices import (
    ConnectionClosed,
    ConnectionRefused,
    InvariantBroken,
    LogRepaired,
    LogSetAside,
    LongTurn,
    Notice,
    Notify,
    event_of,
)
from raft.record_batch import pack_batch
from raft.register import RegisterMachine
from raft.render import render
from raft.results import Appended, Applied, Records, Tail
from raft.server import FRAME_OVERHEAD_BYTES, Handshake, ServerIdentity
from raft.settings import NodeSettings
from raft.state_machine import SnapshotMachine, StateMachine
from raft.storage import RaftStorage
from raft.subscription import Subscriber, Subscription

logger = logging.getLogger(__name__)

PEER_CONNECTIONS_MAX = 4
"""Incoming connections of one peer.

Redials overlap with connections not yet known to be dead; more than a few do not.
"""
PEER_PLACES = 2
"""Connections kept free for each peer, because many clients must not cut this node off from its group."""
HELLO_FRAMES = 1
"""Frames of a connection before its first message."""
NODE_STOPS = "the node stops"

Address = tuple[str, int]


class _Waiter:
    """One call of this process that waits for the driver."""

    __slots__ = ("_event", "_outcome")

    def __init__(self) -> None:
        self._event = trio.Event()
        self._outcome: tuple[int, int, bytes] | RaftError | None = None

    def settle(self, outcome: tuple[int, int, bytes] | RaftError) -> None:
        if self._outcome is None:
            self._outcome = outcome
            self._event.set()

    async def wait(self) -> tuple[int, int, bytes]:
        await self._event.wait()
        assert self._outcome is not None
        if isinstance(self._outcome, RaftError):
            raise self._outcome
        return self._outcome


@attrs.frozen
class _Callback:
    """One append of this process that does not wait."""

    count: int
    done: Callable[[Appended | RaftError], None]

    def settle(self, outcome: tuple[int, int, bytes] | RaftError) -> None:
        if isinstance(outcome, RaftError):
            self.done(outcome)
        else:
            base_offset, term, _ = outcome
            self.done(Appended(base_offset, self.count, term))


@attrs.frozen
class _CommandCallback:
    """One command of this process that does not wait."""

    done: Callable[[Applied | RaftError], None]

    def settle(self, outcome: tuple[int, int, bytes] | RaftError) -> None:
        self.done(outcome if isinstance(outcome, RaftError) else Applied(outcome[0], outcome[2]))


class _Announcement:
    """A read of this process of which only the heartbeats are wanted."""

    def settle(self, outcome: tuple[int, int, bytes] | RaftError) -> None:
        """There is no caller that waits."""


_Waiting = _Waiter | _Callback | _CommandCallback | _Announcement


class _LocalCaller:
    """The `Caller` of this process: request ids to waiters."""

    def __init__(self) -> None:
        self._waiters: dict[int, _Waiting] = {}
        self._last_id = 0

    def new(self) -> tuple[int, _Waiter]:
        waiter = _Waiter()
        return self.add(waiter), waiter

    def add(self, waiter: _Waiting) -> int:
        self._last_id += 1
        self._waiters[self._last_id] = waiter
        return self._last_id

    def on_appended(self, request_id: int, base_offset: int, span: int, term: int) -> None:
        self._waiters.pop(request_id).settle((base_offset, term, b""))

    def on_applied(self, request_id: int, index: int, result: bytes) -> None:
        self._waiters.pop(request_id).settle((index, 0, result))

    def on_readable(self, request_id: int) -> None:
        self._waiters.pop(request_id).settle((0, 0, b""))

    def on_refused(self, request_id: int, error: RaftError) -> None:
        self._waiters.pop(request_id).settle(error)

    def give_up(self) -> None:
        """The driver will answer no more."""
        waiters, self._waiters = self._waiters, {}
        for waiter in waiters.values():
            waiter.settle(OutcomeUnknown("the node has failed while the request was in flight"))


class RaftGroup:
    """One node, opened by `open`. Calls may be made by any number of tasks."""

    _founded: ClassVar[bool] = False
    """Vouches for a node in term 0, which is otherwise taken for one that has forgotten: for tests of a node without
    peers.
    """

    def __init__(
        self,
        *,
        node_id: NodeId,
        cluster_id: str,
        dial_addresses: Mapping[NodeId, Address],
        advertised: Mapping[NodeId, str],
        storage: RaftStorage,
        port: socket.socket | Listener[Any],
        state_machine: StateMachine,
        settings: NodeSettings,
        rng: random.Random,
        notify: Notify,
        reactor: Reactor,
        owns_reactor: bool,
    ) -> None:
        """Use `open`."""
        self._settings = settings
        self._leader_moved = trio.Event()
        self._disk_thread: DiskThread | None = None
        self._told = notify
        self._storage = storage
        self._caller = _LocalCaller()
        self._deadline_moved = trio.Event()
        self._armed_for = 0.0
        self._has_failed = False
        self._block = trio.CancelScope()
        self._life = trio.CancelScope()
        self._goes_on = trio.Event()
        self._goes_on.set()
        self._incoming: dict[NodeId, list[SocketConnection[Frame]]] = {}
        self._reactor = reactor
        self._owns_reactor = owns_reactor
        if owns_reactor:
            reactor.turns.on_long = lambda turn: notify(LongTurn.of(turn))
        self._links = Links(
            reactor=self._reactor,
            on_disconnected=lambda peer: self._driver.on_disconnected(peer),
            cluster_id=cluster_id,
            node_id=node_id,
            addresses=dial_addresses,
            outbound_bytes_max=settings.link_bytes_max,
            rng=random.Random(rng.getrandbits(64)),
            notify=notify,
        )
        self._driver = self._make_driver(node_id, [*dial_addresses, node_id], advertised, state_machine, rng)
        self._flusher = Flusher(self._reactor, self._driver.on_flushed)
        self._identity = ServerIdentity(
            cluster_id=cluster_id,
            node_id=node_id,
            peers=frozenset(dial_addresses),
            frame_bytes_max=settings.frame_bytes_max,
            read_bytes_max=settings.read_bytes_max,
        )
        self._owns_listener = not isinstance(port, Listener)
        self._listener: Listener[Any] = port if isinstance(port, Listener) else self._listen_on(port)

    def _notify(self, notice: Notice) -> None:
        if isinstance(notice, RoleChanged):
            moved, self._leader_moved = self._leader_moved, trio.Event()
            moved.set()
        self._told(notice)

    def _listen_on(self, listening: socket.socket) -> Listener[Frame]:
        settings = self._settings
        return Listener(
            self._reactor,
            listening,
            self._open_connection,
            limits=ListenerLimits(
                connections_max=settings.connections_max, greeting_timeout_s=settings.greeting_timeout_s
            ),
            on_refused=lambda name, reason: self._notify(ConnectionRefused(name, reason)),
        )

    def _make_driver(
        self,
        node_id: NodeId,
        voters: Sequence[NodeId],
        advertised: Mapping[NodeId, str],
        state_machine: StateMachine,
        rng: random.Random,
    ) -> RaftDriver:
        settings = self._settings
        hard_state, view = self._storage.restore(settings.raft.cache_bytes_max)
        core = RaftCore(
            node_id=node_id,
            configuration=Configuration(frozenset(voters)),
            config=settings.raft,
            log=view,
            hard_state=hard_state,
            rng=random.Random(rng.getrandbits(64)),
            now=trio.current_time(),
            takes_snapshots=settings.retention != KEEP_ALL,
            was_member=self._storage.was_lost,
            founded=self._founded,
        )
        return RaftDriver(
            core=core,
            storage=self._storage,
            state_machine=state_machine,
            environment=Environment(
                transport=self._links,
                has_more=self._reactor.has_more,
                clock=trio.lowlevel.current_clock().current_time,  # `trio.current_time` looks the clock up at each call
                wall_clock_ms=lambda: time.time_ns() // 1_000_000,
                notify=self._notify,
                addresses=advertised,
                turns=self._reactor.turns,
                work_beside=self._work_beside,
            ),
            config=DriverConfig(
                flush_policy=settings.flush,
                flush_interval_s=settings.flush_interval_s,
                flush_stall_s=settings.flush_stall_s,
                batch_bytes_max=settings.batch_bytes_max,
                pending_bytes_max=settings.pending_bytes_max,
                retention=settings.retention,
                snapshot_bytes_max=settings.snapshot_bytes_max,
                result_bytes_max=settings.frame_bytes_max - FRAME_OVERHEAD_BYTES,
            ),
        )

    # ---------------------------------------------------------------- opening and closing

    @classmethod
    @asynccontextmanager
    async def open(
        cls,
        *,
        node_id: int,
        members: Mapping[int, Address | str],
        directory: str,
        cluster_id: str = "quorumlog",
        listen: Address | str | None = None,
        advertised: Mapping[int, str] | None = None,
        state_machine: StateMachine | None = None,
        settings: NodeSettings | None = None,
        rng: random.Random | None = None,
        disk: Disk | None = None,
        notify: Notify | None = None,
        owns_thread: bool = False,
        reactor: Reactor | None = None,
        listener: Listener[Any] | None = None,
    ) -> AsyncIterator["RaftGroup"]:
        """Start this node and stop it at the end of the block.

        `members` are the addresses that this node dials, its own included; `listen` its own and `advertised`
        ("host:port") the ones that clients dial, where they differ. `notify` is called with changes of role, links and
        refused connections (`raft.notices`). With `owns_thread`, for a program that is only this node, it serves its
        sockets faster, and other Trio tasks may wait up to 20 ms. A program that serves more gives a `reactor`, on
        which it has its own listeners and perhaps other groups; it runs the reactor, and closes it after all groups. An
        error in the loop then ends all of them, and `reactor.run` raises it. Closing the group waits for a flush under
        way. To serve another protocol on the same port, give the `listener` of that port as well, hand connections of
        the native wire to `take_over` (`raft.net.sharing`), and close it before the group.

        Raises `OSError` if the port cannot be bound; `DirectoryLocked`, `WrongDirectory`, `WrongMembers`,
        `WrongStateMachine`, `IncompleteDirectory`, `CorruptLog`, `NoSpace` or `StorageFailed` if the directory cannot
        be used. Addresses may change between starts, the ids of the members may not. Raises `ValueError`, before
        anything is touched, for invalid ids, addresses or `cluster_id`, for a retention without a `SnapshotMachine`,
        for `owns_thread` with a `reactor`, and for a `listener` without its reactor or with an address.
        """
        _require_apart(owns_thread, reactor, listener, listen)
        own_id = NodeId(node_id)
        _require_possible(node_id, members, cluster_id)
        _require_places_apart(node_id, members, listen, advertised or {})
        settings = _require_settings(settings)
        machine = _fit_machine(RegisterMachine() if state_machine is None else state_machine, settings)
        places = {NodeId(member): address_of(at) for member, at in members.items()}
        with ExitStack() as stack:
            port = listener or stack.enter_context(bind(*address_of(listen or places[own_id])))
            identity = Identity(cluster_id, own_id, tuple(sorted(members)))
            storage = open_storage(disk or RealDisk(), directory, identity, settings)
            stack.callback(storage.close)
            _require_restorable(directory, storage, machine)
            _tell_repair(storage, notify or _log)
            group = cls(
                node_id=own_id,
                cluster_id=cluster_id,
                dial_addresses={peer: at for peer, at in places.items() if peer != own_id},
                advertised=_for_clients(places, advertised or {}),
                storage=storage,
                port=port,
                state_machine=machine,
                settings=settings,
                rng=rng or random.Random(),
                notify=notify or _log,
                reactor=reactor or Reactor(owns_thread=owns_thread),
                owns_reactor=reactor is None,
            )
            group._close_with(stack)
            async with trio.open_nursery() as nursery:
                group._start(nursery)
                try:
                    yield group
                finally:
                    nursery.cancel_scope.cancel()

    def _close_with(self, stack: ExitStack) -> None:
        """Last pushed, first done; each is done even if one before it fails."""
        stack.callback(self._driver.settle_flush)
        if self._owns_reactor:
            stack.callback(self._reactor.close)
        stack.callback(self._flusher.close)
        stack.callback(self._end_work)
        if self._owns_listener:
            stack.callback(self._listener.close, NODE_STOPS)
        stack.callback(self._answer_all)

    def _work_beside(self, work: Callable[[], None], done: Callable[[BaseException | None], None]) -> None:
        if self._disk_thread is None:
            self._disk_thread = DiskThread(self._reactor)
        self._disk_thread.submit(work, done)

    def _end_work(self) -> None:
        """Wait for what is written outside of the loop."""
        self._driver.abandon_snapshots()
        if self._disk_thread is not None:
            self._disk_thread.close()

    def _start(self, nursery: trio.Nursery) -> None:
        self._block = nursery.cancel_scope
        self._reactor.attach(self)
        nursery.start_soon(self._run)
        if self._owns_listener:
            nursery.start_soon(self._listener.run)
        nursery.start_soon(self._links.run)

    def on_failed(self) -> None:
        """See `Participant`: the node itself has failed, as opposed to its user, so no call may get a definite answer.

        Callers in this process must not wait forever; clients see their connections close.
        """
        self._has_failed = True
        # First, so that calls made within the block end as cancelled, and what comes out of it is the cause alone.
        self._block.cancel()
        self._caller.give_up()
        self._leader_moved.set()

    def _answer_all(self) -> None:
        """Answer all calls that wait, unless the node has failed. From here on nothing more is decided."""
        if not self._has_failed:
            self._driver.close()
        self._reactor.detach(self)
        if not self._has_failed:
            self._reactor.round()

    # ---------------------------------------------------------------- what one may ask

    @property
    def address(self) -> Address:
        """The address on which this node listens."""
        return self._listener.address

    @property
    def recovery(self) -> RecoveryReport:
        """The findings and repairs of the recovery when the log was opened."""
        return self._storage.log.recovery

    async def append(self, records: Sequence[bytes]) -> Appended:
        """Append records, which get consecutive offsets. Returns once they are committed.

        Raises `NotLeader`, `Busy`, `StorageFull`, `InvalidRequest` or `ShuttingDown` if nothing was appended, and
        `OutcomeUnknown` if the records may have been appended.
        """
        batch = pack_batch(records)
        self._require_fit("a batch", batch)
        self._require_working()
        request_id, waiter = self._caller.new()
        self._driver.append(self._caller, request_id, batch, len(records))
        base_offset, term, _ = await self._await_outcome(waiter)
        return Appended(base_offset, len(records), term)

    def submit(self, records: Sequence[bytes], done: Callable[[Appended | RaftError], None]) -> None:
        """Like `append`, in the order of the calls and without waiting: `done` is called later, once, with the result
        or the error.

        It is called in the loop and must not raise. Raises `InvalidRequest` or `ShuttingDown` at once, and then `done`
        is not called.
        """
        batch = pack_batch(records)
        self._require_fit("a batch", batch)
        self._require_working()
        request_id = self._caller.add(_Callback(len(records), done))
        self._driver.append(self._caller, request_id, batch, len(records))
        self._reactor.request_round()

    async def read(self, offset: int, bytes_max: int = 1024 * 1024) -> Records:
        """Returns committed entries from the one that holds `offset` on.

        Any node serves what it knows to be committed; at or beyond that only the leader answers, and an empty result
        means that nothing was there when the call was made. Raises `RecordsTrimmed` if the records have left the log of
        this node by its retention, `NotLeader` if only the leader could answer.
        """
        check_read(offset, bytes_max)
        if offset >= self._driver.committed_end:
            await self._linearize()
        else:
            await trio.lowlevel.checkpoint()  # a caller that reads a whole log must let the node run meanwhile
        self._require_working()
        batches = self._driver.read_committed(offset, min(bytes_max, self._settings.read_bytes_max))
        return Records(self._driver.committed_end, tuple(batches))

    async def tail(self) -> Tail:
        """Returns where the committed log ends: at or after the end of every append that was answered before this call.

        Raises `NotLeader` on any node but the leader.
        """
        await self._linearize()
        return Tail(self._driver.committed_end, self._driver.core.term)

    async def apply(self, command: bytes) -> Applied:
        """Returns the result of a command that the replicated state machine has carried out.

        Raises as `append` does.
        """
        check_command(command)
        self._require_fit("a command", command)
        self._require_working()
        request_id, waiter = self._caller.new()
        self._driver.apply(self._caller, request_id, command)
        index, _, result = await self._await_outcome(waiter)
        return Applied(index, result)

    def propose(self, command: bytes, done: Callable[[Applied | RaftError], None]) -> None:
        """Like `apply`, in the order of the calls and without waiting: `done` is called later, once, with the result or
        the error.

        It is called in the loop and must not raise. Raises `InvalidRequest` or `ShuttingDown` at once, and then `done`
        is not called.
        """
        check_command(command)
        self._require_fit("a command", command)
        self._require_working()
        self._driver.apply(self._caller, self._caller.add(_CommandCallback(done)), command)
        self._reactor.request_round()

    def announce(self) -> None:
        """Tell the other members at once what is committed, not with the next message or heartbeat.

        Only the leader does so.

        For a program whose members are all to act on what was committed, as soon as possible.
        """
        if not self._has_failed:
            self._driver.read(self._caller, self._caller.add(_Announcement()))
            self._reactor.has_news = True

    async def query(self, command: bytes) -> Applied:
        """Returns the state machine's answer to a query, linearizably.

        Raises `NotLeader` on any node but the leader.
        """
        check_command(command)
        self._driver.check_query(command)
        await self._linearize(after_apply=True)
        return Applied(self._driver.applied_index, self._driver.query(command))

    async def wait_for_leader(self, timeout_s: float = math.inf) -> int:
        """Returns the id of the leader, as soon as this node knows one; that node may need a moment more before it
        serves.

        Raises `NotLeader` if none is known within `timeout_s`, `ShuttingDown` if the node ends.
        """
        with trio.move_on_after(timeout_s):
            while not (leader := self._driver.core.leader):
                self._require_working()
                await self._leader_moved.wait()
            await trio.lowlevel.checkpoint()
            return leader
        raise NotLeader

    def status(self) -> dict[str, object]:
        """Returns the present status of this node: its role, term, log and group, and the longest turn of its loop so
        far.
        """
        return self._driver.status()

    def subscribe(self, subscriber: Subscriber, after_index: int = 0) -> Subscription:
        """Have `subscriber` called with all that is committed behind `after_index`, in order, and with changes of
        leadership.

        See `raft.subscription` for what it gets, and when. Returns the subscription, which ends with its `close` or
        with the group.
        """
        subscription = Subscription(subscriber, after_index)
        self._driver.subscribe(subscription)
        self._reactor.request_round()
        return subscription

    # ---------------------------------------------------------------- for tests of what uses it

    def pause(self) -> None:
        """Stop working until `resume`, as a process does at SIGSTOP: sockets stay open, nothing is read, decided or
        sent.

        Raises `RuntimeError` for a group on a reactor that it was given, which others need.
        """
        if not self._owns_reactor:
            raise RuntimeError("a group on a reactor that it was given cannot stand still alone")
        if self._goes_on.is_set():
            self._goes_on = trio.Event()
        self._life.cancel()

    def resume(self) -> None:
        """Continue; messages that arrived meanwhile are processed before timeouts."""
        self._goes_on.set()

    def campaign(self) -> None:
        """Start an election at once if this node waits for a leader and knows of none, so that a new group need not
        wait for a timeout.
        """
        self._driver.core.hurry(trio.current_time())
        self._reactor.request_round()

    def _require_fit(self, what: str, data: bytes) -> None:
        """An entry that no frame can carry would never reach a peer, and would keep all that follow it from them."""
        if len(data) > self._settings.frame_bytes_max - FRAME_OVERHEAD_BYTES:
            raise InvalidRequest(f"{what} of {len(data)} bytes is too large")

    def _require_working(self) -> None:
        """A node that has failed would never answer."""
        if self._has_failed:
            raise ShuttingDown

    async def _linearize(self, *, after_apply: bool = False) -> None:
        self._require_working()
        request_id, waiter = self._caller.new()
        self._driver.read(self._caller, request_id, after_apply=after_apply)
        await self._await_outcome(waiter)

    async def _await_outcome(self, waiter: _Waiter) -> tuple[int, int, bytes]:
        self._reactor.request_round()
        return await waiter.wait()

    # ---------------------------------------------------------------- the loop

    async def _run(self) -> None:
        while True:
            while not self._goes_on.is_set():  # it may have been paused again before this task ran
                await self._goes_on.wait()
            async with trio.open_nursery() as nursery:
                self._life = nursery.cancel_scope
                if self._owns_reactor:
                    nursery.start_soon(self._reactor.run)
                nursery.start_soon(self._run_timer)

    def on_round_end(self) -> None:
        """See `Participant`: decide."""
        try:
            self._driver.pump()
        except AssertionError as error:
            # The state of the moment is worth more than the traceback, and gone in the next.
            self._notify(InvariantBroken(str(error), render(self._driver.core)))
            raise

    def on_urgent_sent(self) -> None:
        """See `Participant`: let the disk begin."""
        flush = self._driver.begin_flush()
        if flush is not None:
            self._flusher.submit(flush)
        self._arm()

    def _arm(self) -> None:
        """See to it that the driver is called again when it wants to be."""
        if self._driver.has_postponed:
            self._reactor.has_news = True  # another round, as soon as the answers of this one have been sent
        if self._driver.deadline < self._armed_for:
            self._deadline_moved.set()

    async def _run_timer(self) -> None:
        """Request a round whenever the driver is due, so that messages that arrived meanwhile are processed before the
        tick.
        """
        while True:
            self._armed_for = self._driver.deadline
            self._deadline_moved = trio.Event()
            with trio.move_on_at(self._armed_for):
                await self._deadline_moved.wait()
            if trio.current_time() < self._driver.deadline:
                continue
            if self._owns_reactor:
                self._reactor.round()
                continue
            # What fails in a round is to come out of `run`, where the owner of the reactor expects it, and not of this
            # task.
            self._armed_for = math.inf
            self._deadline_moved = trio.Event()
            self._reactor.request_round()
            await self._deadline_moved.wait()

    # ---------------------------------------------------------------- connections (ConnectionPolicy)

    def _open_connection(self, accepted: socket.socket, name: str) -> SocketConnection[Frame]:
        handshake = Handshake(self._identity, self._driver, self)
        handshake.connection = SocketConnection(
            self._reactor,
            accepted,
            handshake.decoder,
            handshake,
            outbound_bytes_max=self._settings.outbound_bytes_max,
            name=name,
        )
        return handshake.connection

    def take_over(self, connection: SocketConnection[Any]) -> FrameDecoder:
        """Serve a connection of the `listener` that this group was given, from its first byte on.

        Returns its decoder, which is in place.
        """
        handshake = Handshake(self._identity, self._driver, self)
        handshake.connection = connection
        connection.outbound_bytes_max = self._settings.outbound_bytes_max
        connection.session = handshake
        connection.decoder = handshake.decoder
        return handshake.decoder

    def has_room_for_client(self) -> bool:
        """See `ConnectionPolicy`."""
        bound = self._settings.connections_max
        return self._listener.connections <= bound - min(PEER_PLACES * len(self._identity.peers), bound // 2)

    def on_greeted(self, connection: SocketConnection[Frame]) -> None:
        """See `ConnectionPolicy`."""
        self._listener.on_greeted(connection)

    def peer_arrived(self, peer: NodeId, connection: SocketConnection[Frame]) -> None:
        """See `ConnectionPolicy`."""
        incoming = self._incoming.setdefault(peer, [])
        incoming.append(connection)
        if len(incoming) > PEER_CONNECTIONS_MAX:
            incoming[0].close("replaced by newer connections of the same peer")
        self._links.nudge(peer)

    def peer_left(self, peer: NodeId, connection: SocketConnection[Frame]) -> None:
        """See `ConnectionPolicy`.

        Reported to the core only if the connection was in use; the end of older or unused ones means nothing.
        """
        incoming = self._incoming[peer]
        # A peer sends on one connection at a time. An older one that still seems open was left by a broken network.
        in_use = next((one for one in reversed(incoming) if one.frames_in > HELLO_FRAMES), incoming[-1])
        incoming.remove(connection)
        if connection is in_use:
            self._driver.on_disconnected(peer)

    def on_closed(self, connection: SocketConnection[Frame], role: str, reason: str) -> None:
        """See `ConnectionPolicy`."""
        self._listener.forget(connection)
        if reason not in (CLOSED_BY_OTHER_SIDE, NODE_STOPS):
            self._notify(ConnectionClosed(connection.name, role, reason))


def _require_apart(
    owns_thread: bool, reactor: Reactor | None, listener: Listener[Any] | None, listen: Address | str | None
) -> None:
    if owns_thread and reactor is not None:
        raise ValueError("a reactor that is given knows by itself whether it owns its thread")
    if listener is not None and (reactor is None or listen is not None):
        raise ValueError("a listener that is given comes with its reactor, and with its own address")


def _require_settings(settings: NodeSettings | None) -> NodeSettings:
    if settings is not None and not isinstance(settings, NodeSettings):
        raise TypeError(f"settings are NodeSettings (raft.settings), not {settings!r}")
    return settings or NodeSettings()


def _require_possible(node_id: int, members: Collection[int], cluster_id: str) -> None:
    if node_id not in members:
        raise ValueError(f"node {node_id} is not among the members {sorted(members)}")
    if min(members) < 1 or max(members) > NODE_ID_MAX:
        raise ValueError(f"the ids of nodes are 1 to {NODE_ID_MAX}, not {sorted(members)}")
    if not 1 <= len(cluster_id) <= CLUSTER_ID_LENGTH_MAX:
        raise ValueError(f"a cluster id has 1 to {CLUSTER_ID_LENGTH_MAX} characters")


def _require_places_apart(
    node_id: int, members: Mapping[int, Address | str], listen: Address | str | None, advertised: Mapping[int, str]
) -> None:
    """Two nodes at one address would be dialled as one, and never form a majority of two."""
    for what, given in (("members", members), ("advertised", advertised)):
        at: dict[Address, int] = {}
        for member, place in sorted(given.items()):
            host, port = address = address_of(place)
            if port and at.setdefault(address, member) != member:
                raise ValueError(f"{what} has nodes {at[address]} and {member} at one address, {host}:{port}")
    if unknown := sorted(advertised.keys() - members.keys()):
        raise ValueError(f"node {unknown[0]} is advertised, and not among the members {sorted(members)}")
    for member, place in members.items():
        if listen is not None and member != node_id and address_of(place) == address_of(listen):
            raise ValueError(f"node {node_id} is to listen where node {member} is, at {address_of(listen)}")


def _for_clients(places: Mapping[NodeId, Address], advertised: Mapping[int, str]) -> dict[NodeId, str]:
    """Returns the addresses at which clients reach each node: where it is dialled, unless another one is advertised."""
    known = {member: f"{host}:{port}" for member, (host, port) in places.items()}
    return known | {NodeId(member): address for member, address in advertised.items()}


def _fit_machine(machine: StateMachine, settings: NodeSettings) -> StateMachine:
    """The same; `TypeError` for what is none, `ValueError` for one that these settings would leave without what made
    it.
    """
    if isinstance(machine, type) or not isinstance(machine, StateMachine):
        raise TypeError(f"a state machine has `check`, `apply` and `query` (raft.state_machine): {machine!r} is none")
    if settings.retention != KEEP_ALL and not isinstance(machine, SnapshotMachine):
        raise ValueError(
            f"with retention_bytes or retention_s commands leave the log: {type(machine).__name__} needs `snapshot` and "
            "`restore` (raft.SnapshotMachine)"
        )
    return machine


def _require_restorable(directory: str, storage: RaftStorage, machine: StateMachine) -> None:
    if storage.log.start.before.last_index and not isinstance(machine, SnapshotMachine):
        raise WrongStateMachine(directory, type(machine).__name__)


def _tell_repair(storage: RaftStorage, notify: Notify) -> None:
    """Notify of a damaged log: that it was set aside, or truncated from which address to which, and how far it had
    reached.
    """
    if storage.set_aside_for is not None:
        notify(LogSetAside(storage.set_aside_for))
    if (repaired := storage.log.recovery.repaired) is not None:
        floor = Position(LogIndex(repaired.floor.index), Term(repaired.floor.epoch))
        notify(LogRepaired(repaired.cut_from, repaired.cut_to, floor))


def _log(notice: Notice) -> None:
    event, fields = event_of(notice)
    level = logging.WARNING if isinstance(notice, LongTurn) else logging.INFO
    logger.log(level, "%s %s", event, " ".join(f"{name}={value}" for name, value in fields.items()))
