"""Whole groups of real drivers in virtual time: cores, storage and logs on imagined disks, callers that keep count.

The simulator in `jepsen_like` carries effects out with a hand of its own; here the driver itself does it. Every seed draws
the size of the group, its delays, its callers, and a few power cuts and cut links. What must hold, whatever happens:

- D1 what is acknowledged is durable: the caller's records, or its command, are on the disks of a majority in that moment;
- D2 the offset in the answer is right: the log holds these very records there;
- D3 a read that may be served sees everything acknowledged before it was asked for, applied if it wanted that;
- D4 every request is answered, and once, unless its node lost power;
- D5 each command is applied once, in one order, and its caller gets the result of its own;
- D6 what is refused for certain is in no log, and what is acknowledged is in all of them in the end.
"""

import heapq
import random
from collections import Counter
from collections.abc import Callable

import attrs

from jepsen_like.simulation.raft.durable import DurableLog
from log.errors import StorageError
from log.flush import Flush
from log.memory_disk import MemoryDisk
from log.segmented_log import LogConfig, SegmentedLog
from raft.config import RaftConfig
from raft.core import RaftCore
from raft.driver import DriverConfig, RaftDriver
from raft.environment import Environment
from raft.errors import OutcomeUnknown, RaftError
from raft.membership import Configuration
from raft.messages import Message
from raft.model import LogIndex, NodeId, Offset
from raft.record_batch import pack_batch
from raft.roles import Leader
from raft.storage import RaftStorage

LOG_ID = 1
RAFT = RaftConfig(heartbeat_s=0.05, election_timeout_s_min=0.2, election_timeout_s_max=0.4)
WORK_S = 2.0
CALM_S = 2.0
EVENTS_MAX = 60_000


class Broken(Exception):
    """A promise of the driver was broken."""


class Tape:
    """A state machine that keeps every command; the result is how many there were before."""

    def __init__(self) -> None:
        self.applied: list[tuple[int, bytes]] = []

    def check(self, command: bytes, *, read_only: bool) -> None:
        """Everything means something."""

    def apply(self, index: int, command: bytes) -> bytes:
        """Keep it."""
        self.applied.append((index, command))
        return b"%d" % (len(self.applied) - 1)

    def query(self, command: bytes) -> bytes:
        """How many there were."""
        return b"%d" % len(self.applied)


@attrs.define(eq=False)
class Request:
    """What one caller asked of one node."""

    id: int
    what: str
    records: list[bytes]
    node: NodeId
    incarnation: int
    acked_end: int
    """The end of everything acknowledged when it asked, and the newest command's index."""
    acked_index: int
    outcome: str = ""


