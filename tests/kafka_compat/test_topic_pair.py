"""The shell around Kafka's clients: it sends what the decider orders, gives answers back, and reads both clusters."""

from typing import Any

import attrs
import pytest

from kafka_compat.topic_pair import TwoTopicsConsumer, TwoTopicsProducer
from raft.two_topics import Alternate, Compensate, Envelope, ForeignMessage, Hedge, Replay, Take

FAST = Alternate(attempt_s=0.5, avoid_s=60.0)


@attrs.define(eq=False)
class FakeProducer:
    """Acknowledges, refuses, fails or stays silent."""

    does: str = "acknowledge"
    produced: list[dict[str, Any]] = attrs.field(factory=list)
    due: list[Any] = attrs.field(factory=list)

    def produce(self, topic: str, value: bytes, **settings: Any) -> None:
        if self.does == "refuse":
            raise BufferError
        self.produced.append({"topic": topic, "value": value, **settings})
        if self.does != "stay silent":
            self.due.append(settings["on_delivery"])

    def poll(self, timeout: float) -> int:
        while self.due:
            self.due.pop(0)(None if self.does == "acknowledge" else "failed", None)
        return 0


def envelopes(producer: FakeProducer) -> list[Envelope]:
    """Of all that a client was given."""
    return [Envelope.of({name: value.decode() for name, value in each["headers"]}) for each in producer.produced]


@pytest.mark.parametrize("does", ["refuse", "fail", "stay silent"])
def test_every_message_is_acknowledged_by_the_other_cluster_where_one_is_lost(does: str) -> None:
    lost, other = FakeProducer(does), FakeProducer()
    producer = TwoTopicsProducer([lost, other], "orders", FAST, writer="shop")
    done: dict[int, int | None] = {}
    for number in range(10):
        producer.send(b"value %d" % number, on_done=done.__setitem__)
    assert producer.flush(5.0) == 0
    assert done == dict.fromkeys(range(1, 11), 1)
    assert sorted(each.number for each in envelopes(other)) == list(range(1, 11))
    assert {each.writer for each in envelopes(other)} == {"shop"}
    assert other.produced[0]["topic"] == "orders"
    assert len(lost.produced) <= 5


def test_a_message_that_no_cluster_takes_is_reported() -> None:
    producer = TwoTopicsProducer([FakeProducer("fail"), FakeProducer("refuse")], "orders", FAST, writer="shop")
    done: dict[int, int | None] = {}
    producer.send(b"value", key=b"key", on_done=done.__setitem__)
    assert producer.flush(5.0) == 0
    assert done == {1: None}


def test_a_hedge_sends_the_same_message_to_both() -> None:
    both = [FakeProducer(), FakeProducer()]
    producer = TwoTopicsProducer(both, "orders", Hedge(), writer="shop")
    producer.send(b"value", key=b"key")
    assert producer.flush(5.0) == 0
    assert [[each.number for each in envelopes(one)] for one in both] == [[1], [1]]
    assert [one.produced[0]["key"] for one in both] == [b"key", b"key"]


class FakeMessage:
    """As a consumer gives it."""

    def __init__(self, envelope: Envelope | None, key: bytes | None = b"key", error: str | None = None) -> None:
        self._envelope, self._key, self._error = envelope, key, error

    def headers(self) -> list[tuple[str, bytes]] | None:
        return [(name, value.encode()) for name, value in self._envelope.headers().items()] if self._envelope else None

    def key(self) -> bytes | None:
        return self._key

    def error(self) -> str | None:
        return self._error


class FakeConsumer:
    """Gives these messages, then nothing."""

    def __init__(self, *messages: FakeMessage) -> None:
        self._messages = list(messages)

    def poll(self, timeout: float) -> FakeMessage | None:
        return self._messages.pop(0) if self._messages else None


def letter(number: int) -> FakeMessage:
    """A message of the writer."""
    return FakeMessage(Envelope(writer="shop", number=number, epoch=1, sent_ms=0))


def test_both_clusters_are_read_and_each_message_is_given_once() -> None:
    broken = FakeMessage(None, error="the broker is away")
    consumer = TwoTopicsConsumer(
        [FakeConsumer(letter(1), broken, letter(3)), FakeConsumer(letter(1), letter(2))], Replay()
    )
    read = [received for _ in range(4) if (received := consumer.poll(1.0)) is not None]
    assert {received.side for received in read} == {0, 1}
    assert consumer.counts == {Take.GIVE: 3, Take.DOUBLE: 1}
    assert consumer.poll(0.0) is None


def test_what_comes_too_late_is_shown_with_what_the_policy_says() -> None:
    consumer = TwoTopicsConsumer([FakeConsumer(letter(1)), FakeConsumer(letter(2))], Compensate())
    assert [received.take for _ in range(2) if (received := consumer.poll(1.0))] == [Take.GIVE, Take.COMPENSATE]


def test_a_message_of_another_program_is_an_error() -> None:
    with pytest.raises(ForeignMessage):
        TwoTopicsConsumer([FakeConsumer(FakeMessage(None)), FakeConsumer()], Replay()).poll(1.0)


def test_there_are_two_clusters() -> None:
    with pytest.raises(ValueError, match="two producers, not 1"):
        TwoTopicsProducer([FakeProducer()], "orders", FAST, writer="shop")
    with pytest.raises(ValueError, match="two consumers, not 3"):
        TwoTopicsConsumer([FakeConsumer()] * 3, Replay())
