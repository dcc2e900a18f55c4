"""Shared faults of links, processes, clocks and disks. A system draws targets and lengths, from each fault's stream."""

import abc
import random
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, Generic, Protocol, TypeVar

from jepsen_like.simulation.kernel.network import Link, SimulatedNetwork
from jepsen_like.simulation.kernel.process import SimulatedProcess
from jepsen_like.simulation.kernel.streams import stream
from jepsen_like.simulation.kernel.swarm import FaultKind, Knobs, PlannedFault

V = TypeVar("V", bound=SimulatedProcess)


class NemesisWorld(Protocol):
    """The world as any nemesis sees it."""

    now: float
    healed: bool

    @property
    def network(self) -> SimulatedNetwork[Any, Any]:
        """The network between the nodes."""

    def schedule(self, at: float, action: Callable[..., None], *arguments: object) -> None:
        """Call `action(*arguments)` at time `at`."""

    def note(self, text: str, node: int | None = None) -> None:
        """Put a line into the trace: what was done."""


class BrokersWorld(NemesisWorld, Protocol[V]):
    """The world of brokers as their nemesis sees it."""

    @property
    def brokers(self) -> Mapping[int, V]:
        """All of them."""

    def cut_power(self, broker: V, back_after_s: float, *, wipes: bool) -> None:
        """Cut a broker's power, which may cost the disk; start it again after a while."""

    def kill(self, broker: V, back_after_s: float) -> None:
        """Kill a process; start it again after a while."""


WorldT = TypeVar("WorldT", bound=NemesisWorld)
BrokersT = TypeVar("BrokersT", bound=BrokersWorld[Any])


class LinkNemesis(abc.ABC, Generic[WorldT]):
    """Cuts links and loses messages."""

    BURST_LOSS: ClassVar[float] = 0.3

    def __init__(self, world: WorldT, knobs: Knobs) -> None:
        self.counts: Counter[str] = Counter()
        self._world = world
        self._base_loss = knobs.loss

    @abc.abstractmethod
    def _lasts(self, rng: random.Random) -> float:
        """Draws how long a fault lasts, in seconds."""

    def _later(self, rng: random.Random, action: Callable[..., None], *arguments: object) -> None:
        self._world.schedule(self._world.now + self._lasts(rng), action, *arguments)

    def _cut_links(self, links: Sequence[Link[Any]], rng: random.Random, what: str = "cuts") -> None:
        if not links:
            return
        self.counts["partitions"] += 1
        self._world.note(f"{what} {' '.join(f'{a}>{b}' for a, b in links)}")
        self._world.network.cut(links, holds=rng.random() < 0.5)
        self._later(rng, self._heal, links)

    def _heal(self, links: Sequence[Link[Any]]) -> None:
        self._world.note(f"heals {' '.join(f'{a}>{b}' for a, b in links)}")
        self._world.network.heal(self._world.now, links)

    def _lose_messages(self, rng: random.Random) -> None:
        self._world.network.loss = self.BURST_LOSS
        self._later(rng, self._end_loss)

    def _end_loss(self) -> None:
        self._world.network.loss = min(self._world.network.loss, self._base_loss)


class BrokerNemesis(LinkNemesis[BrokersT], Generic[V, BrokersT]):
    """Faults that all brokers know. `trap_send` and `trap_answer` cut a broker's power after that message or answer."""

    JUMPS: ClassVar[Sequence[float]]
    """Of clocks, in times of `silence_s`."""

    def __init__(self, world: BrokersT, knobs: Knobs, *, silence_s: float, wipes: float) -> None:
        super().__init__(world, knobs)
        self.trap_send: int | None = None
        self.trap_answer = False
        self._seed = knobs.seed
        self._zone_of = knobs.zone_of
        self._silence_s = silence_s
        self._wipes = wipes

    @abc.abstractmethod
    def _one(self, rng: random.Random) -> int:
        """Draws a broker, often one that leads."""

    @abc.abstractmethod
    def _victims(self, rng: random.Random) -> list[V]:
        """Draws one broker or several that are up."""

    @abc.abstractmethod
    def _strike(self, kind: FaultKind, rng: random.Random) -> None:
        """Carries out a fault that this system has a way of its own for."""

    def strike(self, fault: PlannedFault) -> None:
        """Do it now."""
        rng = stream(self._seed, fault.name)
        match fault.kind:
            case FaultKind.POWER_CUT:
                for broker in self._victims(rng):
                    self._cut(broker, rng)
            case FaultKind.CUT_AFTER_SEND:
                self.trap_send = self._one(rng)
            case FaultKind.CUT_AFTER_ANSWER:
                self.trap_answer = True
            case FaultKind.CUT_ALL:
                for broker in list(self._world.brokers.values()):
                    self._cut(broker, rng)
            case FaultKind.KILL:
                for broker in self._victims(rng):
                    self._kill(broker, rng)
            case FaultKind.PAUSE:
                for broker in self._victims(rng):
                    self._pause(broker, rng)
            case FaultKind.CLOCK_JUMP:
                for broker in self._victims(rng):
                    self.counts["clock_jumps"] += 1
                    broker.clock.jump(rng.choice(self.JUMPS) * self._silence_s)
                    broker.clock_jumped()
            case FaultKind.SLOW_DISK:
                for broker in self._victims(rng):
                    self.counts["slow_disks"] += 1
                    broker.slowness = rng.choice((5.0, 20.0))
            case FaultKind.ZONE_DOWN:
                self._zone_down(rng)
            case FaultKind.ZONE_CUT:
                zone, links = self._zone_of(self._one(rng)), self._world.network.links
                crossing = [(a, b) for a, b in links if (self._zone_of(a) == zone) != (self._zone_of(b) == zone)]
                self._cut_links(crossing, rng, f"zone {zone} is cut off:")
            case FaultKind.LOSS_BURST:
                self.counts["loss_bursts"] += 1
                self._lose_messages(rng)
            case _:
                self._strike(fault.kind, rng)

    def _zone_down(self, rng: random.Random) -> None:
        """All that stands in the zone of a broker loses its power at once, and has it back at once."""
        self.counts["zones_down"] += 1
        zone, back_after_s = self._zone_of(self._one(rng)), self._lasts(rng)
        for broker in list(self._world.brokers.values()):
            if broker.up and self._zone_of(broker.node) == zone:
                self._world.cut_power(broker, back_after_s, wipes=False)

    def sprung(self, broker: V) -> None:
        """A trap was sprung: the power of this broker fails now."""
        self.counts["traps"] += 1
        self._cut(broker, stream(self._seed, f"trap/{broker.node}/{broker.process}"))

    def _lasts(self, rng: random.Random) -> float:
        return rng.choice((0.05, 0.6, 2.0)) * rng.uniform(0.3, 1.0) * self._silence_s

    def _cut(self, broker: V, rng: random.Random) -> None:
        if broker.up:
            self._world.cut_power(broker, self._lasts(rng), wipes=rng.random() < self._wipes)

    def _kill(self, broker: V, rng: random.Random) -> None:
        self._world.kill(broker, self._lasts(rng))

    def _pause(self, broker: V, rng: random.Random) -> None:
        if not broker.paused:
            self.counts["pauses"] += 1
            self._world.note("paused", broker.node)
            broker.paused = True
            self._later(rng, self._resume, broker, broker.process)

    def _resume(self, broker: V, process: int) -> None:
        if broker.paused and broker.process == process:
            self._world.note("resumed", broker.node)
            broker.resume()
