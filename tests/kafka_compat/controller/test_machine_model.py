"""Any commands in any order: the machine against a naive model, its invariants, a twin, and a reader that sees only
changes.
"""

from collections.abc import Iterator

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from kafka_compat.controller import commands as c
from kafka_compat.controller.answers import fits
from kafka_compat.controller.image import ImageDelta
from kafka_compat.controller.invariants import problem_of
from kafka_compat.controller.machine import MetadataMachine
from kafka_compat.model import NO_EPOCH, NO_LEADER, BrokerRegistration, LogEnd, PartitionState, TopicPartition
from kafka_compat.protocol.error_codes import KafkaErrorCode
from tests.examples import examples
from tests.kafka_compat.controller.world import uuid

BROKERS = st.integers(1, 4)
NAMES = st.sampled_from(["a", "b", "a.b", "a_b"])
UNCLEAN = "unclean.leader.election.enable"
NONE = KafkaErrorCode.NONE
Partitions = dict[TopicPartition, PartitionState]


class Reader:
    """Knows of the cluster only what deltas report, and the whole image where they say so."""

    def __init__(self, machine: MetadataMachine) -> None:
        self.machine = machine
        self.brokers: dict[int, BrokerRegistration] = {}
        self.topics: dict[str, bytes] = {}
        self.partitions: Partitions = {}

    def follow(self) -> list[ImageDelta]:
        deltas = self.machine.drain_changes()
        for delta in deltas:
            assert not delta.empty
            if delta.everything:
                self.brokers = dict(self.machine.image.brokers)
                self.topics = {name: topic.topic_id for name, topic in self.machine.image.topics.items()}
                self.partitions = dict(states(self.machine))
            for topic in delta.topics_deleted:
                assert self.topics.pop(topic.name) == topic.topic_id
                for partition in range(len(topic.partitions)):
                    del self.partitions[TopicPartition(topic.name, partition)]
            self.topics.update((topic.name, topic.topic_id) for topic in delta.topics_created)
            self.brokers.update((broker.id, broker) for broker in delta.brokers)
            assert all(self.partitions.get(key) != state for key, state in delta.partitions.items())
            self.partitions.update(delta.partitions)
        return deltas


def states(machine: MetadataMachine) -> Iterator[tuple[TopicPartition, PartitionState]]:
    for topic in machine.image.topics.values():
        for partition, state in enumerate(topic.partitions):
            yield TopicPartition(topic.name, partition), state


