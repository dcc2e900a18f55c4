"""The invariants of a simulated Kafka cluster, checked at each answer and change of log, high watermark or metadata.

K1 StrongIsr               the controller's ISR, and each eligible replica, has all below any leader's high watermark
K2 acknowledgement         acks=all: it is on all of the maximal ISR, at least min.insync.replicas, durable if so set
K3 committed               what was below a high watermark does not change; a reader sees nothing else
K4 election                a leader is active in the ISR, eligible or best compared, or unclean is allowed; epochs grow
K5 once                    a producer's sequence is in a log once, without gaps; a log read again has its producers
K6 follower                below a follower's high watermark its log is the truth
K7 metadata                brokers that have applied as much have the same image, and the logs of their replicas alone
K8 offsets                 a group's offset that was acknowledged is not lost, nor replaced by an older one, and
                           compaction removes a record only for one that is durable
K9 registration            a broker epoch belongs to one process, a producer id to one producer
K10 owners                 see `group_truth`
K11 best copy              a leader that was elected by clean rules has every committed record that any copy has, on any
                           disk; a broker that has lost some may not be unfenced as one that could be elected so
K12 commands               what an administrator asks for is carried out once at most, and not after a refusal
K13 moves                  a replica leaves when all that stay are in sync, or with the move that has added it; it
                           deletes its copy then, and not before
K14 transactions           see `transactors`
K15 offsets in them        see `consumed`
K16 zones                  replicas chosen by the controller stand in as many zones as can be
K17 missed leaders         no leader is fenced for its silence that ran all the time with sound links
K18 fetches                no follower waits that has not looked at the newest records
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence

from jepsen_like.simulation.kafka.broker import SimulatedBroker
from jepsen_like.simulation.kafka.decisions import (
    judge_change,
    judge_comparison,
    judge_decision,
    judge_registration,
    judge_report,
)
from jepsen_like.simulation.kafka.logs import LoggedBatch, LogView
from jepsen_like.simulation.kafka.swarm import KafkaKnobs
from jepsen_like.simulation.kafka.truth import PartitionTruth
from kafka_compat.broker.replicas import LocalReplica
from kafka_compat.controller.commands import (
    AlterConfigs,
    AlterPartition,
    Command,
    CreateTopics,
    IsrChange,
    LogReport,
    RegisterBroker,
    ReportLogs,
    UnfenceBroker,
    decode_command,
)
from kafka_compat.controller.image import ClusterImage
from kafka_compat.controller.machine import MetadataMachine
from kafka_compat.model import (
    INTERNAL_TOPICS,
    NO_LEADER,
    OFFSETS_TOPIC,
    BrokerRegistration,
    LogEnd,
    PartitionState,
    TopicPartition,
)
from kafka_compat.partition.effects import Effect, SendAlterPartition
from kafka_compat.partition.events import Event
from kafka_compat.partition.leader import LeaderReplica
from kafka_compat.partition.model import NO_OFFSET, SequenceRange
from kafka_compat.partition.producer_state import BATCHES_KEPT
from kafka_compat.records import KafkaRecord

SEQUENCE_MAX = 2**31 - 1
CLEAN_TOPICS = INTERNAL_TOPICS | {"ledger"}
"""Topics without unclean elections, whatever the clients' topic has."""
Report = Callable[[str, int, str], None]


