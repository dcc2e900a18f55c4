"""One simulated broker: the product's own parts on the product's own storage, with a disk, a clock, connections and a
raft group of the simulator.

A round is that of `Broker`: frames have arrived, commands are applied; then the parts do what is due, and the disk
begins to flush. What the disk is asked to do takes effect when its time has passed. A broker can be killed, lose its
power, stand still, shut down, and start again with what its disk gives back.
"""

import contextlib
import random
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, cast

import attrs

from jepsen_like.simulation.kafka.connections import SIZE_BYTES, ServedConnection, SimulatedPeer
from jepsen_like.simulation.kafka.logs import LoggedBatch, LogView, find_losses, view_all
from jepsen_like.simulation.kafka.quorum import BrokerMessage, CommitNews, ControlQuorum, Outcome, Settled
from jepsen_like.simulation.kafka.swarm import KafkaKnobs
from jepsen_like.simulation.kafka.watched import WatchedReplicas
from jepsen_like.simulation.kernel.disks import PowerFailed, failing_after
from jepsen_like.simulation.kernel.findings import NODE_ERRORS
from jepsen_like.simulation.kernel.process import SimulatedProcess
from jepsen_like.simulation.kernel.sockets import Endpoint, ResendingSockets, Segment, SegmentKind, Socket, refusal
from jepsen_like.simulation.kernel.streams import stream
from kafka_compat.broker.caller import Identity
from kafka_compat.broker.calls import ClientCall, Requests
from kafka_compat.broker.context import Context
from kafka_compat.broker.controller_link import ControllerLink
from kafka_compat.broker.hosting import BrokerReplaced
from kafka_compat.broker.parts import BrokerParts
from kafka_compat.broker.replicas import Answer
from kafka_compat.broker.turns import LongWork
from kafka_compat.config import Settings
from kafka_compat.controller.machine import MetadataMachine
from kafka_compat.model import TopicPartition
from kafka_compat.partition.effects import AnswerProduce
from kafka_compat.partition.events import LogStartDue, Produce
from kafka_compat.partition.model import NO_OFFSET, BatchInfo, PartitionError
from kafka_compat.protocol.api import Api, RequestHeader
from kafka_compat.protocol.apis.fetch import (
    FETCH,
    FetchPartition,
    FetchPartitionResponse,
    FetchRequest,
    FetchResponse,
    FetchTopic,
)
from kafka_compat.protocol.apis.list_offsets import (
    LIST_OFFSETS,
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from kafka_compat.protocol.batch_header import batch_headers
from kafka_compat.protocol.error_codes import KafkaErrorCode
from kafka_compat.storage.broker_store import BrokerStore
from log.config import StoreConfig
from log.errors import CorruptLog, LogError
from log.memory_disk import MemoryDisk
from log.segment import SEGMENT_SUFFIX
from log.store import LOGS_NAME
from raft.disk_thread import DiskThread
from raft.errors import NotLeader, RaftError
from raft.net.connection import SocketConnection
from raft.net.decoder import Buffer
from raft.net.ordered import Reply
from raft.results import Applied

if TYPE_CHECKING:
    from jepsen_like.simulation.kafka.world import KafkaWorld

CLUSTER = "simulated"
DIRECTORY = "partitions"
STORE = StoreConfig(segment_bytes_max=1 << 20, index_interval_bytes=256, open_files_max=16, threads=1)
SEGMENT_BYTES = 4096
BEGIN_MS = 1_600_000_000_000
"""The wall clock when a world begins."""
WALL_SKEW_MS = 5_000
HEARTBEATS_PER_SESSION = 2
FETCH_BACKOFF_MS = 100
FETCH_VERSION = 12
"""The last that names topics."""
FETCH_BYTES = 2_000
LIST_VERSION = 7
RETENTION_CHECK_MS = 700
TORN_CALLS_MAX = 12
LEAPS = 0.5
"""The share of snapshots, by `KafkaKnobs.snapshots`, where a broker is behind by several commands."""
BACK_UP_S = 0.2
"""So long after it has begun to serve, the disk of a broker is backed up."""
BACKUPS = 2
"""A backup that the newest registration has made is no older than noted; the one before it is."""
CRASHES = (*NODE_ERRORS, PartitionError, RaftError)


@attrs.define(eq=False)
class _DiskWork:
    work: Callable[[], None]
    done: Callable[[BaseException | None], None]
    mark: int


@attrs.define(eq=False)
class _ClientConnection:
    """Stands for the connection of one request of a client."""

    name: str = "127.0.0.1:4711"
    is_closed: bool = False
    is_short: bool = False

    def close(self, reason: str) -> None:
        """See `SocketConnection`."""
        self.is_closed = True


@attrs.frozen
class _ClientReply:
    done: Callable[[Any], None]
    api: Api[Any, Any]
    version: int

    def send(self, *pieces: Buffer) -> None:
        """See `Reply`."""
        self.done(self.api.decode_response(b"".join(pieces)[SIZE_BYTES:], self.version)[1])


class SimulatedBroker(SimulatedProcess):
    """One broker. It is the disk thread of its parts, and the raft group of their link to the controller."""

    ERRORS = (*CRASHES, BrokerReplaced)
    ROUND_S = 1e-5

    def __init__(
        self, world: "KafkaWorld", knobs: KafkaKnobs, settings: Settings, node: int, quorum: ControlQuorum
    ) -> None:
        super().__init__(world, node)
        self.disk = MemoryDisk(stream(knobs.seed, f"disk/{node}"))
        self.metadata: tuple[int, bytes] | None = None
        """The newest snapshot of the image that is on its disk, with its index."""
        self.ends_connections = True
        """True while its operating system answers for it."""
        self._backups: list[tuple[MemoryDisk, tuple[int, bytes] | None]] = []
        """The disk and the snapshot soon after the last processes began to serve, the newest last."""
        self._loads = 0
        self.machine = MetadataMachine()
        self.parts: BrokerParts
        self.store: BrokerStore
        self.tcp: ResendingSockets
        self.views: dict[TopicPartition, LogView] = {}
        """The content of its logs; of a broker that is down, as its next start finds them."""
        self.sound_since = 0.0
        """Since when, in the world's time, it has run, and all it sends has arrived in time; see `is_sound`."""
        self._held_up_at = float("-inf")
        self._boot = 1
        self._world = world
        self.count_received = world.count_received
        self._knobs = knobs
        self._settings = settings
        self._quorum = quorum
        self._rng = stream(knobs.seed, f"broker/{node}")
        self._wall_skew_ms = self._rng.randint(-WALL_SKEW_MS, WALL_SKEW_MS)
        self._disk_queue: deque[_DiskWork] = deque()

    # ---------------------------------------------------------------- its parts

    @property
    def has_backup(self) -> bool:
        """True if there is a disk for `go_back`."""
        return len(self._backups) == BACKUPS

    @property
    def broker_epoch(self) -> int:
        """The epoch of its registration; negative before it has one."""
        return self.parts.context.broker_epoch

    @property
    def all_loads(self) -> int:
        """The logs that its coordinators have loaded, in all of its lives."""
        return self._loads + (self.parts.coordinators.loads if self.up else 0)

    @property
    def incarnation(self) -> bytes:
        """The 16 bytes of this process."""
        return self.process.to_bytes(16, "big")

    # ---------------------------------------------------------------- life and death

    def start(self, snapshot: bool, *, calls_max: int | None = None) -> None:
        """A process begins. Raises the errors of the disk, and `PowerFailed` in its opening after `calls_max` calls."""
        knobs, views = self._knobs, self.views
        self._disk_queue.clear()
        self._is_ending = False
        self.term = self.commit = 0
        self.leader: int | None = None
        self.machine = MetadataMachine()
        if snapshot and self.metadata is not None:
            index, content = self.metadata
            self.machine.restore(content)
            self.commit = index
        self.disk.before_call = None if calls_max is None else failing_after(calls_max)
        try:
            self.store = self._open_store(self.disk)
        except PowerFailed:
            self.views = views
            raise
        finally:
            self.disk.before_call = None
        self.begin_life()
        self._held_up_at, self.sound_since = float("-inf"), self._world.now
        self.tcp = ResendingSockets(self)
        self.parts = self._build_parts()
        self.ends_connections = True
        self.wait(knobs.checkpoint_s, self._checkpoint)
        if knobs.writeback_s and not knobs.before_ack:
            self.wait(knobs.writeback_s, self._write_back)
        self.take(_do_nothing)

    def _open_store(self, disk: MemoryDisk) -> BrokerStore:
        """Returns the logs on a disk, viewed: a process that finds damage notes it and ends; the next repairs it."""
        while True:
            store = BrokerStore.open(
                disk,
                DIRECTORY,
                cluster_id=CLUSTER,
                broker_id=self.node,
                config=STORE,
                boot=f"boot {self._boot}",
                flushed=self._knobs.before_ack,
            )
            store.open_all(SEGMENT_BYTES)
            for error in store.offline.values():
                raise error
            self.views = {}
            try:
                view_all(store, self._world.batches, self.views)
            except CorruptLog as damage:
                store.note_damage(damage)
                store.abandon()
            else:
                return store

    def _build_parts(self) -> BrokerParts:
        world, knobs = self._world, self._knobs
        context = Context(
            cluster_id=CLUSTER,
            broker_id=self.node,
            address=(f"b{self.node}", 9092),
            data=DIRECTORY,
            image=self.machine.image,
            controller=ControllerLink(
                CLUSTER, self.node, self._connect(), self._connect(), self.reading, command_timeout_s=knobs.timeout_s
            ),
            settings=self._settings,
            clock=self.reading,
            held_up=lambda: self._held_up_at,
            wall_ms=self.wall_ms,
            rng=stream(knobs.seed, f"context/{self.process}"),
            turns=LongWork(_start_no_thread, lambda: 0.0),
            stopwatch=lambda: 0.0,
            knows_members=True,
        )
        context.controller.group = self
        return BrokerParts(
            context,
            self.machine,
            self.store,
            self,
            self._connect(),
            incarnation=self.incarnation,
            tell=lambda event, **fields: world.on_told(self, event, fields),
            on_serving=partial(self.wait, BACK_UP_S, self._back_up),
            on_may_end=self._on_may_end,
            transaction_peers=self._connect(),
            make_replicas=partial(WatchedReplicas, self, world, self._rng, knobs.truncation_s),
        )

    def _connect(self) -> dict[int, SimulatedPeer]:
        timeout_s = self._knobs.timeout_s
        peers = (each for each in range(1, self._knobs.nodes + 1) if each != self.node)
        return {peer: SimulatedPeer(self, self.tcp, peer, self._rng, dial_timeout_s=timeout_s) for peer in peers}

    def kill(self) -> None:
        """The process is gone, also one that has hardly begun; what it wrote stays in the page cache."""
        if self.up:
            if self._knobs.fence_on_close:
                self.tcp.close_all()
            self._stop()
        self.disk = self.disk.after_kill(stream(self._knobs.seed, f"kill/{self.node}/{self.lives}"))

    def cut_power(self, rng: random.Random) -> list[TopicPartition]:
        """All volatile is gone, perhaps all unsynced too, even of ended processes. Returns the logs that lack some."""
        if self.up:
            self._stop()
        self.ends_connections = False
        self._boot += 1
        self.disk = self.disk.after_crash(rng)
        return self.look_again()

    def wipe(self) -> list[TopicPartition]:
        """Give a broker that is down a new disk. Returns the logs that the old one had."""
        self.disk = MemoryDisk(self.disk.rng)
        self.metadata = None
        return self.look_again()

    def go_back(self) -> list[TopicPartition]:
        """Give a broker that is down its disk of an earlier registration. Returns the logs that lack something."""
        disk, self.metadata = self._backups[0]
        self.disk = disk.after_kill(self.disk.rng)
        return self.look_again()

    def _stop(self) -> None:
        """The process ends in the middle of whatever its disk does."""
        self._leave_views()
        if self._disk_queue:
            under_way = self._disk_queue[0]
            self.disk.before_call = failing_after(self._rng.randint(0, TORN_CALLS_MAX))
            with contextlib.suppress(PowerFailed, LogError), self.disk.issued_before(under_way.mark):
                under_way.work()
            self.disk.before_call = None  # what the dead process has left is finalized later, on a disk that is gone
        self._vanish()

    def resume(self) -> None:
        """See `SimulatedProcess`."""
        self._held_up_at = self.reading()
        self.sound_since = self._world.now
        super().resume()

    def clock_jumped(self) -> None:
        """See `SimulatedProcess`: a jump is what it sees of a time in which it stood still."""
        self._held_up_at = self.reading()
        super().clock_jumped()

    def _vanish(self) -> None:
        self._loads += self.parts.coordinators.loads
        self._world.counts["markers_resent"] += self.parts.coordinators.sender.resent
        self.end_life()
        self._disk_queue.clear()
        self._quorum.on_stopped(self.node)

    def shut_down(self) -> None:
        """Ask the controller for leave."""
        self.parts.registration.wants_shutdown = True
        self.parts.registration.hurry()

    def _back_up(self) -> None:
        self._backups = [*self._backups, (self.disk.after_kill(random.Random(0)), self.metadata)][-BACKUPS:]

    def _on_may_end(self) -> None:
        self._is_ending = True

    def _end_in_order(self) -> None:
        cast(WatchedReplicas, self.parts.replicas).learn_all()
        self.parts.stop()
        while self._disk_queue:
            self._work_disk(self._disk_queue[0])
        self.parts.flushing.stop()
        self._leave_views()
        self.parts.flushing.close(failed=False)
        self._keep_metadata()
        self.tcp.close_all()
        self._vanish()
        self._world.on_stopped(self)

    # ---------------------------------------------------------------- its logs, as audits see them

    def view(self, partition: TopicPartition) -> LogView | None:
        """Returns the content of a log: of the one in use, or of the one that the next start finds."""
        if not self.up:
            return self.views.get(partition)
        log = self.store.logs.get(partition)
        if log is None:
            return None
        view = self.views.get(partition)
        if view is None:
            view = self.views[partition] = LogView()
        view.refresh(log, self._world.batches)
        if view.risked:
            self._world.audits.on_risked(self.node, partition, view.risked)
        return view

    def has_durably(self, partition: TopicPartition, batch: LoggedBatch) -> bool:
        """Returns True if the bytes of a batch would survive a loss of power."""
        directory = f"{DIRECTORY}/{LOGS_NAME}/{partition}/"
        files = [path for path in self.disk.paths() if path.startswith(directory) and path.endswith(SEGMENT_SUFFIX)]
        return any(batch.content in self.disk.durable_content(path) for path in reversed(files))

    def look_again(self) -> list[TopicPartition]:
        """See what the next start of this broker, which is down, will find. Returns the logs that lack something."""
        before = self.views
        self._open_store(self.disk.after_kill(random.Random(0)))
        self._leave_views()
        return find_losses(before, self.views)

    def count_opening_calls(self) -> int:
        """Returns how many calls of its disk the next start makes until this broker, which is down, has read its logs."""
        disk, views = self.disk.after_kill(random.Random(0)), self.views
        before = disk.calls
        self._open_store(disk)
        self.views = views
        return disk.calls - before

    def _leave_views(self) -> None:
        if self.up:
            view_all(self.store, self._world.batches, self.views)
        for view in self.views.values():
            view.leave()

    # ---------------------------------------------------------------- time

    def wall_ms(self) -> int:
        """Returns its wall clock, which differs from that of others, in milliseconds."""
        return BEGIN_MS + self._wall_skew_ms + int(self._world.now * 1000)

    def wait(self, seconds: float, action: Callable[..., None], *arguments: object) -> None:
        """Call `action` after some time, if this process still lives, whether it is paused or not."""
        self._world.schedule(self._world.now + seconds, self._end_wait, self.process, action, arguments)

    def _end_wait(self, process: int, action: Callable[..., None], arguments: tuple[object, ...]) -> None:
        if self.lives_as(process):
            action(*arguments)

    # ---------------------------------------------------------------- rounds

    @property
    def deadline(self) -> float:
        """See `SimulatedProcess`."""
        return float("-inf") if self.parts.has_more else self.parts.deadline

    def end_round(self) -> None:
        """See `SimulatedProcess`."""
        self.parts.take_changes()
        self.parts.work(self.reading())
        self.parts.flushing.begin()
        for partition in self.parts.fetches.find_overlooked():
            self._world.report(
                "K18", self.node, f"{partition}: a follower waits that has not looked at the newest records"
            )
        if self._is_ending:
            self._end_in_order()

    def crash(self, error: Exception) -> None:
        """See `SimulatedProcess`."""
        if isinstance(error, BrokerReplaced):
            self._world.on_replaced(self)
        else:
            self._world.on_crashed(self, error)

    # ---------------------------------------------------------------- the disk

    def submit(self, work: Callable[[], None], done: Callable[[BaseException | None], None]) -> None:
        """See `DiskWork`: one piece of work after the other."""
        self._disk_queue.append(_DiskWork(work, done, self.disk.mark()))
        if len(self._disk_queue) == 1:
            self._begin_work()

    def _begin_work(self) -> None:
        seconds = self._knobs.flush_s * self.slowness * (0.3 + self._rng.expovariate(1.0))
        self._disk_queue[0].mark = self.disk.mark()
        self.wait(seconds, self._end_work, self._disk_queue[0])

    def _end_work(self, submitted: _DiskWork) -> None:
        if self._disk_queue and self._disk_queue[0] is submitted:
            self.take(self._work_disk, submitted)

    def _work_disk(self, submitted: _DiskWork) -> None:
        with self.disk.issued_before(submitted.mark):
            submitted.work()
        self._disk_queue.popleft()
        if self._disk_queue:
            self._begin_work()
        submitted.done(None)

    def _checkpoint(self) -> None:
        if not self.paused:
            self._keep_metadata()
        self.wait(self._knobs.checkpoint_s, self._checkpoint)

    def _keep_metadata(self) -> None:
        if self.parts.hosting.began and (self.metadata is None or self.metadata[0] != self.machine.image.index):
            self.metadata = self.machine.image.index, self.machine.snapshot()

    def _write_back(self) -> None:
        self.disk.write_back()
        self.wait(self._knobs.writeback_s, self._write_back)

    # ---------------------------------------------------------------- connections

    def now(self) -> float:
        """Returns the world's time."""
        return self._world.now

    def transmit(self, to: int, segment: Segment) -> None:
        """See `ResendingHost`."""
        self._world.send(self.node, to, segment)

    def new_connection(self) -> int:
        """See `ResendingHost`."""
        return self._world.new_connection()

    def accept(self, socket: Socket) -> Endpoint:
        """See `ResendingHost`."""
        parts = self.parts
        requests = Requests(parts.handlers, parts.gate, self._connection_closed, _do_nothing)
        requests.caller.identity = Identity(member=socket.peer)  # the network of the simulator does not lie
        return ServedConnection(self.tcp, socket, requests.session)

    def _connection_closed(self, connection: SocketConnection[Any], reason: str) -> None:
        self.parts.gate.forget(connection)
        self.parts.fetches.connection_closed(connection)
        self.parts.node.connection_closed(connection)

    def receive(self, sender: int, message: BrokerMessage) -> None:
        """A message arrives at this machine."""
        if isinstance(message, CommitNews):
            self.learn(message.term, message.leader, message.commit)
        elif self.up:
            self.tcp.receive(sender, message)
        elif self.ends_connections and message.kind is not SegmentKind.END:
            self.transmit(sender, refusal(message.connection))

    # ---------------------------------------------------------------- the raft group

    def learn(self, term: int, leader: int, commit: int, settled: Settled | None = None) -> None:
        """See `QuorumMember`. `settled` is given the outcome of the last command, which this broker has proposed."""
        self.take(self._learn, term, leader, commit, settled)

    def _learn(self, term: int, leader: int, commit: int, settled: Settled | None) -> None:
        elected = False
        if term > self.term:
            self.term, self.leader = term, leader
            self.parts.context.controller.leader_changed(leader)
            self.parts.registration.hurry()
            if self.parts.node.leads:
                self.parts.node.on_resigned()
            elected = leader == self.node
            self._quorum.on_learned(self)
        self.commit = max(self.commit, commit)
        result = self._apply(lags=leader != self.node)
        if settled is not None:
            settled(Applied(commit, result))
        if elected:
            self.parts.node.on_elected()

    def _apply(self, *, lags: bool) -> bytes:
        """Returns the result of the last command that was applied."""
        target, applied = self.commit, self.machine.image.index
        if lags and target > applied and self._rng.random() < self._knobs.apply_lag:
            target = self._rng.randint(applied, target)
            self.later(self._rng.choice((0.01, 0.1, 0.4)), self._catch_up)
        log = self._quorum.log
        behind = self._quorum.leader != self.node and target == len(log) > applied + 1
        if behind and self._rng.random() < LEAPS * self._knobs.snapshots:
            self.machine.restore(self._world.leaps())
            return b""
        result = b""
        for index in range(applied + 1, target + 1):
            result = self.machine.apply(index, log[index - 1])
        return result

    def _catch_up(self) -> None:
        self._apply(lags=False)

    def settle(self, process: int, settled: Settled, outcome: Outcome) -> None:
        """See `QuorumMember`."""
        self._world.schedule(self._world.now, self.reach, process, settled, (outcome,))

    def propose(self, command: bytes, done: Callable[[Applied | RaftError], None]) -> None:
        """See `CommandGroup`."""
        if self.leader == self.node:
            self._quorum.propose(self.node, self.process, command, done)
        else:
            self.later(0.0, done, NotLeader(self.leader))

    # ---------------------------------------------------------------- clients

    def serve(self, api: Api[Any, Any], version: int, request: object, done: Callable[[Any], None]) -> None:
        """A client's request; `done` gets the answer."""
        connection = cast("SocketConnection[Any]", cast(Any, _ClientConnection()))
        reply = cast(Reply, cast(Any, _ClientReply(done, api, version)))
        self.parts.handlers[api.key](
            ClientCall(RequestHeader(api.key, version, 1, "client"), request, reply, connection)
        )

    def produce(
        self,
        partition: TopicPartition,
        acks: int,
        batch: tuple[BatchInfo, bytes, str],
        timeout_s: float,
        done: Callable[[Answer], None],
    ) -> None:
        """A client's produce request: what its decider needs of the batch, its bytes, and what the client calls it."""
        hosted = self.parts.replicas.hosted.get(partition)
        if hosted is None:
            known = self.machine.image.partition(partition) is not None
            error = KafkaErrorCode.NOT_LEADER_OR_FOLLOWER if known else KafkaErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            done(AnswerProduce(0, error, NO_OFFSET, NO_OFFSET))
            return
        replica, (info, content, value) = hosted, batch

        def on_answered(answer: Answer) -> None:
            if acks == -1 and isinstance(answer, AnswerProduce) and answer.error is KafkaErrorCode.NONE:
                self._world.acknowledges(self, replica, answer.base_offset, value)
            done(answer)

        token = self.parts.replicas.token(on_answered)
        self.parts.replicas.step(replica, Produce(token, acks, info, timeout_s, (content,)))

    def fetch(
        self, partition: TopicPartition, offset: int, done: Callable[[FetchPartitionResponse, int], None]
    ) -> None:
        """A consumer's fetch request; `done` gets the answer, and the end of the batches in it."""
        asked = FetchPartition(partition=partition.partition, fetch_offset=offset, partition_max_bytes=FETCH_BYTES)
        request = FetchRequest(
            max_wait_ms=round(self._knobs.fetch_wait_s * 1000),
            min_bytes=1,
            topics=(FetchTopic(topic=partition.topic, partitions=(asked,)),),
        )

        def on_answered(response: FetchResponse) -> None:
            answer = response.responses[0].partitions[0]
            replica = self.parts.replicas.hosted.get(partition)
            assert not isinstance(answer.records, tuple), "what was decoded is one buffer"
            records = bytes(answer.records or b"")
            batches = [
                self._world.batches.of(records[at : at + header.size])
                for at, header in batch_headers(memoryview(records))
            ]
            if replica is not None and answer.error_code == KafkaErrorCode.NONE:
                self._world.audits.reads(self, replica, batches)
            done(answer, batches[-1].info.end_offset if batches else 0)

        self.serve(FETCH, FETCH_VERSION, request, on_answered)

    def list_offset(
        self, partition: TopicPartition, time_ms: int, done: Callable[[ListOffsetsPartitionResponse], None]
    ) -> None:
        """A consumer asks for the first offset at or after a time."""
        asked = ListOffsetsPartition(partition_index=partition.partition, timestamp=time_ms)
        request = ListOffsetsRequest(
            replica_id=-1, topics=(ListOffsetsTopic(name=partition.topic, partitions=(asked,)),)
        )

        def on_answered(response: ListOffsetsResponse) -> None:
            answer = response.topics[0].partitions[0]
            replica = self.parts.replicas.hosted.get(partition)
            if replica is not None and answer.error_code == KafkaErrorCode.NONE:
                self._world.audits.lists(self, replica, time_ms, answer.offset)
            done(answer)

        self.serve(LIST_OFFSETS, LIST_VERSION, request, on_answered)

    def trim(self, partition: TopicPartition, offset: int, *, by_client: bool) -> None:
        """Retention, or DeleteRecords, cuts a log."""
        hosted = self.parts.replicas.hosted.get(partition)
        if hosted is not None:
            token = self.parts.replicas.token(_do_nothing) if by_client else None
            self.parts.replicas.step(hosted, LogStartDue(offset, token))


def build_settings(knobs: KafkaKnobs, rack: str | None = None) -> Settings:
    """Returns the settings of every broker of this world, or of those in a rack."""
    rng = stream(knobs.seed, "settings")
    session_ms = round(knobs.session_s * 1000)
    values: dict[str, object] = {
        "flush": "before-ack" if knobs.before_ack else "page-cache",
        "min.insync.replicas": knobs.min_isr,
        "eligible.leader.replicas.version": int(knobs.eligible),
        "replica.lag.time.max.ms": round(knobs.lag_s * 1000),
        "broker.session.timeout.ms": session_ms,
        "broker.heartbeat.interval.ms": session_ms // HEARTBEATS_PER_SESSION,
        "broker.silence.timeout.ms": round(session_ms * knobs.silence),
        "auto.leader.rebalance.enable": "true" if knobs.balance_s else "false",
        "leader.imbalance.check.interval.seconds": max(1, round(knobs.balance_s)),
        "replica.fetch.wait.max.ms": round(knobs.fetch_wait_s * 1000),
        "replica.fetch.max.bytes": rng.choice((500, 1_500, 1 << 20)),
        "replica.fetch.response.max.bytes": rng.choice((1_000, 1 << 20)),
        "replica.fetch.backoff.ms": FETCH_BACKOFF_MS,
        "replica.socket.timeout.ms": max(1, round((knobs.timeout_s - knobs.fetch_wait_s) * 1000)),
        "replica.high.watermark.checkpoint.interval.ms": round(knobs.checkpoint_s * 1000),
        "log.segment.bytes": SEGMENT_BYTES,
        "log.cleaner.backoff.ms": 1_000,
        "log.retention.check.interval.ms": RETENTION_CHECK_MS if knobs.alters else 300_000,
        "group.min.session.timeout.ms": 10,
        "group.consumer.session.timeout.ms": session_ms,
        "group.consumer.heartbeat.interval.ms": session_ms // HEARTBEATS_PER_SESSION,
        "leader.replication.throttled.rate": knobs.throttle,
        "follower.replication.throttled.rate": knobs.throttle,
        "group.initial.rebalance.delay.ms": 100,
        "offsets.commit.timeout.ms": 1_000,
        "transaction.abort.timed.out.transaction.cleanup.interval.ms": 300,
        "offsets.retention.check.interval.ms": 3_600_000,
    }
    if rack is not None:
        values["broker.rack"] = rack
    return Settings.from_assignments([f"{name}={value}" for name, value in values.items()])


def _do_nothing(*_: object) -> None:
    pass


def _start_no_thread() -> DiskThread:
    raise AssertionError("no answer here is so large that a thread encodes it")
