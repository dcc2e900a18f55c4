"""The broker's copy with fixed roles on a disk in memory: room first, then the decision, then the append it orders."""

import random
from collections.abc import Callable, Sequence

import attrs
import pytest

from log.memory_disk import MemoryDisk
from rocketmq_compat.broker.context import Context
from rocketmq_compat.broker.puts import NotStored, PutOutcome, StoredMessages
from rocketmq_compat.broker.replicated_log import ReplicatedLog
from rocketmq_compat.broker.tables import Saved
from rocketmq_compat.config import Properties
from rocketmq_compat.config_keys import BROKER_PROPERTIES
from rocketmq_compat.consumers.delays import DelayLevels
from rocketmq_compat.consumers.groups import GroupTable
from rocketmq_compat.consumers.topics import TopicTable
from rocketmq_compat.records import encode_host
from rocketmq_compat.remoting.codes import RequestCode, ResponseCode
from rocketmq_compat.replication.acks import PutRefusal, SendStatus
from rocketmq_compat.replication.core import CommitLogReplica
from rocketmq_compat.replication.effects import Effect
from rocketmq_compat.replication.events import Connected, Event, PutMessages, Received
from rocketmq_compat.replication.messages import HaMessage, Handshake, Push
from rocketmq_compat.replication.model import RecoveredCopy, ReplicationConfig
from rocketmq_compat.storage.broker_store import MessageStore
from tests.rocketmq_compat.storage.records import DIRECTORY, record
from tests.rocketmq_compat.storage.stores import SMALL_STORE

NOW = 1.0


@attrs.define
class Links:
    """The connections to slaves, which keep the messages."""

    sent: list[HaMessage] = attrs.field(factory=list)

    def dial(self, connection: int) -> None:
        """See `HaLinks`."""

    def send(self, connection: int, message: HaMessage) -> None:
        """See `HaLinks`."""
        self.sent.append(message)

    def close(self, connection: int, reason: str) -> None:
        """See `HaLinks`."""

    def take_pushes(self) -> list[Push]:
        """The pushes since the last call."""
        pushes = [message for message in self.sent if isinstance(message, Push)]
        self.sent.clear()
        return pushes


class WatchedReplica(CommitLogReplica):
    """A decider that counts the puts it was asked to decide."""

    puts = 0

    def step(self, now: float, event: Event) -> Sequence[Effect]:
        """See `CommitLogReplica`."""
        self.puts += isinstance(event, PutMessages)
        return super().step(now, event)


class NoTables:
    """Tables that no one asks for."""

    def payload(self) -> bytes:
        """See `CopiedTables`."""
        return b""

    def adopt(self, payload: bytes) -> None:
        """See `CopiedTables`."""

    def save(self, done: Saved) -> None:
        """See `CopiedTables`."""
        done(None)


@attrs.define
class InlineDisk:
    """Work that is done at once."""

    def submit(self, work: Callable[[], None], done: Callable[[BaseException | None], None]) -> None:
        """See `DiskWork`."""
        work()
        done(None)


@attrs.define
class Copy:
    """A master with one slave that has shaken hands."""

    disk: MemoryDisk
    store: MessageStore
    replica: WatchedReplica
    links: Links
    log: ReplicatedLog
    outcomes: dict[str, PutOutcome] = attrs.field(factory=dict)

    def put(self, name: str, *records: bytes, wait: bool = True) -> None:
        """A client sends these records."""
        self.log.put(records, lambda outcome: self.outcomes.update({name: outcome}), wait=wait)

    def end_round(self) -> None:
        """End a round, as the broker does."""
        self.log.tick(NOW)
        self.log.flush_if_due(NOW)

    def batches(self) -> list[int]:
        """The sizes of the batches in the commit log."""
        return [len(each.payload) for each in self.store.log.read(0, 1 << 20)]


def copy_of_master(*, sync_flush: bool = False) -> Copy:
    disk = MemoryDisk(random.Random(1))
    store = MessageStore.open(disk, DIRECTORY, SMALL_STORE)
    config = ReplicationConfig(total_replicas=2, sync_flush=sync_flush)
    replica = WatchedReplica(config, "master", RecoveredCopy(), 1)
    context = Context(
        properties=Properties.read(BROKER_PROPERTIES),
        store=store,
        topics=TopicTable.with_system_topics(
            auto_create=True, default_queues=1, cluster="c", broker_name="broker-a", delay_levels=1
        ),
        groups=GroupTable(auto_create=True),
        levels=DelayLevels.parse("1s"),
        store_host=encode_host("127.0.0.1", 1),
        address="127.0.0.1:1",
        memory_bytes=1 << 30,
        clock=lambda: NOW,
        wall_ms=lambda: 1000,
        rng=random.Random(2),
        tell=lambda event, **fields: None,
    )
    links = Links()
    log = ReplicatedLog(context, replica, InlineDisk(), links, lambda runs: None, NoTables())
    log.begin()
    log.step(Connected(1))
    log.step(Received(1, Handshake("broker-a", 1, True, 0, 0, ())))
    links.sent.clear()
    return Copy(disk, store, replica, links, log)


def require_stored(outcome: PutOutcome) -> StoredMessages:
    """The outcome of a put that is in the log."""
    assert isinstance(outcome, StoredMessages)
    return outcome