class Node:
    """One driver with its disk; `incarnation` counts power cuts."""

    def __init__(self, world: "World", node_id: NodeId) -> None:
        self.world = world
        self.id = node_id
        self.disk = MemoryDisk(random.Random(world.rng.getrandbits(64)))
        self.incarnation = 0
        self.is_up = False
        self.wakes_at = float("inf")
        self.durable = DurableLog("node")
        self.start()

    def start(self) -> None:
        """From what the disk holds."""
        world = self.world
        self.durable = DurableLog("node")
        self.tape = Tape()
        config = LogConfig(segment_bytes_max=world.segment_bytes_max)
        self.storage = RaftStorage(SegmentedLog.open(self.disk, "node", config, log_id=LOG_ID))
        hard_state, view = self.storage.restore(cache_bytes_max=world.cache_bytes_max)
        self.core = RaftCore(
            node_id=self.id,
            configuration=Configuration(frozenset(world.ids)),
            config=attrs.evolve(RAFT, append_bytes_max=world.append_bytes_max, cache_bytes_max=world.cache_bytes_max),
            log=view,
            hard_state=hard_state,
            rng=random.Random(world.rng.getrandbits(64)),
            now=world.now,
        )
        self.driver = RaftDriver(
            core=self.core,
            storage=self.storage,
            state_machine=self.tape,
            environment=Environment(
                transport=self,
                has_more=lambda: world.rng.random() > world.idle,
                clock=lambda: world.now,
                wall_clock_ms=lambda: 0,
                notify=lambda notice: None,
            ),
            # Applied in portions of one entry, what is committed is not at once applied, as with a large log after a restart.
            config=DriverConfig(batch_bytes_max=world.batch_bytes_max, apply_bytes=1),
        )
        self.is_up = True
        self.pump()

    def submit(self, flush: Flush) -> None:
        """A flush takes its time, and covers only what was written before it began. That of one file may end in two steps, as
        it does where the kernel syncs.
        """
        incarnation, mark = self.incarnation, self.disk.mark()
        world = self.world

        def end() -> None:
            if incarnation == self.incarnation:
                with self.disk.issued_before(mark):
                    flush.run()
                self.driver.on_flushed()
                self.pump()

        def sync() -> None:
            if incarnation == self.incarnation:
                with self.disk.issued_before(mark):
                    flush.steps[1]()
                world.after(world.flush_s * world.rng.uniform(0.0, 1.0), finish)

        def finish() -> None:
            if incarnation == self.incarnation:
                flush.finish(0)
                self.driver.on_flushed()
                self.pump()

        in_two_steps = flush.lone is not None and world.rng.random() < 0.5
        if in_two_steps:
            flush.steps[0]()
        world.after(world.flush_s * world.rng.uniform(0.3, 3.0), sync if in_two_steps else end)

    def push(self) -> None:
        """The transport's: all has left already."""

    def send(self, to: NodeId, message: Message) -> None:
        """The transport's: one way, in order, and sometimes lost."""
        world = self.world
        if world.rng.random() < world.loss or (self.id in world.cut) != (to in world.cut):
            return
        receiver = world.nodes.get(to)
        if receiver is None:
            return  # not started yet
        incarnation = receiver.incarnation

        def arrive() -> None:
            if receiver.incarnation == incarnation and receiver.is_up:
                receiver.driver.deliver(self.id, message)
                receiver.pump()

        world.after(world.delay_s, arrive)

    def pump(self) -> None:
        """The loop's body, and its alarm clock."""
        self.driver.pump()
        flush = self.driver.begin_flush()
        if flush is not None:
            self.submit(flush)
        # Another round follows at once if something waits for nothing else.
        deadline = self.world.now if self.driver.has_postponed else self.driver.deadline
        incarnation = self.incarnation
        self.wakes_at = deadline

        def wake() -> None:
            if self.incarnation == incarnation and self.wakes_at == deadline:
                self.pump()

        self.world.after(max(0.0, deadline - self.world.now) + self.world.round_s, wake)

    def cut_power(self) -> None:
        """All is gone that was not synced, or part of it."""
        self.incarnation += 1
        self.is_up = False
        self.disk = self.disk.after_crash(random.Random(self.world.rng.getrandbits(64)))

    # The driver's caller.

    def on_appended(self, request_id: int, base_offset: int, span: int, term: int) -> None:
        """See `Caller`."""
        self.world.on_appended(self, self.world.note_answer(self, request_id, "ok"), base_offset, span)

    def on_applied(self, request_id: int, index: int, result: bytes) -> None:
        """See `Caller`."""
        self.world.on_applied(self, self.world.note_answer(self, request_id, "ok"), index, result)

    def on_readable(self, request_id: int) -> None:
        """See `Caller`."""
        self.world.on_readable(self, self.world.note_answer(self, request_id, "ok"))

    def on_refused(self, request_id: int, error: RaftError) -> None:
        """See `Caller`."""
        self.world.note_answer(self, request_id, "unknown" if isinstance(error, OutcomeUnknown) else "fail")