class ControllerMachine(RuleBasedStateMachine):
    """`machine` and `twin` get all commands, the twin sometimes by way of a snapshot.

    A plain model computes their effects.
    """

    def __init__(self) -> None:
        super().__init__()
        self.machine, self.twin = MetadataMachine(), MetadataMachine()
        self.reader, self.twin_reader = Reader(self.machine), Reader(self.twin)
        self.index = 0
        self.serial = 0
        self.leaders: dict[tuple[bytes, int, int], int] = {}
        self.epochs: set[int] = set()
        self.ids: set[int] = set()
        self.asked: list[tuple[int, int, c.IsrChange]] = []
        self.eligible = False

    # ---------------------------------------------------------------- carrying out

    def do(self, command: c.Command) -> c.CommandResult:
        data = c.encode_command(command)
        before = dict(states(self.machine))
        self.index += 1
        result = self.machine.apply(self.index, data)
        assert self.twin.apply(self.index, data) == result
        self.reader.follow()
        self.twin_reader.follow()
        self.check_steps(before)
        decoded = c.decode_result(result)
        assert fits(command, decoded)
        return decoded

    def check_steps(self, before: Partitions) -> None:
        for key, state in states(self.machine):
            old = before.get(key)
            if old is None or old.topic_id != state.topic_id:
                assert (state.leader_epoch, state.partition_epoch) == (0, 0)
                continue
            left = set(old.replicas) - set(state.replicas)
            assert state.leader_epoch - old.leader_epoch == (state.leader != old.leader or bool(left))
            assert state.partition_epoch - old.partition_epoch == (state != old)

    def active(self, broker: int) -> bool:
        registration = self.machine.image.brokers.get(broker)
        return registration is not None and not registration.fenced and not registration.shutting_down

    def active_replicas(self, state: PartitionState) -> list[int]:
        """Those that a reassignment adds come last."""
        ordered = sorted(state.replicas, key=lambda replica: replica in state.adding)
        return [replica for replica in ordered if self.active(replica)]

    def unclean(self, topic: str) -> bool:
        value = self.machine.image.topics[topic].configs.get(UNCLEAN, self.machine.image.cluster_configs.get(UNCLEAN))
        return value == "true"

    def settle(self, before: Partitions, removed: int | None) -> None:
        """Assert that every partition follows plain rules from its old state, with a broker removed, or one that became
        active.
        """
        for key, old in before.items():
            new = self.machine.image.partition(key)
            assert new is not None
            if removed is not None and removed not in old.isr:
                assert new == old
                continue
            if removed is None and old.leader != NO_LEADER:
                assert new == old
                continue
            rest = [member for member in old.isr if member != removed]
            elr = {*old.elr, *([removed] if removed is not None and self.eligible else [])}
            if not rest and not self.eligible:
                rest = list(old.isr)
            self.check_election(key, old, new, rest, elr, set(old.suspects), old.log_ends)

    def check_election(
        self,
        key: TopicPartition,
        old: PartitionState,
        new: PartitionState,
        isr: list[int],
        elr: set[int],
        suspects: set[int],
        log_ends: tuple[LogEnd, ...],
    ) -> None:
        """The state after an election among these, with these reports of logs."""
        reach = {each.broker: (each.last_epoch, each.end_offset) for each in log_ends}
        brokers = self.machine.image.brokers
        current = {each.broker for each in log_ends if brokers[each.broker].epoch == each.broker_epoch}
        compared = not isr and not elr and current == set(old.replicas)
        able = [replica for replica in old.replicas if replica in isr and self.active(replica)]
        next_best = [replica for replica in old.replicas if replica in elr and self.active(replica)]
        others = self.active_replicas(old)
        greatest = [replica for replica in others if compared and reach[replica] == max(reach.values())]
        found = (new.leader, list(new.isr), set(new.elr), set(new.suspects), new.recovering)
        done = not able and new.leader != NO_LEADER and set(old.target) == {new.leader}
        if old.is_moving and done:  # the new leader is all that is to stay
            assert (new.replicas, new.isr, new.elr, new.is_moving) == (old.target, old.target, (), False)
            return
        assert new.replicas == old.replicas
        if new.leader != NO_LEADER:
            assert new.log_ends == ()
        if able:
            leader = old.leader if old.leader in able else able[0]
            assert found == (leader, isr, elr, suspects, old.recovering)
        elif next_best:
            leader = next_best[0]
            assert found == (leader, [leader], {*elr, *isr} - {leader}, suspects, old.recovering)
        elif greatest:
            assert found == (greatest[0], [greatest[0]], set(), set(), False)
        elif self.unclean(key.topic) and others:
            most = max(others, key=lambda replica: reach.get(replica, (-2, 0)))
            assert found == (most, [most], set(), set(), True)
        else:
            assert found == (NO_LEADER, isr, elr, suspects, old.recovering)
            assert new.log_ends == log_ends

    # ---------------------------------------------------------------- brokers

    @initialize(eligible=st.booleans())
    def three_brokers(self, eligible: bool) -> None:
        self.eligible = eligible
        for broker in (1, 2, 3):
            self.register(broker, fresh=True, rack="r" if broker == 3 else None)
            self.unfence(broker, wrong=0)
        self.create_topic("a", 2, 3, 1)

    @rule(broker=BROKERS, fresh=st.booleans(), rack=st.sampled_from([None, "r"]))
    def register(self, broker: int, fresh: bool, rack: str | None) -> None:
        old = self.machine.image.brokers.get(broker)
        before = dict(states(self.machine))
        self.serial += 1
        incarnation = uuid(self.serial) if old is None or fresh else old.incarnation
        result = self.do(c.RegisterBroker(broker, incarnation, "h", 1, rack, eligible=self.eligible))
        assert isinstance(result, c.Registered)
        new = self.machine.image.brokers[broker]
        if old is not None and old.incarnation == incarnation:
            assert (result.epoch, new.epoch, new.fenced, new.shutting_down) == (
                old.epoch,
                old.epoch,
                old.fenced,
                old.shutting_down,
            )
        elif old is not None and not old.fenced:
            assert (result.error, new) == (KafkaErrorCode.DUPLICATE_BROKER_REGISTRATION, old)
        else:
            assert (result.epoch, new.epoch, new.fenced, new.shutting_down) == (self.index, self.index, True, False)
            assert new.epoch not in self.epochs
            self.epochs.add(new.epoch)
            self.settle(before, broker)
            return
        assert dict(states(self.machine)) == before

    @rule(broker=BROKERS, wrong=st.sampled_from([0, 0, 0, 1]))
    def unfence(self, broker: int, wrong: int) -> None:
        old = self.machine.image.brokers.get(broker)
        before = dict(states(self.machine))
        result = self.do(c.UnfenceBroker(broker, (old.epoch if old else 1) + wrong))
        assert isinstance(result, c.Acknowledged)
        if old is None or wrong:
            assert result.error is KafkaErrorCode.STALE_BROKER_EPOCH
        elif old.shutting_down:
            assert result.error is KafkaErrorCode.INVALID_REQUEST
        elif old.fenced:
            assert self.active(broker)
            self.settle(before, None)
            return
        assert self.machine.image.brokers.get(broker) == old
        assert dict(states(self.machine)) == before

    @rule(broker=BROKERS, wrong=st.sampled_from([0, 0, 0, 1]), kind=st.sampled_from([c.FenceBroker, c.BeginShutdown]))
    def depart(self, broker: int, wrong: int, kind: type[c.FenceBroker | c.BeginShutdown]) -> None:
        old = self.machine.image.brokers.get(broker)
        before = dict(states(self.machine))
        result = self.do(kind(broker, (old.epoch if old else 1) + wrong, eligible=self.eligible))
        assert isinstance(result, c.Acknowledged)
        if old is None or wrong:
            assert result.error is KafkaErrorCode.STALE_BROKER_EPOCH
            assert dict(states(self.machine)) == before
            return
        new = self.machine.image.brokers[broker]
        assert new.fenced if kind is c.FenceBroker else new.shutting_down
        assert not self.active(broker)
        if old.active:
            self.settle(before, broker)

    @rule(broker=BROKERS)
    def producer_ids(self, broker: int) -> None:
        registration = self.machine.image.brokers.get(broker)
        if registration is not None:
            result = self.do(c.AllocateProducerIds(broker, registration.epoch))
            assert isinstance(result, c.ProducerIdsAllocated)
            block = set(range(result.first, result.first + result.count))
            assert len(block) == 1000
            assert not block & self.ids
            self.ids |= block

    @precondition(lambda self: self.reader.partitions)
    @rule(
        data=st.data(),
        broker=BROKERS,
        doubtful=st.booleans(),
        last_epoch=st.integers(-1, 2),
        end=st.integers(0, 2),
        late=st.sampled_from([0, 0, 0, 1]),
        wrong=st.sampled_from([0, 0, 0, 1]),
    )
    def report(
        self, data: st.DataObject, broker: int, doubtful: bool, last_epoch: int, end: int, late: int, wrong: int
    ) -> None:
        image = self.machine.image
        waiting = [key for key, state in self.reader.partitions.items() if state.leader == NO_LEADER]
        key = data.draw(st.sampled_from(sorted(waiting or self.reader.partitions)))
        old, registration = self.reader.partitions[key], image.brokers.get(broker)
        seen = old.leader_epoch - late
        doubtful &= self.eligible  # brokers send no reports without
        log = c.LogReport(old.topic_id, key.partition, seen, doubtful, last_epoch, end)
        result = self.do(c.ReportLogs(broker, (registration.epoch if registration else 1) + wrong, (log,)))
        assert isinstance(result, c.Acknowledged)
        new = image.partition(key)
        assert new is not None
        if registration is None or wrong:
            assert result.error is KafkaErrorCode.STALE_BROKER_EPOCH
            assert new == old
            return
        isr, elr, suspects, log_ends = list(old.isr), set(old.elr), set(old.suspects), old.log_ends
        if broker not in old.replicas:
            assert new == old
            return
        if doubtful and broker in (*isr, *elr):
            isr, elr, suspects = [each for each in isr if each != broker], elr - {broker}, suspects | {broker}
        if old.leader == NO_LEADER and not isr and not elr and not late and last_epoch <= seen:
            others = [each for each in log_ends if each.broker != broker]
            added = LogEnd(broker, registration.epoch, last_epoch, end)
            log_ends = tuple(sorted([*others, added], key=lambda each: old.replicas.index(each.broker)))
        self.check_election(key, old, new, isr, elr, suspects, log_ends)

    # ---------------------------------------------------------------- partitions

    @precondition(lambda self: self.reader.partitions)
    @rule(data=st.data())
    def ask_for_an_isr(self, data: st.DataObject) -> None:
        """A leader decides what to ask for; the command may come much later."""
        key = data.draw(st.sampled_from(sorted(self.reader.partitions)))
        state = self.reader.partitions[key]
        members = data.draw(st.lists(st.sampled_from(state.replicas), unique=True))
        if data.draw(st.booleans()) and state.leader not in members:
            members.append(state.leader if state.leader != NO_LEADER else 9)
        known = {broker.id: broker.epoch for broker in self.machine.image.brokers.values()}
        isr = tuple(
            c.ProposedMember(member, data.draw(st.sampled_from([known.get(member, 1)] * 3 + [NO_EPOCH])))
            for member in members
        )
        sender = state.leader if state.leader != NO_LEADER else 1
        recovering = state.recovering and data.draw(st.booleans())
        epochs = (state.leader_epoch, state.partition_epoch)
        keeps = self.eligible and data.draw(st.booleans())
        change = c.IsrChange(state.topic_id, key.partition, *epochs, isr, recovering, keeps)
        self.asked = [*self.asked[-3:], (sender, known.get(sender, 1), change)]

    @precondition(lambda self: self.asked)
    @rule(at=st.integers(0, 3))
    def alter_partition(self, at: int) -> None:
        sender, epoch, change = self.asked[-1 - at % len(self.asked)]
        old = self.machine.image.partition_by_id(change.topic_id, change.partition)
        may = old is not None and old.leader == sender and self.machine.image.brokers[sender].epoch == epoch
        if may and old is not None:
            may = (change.leader_epoch, change.partition_epoch) == (old.leader_epoch, old.partition_epoch)
            may &= sender in {member.broker for member in change.isr}
            may &= not (change.recovering and len(change.isr) > 1)
            for member in change.isr:
                registration = self.machine.image.brokers.get(member.broker)
                known = registration is not None and member.epoch == registration.epoch
                may &= self.active(member.broker) and (known or (member.epoch == NO_EPOCH and member.broker in old.isr))
        result = self.do(c.AlterPartition(sender, epoch, (change,)))
        assert isinstance(result, c.PartitionsAltered)
        new = self.machine.image.partition_by_id(change.topic_id, change.partition)
        if may:
            assert result.partitions[0].error is NONE
            assert new is not None
            assert new.recovering == change.recovering
            assert old is not None
            isr = [member.broker for member in change.isr]
            left = {*old.elr, *old.isr} - set(isr) if change.keeps_eligible else set()
            suspects = set(old.suspects) - set(isr)
            stay = old.target if set(old.target) <= set(isr) else old.replicas
            assert new.replicas == stay
            assert new.is_moving == (old.is_moving and not set(old.target) <= set(isr))
            assert new.isr == tuple(each for each in isr if each in stay)
            assert set(new.elr) == left.intersection(stay)
            assert set(new.suspects) == suspects.intersection(stay)
            assert new.leader == (old.leader if old.leader in stay else stay[0])
            assert result.partitions[0].state == new
        else:
            assert result.error is not NONE or result.partitions[0].error is not NONE
            assert new == old

    @rule(unclean=st.booleans())
    def elect_all(self, unclean: bool) -> None:
        before = dict(states(self.machine))
        result = self.do(c.ElectLeaders(c.ElectionType.UNCLEAN if unclean else c.ElectionType.PREFERRED))
        assert isinstance(result, c.LeadersElected)
        for key, new in states(self.machine):
            old = before[key]
            others = self.active_replicas(old)
            if unclean:
                assert (new == old) == (old.leader != NO_LEADER or not others)
                reach = {each.broker: (each.last_epoch, each.end_offset) for each in old.log_ends}
                most = max(others, key=lambda replica: reach.get(replica, (-2, 0)), default=NO_LEADER)
                assert new == old or (new.leader, new.isr, new.recovering) == (most, (most,), True)
            else:
                preferred = old.replicas[0]
                able = self.active(preferred) and preferred in old.isr
                assert (new.leader, new.isr) == (preferred if able else old.leader, old.isr)

    @precondition(lambda self: self.reader.partitions)
    @rule(data=st.data(), cancels=st.sampled_from([False, False, True]), allows=st.sampled_from([True, True, False]))
    def reassign(self, data: st.DataObject, cancels: bool, allows: bool) -> None:
        """A reassignment begins, replaces one or is cancelled; it drops no copy that only a few have."""
        key = data.draw(st.sampled_from(sorted(self.reader.partitions)))
        old = self.reader.partitions[key]
        target = tuple(data.draw(st.lists(BROKERS, unique=True, min_size=1)))
        wanted = c.Reassignment(key.topic, key.partition, None if cancels else target)
        result = self.do(c.AlterReassignments((wanted,), allows))
        assert isinstance(result, c.ReassignmentsAltered)
        new, error = self.machine.image.partition(key), result.partitions[0].error
        assert new is not None
        gone = set(old.replicas) - set(new.replicas)
        if error is not NONE:
            assert new == old
            return
        assert cancels or allows or len(target) == len(old.original)
        assert not gone.intersection((*old.isr, *old.elr)) or new.isr
        if cancels:
            assert (new.replicas, new.is_moving) == (old.original, False)
        elif new.is_moving:
            assert (new.target, set(new.original)) == (target, set(old.original))
        else:
            assert new.replicas == target
            assert set(target) <= set(new.isr) or not gone

    # ---------------------------------------------------------------- topics

    @rule(name=NAMES, partitions=st.integers(1, 3), factor=st.integers(1, 4), seed=st.integers(0, 2**62))
    def create_topic(self, name: str, partitions: int, factor: int, seed: int) -> None:
        self.serial += 1
        names = {each.replace(".", "_") for each in self.machine.image.topics}
        usable = [broker for broker in self.machine.image.brokers.values() if not broker.shutting_down]
        result = self.do(c.CreateTopics((c.NewTopic(name, uuid(self.serial), partitions, factor),), seed))
        assert isinstance(result, c.TopicsCreated)
        possible = name.replace(".", "_") not in names and len(usable) >= factor and any(b.active for b in usable)
        assert (result.topics[0].error is NONE) == possible

    @precondition(lambda self: self.reader.topics)
    @rule(data=st.data(), total=st.integers(1, 5))
    def add_partitions(self, data: st.DataObject, total: int) -> None:
        name = data.draw(st.sampled_from(sorted(self.reader.topics)))
        present = len(self.machine.image.topics[name].partitions)
        result = self.do(c.CreatePartitions((c.MorePartitions(name, total),)))
        assert isinstance(result, c.PartitionsCreated)
        grown = result.topics[0].error is NONE
        assert len(self.machine.image.topics[name].partitions) == (total if grown else present)
        assert total > present or not grown

    @precondition(lambda self: self.reader.topics)
    @rule(data=st.data())
    def delete_topic(self, data: st.DataObject) -> None:
        name = data.draw(st.sampled_from(sorted(self.reader.topics)))
        self.do(c.DeleteTopics((c.TopicReference(name),)))
        assert name not in self.machine.image.topics

    @precondition(lambda self: self.reader.topics)
    @rule(data=st.data(), value=st.sampled_from(["true", "false", None]), whole=st.booleans())
    def allow_unclean(self, data: st.DataObject, value: str | None, whole: bool) -> None:
        name = "" if whole else data.draw(st.sampled_from(sorted(self.reader.topics)))
        resource = c.ResourceName(c.ResourceKind.BROKER if whole else c.ResourceKind.TOPIC, name)
        before = dict(states(self.machine))
        self.do(c.AlterConfigs((c.ResourceChange(resource, (c.ConfigSetting(UNCLEAN, value),)),)))
        assert self.machine.image.configs_of(resource).get(UNCLEAN) == value
        self.settle({key: state for key, state in before.items() if whole or key.topic == name}, None)

    # ---------------------------------------------------------------- restarts

    @rule()
    def restore_the_twin(self) -> None:
        self.twin.restore(self.machine.snapshot())
        self.twin_reader.follow()

    @invariant()
    def the_twin_is_equal(self) -> None:
        assert self.twin.snapshot() == self.machine.snapshot()

    @invariant()
    def a_reader_of_changes_knows_everything(self) -> None:
        for reader, machine in ((self.reader, self.machine), (self.twin_reader, self.twin)):
            assert reader.partitions == dict(states(machine))
            assert reader.brokers == machine.image.brokers
            assert reader.topics == {name: topic.topic_id for name, topic in machine.image.topics.items()}

    @invariant()
    def the_cluster_is_sound(self) -> None:
        for key, state in states(self.machine):
            assert state.isr or self.eligible
            assert problem_of(state) is None
            assert set(state.isr) <= set(state.replicas)
            assert len(set(state.isr)) == len(state.isr)
            if state.leader != NO_LEADER:
                assert state.leader in state.isr
                assert self.active(state.leader)
                epoch = (state.topic_id, key.partition, state.leader_epoch)
                assert self.leaders.setdefault(epoch, state.leader) == state.leader
            else:
                assert not any(self.active(member) for member in (*state.isr, *state.elr))
            assert len(state.isr) <= 1 or all(self.active(member) for member in state.isr)

    @invariant()
    def what_is_looked_up_is_what_is_there(self) -> None:
        for image in (self.machine.image, self.twin.image):
            everything = [
                (TopicPartition(topic.name, partition), state)
                for topic in image.topics.values()
                for partition, state in enumerate(topic.partitions)
            ]
            for broker in range(1, 5):
                assert image.with_member(broker) == sorted(key for key, state in everything if broker in state.isr)
                assert image.leaderships(broker) == sum(state.leader == broker for _, state in everything)
            for broker, registration in image.brokers.items():
                assert image.log_ends_wanted(broker) == sorted(
                    key
                    for key, state in everything
                    if broker in state.replicas
                    and (state.leader, state.isr, state.elr) == (NO_LEADER, (), ())
                    and (broker, registration.epoch)
                    not in [(each.broker, each.broker_epoch) for each in state.log_ends]
                )
            assert image.leaderless() == sorted(key for key, state in everything if state.leader == NO_LEADER)
            assert image.not_preferred() == sorted(
                key for key, state in everything if state.leader != state.replicas[0]
            )
            assert image.balanceable() == sorted(
                key
                for key, state in everything
                if state.leader != state.replicas[0] in state.isr and image.active(state.replicas[0])
            )


TestControllerMachine = ControllerMachine.TestCase
TestControllerMachine.settings = settings(max_examples=examples(60), stateful_step_count=40, deadline=None)
