"""Any order of leaders, proposals, refusals, kills, power cuts and snapshots, for three `RaftCopy`s on stores and disks
that lose.

The group is a model: one list of committed commands. A newly elected node has any prefix of it. A proposal that is not
in the list when the leadership ends is lost, and its caller gets an unknown outcome.
"""

import random
from collections.abc import Callable

import attrs
from hypothesis import Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from log.memory_disk import MemoryDisk
from raft.errors import Busy, OutcomeUnknown, RaftError
from raft.model import NodeId, Term
from raft.results import Applied
from raft.subscription import LeaderChanged, Subscriber
from rocketmq_compat.broker.context import Context
from rocketmq_compat.broker.delays import DelayedMessages
from rocketmq_compat.broker.puts import NotStored, OutcomeOpen, PutOutcome, StoredMessages
from rocketmq_compat.broker.raft_copy import RaftCopy
from rocketmq_compat.config import Properties
from rocketmq_compat.config_keys import BROKER_PROPERTIES
from rocketmq_compat.consumers.delays import DelayLevels
from rocketmq_compat.consumers.groups import GroupTable
from rocketmq_compat.consumers.topics import TopicTable, new_topic
from rocketmq_compat.records import read_heads
from tests.crashes import FATES
from tests.examples import examples
from tests.rocketmq_compat.storage.records import record
from tests.rocketmq_compat.storage.stores import open_messages

Settled = Callable[[Applied | RaftError], None]
NODES = (1, 2, 3)


@attrs.define(eq=False)
class ModelGroup:
    """Stands for the `RaftGroup` of one life of one node."""

    machine: "CopiesMachine"
    node: int
    opened_at: int
    subscriber: Subscriber | None = None

    def status(self) -> dict[str, object]:
        return {"last_index": self.opened_at}

    def subscribe(self, subscriber: Subscriber, after_index: int = 0) -> None:
        self.subscriber = subscriber

    def propose(self, command: bytes, done: Settled) -> None:
        machine = self.machine
        assert machine.leader == self.node, "only the leader proposes"
        if machine.refuses:
            machine.refuses -= 1
            done(Busy())
            return
        machine.proposed.append((command, done))


@attrs.define(eq=False)
class Node:
    """One node: its disk, what its raft log begins with, and the copy of this life."""

    number: int
    disk: MemoryDisk
    copy: RaftCopy
    group: ModelGroup
    context: Context
    snapshot: tuple[int, bytes] = (0, b"")
    applied: int = 0
    held: int = 0
    """Up to which committed command its raft log goes."""


class InOneThread:
    """A `DiskThread` that works at once."""

    def submit(self, work: Callable[[], None], done: Callable[[BaseException | None], None]) -> None:
        work()
        done(None)


