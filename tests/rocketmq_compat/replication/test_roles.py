"""A master and a slave, each alone: deadlines, events at the wrong moment, and events that they ignore."""

from collections.abc import Sequence

import crc32c
import pytest

from rocketmq_compat.replication.core import CommitLogReplica
from rocketmq_compat.replication.effects import (
    AppendPushed,
    CloseHaConnection,
    ConfirmOffsetMoved,
    Dial,
    DivergenceFound,
    Effect,
    PushLog,
    RefusePut,
    SendMessage,
    TruncateCommitLog,
)
from rocketmq_compat.replication.events import (
    Connected,
    DeadlineReached,
    DivergenceDiscarded,
    HaConnectionClosed,
    LossAccepted,
    Pushed,
    PutMessages,
    Received,
)
from rocketmq_compat.replication.master import DIVERGENCES_MAX
from rocketmq_compat.replication.messages import (
    HaMessage,
    Handshake,
    HandshakeRefused,
    Heartbeat,
    Push,
    Report,
    Welcome,
)
from rocketmq_compat.replication.model import MasterEpoch, RecoveredCopy, ReplicationConfig, ReplicationError


def master(config: ReplicationConfig | None = None, recovered: RecoveredCopy | None = None) -> CommitLogReplica:
    """A master that has begun."""
    replica = CommitLogReplica(config or ReplicationConfig(), "master", recovered or RecoveredCopy(), 7)
    replica.begin(0.0)
    return replica


def slave() -> CommitLogReplica:
    """A slave that has dialed, as connection 1."""
    replica = CommitLogReplica(ReplicationConfig(broker_id=1), "slave", RecoveredCopy(), 7)
    assert replica.begin(0.0) == [Dial(1)]
    return replica


def shake(slave_id: int = 1, log: tuple[int, int] = (0, 0), *epochs: MasterEpoch) -> Handshake:
    """A handshake of a slave with this log."""
    return Handshake("broker-a", slave_id, True, *log, epochs)


def arrive(replica: CommitLogReplica, message: HaMessage, *, at: float = 0.0, on: int = 1) -> Sequence[Effect]:
    """A message arrives."""
    return replica.step(at, Received(on, message))


def closes(effects: Sequence[Effect]) -> list[str]:
    """Returns the reasons for closing connections."""
    return [effect.reason for effect in effects if isinstance(effect, CloseHaConnection)]


# ---------------------------------------------------------------- a master


def test_who_does_not_shake_hands_is_not_waited_for() -> None:
    replica = master()
    assert replica.deadline == float("inf")
    replica.step(1.0, Connected(1))
    assert replica.deadline == 21.0
    assert closes(replica.step(21.0, DeadlineReached())) == ["silent for too long"]
    assert replica.deadline == float("inf")


def test_heartbeats_are_due_when_nothing_else_was_sent() -> None:
    replica = master()
    replica.step(0.0, Connected(1))
    arrive(replica, shake(), at=3.0)
    assert replica.deadline == 8.0
    replica.step(4.0, PutMessages(1, 1))
    replica.step(4.0, Pushed(1, 1))
    assert replica.deadline == 9.0
    assert replica.step(9.0, DeadlineReached()) == [SendMessage(1, Heartbeat(1))]
    assert replica.deadline == 14.0


def test_a_second_handshake_closes_its_connection() -> None:
    replica = master()
    replica.step(0.0, Connected(1))
    arrive(replica, shake())
    assert closes(arrive(replica, shake())) == ["a second handshake"]


def test_a_handshake_that_comes_late_on_an_older_connection_changes_nothing() -> None:
    replica = master()
    replica.step(0.0, Connected(1))
    replica.step(0.0, Connected(2))
    arrive(replica, shake(), on=2)
    late = arrive(replica, shake(1, (0, 30), MasterEpoch(1, 0)), on=1)
    assert late == [CloseHaConnection(1, "the slave has a newer connection")]
    assert not isinstance(replica.step(0.0, PutMessages(1, 1))[0], RefusePut)
    replica.step(0.0, Connected(3))
    assert closes(arrive(replica, shake(), on=3)) == ["the slave has a newer connection"]


def test_a_connection_that_is_closed_brings_nothing_more() -> None:
    replica = master()
    assert arrive(replica, shake()) == []
    assert replica.step(0.0, Pushed(1, 4)) == []
    assert replica.step(0.0, HaConnectionClosed(1)) == []


