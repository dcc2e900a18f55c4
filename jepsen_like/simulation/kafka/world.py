"""A Kafka cluster with its clients in virtual time.

While the nemesis strikes, clients work; once all faults have ended, every broker comes back, every replica must be in
sync again, and a produce request to every partition and a commit of an offset must succeed.
"""

import random
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence

import attrs

from jepsen_like.simulation.kafka.administrator import SimulatedAdministrator
from jepsen_like.simulation.kafka.audits import KafkaAudits, describe
from jepsen_like.simulation.kafka.broker import CRASHES, DIRECTORY, SEGMENT_BYTES, SimulatedBroker, build_settings
from jepsen_like.simulation.kafka.clients import TOPIC, KafkaClient, SentBatch, SentOutcome
from jepsen_like.simulation.kafka.consumers import SimulatedConsumer
from jepsen_like.simulation.kafka.disk import DiskFaults
from jepsen_like.simulation.kafka.group_truth import GroupTruth
from jepsen_like.simulation.kafka.logs import Batches, LoggedBatch
from jepsen_like.simulation.kafka.members import GROUP, SimulatedMember
from jepsen_like.simulation.kafka.nemesis import KafkaNemesis
from jepsen_like.simulation.kafka.quorum import BrokerMessage, ControlQuorum
from jepsen_like.simulation.kafka.swarm import KafkaKnobs
from jepsen_like.simulation.kafka.transactors import TransactionLedger
from jepsen_like.simulation.kafka.wire import GROUPS
from jepsen_like.simulation.kernel.disks import PowerFailed
from jepsen_like.simulation.kernel.findings import CRASH
from jepsen_like.simulation.kernel.network import Link, SimulatedNetwork
from jepsen_like.simulation.kernel.streams import stream
from jepsen_like.simulation.kernel.swarm import FaultKind
from jepsen_like.simulation.kernel.tracing import TraceEvent
from jepsen_like.simulation.kernel.world import SimulatedWorld
from kafka_compat.broker.replicas import LocalReplica
from kafka_compat.controller.commands import (
    Command,
    CreateTopics,
    NewTopic,
    RegisterBroker,
    UnfenceBroker,
    encode_command,
)
from kafka_compat.controller.reasons import missed_leader
from kafka_compat.model import NO_LEADER, OFFSETS_TOPIC, TopicPartition
from kafka_compat.partition.effects import Effect, ResetLog, SendAlterPartition, TruncateLog
from kafka_compat.partition.events import Event, TimePassed

ADDRESS = re.compile(r" at 0x[0-9a-f]+")
"""Of a view of bytes in memory, which is another one in every process."""
PROBE_CLIENT = 90
PROBE_EVERY_S = 1.0
UNCLEAN = "unclean.leader.election.enable"
OLDER_DISK, WHOLE_DISK = 0.7, 0.3
"""The probability that what vanishes is all since a backup, if there is one, or else the whole disk."""
SOON_S = (0.03, 0.3)
"""A relapse comes so soon after a start."""


@attrs.define
class _Starts:
    """The fates of brokers before their next starts, by node."""

    spoils: dict[int, FaultKind] = attrs.field(factory=dict)
    away_s: dict[int, float] = attrs.field(factory=dict)


