"""Clients of a simulated raft group: each sends messages and consumes in its own group, with few requests open."""

from collections import Counter
from collections.abc import Callable
from typing import TYPE_CHECKING

import attrs

from jepsen_like.simulation.kernel.streams import stream
from jepsen_like.simulation.rocketmq.dledger import requests
from jepsen_like.simulation.rocketmq.dledger.requests import BrokerRequest, RequestKind
from jepsen_like.simulation.rocketmq.process import QUEUES
from jepsen_like.simulation.rocketmq.swarm import RocketmqKnobs
from rocketmq_compat.remoting.codes import ResponseCode
from rocketmq_compat.remoting.frame import Command
from rocketmq_compat.remoting.headers.pulling import PullMessageResponseHeader

if TYPE_CHECKING:
    from jepsen_like.simulation.rocketmq.dledger.world import DledgerWorld

TOPICS = ("T0", "T1")
DELETED_TOPIC = "D"
SELDOM_TOPIC = "S"


@attrs.define(eq=False)
class _Open:
    request: BrokerRequest
    node: int
    is_open: bool = True


class DledgerClient:
    """One client."""

    def __init__(self, host: "DledgerWorld", knobs: RocketmqKnobs, number: int) -> None:
        self.number = number
        self.considered = 0
        self.outcomes: Counter[str] = Counter()
        self.acknowledged = 0
        self.rng = stream(knobs.seed, f"client/{number}")
        self._host = host
        self._knobs = knobs
        self._group = f"g{number}"
        self._target = 1
        self._open = 0
        self._sent = 0
        self._created = 0
        self._read: dict[tuple[str, int], int] = {}
        """The offset up to which it has consumed each queue."""
        self._busy: set[RequestKind] = set()
        """Of the kinds of which one is open at a time."""

    def wake(self) -> None:
        """Ask something if not too much is open, and wake again."""
        host, knobs = self._host, self._knobs
        if host.healed:
            return
        host.schedule(host.now + knobs.think_s * (0.3 + self.rng.expovariate(1.0)), self.wake)
        if self._open >= knobs.burst:
            return
        self.considered += 1
        draw, topic, queue = self.rng.random(), self.rng.choice(TOPICS), self.rng.randrange(QUEUES)
        if (self.number, self.considered) not in knobs.unasked:
            request = self._draw_request(draw, topic, queue)
            if request is not None:
                self.ask(request)

    def _draw_request(self, draw: float, topic: str, queue: int) -> BrokerRequest | None:
        dledger, consumes = self._knobs.dledger, self._knobs.consumes
        if draw < consumes:
            return self._consume(draw / consumes, topic, queue)
        draw = self.rng.random()
        if draw < dledger.administers:
            if self.number == 1 and self.rng.random() < 0.5:
                return requests.delete(DELETED_TOPIC)
            self._created += 1
            return requests.create(f"C{self.number}_{self._created}")
        if self.number == 1 and self.rng.random() < dledger.administers:
            topic = DELETED_TOPIC
        elif self._knobs.seldom and self.rng.random() < self._knobs.seldom:
            topic = SELDOM_TOPIC
        level = timer_ms = 0
        if self.rng.random() < dledger.delayed and topic != DELETED_TOPIC:
            level = self.rng.choice((1, 2, requests.TIMER_LEVEL))
            if level == requests.TIMER_LEVEL:
                timer_ms = self.rng.randint(1, self.rng.choice((30, 3000)))
        count = 1 if level or self.rng.random() < 0.7 else self.rng.randint(2, 4)
        return requests.send(topic, queue, [self.body() for _ in range(count)], level=level, timer_ms=timer_ms)

    def _consume(self, draw: float, topic: str, queue: int) -> BrokerRequest | None:
        at = self._read.get((topic, queue), 0)
        if draw < 0.5 and RequestKind.PULL not in self._busy:
            return requests.pull(self._group, topic, queue, at, waits=self.rng.random() < 0.3)
        if draw < 0.85 and RequestKind.COMMIT not in self._busy:
            return requests.commit(self._group, topic, queue, at)
        return requests.query(self._group, topic, queue)

    def body(self) -> bytes:
        """The next message."""
        self._sent += 1
        text = f"<{self.number}.{self._sent}"
        return text.ljust(self.rng.randint(1, self._knobs.record_bytes_max), ".").encode() + b">"

    def ask(self, request: BrokerRequest) -> None:
        """Send a request to where the master is thought to be; now and then to any broker."""
        host, knobs, rng = self._host, self._knobs, self.rng
        host.requests += 1
        self._open += 1
        self._busy.add(request.kind)
        is_lost = not host.healed and rng.random() < knobs.lost_clients
        node = rng.choice(list(host.brokers)) if is_lost else self._target
        asked = _Open(request, node)
        self._carry(self._arrives, asked)
        host.schedule(host.now + knobs.request_s, self._ends, asked, None)

    def _carry(self, action: Callable[..., None], *arguments: object) -> None:
        self._host.schedule(self._host.now + self._knobs.delay_s * (0.5 + self.rng.random()), action, *arguments)

    def _arrives(self, asked: _Open) -> None:
        broker = self._host.brokers[asked.node]
        if broker.up:
            broker.take(broker.serve, asked.request, lambda answer: self._carry(self._ends, asked, answer))
        else:
            self._carry(self._on_refused, asked)

    def _on_refused(self, asked: _Open) -> None:
        """Its connection was refused."""
        if asked.is_open:
            self._end(asked, "unreached")
            self._target = self.rng.choice(list(self._host.brokers))

    def _ends(self, asked: _Open, answer: Command | None) -> None:
        if not asked.is_open:
            return
        if answer is None:
            self._end(asked, "unknown")
            self._target = self.rng.choice(list(self._host.brokers))
            return
        is_ok = answer.code == ResponseCode.SUCCESS
        self._end(asked, "ok" if is_ok else "refused")
        if answer.code == ResponseCode.SERVICE_NOT_AVAILABLE:
            leader = self._host.brokers[asked.node]
            self._target = (leader.copy.leader if leader.up else None) or self.rng.choice(list(self._host.brokers))
        if asked.request.kind is RequestKind.SEND and is_ok:
            self.acknowledged += 1
        if asked.request.kind is RequestKind.PULL and is_ok:
            place = asked.request.topic, asked.request.queue
            found = PullMessageResponseHeader.read(answer.ext)
            self._read[place] = max(self._read.get(place, 0), found.next_begin_offset)

    def _end(self, asked: _Open, outcome: str) -> None:
        asked.is_open = False
        self._open -= 1
        self._busy.discard(asked.request.kind)
        self.outcomes[f"{asked.request.kind.value}_{outcome}"] += 1
        self._host.counts[f"asked_{outcome}"] += 1