class CopiesMachine(RuleBasedStateMachine):
    """Three nodes, and what was acknowledged."""

    def __init__(self) -> None:
        super().__init__()
        self.committed: list[bytes] = []
        self.proposed: list[tuple[bytes, Settled]] = []
        self.waiting: list[tuple[int, Settled]] = []
        """Index and callback of what is committed and not applied by the leader."""
        self.leader: int | None = None
        self.term = 0
        self.refuses = 0
        self.bodies = 0
        self.acknowledged: dict[bytes, tuple[int, int]] = {}
        """Body to physical and queue offset."""
        self.refused: set[bytes] = set()
        self.now = 0.0

    @initialize(seed=st.integers(0, 2**16))
    def begin(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.nodes = {number: self._start(number, MemoryDisk(random.Random(number)), (0, b""), 0) for number in NODES}

    def _start(self, number: int, disk: MemoryDisk, snapshot: tuple[int, bytes], held: int) -> Node:
        store = open_messages(disk)
        context = Context(
            properties=Properties.read(BROKER_PROPERTIES),
            store=store,
            topics=TopicTable(),
            groups=GroupTable(),
            levels=DelayLevels.parse("1s"),
            store_host=b"\x7f\0\0\1\0\0\0\1",
            address="127.0.0.1:1",
            memory_bytes=1 << 30,
            clock=lambda: self.now,
            wall_ms=lambda: 1000,
            rng=random.Random(1),
            tell=lambda event, **fields: None,
            node_id=number,
        )
        context.topics.update(1000, new_topic("T", 2, 2))
        copy = RaftCopy(context, number, InOneThread(), DelayedMessages(context, {}), lambda runs: None)
        group = ModelGroup(self, number, held)
        if snapshot[0]:
            copy.restore(snapshot[1])
        copy.open_on(group)
        return Node(number, disk, copy, group, context, snapshot, snapshot[0], held)

    # ---------------------------------------------------------------- leaders

    @rule(number=st.sampled_from(NODES), is_ready=st.booleans())
    def elect(self, number: int, is_ready: bool) -> None:
        self._end_leadership()
        node = self.nodes[number]
        if node.held < len(self.committed):
            node = self._given_all(number)
        self.term += 1
        self.leader = number
        for other in self.nodes.values():
            assert other.group.subscriber is not None, "every copy learns of leaders"
            other.group.subscriber(LeaderChanged(NodeId(number), Term(self.term)))
        if is_ready:
            self.tick()
            self.commit(len(self.proposed), applies=True)

    def _given_all(self, number: int) -> Node:
        """A leader has everything that is committed in its raft log, or has been reset to a snapshot."""
        start = max(each.snapshot[0] for each in self.nodes.values())
        node = self.nodes[number]
        if node.held < start:
            self.install(number)
        self.nodes[number].held = len(self.committed)
        return self.nodes[number]

    def _end_leadership(self) -> None:
        if self.leader is None:
            return
        self.leader = None
        lost, self.proposed = self.proposed, []
        for _, done in [*self.waiting, *lost]:
            done(OutcomeUnknown())
        self.waiting = []
        for node in self.nodes.values():
            assert node.group.subscriber is not None, "every copy learns of leaders"
            node.group.subscriber(LeaderChanged(None, Term(self.term)))

    # ---------------------------------------------------------------- what a leader does

    @rule(data=st.data(), number=st.sampled_from(NODES), puts=st.integers(1, 4))
    def put(self, data: st.DataObject, number: int, puts: int) -> None:
        """Puts several at once and commits some of them, at a ready leader or one that was refused a put."""
        if self.leader is None:
            self.elect(number, is_ready=True)
        for _ in range(puts):
            self._put(
                data.draw(st.integers(0, 1)), data.draw(st.integers(1, 3)), data.draw(st.sampled_from([0, 90, 900]))
            )
        count = data.draw(st.integers(0, len(self.proposed)))
        if count:
            self.commit(count, applies=data.draw(st.booleans()))
        for name in NODES:
            if data.draw(st.booleans()):
                self.apply(name, data.draw(st.integers(1, 8)))

    def _put(self, queue: int, count: int, size: int) -> None:
        assert self.leader is not None, "see the precondition"
        node = self.nodes[self.leader]
        self.bodies += 1
        bodies = [b"%d.%d." % (self.bodies, at) + bytes(size) for at in range(count)]

        def on_outcome(outcome: PutOutcome) -> None:
            match outcome:
                case StoredMessages(physical_offsets=physical, queue_offsets=offsets):
                    self.acknowledged.update(zip(bodies, zip(physical, offsets, strict=True), strict=True))
                case NotStored():
                    self.refused.update(bodies)
                case OutcomeOpen():
                    pass

        node.copy.put([record("T", queue, body=body) for body in bodies], on_outcome)
        for other in self.nodes.values():
            if other is not node:
                outcomes: list[PutOutcome] = []
                other.copy.put([record("T", queue, body=b"to a slave")], outcomes.append)
                assert isinstance(outcomes[0], NotStored), "a slave refuses at once"

    @rule(count=st.integers(1, 2))
    def refuse(self, count: int) -> None:
        """The next proposals are refused, and those behind them are not."""
        self.refuses = count

    @precondition(lambda self: self.proposed)
    @rule(count=st.integers(1, 6), applies=st.booleans())
    def commit(self, count: int, applies: bool) -> None:
        assert self.leader is not None, "who proposes leads"
        for command, done in self.proposed[:count]:
            self.committed.append(command)
            self.waiting.append((len(self.committed), done))
        del self.proposed[:count]
        self.nodes[self.leader].held = len(self.committed)
        if applies:
            self.apply(self.leader, len(self.committed))

    @rule()
    def tick(self) -> None:
        self.now += 1.0
        for node in self.nodes.values():
            node.copy.tick(self.now)
            node.copy.flush_if_due(self.now)

    # ---------------------------------------------------------------- what every node does

    @rule(number=st.sampled_from(NODES), count=st.integers(1, 8))
    def apply(self, number: int, count: int) -> None:
        start = max(each.snapshot[0] for each in self.nodes.values() if each.number != number)
        if self.nodes[number].held < start:
            self.install(number)
        node = self.nodes[number]
        for index in range(node.applied + 1, min(node.applied + count, len(self.committed)) + 1):
            result = node.copy.apply(index, self.committed[index - 1])
            node.applied = index
            node.held = max(node.held, index)
            if number == self.leader and self.waiting and self.waiting[0][0] == index:
                self.waiting.pop(0)[1](Applied(index, result))
        node.copy.tick(self.now)

    @rule(number=st.sampled_from(NODES))
    def trim(self, number: int) -> None:
        """Everything that is applied leaves the raft log."""
        node = self.nodes[number]
        snapshot = node.copy.snapshot()
        if snapshot is not None:
            assert node.context.store.log.durable_offset >= node.copy.state.end, "it stands for what is durable"
        if snapshot is not None and node.applied:
            node.snapshot = node.applied, snapshot

    def install(self, number: int) -> None:
        """This node lacks what has left all other raft logs."""
        newest = max((each for each in self.nodes.values() if each.number != number), key=lambda each: each.snapshot[0])
        node = self.nodes[number]
        if newest.snapshot[0] > node.applied:
            node.copy.restore(newest.snapshot[1])
            node.snapshot, node.applied = newest.snapshot, newest.snapshot[0]
            node.held = max(node.held, node.applied)

    @rule(number=st.sampled_from(NODES), other=st.sampled_from(NODES))
    def copy_missing(self, number: int, other: int) -> None:
        node, peer = self.nodes[number], self.nodes[other]
        if node is peer or not node.copy.incomplete.is_set() or peer.copy.incomplete.is_set():
            return
        log, theirs = node.context.store.log, peer.context.store.log
        if log.end_offset < theirs.end_offset:
            for batch in theirs.read(log.end_offset, 400, node.copy.state.end):
                if batch.base_offset == log.end_offset:  # else it was kept when it was applied
                    node.copy.append_missing(bytes(batch.payload), offset=batch.base_offset, epoch=batch.epoch)

    @rule(number=st.sampled_from(NODES), fate=st.integers(0, len(FATES) - 1), seed=st.integers(0, 99))
    def die(self, number: int, fate: int, seed: int) -> None:
        """The raft log is durable: it is the commit log that may lose what was not flushed."""
        if number == self.leader:
            self._end_leadership()
        node = self.nodes[number]
        disk = FATES[fate](node.disk, seed)
        node.context.store.abandon()
        self.nodes[number] = self._start(number, disk, node.snapshot, node.held)

    # ---------------------------------------------------------------- what holds

    @invariant()
    def copies_agree_and_hold_what_was_acknowledged(self) -> None:
        contents = {}
        for node in getattr(self, "nodes", {}).values():
            log = node.context.store.log
            found = log.byte_reader().read(0, log.end_offset) if log.end_offset else memoryview(b"")
            assert found is not None, "the log is whole"
            assert log.start_offset == 0
            contents[node.number] = bytes(found)
            assert node.copy.incomplete.is_set() == (log.end_offset < node.copy.state.end)
        longest = max(contents.values(), key=len, default=b"")
        for content in contents.values():
            assert longest.startswith(content), "one copy is a prefix of another"

    def teardown(self) -> None:
        if not hasattr(self, "nodes"):
            return
        self.refuses = 0
        self._end_leadership()
        for number in NODES:
            self.apply(number, len(self.committed) + 1)
        for _ in range(200):
            if not any(node.copy.incomplete.is_set() for node in self.nodes.values()):
                break
            for number in NODES:
                for other in NODES:
                    self.copy_missing(number, other)
        for node in self.nodes.values():
            assert not node.copy.incomplete.is_set()
            node.copy.tick(self.now)
        states = [node.copy.state for node in self.nodes.values()]
        assert all(each == states[0] for each in states)
        for node in self.nodes.values():
            self._check_content(node)
            node.context.store.abandon()

    def _check_content(self, node: Node) -> None:
        store = node.context.store
        log = store.log
        assert log.end_offset == node.copy.state.end
        found = log.byte_reader().read(0, log.end_offset) if log.end_offset else memoryview(b"")
        assert found is not None, "the log is whole"
        places: dict[bytes, tuple[int, int]] = {}
        nexts = {0: 0, 1: 0}
        for start, head in read_heads(bytes(found)):
            body = bytes(head.body(bytes(found)[start:]))
            assert body not in places, "nothing is stored twice"
            places[body] = head.physical_offset, head.queue_offset
            assert (head.physical_offset, head.queue_offset) == (start, nexts[head.queue_id])
            nexts[head.queue_id] += 1
        assert not self.refused & places.keys(), "what was refused is not stored"
        assert {body: places.get(body) for body in self.acknowledged} == self.acknowledged
        assert [(store.queue(("T", each)) or (0, 0))[1] for each in (0, 1)] == [nexts[0], nexts[1]]


TestCopiesMachine = CopiesMachine.TestCase
TestCopiesMachine.settings = settings(
    max_examples=examples(24),
    stateful_step_count=50,
    phases=[Phase.explicit, Phase.reuse, Phase.generate],  # shrinking takes minutes, for runs that are short anyway
)
