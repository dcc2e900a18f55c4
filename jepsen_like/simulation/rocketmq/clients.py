"""Clients of a simulated broker group: each sends records, each once, and draws from a stream of its own."""

import enum
from collections.abc import Callable
from typing import TYPE_CHECKING

import attrs

from jepsen_like.simulation.kernel.streams import stream
from jepsen_like.simulation.rocketmq.process import QUEUES
from jepsen_like.simulation.rocketmq.swarm import RocketmqKnobs
from rocketmq_compat.broker.puts import PutOutcome, StoredMessages
from rocketmq_compat.replication.acks import SendStatus

if TYPE_CHECKING:
    from jepsen_like.simulation.rocketmq.world import RocketmqWorld


class PutState(enum.Enum):
    """The state of a record as its client knows it."""

    OPEN = "open"
    OK = "ok"
    WEAK = "weak"
    """Stored, with a weaker promise than the mode's."""
    FAILED = "failed"
    UNKNOWN = "unknown"


@attrs.define(eq=False)
class SentRecord:
    """A message of a client; `offset` is where it was stored, -1 if that is not known."""

    body: bytes
    wait: bool
    state: PutState = PutState.OPEN
    offset: int = -1


class RocketmqClient:
    """One client."""

    def __init__(self, world: "RocketmqWorld", knobs: RocketmqKnobs, number: int) -> None:
        self.number = number
        self.sent: list[SentRecord] = []
        self.considered = 0
        self.rng = stream(knobs.seed, f"client/{number}")
        self._world = world
        self._knobs = knobs

    def wake(self) -> None:
        """Send a record if not too many are open, and wake again."""
        world, knobs = self._world, self._knobs
        if world.healed:
            return
        world.schedule(world.now + knobs.think_s * (0.3 + self.rng.expovariate(1.0)), self.wake)
        if sum(each.state is PutState.OPEN for each in self.sent[-20:]) < knobs.burst:
            self.considered += 1
            if (self.number, self.considered) in knobs.unasked:
                return
            if knobs.consumes and self.rng.random() < knobs.consumes:
                broker = world.brokers[self.rng.choice(list(world.brokers))]
                broker.take(broker.consume, self.rng.randrange(QUEUES), self.rng.random())
            else:
                self.put()

    def put(self, *, plainly: bool = False) -> SentRecord:
        """Send one record to the master, or to another broker; `plainly` always to the master, and waiting."""
        world, knobs, rng = self._world, self._knobs, self.rng
        world.requests += 1
        text = f"<{self.number}.{len(self.sent) + 1}"
        body = text.ljust(rng.randint(1, knobs.record_bytes_max), ".").encode() + b">"
        sent = SentRecord(body, plainly or rng.random() >= knobs.unwaited)
        self.sent.append(sent)
        node = world.master
        if not plainly and rng.random() < knobs.lost_clients:
            node = rng.choice(list(world.brokers))
        broker = world.brokers[node]
        self._carry(plainly, broker.take, broker.put, body, sent.wait, lambda outcome: self._on_answered(sent, outcome))
        world.schedule(world.now + knobs.request_s, self._gives_up, sent)
        return sent

    def _carry(self, plainly: bool, action: Callable[..., None], *arguments: object) -> None:
        """A request or an answer travels."""
        world, knobs, rng = self._world, self._knobs, self.rng
        delay_s = knobs.delay_s * (0.5 + rng.random())
        if not plainly and rng.random() < knobs.late:
            if rng.random() < 0.5:
                return
            delay_s += 3 * knobs.request_s * rng.random()
        world.schedule(world.now + delay_s, action, *arguments)

    def _on_answered(self, sent: SentRecord, outcome: PutOutcome) -> None:
        self._carry(self._world.healed, self._learns, sent, outcome)

    def _learns(self, sent: SentRecord, outcome: PutOutcome) -> None:
        if isinstance(outcome, StoredMessages):
            sent.offset = outcome.physical_offsets[0]
            sent.state = PutState.OK if outcome.status is SendStatus.SEND_OK else PutState.WEAK
        else:
            sent.state = PutState.FAILED
        self._world.counts[f"puts_{sent.state.value}"] += 1

    def _gives_up(self, sent: SentRecord) -> None:
        if sent.state is PutState.OPEN:
            sent.state = PutState.UNKNOWN
            self._world.counts["puts_unknown"] += 1
