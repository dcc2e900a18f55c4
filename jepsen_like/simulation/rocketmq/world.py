"""A RocketMQ broker group with its clients and its operator in virtual time.

While the nemesis strikes, clients work; once all faults have ended, every broker comes back, the operator gives up what
diverges from the master, every slave must have the master's log, and a record must be acknowledged.
"""

import random
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

import attrs

from jepsen_like.simulation.kernel.network import SimulatedNetwork
from jepsen_like.simulation.kernel.sockets import Segment, SegmentKind
from jepsen_like.simulation.kernel.streams import stream
from jepsen_like.simulation.kernel.tracing import TraceEvent
from jepsen_like.simulation.rocketmq.audits import RocketmqAudits
from jepsen_like.simulation.rocketmq.broker import GroupBroker
from jepsen_like.simulation.rocketmq.clients import PutState, RocketmqClient, SentRecord
from jepsen_like.simulation.rocketmq.group import PROBE_CLIENT, BrokerGroupWorld
from jepsen_like.simulation.rocketmq.held import LossKind
from jepsen_like.simulation.rocketmq.nemesis import RocketmqNemesis
from jepsen_like.simulation.rocketmq.operations import SimulatedOperator
from jepsen_like.simulation.rocketmq.process import IDLE_ROUNDS_MAX
from rocketmq_compat.consumers.offsets import OffsetSnapshot
from rocketmq_compat.replication.effects import AnswerPut, Effect
from rocketmq_compat.replication.events import DeadlineReached, Event
from rocketmq_compat.replication.messages import Report
from rocketmq_compat.replication.slave import Slave

ROGUE_BYTES = 1 << 20
"""More than is written in any world: what is less may be true by the time it arrives, as far as a master can know."""


