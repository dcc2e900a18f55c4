"""One broker of a raft group: the real driver, core, copy, tables and handlers on simulated disk, clock and network.

A round is that of `Broker`: messages and requests have arrived; the driver decides, and applies what is committed;
roles, tables, delayed messages and pulls follow; then the disk begins to flush. A flush covers what was written before
it began and takes virtual time. A broker can be killed, lose power, stand still and start again.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

import attrs

from jepsen_like.simulation.kernel.streams import stream
from jepsen_like.simulation.raft.durable import DurableLog
from jepsen_like.simulation.rocketmq.dledger.messages import CopyReply, CopyRequest, DledgerMessage
from jepsen_like.simulation.rocketmq.dledger.requests import BrokerRequest
from jepsen_like.simulation.rocketmq.process import BrokerProcess
from jepsen_like.simulation.rocketmq.stores import DIRECTORY, small_store
from jepsen_like.simulation.rocketmq.swarm import RocketmqKnobs
from log.config import LogConfig
from log.flush import Flush
from log.policy import FlushPolicy
from log.retention import Retention
from raft.config import RaftConfig
from raft.core import RaftCore
from raft.driver import DriverConfig, RaftDriver
from raft.environment import Environment
from raft.errors import Busy, ProtocolError, RaftError
from raft.membership import Configuration
from raft.messages import Message
from raft.model import LogIndex, NodeId, Term
from raft.notices import DiskStalled, LogTrimmed, Notice, SnapshotInstalled
from raft.results import Applied
from raft.storage import RaftStorage
from raft.subscription import Subscriber, Subscription
from rocketmq_compat.broker.context import Context, handlers_of
from rocketmq_compat.broker.copying import CommitLogCopying, CopyAnswer, CopyAsked
from rocketmq_compat.broker.delays import DelayedMessages
from rocketmq_compat.broker.housekeeping import Housekeeping
from rocketmq_compat.broker.raft_copy import RaftCopy
from rocketmq_compat.broker.requests.admin import AdminRequests
from rocketmq_compat.broker.requests.offsets import OffsetQueries
from rocketmq_compat.broker.requests.pull import PullRequests
from rocketmq_compat.broker.requests.send import SendRequests
from rocketmq_compat.raft_state import StoreRecords, decode_group_command
from rocketmq_compat.remoting.codes import ResponseCode
from rocketmq_compat.remoting.errors import BadBody, BadHeader
from rocketmq_compat.remoting.frame import Command
from rocketmq_compat.remoting.session import RemotingCall, RemotingSession
from rocketmq_compat.storage.broker_store import MessageStore
from rocketmq_compat.storage.copy_notes import CopyNotes
from rocketmq_compat.storage.dispatch import QueueRun

if TYPE_CHECKING:
    from jepsen_like.simulation.rocketmq.dledger.world import DledgerWorld

RAFT_DIRECTORY = f"{DIRECTORY}/raft"
LOG_ID = 1
ASK_TIMEOUT_S = 1.0
"""A broker waits this long for what it copies."""
FAILURES = 0.03
FAILED_S_MAX = 0.02
Answered = Callable[[Command], None]


class WatchedCopy(RaftCopy):
    """The copy; the world looks on."""

    def __init__(self, broker: "DledgerBroker", host: "DledgerWorld", *arguments: Any) -> None:
        super().__init__(*arguments)
        self._broker = broker
        self._host = host

    def apply(self, index: int, command: bytes) -> bytes:
        """See `RaftCopy`."""
        result = super().apply(index, command)
        host = self._host
        host.audits.on_applied(self._broker, host.now, index, command, had_effect=result == b"\1")
        return result

    def snapshot(self) -> bytes | None:
        """See `RaftCopy`."""
        found = super().snapshot()
        if found is not None:
            self._host.audits.snapshot_taken(self._broker)
        return found

    def append_missing(self, payload: bytes, *, offset: int, epoch: int) -> None:
        """See `RaftCopy`."""
        super().append_missing(payload, offset=offset, epoch=epoch)
        self._host.audits.on_copied(self._broker, offset, offset + len(payload))


@attrs.frozen
class _Client:
    name: str = "127.0.0.1:4711"
    is_full: bool = False


class RequestSession:
    """Stands for the session of one request's connection."""

    def __init__(self, broker: "DledgerBroker", request: BrokerRequest, done: Answered) -> None:
        self.connection = _Client()
        self._broker = broker
        self._request = request
        self._done = done

    def send_answer(self, call: RemotingCall, answer: Command) -> None:
        """See `RemotingSession`."""
        call.state = call.ANSWERED
        self._broker.answers(self._request, answer)
        self._done(answer)

    def try_hold(self, call: RemotingCall) -> bool:
        """See `RemotingSession`."""
        call.state = call.HELD
        return True


