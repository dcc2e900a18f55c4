"""A producer and a consumer of one topic in each of two Kafka clusters, around clients that you bring.

The clients have the methods of confluent-kafka. Everything is called from one thread; callbacks come within `poll` and
`flush`. Producers should not try again by themselves (`retries=0`), for this moves on to the other cluster instead.
Which attempts are made, and what becomes of what is read, is decided in `raft.two_topics`.
"""

import collections
import time
from collections.abc import Callable, Sequence
from typing import Any, Final, Protocol

import attrs

from raft.two_topics.dispatch import Dispatch, OnDone, Outgoing
from raft.two_topics.envelope import Envelope
from raft.two_topics.receiving import PairInbox, Policy, Take
from raft.two_topics.sending import SIDES, Alternate, Hedge

STEP_S: Final = 0.01
"""One client of two is waited for so long at a time."""


class KafkaProducer(Protocol):
    """The methods of `confluent_kafka.Producer` that are used."""

    def produce(self, topic: str, value: bytes, **settings: Any) -> None:
        """Take a message: `key`, `headers` and `on_delivery` are given."""

    def poll(self, timeout: float) -> int:
        """Call what is due."""


class KafkaConsumer(Protocol):
    """The methods of `confluent_kafka.Consumer` that are used."""

    def poll(self, timeout: float) -> Any:
        """Returns the next message, or None."""


class TwoTopicsProducer:
    """Sends each message to one of two clusters, or to both, as its policy decides.

    `refusals` are the errors with which `produce` takes nothing; add `confluent_kafka.KafkaException`.
    """

    def __init__(
        self,
        producers: Sequence[KafkaProducer],
        topic: str,
        policy: Alternate | Hedge,
        *,
        writer: str,
        refusals: tuple[type[Exception], ...] = (BufferError,),
    ) -> None:
        if len(producers) != len(SIDES):
            raise ValueError(f"two clusters need two producers, not {len(producers)}")
        self._producers = tuple(producers)
        self._topic = topic
        self._refusals = refusals
        self._refused: list[tuple[int, int]] = []
        self._dispatch = Dispatch(policy, writer, self._attempt)

    def send(self, value: bytes, *, key: bytes | None = None, on_done: OnDone | None = None) -> int:
        """Send a message. Returns its number; `on_done` is called with that and the cluster that has it, or None."""
        return self._dispatch.send(value, key, on_done)

    def poll(self, timeout: float = 0.0) -> int:
        """Wait for answers, at most so long, and move on where they fail. Returns how many messages have not ended."""
        end = time.monotonic() + timeout
        while True:
            for producer in self._producers:
                producer.poll(min(STEP_S, self._dispatch.left_s(max(0.0, end - time.monotonic()))))
            for number, side in self._take_refused():
                self._dispatch.answer(number, side, is_ok=False)
            self._dispatch.pass_time()
            left = self._dispatch.open_messages
            if not left or time.monotonic() >= end:
                return left

    def flush(self, timeout: float) -> int:
        """Wait until all messages have ended, at most so long. Returns how many have not."""
        return self.poll(timeout)

    def _attempt(self, side: int, message: Outgoing) -> None:
        headers = [(name, value.encode()) for name, value in message.headers.items()]

        def on_delivery(error: Any, record: Any) -> None:
            self._dispatch.answer(message.number, side, is_ok=error is None)

        try:
            self._producers[side].produce(
                self._topic, message.value, key=message.key, headers=headers, on_delivery=on_delivery
            )
        except self._refusals:
            self._refused.append((message.number, side))

    def _take_refused(self) -> list[tuple[int, int]]:
        refused, self._refused = self._refused, []
        return refused


@attrs.frozen(kw_only=True)
class Received:
    """A message of confluent-kafka, the cluster that it comes from, and what becomes of it."""

    message: Any
    side: int
    take: Take


class TwoTopicsConsumer:
    """Reads both clusters. The consumers are subscribed, and commit what they read, as you have set them."""

    def __init__(
        self, consumers: Sequence[KafkaConsumer], policy: Policy, *, wall: Callable[[], float] = time.time
    ) -> None:
        if len(consumers) != len(SIDES):
            raise ValueError(f"two clusters need two consumers, not {len(consumers)}")
        self.counts: collections.Counter[Take] = collections.Counter()
        """All messages so far, by what has become of them."""
        self._consumers = tuple(consumers)
        self._inbox = PairInbox(policy)
        self._wall = wall
        self._turn = 0

    def poll(self, timeout: float = 0.0) -> Received | None:
        """Returns the next message of any cluster, after so long None.

        Doubles and what is dropped are returned, too, so that you can see them: work on `Take.GIVE`, and make up for
        `Take.COMPENSATE`. Raises `ForeignMessage` for one that no `TwoTopicsProducer` wrote.
        """
        end = time.monotonic() + timeout
        while True:
            for _ in SIDES:
                self._turn = 1 - self._turn
                message = self._consumers[self._turn].poll(max(0.0, min(STEP_S, end - time.monotonic())))
                if message is not None and message.error() is None:
                    return self._take(message, self._turn)
            if time.monotonic() >= end:
                return None

    def _take(self, message: Any, side: int) -> Received:
        headers = {name: (value or b"").decode(errors="replace") for name, value in message.headers() or ()}
        take = self._inbox.take(round(self._wall() * 1e3), Envelope.of(headers), message.key())
        self.counts[take] += 1
        return Received(message=message, side=side, take=take)
