"""Strikes a simulated broker group as the seed planned; each fault draws targets and lengths from its own stream."""

import random
from typing import Generic, Protocol, TypeVar

from jepsen_like.simulation.kernel.nemesis import BrokerNemesis, BrokersWorld
from jepsen_like.simulation.kernel.swarm import FaultKind
from jepsen_like.simulation.rocketmq.process import BrokerProcess
from jepsen_like.simulation.rocketmq.swarm import RocketmqKnobs

MASTER_SHARE = 0.6
V = TypeVar("V", bound=BrokerProcess)


class RocketmqVictims(BrokersWorld[V], Protocol[V]):
    """The world as the nemesis sees it."""

    @property
    def master(self) -> int:
        """The broker to strike more often than others."""

    def strike_disk(self, broker: V, rng: random.Random, *, vanishes: bool) -> None:
        """Damage something on the disk of a broker that is down, or let it vanish."""

    def start(self, broker: V) -> None:
        """Start a broker, if it is down."""

    def promote(self, node: int, *, at_once: bool) -> None:
        """Let the operator promote this broker."""

    def reset_connections(self, broker: V) -> None:
        """Break all connections of a broker."""


class RocketmqNemesis(BrokerNemesis[V, RocketmqVictims[V]], Generic[V]):
    """Carries out planned faults."""

    JUMPS = (0.1, 0.5, 3.0)

    def __init__(self, world: RocketmqVictims[V], knobs: RocketmqKnobs) -> None:
        super().__init__(world, knobs, silence_s=knobs.silence_s, wipes=knobs.wipes)
        self._patience_s = knobs.patience_s

    def _strike(self, kind: FaultKind, rng: random.Random) -> None:
        world = self._world
        match kind:
            case FaultKind.RESET:
                for broker in self._victims(rng):
                    world.reset_connections(broker)
            case FaultKind.DAMAGE | FaultKind.VANISH:
                for broker in self._victims(rng):
                    self._stop(broker, rng)
                    world.strike_disk(broker, rng, vanishes=kind is FaultKind.VANISH)
            case FaultKind.STOPS:
                self._stops(rng)
            case FaultKind.COUP:
                others = [node for node in world.brokers if node != world.master]
                if others:
                    world.promote(rng.choice(others), at_once=rng.random() < 0.7)
            case FaultKind.ISOLATE:
                alone = self._one(rng)
                self._cut_links([link for link in world.network.links if alone in link], rng)
            case _:
                self._cut_links([link for link in world.network.links if rng.random() < 0.5], rng)

    def _stop(self, broker: V, rng: random.Random) -> None:
        if rng.random() < 0.7:
            self._world.kill(broker, self._lasts(rng))
        else:
            self._world.cut_power(broker, self._lasts(rng), wipes=False)

    def _stops(self, rng: random.Random) -> None:
        """All stop in some order, at once or one after the other; some disks suffer; all start in some order."""
        world = self._world
        self.counts["stops_of_all"] += 1
        gap_s = rng.choice((0.0, 0.1, 0.6)) * self._patience_s
        order = list(world.brokers)
        rng.shuffle(order)
        suffer = set(rng.sample(order, rng.randint(0, len(order) - 1)))
        ends = len(order) * gap_s
        for number, node in enumerate(order):
            broker = world.brokers[node]
            vanishes = rng.random() < 0.4
            strikes = node in suffer
            world.schedule(world.now + number * gap_s, self._stops_one, broker, rng, strikes, vanishes, ends + 60.0)
        again = [*reversed(order)] if rng.random() < 0.4 else rng.sample(order, len(order))
        for number, node in enumerate(again):
            world.schedule(world.now + ends + 0.01 + number * gap_s, world.start, world.brokers[node])

    def _stops_one(self, broker: V, rng: random.Random, strikes: bool, vanishes: bool, back_after_s: float) -> None:
        if not broker.up:
            return
        if rng.random() < 0.8:
            self._world.kill(broker, back_after_s)
        else:
            self._world.cut_power(broker, back_after_s, wipes=False)
        if strikes:
            self._world.strike_disk(broker, rng, vanishes=vanishes)

    # ---------------------------------------------------------------- whom and how long

    def _one(self, rng: random.Random) -> int:
        master = self._world.master
        return master if rng.random() < MASTER_SHARE else rng.choice(list(self._world.brokers))

    def _victims(self, rng: random.Random) -> list[V]:
        chosen = {self._one(rng)} if rng.random() < 0.7 else {self._one(rng), self._one(rng)}
        return [self._world.brokers[node] for node in sorted(chosen) if self._world.brokers[node].up]
