"""The rules of replication, each alone: statuses, copies, histories, reads, and refusals of events and settings."""

from itertools import permutations

import pytest

from rocketmq_compat.replication import acks
from rocketmq_compat.replication.acks import PutWaits, SendStatus, WaitingPut
from rocketmq_compat.replication.copy_log import CopyLog
from rocketmq_compat.replication.core import CommitLogReplica
from rocketmq_compat.replication.effects import CloseHaConnection, DoubtEnded
from rocketmq_compat.replication.epochs import EpochTable, History, agreed_end
from rocketmq_compat.replication.events import Connected, DeadlineReached, Pushed, PutMessages, Received
from rocketmq_compat.replication.messages import Handshake
from rocketmq_compat.replication.model import (
    EPOCHS_MAX,
    CopyDoubt,
    MasterEpoch,
    RecoveredCopy,
    ReplicationConfig,
    ReplicationError,
)
from rocketmq_compat.replication.reads import PullAdvice, ReadSettings, pull_advice

GIB = 1 << 30
OK = SendStatus.SEND_OK


def table(*entries: tuple[int, int]) -> EpochTable:
    """A table of (epoch, start)."""
    return EpochTable([MasterEpoch(*entry) for entry in entries])


@pytest.mark.parametrize(
    ("flush", "copies", "told"),
    [
        (OK, OK, OK),
        (SendStatus.FLUSH_DISK_TIMEOUT, OK, SendStatus.FLUSH_DISK_TIMEOUT),
        (OK, SendStatus.FLUSH_SLAVE_TIMEOUT, SendStatus.FLUSH_SLAVE_TIMEOUT),
        (SendStatus.FLUSH_DISK_TIMEOUT, SendStatus.SLAVE_NOT_AVAILABLE, SendStatus.SLAVE_NOT_AVAILABLE),
        (SendStatus.FLUSH_DISK_TIMEOUT, SendStatus.FLUSH_SLAVE_TIMEOUT, SendStatus.FLUSH_SLAVE_TIMEOUT),
        (None, SendStatus.FLUSH_SLAVE_TIMEOUT, None),
        (SendStatus.FLUSH_DISK_TIMEOUT, None, None),
    ],
)
def test_both_waits_are_decided_and_the_status_of_the_copies_wins(
    flush: SendStatus | None, copies: SendStatus | None, told: SendStatus | None
) -> None:
    assert WaitingPut(1, 0, 4, flush, copies).status is told


def test_the_statuses_are_rocketmqs_response_codes() -> None:
    assert {status.name: int(status) for status in SendStatus} == {
        "SEND_OK": 0,
        "FLUSH_DISK_TIMEOUT": 10,
        "SLAVE_NOT_AVAILABLE": 11,
        "FLUSH_SLAVE_TIMEOUT": 12,
    }


@pytest.mark.parametrize(
    ("settings", "in_sync", "needed"),
    [
        ({"sync_master": False, "flavor": "5.x", "in_sync_replicas": 3}, 3, 1),
        ({"sync_master": True}, 1, 2),
        ({"sync_master": True, "in_sync_replicas": 3}, 3, 2),
        ({"sync_master": True, "flavor": "5.x"}, 3, 1),
        ({"sync_master": True, "flavor": "5.x", "in_sync_replicas": 3}, 1, 3),
        ({"sync_master": True, "flavor": "5.x", "in_sync_replicas": 3, "auto_in_sync_replicas": True}, 2, 2),
        ({"sync_master": True, "flavor": "5.x", "in_sync_replicas": 3, "auto_in_sync_replicas": True}, 1, 1),
        (
            {
                "sync_master": True,
                "flavor": "5.x",
                "in_sync_replicas": 3,
                "min_in_sync_replicas": 2,
                "auto_in_sync_replicas": True,
            },
            1,
            2,
        ),
    ],
)
def test_the_copies_that_records_need(settings: dict[str, object], in_sync: int, needed: int) -> None:
    assert acks.copies_needed(ReplicationConfig(**settings), in_sync) == needed  # type: ignore[arg-type]