class KafkaWorld(SimulatedWorld[KafkaKnobs]):
    """A cluster and everything around it."""

    def build(self) -> None:
        """See `SimulatedWorld`."""
        knobs = self.knobs
        nodes = list(range(1, knobs.nodes + 1))
        self.batches = Batches()
        self._connections = 0
        self.network: SimulatedNetwork[int, BrokerMessage] = SimulatedNetwork(knobs, nodes, self.post)
        brokers: dict[int, SimulatedBroker] = {}
        self.brokers: Mapping[int, SimulatedBroker] = brokers
        self.quorum = ControlQuorum(self, knobs, brokers)
        racks = {node: knobs.rack_of(node) for node in nodes}
        settings = {rack: build_settings(knobs, rack) for rack in racks.values()}
        brokers.update({node: SimulatedBroker(self, knobs, settings[racks[node]], node, self.quorum) for node in nodes})
        self.audits = KafkaAudits(knobs, self.brokers, self.report)
        self.audits.on_excuse = self._on_excused
        self.nemesis = KafkaNemesis(self, knobs)
        self.clients = [KafkaClient(self, knobs, number) for number in range(1, knobs.clients + 1)]
        self.probe = KafkaClient(self, knobs, PROBE_CLIENT)
        self.probe.idempotent, self.probe.acks = False, -1
        self._starts = _Starts()
        self._probes: dict[TopicPartition, SentBatch] = {}
        self.group = GroupTruth(lambda sentence: self.report("K10", 0, f"{GROUP} {sentence}"))
        self.ledger = TransactionLedger(self, knobs)
        kind = SimulatedConsumer if knobs.consumer_protocol else SimulatedMember
        self.members = [kind(self, knobs, number, self.group) for number in range(1, knobs.members + 1)]

    def begin(self) -> None:
        """See `SimulatedWorld`."""
        knobs = self.knobs
        clocks = stream(knobs.seed, "clocks")
        for broker in self.brokers.values():
            broker.clock.rate = 1.0 + clocks.uniform(-knobs.drift, knobs.drift)
            broker.start(snapshot=False)
        self.quorum.begin([encode_command(command) for command in self._first_commands()])
        for broker in self.brokers.values():
            broker.learn(self.quorum.term, 1, len(self.quorum.log))
        for number, client in enumerate(self.clients):
            self.schedule(knobs.think_s * client.rng.random(), client.wake)
            if number < knobs.readers:
                self.schedule(knobs.think_s * client.rng.random(), client.read)
            if number < knobs.members:
                self.schedule(knobs.think_s * client.rng.random(), client.commit_or_fetch)
        for number, member in enumerate(self.members):
            self.schedule(0.1 * number, member.wake)
        self.ledger.begin(self.schedule)
        if knobs.alters:
            administrator = SimulatedAdministrator(self, knobs)
            self.schedule(1.0 / knobs.alters, administrator.wake)
            self.schedule(0.5 / knobs.alters, administrator.move)
        if knobs.trims:
            self.schedule(1.0 / knobs.trims, self._trim)
        for fault in knobs.faults:
            self.schedule(fault.at_s, self.nemesis.strike, fault)

    def _first_commands(self) -> Iterator[Command]:
        knobs = self.knobs
        for node, broker in self.brokers.items():
            yield RegisterBroker(node, broker.incarnation, f"b{node}", 9092, knobs.rack_of(node))
        for node in self.brokers:
            yield UnfenceBroker(node, node)  # the epoch of a registration is its index
        factor = min(knobs.replication_factor, knobs.nodes)
        configs = ((UNCLEAN, "true" if knobs.unclean else "false"),)
        offsets_configs = (
            ("min.insync.replicas", str(max(knobs.min_isr, 2))),
            ("cleanup.policy", "compact"),
            ("segment.bytes", str(SEGMENT_BYTES)),
        )
        yield CreateTopics(
            (
                NewTopic(TOPIC, bytes([1] * 16), knobs.partitions, factor, configs=configs),
                NewTopic(OFFSETS_TOPIC, bytes([2] * 16), 1, factor, configs=offsets_configs),
                *self.ledger.topics(factor, offsets_configs),
            ),
            seed=knobs.seed % 1000,
        )

    # ---------------------------------------------------------------- the wire

    def send(self, sender: int, to: int, message: BrokerMessage) -> None:
        """Put a message on the wire."""
        self.network.transmit(self.now, (sender, to), message)
        if self.nemesis.trap_send == sender and not self.healed:
            self.nemesis.trap_send = None
            self.schedule(self.now, self._sprung, self.brokers[sender])

    def deliver(self, sender: int, to: int, message: BrokerMessage) -> None:
        """See `SimulatedWorld`."""
        self.brokers[to].receive(sender, message)

    def count_received(self, node: int, connection: int) -> int:
        """Returns how many segments of a connection the operating system of a node has received."""
        broker = self.brokers[node]
        socket = broker.tcp.open.get(connection) if broker.up else None
        return 0 if socket is None else socket.due

    def new_connection(self) -> int:
        """Returns a number that no connection has had."""
        self._connections += 1
        return self._connections

    def on_told(self, broker: SimulatedBroker, event: str, fields: Mapping[str, object]) -> None:
        """A broker reports an event."""
        self.counts[f"told_{event}"] += 1
        if event == "proposes" and (missed := missed_leader(str(fields["reason"]))) is not None:
            self.counts["leaders_missed"] += 1
            if self._is_sound(self.brokers[missed]):
                self.report("K17", missed, "a leader is fenced as silent that ran all the time, with sound links")
        if self.observer is not None:
            self.note(" ".join([event, *(f"{name}={value}" for name, value in fields.items())]), broker.node)

    def _is_sound(self, broker: SimulatedBroker) -> bool:
        """Returns True if the registered process of a broker runs, and all got what it sent since it could be missed."""
        cut = any(state.cuts for link, state in self.network.links.items() if broker.node in link)
        if not broker.up or broker.paused or cut or self.network.loss:
            return False
        if broker.broker_epoch != self.audits.image.brokers[broker.node].epoch:
            return False  # the process that is missed has ended, and this one is yet to register
        return self.now - broker.sound_since > self.knobs.session_s

    def on_replaced(self, broker: SimulatedBroker) -> None:
        """Another process is registered in its place: it stops, and is started again."""
        self.counts["processes_replaced"] += 1
        self.kill(broker, 0.2)

    def on_crashed(self, broker: SimulatedBroker, error: Exception) -> None:
        """A broker died of its own assertions, or of a bug."""
        self.report(CRASH, broker.node, f"{type(error).__name__}: {error}")
        self.kill(broker, 1.0)

    def reset(self, link: Link[int]) -> None:
        """Break the connections of one direction."""
        self.network.reset(link)
        sender, to = link
        if self.brokers[sender].up:
            self.brokers[sender].tcp.reset(to)

    def _sprung(self, broker: SimulatedBroker) -> None:
        if broker.up and not self.healed:
            self.nemesis.sprung(broker)

    # ---------------------------------------------------------------- life and death

    def kill(self, broker: SimulatedBroker, back_after_s: float) -> None:
        """Kill a process; start it again after a while."""
        if not broker.up:
            return
        self.counts["kills"] += 1
        self.note("killed", broker.node)
        broker.kill()
        self.schedule(self.now + back_after_s, self._start, broker)

    def cut_power(self, broker: SimulatedBroker, back_after_s: float, *, wipes: bool) -> None:
        """Cut a machine's power, which may cost the disk; start its broker again after a while."""
        was_up = broker.up
        self.counts["power_cuts" if was_up else "power_cuts_while_down"] += 1
        self.note("power is cut, and the disk is gone" if wipes else "power is cut", broker.node)
        lost = broker.cut_power(stream(self.knobs.seed, f"cut/{broker.process}/{was_up}"))
        if wipes:
            self.counts["wipes"] += 1
            lost += broker.wipe()
        elif self.knobs.before_ack:
            for partition in lost:
                self.audits.on_tail_lost(broker.node, partition)
            lost = []
        self._on_lost(broker, lost)
        if was_up:
            self.schedule(self.now + back_after_s, self._start, broker)

    def spoil(self, broker: SimulatedBroker, fault: FaultKind) -> None:
        """Damage a disk, let parts of it vanish, or cut the power once more, before the next start."""
        self._starts.spoils[broker.node] = fault

    def _spoil(self, broker: SimulatedBroker, fault: FaultKind) -> None:
        """Damage or wipe the disk of a broker that is down, or cut its power."""
        if fault is FaultKind.POWER_CUT:
            self.cut_power(broker, 0.0, wipes=False)
            return
        rng = stream(self.knobs.seed, f"spoil/{broker.node}/{broker.lives}")
        faults = DiskFaults(broker.disk, DIRECTORY, broker.views, rng)
        if fault is FaultKind.VANISH and broker.has_backup and rng.random() < OLDER_DISK:
            self.counts["older_disks"] += 1
            struck, lost = "everything since a backup", broker.go_back()
        elif fault is FaultKind.VANISH and rng.random() < WHOLE_DISK:
            struck, lost = "the whole disk", broker.wipe()
        else:
            struck = faults.damage() if fault is FaultKind.DAMAGE else faults.vanish()
            lost = broker.look_again()
        self.counts["damages" if fault is FaultKind.DAMAGE else "vanishes"] += bool(struck)
        self.note(f"{fault.value} strikes {struck or 'nothing'}", broker.node)
        self._on_lost(broker, lost)

    def _on_lost(self, broker: SimulatedBroker, partitions: Iterable[TopicPartition]) -> None:
        for partition in dict.fromkeys(partitions):
            self.counts["logs_lost_in_part"] += 1
            self.audits.on_lost(broker.node, partition)

    def on_stopped(self, broker: SimulatedBroker) -> None:
        """A broker has shut down in good order; it is to start again."""
        self.counts["shutdowns"] += 1
        self.note("has shut down", broker.node)
        self.schedule(self.now + self._starts.away_s.pop(broker.node, 0.3), self._start, broker)

    def shut_down(self, broker: SimulatedBroker, back_after_s: float) -> None:
        """Ask a process to end, and kill it if it does not; start it again after a while."""
        self.note("asked to shut down", broker.node)
        self._starts.away_s[broker.node] = back_after_s
        broker.take(broker.shut_down)
        self.schedule(self.now + 1.0, self._end_of_patience, broker, broker.process, back_after_s)

    def _end_of_patience(self, broker: SimulatedBroker, process: int, back_after_s: float) -> None:
        if broker.up and broker.process == process:
            self.kill(broker, back_after_s)

    def _start(self, broker: SimulatedBroker) -> None:
        if broker.up:
            return
        fault = self._starts.spoils.pop(broker.node, None)
        if fault is not None:
            self._spoil(broker, fault)
        self.counts["restarts"] += 1
        rng = stream(self.knobs.seed, f"start/{broker.node}/{self.counts['restarts']}")
        self.note("starts", broker.node)
        chance = 0.0 if self.healed else self.knobs.relapses * (1 if fault is None else 2)
        relapses = rng.random() < chance
        opens = (
            rng.randrange(broker.count_opening_calls())
            if relapses and rng.random() < (0.3 if fault is None else 0.6)
            else None
        )
        try:
            broker.start(rng.random() < self.knobs.snapshots, calls_max=opens)
        except PowerFailed:
            self.counts["starts_broken_off"] += 1
            self._end_at_once(broker, rng)
            self.schedule(self.now + rng.random() * SOON_S[1], self._start, broker)
        except CRASHES as error:
            self.report(CRASH, broker.node, f"at its start: {type(error).__name__}: {error}")
        else:
            if relapses:
                soon_s = rng.random() * rng.choice(SOON_S)
                self.schedule(self.now + soon_s, self._relapse, broker, broker.process, rng)

    def _end_at_once(self, broker: SimulatedBroker, rng: random.Random) -> None:
        if rng.random() < 0.5:
            self.cut_power(broker, SOON_S[1], wipes=False)
        elif broker.up:
            self.kill(broker, SOON_S[1])
        else:
            broker.kill()

    def _relapse(self, broker: SimulatedBroker, process: int, rng: random.Random) -> None:
        if broker.lives_as(process) and not self.healed:
            self.counts["relapses"] += 1
            if rng.random() < 0.4:
                self.quorum.elect(avoid=self.quorum.leader)
            else:
                self._end_at_once(broker, rng)

    def _on_excused(self, partition: TopicPartition, end: int) -> None:
        self.ledger.excuse(partition)
        if partition.topic == OFFSETS_TOPIC:
            for client in (*self.clients, self.probe):
                client.era += 1
                client.acknowledged = -1
            self.group.excuse()

    def _trim(self) -> None:
        """Retention of one replica, or DeleteRecords at the leader, somewhere below the high watermark."""
        if self.healed:
            return
        rng = stream(self.knobs.seed, f"trim/{self.now:.3f}")
        self.schedule(self.now + 1.0 / self.knobs.trims, self._trim)
        broker = self.brokers[rng.choice(list(self.brokers))]
        partition = TopicPartition(TOPIC, rng.randrange(self.knobs.partitions))
        replica = broker.parts.replicas.hosted.get(partition) if broker.up else None
        if replica is not None:
            offset = rng.randint(0, replica.decider.high_watermark)
            by_client = replica.leads and rng.random() < 0.5
            self.counts["trims"] += 1
            broker.take(lambda: broker.trim(partition, offset, by_client=by_client))

    # ---------------------------------------------------------------- what brokers do

    def on_stepped(self, host: SimulatedBroker, replica: LocalReplica, event: Event, effects: Sequence[Effect]) -> None:
        """A decider has decided; nothing is carried out yet."""
        self.steps += 1
        for effect in effects:
            if isinstance(effect, SendAlterPartition):
                self.counts["alter_partitions"] += 1
                if not isinstance(event, TimePassed):
                    self.audits.on_proposed(host, replica, effect)
            elif isinstance(effect, TruncateLog | ResetLog):
                self.counts["truncations"] += 1
        self.audits.on_stepped(host, replica, event, effects)
        if self.observer is not None:
            words, orders = (ADDRESS.sub("", text) for text in (repr(event), "; ".join(map(repr, effects))))
            self.observer(TraceEvent(self.now, f"n{host.node}", f"{replica.partition} {words}", describe(host), orders))

    def acknowledges(self, broker: SimulatedBroker, replica: LocalReplica, base_offset: int, value: str) -> None:
        """A client learns that its batch is on all members of the ISR."""
        self.audits.answers_produce(broker, replica, base_offset, value)
        if self.nemesis.trap_answer and not self.healed:
            self.nemesis.trap_answer = False
            self.schedule(self.now, self._sprung, broker)

    def decides(self, coordinator: SimulatedBroker, *, strikes: bool) -> None:
        """A producer learns that its transaction is decided, perhaps the last that this coordinator has decided."""
        if strikes and not self.healed:
            self.counts["coordinators_struck"] += 1
            self.schedule(self.now, self._sprung, coordinator)

    def leaps(self) -> bytes:
        """Returns the snapshot of all committed commands for a broker that is behind."""
        self.counts["metadata_leaps"] += 1
        return self.audits.machine.snapshot()

    def leader_of(self, node: int, partition: TopicPartition) -> int:
        """Returns the leader as this broker knows it; NO_LEADER if no broker leads."""
        state = self.brokers[node].machine.image.partition(partition)
        return NO_LEADER if state is None else state.leader

    def leads_groups(self, node: int) -> bool:
        """Returns True if the controller has this broker as the leader of the offsets topic."""
        return self.audits.truths[TopicPartition(OFFSETS_TOPIC, 0)].state.leader == node

    # ---------------------------------------------------------------- healing and the end

    def end_faults(self) -> None:
        """See `SimulatedWorld`."""
        self.nemesis.trap_send, self.nemesis.trap_answer = None, False
        for broker in self.brokers.values():
            broker.sound_since = self.now
            broker.slowness = 1.0
            broker.clock.steady(self.now)
            if broker.paused:
                broker.resume()
            if not broker.up:
                self._start(broker)
        self.schedule(self.now, self._probe)

    def _probe(self) -> None:
        for partition in self.audits.truths:
            sent = self._probes.get(partition)
            if partition.topic == TOPIC and (sent is None or sent.outcome not in (SentOutcome.OPEN, SentOutcome.OK)):
                probe = self.probe.produce(partition)
                assert probe is not None, "a probe is always asked"
                self._probes[partition] = probe
        if self.probe.acknowledged < 0:
            self.probe.commit()
        self.schedule(self.now + PROBE_EVERY_S, self._probe)

    def open_conditions(self) -> Iterator[str]:
        """See `SimulatedWorld`."""
        index = len(self.quorum.log)
        for node, broker in self.brokers.items():
            registration = self.audits.image.brokers[node]
            if registration.fenced or broker.machine.image.index != index or registration.epoch != broker.broker_epoch:
                yield f"broker {node} is fenced or behind"
            elif broker.parts.replicas.has_more:
                yield f"broker {node} has logs to make or delete"
        for partition, truth in self.audits.truths.items():
            state = truth.state
            if state.leader == NO_LEADER or set(state.isr) != set(state.replicas):
                yield f"{partition} has the leader {state.leader} and the ISR {state.isr}"
                continue
            ends = set()
            for node in state.replicas:
                replica = self.brokers[node].parts.replicas.hosted.get(partition)
                if replica is not None:
                    ends |= {replica.decider.high_watermark, replica.decider.log_end, replica.log.end_offset}
            if len(ends) != 1:
                yield f"{partition} ends at {sorted(ends)}"
            if self.ledger.settles(partition.topic):
                leader = self.brokers[state.leader].parts.replicas.hosted.get(partition)
                if leader is not None and leader.decider.log.producers.transactions.open:
                    yield f"{partition} has an open transaction"
            if partition.topic == TOPIC:
                sent = self._probes.get(partition)
                if sent is None or sent.outcome is not SentOutcome.OK:
                    yield f"{partition} has not taken a record"
        if self.probe.acknowledged < 0:
            yield "no offset was committed"
        yield from self.ledger.open_conditions()

    def judge(self) -> None:
        """See `SimulatedWorld`."""
        if self.finished and not any(each.oracle == "V-liveness" for each in self.violations):
            self.audits.judge()
            self._judge_clients()
            groups = self.brokers[self.audits.truths[GROUPS].state.leader]
            judged = self.ledger.judge(
                self._batches_of, groups, lambda oracle, sentence: self.report(oracle, 0, sentence)
            )
            self.counts["transactions_judged"] += judged

    def _batches_of(self, partition: TopicPartition) -> Sequence[LoggedBatch]:
        log = self.audits.log_of(self.audits.truths[partition].state.leader, partition)
        return () if log is None else log.batches

    def _judge_clients(self) -> None:
        """The black box: what failed for certain is in no log; nothing that was sent once is there twice."""
        truths = self.audits.truths.items()
        logs = [log.batches for each, truth in truths if (log := self.audits.log_of(truth.state.leader, each))]
        values = Counter(batch.value for batches in logs for batch in batches if batch.value)
        for value, count in values.items():
            if count > 1 and not self.knobs.trims and not self.knobs.alters:
                self.report("K5", 0, f"{value} is in the log {count} times")
        for client in (*self.clients, self.probe):
            for sent in client.sent:
                if sent.outcome is SentOutcome.FAILED and values[sent.value]:
                    self.report("K2", 0, f"{sent.value} has failed for certain, and is in the log")

    # ---------------------------------------------------------------- sums

    def totals(self) -> Counter[str]:
        """See `SimulatedWorld`."""
        totals = self.counts + self.network.counts + self.nemesis.counts + self.audits.counts
        totals["controller_changes"] = self.quorum.changes
        totals["commands"] = len(self.quorum.log)
        totals["coordinator_loads"] = sum(broker.all_loads for broker in self.brokers.values())
        totals["excused_losses"] = sum(truth.losses for truth in self.audits.truths.values())
        totals["transactions_timed_out"] = totals["told_transaction_timed_out"]
        totals["markers_resent"] += sum(
            broker.parts.coordinators.sender.resent for broker in self.brokers.values() if broker.up
        )
        totals["generations"] = self.group.generations
        totals["committed_entries"] = sum(truth.end for truth in self.audits.truths.values())
        return totals

    def outcome(self) -> Iterator[object]:
        """See `SimulatedWorld`."""
        for partition, truth in self.audits.truths.items():
            yield partition, truth.state, [batch.value for batch in truth.committed]
        for client in self.clients:
            yield [sent.outcome for sent in client.sent]

    def all_requests(self) -> Sequence[tuple[int, int]]:
        """See `SimulatedWorld`."""
        return [(client.number, number) for client in self.clients for number in range(1, client.considered + 1)]

    def state_of(self, node: int) -> str:
        """See `SimulatedWorld`."""
        return describe(self.brokers[node]) if node else f"{'':<37}"
