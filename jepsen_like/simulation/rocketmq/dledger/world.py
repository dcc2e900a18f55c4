"""A raft group of RocketMQ's brokers with its clients in virtual time.

While the nemesis strikes, clients work; once all faults have ended, one broker must become master and store a message,
and every broker must come to the same commit log, queues and tables.
"""

import random
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from jepsen_like.simulation.kernel.findings import CRASH
from jepsen_like.simulation.kernel.network import SimulatedNetwork
from jepsen_like.simulation.kernel.streams import stream
from jepsen_like.simulation.kernel.tracing import TraceEvent
from jepsen_like.simulation.rocketmq.dledger import requests
from jepsen_like.simulation.rocketmq.dledger.audits import DledgerAudits
from jepsen_like.simulation.rocketmq.dledger.broker import DledgerBroker
from jepsen_like.simulation.rocketmq.dledger.clients import TOPICS, DledgerClient
from jepsen_like.simulation.rocketmq.dledger.messages import DledgerMessage, describe_parcel
from jepsen_like.simulation.rocketmq.dledger.requests import BrokerRequest, RequestKind
from jepsen_like.simulation.rocketmq.group import PROBE_CLIENT, BrokerGroupWorld
from jepsen_like.simulation.rocketmq.nemesis import RocketmqNemesis
from jepsen_like.simulation.rocketmq.stores import DIRECTORY, flip_bits
from rocketmq_compat.remoting.codes import ResponseCode
from rocketmq_compat.remoting.frame import Command


