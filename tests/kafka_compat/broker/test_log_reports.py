"""A broker's reports of its logs before it serves, and for elections that compare logs."""

import random
from collections.abc import Callable
from typing import Any

import attrs
import pytest

from kafka_compat.broker import log_reports
from kafka_compat.broker.controller_link import CommandFailed
from kafka_compat.broker.full_disk import AGAIN_S
from kafka_compat.broker.log_reports import RETRY_S, LogReports
from kafka_compat.controller.commands import Acknowledged, CommandResult, LogReport, ReportLogs
from kafka_compat.controller.image import TopicImage
from kafka_compat.model import NO_LEADER, PartitionState, TopicPartition
from kafka_compat.protocol.error_codes import KafkaErrorCode
from log.memory_disk import MemoryDisk
from tests.kafka_compat.broker.world import OWN, World, world

MISSING = "its log is missing"


@attrs.define
class Controller:
    """Keeps commands until a test answers them."""

    sent: list[tuple[ReportLogs, Callable[[CommandResult | CommandFailed], None]]] = attrs.field(factory=list)

    def send(self, command: ReportLogs, done: Callable[[CommandResult | CommandFailed], None]) -> None:
        self.sent.append((command, done))

    def take(self) -> tuple[tuple[LogReport, ...], Callable[[CommandResult | CommandFailed], None]]:
        ((command, done),) = self.sent
        self.sent.clear()
        assert (command.broker, command.epoch) == (OWN, 1)
        return command.partitions, done


@attrs.define
class Reporting:
    """Reports of one broker that has just registered, with partitions of topic `t` whose logs are missing."""

    broker: World
    reports: LogReports
    controller: Controller
    events: list[tuple[str, dict[str, Any]]] = attrs.field(factory=list)

    @classmethod
    def of(cls, broker: World, count: int, **state: Any) -> "Reporting":
        events: list[tuple[str, dict[str, Any]]] = []
        reports = LogReports(
            broker.context, broker.store, broker.replicas, lambda event, **fields: events.append((event, fields))
        )
        controller = Controller()
        broker.context.controller = controller  # type: ignore[assignment]
        assigned: dict[TopicPartition, PartitionState] = {}
        drawn = broker.context.rng.getstate()
        topic_id = broker.context.new_id()
        broker.context.rng.setstate(drawn)
        given: dict[str, Any] = {"isr": (), "elr": (OWN, 2), "leader": NO_LEADER, "leader_epoch": 4, **state}
        for number in range(count):
            assigned[TopicPartition("t", number)] = PartitionState(topic_id, (OWN, 2), partition_epoch=9, **given)
        reports.begin(assigned)
        broker.topic("t", count, (OWN, 2), **given)
        return cls(broker, reports, controller, events)

    def pump(self) -> None:
        self.reports.tick(self.broker.now)


def test_a_doubtful_copy_whose_topic_was_made_again_is_not_waited_for() -> None:
    with world() as broker:
        reporting = Reporting.of(broker, 1)
        broker.topic("t", 1, (OWN, 2))
        reporting.pump()
        assert reporting.reports.ready
        assert reporting.controller.sent == []


def doubts(broker: World) -> int:
    """Returns the number of doubts that the disk would remember."""
    run = broker.store._run
    return len(run.doubts)


def test_a_broker_is_ready_once_all_doubtful_copies_are_on_record(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_reports, "REPORTS_PER_COMMAND_MAX", 3)
    with world() as broker:
        reporting = Reporting.of(broker, 7)
        reported: list[int] = []
        while True:
            assert doubts(broker) == 7
            reporting.pump()
            reporting.pump()
            if reporting.reports.ready:
                break
            reports, done = reporting.controller.take()
            assert len(reports) <= 3
            assert all(each.doubtful and (each.last_epoch, each.end_offset) == (-1, 0) for each in reports)
            reported += [each.partition for each in reports]
            done(Acknowledged())
        assert reported == list(range(7))
        assert doubts(broker) == 0
        assert broker.store.broker_epoch == 1
        assert [(event, fields["count"], fields["reason"]) for event, fields in reporting.events] == [
            ("doubtful", 7, MISSING)
        ]


@pytest.mark.parametrize(
    "failure", [CommandFailed("lost", definite=False), Acknowledged(KafkaErrorCode.STALE_BROKER_EPOCH)]
)
def test_a_report_that_failed_is_sent_again(failure: Acknowledged | CommandFailed) -> None:
    with world() as broker:
        reporting = Reporting.of(broker, 1)
        reporting.pump()
        first, done = reporting.controller.take()
        done(failure)
        reporting.pump()
        assert not reporting.controller.sent
        assert reporting.reports.deadline == broker.now + RETRY_S
        broker.now += RETRY_S
        reporting.pump()
        again, done = reporting.controller.take()
        assert again == first
        assert not reporting.reports.ready
        done(Acknowledged())
        reporting.pump()
        assert reporting.reports.ready


