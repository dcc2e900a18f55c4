"""The parts that worlds of brokers share, whether their roles are fixed or they form a raft group: life and death, traps,
retention, healing.
"""

import random
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, Generic, Protocol, TypeVar

from jepsen_like.simulation.kernel.findings import CRASH
from jepsen_like.simulation.kernel.streams import stream
from jepsen_like.simulation.kernel.world import SimulatedWorld
from jepsen_like.simulation.rocketmq.nemesis import RocketmqNemesis
from jepsen_like.simulation.rocketmq.process import BrokerProcess
from jepsen_like.simulation.rocketmq.swarm import RocketmqKnobs
from log.errors import CorruptLog

PROBE_CLIENT = 90
PROBE_EVERY_S = 0.5
B = TypeVar("B", bound=BrokerProcess)
C = TypeVar("C", bound="GroupClient")


class GroupClient(Protocol):
    """A client, as its world sees it."""

    number: int
    considered: int
    rng: random.Random

    def wake(self) -> None:
        """Ask for something, and wake again."""


class BrokerGroupWorld(SimulatedWorld[RocketmqKnobs], Generic[B, C]):
    """Brokers and everything around them. A model makes these in `build`."""

    brokers: Mapping[int, B]
    nemesis: RocketmqNemesis[B]
    clients: Sequence[C]

    def begin(self) -> None:
        """See `SimulatedWorld`."""
        knobs = self.knobs
        clocks = stream(knobs.seed, "clocks")
        for broker in self.brokers.values():
            broker.clock.rate = 1.0 + clocks.uniform(-knobs.drift, knobs.drift)
        for broker in self.brokers.values():
            self.begin_life(broker)
        for client in self.clients:
            self.schedule(knobs.think_s * client.rng.random(), client.wake)
        if knobs.trims:
            self.schedule(1.0 / knobs.trims, self._trim)
        for fault in knobs.faults:
            self.schedule(fault.at_s, self.nemesis.strike, fault)

    # ---------------------------------------------------------------- what a model adds

    @abstractmethod
    def trim(self, broker: B, rng: random.Random) -> None:
        """Let retention cut a commit log somewhere."""

    @abstractmethod
    def ask_probe(self) -> None:
        """Send a message, unless one was acknowledged since the faults have ended."""

    # ---------------------------------------------------------------- the wire

    def transmit(self, sender: int, to: int, message: Any) -> None:
        """Put a message on the wire; the sender's power may fail right behind it."""
        self.network.transmit(self.now, (sender, to), message)
        if self.nemesis.trap_send == sender and not self.healed:
            self.nemesis.trap_send = None
            self.schedule(self.now, self._sprung, self.brokers[sender])

    def deliver(self, sender: int, to: int, message: Any) -> None:
        """See `SimulatedWorld`."""
        self.brokers[to].receive(sender, message)

    def on_stored(self, broker: B) -> None:
        """A client is answered that its message is stored; the broker's power may fail right behind it."""
        if self.nemesis.trap_answer and not self.healed:
            self.nemesis.trap_answer = False
            self.schedule(self.now, self._sprung, broker)

    def _sprung(self, broker: B) -> None:
        if broker.up and not self.healed:
            self.nemesis.sprung(broker)

    # ---------------------------------------------------------------- life and death

    def on_crashed(self, broker: B, error: Exception) -> None:
        """A broker died of its own assertions, or of a bug. One that has read damage begins again, and repairs its copy."""
        if isinstance(error, CorruptLog) and self.knobs.nodes > 1:
            self.counts["starts_for_damage"] += 1
            self.note("has read damage", broker.node)
            broker.store.note_damage()
        else:
            self.report(CRASH, broker.node, f"{type(error).__name__}: {error}")
        self.kill(broker, 1.0)

    def kill(self, broker: B, back_after_s: float) -> None:
        """See `RocketmqVictims`."""
        if not broker.up:
            return
        self.counts["kills"] += 1
        self.note("killed", broker.node)
        broker.kill()
        self.schedule(self.now + back_after_s, self.start, broker)

    def cut_power(self, broker: B, back_after_s: float, *, wipes: bool) -> None:
        """See `RocketmqVictims`."""
        self.counts["power_cuts"] += 1
        self.note("power is cut, and the disk is gone" if wipes else "power is cut", broker.node)
        broker.cut_power()
        self.schedule(self.now + back_after_s, self.start, broker)

    def start(self, broker: B) -> None:
        """See `RocketmqVictims`."""
        if not broker.up:
            self.counts["restarts"] += 1
            self.note("starts", broker.node)
            self.begin_life(broker)

    def begin_life(self, broker: B) -> None:
        """Start a broker that is down. What it cannot start for ends the world."""
        try:
            broker.start()
        except broker.ERRORS as error:
            self.report(CRASH, broker.node, f"cannot start: {type(error).__name__}: {error}")
            self.finished = True

    def _trim(self) -> None:
        if self.healed:
            return
        rng = stream(self.knobs.seed, f"trim/{self.now:.3f}")
        self.schedule(self.now + 1.0 / self.knobs.trims, self._trim)
        broker = self.brokers[rng.choice(list(self.brokers))]
        if broker.up and not broker.paused:
            self.trim(broker, rng)

    # ---------------------------------------------------------------- healing and the end

    def end_faults(self) -> None:
        """See `SimulatedWorld`."""
        self.nemesis.trap_send, self.nemesis.trap_answer = None, False
        for broker in self.brokers.values():
            broker.slowness = 1.0
            broker.clock.steady(self.now)
            if broker.paused:
                broker.resume()
            elif broker.up:
                broker.clock_jumped()
            self.start(broker)
        self.schedule(self.now, self._probe)

    def _probe(self) -> None:
        self.ask_probe()
        self.schedule(self.now + PROBE_EVERY_S, self._probe)

    def all_requests(self) -> Sequence[tuple[int, int]]:
        """See `SimulatedWorld`."""
        return [(client.number, number) for client in self.clients for number in range(1, client.considered + 1)]

    def state_of(self, node: int) -> str:
        """See `SimulatedWorld`."""
        return self.brokers[node].describe() if node else f"{'':<37}"