class World:
    """One seed. `run` raises `Broken`, or returns what happened."""

    def __init__(self, seed: int) -> None:
        self.rng = rng = random.Random(f"driver {seed}")
        self.now = 0.0
        self.counts: Counter[str] = Counter()
        self._heap: list[tuple[float, int, Callable[[], None]]] = []
        self._posted = 0
        self.delay_s = rng.choice((0.0005, 0.005, 0.02))
        self.flush_s = rng.choice((0.0005, 0.005, 0.03))
        self.round_s = rng.choice((1e-6, 0.001))
        self.loss = rng.choice((0.0, 0.0, 0.02))
        self.idle = rng.choice((0.0, 0.3, 1.0))
        self.segment_bytes_max = rng.choice((4096, 1 << 20))
        self.cache_bytes_max = rng.choice((1, 2000, 1 << 20))
        self.batch_bytes_max = rng.choice((1, 200, 1 << 20))
        self.append_bytes_max = random.Random(f"messages {seed}").choice((300, 1 << 20))
        self.cut: frozenset[NodeId] = frozenset()
        self.acked_end = 0
        self.acked_index = 0
        self.requests: dict[int, Request] = {}
        self.ids = [NodeId(number) for number in range(1, rng.choice((1, 3, 3, 5)) + 1)]
        self.nodes: dict[NodeId, Node] = {}
        for node in self.ids:
            self.nodes[node] = Node(self, node)

    def after(self, seconds: float, action: Callable[[], None]) -> None:
        """Later; of the same moment, in this order."""
        self._posted += 1
        heapq.heappush(self._heap, (self.now + seconds, self._posted, action))

    def run(self) -> Counter[str]:
        """Work under faults, then in peace, then look at what is left."""
        for number in range(self.rng.randint(2, 5)):
            self.after(self.rng.random() * 0.2 + 0.01 * number, self._call)
        for _ in range(self.rng.randint(0, 5)):
            self.after(self.rng.uniform(0.4, WORK_S), self.rng.choice((self._cut_power, self._part)))
        self._play_until(WORK_S)
        self.loss, self.cut = 0.0, frozenset()
        self._play_until(WORK_S + CALM_S)
        self._judge()
        return self.counts

    def _play_until(self, end: float) -> None:
        while self._heap and self._heap[0][0] <= end:
            at, _, action = heapq.heappop(self._heap)
            self.now = max(self.now, at)
            action()
            self.counts["events"] += 1
            if self.counts["events"] > EVENTS_MAX:
                raise Broken("the drivers never rest")
        self.now = end

    # ---------------------------------------------------------------- callers

    def _call(self) -> None:
        """A caller asks for a handful of things at once, mostly of the leader."""
        up = [node for node in self.nodes.values() if node.is_up]
        leaders = [node for node in up if isinstance(node.core.role, Leader)]
        if up and self.now < WORK_S:
            node = self.rng.choice(leaders if leaders and self.rng.random() < 0.9 else up)
            for _ in range(self.rng.choice((1, 1, 2, 6))):
                self._ask(node)
            node.pump()
        self.after(self.rng.expovariate(1.0) * 0.03, self._call)

    def _ask(self, node: Node) -> None:
        number = len(self.requests) + 1
        what = self.rng.choice(("append", "append", "apply", "read", "read after apply"))
        records = [b"%d.%d" % (number, at) for at in range(self.rng.choice((1, 1, 2, 5)))]
        self.requests[number] = Request(
            number, what, records, node.id, node.incarnation, self.acked_end, self.acked_index
        )
        self.counts[what] += 1
        match what:
            case "append":
                node.driver.append(node, number, pack_batch(records), len(records))
            case "apply":
                node.driver.apply(node, number, b"%d" % number)
            case _:
                node.driver.read(node, number, after_apply=what == "read after apply")

    def note_answer(self, node: Node, request_id: int, outcome: str) -> Request:
        """D4: for the first time."""
        request = self.requests[request_id]
        if request.outcome or request.node != node.id:
            raise Broken(f"D4: {request.what} {request_id} is answered twice: {request.outcome}, then {outcome}")
        request.outcome = outcome
        self.counts[outcome] += 1
        return request

    def on_appended(self, node: Node, request: Request, base_offset: int, span: int) -> None:
        """D1 and D2."""
        found = {
            batch.base_offset + at: record
            for batch in node.driver.read_committed(base_offset, 1 << 20)
            for at, record in enumerate(batch.records())
        }
        there = [found.get(base_offset + at) for at in range(span)]
        if there != request.records:
            raise Broken(f"D2: append {request.id} was answered with offset {base_offset}, which holds {there}")
        self._must_be_durable(node, request, node.storage.find_index(Offset(base_offset)))
        self.acked_end = max(self.acked_end, base_offset + span)

    def on_applied(self, node: Node, request: Request, index: int, result: bytes) -> None:
        """D1 and D5."""
        at = int(result)
        if at >= len(node.tape.applied) or node.tape.applied[at] != (index, b"%d" % request.id):
            raise Broken(f"D5: command {request.id} was answered with the result of another, {at} at index {index}")
        self._must_be_durable(node, request, LogIndex(index))
        self.acked_index = max(self.acked_index, index)

    def _must_be_durable(self, node: Node, request: Request, index: LogIndex) -> None:
        """D1, checked on the disks alone."""
        (entry,) = node.storage.entries(index, 0, index)
        holders = []
        for other in self.nodes.values():
            other.durable.refresh(other.disk)
            if other.durable.has(entry):
                holders.append(other.id)
        if len(holders) <= len(self.ids) // 2:
            raise Broken(f"D1: {request.what} {request.id} is acknowledged, durable only on {holders}")

    def on_readable(self, node: Node, request: Request) -> None:
        """D3."""
        if node.driver.committed_end < request.acked_end:
            raise Broken(f"D3: read {request.id} sees up to {node.driver.committed_end} of {request.acked_end}")
        if request.what == "read after apply" and node.driver.applied_index < request.acked_index:
            raise Broken(
                f"D3: read {request.id} sees commands up to {node.driver.applied_index} of {request.acked_index}"
            )

    # ---------------------------------------------------------------- faults

    def _cut_power(self) -> None:
        node = self.nodes[self.rng.choice(self.ids)]
        if not node.is_up:
            return
        self.counts["power cuts"] += 1
        node.cut_power()
        self.after(self.rng.uniform(0.01, 0.6), node.start)
        for peer in self.nodes.values():
            if peer.is_up and self.rng.random() < 0.5:
                peer.driver.on_disconnected(node.id)
                peer.pump()

    def _part(self) -> None:
        self.counts["cuts"] += 1
        self.cut = frozenset(self.rng.sample(self.ids, len(self.ids) // 2))
        self.after(self.rng.uniform(0.2, 1.0), self._join)

    def _join(self) -> None:
        self.cut = frozenset()

    # ---------------------------------------------------------------- the end

    def _judge(self) -> None:
        logs = {node.id: self._records_of(node) for node in self.nodes.values()}
        tapes = [node.tape.applied for node in self.nodes.values()]
        log, tape = logs[self.ids[0]], tapes[0]
        if any(other != log for other in logs.values()) or any(other != tape for other in tapes):
            raise Broken("D6: the logs of a healed group differ")
        commands = Counter(command for _, command in tape)
        records = Counter(log)
        for request in self.requests.values():
            wanted = request.records if request.what == "append" else [b"%d" % request.id]
            held = records if request.what == "append" else commands
            times = {held[each] for each in wanted}
            if not request.outcome and request.incarnation == self.nodes[request.node].incarnation:
                raise Broken(f"D4: {request.what} {request.id} was never answered")
            if request.what.startswith("read"):
                continue
            if max(times) > 1:
                raise Broken(f"D5: {request.what} {request.id} stands more than once")
            if (request.outcome == "ok" and times != {1}) or (request.outcome == "fail" and times != {0}):
                raise Broken(f"D6: {request.what} {request.id} ended {request.outcome} and stands {times} times")

    def _records_of(self, node: Node) -> list[bytes]:
        entries = node.driver.read_committed(0, 1 << 30)
        return [record for batch in entries for record in batch.records()]


def play(seed: int) -> Counter[str]:
    """Play one seed. `Broken` names the promise."""
    try:
        return World(seed).run()
    except StorageError as error:
        raise Broken(f"a sound disk failed: {error}") from error


__all__ = ["Broken", "play"]