def test_a_window_that_is_full_waits_for_a_report() -> None:
    replica = master(ReplicationConfig(push_window_bytes=4))
    replica.step(0.0, Connected(1))
    arrive(replica, shake())
    replica.step(0.0, PutMessages(1, 4))
    replica.step(0.0, Pushed(1, 4))
    assert not [each for each in replica.step(0.0, PutMessages(2, 4)) if isinstance(each, PushLog)]
    with pytest.raises(ReplicationError, match="was not ordered"):
        replica.step(0.0, Pushed(1, 8))
    assert [each.offset for each in arrive(replica, Report(4)) if isinstance(each, PushLog)] == [4]
    with pytest.raises(ReplicationError, match="was not ordered"):
        replica.step(0.0, Pushed(1, 4))


def test_an_empty_log_is_welcome_wherever_it_ends() -> None:
    replica = master(recovered=RecoveredCopy(10, 30, 30, (MasterEpoch(1, 10),)))
    for connection, end in enumerate((0, 10, 20, 50)):
        replica.step(0.0, Connected(connection))
        effects = arrive(replica, shake(1, (end, end)), on=connection)
        assert SendMessage(connection, Welcome(10, 30)) in effects


def test_a_slave_that_shares_nothing_comparable_gives_up_all_and_not_what_lies_before_the_trimmed_log() -> None:
    """The trimmed log may begin in the middle of one of the slave's records (simulated seed 1788)."""
    replica = master(recovered=RecoveredCopy(10, 30, 30, (MasterEpoch(7, 10),)))
    for slave_id, log_start in ((1, 0), (2, 5)):
        replica.step(0.0, Connected(slave_id))
        effects = arrive(replica, shake(slave_id, (log_start, 40), MasterEpoch(1, log_start)), on=slave_id)
        assert [each.message.agreed_end for each in effects if _is_refusal(each)] == [log_start]  # type: ignore[union-attr]


def test_a_refusal_names_the_largest_loss_until_it_is_accepted() -> None:
    replica = master()
    replica.step(0.0, PutMessages(1, 10))
    for slave_id, end in ((1, 30), (2, 90), (3, 60)):
        replica.step(0.0, Connected(slave_id))
        effects = arrive(replica, shake(slave_id, (0, end), MasterEpoch(1, 0)), on=slave_id)
        assert [each.message.agreed_end for each in effects if _is_refusal(each)] == [0]  # type: ignore[union-attr]
    (refusal,) = replica.step(0.0, PutMessages(1, 1))
    assert isinstance(refusal, RefusePut)
    assert refusal.reason.startswith("the log of slave 2 leaves this master's at offset 0 and goes on for 90 bytes")
    replica.step(0.0, LossAccepted())
    assert not isinstance(replica.step(0.0, PutMessages(2, 1))[0], RefusePut)


def test_so_many_other_histories_are_remembered_and_all_are_refused() -> None:
    replica = master()
    replica.step(0.0, PutMessages(1, 10))
    found: list[Effect] = []
    for slave_id in range(1, DIVERGENCES_MAX + 3):
        replica.step(0.0, Connected(slave_id))
        effects = arrive(replica, shake(slave_id, (0, 30), MasterEpoch(1, 0)), on=slave_id)
        assert any(map(_is_refusal, effects))
        found += [each for each in effects if isinstance(each, DivergenceFound)]
    assert len(found) == DIVERGENCES_MAX
    for slave_id in range(1, DIVERGENCES_MAX + 1):
        assert isinstance(replica.step(0.0, PutMessages(slave_id, 1))[0], RefusePut)
        replica.step(0.0, Connected(slave_id))
        arrive(replica, shake(slave_id), on=slave_id)
    assert not isinstance(replica.step(0.0, PutMessages(1, 1))[0], RefusePut)


def _is_refusal(effect: Effect) -> bool:
    return isinstance(effect, SendMessage) and isinstance(effect.message, HandshakeRefused)


# ---------------------------------------------------------------- a slave


def push(offset: int, data: bytes, confirm_offset: int = 0) -> Push:
    """A push of epoch 7."""
    return Push(offset, 7, confirm_offset, crc32c.crc32c(data), data)


