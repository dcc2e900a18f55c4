"""A master with two slaves under any sequence of records, late and lost connections, kills, power cuts, lost disks and
promotions.

At every moment, the promise of a status holds on the disks that it names, and no log of a welcomed slave differs from
its master's. A slave with any other log is found out when it shakes hands, and then no record is taken until an
operator decides. Only faults that cost a disk its bytes, and operators, remove records from a log. At the end, when all
faults are undone and an operator has decided, all logs are the master's, and a record is acknowledged.
"""

import random

import attrs
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from rocketmq_compat.replication.acks import SendStatus
from rocketmq_compat.replication.effects import AnswerPut, ConfirmOffsetMoved, Effect, RefusePut, SendMessage
from rocketmq_compat.replication.events import DivergenceDiscarded, LossAccepted
from rocketmq_compat.replication.master import Master
from rocketmq_compat.replication.messages import Welcome
from rocketmq_compat.replication.model import INCARNATION_MAX, Flavor, ReplicationConfig
from rocketmq_compat.replication.slave import Slave
from tests.examples import examples
from tests.rocketmq_compat.replication.world import Disk, Node, World, status

NODES = st.integers(1, 3)
FLUSHES = st.booleans()


class AuditedWorld(World):
    """A world that compares what is promised with the disks, at the moment in which it is."""

    copies = 1
    lost: dict[int, list[Disk]]

    def on_answered(self, node: Node, answer: AnswerPut | RefusePut) -> None:
        """A status promises copies; a copy that was there and was lost by a fault since has kept its promise."""
        data = self.texts[answer.token]
        if isinstance(answer, RefusePut):
            assert data not in bytes(node.disk.data), "refused, and stored"
            return
        assert self.has(node.number, answer.offset, data), "answered, and not stored"
        if answer.status is not SendStatus.SEND_OK or data.startswith(b"nowait"):
            return
        if node.config.sync_flush:
            assert self.has(node.number, answer.offset, data, durable=True), "acknowledged, and not durable"
        self.assert_copied(node, answer.offset, data)

    def on_confirmed(self, node: Node, offset: int) -> None:
        """A master's confirm offset promises as much as a status does."""
        disk = node.disk
        assert not node.config.sync_flush or disk.durable_end >= offset, "confirmed, and not durable"
        start = max([disk.start, *[each.disk.start for each in self.nodes.values()]])
        if start < offset:
            self.assert_copied(node, start, disk.read(start, offset))

    def assert_copied(self, node: Node, offset: int, data: bytes) -> None:
        """As many other disks have these bytes, or had them, as the master's mode promises."""
        holders = [
            other.number
            for other in self.nodes.values()
            if other is not node
            and (
                self.has(other.number, offset, data, durable=other.config.sync_flush)
                or any(_had(disk, offset, data) for disk in self.lost.get(other.number, []))
            )
        ]
        assert len(holders) >= self.copies - 1, f"promised with copies on {holders} alone"

    def stop(self, number: int, *, power: bool = False, keep: int | None = None) -> None:
        """See `World`."""
        self.remember(number)
        super().stop(number, power=power, keep=keep)

    def wipe(self, number: int) -> None:
        """See `World`."""
        self.remember(number)
        super().wipe(number)

    def remember(self, number: int) -> None:
        """A disk may be about to lose something."""
        disk = self.nodes[number].disk
        self.lost.setdefault(number, []).append(Disk(disk.start, bytearray(disk.data)))


def _had(disk: Disk, offset: int, data: bytes) -> bool:
    return disk.start <= offset and disk.read(offset, offset + len(data)) == data


