"""The shell around RocketMQ's clients: threads send what the decider orders, and one that hangs holds up nothing else."""

import threading
from collections.abc import Mapping

import pytest

from raft.two_topics import Alternate, Compensate, Envelope, ForeignMessage, Hedge, Replay, Take
from rocketmq_compat.topic_pair import TwoTopicsListener, TwoTopicsProducer

FAST = Alternate(attempt_s=1.0, avoid_s=60.0)


class FakeCluster:
    """Stores messages, unless it is lost: then it fails, or hangs until it is let go."""

    def __init__(self, *, fails: bool = False, hangs: bool = False) -> None:
        self.stored: list[int] = []
        self.let_go = threading.Event()
        self._fails, self._hangs = fails, hangs

    def send(self, body: bytes, keys: bytes | None, properties: Mapping[str, str]) -> None:
        if self._hangs:
            self.let_go.wait(30.0)
        if self._fails:
            raise ConnectionError
        self.stored.append(Envelope.of(properties).number)


@pytest.mark.parametrize("how", ["fails", "hangs"])
def test_every_message_is_stored_by_the_other_cluster_where_one_is_lost(how: str) -> None:
    lost, other = FakeCluster(**{how: True}), FakeCluster()
    producer = TwoTopicsProducer([lost.send, other.send], FAST, writer="shop", threads=2)
    done: dict[int, int | None] = {}
    for number in range(20):
        producer.send(b"body %d" % number, on_done=done.__setitem__)
    assert producer.flush(5.0) == 0
    assert done == dict.fromkeys(range(1, 21), 1)
    assert sorted(other.stored) == list(range(1, 21))
    producer.close()
    lost.let_go.set()


def test_what_waited_for_a_thread_of_a_lost_cluster_is_not_sent_once_the_other_has_it() -> None:
    lost, other = FakeCluster(hangs=True), FakeCluster()
    producer = TwoTopicsProducer([lost.send, other.send], Hedge(), writer="shop", threads=1)
    for _ in range(5):
        producer.send(b"body", keys=b"key")
    assert producer.flush(5.0) == 0
    lost.let_go.set()
    for threads in producer._threads:
        threads.shutdown(wait=True)
    assert len(lost.stored) == 1
    assert sorted(other.stored) == [1, 2, 3, 4, 5]


def test_a_message_that_no_cluster_stores_is_reported() -> None:
    clusters = [FakeCluster(fails=True), FakeCluster(fails=True)]
    producer = TwoTopicsProducer([cluster.send for cluster in clusters], FAST, writer="shop")
    done: dict[int, int | None] = {}
    producer.send(b"body", on_done=done.__setitem__)
    assert producer.flush(5.0) == 0
    assert done == {1: None}
    producer.close()


def test_a_listener_gives_each_message_once_and_says_what_comes_too_late() -> None:
    one, two = (Envelope(writer="shop", number=number, epoch=1, sent_ms=0).headers() for number in (1, 2))
    listener = TwoTopicsListener(Compensate())
    assert [listener.take(each, b"key") for each in (two, two, one)] == [Take.GIVE, Take.DOUBLE, Take.COMPENSATE]
    assert listener.counts == {Take.GIVE: 1, Take.DOUBLE: 1, Take.COMPENSATE: 1}


def test_threads_of_both_clusters_may_listen_at_once() -> None:
    listener = TwoTopicsListener(Replay())
    marks = [Envelope(writer="shop", number=number, epoch=1, sent_ms=0).headers() for number in range(500)]
    threads = [threading.Thread(target=lambda: [listener.take(each, None) for each in marks]) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert listener.counts == {Take.GIVE: 500, Take.DOUBLE: 1500}


def test_wrong_uses_are_refused() -> None:
    with pytest.raises(ValueError, match="two senders, not 1"):
        TwoTopicsProducer([FakeCluster().send], FAST, writer="shop")
    with pytest.raises(ForeignMessage):
        TwoTopicsListener(Replay()).take({}, None)