class DledgerBroker(BrokerProcess):
    """One broker: the raft group to its copy (`GroupPort`), and the transport and the callers to its driver."""

    def __init__(self, host: "DledgerWorld", knobs: RocketmqKnobs, node: int) -> None:
        super().__init__(host, knobs, node)
        self.durable = DurableLog(RAFT_DIRECTORY)
        self.begun_in = 0
        """The last term of this process of which it has applied the begin of a leadership."""
        self.flush_begun: float | None = None
        """The time by its own clock at which the raft log's flush under way began."""
        self.context: Context
        self.copy: WatchedCopy
        self.core: RaftCore
        self.driver: RaftDriver
        self.delays: DelayedMessages
        self._host = host
        self._wants_round = False
        self._proposals: dict[int, Callable[[Applied | RaftError], None]] = {}
        self._last_id = 0
        self._copy_asked: tuple[int, CopyAsked] | None = None
        self.said: list[str] = []
        """Its actions since the last line of the trace."""

    # ---------------------------------------------------------------- life and death

    @property
    def claims(self) -> bool:
        """True if it is the master, as name servers and clients see it."""
        return self.up and (self.context.leads or self.context.broker_id == 0)

    def _repairs(self, notes: CopyNotes | None) -> bool:
        """See `BrokerPlan.repairs`."""
        return self.knobs.nodes > 1

    @property
    def store(self) -> MessageStore:
        """See `BrokerProcess`."""
        return self.context.store

    @property
    def role(self) -> str:
        """See `BrokerProcess`."""
        return "master" if self.claims else self.core.role_name.value[:6]

    @property
    def is_whole(self) -> bool:
        """True if this process lives, and its commit log has all that is committed here."""
        return self.up and not self.copy.incomplete.is_set() and self.store.log.end_offset == self.copy.state.end

    def start(self) -> None:
        """A process begins, with what is on the disk. What recovery raises is for the world to judge."""
        knobs, dledger = self.knobs, self.knobs.dledger
        self.begin_life()
        self.begun_in, self.flush_begun = 0, None
        self._proposals = {}
        self._copy_asked = None
        self._wants_round = False
        self.durable = DurableLog(RAFT_DIRECTORY)
        store = MessageStore.open(
            self.disk, DIRECTORY, small_store(dledger.commit_segment_bytes), repairs=self._repairs
        )
        properties = [f"flushIntervalCommitLog={dledger.commit_flush_ms}", "slaveReadEnable=true"]
        self.context = context = self.context_of(store, properties, node_id=self.node)
        self.delays = DelayedMessages(context, {})
        self.copy = WatchedCopy(self, self._host, context, self.node, self, self.delays, self._on_dispatched)
        peers = [node for node in range(1, knobs.nodes + 1) if node != self.node]
        self._copying = CommitLogCopying(context, self.copy, peers, bytes_max=dledger.copy_bytes)
        self._housekeeping = Housekeeping(context, self.copy.tables, self, lambda start: None)
        self._pulls = PullRequests(context)
        self._handlers = handlers_of(
            SendRequests(context, self.copy),
            self._pulls,
            OffsetQueries(context, self.copy.tables, lambda: self.delays.offsets),
            AdminRequests(context, self.copy.tables, lambda: self.copy.epoch),
        )
        self.driver = self._open_driver()
        self.copy.open_on(self)
        self.take(lambda: None)

    def _open_driver(self) -> RaftDriver:
        knobs, dledger = self.knobs, self.knobs.dledger
        config = LogConfig(segment_bytes_max=dledger.raft_segment_bytes, reserve_chunk_bytes=4096, zero_ahead_bytes=0)
        storage = RaftStorage.open(self.disk, RAFT_DIRECTORY, config, log_id=LOG_ID)
        raft = RaftConfig(
            heartbeat_s=dledger.heartbeat_s,
            election_timeout_s_min=dledger.election_s,
            election_timeout_s_max=2 * dledger.election_s,
            append_bytes_max=dledger.append_bytes_max,
            cache_bytes_max=dledger.cache_bytes_max,
            snapshot_part_bytes_max=dledger.snapshot_part_bytes_max,
        )
        hard_state, view = storage.restore(raft.cache_bytes_max)
        self.core = RaftCore(
            node_id=NodeId(self.node),
            configuration=Configuration(frozenset(NodeId(node) for node in range(1, knobs.nodes + 1))),
            config=raft,
            log=view,
            hard_state=hard_state,
            rng=stream(knobs.seed, f"core/{self.process}"),
            now=self.reading(),
            takes_snapshots=True,
        )
        return RaftDriver(
            core=self.core,
            storage=storage,
            state_machine=self.copy,
            environment=Environment(
                transport=self,
                has_more=lambda: False,
                clock=self.reading,
                wall_clock_ms=self.wall_ms,
                notify=self._notify,
            ),
            config=DriverConfig(
                flush_policy=FlushPolicy.BEFORE_ACK if dledger.durable else FlushPolicy.INTERVAL,
                flush_interval_s=dledger.flush_interval_s,
                flush_stall_s=dledger.flush_stall_s,
                retention=Retention(bytes_max=dledger.raft_log_bytes),
            ),
        )

    def end_life(self) -> None:
        """See `BrokerProcess`."""
        super().end_life()
        self._proposals.clear()

    def crash(self, error: Exception) -> None:
        """See `SimulatedProcess`."""
        self._host.on_crashed(self, error)

    def on_told(self, event: str, fields: dict[str, object]) -> None:
        """See `BrokerProcess`."""
        self._host.counts[f"told_{event}"] += 1
        self.said.append(" ".join([event, *(f"{name}={value}" for name, value in fields.items())]))

    def _notify(self, notice: Notice) -> None:
        match notice:
            case LogTrimmed():
                self._host.counts["raft_logs_trimmed"] += 1
            case SnapshotInstalled():
                self._host.counts["snapshots_installed"] += 1
            case DiskStalled():
                self._host.counts["disks_stalled"] += 1
            case _:
                return
        self.said.append(str(notice))

    # ---------------------------------------------------------------- rounds

    @property
    def deadline(self) -> float:
        """See `SimulatedProcess`."""
        if self._wants_round or self.driver.has_postponed:
            return float("-inf")
        return min(
            self.driver.deadline,
            self.copy.deadline,
            self.delays.deadline,
            self._pulls.deadline,
            self._housekeeping.deadline,
            self._copying.deadline,
        )

    def end_round(self) -> None:
        """Work as in a round of the reactor when messages have arrived, up to the begin of the flushes."""
        process, now = self.process, self.reading()
        self._wants_round = False
        self.driver.pump()
        self.copy.tick(now)
        self.delays.tick(self.copy)
        self.copy.tick(now)
        self._pulls.tick(now)
        self._housekeeping.tick(now)
        self._ask_for_copies(now)
        if self.lives_as(process):
            flush = self.driver.begin_flush()
            if flush is not None:
                self._submit_flush(flush)
            self.copy.flush_if_due(now)
            self._host.on_round_end(self)
            self.count_idle()

    def _on_dispatched(self, runs: list[QueueRun]) -> None:
        self.delays.on_arrived(runs)
        self._pulls.on_arrived(runs)

    # ---------------------------------------------------------------- the disk

    def _submit_flush(self, flush: Flush) -> None:
        """A flush of the raft log begins."""
        self.flush_begun = self.reading()
        self.later(self.draw_flush_s(), self._on_flushed, flush, self.disk.mark())

    def _on_flushed(self, flush: Flush, mark: int) -> None:
        with self.disk.issued_before(mark):
            flush.run()
        self.flush_begun = None
        self.driver.on_flushed()

    def durable_log(self) -> DurableLog:
        """Returns the part of its raft log that its disk would give back if power were lost now."""
        self.durable.refresh(self.disk)
        return self.durable

    def holds(self, index: int, term: int, *, durably: bool) -> bool:
        """Returns True if its raft log holds the entry or its stand-in: on disk, or in the page cache a kill leaves."""
        if not durably:
            log = self.core.log
            if index <= log.start.index:
                return True
            return index <= log.last_index and log.term_at(LogIndex(index)) == term
        durable = self.durable_log()
        if index <= durable.start.index:
            return True
        return index <= len(durable.entries) and durable.entries[index - 1].term == Term(term)

    # ---------------------------------------------------------------- peers

    def receive(self, sender: int, message: DledgerMessage) -> None:
        """A message arrives."""
        match message:
            case CopyRequest(process=process, number=number, header=header):
                self._host.transmit(self.node, sender, CopyReply(process, number, self._copying.serve(header)))
            case CopyReply(process=process, number=number, answer=answer):
                if process == self.process:
                    self._copy_answered(number, answer)
            case _:
                try:
                    self.driver.deliver(NodeId(sender), message)
                except ProtocolError as error:
                    raise AssertionError(f"what broker {sender} sent is refused: {error}") from None

    def on_disconnected(self, peer: int) -> None:
        """A connection to or from this peer broke."""
        self.driver.on_disconnected(NodeId(peer))
        if self._copy_asked is not None and self._copy_asked[1].node == peer:
            self._copy_answered(self._copy_asked[0], None)

    def _ask_for_copies(self, now: float) -> None:
        asked = self._copying.next(now)
        if asked is not None:
            self._last_id += 1
            self._copy_asked = self._last_id, asked
            self._host.transmit(self.node, asked.node, CopyRequest(self.process, self._last_id, asked.header))
            self.later(ASK_TIMEOUT_S, self._copy_answered, self._last_id, None)

    def _copy_answered(self, number: int, answer: CopyAnswer | None) -> None:
        if self._copy_asked is not None and self._copy_asked[0] == number:
            asked, self._copy_asked = self._copy_asked[1], None
            self._copying.on_answer(self.reading(), asked, answer)

    def send(self, to: NodeId, message: Message) -> None:
        """See `Transport`."""
        self._host.transmit(self.node, to, message)

    def connect(self, peers: Sequence[NodeId], addresses: Mapping[NodeId, str], *, alone: bool) -> None:
        """See `Transport`: all are there."""

    def push(self) -> None:
        """See `Transport`: all has left already."""

    # ---------------------------------------------------------------- the group, as its copy sees it

    def status(self) -> dict[str, object]:
        """See `GroupPort`."""
        return self.driver.status()

    def subscribe(self, subscriber: Subscriber, after_index: int = 0) -> Subscription:
        """See `GroupPort`."""
        subscription = Subscription(subscriber, after_index)
        self.driver.subscribe(subscription)
        return subscription

    def propose(self, command: bytes, done: Callable[[Applied | RaftError], None]) -> None:
        """See `GroupPort`. In some worlds messages fail now and then, while later ones of the leadership do not."""
        may_fail = self.knobs.fails_proposals and not self._host.healed
        if may_fail and self.rng.random() < FAILURES and isinstance(decode_group_command(command), StoreRecords):
            self._host.counts["proposals_failed"] += 1
            self.later(self.rng.random() * FAILED_S_MAX, done, Busy())
            return
        self._last_id += 1
        self._proposals[self._last_id] = done
        self._wants_round = True
        self.driver.apply(self, self._last_id, command)

    def on_applied(self, request_id: int, index: int, result: bytes) -> None:
        """See `Caller`."""
        self._proposals.pop(request_id)(Applied(index, result))

    def on_refused(self, request_id: int, error: RaftError) -> None:
        """See `Caller`."""
        self._proposals.pop(request_id)(error)

    def on_appended(self, request_id: int, base_offset: int, span: int, term: int) -> None:
        """See `Caller`."""
        raise AssertionError("a broker's log holds commands alone")

    def on_readable(self, request_id: int) -> None:
        """See `Caller`."""
        raise AssertionError("a broker asks its group for no reads")

    # ---------------------------------------------------------------- clients

    def serve(self, request: BrokerRequest, done: Answered) -> None:
        """A client asks; `done` is called with the answer."""
        session = cast(RemotingSession, cast(Any, RequestSession(self, request, done)))
        call = RemotingCall(session, request.command, len(request.command.body))
        self.said.append(f"is asked: {request}")
        try:
            self._handlers[request.command.code](call)
        except (BadHeader, BadBody) as error:
            call.refuse(ResponseCode.SYSTEM_ERROR, str(error))

    def answers(self, request: BrokerRequest, answer: Command) -> None:
        """A client is answered."""
        self.said.append(f"answers {answer.code} to: {request}")
        self._host.on_answered(self, request, answer)