class ReplicationMachine(RuleBasedStateMachine):
    """`config` differs between the machines below."""

    config = ReplicationConfig()
    copies = 1

    def __init__(self) -> None:
        super().__init__()
        self.world = AuditedWorld(self.config, self.config, 0)
        self.written = 0

    @initialize(slave_flushes=FLUSHES, window=st.sampled_from([1, 30, 1000]))
    def begin(self, slave_flushes: bool, window: int) -> None:
        config = attrs.evolve(self.config, push_window_bytes=window, push_bytes_max=16)
        of_slaves = attrs.evolve(config, sync_flush=slave_flushes)
        self.world = AuditedWorld(config, of_slaves, 2, self.hear)
        self.world.copies = self.copies
        self.world.lost = {}
        self.world.flushes = False
        chance = random.Random(7)
        self.world.incarnations = iter(lambda: chance.randint(1, INCARNATION_MAX), 0)
        self.world.begin()
        self.world.stabilize()

    def hear(self, number: int, effect: Effect) -> None:
        node = self.world.nodes[number]
        if isinstance(effect, ConfirmOffsetMoved) and node.is_master:
            self.world.on_confirmed(node, effect.confirm_offset)
        if isinstance(effect, SendMessage) and isinstance(effect.message, Welcome):
            slave = self.world.nodes[node.peers[node.names[effect.connection]]]
            if slave.replica is not None and effect.message.push_from == slave.disk.end:
                self.assert_beginning(slave, node)

    # ------------------------------------------------------------ what clients do

    @rule(wait=st.sampled_from([True, True, True, False]), where=st.sampled_from([0, 0, 0, 1, 2, 3]))
    def put(self, wait: bool, where: int) -> None:
        number = where or self.world.master
        if self.world.nodes[number].replica is not None:
            self.written += 1
            self.world.put(number, f"{'' if wait else 'nowait'}<{self.written}>", wait=wait)

    # ------------------------------------------------------------ what networks and disks do

    @rule(data=st.data(), count=st.integers(1, 8))
    def deliver(self, data: st.DataObject, count: int) -> None:
        for _ in range(count):
            links = sorted(link for link, queue in self.world.links.items() if queue and link not in self.world.cut)
            if links:
                self.world.deliver(*data.draw(st.sampled_from(links)))

    @rule()
    def deliver_everything(self) -> None:
        self.world.stabilize()

    @rule(data=st.data())
    def damage(self, data: st.DataObject) -> None:
        """A bit of something on its way is changed."""
        links = sorted(link for link, queue in self.world.links.items() if queue and queue[0].what == "carries")
        if links:
            queue = self.world.links[data.draw(st.sampled_from(links))]
            content = bytearray(queue[0].data)
            content[data.draw(st.integers(0, len(content) - 1))] ^= 1 << data.draw(st.integers(0, 7))
            queue[0] = attrs.evolve(queue[0], data=bytes(content))

    @rule(one=NODES, other=NODES)
    def cut(self, one: int, other: int) -> None:
        """Lose all parcels on the way between two nodes: their connections hang until one side finds them silent."""
        if one != other:
            for link in ((one, other), (other, one)):
                self.world.cut.add(link)
                self.world.links.pop(link, None)

    @rule()
    def heal(self) -> None:
        """Heal all cuts. A connection that lost a parcel brings nothing more."""
        self.world.pass_time(21.0)
        self.world.cut.clear()

    @rule(number=NODES)
    def flush(self, number: int) -> None:
        self.world.flush(number)

    @rule(seconds=st.sampled_from([0.5, 3.0, 5.0, 6.0, 25.0]))
    def pass_time(self, seconds: float) -> None:
        self.world.pass_time(seconds)

    # ------------------------------------------------------------ what brokers and operators do

    @rule(number=NODES, power=st.booleans(), data=st.data())
    def stop(self, number: int, power: bool, data: st.DataObject) -> None:
        node = self.world.nodes[number]
        if node.replica is not None:
            keep = data.draw(st.integers(node.disk.durable_end, node.disk.end))
            self.world.stop(number, power=power, keep=keep)

    @rule(number=NODES)
    def wipe(self, number: int) -> None:
        if self.world.nodes[number].replica is None:
            self.world.wipe(number)

    @rule(number=NODES)
    def restart(self, number: int) -> None:
        if self.world.nodes[number].replica is None:
            self.world.start(number)

    @rule(number=NODES)
    def promote(self, number: int) -> None:
        """Promote a node after the old master is down and no slave still follows it, as an operator ensures."""
        if number != self.world.master:
            for other in self.world.nodes:
                if self.world.nodes[other].replica is not None:
                    self.world.stop(other)
            self.world.master = number
            self.world.start(number)

    @rule(number=NODES)
    def come_together(self, number: int) -> None:
        """Start the nodes that are down, `number` as the last, with time to find each other."""
        for other in sorted(self.world.nodes, key=lambda node: node == number):
            self.restart(other)
        self.world.cut.clear()
        self.world.pass_time(21.0)
        self.world.stabilize()
        self.world.pass_time(5.5)
        self.world.stabilize()

    @rule(power=st.booleans(), data=st.data())
    def lose_the_master(self, power: bool, data: st.DataObject) -> None:
        """It comes back at once, and is written to before its slaves know."""
        self.stop(self.world.master, power, data)
        self.restart(self.world.master)
        self.put(True, 0)

    @rule()
    def accept_loss(self) -> None:
        if self.world.nodes[self.world.master].replica is not None:
            self.world.step(self.world.master, LossAccepted())

    @rule(number=NODES)
    def discard(self, number: int) -> None:
        node = self.world.nodes[number]
        if node.replica is not None and isinstance(node.replica.role, Slave):
            self.world.remember(number)
            self.world.step(number, DivergenceDiscarded())

    # ------------------------------------------------------------ what must hold

    def assert_beginning(self, slave: Node, master: Node) -> None:
        """Assert that the slave's log is the master's, from the later start to the slave's end."""
        start = max(slave.disk.start, master.disk.start)
        assert slave.disk.end <= master.disk.end, (slave.number, slave.disk.end, master.disk.end)
        assert slave.disk.read(start, slave.disk.end) == master.disk.read(start, slave.disk.end), slave.number

    @invariant()
    def a_slave_that_follows_does_not_differ(self) -> None:
        for master in self.world.nodes.values():
            if master.replica is None or not isinstance(master.replica.role, Master):
                continue
            for progress in master.replica.role.slaves:
                slave = self.world.nodes[progress.slave_id]
                name = slave.names
                if progress.connection in {name[each] for each in name} and slave.replica is not None:
                    role = slave.replica.role
                    if isinstance(role, Slave) and role.is_welcome:
                        self.assert_beginning(slave, master)

    @invariant()
    def a_disk_is_what_its_replica_believes(self) -> None:
        for node in self.world.nodes.values():
            if node.replica is not None:
                log, disk = node.replica.log, node.disk
                assert (log.log_start, log.log_end) == (disk.start, disk.end)
                assert log.flushed_end <= disk.durable_end

    def teardown(self) -> None:
        """All faults are undone, and the operator gives up what the master does not have."""
        world = self.world
        if len(world.nodes) == 1:
            return
        world.cut.clear()
        world.flushes = True
        for number, node in world.nodes.items():
            if node.replica is None:
                world.start(number)
        for _ in range(6):
            world.pass_time(25.0)
            world.stabilize()
            world.pass_time(6.0)
            world.stabilize()
            for number in world.nodes:
                self.discard(number)
        world.stabilize()
        master = world.nodes[world.master]
        token = world.put(world.master, "the end")
        world.stabilize()
        assert status(world.answers.get(token)) is SendStatus.SEND_OK, world.answers.get(token)
        for node in world.nodes.values():
            assert node.disk.data == master.disk.data
            assert [each for each in node.disk.epochs] == master.disk.epochs  # noqa: C416


class AsyncMasterMachine(ReplicationMachine):
    """ASYNC_MASTER, SYNC_FLUSH."""

    config = ReplicationConfig(sync_flush=True)


class SyncMasterMachine(ReplicationMachine):
    """SYNC_MASTER of 4.x."""

    config = ReplicationConfig(sync_master=True)
    copies = 2


class ThreeCopiesMachine(ReplicationMachine):
    """SYNC_MASTER of 5.x with inSyncReplicas=3, SYNC_FLUSH."""

    flavor: Flavor = "5.x"
    config = ReplicationConfig(sync_master=True, sync_flush=True, flavor=flavor, in_sync_replicas=3)
    copies = 3


TestAsyncMaster = AsyncMasterMachine.TestCase
TestSyncMaster = SyncMasterMachine.TestCase
TestThreeCopies = ThreeCopiesMachine.TestCase
TestAsyncMaster.settings = TestSyncMaster.settings = TestThreeCopies.settings = settings(
    max_examples=examples(36), stateful_step_count=50
)
