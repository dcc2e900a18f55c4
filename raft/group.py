"""RaftGroup: one node of a replicated log, inside any Trio program.

    async with RaftGroup.open(node_id=1, members={1: ("127.0.0.1", 4001), 2: ..., 3: ...}, directory="data/1") as group:
        appended = await group.append([b"a record"])
        records = await group.read(appended.base_offset)

`open` checks what it is given, opens the log, and starts the parts (`raft.member`). The error that a call raises
(`raft.errors`) states whether the operation took effect; a cancelled `append` or `apply` may still take effect. A
failed disk or a broken invariant ends the group: the error is raised out of the `async with`, in an exception group as
nurseries make them, and nothing is written any more. Calls of other tasks that wait for an answer then raise
`OutcomeUnknown`, and later calls `ShuttingDown`.
"""

import logging
import math
import random
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack, asynccontextmanager
from typing import Any, ClassVar, TypeVar

import trio

from log.disk import Disk, RealDisk
from log.recovery import RecoveryReport
from log.retention import KEEP_ALL
from raft.addresses import Address, address_of, is_loopback
from raft.calls import Call
from raft.client_codec import CLUSTER_ID_LENGTH_MAX, check_change, check_command, check_read
from raft.directory import Identity, open_storage
from raft.errors import InvalidRequest, NotLeader, RaftError, ShuttingDown, WrongStateMachine
from raft.member import Member, MemberPlan
from raft.members import Members
from raft.membership import Change
from raft.metrics import Figure, loop_figures
from raft.model import LogIndex, NodeId, Position, Term
from raft.net.certificates import Certificates
from raft.net.connection import SocketConnection
from raft.net.framing import FrameDecoder
from raft.net.listener import Listener, bind
from raft.net.reactor import Reactor
from raft.notices import LogRepaired, LogSetAside, LongTurn, Notice, Notify, event_of
from raft.record_batch import pack_batch
from raft.register import RegisterMachine
from raft.results import Appended, Applied, Records, Tail
from raft.secret_file import credentials_of
from raft.server import FRAME_OVERHEAD_BYTES
from raft.settings import NodeSettings
from raft.state_machine import SnapshotMachine, StateMachine
from raft.storage import RaftStorage
from raft.subscription import Subscriber, Subscription
from raft.trust import SecretSource

logger = logging.getLogger(__name__)

T = TypeVar("T")


