"""Three replicas under any sequence of appends, late and lost messages, crashes, power cuts, elections and truncations.

At every moment, a member of the controller's ISR holds everything that any leader believes to be committed (StrongIsr).
Records acknowledged with acks=all are in the log of every member. Logs that agree in an epoch agree before it, and
records below a high watermark never change. Only two things excuse a loss, from their epoch on: an unclean election,
and the last member of the ISR losing its page cache. At the end, when all faults are undone, everything converges.
"""

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from kafka_compat.partition.events import LogStartDue
from kafka_compat.partition.leader import LeaderReplica
from kafka_compat.partition.model import FlushSetting, PartitionConfig
from tests.examples import examples
from tests.kafka_compat.partition.world import Broker, World

BROKERS = st.integers(1, 3)
LAG_S = 4.0


class ReplicationMachine(RuleBasedStateMachine):
    """`excused` is the last leader epoch whose promises may be broken."""

    flush: FlushSetting = "page-cache"

    def __init__(self) -> None:
        super().__init__()
        self.world = World(0, PartitionConfig())
        self.excused = 0
        self.written = 0
        self.sequences: dict[int, int] = {}
        self.committed: dict[int, tuple[int, str]] = {}

    @initialize(min_isr=st.integers(1, 3))
    def begin(self, min_isr: int) -> None:
        config = PartitionConfig(
            min_insync_replicas=min_isr, replica_lag_time_s=LAG_S, flush=self.flush, fetch_backoff_s=0.3
        )
        self.world = World(3, config)
        self.world.begin()
        self.world.stabilize()

    # ------------------------------------------------------------ what clients do

    @rule(broker=BROKERS, acks=st.sampled_from([-1, -1, 1]), count=st.integers(1, 2))
    def produce(self, broker: int, acks: int, count: int) -> None:
        self.written += 1
        self.world.produce(broker, f"r{self.written}", acks, count=count)

    @rule(acks=st.sampled_from([-1, -1, 1]))
    def produce_at_the_leader(self, acks: int) -> None:
        if self.world.controller.state.leader > 0:
            self.produce(self.world.controller.state.leader, acks, 1)

    @rule(repeat=st.booleans())
    def produce_idempotently(self, repeat: bool) -> None:
        """A client that sends each batch until it is acknowledged, and then the next."""
        sequence = self.sequences.get(7, 0)
        if not repeat and ("i" + str(sequence)) in {text for _, text in self.world.acked}:
            sequence += 1
            self.sequences[7] = sequence
        if self.world.controller.state.leader > 0:
            self.world.produce(self.world.controller.state.leader, f"i{sequence}", -1, (7, 0, sequence))

    @rule(broker=BROKERS, data=st.data())
    def trim(self, broker: int, data: st.DataObject) -> None:
        """DeleteRecords: whole batches, and no more than is committed; what leaves is not missed."""
        replica = self.world.brokers[broker].replica
        if replica is not None and replica.is_leader and self.world.controller.state.leader == broker:
            ends = [batch.end for batch in self.world.brokers[broker].log if batch.end <= replica.high_watermark]
            if ends:
                self.world.step(broker, LogStartDue(data.draw(st.sampled_from(ends))))

    # ------------------------------------------------------------ what networks and disks do

    @rule(data=st.data(), count=st.integers(1, 6))
    def deliver(self, data: st.DataObject, count: int) -> None:
        for _ in range(count):
            links = sorted(link for link, queue in self.world.links.items() if queue and link not in self.world.cut)
            if links:
                self.world.deliver(*data.draw(st.sampled_from(links)))

    @rule(data=st.data())
    def lose(self, data: st.DataObject) -> None:
        links = sorted(link for link, queue in self.world.links.items() if queue)
        if links:
            link = data.draw(st.sampled_from(links))
            message = self.world.take(*link)
            assert message is not None
            self.world.lose(*link, message)

    @rule()
    def deliver_everything(self) -> None:
        self.world.stabilize()

    @rule(one=st.integers(0, 3), other=BROKERS)
    def cut(self, one: int, other: int) -> None:
        if one != other:
            self.world.cut |= {(one, other), (other, one)}

    @rule()
    def heal(self) -> None:
        self.world.cut.clear()

    @rule(broker=BROKERS)
    def flush_disk(self, broker: int) -> None:
        if self.world.brokers[broker].replica is not None:
            self.world.flush(broker)

    @rule(broker=BROKERS)
    def truncate_slowly(self, broker: int) -> None:
        self.world.slow_truncation.add(broker)

    @rule(broker=BROKERS)
    def end_truncation(self, broker: int) -> None:
        self.world.slow_truncation.discard(broker)
        self.world.end_truncation(broker)

    @rule(seconds=st.sampled_from([0.1, 0.5, 1.0, 3.0]))
    def pass_time(self, seconds: float) -> None:
        self.world.pass_time(seconds)

    # ------------------------------------------------------------ what brokers and the controller do

    @rule(broker=BROKERS, power=st.booleans())
    def stop(self, broker: int, power: bool) -> None:
        if self.world.brokers[broker].replica is not None:
            self.world.stop(broker, power=power)

    @rule(broker=BROKERS)
    def restart(self, broker: int) -> None:
        here = self.world.brokers[broker]
        if here.replica is not None:
            return
        self.world.controller.fence(broker)
        if here.lossy and self.world.controller.state.isr == (broker,):
            self.excuse()
        self.world.restart(broker)

    @rule(broker=BROKERS)
    def unfence(self, broker: int) -> None:
        here = self.world.brokers[broker]
        if here.replica is not None and not self.world.controller.brokers[broker].active:
            self.world.controller.unfence(broker)
            self.world.publish()

    @rule(broker=BROKERS)
    def fence(self, broker: int) -> None:
        self.world.controller.fence(broker)
        self.world.publish()

    @rule(broker=BROKERS)
    def elect(self, broker: int) -> None:
        """A clean election: of the preferred leader, for example; also of the same leader in a new epoch."""
        state = self.world.controller.state
        if broker in state.isr and self.world.controller.brokers[broker].active:
            self.world.controller.change(state.isr, broker, bump=True)
            self.world.publish()

    @precondition(lambda self: self.world.controller.state.leader < 0)
    @rule(broker=BROKERS)
    def elect_uncleanly(self, broker: int) -> None:
        if self.world.controller.brokers[broker].active:
            if broker not in self.world.controller.state.isr:
                self.excuse()
            self.world.controller.change((broker,), broker, recovering=True, bump=True)
            self.world.publish()

    def excuse(self) -> None:
        self.excused = self.world.controller.state.leader_epoch
        self.world.acked.clear()
        self.committed.clear()
        self.sequences[7] = self.sequences.get(7, 0) + 100

    # ------------------------------------------------------------ what must hold

    def members(self) -> list[Broker]:
        """The controller's ISR, without a broker that lost its page cache: its registration will take it out."""
        return [
            self.world.brokers[broker]
            for broker in self.world.controller.state.isr
            if not self.world.brokers[broker].lossy
        ]

    def leaders(self) -> list[tuple[Broker, int]]:
        """Every broker that believes to lead, with its high watermark, unless its promises are excused."""
        return [
            (broker, broker.replica.high_watermark)
            for broker in self.world.brokers.values()
            if broker.replica is not None and broker.replica.is_leader and broker.replica.leader_epoch > self.excused
        ]

    @invariant()
    def strong_isr(self) -> None:
        for leader, high_watermark in self.leaders():
            below = {batch.info.base_offset: batch for batch in leader.log if batch.end <= high_watermark}
            for member in self.members():
                held = {batch.info.base_offset: batch for batch in member.log}
                for offset, batch in below.items():
                    assert offset < member.log_start or held.get(offset) == batch, (leader.id, member.id, batch)

    @invariant()
    def acknowledged_records_survive(self) -> None:
        for member in self.members():
            held = {batch.info.base_offset: batch.text for batch in member.log}
            for offset, text in self.world.acked:
                assert offset < member.log_start or held.get(offset) == text, (member.id, offset, text)

    @invariant()
    def what_was_committed_does_not_change(self) -> None:
        for leader, high_watermark in self.leaders():
            for batch in leader.log:
                if batch.end <= high_watermark:
                    seen = (batch.info.leader_epoch, batch.text)
                    assert self.committed.setdefault(batch.info.base_offset, seen) == seen

    @invariant()
    def logs_match(self) -> None:
        brokers = list(self.world.brokers.values())
        for at, broker in enumerate(brokers):
            for other in brokers[at + 1 :]:
                start = max(broker.log_start, other.log_start)
                mine = [batch for batch in broker.log if batch.info.base_offset >= start]
                others = [batch for batch in other.log if batch.info.base_offset >= start]
                theirs = {batch.info.base_offset: (index, batch) for index, batch in enumerate(others)}
                common = -1
                for index, batch in enumerate(mine):
                    there = theirs.get(batch.info.base_offset)
                    if there is not None and there[1].info.leader_epoch == batch.info.leader_epoch:
                        assert there[1] == batch
                        assert there[0] == index
                        assert common == index - 1, (broker.id, other.id, batch)
                        common = index

    @invariant()
    def a_disk_is_what_its_replica_believes(self) -> None:
        for broker in self.world.brokers.values():
            if broker.replica is not None and broker.truncating is None:
                assert broker.replica.log_end == broker.log_end
                assert broker.replica.log_start == broker.log_start

    @invariant()
    def an_idempotent_producer_writes_each_batch_once(self) -> None:
        for broker in self.world.brokers.values():
            texts = [batch.text for batch in broker.log if batch.text.startswith("i")]
            assert len(texts) == len(set(texts)), texts

    def teardown(self) -> None:
        """Assert that, without faults, the ISR is complete again, and every log is the leader's up to a common high
        watermark.
        """
        if not self.world.brokers:
            return
        world = self.world
        world.cut.clear()
        for broker_id in world.brokers:
            self.end_truncation(broker_id)
            self.restart(broker_id)
            self.unfence(broker_id)
        for _ in range(40):
            world.stabilize()
            for broker_id in world.brokers:
                world.flush(broker_id)
            world.stabilize()
            world.pass_time(0.5)
            self.strong_isr()
            self.acknowledged_records_survive()
        state = world.controller.state
        assert set(state.isr) == {1, 2, 3}, state
        leader = world.brokers[state.leader].replica
        assert leader is not None
        assert isinstance(leader.role, LeaderReplica)
        assert not leader.role.waits.replicated
        for broker in world.brokers.values():
            assert broker.replica is not None
            assert broker.log == [batch for batch in world.brokers[state.leader].log if batch.end > broker.log_start]
            assert broker.replica.high_watermark == leader.log_end
        self.logs_match()


class DurableReplicationMachine(ReplicationMachine):
    """The same where only flushed copies count: a power cut loses nothing that was promised."""

    flush: FlushSetting = "before-ack"

    def members(self) -> list[Broker]:
        return [self.world.brokers[each] for each in self.world.controller.state.isr]

    def restart(self, broker: int) -> None:
        if self.world.brokers[broker].replica is None:
            self.world.restart(broker)


TestReplication = ReplicationMachine.TestCase
TestDurableReplication = DurableReplicationMachine.TestCase
TestReplication.settings = TestDurableReplication.settings = settings(max_examples=examples(20), stateful_step_count=60)