class DledgerWorld(BrokerGroupWorld[DledgerBroker, DledgerClient]):
    """A raft group and everything around it."""

    def build(self) -> None:
        """See `SimulatedWorld`."""
        knobs = self.knobs
        nodes = list(range(1, knobs.nodes + 1))
        self.network: SimulatedNetwork[int, DledgerMessage] = SimulatedNetwork(knobs, nodes, self.post)
        self.brokers: Mapping[int, DledgerBroker] = {node: DledgerBroker(self, knobs, node) for node in nodes}
        self.audits = DledgerAudits(knobs, self.brokers, self.report)
        self.nemesis: RocketmqNemesis[DledgerBroker] = RocketmqNemesis(self, knobs)
        self.clients = [DledgerClient(self, knobs, number) for number in range(1, knobs.clients + 1)]
        self.probe = DledgerClient(self, knobs, PROBE_CLIENT)

    @property
    def master(self) -> int:
        """The broker that became master last, or any."""
        claiming = [broker for broker in self.brokers.values() if broker.claims]
        return max(claiming, key=lambda broker: broker.core.term).node if claiming else 1

    # ---------------------------------------------------------------- the wire

    def deliver(self, sender: int, to: int, message: DledgerMessage) -> None:
        """See `SimulatedWorld`."""
        self.steps += 1
        broker = self.brokers[to]
        if self.observer is not None and broker.up:
            broker.said.append(f"n{sender}: {describe_parcel(message)}")
        broker.take(broker.receive, sender, message)

    def reset_connections(self, broker: DledgerBroker) -> None:
        """See `RocketmqVictims`: what is in flight is lost, and both ends are told."""
        for other in self.brokers.values():
            if other is not broker:
                self.nemesis.counts["resets"] += 1
                self.network.reset((broker.node, other.node))
                self.network.reset((other.node, broker.node))
                broker.take(broker.on_disconnected, other.node)
                other.take(other.on_disconnected, broker.node)

    # ---------------------------------------------------------------- life and death

    def kill(self, broker: DledgerBroker, back_after_s: float) -> None:
        """See `RocketmqVictims`: the others see its connections close."""
        for other in self.brokers.values() if broker.up else ():
            self.schedule(self.now + self.knobs.delay_s, other.take, other.on_disconnected, broker.node)
        super().kill(broker, back_after_s)

    def cut_power(self, broker: DledgerBroker, back_after_s: float, *, wipes: bool) -> None:
        """See `RocketmqVictims`; with ack=page-cache a power cut may cost promises, so processes are killed instead."""
        assert not wipes, "a member that has lost its votes is none"
        if self.knobs.dledger.durable:
            super().cut_power(broker, back_after_s, wipes=False)
        else:
            self.kill(broker, back_after_s)

    def strike_disk(self, broker: DledgerBroker, rng: random.Random, *, vanishes: bool) -> None:
        """See `RocketmqVictims`: a broker's messages, or what is derived from them; its raft log is the group's.

        Only where all others are whole: what has left every raft log is in the commit logs alone.
        """
        if broker.up or not all(each.is_whole for each in self.brokers.values() if each is not broker):
            return
        if self.knobs.nodes == 1:
            return
        disk = broker.disk
        parts = ["commitlog", "commitlog", "dispatched", "copy"]
        if vanishes:  # queues and keys have no checksums: damage in them is found when it is read
            parts += ["consumequeue", "index", ""]
        part = rng.choice(parts)
        paths = [each for each in disk.paths() if each.startswith(f"{DIRECTORY}/{part}") and "/raft" not in each]
        if not paths:
            return
        self.counts["disks_vanished" if vanishes else "disks_damaged"] += 1
        if vanishes:
            self.note(f"loses {part or 'its messages'}", broker.node)
            for path in paths:
                disk.remove(path)
            return
        path = rng.choice(paths)
        self.note(f"has damage in {path}", broker.node)
        flip_bits(disk, path, rng)

    def begin_life(self, broker: DledgerBroker) -> None:
        """See `BrokerGroupWorld`."""
        super().begin_life(broker)
        self.audits.on_started(broker)

    def promote(self, node: int, *, at_once: bool) -> None:
        """See `RocketmqVictims`: the master is cut off, though clients reach it; its successor fails at its return."""
        old, rng = self.master, stream(self.knobs.seed, f"coup/{self.now:.3f}")
        links = [link for link in self.network.links if old in link]
        self.counts["coups"] += 1
        self.note(f"cuts n{old} off")
        self.network.cut(links, holds=rng.random() < 0.5)
        self.schedule(self.now + rng.uniform(1.0, 4.0) * self.knobs.patience_s, self._ends_coup, links, at_once)

    def _ends_coup(self, links: Sequence[tuple[int, int]], at_once: bool) -> None:
        if at_once and not self.healed and self.brokers[self.master].up:
            self.cut_power(self.brokers[self.master], self.knobs.patience_s, wipes=False)
        self.network.heal(self.now, links)

    def trim(self, broker: DledgerBroker, rng: random.Random) -> None:
        """See `BrokerGroupWorld`: delayed messages that wait stay."""
        broker.take(self._trims, broker, rng.random())

    def _trims(self, broker: DledgerBroker, share: float) -> None:
        log = broker.store.log
        if log.end_offset > log.start_offset and not broker.copy.incomplete.is_set():
            before = log.start_offset
            wanted, waiting = before + int(share * 0.6 * (log.end_offset - before)), broker.context.delays_from()
            at = log.start_of_batch(wanted if waiting is None else max(before, min(wanted, waiting)))
            self.counts["commit_logs_trimmed"] += broker.store.trim(at) > before

    # ---------------------------------------------------------------- what brokers do

    def on_answered(self, broker: DledgerBroker, request: BrokerRequest, answer: Command) -> None:
        """A client is answered."""
        self.audits.on_answered(broker, request, answer)
        if request.kind is RequestKind.SEND and answer.code == ResponseCode.SUCCESS:
            self.on_stored(broker)

    def on_round_end(self, broker: DledgerBroker) -> None:
        """A round has ended."""
        if self.observer is not None and broker.said:
            first, *rest = broker.said
            self.observer(TraceEvent(self.now, f"n{broker.node}", first, broker.describe(), "; ".join(rest)))
        broker.said.clear()
        self.audits.on_round_end(broker)

    # ---------------------------------------------------------------- healing and the end

    def ask_probe(self) -> None:
        """See `BrokerGroupWorld`."""
        if not self.probe.acknowledged:
            self.probe.ask(requests.send(TOPICS[0], 0, [self.probe.body()]))

    def open_conditions(self) -> Sequence[str]:
        """See `SimulatedWorld`."""
        missing: list[str] = []
        if sum(broker.claims for broker in self.brokers.values()) != 1:
            missing.append("there is not one master")
        if not self.probe.acknowledged:
            missing.append("no message was acknowledged")
        if self.audits.owed_deliveries():
            missing.append(f"{self.audits.owed_deliveries()} delayed messages were not delivered")
        for broker in self.brokers.values():
            missing += self.audits.differences(broker) if broker.up else [f"broker {broker.node} is down"]
        return missing

    def judge(self) -> None:
        """See `SimulatedWorld`."""
        if self.finished and not any(each.oracle in ("V-liveness", CRASH) for each in self.violations):
            self.audits.judge(self.master)

    # ---------------------------------------------------------------- sums

    def totals(self) -> Counter[str]:
        """See `SimulatedWorld`: by names of their own."""
        totals = self.counts + self.network.counts + self.nemesis.counts + self.audits.counts
        return Counter({f"raft_{name}": count for name, count in totals.items()}) + Counter(raft_worlds=1)

    def outcome(self) -> Iterator[object]:
        """See `SimulatedWorld`."""
        yield bytes(self.audits.truth.content)
        for node, broker in self.brokers.items():
            yield node, broker.lives, broker.core.term
        for client in self.clients:
            yield sorted(client.outcomes.items())