class KafkaAudits:
    """Looks on. `image` is the cluster as the committed commands make it, whichever broker has applied them."""

    def __init__(self, knobs: KafkaKnobs, brokers: Mapping[int, SimulatedBroker], report: Report) -> None:
        self.machine = MetadataMachine()
        self.image: ClusterImage = self.machine.image
        self.truths: dict[TopicPartition, PartitionTruth] = {}
        self.counts: Counter[str] = Counter()
        self.on_excuse: Callable[[TopicPartition, int], None] = lambda partition, end: None
        self._knobs = knobs
        self._brokers = brokers
        self._report = report
        self._epochs: dict[int, bytes] = {}
        self._command: Command
        """The newest command that is committed."""
        self._asked: Mapping[tuple[bytes, int], IsrChange | LogReport] = {}
        """By topic id and partition, what it asks for."""
        self._requests: set[bytes] = set()
        """The commands by which administrators make topics and change settings: no two requests make the same one."""
        self._values: set[str] = set()
        """The values of settings in these commands."""
        self._refused: set[str] = set()

    def min_isr(self, replica: LocalReplica) -> int:
        """Returns the effective min.insync.replicas, with the replication factor that a replica knows of."""
        least, state = self._knobs.min_isr, replica.decider.state
        least = max(least, 2) if replica.partition.topic in INTERNAL_TOPICS else least
        return least if state is None else min(least, state.factor)

    def _truth(self, replica: LocalReplica) -> PartitionTruth | None:
        """Returns the truth about a replica; None if its topic is deleted, or a loss with an excuse discounts it."""
        truth = self.truths.get(replica.partition)
        is_present = truth is not None and truth.state.topic_id == replica.topic_id
        return truth if truth is not None and is_present and replica.leader_epoch > truth.excused else None

    def log_of(self, node: int, partition: TopicPartition) -> LogView | None:
        """Returns the log on a broker's disk."""
        return self._brokers[node].view(partition)

    # ---------------------------------------------------------------- the controller's word

    def on_committed(self, index: int, content: bytes) -> None:
        """A command is committed."""
        command = self._command = decode_command(content)
        self._asked = {}
        registered = self.image.brokers.get(command.broker) if isinstance(command, RegisterBroker) else None
        try:
            self.machine.apply(index, content)
        except AssertionError as error:
            self._report("K4", 0, f"the controller breaks a rule of its own: {error}")
        if isinstance(command, RegisterBroker):
            self._on_registered(command, registered)
        elif isinstance(command, AlterPartition):
            self._asked = {(each.topic_id, each.partition): each for each in command.changes}
        elif isinstance(command, UnfenceBroker):
            self._on_unfenced(command.broker)
        elif isinstance(command, ReportLogs):
            self.counts["log_reports"] += len(command.partitions)
            self._asked = {(each.topic_id, each.partition): each for each in command.partitions}
        elif isinstance(command, AlterConfigs | CreateTopics):
            self._on_requested(command, content)
        for delta in self.machine.drain_changes():
            for registration in delta.brokers:
                self.counts["fenced_brokers"] += registration.fenced
            for topic in delta.topics_deleted:
                for number in range(len(topic.partitions)):
                    del self.truths[TopicPartition(topic.name, number)]
            for partition, state in delta.partitions.items():
                truth = self.truths.get(partition)
                if truth is None:
                    self.truths[partition] = PartitionTruth(state)
                    self._on_placed(partition, state)
                else:
                    self._judge(partition, truth.state, state)
                    self._on_decided(partition, truth, state)

    def _on_placed(self, partition: TopicPartition, state: PartitionState) -> None:
        """The controller chose the replicas of a new partition: they stand in as many zones as there are to choose from."""
        if self._knobs.zones:
            usable = {each.rack for each in self.image.brokers.values() if each.active}
            used = {self._knobs.rack_of(node) for node in state.replicas}
            if len(used) < min(len(state.replicas), len(usable)):
                who = f"its replicas {state.replicas} stand in {len(used)} of {len(usable)} zones"
                self._report("K16", 0, f"{partition}: {who}")

    def _on_requested(self, command: AlterConfigs | CreateTopics, content: bytes) -> None:
        if content in self._requests:
            self._report("K12", 0, f"{command} is carried out twice")
        self._requests.add(content)
        if isinstance(command, CreateTopics):
            self._values.update(value for topic in command.topics for _, value in topic.configs)
        else:
            self._values.update(each.value or "" for change in command.changes for each in change.settings)

    def refuses(self, value: str) -> None:
        """An administrator learns that a command with this value of a setting was certainly not carried out."""
        self.counts["commands_refused"] += 1
        self._refused.add(value)

    def _on_registered(self, command: RegisterBroker, before: BrokerRegistration | None) -> None:
        registration = self.image.brokers.get(command.broker)
        if registration is None or registration.incarnation != command.incarnation:
            return
        known = self._epochs.setdefault(registration.epoch, registration.incarnation)
        if known != registration.incarnation:
            self._report("K9", command.broker, f"two processes have the broker epoch {registration.epoch}")
        broken = judge_registration(before, registration)
        if broken is not None:
            self._report(broken[0], command.broker, broken[1])

    def _on_unfenced(self, node: int) -> None:
        """A broker may serve: what its disk lost is known by now, and it is no member that counts."""
        if self.image.active(node) and self._is_registered(node) and self._knobs.eligible:
            for partition, truth in self.truths.items():
                if node in truth.tainted.intersection((*truth.state.isr, *truth.state.elr)):
                    lack = truth.lacks(self.log_of(node, partition), truth.end)
                    if lack:
                        self._report("K11", node, f"{partition}: a broker is unfenced that may lead, and has {lack}")

    def _judge(self, partition: TopicPartition, before: PartitionState, state: PartitionState) -> None:
        """Hold a new state of a partition against the command that has led to it."""
        asked, command, broken = self._asked.get((state.topic_id, partition.partition)), self._command, None
        end: LogEnd | None = None
        if isinstance(asked, IsrChange):
            broken = judge_change(self.image, before, asked)
        elif isinstance(asked, LogReport) and isinstance(command, ReportLogs):
            broken = judge_report(self.image, before, state, command, asked)
            end = LogEnd(command.broker, command.epoch, asked.last_epoch, asked.end_offset)
        known = (before.leader, NO_LEADER, *before.isr, *before.elr, *self._joining(partition, state))
        compared = state.leader not in known and not state.recovering
        if broken is None and compared:
            broken = judge_comparison(self.image, before, state.leader, end)
        if broken is not None:
            self._report(broken[0], 0, f"{partition}: {broken[1]}")

    def _joining(self, partition: TopicPartition, state: PartitionState) -> tuple[int, ...]:
        """Returns the ISR that a leader asks for: where that completes a move, one who joins by it may lead at once."""
        asked = self._asked.get((state.topic_id, partition.partition))
        return tuple([member.broker for member in asked.isr]) if isinstance(asked, IsrChange) else ()

    def _on_decided(self, partition: TopicPartition, truth: PartitionTruth, state: PartitionState) -> None:
        before, truth.state = truth.state, state
        self.counts["isr_expansions"] += len(state.isr) > len(before.isr)
        self.counts["isr_shrinks"] += len(state.isr) < len(before.isr)
        self._check_state(partition, before, state)
        self._check_move(partition, before, state)
        self.counts["suspects"] += len(set(state.suspects).difference(before.suspects))
        self.counts["eligible_replicas"] += len(set(state.elr).difference(before.elr))
        self.counts["gone_on_alone"] += bool(before.elr) and not state.elr and state.leader == before.leader
        if state.leader not in (before.leader, NO_LEADER):
            self._on_elected(partition, truth, before, state)
        if state.leader != before.leader and state.leader != NO_LEADER and self._is_registered(state.leader):
            truth.tainted.discard(state.leader)  # what it has is what counts now
        truth.tainted -= {each for each in state.isr if each not in before.isr and self._is_registered(each)}
        self._check_members(partition, truth)

    def _on_elected(
        self, partition: TopicPartition, truth: PartitionTruth, before: PartitionState, state: PartitionState
    ) -> None:
        if state.leader in (*before.isr, *self._joining(partition, state)):
            self.counts["elections"] += 1
        elif state.leader in before.elr:
            self.counts["eligible_elections"] += 1
        elif not state.recovering:
            self.counts["compared_elections"] += 1
            if before.isr or set(before.elr) - {state.leader} or before.leader != NO_LEADER:
                self._report("K4", state.leader, f"{partition}: it leads by comparison where others may be whole")
            if truth.unclean:
                self._excuse(partition, truth, state.leader_epoch - 1)
        else:
            self.counts["unclean_elections"] += 1
            truth.unclean = True
            if not self._knobs.unclean or partition.topic in CLEAN_TOPICS:
                self._report("K4", state.leader, f"{partition}: it leads, and is not in the ISR {before.isr}")
            self._excuse(partition, truth, state.leader_epoch - 1)

    def _is_registered(self, node: int) -> bool:
        """Returns True if the process that the controller knows still lives: another one's promises went with it."""
        broker, registration = self._brokers[node], self.image.brokers.get(node)
        return broker.up and registration is not None and registration.incarnation == broker.incarnation

    def on_stepped(
        self, broker: SimulatedBroker, replica: LocalReplica, event: Event, effects: Sequence[Effect]
    ) -> None:
        """A decider has decided; nothing is carried out yet."""
        broken = judge_decision(replica, event, effects, self.min_isr(replica))
        if broken is not None:
            self._report(broken[0], broker.node, f"{replica.partition}: {broken[1]}")

    def on_proposed(self, broker: SimulatedBroker, replica: LocalReplica, order: SendAlterPartition) -> None:
        """A leader wants another ISR: who is to join has fetched in this epoch, of late, and has what is committed."""
        role = replica.decider.role
        assert isinstance(role, LeaderReplica), "only a leader proposes"
        for member, _ in order.isr:
            follower = role.followers.get(member)
            if follower is None or member in role.isr.committed:
                continue
            silent_s = broker.reading() - follower.fetched_at
            behind = (
                follower.log_end < max(replica.decider.high_watermark, role.epoch_start)
                or follower.log_start < replica.decider.log.log_start
            )
            if behind or (silent_s > self._knobs.lag_s and follower.log_end != replica.decider.log_end):
                what = f"to join with {follower.log_start} to {follower.log_end}, after {silent_s:.3f} s"
                self._report("K1", broker.node, f"{replica.partition}: broker {member} is {what} of silence")

    def _check_state(self, partition: TopicPartition, before: PartitionState, state: PartitionState) -> None:
        leader = state.leader
        problem = ""
        if state.partition_epoch <= before.partition_epoch or state.leader_epoch < before.leader_epoch:
            problem = "epochs do not grow"
        elif leader != before.leader and state.leader_epoch == before.leader_epoch:
            problem = "another leader in the same epoch"
        elif not set(state.isr) <= set(state.replicas) or not (state.isr or self._knobs.eligible):
            problem = f"the ISR {state.isr} is not a part of the replicas"
        elif leader != NO_LEADER and leader not in state.isr:
            problem = f"broker {leader} leads, and is not in the ISR {state.isr}"
        elif leader != before.leader and leader != NO_LEADER and not self.image.active(leader):
            problem = f"broker {leader} is elected, and not active"
        else:
            joined = [each for each in state.isr if each not in before.isr and not self.image.active(each)]
            if joined:
                problem = f"{joined} join the ISR, and are not active"
        if problem:
            self._report("K4", max(leader, 0), f"{partition}: {problem}")

    def _check_move(self, partition: TopicPartition, before: PartitionState, state: PartitionState) -> None:
        """A partition has other replicas, or is to have them."""
        gone, added = set(before.replicas) - set(state.replicas), set(state.replicas) - set(before.replicas)
        ended = before.is_moving and not state.is_moving
        self.counts["replicas_added"] += len(added)
        self.counts["replicas_removed"] += len(gone)
        self.counts["moves_completed"] += ended and set(state.replicas) == set(before.target)
        self.counts["moves_cancelled"] += ended and set(state.replicas) == set(before.original)
        self.counts["leaders_removed"] += before.leader in gone
        problem = ""
        if gone - set(before.adding) and not set(state.replicas) <= set(state.isr):
            problem = f"{sorted(gone)} leave, and of {state.replicas} only {state.isr} are in sync"
        elif gone and state.leader_epoch == before.leader_epoch:
            problem = f"{sorted(gone)} leave in the epoch {state.leader_epoch} in which they have fetched"
        if problem:
            self._report("K13", 0, f"{partition}: {problem}")
        truth = self.truths[partition]
        truth.left.update(dict.fromkeys(gone, state.leader_epoch))
        if gone and truth.tainted.issuperset((*state.isr, *state.elr)):
            self._forget_lost(partition, truth)  # those that stay have lost a part, and no one knows it yet

    def _excuse(self, partition: TopicPartition, truth: PartitionTruth, excused: int) -> None:
        members = truth.state.isr
        end = truth.rebase([self.log_of(member, partition) for member in members], excused)
        self.on_excuse(partition, end)

    def _check_members(self, partition: TopicPartition, truth: PartitionTruth) -> None:
        for member in (*truth.state.isr, *truth.state.elr):
            if member not in truth.tainted:
                lack = truth.lacks(self.log_of(member, partition), truth.end)
                if lack:
                    who = "a member of the ISR" if member in truth.state.isr else "an eligible replica"
                    self._report("K1", member, f"{partition}: {who} has {lack}")

    def on_lost(self, node: int, partition: TopicPartition) -> None:
        """A broker's disk lost a part of a log."""
        truth = self.truths.get(partition)
        if truth is None:
            return
        truth.tainted.add(node)
        self._forget_lost(partition, truth)

    def on_tail_lost(self, node: int, partition: TopicPartition) -> None:
        """Power took what a broker had not flushed: no promise of its, but the last copy if all members lost their disks."""
        truth = self.truths.get(partition)
        if truth is None or node in (members := (*truth.state.isr, *truth.state.elr)):
            return
        if truth.tainted.issuperset(members):
            self._forget_lost(partition, truth)

    def _forget_lost(self, partition: TopicPartition, truth: PartitionTruth) -> None:
        """Stop expecting what no replica has."""
        copies = [self.log_of(each, partition) for each in truth.state.replicas]
        end = truth.lose_what_no_one_has(copies, truth.state.leader_epoch)
        if end is not None:
            self.counts["last_copies_lost"] += 1
            self.on_excuse(partition, end)

    # ---------------------------------------------------------------- what replicas do

    def on_appended(self, broker: SimulatedBroker, replica: LocalReplica) -> None:
        """A leader's batch is in its log."""
        self.counts["appends"] += 1
        log = _view(broker, replica)
        info = log.batches[-1].info
        if info.base_sequence < 0:
            return
        for other in reversed(log.batches[:-1]):
            if other.info.producer_id != info.producer_id or other.info.producer_epoch != info.producer_epoch:
                continue
            if other.info.base_sequence < 0:  # a marker
                continue
            expected = (other.info.base_sequence + other.info.offset_count) & SEQUENCE_MAX
            if info.base_sequence != expected:
                what = f"sequence {info.base_sequence} of producer {info.producer_id} where {expected} was due"
                self._report("K5", broker.node, f"{replica.partition}: {what}")
            return

    def on_hosted(self, broker: SimulatedBroker, replica: LocalReplica) -> None:
        """A replica begins with what its disk has: what it takes for committed is so."""
        truth = self._truth(replica)
        if (
            truth is not None
            and truth.excused < 0
            and replica.high_watermark > max(truth.end, replica.log.start_offset)
        ):
            what = f"begins with the high watermark {replica.high_watermark}, and {truth.end} is committed"
            self._report("K6", broker.node, f"{replica.partition}: it {what}")
        self.on_restored(broker, replica)

    def on_restored(self, broker: SimulatedBroker, replica: LocalReplica) -> None:
        """A replica has read its log: it knows the last batches of each producer there, and no other ones."""
        log = _view(broker, replica)
        if log.end != replica.decider.log_end:
            return
        wanted: dict[int, tuple[int, tuple[SequenceRange, ...]]] = {}
        for info in (batch.info for batch in log.batches if batch.info.producer_id >= 0):
            epoch, ranges = wanted.get(info.producer_id, (-1, ()))
            if info.base_sequence < 0:  # a marker: it may raise the epoch
                wanted[info.producer_id] = info.producer_epoch, ranges if epoch == info.producer_epoch else ()
                continue
            last = (info.base_sequence + info.offset_count - 1) & SEQUENCE_MAX
            new = SequenceRange(info.base_sequence, last, info.base_offset, info.end_offset)
            kept = (*(ranges if epoch == info.producer_epoch else ()), new)[-BATCHES_KEPT:]
            wanted[info.producer_id] = info.producer_epoch, kept
        for known in replica.decider.producer_snapshot(broker.reading()):
            epoch, ranges = wanted.pop(known.producer_id, (known.epoch, ()))
            if (epoch, ranges) != (known.epoch, tuple(each for each in known.batches if each.end_offset > log.start)):
                what = f"knows {known}, and its log has {ranges} of epoch {epoch}"
                self._report("K5", broker.node, f"{replica.partition}: it {what}")
        if wanted:
            self._report("K5", broker.node, f"{replica.partition}: it does not know the producers {sorted(wanted)}")

    def on_flushed(self, broker: SimulatedBroker, replica: LocalReplica, end: int) -> None:
        """A replica learns that its log is durable up to `end`."""
        covered = _view(broker, replica).read(0, end)
        if covered and not broker.has_durably(replica.partition, covered[-1]):
            what = f"the batch at {covered[-1].info.base_offset} is not durable, and counts as flushed up to {end}"
            self._report("K2", broker.node, f"{replica.partition}: {what}")

    def on_shortened(self, broker: SimulatedBroker, replica: LocalReplica) -> None:
        """A log was truncated, reset or trimmed."""
        _view(broker, replica)
        truth = self.truths.get(replica.partition)
        if (
            truth is not None
            and broker.node in (*truth.state.isr, *truth.state.elr)
            and broker.node not in truth.tainted
        ):
            self._check_members(replica.partition, truth)

    def on_risked(self, node: int, partition: TopicPartition, removed: Sequence[KafkaRecord]) -> None:
        """Compaction has removed records for others that a loss of power could take."""
        offsets = [record.offset for record in removed]
        self._report("K8", node, f"{partition}: the records at {offsets} left for ones that are not durable")

    def leads(self, broker: SimulatedBroker, replica: LocalReplica) -> None:
        """A replica begins to lead."""
        truth = self._truth(replica)
        if truth is None or replica.leader_epoch != truth.state.leader_epoch:
            return
        lack = truth.lacks(_view(broker, replica), truth.end)
        if lack:
            self._report("K11", broker.node, f"{replica.partition}: it leads, and has {lack}, which another copy has")

    def may_trim(self, broker: SimulatedBroker, replica: LocalReplica, offset: int) -> None:
        """Retention or a client lets a replica forget what is below `offset` and its high watermark."""
        truth = self.truths.get(replica.partition)
        if truth is None:
            return
        if replica.partition.topic in INTERNAL_TOPICS:
            self._report("K8", broker.node, f"{replica.partition}: a compacted log loses what is below {offset}")
        high_watermark = replica.decider.high_watermark
        end = high_watermark if offset == NO_OFFSET else min(offset, high_watermark)
        truth.forget(_view(broker, replica), end)

    def high_watermark_moved(self, broker: SimulatedBroker, replica: LocalReplica, high_watermark: int) -> None:
        """A replica has another high watermark."""
        truth = self._truth(replica)
        if truth is None or broker.node in truth.tainted:
            return
        log = _view(broker, replica)
        if not replica.leads:
            lack = truth.lacks(log, min(high_watermark, truth.end))
            if lack and high_watermark > log.start:
                self._report("K6", broker.node, f"{replica.partition}: below its high watermark it has {lack}")
            return
        lack = truth.lacks(log, min(high_watermark, truth.end))
        if lack:
            self._report("K3", broker.node, f"{replica.partition}: a leader has {lack}")
        truth.commit(log, high_watermark)
        self._check_members(replica.partition, truth)

    def answers_produce(self, broker: SimulatedBroker, replica: LocalReplica, base_offset: int, value: str) -> None:
        """A batch is acknowledged with acks=all."""
        truth, partition = self._truth(replica), replica.partition
        self.counts["acknowledgements"] += 1
        role = replica.decider.role
        assert isinstance(role, LeaderReplica), "only a leader acknowledges"
        leaders = _view(broker, replica)
        held = leaders.at(base_offset)
        if held is None and base_offset >= leaders.start:
            self._report("K2", broker.node, f"{partition}: {value} is acknowledged at {base_offset}, where nothing is")
        elif held is not None and held.value != value:
            what = f"{value} is acknowledged at {base_offset}, where {held.value} is"
            self._report("K2", broker.node, f"{partition}: {what}")
        if truth is None or held is None or broker.node in truth.tainted:
            return
        if len(role.isr.maximal) < self.min_isr(replica):
            self._report("K2", broker.node, f"{partition}: acknowledged by {sorted(role.isr.maximal)} alone")
        # A replica that has left deletes its copy, perhaps before its leader knows.
        left = {each for each, epoch in truth.left.items() if epoch > role.epoch}
        for member in role.isr.maximal - truth.tainted - left:
            log = self.log_of(member, partition)
            if log is None or not (log.holds(held) or truth.may_lack(held)):
                self._report("K2", member, f"{partition}: {value} at {base_offset} is acknowledged and not there")
            elif self._knobs.before_ack and log.holds(held) and not self._brokers[member].has_durably(partition, held):
                self._report("K2", member, f"{partition}: {value} at {base_offset} is acknowledged and not durable")
        truth.acknowledged[base_offset] = held

    def reads(self, broker: SimulatedBroker, replica: LocalReplica, batches: Sequence[LoggedBatch]) -> None:
        """A consumer reads these batches."""
        truth = self._truth(replica)
        self.counts["reads"] += bool(batches)
        if truth is None or broker.node in truth.tainted:
            return
        if truth.excused >= 0 and not replica.leads:
            return  # a follower may show what was committed before a loss with an excuse, until its leader corrects it
        for batch in batches:
            at = truth.place(batch.info.base_offset)
            if truth.committed[at : at + 1] != [batch]:
                what = f"{batch.value} at {batch.info.base_offset} is read, and not committed"
                self._report("K3", broker.node, f"{replica.partition}: {what}")

    def lists(self, broker: SimulatedBroker, replica: LocalReplica, time_ms: int, offset: int) -> None:
        """A consumer learns that `offset` is the first at or after a time; NO_OFFSET if there is none."""
        self.counts["offsets_listed"] += offset != NO_OFFSET
        log, end = _view(broker, replica), replica.decider.high_watermark
        late = (batch.info.base_offset for batch in log.batches if batch.newest_ms >= time_ms)
        due = max(next(late, end), log.start)
        if offset != (due if due < end else NO_OFFSET):
            what = f"{offset} is listed for {time_ms}, where {due} was due, below {end}"
            self._report("K3", broker.node, f"{replica.partition}: {what}")

    def coordinates(self, broker: SimulatedBroker) -> None:
        """A coordinator serves: the log from which it has loaded its groups cannot be lost any more."""
        partition = TopicPartition(OFFSETS_TOPIC, 0)
        replica = broker.parts.replicas.hosted[partition]
        role, high_watermark = replica.decider.role, replica.decider.high_watermark
        if isinstance(role, LeaderReplica) and high_watermark < role.epoch_start:
            what = f"it serves groups up to {role.epoch_start}, and {high_watermark} is committed"
            self._report("K8", broker.node, f"{partition}: {what}")

    # ---------------------------------------------------------------- the end

    def judge(self) -> None:
        """All logs are alike, and have what was acknowledged."""
        for partition, truth in self.truths.items():
            leader = self.log_of(truth.state.leader, partition)
            assert leader is not None, "a healed cluster has leaders"
            for batch in truth.acknowledged.values():
                if not (leader.holds(batch) or truth.may_lack(batch)):
                    self._report("K2", truth.state.leader, f"{partition}: {batch.value} was acknowledged and is lost")
            for node in truth.state.replicas:
                log = self.log_of(node, partition)
                if log is None or not log.is_like(leader, truth.may_lack):
                    self._report("K3", node, f"{partition}: its log is not the leader's")
                else:
                    self.counts["compacted_logs"] += log.is_compacted
        assigned = {node: set[TopicPartition]() for node in self._brokers}
        for partition, truth in self.truths.items():
            for node in truth.state.replicas:
                assigned[node].add(partition)
        for node, partitions in assigned.items():
            store = self._brokers[node].store
            if store.logs.keys() != partitions and not store.keeps_strays:
                self._report("K7", node, f"it has the logs {sorted(store.logs)}, and not {sorted(partitions)}")
        for value in sorted(self._refused & self._values):
            self._report("K12", 0, f"a command that sets {value} was refused for certain, and is carried out")
        snapshots = {broker.node: broker.machine.snapshot() for broker in self._brokers.values()}
        for node, snapshot in snapshots.items():
            if self._brokers[node].machine.image.index == self.image.index and snapshot != self.machine.snapshot():
                self._report("K7", node, "its image of the cluster is another one")


def _view(broker: SimulatedBroker, replica: LocalReplica) -> LogView:
    view = broker.view(replica.partition)
    assert view is not None, "a replica has a log"
    return view


def describe(host: SimulatedBroker) -> str:
    """Returns the columns of a broker in a trace."""
    leads = [str(each.partition) for each in host.parts.replicas.hosted.values() if each.leads]
    state = "down" if not host.up else "paused" if host.paused else "up"
    return f"{state:<7} {host.broker_epoch:>5} {host.machine.image.index:>5} {','.join(leads):<16}"