@pytest.mark.parametrize("reports", list(permutations([90, 70, 50])))
def test_so_many_copies_have_the_log_up_to_the_last_of_them(reports: tuple[int, ...]) -> None:
    assert [acks.copied_end(100, reports, copies) for copies in (1, 2, 3, 4, 5)] == [100, 90, 70, 50, -1]


def test_a_slave_is_available_while_its_gap_is_below_the_maximum() -> None:
    config = ReplicationConfig(slave_fallbehind_bytes_max=10)
    assert not acks.is_slave_available(config, 100, [])
    assert not acks.is_slave_available(config, 100, [90])
    assert acks.is_slave_available(config, 100, [10, 91])


def test_copies_in_sync_are_the_master_and_slaves_with_a_small_gap() -> None:
    config = ReplicationConfig(in_sync_gap_bytes_max=10)
    assert acks.in_sync_copies(config, 100, [100, 91, 90]) == 3


def test_records_that_wait_for_different_numbers_of_copies_do_not_wait_for_each_other() -> None:
    waits = PutWaits()
    first, second = WaitingPut(1, 0, 4, OK, None), WaitingPut(2, 4, 8, OK, None)
    waits.add(first, 9.0, 3, 5.0)
    waits.add(second, 9.0, 2, 6.0)
    assert [put.token for put in waits.take_copied(2, 8)] == [2]
    assert waits.copies_awaited == (3,)
    assert waits.deadline == 5.0
    assert [put.token for put in waits.take_expired(5.0)] == [1]
    assert waits.deadline == float("inf")


def test_records_are_answered_in_the_order_of_the_log_as_far_as_it_is_flushed() -> None:
    waits = PutWaits()
    for number in (1, 2, 3):
        waits.add(WaitingPut(number, 4 * number - 4, 4 * number, None, OK), float(number), 1, 99.0)
    assert waits.deadline == 1.0
    assert [put.token for put in waits.take_flushed(8)] == [1, 2]
    assert waits.deadline == 3.0
    assert [(put.token, put.status) for put in waits.take_expired(3.0)] == [(3, SendStatus.FLUSH_DISK_TIMEOUT)]


def test_records_are_answered_in_the_order_of_the_log_as_far_as_it_is_copied() -> None:
    waits = PutWaits()
    for number in (1, 2, 3):
        waits.add(WaitingPut(number, 4 * number - 4, 4 * number, OK, None), 99.0, 2, float(number))
    waits.add(WaitingPut(4, 12, 16, OK, None), 99.0, 3, 0.5)
    assert (waits.deadline, waits.first_end(2), waits.first_end(3), waits.first_end(4)) == (0.5, 4, 16, float("inf"))
    assert [put.token for put in waits.take_copied(2, 8)] == [1, 2]
    assert list(waits.take_copied(5, 99)) == []
    assert waits.first_end(2) == 12
    assert [(put.token, put.status) for put in waits.take_expired(3.0)] == [
        (3, SendStatus.FLUSH_SLAVE_TIMEOUT),
        (4, SendStatus.FLUSH_SLAVE_TIMEOUT),
    ]
    assert waits.copies_awaited == ()


def test_both_waits_of_a_record_end_by_themselves() -> None:
    waits = PutWaits()
    waits.add(WaitingPut(1, 0, 4, None, None), 5.0, 2, 3.0)
    assert waits.deadline == 3.0
    assert list(waits.take_expired(3.0)) == []
    assert waits.deadline == 5.0
    assert [put.status for put in waits.take_flushed(4)] == [SendStatus.FLUSH_SLAVE_TIMEOUT]


# ---------------------------------------------------------------- histories