def test_the_puts_of_a_round_are_one_write_and_one_push_and_each_learns_its_own_places() -> None:
    copy = copy_of_master()
    calls = copy.disk.calls
    copy.put("first", record("A"), record("B"))
    copy.put("second", record("A"))
    assert copy.outcomes == {}
    assert copy.disk.calls == calls
    copy.end_round()
    first, second = require_stored(copy.outcomes["first"]), require_stored(copy.outcomes["second"])
    size = len(record("A"))
    assert (first.physical_offsets, first.queue_offsets) == ([0, size], [0, 0])
    assert (second.physical_offsets, second.queue_offsets) == ([2 * size], [1])
    assert copy.batches() == [3 * size]
    (push,) = copy.links.take_pushes()
    assert len(push.payload) == 3 * size


def test_puts_that_wait_and_puts_that_do_not_are_answered_by_their_own_rule() -> None:
    copy = copy_of_master(sync_flush=True)
    copy.put("waits", record("A"))
    copy.put("does not", record("A"), wait=False)
    copy.put("waits again", record("A"))
    copy.log.tick(NOW)
    assert copy.outcomes.keys() == {"does not"}
    copy.log.flush_if_due(NOW)
    assert [require_stored(copy.outcomes[name]).queue_offsets for name in ("waits", "does not", "waits again")] == [
        [0],
        [1],
        [2],
    ]
    assert all(require_stored(outcome).status is SendStatus.SEND_OK for outcome in copy.outcomes.values())


def test_a_full_disk_refuses_puts_before_the_decider_counts_on_them() -> None:
    copy = copy_of_master()
    copy.disk.capacity_bytes = copy.disk.used_bytes()
    end = copy.replica.log.log_end
    copy.put("too much", record("A", body=bytes(500)))
    copy.end_round()
    refused = copy.outcomes["too much"]
    assert isinstance(refused, NotStored)
    assert refused.code == PutRefusal.SERVICE_NOT_AVAILABLE
    assert "disk is full" in refused.reason
    assert (copy.replica.puts, copy.replica.log.log_end, copy.store.log.end_offset) == (0, end, end)
    copy.disk.capacity_bytes = None
    copy.put("fits", record("A"))
    copy.end_round()
    assert require_stored(copy.outcomes["fits"]).physical_offsets == [end]


def test_what_was_reserved_is_there_when_the_decider_orders_the_append(monkeypatch: pytest.MonkeyPatch) -> None:
    copy = copy_of_master()
    decide = copy.replica.step

    def step(now: float, event: Event) -> Sequence[Effect]:
        effects = decide(now, event)
        copy.disk.capacity_bytes = copy.disk.used_bytes()
        return effects

    monkeypatch.setattr(WatchedReplica, "step", lambda self, now, event: step(now, event))
    copy.put("in time", record("A", body=bytes(3000)))
    copy.end_round()
    assert require_stored(copy.outcomes["in time"]).physical_offsets == [0]


def test_a_malformed_record_is_refused_alone() -> None:
    copy = copy_of_master()
    copy.put("before", record("A"))
    copy.put("malformed", record("A") + b"x")
    copy.put("behind", record("A"))
    copy.end_round()
    refused = copy.outcomes["malformed"]
    assert isinstance(refused, NotStored)
    assert refused.code == ResponseCode.MESSAGE_ILLEGAL
    assert require_stored(copy.outcomes["before"]).queue_offsets == [0]
    assert require_stored(copy.outcomes["behind"]).queue_offsets == [1]


def test_a_topic_is_deleted_behind_the_messages_that_came_before() -> None:
    copy = copy_of_master()
    ends: list[int] = []
    serve = copy.log.when_sure(RequestCode.DELETE_TOPIC_IN_BROKER, lambda call: ends.append(copy.store.log.end_offset))
    copy.put("before", record("A"))
    serve(None)  # type: ignore[arg-type]
    assert ends == [len(record("A"))]


def test_a_put_from_within_the_round_is_stored_at_once_and_the_next_one_waits_again() -> None:
    copy = copy_of_master()
    copy.log.tick(NOW)
    copy.put("delivery", record("A"))
    assert "delivery" in copy.outcomes
    copy.log.flush_if_due(NOW)
    copy.put("of the next round", record("A"))
    assert "of the next round" not in copy.outcomes
    assert copy.log.deadline <= NOW


def test_what_was_flushed_for_another_reason_counts() -> None:
    copy = copy_of_master(sync_flush=True)
    copy.put("waits", record("A"))
    copy.log.tick(NOW)
    copy.store.flush()
    copy.log.flush_if_due(NOW)
    assert copy.outcomes == {}
    copy.log.tick(NOW)
    assert require_stored(copy.outcomes["waits"]).status is SendStatus.SEND_OK


def test_a_log_that_was_flushed_for_another_reason_is_not_due_for_a_flush() -> None:
    copy = copy_of_master()
    copy.put("stored", record("A"))
    copy.end_round()
    assert copy.log.deadline == pytest.approx(NOW + 0.5)
    copy.store.flush()
    copy.end_round()
    assert copy.log.deadline > NOW + 1
