"""Work in the disk thread, and calls to other brokers: each ends once, also when it fails."""

import random
from contextlib import closing
from typing import Any

import attrs
import trio

from kafka_compat.broker.peers import PeerClient, PeerFailed
from kafka_compat.broker.reporter import Reporter
from kafka_compat.model import TopicPartition
from kafka_compat.partition.effects import HighWatermarkMoved, PartitionRole, PartitionRoleChanged
from kafka_compat.protocol.apis.metadata import METADATA, MetadataRequest
from raft.disk_thread import DiskThread
from raft.net.reactor import Reactor
from raft.net.running_clock import RunningClock
from tests.kafka_compat.broker.world import OWN, world
from tests.ports import free_addresses


def test_work_is_done_in_order_and_its_errors_are_given_to_the_loop() -> None:
    with closing(Reactor()) as reactor:
        disk = DiskThread(reactor)
        done: list[BaseException | None] = []
        order: list[int] = []
        disk.submit(lambda: order.append(1), done.append)
        disk.submit(lambda: [][0], done.append)
        disk.submit(lambda: order.append(2), done.append)
        disk.close()
        disk.close()
        assert order == [1, 2]
        assert [type(each) for each in done] == [type(None), IndexError, type(None)]


async def call_once(address: tuple[str, int], timeout_s: float) -> Any:
    """Returns the outcome of one call."""
    with closing(Reactor()) as reactor:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(reactor.run)
            peer = PeerClient(reactor, address, "x", RunningClock(trio.current_time), random.Random(1))
            nursery.start_soon(peer.run)
            with trio.fail_after(10):
                outcome = await peer.ask(METADATA, 9, MetadataRequest(topics=None), timeout_s=timeout_s)
            nursery.cancel_scope.cancel()
    return outcome


async def test_a_call_to_a_port_where_no_one_listens_certainly_was_not_sent() -> None:
    outcome = await call_once(free_addresses(1)[0], 5)
    assert isinstance(outcome, PeerFailed)
    assert not outcome.was_sent


async def test_a_call_that_is_not_answered_in_time_may_have_been_carried_out() -> None:
    (listener,) = await trio.open_tcp_listeners(0, host="127.0.0.1")
    outcome = await call_once(listener.socket.getsockname(), 0.2)
    await listener.aclose()
    assert isinstance(outcome, PeerFailed)
    assert outcome.was_sent
    assert "in time" in outcome.reason


def test_high_watermarks_are_reported_at_intervals_and_those_of_leaders_only() -> None:
    events: list[tuple[str, dict[str, Any]]] = []
    with world() as broker:
        broker.topic("t")
        reporter = Reporter(broker.context, lambda name, **fields: events.append((name, fields)))
        hosted = broker.replicas.hosted[TopicPartition("t", 0)]
        reporter.replica(hosted, PartitionRoleChanged(PartitionRole.LEADER, 1, 0, 0))
        for offset in range(5):
            hosted.high_watermark = offset
            reporter.replica(hosted, HighWatermarkMoved(offset))
            reporter.tick(broker.now)
        assert [fields["offset"] for name, fields in events if name == "high_watermark"] == [0]
        broker.now = reporter.deadline
        reporter.tick(broker.now)
        assert [fields["offset"] for name, fields in events if name == "high_watermark"] == [0, 4]
        assert reporter.deadline == float("inf")
        reporter.replica(hosted, HighWatermarkMoved(5))
        reporter.forget(hosted)
        assert reporter.deadline == float("inf")


def test_a_changed_isr_or_elr_is_reported_once_with_both() -> None:
    events: list[tuple[list[int], list[int]]] = []
    with world() as broker:
        broker.topic("t", replicas=(OWN, 2))
        reporter = Reporter(broker.context, lambda name, **fields: events.append((fields["isr"], fields["elr"])))
        partition = TopicPartition("t", 0)
        hosted = broker.replicas.hosted[partition]
        whole = broker.context.image.partition(partition)
        assert whole is not None
        shrunk = attrs.evolve(whole, isr=(OWN,), elr=(2,))
        for state in (whole, shrunk, shrunk, attrs.evolve(shrunk, elr=()), whole):
            reporter.state(hosted, state)
        assert events == [([OWN, 2], []), ([OWN], [2]), ([OWN], []), ([OWN, 2], [])]
        assert (reporter.shrinks, reporter.expands) == (1, 1)