@pytest.mark.parametrize(
    ("one", "other", "agreed"),
    [
        (History(0, 90, table((1, 0))), History(0, 60, table((1, 0))), 60),
        (History(0, 60, table((1, 0))), History(0, 90, table((1, 0))), 60),
        (History(0, 90, table((1, 0), (2, 60))), History(0, 80, table((1, 0))), 60),
        (History(0, 90, table((1, 0), (2, 60))), History(0, 80, table((1, 0), (3, 70))), 60),
        (History(0, 90, table((1, 0), (2, 60))), History(0, 90, table((1, 0), (2, 60))), 90),
        (History(0, 90, table((2, 0))), History(0, 40, table((1, 0))), 0),
        (History(50, 90, table((1, 50), (2, 60))), History(0, 80, table((1, 0), (2, 60))), 80),
        (History(50, 90, table((1, 50))), History(0, 40, table((1, 0))), 40),
        (History(0, 10, table((3, 0))), History(50, 90, table((1, 50))), 0),
        (History(0, 90, table((1, 0), (2, 30), (3, 60))), History(0, 90, table((1, 0), (3, 30))), 30),
        (History(50, 90, table((2, 50))), History(0, 50, table((1, 0), (3, 41))), 41),
        (History(50, 90, table((2, 50))), History(0, 40, table((1, 0), (2, 30))), 40),
        (History(50, 50, table()), History(0, 40, table((1, 0))), 40),
        (History(0, 0, table()), History(0, 0, table()), 0),
    ],
)
def test_where_two_histories_part(one: History, other: History, agreed: int) -> None:
    assert agreed_end(one, other) == agreed_end(other, one) == agreed


def test_an_epoch_that_wrote_nothing_leaves_no_trace() -> None:
    epochs = table((1, 0), (2, 60))
    epochs.assign(3, 60)
    assert epochs.entries() == (MasterEpoch(1, 0), MasterEpoch(3, 60))
    with pytest.raises(ValueError, match="epoch 2 after 3"):
        epochs.assign(2, 90)


def test_a_table_follows_the_start_and_the_end_of_its_log() -> None:
    epochs = table((1, 0), (2, 60), (3, 80))
    epochs.trim(70)
    assert epochs.entries() == (MasterEpoch(2, 70), MasterEpoch(3, 80))
    epochs.truncate(80)
    assert (epochs.last, epochs.at(75), epochs.at(10), epochs.next_start(70, 80)) == (2, 2, 0, 80)


def test_what_a_table_does_not_know_of_is_left_alone() -> None:
    epochs = table((1, 0), (2, 60), (3, 80))
    epochs.truncate(70)
    assert (epochs.last, epochs.entries()) == (2, (MasterEpoch(1, 0), MasterEpoch(2, 60)))
    later = table((5, 100))
    later.trim(50)
    assert later.entries() == (MasterEpoch(5, 100),)
    none = table()
    none.trim(50)
    assert none.entries() == ()


def test_a_history_begins_with_the_first_epoch_that_is_told() -> None:
    told = History.of(0, 90, [MasterEpoch(3, 40), MasterEpoch(4, 60)])
    assert (told.start, told.end, told.epochs.at(70)) == (40, 90, 4)
    assert History.of(20, 90, []).start == 20


def test_a_history_of_too_many_epochs_is_compared_from_the_first_that_is_told() -> None:
    epochs = [MasterEpoch(number, number) for number in range(1, EPOCHS_MAX + 10)]
    newest = epochs[-EPOCHS_MAX:]
    own = History(0, 9000, EpochTable(epochs))
    assert agreed_end(own, History.of(0, 9000, newest)) == 9000


# ---------------------------------------------------------------- reads