def test_what_was_in_no_isr_and_not_eligible_is_not_reported() -> None:
    with world() as broker:
        reporting = Reporting.of(broker, 2, isr=(2,), elr=(), leader=2)
        reporting.pump()
        assert reporting.reports.ready
        assert reporting.controller.sent == []


def test_without_eligible_leader_replicas_nothing_is_reported() -> None:
    with world("eligible.leader.replicas.version=0") as broker:
        reporting = Reporting.of(broker, 2)
        reporting.pump()
        assert reporting.reports.ready
        assert reporting.controller.sent == []


def test_a_sound_broker_reports_its_log_end_where_an_election_waits_for_it() -> None:
    with world() as broker:
        reporting = Reporting.of(broker, 1, isr=(2,), elr=(), leader=2)
        reporting.pump()
        topic_id = broker.topic("u", replicas=(OWN, 2))
        broker.produce("u", count=3)
        before = broker.image.topics.pop("u").partitions[0]
        state = attrs.evolve(before, isr=(), elr=(), suspects=(2,), leader=NO_LEADER, leader_epoch=1, partition_epoch=1)
        broker.image.put_topic(TopicImage("u", topic_id, [state], {}))
        reporting.pump()
        assert not reporting.controller.sent  # it may still lead, and its log grow
        broker.replicas.update({TopicPartition("u", 0): state})
        broker.now += RETRY_S
        reporting.reports.image_changed()
        reporting.pump()
        (report,), done = reporting.controller.take()
        assert (report.doubtful, report.last_epoch, report.end_offset) == (False, 0, 3)
        done(Acknowledged())
        assert reporting.reports.ready


def test_a_copy_whose_log_is_made_late_is_reported_though_nothing_else_changes() -> None:
    with world() as broker:
        reporting = Reporting.of(broker, 1, isr=(2,), elr=(), leader=2)
        reporting.pump()
        topic_id = broker.context.new_id()
        state = PartitionState(
            topic_id, (OWN, 2), isr=(), suspects=(OWN, 2), leader=NO_LEADER, leader_epoch=1, partition_epoch=1
        )
        broker.image.put_topic(TopicImage("u", topic_id, [state], {}))
        broker.replicas.full_disk.makes_from = broker.now + AGAIN_S
        broker.replicas.update({TopicPartition("u", 0): state})
        reporting.reports.image_changed()
        reporting.pump()
        assert not reporting.controller.sent, "there was no room for its log"
        broker.now += AGAIN_S
        broker.replicas.work()
        reporting.pump()
        (report,), done = reporting.controller.take()
        assert (report.doubtful, report.last_epoch, report.end_offset) == (False, -1, 0)
        done(Acknowledged())


@pytest.mark.parametrize(("served", "trusts"), [(-1, True), (5, True), (6, False)])
def test_a_directory_from_before_the_newest_service_is_not_trusted(served: int, trusts: bool) -> None:
    disk = MemoryDisk(random.Random(1))
    with world(disk=disk) as broker:
        broker.store.create({TopicPartition("t", 0): broker.context.new_id()})
        broker.store.serves_as(5)
    with world(disk=disk) as broker:
        broker.image.brokers[OWN] = attrs.evolve(broker.image.brokers[OWN], epoch=7, served_epoch=served)
        reporting = Reporting.of(broker, 1)
        assert [event for event, _ in reporting.events] == ([] if trusts else ["doubtful"])
        assert broker.store.broker_epoch == 7


@pytest.mark.parametrize(
    ("epoch", "served", "owner_known", "keeps"),
    [(7, 5, True, False), (5, 4, True, True), (7, -1, True, True), (7, 5, False, True)],
)
def test_logs_that_the_metadata_does_not_know_stay_if_it_may_be_the_metadata_that_lacks_them(
    epoch: int, served: int, owner_known: bool, keeps: bool
) -> None:
    disk = MemoryDisk(random.Random(1))
    with world(disk=disk) as broker:
        broker.topic("t")
        broker.produce("t", count=3)
        broker.store.serves_as(5)
    if not owner_known:
        disk.flip_bit("data/partitions/broker", 40)
    with world(disk=disk) as broker:
        broker.context.new_id()
        broker.image.brokers[OWN] = attrs.evolve(broker.image.brokers[OWN], epoch=epoch, served_epoch=served)
        reporting = Reporting.of(broker, 1)  # of another topic of that name
        assert ("strays_kept" in [event for event, _ in reporting.events]) is keeps
        assert broker.replicas.hosted[TopicPartition("t", 0)].log.end_offset == 0
        kept = [path for path in disk.paths() if path.endswith(".damaged")]
        assert (len(kept) > 0) is keeps
