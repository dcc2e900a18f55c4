"""Strikes a simulated broker group as the seed planned it; each fault draws its targets and lengths from a stream of
its own.
"""

import random
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Generic, Protocol, TypeVar

from jepsen_like.simulation.kernel.clock import SimulatedClock
from jepsen_like.simulation.kernel.network import Link, SimulatedNetwork
from jepsen_like.simulation.kernel.streams import stream
from jepsen_like.simulation.kernel.swarm import FaultKind, PlannedFault
from jepsen_like.simulation.rocketmq.swarm import RocketmqKnobs

MASTER_SHARE = 0.6


class RocketmqVictim(Protocol):
    """A broker that can be struck."""

    node: int
    process: int
    up: bool
    paused: bool
    clock: SimulatedClock
    slowness: float

    def resume(self) -> None:
        """Go on after a pause."""

    def clock_jumped(self) -> None:
        """The clock shows more than it should."""


V = TypeVar("V", bound=RocketmqVictim)


class RocketmqVictims(Protocol[V]):
    """The world as the nemesis sees it."""

    now: float

    @property
    def master(self) -> int:
        """The broker to strike more often than others."""

    @property
    def network(self) -> SimulatedNetwork[int, Any]:
        """The network between the brokers."""

    @property
    def brokers(self) -> Mapping[int, V]:
        """All of them."""

    def schedule(self, at: float, action: Callable[..., None], *arguments: object) -> None:
        """Call `action(*arguments)` at time `at`."""

    def cut_power(self, broker: V, back_after_s: float, *, wipes: bool) -> None:
        """Cut a broker's power, which may cost the disk; start it again after a while."""

    def kill(self, broker: V, back_after_s: float) -> None:
        """Kill a process; start it again after a while."""

    def strike_disk(self, broker: V, rng: random.Random, *, vanishes: bool) -> None:
        """Damage something on the disk of a broker that is down, or let it vanish."""

    def start(self, broker: V) -> None:
        """Start a broker, if it is down."""

    def promote(self, node: int, *, at_once: bool) -> None:
        """Let the operator promote this broker."""

    def reset_connections(self, broker: V) -> None:
        """Break all connections of a broker."""

    def note(self, text: str, node: int | None = None) -> None:
        """Put a line into the trace: what was done."""


class RocketmqNemesis(Generic[V]):
    """Carries out planned faults.

    `trap_send` and `trap_answer` name after which message or answer power is to be cut.
    """

    def __init__(self, world: RocketmqVictims[V], knobs: RocketmqKnobs) -> None:
        self.counts: Counter[str] = Counter()
        self.trap_send: int | None = None
        self.trap_answer = False
        self._world = world
        self._knobs = knobs

    def strike(self, fault: PlannedFault) -> None:
        """Do it now."""
        rng = stream(self._knobs.seed, fault.name)
        world = self._world
        match fault.kind:
            case FaultKind.POWER_CUT:
                for broker in self._victims(rng):
                    self._cut(broker, rng)
            case FaultKind.CUT_AFTER_SEND:
                self.trap_send = self._one(rng)
            case FaultKind.CUT_AFTER_ANSWER:
                self.trap_answer = True
            case FaultKind.CUT_ALL:
                for broker in list(world.brokers.values()):
                    self._cut(broker, rng)
            case FaultKind.KILL:
                for broker in self._victims(rng):
                    world.kill(broker, self._lasts(rng))
            case FaultKind.PAUSE:
                for broker in self._victims(rng):
                    self._pause(broker, rng)
            case FaultKind.RESET:
                for broker in self._victims(rng):
                    world.reset_connections(broker)
            case FaultKind.CLOCK_JUMP:
                for broker in self._victims(rng):
                    self.counts["clock_jumps"] += 1
                    broker.clock.jump(rng.choice((0.1, 0.5, 3.0)) * self._knobs.silence_s)
                    broker.clock_jumped()
            case FaultKind.SLOW_DISK:
                for broker in self._victims(rng):
                    self.counts["slow_disks"] += 1
                    broker.slowness = rng.choice((5.0, 20.0))
            case FaultKind.LOSS_BURST:
                self.counts["loss_bursts"] += 1
                world.network.loss = 0.3
                world.schedule(world.now + self._lasts(rng), self._end_loss)
            case FaultKind.DAMAGE | FaultKind.VANISH:
                for broker in self._victims(rng):
                    self._stop(broker, rng)
                    world.strike_disk(broker, rng, vanishes=fault.kind is FaultKind.VANISH)
            case FaultKind.STOPS:
                self._stops(rng)
            case FaultKind.COUP:
                others = [node for node in world.brokers if node != world.master]
                if others:
                    world.promote(rng.choice(others), at_once=rng.random() < 0.7)
            case _:
                self._partition(fault.kind, rng)

    def sprung(self, broker: V) -> None:
        """A trap was sprung: the power of this broker fails now."""
        self.counts["traps"] += 1
        self._cut(broker, stream(self._knobs.seed, f"trap/{broker.node}/{broker.process}"))

    def _stop(self, broker: V, rng: random.Random) -> None:
        if rng.random() < 0.7:
            self._world.kill(broker, self._lasts(rng))
        else:
            self._world.cut_power(broker, self._lasts(rng), wipes=False)

    def _stops(self, rng: random.Random) -> None:
        """All stop in some order, at once or one after the other; some disks suffer; all start in some order."""
        world = self._world
        self.counts["stops_of_all"] += 1
        gap_s = rng.choice((0.0, 0.1, 0.6)) * self._knobs.patience_s
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

    def _lasts(self, rng: random.Random) -> float:
        return rng.choice((0.05, 0.6, 2.0)) * rng.uniform(0.3, 1.0) * self._knobs.silence_s

    def _cut(self, broker: V, rng: random.Random) -> None:
        if broker.up:
            self._world.cut_power(broker, self._lasts(rng), wipes=rng.random() < self._knobs.wipes)

    def _pause(self, broker: V, rng: random.Random) -> None:
        if not broker.paused:
            self.counts["pauses"] += 1
            self._world.note("paused", broker.node)
            broker.paused = True
            self._world.schedule(self._world.now + self._lasts(rng), self._resume, broker, broker.process)

    def _resume(self, broker: V, process: int) -> None:
        if broker.paused and broker.process == process:
            self._world.note("resumed", broker.node)
            broker.resume()

    # ---------------------------------------------------------------- the network

    def _end_loss(self) -> None:
        self._world.network.loss = min(self._world.network.loss, self._knobs.loss)

    def _partition(self, kind: FaultKind, rng: random.Random) -> None:
        links = list(self._world.network.links)
        if kind is FaultKind.ISOLATE:
            alone = self._one(rng)
            links = [link for link in links if alone in link]
        else:
            links = [link for link in links if rng.random() < 0.5]
        if not links:
            return
        self.counts["partitions"] += 1
        self._world.note(f"cuts {' '.join(f'{a}>{b}' for a, b in links)}")
        self._world.network.cut(links, holds=rng.random() < 0.5)
        self._world.schedule(self._world.now + self._lasts(rng), self._heal, links)

    def _heal(self, links: Sequence[Link[int]]) -> None:
        self._world.note(f"heals {' '.join(f'{a}>{b}' for a, b in links)}")
        self._world.network.heal(self._world.now, links)