@pytest.mark.parametrize(
    ("enabled", "is_slave", "behind", "advice"),
    [
        (False, False, 100 * GIB, PullAdvice(True, 0)),
        (False, True, 0, PullAdvice(False, 0)),
        (True, False, 4 * GIB, PullAdvice(True, 0)),
        (True, False, 4 * GIB + 1, PullAdvice(True, 1)),
        (True, True, 4 * GIB + 1, PullAdvice(True, 1)),
        (True, True, 0, PullAdvice(True, 0)),
    ],
)
def test_who_serves_a_pull_and_who_the_next(enabled: bool, is_slave: bool, behind: int, advice: PullAdvice) -> None:
    settings = ReadSettings(slave_read_enable=enabled, memory_bytes=10 * GIB)
    assert pull_advice(settings, is_slave=is_slave, log_end=200 * GIB, pulled_end=200 * GIB - behind) == advice


# ---------------------------------------------------------------- what is refused


def test_the_role_goes_with_the_broker_id() -> None:
    with pytest.raises(ValueError, match="broker id 1 does not go with the role master"):
        CommitLogReplica(ReplicationConfig(broker_id=1), "master", RecoveredCopy(), 1)


@pytest.mark.parametrize(("durable_end", "flushed_end"), [(60, 60), (5, 10), (200, 90)])
def test_what_a_restart_found_durable_is_flushed(durable_end: int, flushed_end: int) -> None:
    assert CopyLog.of(RecoveredCopy(10, 90, durable_end), sync_flush=True).flushed_end == flushed_end


def test_a_log_that_ends_before_it_begins_is_refused() -> None:
    with pytest.raises(ValueError, match="a log from -1 to 4"):
        CopyLog.of(RecoveredCopy(-1, 4), sync_flush=False)
    with pytest.raises(ValueError, match="a log from 9 to 4"):
        CommitLogReplica(ReplicationConfig(), "master", RecoveredCopy(9, 4), 1)


@pytest.mark.parametrize("name", ["in_sync_replicas", "slave_timeout_s", "push_bytes_max"])
def test_a_setting_out_of_range_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match=name):
        ReplicationConfig(**{name: 0})  # type: ignore[arg-type]


def test_a_push_that_was_not_ordered_is_an_error_of_the_shell() -> None:
    master = CommitLogReplica(ReplicationConfig(), "master", RecoveredCopy(), 1)
    master.step(0.0, Connected(1))
    master.step(0.0, Received(1, Handshake("broker-a", 1, True, 0, 0, ())))
    with pytest.raises(ReplicationError, match="was not ordered"):
        master.step(0.0, Pushed(1, 4))
    with pytest.raises(ReplicationError, match="records of 0 bytes"):
        master.step(0.0, PutMessages(1, 0))


def test_an_epoch_is_new_whatever_the_disk_knows() -> None:
    known = RecoveredCopy(0, 9, 9, (MasterEpoch(7, 0),))
    one = CommitLogReplica(ReplicationConfig(), "master", known, 3)
    other = CommitLogReplica(ReplicationConfig(), "master", known, 5)
    wiped = CommitLogReplica(ReplicationConfig(), "master", RecoveredCopy(), 9)
    assert [each.log.epochs.last for each in (one, other, wiped)] == [10, 12, 9]
    with pytest.raises(ValueError, match="0 is no incarnation"):
        CommitLogReplica(ReplicationConfig(), "master", RecoveredCopy(), 0)


def test_a_master_goes_on_when_the_slave_that_it_copies_back_from_falls_silent_for_good() -> None:
    doubt = CopyDoubt(is_flushed=True)
    config = ReplicationConfig()
    master = CommitLogReplica(config, "master", RecoveredCopy(0, 9, 9, (MasterEpoch(7, 0),), doubt, frozenset({1})), 3)
    master.begin(0.0)
    master.step(1.0, Connected(1))
    master.step(1.0, Received(1, Handshake("broker-a", 1, True, 0, 20, (MasterEpoch(7, 0),))))
    assert master.deadline == 1.0 + config.silence_s_max, "it copies back, and waits for nothing else"
    effects = master.step(master.deadline, DeadlineReached())
    assert [type(each) for each in effects] == [CloseHaConnection, DoubtEnded]
