"""Strikes a simulated Kafka cluster as the seed planned; each fault draws targets and lengths from its own stream."""

import random
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from jepsen_like.simulation.kafka.broker import SimulatedBroker
from jepsen_like.simulation.kafka.swarm import KafkaKnobs
from jepsen_like.simulation.kernel.nemesis import BrokerNemesis
from jepsen_like.simulation.kernel.network import Link
from jepsen_like.simulation.kernel.swarm import FaultKind

if TYPE_CHECKING:
    from jepsen_like.simulation.kafka.world import KafkaWorld


class KafkaNemesis(BrokerNemesis[SimulatedBroker, "KafkaWorld"]):
    """Carries out planned faults."""

    JUMPS = (0.2, 1.0, 5.0)

    def __init__(self, world: "KafkaWorld", knobs: KafkaKnobs) -> None:
        super().__init__(world, knobs, silence_s=knobs.session_s, wipes=knobs.wipes)
        self._knobs = knobs
        self._nodes = list(world.brokers)

    def _strike(self, kind: FaultKind, rng: random.Random) -> None:
        match kind:
            case FaultKind.DAMAGE | FaultKind.VANISH:
                for broker in self._victims(rng):
                    self._world.spoil(broker, kind)
                    self._stop(broker, rng, self._lasts(rng))
            case FaultKind.STOPS:
                self._stop_all(rng)
            case FaultKind.RESET:
                links = list(self._world.network.links)
                broken = rng.sample(links, rng.randint(1, len(links)))
                for link in broken:
                    self.counts["resets"] += 1
                    self._world.reset(link)
                self._mend(broken)
            case FaultKind.COUP:
                self._coup(rng)
            case _:
                self._partition(kind, rng)

    def _heal(self, links: Sequence[Link[Any]]) -> None:
        super()._heal(links)
        self._mend(links)

    def _end_loss(self) -> None:
        super()._end_loss()
        self._mend(self._world.network.links)

    def _mend(self, links: Iterable[Link[Any]]) -> None:
        """Note that what was sent on these links may arrive only now, or never."""
        for node in {node for link in links for node in link}:
            self._world.brokers[node].sound_since = self._world.now

    # ---------------------------------------------------------------- whom and how long

    def _leaders(self) -> list[int]:
        return [
            node
            for node, broker in self._world.brokers.items()
            if broker.up and any(each.leads for each in broker.parts.replicas.hosted.values())
        ]

    def _one(self, rng: random.Random) -> int:
        leaders = self._leaders()
        return rng.choice(leaders if leaders and rng.random() < 0.5 else self._nodes)

    def _victims(self, rng: random.Random) -> list[SimulatedBroker]:
        first = self._one(rng)
        count = 1 if rng.random() < 0.7 else 2
        chosen = [first, *rng.sample([each for each in self._nodes if each != first], count - 1)]
        return [self._world.brokers[node] for node in chosen if self._world.brokers[node].up]

    def _cut(self, broker: SimulatedBroker, rng: random.Random) -> None:
        """Cut the power, also of a machine whose broker is down."""
        self._world.cut_power(broker, self._lasts(rng), wipes=rng.random() < self._knobs.wipes)

    def _kill(self, broker: SimulatedBroker, rng: random.Random) -> None:
        if rng.random() < self._knobs.graceful:
            self._shut_down(broker, self._lasts(rng))
        else:
            self._world.kill(broker, self._lasts(rng))

    def _shut_down(self, broker: SimulatedBroker, back_after_s: float) -> None:
        self.counts["shutdowns_asked"] += 1
        self._world.shut_down(broker, back_after_s)

    def _stop(self, broker: SimulatedBroker, rng: random.Random, back_after_s: float) -> None:
        match rng.choice(("kill", "kill", "shutdown", "cut")):
            case "kill":
                self._world.kill(broker, back_after_s)
            case "shutdown":
                self._shut_down(broker, back_after_s)
            case _:
                self._world.cut_power(broker, back_after_s, wipes=False)

    def _stop_all(self, rng: random.Random) -> None:
        """All stop at once, in turn, or rolling, and start in another order, often reversed; some disks suffer."""
        self.counts["stops"] += 1
        session_s, count = self._knobs.session_s, len(self._nodes)
        order = rng.sample(self._nodes, count)
        gap_s = rng.choice((0.0, 0.0, 0.3, 1.5)) * session_s
        rolling = gap_s > 0 and rng.random() < 0.3
        starts = rng.choice((order, order[::-1], order[::-1], rng.sample(self._nodes, count)))
        start_gap_s = rng.choice((0.0, 0.1, 1.0)) * session_s
        quiet_s = rng.choice((0.1, 1.0, 2.0)) * session_s
        spoiled = rng.sample(self._nodes, rng.randint(0, count - 1))
        fault = rng.choice((FaultKind.DAMAGE, FaultKind.VANISH, FaultKind.POWER_CUT))
        for place, node in enumerate(order):
            stops_s = place * gap_s
            starts_s = stops_s + quiet_s if rolling else count * gap_s + quiet_s + starts.index(node) * start_gap_s
            self._world.schedule(
                self._world.now + stops_s,
                self._stop_one,
                node,
                fault if node in spoiled else None,
                rng,
                starts_s - stops_s,
            )

    def _stop_one(self, node: int, fault: FaultKind | None, rng: random.Random, back_after_s: float) -> None:
        broker = self._world.brokers[node]
        if broker.up and not self._world.healed:
            if fault is not None:
                self._world.spoil(broker, fault)
            self._stop(broker, rng, back_after_s)

    # ---------------------------------------------------------------- the network

    def _coup(self, rng: random.Random) -> None:
        """The controller changes, or a leader of partitions is cut off from the rest while clients still reach it."""
        self.counts["coups"] += 1
        if rng.random() < 0.4:
            self._world.quorum.elect(avoid=self._world.quorum.leader)
            return
        self._cut_off({self._one(rng)}, rng)

    def _partition(self, kind: FaultKind, rng: random.Random) -> None:
        nodes = list(self._nodes)
        rng.shuffle(nodes)
        match kind:
            case FaultKind.ISOLATE:
                self._cut_off({self._one(rng)}, rng)
            case FaultKind.HALVES:
                self._cut_off(set(nodes[: rng.randint(1, len(nodes) - 1)]), rng)
            case FaultKind.BRIDGE:
                self._cut_links([(nodes[0], nodes[-1]), (nodes[-1], nodes[0])], rng)
            case _:
                self._cut_links([link for link in self._world.network.links if rng.random() < 0.35], rng)

    def _cut_off(self, group: set[int], rng: random.Random) -> None:
        self._cut_links([(a, b) for a, b in self._world.network.links if (a in group) != (b in group)], rng)