def test_a_slave_listens_to_its_present_connection_alone() -> None:
    replica = slave()
    assert arrive(replica, Welcome(0, 0)) == []
    assert replica.step(0.0, Connected(2)) == []
    assert replica.step(0.0, Connected(1)) == [SendMessage(1, shake())]
    assert replica.step(0.0, Connected(1)) == []
    assert arrive(replica, Welcome(0, 0), on=2) == []
    assert replica.step(0.0, HaConnectionClosed(2)) == []
    assert arrive(replica, Welcome(0, 0)) == [SendMessage(1, Report(0))]


def test_a_slave_appends_reports_and_learns_what_is_confirmed() -> None:
    replica = slave()
    replica.step(0.0, Connected(1))
    arrive(replica, Welcome(0, 0))
    pushed = push(0, b"one")
    assert arrive(replica, pushed) == [AppendPushed(0, 7, b"one"), SendMessage(1, Report(3))]
    assert arrive(replica, Heartbeat(2)) == [ConfirmOffsetMoved(2)]
    assert arrive(replica, Heartbeat(9)) == [ConfirmOffsetMoved(3)]


@pytest.mark.parametrize(
    ("messages", "reason"),
    [
        ([push(0, b"one")], "a push before a welcome"),
        ([Heartbeat(0)], "a push before a welcome"),
        ([Welcome(0, 0), Welcome(0, 0)], "a second welcome"),
        ([Welcome(0, 0), push(3, b"one")], "a push at 3 into a log that ends at 0"),
        ([HandshakeRefused("no")], "refused: no"),
    ],
)
def test_what_comes_at_the_wrong_moment_closes_the_connection_and_the_next_is_made_later(
    messages: list[HaMessage], reason: str
) -> None:
    replica = slave()
    replica.step(0.0, Connected(1))
    *first, last = messages
    for message in first:
        arrive(replica, message)
    assert closes(arrive(replica, last, at=2.0)) == [reason]
    assert replica.deadline == 7.0
    assert replica.step(7.0, DeadlineReached()) == [Dial(2)]


def test_a_slave_reports_again_when_it_has_sent_nothing_for_a_while() -> None:
    replica = slave()
    replica.step(0.0, Connected(1))
    arrive(replica, Welcome(0, 0), at=1.0)
    assert replica.step(5.9, DeadlineReached()) == []
    assert replica.step(6.0, DeadlineReached()) == [SendMessage(1, Report(0))]


def test_only_what_a_master_has_refused_of_late_can_be_discarded() -> None:
    recovered = RecoveredCopy(0, 8, 8, (MasterEpoch(7, 0),))
    replica = CommitLogReplica(ReplicationConfig(broker_id=1), "slave", recovered, 7)
    replica.begin(0.0)
    assert replica.step(0.0, DivergenceDiscarded()) == []
    replica.step(0.0, Connected(1))
    arrive(replica, HandshakeRefused("no", 4))
    replica.step(5.0, DeadlineReached())
    replica.step(5.0, Connected(2))
    arrive(replica, Welcome(8, 0), at=5.0, on=2)
    assert replica.step(5.0, DivergenceDiscarded()) == []
    arrive(replica, HandshakeRefused("no", 4), at=5.0, on=2)
    replica.step(10.0, DeadlineReached())
    assert replica.step(10.0, DivergenceDiscarded()) == [
        TruncateCommitLog(4),
        CloseHaConnection(3, "an operator has cut this log"),
        Dial(4),
    ]


def test_a_dial_without_an_answer_is_given_up() -> None:
    replica = slave()
    assert replica.deadline == 20.0
    assert closes(replica.step(20.0, DeadlineReached())) == ["silent for too long"]
    assert replica.step(25.0, DeadlineReached()) == [Dial(2)]
    assert replica.step(30.0, HaConnectionClosed(2)) == []
    assert replica.deadline == 35.0


def test_a_master_that_would_push_into_the_middle_of_a_log_is_refused() -> None:
    recovered = RecoveredCopy(0, 8, 8, (MasterEpoch(7, 0),))
    replica = CommitLogReplica(ReplicationConfig(broker_id=1), "slave", recovered, 7)
    replica.begin(0.0)
    replica.step(0.0, Connected(1))
    assert closes(arrive(replica, Welcome(4, 0))) == ["the master would push from 4 into a log that ends at 8"]
    assert replica.log.log_end == 8