class RaftGroup:
    """One node, opened by `open`. Calls may be made by any number of tasks."""

    _founded: ClassVar[bool] = False
    """Vouches for a node in term 0, else taken for one that has forgotten: for tests of one without peers."""

    def __init__(self, member: Member, settings: NodeSettings) -> None:
        """Use `open`."""
        self._member = member
        self._driver = member.driver
        self._calls = member.calls
        self._reactor = member.reactor
        self._settings = settings

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
        joins: bool = False,
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
        secret: SecretSource | None = None,
        insecure: bool = False,
        tls: Certificates | None = None,
        skip_commands: Iterable[int] = (),
    ) -> AsyncIterator["RaftGroup"]:
        """Start this node and stop it at the end of the block.

        `members` are the addresses that this node dials, its own included. With `joins` this node is none of those with
        which the group begins: give it the present members, and make it one by `change_members` on the leader. `listen` its own and `advertised`
        ("host:port") the ones that clients dial, where they differ. `notify` is called with changes of role, links and
        refused connections (`raft.notices`). With `owns_thread`, for a program that is only this node, it serves its
        sockets faster, and other Trio tasks may wait up to 20 ms. A program that serves more gives a `reactor`, on
        which it has its own listeners and perhaps other groups; it runs the reactor, and closes it after all groups. An
        error in the loop then ends all of them, and `reactor.run` raises it. Closing the group waits for a flush under
        way. To serve another protocol on the same port, give the `listener` of that port as well, hand connections of
        the native wire to `take_over` (`raft.net.sharing`), and close it before the group. With a `secret`
        (`raft.read_secret`) only members and clients that prove that they know it are served. A node without one listens
        on loopback alone, unless it is `insecure`: then any process that reaches its port may do everything. With `tls`
        peers and clients are reached and served over TLS; a `listener` has its own.

        `skip_commands` are indexes whose commands have no effect, the same on all members: the way on for a group none
        of whose members gets beyond a command, because its state machine cannot take it (`StateMachineFailed`).

        Raises `OSError` if the port cannot be bound; `DirectoryLocked`, `WrongDirectory`, `WrongMembers`,
        `WrongStateMachine`, `IncompleteDirectory`, `CorruptLog`, `NoSpace` or `StorageFailed` if the directory cannot
        be used. Addresses may change between starts, the ids of the members may not: a group changes its members itself,
        and from then on its nodes know them from their directories. Raises `ValueError`, before anything is touched, for invalid ids, addresses or `cluster_id`, for a retention without a `SnapshotMachine`, for
        an address beyond loopback without a secret, for `owns_thread` with a `reactor`, and for a `listener` without
        its reactor or with an address.
        """
        _require_apart(owns_thread, reactor, listener, listen)
        checked = Members.of(node_id, members, listen=listen, advertised=advertised)
        if not 1 <= len(cluster_id) <= CLUSTER_ID_LENGTH_MAX:
            raise ValueError(f"a cluster id has 1 to {CLUSTER_ID_LENGTH_MAX} characters")
        settings = _require_settings(settings)
        machine = _fit_machine(RegisterMachine() if state_machine is None else state_machine, settings)
        place = address_of(listen or checked.dialled[checked.own])
        if listener is None and (secret is None and not insecure and not is_loopback(place)):
            raise ValueError(f"{place[0]} can be reached from outside: give the node the `secret` of its cluster")
        with ExitStack() as stack:
            port = listener or stack.enter_context(bind(*place))
            identity = Identity(cluster_id, checked.own, None if joins else checked.ids)
            storage = open_storage(disk or RealDisk(), directory, identity, settings)
            stack.callback(storage.close)
            _require_restorable(directory, storage, machine)
            _tell_repair(storage, notify or _log)
            plan = MemberPlan(
                cluster_id=cluster_id,
                members=checked,
                state_machine=machine,
                settings=settings,
                rng=rng or random.Random(),
                notify=notify or _log,
                credentials=credentials_of(secret, cluster_id, str(node_id)) if secret else None,
                tls=tls,
                skipped=frozenset(skip_commands),
                founded=cls._founded,
                joins=joins,
            )
            loop = reactor or Reactor(
                owns_thread=owns_thread, limits=settings.connections.budget(settings.frame_bytes_max)
            )
            member = Member(plan, storage, port, loop, owns_reactor=reactor is None)
            member.close_with(stack)
            async with trio.open_nursery() as nursery:
                member.start(nursery)
                try:
                    yield cls(member, settings)
                finally:
                    nursery.cancel_scope.cancel()

    # ---------------------------------------------------------------- what one may ask

    @property
    def address(self) -> Address:
        """The address on which this node listens."""
        return self._member.doorkeeper.listener.address

    @property
    def members(self) -> Mapping[NodeId, str]:
        """The address at which others dial each member, as far as this node knows."""
        return self._driver.core.configuration.addresses

    @property
    def recovery(self) -> RecoveryReport:
        """The findings and repairs of the recovery when the log was opened."""
        return self._member.storage.log.recovery

    async def append(self, records: Sequence[bytes]) -> Appended:
        """Append records, which get consecutive offsets. Returns once they are committed.

        Raises `NotLeader`, `Busy`, `StorageFull`, `InvalidRequest` or `ShuttingDown` if nothing was appended, and
        `OutcomeUnknown` if the records may have been appended.
        """
        batch = pack_batch(records)
        self._require_fit("a batch", batch)
        self._require_working()
        call = Call[Appended]()
        self._driver.append(self._calls, self._calls.add(call.settle), batch, len(records))
        return await self._result_of(call)

    def submit(self, records: Sequence[bytes], done: Callable[[Appended | RaftError], None]) -> None:
        """Like `append`, in the order of the calls and without waiting: `done` is called once, with result or error.

        It is called in the loop and must not raise. Raises `InvalidRequest` or `ShuttingDown` at once, without `done`.
        """
        batch = pack_batch(records)
        self._require_fit("a batch", batch)
        self._require_working()
        self._driver.append(self._calls, self._calls.add(done), batch, len(records))
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
        call = Call[Applied]()
        self._driver.apply(self._calls, self._calls.add(call.settle), command)
        return await self._result_of(call)

    def propose(self, command: bytes, done: Callable[[Applied | RaftError], None]) -> None:
        """Like `apply`, in the order of the calls and without waiting: `done` is called once, with result or error.

        It is called in the loop and must not raise. Raises `InvalidRequest` or `ShuttingDown` at once, without `done`.
        """
        check_command(command)
        self._require_fit("a command", command)
        self._require_working()
        self._driver.apply(self._calls, self._calls.add(done), command)
        self._reactor.request_round()

    def announce(self) -> None:
        """Tell the other members at once what is committed, not with the next message or heartbeat.

        Only the leader does so.

        For a program whose members are all to act on what was committed, as soon as possible.
        """
        if not self._member.has_failed:
            # A read is asked for with heartbeats; that it can be served is of no use to anyone.
            self._driver.read(self._calls, self._calls.add(lambda outcome: None))
            self._reactor.ask_another_round()

    async def change_members(self, change: Change) -> Applied:
        """Change the members of the group: `AddLearner`, `Promote`, `Remove` or `ChangeVoters`.

        Returns once the change is committed, with its index. Raises `Busy` while another change is under way or a node
        does not keep up, `InvalidRequest` if the change does not fit the members, and else as `append` does.
        """
        check_change(change)
        self._require_working()
        call = Call[Applied]()
        self._driver.change_members(self._calls, self._calls.add(call.settle), change)
        return await self._result_of(call)

    async def transfer_leadership(self, node: int) -> Applied:
        """Have `node` lead, which must be a voter. Returns once this node has handed over.

        Raises as `change_members` does; `OutcomeUnknown` also if nothing has come of it within an election timeout.
        """
        check_change(NodeId(node))
        self._require_working()
        call = Call[Applied]()
        self._driver.transfer_leadership(self._calls, self._calls.add(call.settle), NodeId(node))
        return await self._result_of(call)

    async def query(self, command: bytes) -> Applied:
        """Returns the state machine's answer to a query, linearizably.

        Raises `NotLeader` on any node but the leader.
        """
        check_command(command)
        self._driver.check_query(command)
        await self._linearize(after_apply=True)
        return Applied(self._driver.applied_index, self._driver.query(command))

    async def wait_for_leader(self, timeout_s: float = math.inf) -> int:
        """Returns the leader's id, as soon as this node knows one, which may need a moment before it serves.

        Raises `NotLeader` if none is known within `timeout_s`, `ShuttingDown` if the node ends.
        """
        with trio.move_on_after(timeout_s):
            while not (leader := self._driver.core.leader):
                self._require_working()
                await self._member.roles.moved.wait()
            await trio.lowlevel.checkpoint()
            return leader
        raise NotLeader

    def status(self) -> dict[str, object]:
        """Returns the present status of this node: role, term, log, group, and its loop's longest turn so far."""
        return self._driver.status()

    def figures(self) -> list[Figure]:
        """Returns the figures of this node for monitoring (`raft.metrics`), those of its loop included if it has one."""
        own = loop_figures(self._reactor) if self._member.owns_reactor else []
        return [*own, *self._member.figures()]

    def obstacle(self) -> str | None:
        """Returns the reason why this node serves no clients at present; None if it leads or knows who does."""
        core = self._driver.core
        if self._member.has_failed:
            return "the node has failed"
        if core.recall is not None:
            return f"the node has forgotten, and waits for {', '.join(f'node {node}' for node in core.recall.missing)}"
        return None if core.leader else "the node knows no leader"

    def subscribe(self, subscriber: Subscriber, after_index: int = 0) -> Subscription:
        """Have `subscriber` called with all commits behind `after_index`, in order, and with changes of leadership.

        See `raft.subscription` for what it gets, and when. Returns the subscription, which `close` or the group ends.
        """
        subscription = Subscription(subscriber, after_index)
        self._driver.subscribe(subscription)
        self._reactor.request_round()
        return subscription

    # ---------------------------------------------------------------- for tests of what uses it

    def pause(self) -> None:
        """Stop working until `resume`, as a process does at SIGSTOP: nothing is read, decided or sent.

        Raises `RuntimeError` for a group on a reactor that it was given, which others need.
        """
        if not self._member.owns_reactor:
            raise RuntimeError("a group on a reactor that it was given cannot stand still alone")
        self._member.pausable.pause()

    def resume(self) -> None:
        """Continue; messages that arrived meanwhile are processed before timeouts."""
        self._member.pausable.resume()

    def campaign(self) -> None:
        """Start an election at once if no leader is known, so that a new group need not wait for a timeout."""
        self._driver.core.hurry(trio.current_time())
        self._reactor.request_round()

    def _require_fit(self, what: str, data: bytes) -> None:
        """An entry that no frame can carry would never reach a peer, and would keep all that follow it from them."""
        if len(data) > self._settings.frame_bytes_max - FRAME_OVERHEAD_BYTES:
            raise InvalidRequest(f"{what} of {len(data)} bytes is too large")

    def _require_working(self) -> None:
        """A node that has failed would never answer."""
        if self._member.has_failed:
            raise ShuttingDown

    async def _linearize(self, *, after_apply: bool = False) -> None:
        self._require_working()
        call = Call[None]()
        self._driver.read(self._calls, self._calls.add(call.settle), after_apply=after_apply)
        await self._result_of(call)

    async def _result_of(self, call: Call[T]) -> T:
        self._reactor.request_round()
        return await call.result()

    def take_over(self, connection: SocketConnection[Any]) -> FrameDecoder:
        """Serve a connection of the `listener` that this group was given, from its first byte on.

        Returns its decoder, which is in place.
        """
        return self._member.doorkeeper.take_over(connection)


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


def _fit_machine(machine: StateMachine, settings: NodeSettings) -> StateMachine:
    """Returns the same. Raises `TypeError` for no machine, `ValueError` for one that needs its whole log."""
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
    """Notify of a damaged log: set aside, or truncated between which addresses, and how far it had reached."""
    if storage.set_aside_for is not None:
        notify(LogSetAside(storage.set_aside_for))
    if (repaired := storage.log.recovery.repaired) is not None:
        floor = Position(LogIndex(repaired.floor.index), Term(repaired.floor.epoch))
        notify(LogRepaired(repaired.cut_from, repaired.cut_to, floor))


def _log(notice: Notice) -> None:
    event, fields = event_of(notice)
    level = logging.WARNING if isinstance(notice, LongTurn) else logging.INFO
    logger.log(level, "%s %s", event, " ".join(f"{name}={value}" for name, value in fields.items()))