class RocketmqWorld(BrokerGroupWorld[GroupBroker, RocketmqClient]):
    """A broker group and everything around it. `master` is the broker that the operator has made the master."""

    def build(self) -> None:
        """See `SimulatedWorld`."""
        knobs = self.knobs
        nodes = list(range(1, knobs.nodes + 1))
        self.master = 1
        self.network: SimulatedNetwork[int, Segment] = SimulatedNetwork(knobs, nodes, self.post)
        self.brokers: Mapping[int, GroupBroker] = {node: GroupBroker(self, knobs, node) for node in nodes}
        self.audits = RocketmqAudits(knobs, self.brokers, self.report)
        self.operator = SimulatedOperator(self, knobs)
        self.nemesis: RocketmqNemesis[GroupBroker] = RocketmqNemesis(self, knobs)
        self.clients = [RocketmqClient(self, knobs, number) for number in range(1, knobs.clients + 1)]
        self.probe = RocketmqClient(self, knobs, PROBE_CLIENT)
        self._probed: SentRecord | None = None
        self._connections = 0
        self._damage = stream(knobs.seed, "damage")

    def begin(self) -> None:
        """See `SimulatedWorld`."""
        super().begin()
        if self.knobs.rogues:
            self.schedule(1.0 / self.knobs.rogues, self._rogue)
        self.schedule(self.knobs.decide_s, self.operator.look)

    # ---------------------------------------------------------------- the wire

    def new_connection(self) -> int:
        """Returns the number of a connection that is to be made."""
        self._connections += 1
        return self._connections

    def transmit(self, sender: int, to: int, segment: Segment) -> None:
        """See `BrokerGroupWorld`."""
        if sender == to:  # who was promoted dials itself no more
            return
        knobs = self.knobs
        if (
            knobs.damage
            and segment.kind is SegmentKind.DATA
            and self._damage.random() < knobs.damage
            and not self.healed
        ):
            self.counts["segments_damaged"] += 1
            data = bytearray(segment.data)
            data[self._damage.randrange(len(data))] ^= 1 << self._damage.randrange(8)
            segment = attrs.evolve(segment, data=bytes(data))
        super().transmit(sender, to, segment)

    # ---------------------------------------------------------------- life and death

    def wipe(self, broker: GroupBroker) -> None:
        """Kill a process, and give it another disk."""
        self.kill(broker, self.knobs.silence_s)
        self.note("gets another disk", broker.node)
        broker.lose_disk()

    def cut_power(self, broker: GroupBroker, back_after_s: float, *, wipes: bool) -> None:
        """See `RocketmqVictims`."""
        super().cut_power(broker, back_after_s, wipes=wipes)
        if wipes:
            self.counts["wipes"] += 1
            broker.lose_disk()

    def offsets_of_master(self) -> OffsetSnapshot | None:
        """Returns the offsets that the master answers a slave that asks for them; None if it does not."""
        master = self.brokers[self.master]
        return master.context.offsets.snapshot() if master.listens and master.is_sure and not master.paused else None

    def strike_disk(self, broker: GroupBroker, rng: random.Random, *, vanishes: bool) -> None:
        """See `RocketmqVictims`."""
        if broker.up:
            return
        what = broker.lose_part_of_disk(rng) if vanishes else broker.damage_disk(rng)
        self.counts["disks_vanished" if vanishes else "disks_damaged"] += 1
        self.note(f"loses {what}" if vanishes else f"has damage in {what}", broker.node)

    def begin_life(self, broker: GroupBroker) -> None:
        """See `BrokerGroupWorld`."""
        losses = len(broker.held.losses)
        super().begin_life(broker)
        self.counts["tails_lost"] += any(lost.kind is LossKind.POWER for lost in broker.held.losses[losses:])

    def reset_connections(self, broker: GroupBroker) -> None:
        """See `RocketmqVictims`."""
        if broker.up:
            self.nemesis.counts["resets"] += broker.links.sockets.reset()

    def promote(self, node: int, *, at_once: bool) -> None:
        """See `RocketmqVictims`."""
        self.operator.promote(node, at_once=at_once)

    def trim(self, broker: GroupBroker, rng: random.Random) -> None:
        """See `BrokerGroupWorld`: at the end of an append."""
        ends = broker.held.ends[: len(broker.held.ends) * 2 // 3]
        if ends:
            self.counts["trims"] += 1
            broker.take(broker.trim, rng.choice(ends))

    def _rogue(self) -> None:
        """A slave reports what it does not have: a bug of a slave, or anything else that speaks on its connection."""
        if self.healed:
            return
        rng = stream(self.knobs.seed, f"rogue/{self.now:.3f}")
        self.schedule(self.now + 1.0 / self.knobs.rogues, self._rogue)
        slaves = [each for each in self.brokers.values() if each.up and each.links.sockets.open and not each.listens]
        if slaves:
            slave = rng.choice(slaves)
            connection = rng.choice(list(slave.links.sockets.open))
            self.counts["rogue_reports"] += 1
            self.note("reports what it does not have", slave.node)
            slave.links.say(connection, Report(slave.held.end + ROGUE_BYTES))

    # ---------------------------------------------------------------- what brokers do

    def on_stepped(self, broker: GroupBroker, event: Event | None, effects: Sequence[Effect]) -> None:
        """A copy has decided, and nothing is carried out yet; without an event it has begun."""
        self.steps += 1
        self.audits.on_stepped(broker, event, effects)
        if self.observer is not None and (effects or not isinstance(event, DeadlineReached)):
            words = "begins" if event is None else repr(event)
            self.observer(
                TraceEvent(self.now, f"n{broker.node}", words, broker.describe(), "; ".join(map(repr, effects)))
            )

    def on_effect(self, broker: GroupBroker, event: Event | None, effect: Effect) -> None:
        """An order of that decision was carried out."""
        self.audits.on_effect(broker, event, effect)
        if isinstance(effect, AnswerPut):
            self.on_stored(broker)

    def on_round_end(self, broker: GroupBroker) -> None:
        """A round has ended."""
        if broker.idle_rounds > IDLE_ROUNDS_MAX:
            self.report("Q15", broker.node, f"{broker.idle_rounds} rounds in a row have nothing to do")
        self.audits.on_round_end(broker)

    # ---------------------------------------------------------------- healing and the end

    def ask_probe(self) -> None:
        """See `BrokerGroupWorld`."""
        if self._probed is None or self._probed.state not in (PutState.OPEN, PutState.OK):
            self._probed = self.probe.put(plainly=True)

    def open_conditions(self) -> Sequence[str]:
        """See `SimulatedWorld`."""
        missing: list[str] = []
        master = self.brokers[self.master]
        if not master.listens:
            return ["there is no master"]
        for node, broker in self.brokers.items():
            if broker is not master and not self._follows(broker, master):
                missing.append(f"broker {node} does not follow")
            elif broker.held.end < master.held.end:
                missing.append(f"broker {node} ends at {broker.held.end}, the master at {master.held.end}")
            elif broker.store.derived.dispatched < broker.held.end:
                missing.append(f"broker {node} shows consumers what is below {broker.store.derived.dispatched}")
            if broker.waiting:
                missing.append(f"broker {node} owes {len(broker.waiting)} answers")
        answered = (PutState.OK, PutState.WEAK) if self.knobs.nodes == 1 else (PutState.OK,)
        if self._probed is None or self._probed.state not in answered:
            missing.append("no record was acknowledged")
        return missing

    @staticmethod
    def _follows(broker: GroupBroker, master: GroupBroker) -> bool:
        """Returns True if a slave is welcome on a connection that both ends know."""
        role = broker.replica.role
        if not broker.up or not isinstance(role, Slave) or not role.is_welcome:
            return False
        both = broker.links.sockets.open.keys() & master.links.sockets.open
        return any(broker.links.dials.get(socket) == role.connection for socket in both)

    def judge(self) -> None:
        """See `SimulatedWorld`."""
        if self.finished and not any(each.oracle == "V-liveness" for each in self.violations):
            sent = [each for client in (*self.clients, self.probe) for each in client.sent]
            self.audits.judge(self.brokers[self.master], sent)

    # ---------------------------------------------------------------- sums

    def totals(self) -> Counter[str]:
        """See `SimulatedWorld`."""
        totals = self.counts + self.network.counts + self.nemesis.counts + self.audits.counts + self.operator.counts
        totals["bytes_lost"] = sum(len(lost.data) for broker in self.brokers.values() for lost in broker.held.losses)
        return totals

    def outcome(self) -> Iterator[object]:
        """See `SimulatedWorld`."""
        for node, broker in self.brokers.items():
            yield node, bytes(broker.held.data), broker.held.epochs
        for client in self.clients:
            yield [sent.state for sent in client.sent]
