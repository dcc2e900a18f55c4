"""The operator of a simulated broker group: who promotes a slave, and decides when logs diverge."""

import random
from collections import Counter
from typing import TYPE_CHECKING

from jepsen_like.simulation.kernel.streams import stream
from jepsen_like.simulation.rocketmq.broker import GroupBroker
from jepsen_like.simulation.rocketmq.swarm import RocketmqKnobs
from rocketmq_compat.replication.events import DivergenceDiscarded, LossAccepted
from rocketmq_compat.replication.master import Master
from rocketmq_compat.replication.slave import Slave

if TYPE_CHECKING:
    from jepsen_like.simulation.rocketmq.world import RocketmqWorld

LOOKS_PER_DECISION = 4
RESTART_S = 0.1


class SimulatedOperator:
    """Looks at the brokers from time to time."""

    def __init__(self, world: "RocketmqWorld", knobs: RocketmqKnobs) -> None:
        self.counts: Counter[str] = Counter()
        self._world = world
        self._knobs = knobs
        self._rng: random.Random = stream(knobs.seed, "operator")

    def look(self) -> None:
        """Decide about a divergence, if there is one and it is time."""
        world = self._world
        world.schedule(world.now + self._knobs.decide_s / LOOKS_PER_DECISION, self.look)
        master = world.brokers[world.master]
        slaves = [each for each in world.brokers.values() if each.up and not each.paused and self._diverges(each)]
        impatience = 0.0 if master.is_sure or world.healed else self._knobs.impatience
        if impatience and self._rng.random() < impatience:
            self._go_on(master)
            return
        if not slaves or not master.up or (not world.healed and self._rng.random() > 1 / LOOKS_PER_DECISION):
            return
        slave = self._rng.choice(slaves)
        if world.healed:
            self._discard(slave)
            return
        match self._rng.choice(("discard", "discard", "accept", "wipe", "promote")):
            case "discard":
                self._discard(slave)
            case "accept" if self._is_blocked(master):
                self._accept(master)
            case "wipe":
                self.counts["slaves_wiped"] += 1
                world.wipe(slave)
            case "promote":
                self.promote(slave.node, at_once=True)
            case _:
                pass

    def _go_on(self, master: GroupBroker) -> None:
        """Take no more account of what the master has had, or may have had."""
        others = [each.node for each in self._world.brokers.values() if each.up and each is not master]
        if master.up and self._rng.random() < 0.5:
            self._accept(master)
        elif others:
            self.promote(self._rng.choice(others), at_once=True)

    def _accept(self, master: GroupBroker) -> None:
        self.counts["losses_accepted"] += 1
        self._world.note("an operator accepts the loss", master.node)
        master.take(master.report, LossAccepted())

    def _discard(self, slave: GroupBroker) -> None:
        self.counts["divergences_discarded"] += 1
        self._world.note("an operator gives up what diverges", slave.node)
        slave.take(slave.report, DivergenceDiscarded())

    @staticmethod
    def _diverges(broker: GroupBroker) -> bool:
        role = broker.replica.role
        return isinstance(role, Slave) and role.diverges_at is not None

    @staticmethod
    def _is_blocked(broker: GroupBroker) -> bool:
        role = broker.replica.role
        return isinstance(role, Master) and role.is_blocked

    def promote(self, node: int, *, at_once: bool) -> None:
        """This broker is the master from now on; the old one stops, `at_once` or later, and comes back as a slave."""
        world = self._world
        old = world.brokers[world.master]
        if node == old.node:
            return
        self.counts["promotions"] += 1
        world.note("is promoted by an operator", node)
        world.master = node
        world.audits.operator_decided()
        for broker in list(world.brokers.values()):
            if broker is not old and broker.up:
                world.kill(broker, RESTART_S * (1 + self._rng.random()))
        if at_once:
            self._stop(old, old.process)
        else:
            self.counts["two_masters"] += 1
            world.schedule(world.now + self._knobs.silence_s * self._rng.random(), self._stop, old, old.process)

    def _stop(self, broker: GroupBroker, process: int) -> None:
        if broker.up and broker.process == process:
            self._world.kill(broker, RESTART_S)
