"""A master and its slaves claim what no correct one does: that ends the connection, and changes nothing."""

from collections.abc import Sequence

import crc32c
import pytest

from raft.net.errors import WireError
from raft.net.framing import FrameDecoder
from rocketmq_compat.replication.core import CommitLogReplica
from rocketmq_compat.replication.effects import AdoptTables, AnswerPut, Effect, SendMessage, TruncateCommitLog
from rocketmq_compat.replication.events import Connected, DivergenceDiscarded, Pushed, PutMessages
from rocketmq_compat.replication.ha_codec import EPOCH_MAX, FRAME_BYTES_MAX, decode, encode
from rocketmq_compat.replication.master import Master
from rocketmq_compat.replication.messages import (
    FetchBack,
    HaMessage,
    Handshake,
    HandshakeRefused,
    Heartbeat,
    Push,
    Report,
    Tables,
    Welcome,
)
from rocketmq_compat.replication.model import CopyDoubt, LogReach, MasterEpoch, RecoveredCopy, ReplicationConfig
from tests.rocketmq_compat.replication.test_roles import arrive, closes, master, shake, slave

EPOCH = MasterEpoch(3, 0)
WAITS = ReplicationConfig(sync_master=True)


def push(offset: int, size: int = 4, *, epoch: int = 3, crc: int | None = None) -> Push:
    payload = b"x" * size
    return Push(offset, epoch, 0, crc32c.crc32c(payload) if crc is None else crc, payload)


def serving() -> CommitLogReplica:
    """A master with a slave that was pushed the first 4 of 8 bytes, and has reported 2; a producer waits."""
    replica = master(WAITS)
    replica.step(0.0, Connected(1))
    arrive(replica, shake())
    replica.step(0.0, PutMessages(1, 4, None, wait=True))
    replica.step(0.0, Pushed(1, 4))
    arrive(replica, Report(2))
    replica.step(0.0, PutMessages(2, 4, None, wait=True))
    return replica


def copying_back() -> CommitLogReplica:
    """A master that has 4 of the 12 bytes of slave 1, and copies back the rest."""
    replica = master(recovered=RecoveredCopy(0, 4, 4, (EPOCH,)))
    replica.step(0.0, Connected(1))
    effects = arrive(replica, shake(1, (0, 12), EPOCH))
    assert SendMessage(1, FetchBack(4, 12)) in effects
    return replica


SAID_BY_SLAVES: dict[str, tuple[HaMessage, str]] = {
    "more than was pushed": (Report(5), "reports 5, and was pushed up to 4"),
    "less than before": (Report(1), "reports 1 after 2"),
    "a second handshake": (shake(), "a second handshake"),
    "a push that was not asked for": (push(8), "a push that was not asked for"),
    "tables that were not asked for": (Tables(b"any"), "tables that were not asked for"),
}


@pytest.mark.parametrize("claim", SAID_BY_SLAVES)
def test_a_slave_that_says_what_no_slave_does_loses_its_connection(claim: str) -> None:
    message, reason = SAID_BY_SLAVES[claim]
    replica = serving()
    effects = arrive(replica, message)
    assert closes(effects) == [reason]
    assert not [each for each in effects if isinstance(each, AnswerPut | AdoptTables)]
    assert (replica.log.log_end, replica.log.confirm_offset) == (8, 2)
    assert isinstance(replica.role, Master)
    assert not replica.role.is_blocked


BACK: dict[str, HaMessage] = {
    "at another place": push(8),
    "beyond what it claimed to have": push(4, 9),
    "of an epoch before the last": push(4, epoch=2),
    "with another checksum": push(4, crc=7),
    "a second handshake": shake(1, (0, 4), EPOCH),
}


@pytest.mark.parametrize("claim", BACK)
def test_a_slave_that_lends_what_it_did_not_claim_loses_its_connection(claim: str) -> None:
    replica = copying_back()
    assert len(closes(arrive(replica, BACK[claim]))) == 1
    assert isinstance(replica.role, Master)
    assert (replica.log.log_end, replica.role.slaves) == (4, [])


def test_a_slave_that_comes_twice_while_it_lends_counts_once() -> None:
    """It would be welcomed on both connections, which ends the master."""
    replica = copying_back()
    replica.step(0.0, Connected(2))
    assert closes(arrive(replica, shake(1, (0, 4), EPOCH), on=2)) == ["the slave has a newer connection"]
    assert isinstance(replica.role, Master)
    assert [each.connection for each in replica.role.slaves] == [2]
    assert arrive(replica, push(4, 8)) == []


def test_a_slave_that_lends_on_its_newer_connection_is_not_disturbed_by_the_older() -> None:
    replica = master(recovered=RecoveredCopy(0, 4, 4, (EPOCH,)))
    for connection in (1, 2):
        replica.step(0.0, Connected(connection))
    arrive(replica, shake(1, (0, 12), EPOCH), on=2)
    assert closes(arrive(replica, shake(1, (0, 4), EPOCH))) == ["the slave has a newer connection"]
    arrive(replica, push(4, 8), on=2)
    assert isinstance(replica.role, Master)
    assert [each.connection for each in replica.role.slaves] == [2]


def test_tables_count_once_for_each_time_they_are_asked_for() -> None:
    lost = CopyDoubt(LogReach(3, 4), lacks_tables=True)
    replica = master(ReplicationConfig(total_replicas=3), RecoveredCopy(0, 4, 4, (EPOCH,), lost))
    replica.step(0.0, Connected(1))
    arrive(replica, shake(1, (0, 4), EPOCH))
    adopted = [isinstance(each, AdoptTables) for each in arrive(replica, Tables(b"once"))]
    assert adopted.count(True) == 1
    assert closes(arrive(replica, Tables(b"twice"))) == ["tables that were not asked for"]


def welcome(replica: CommitLogReplica) -> None:
    """It has 4 bytes of its master then."""
    replica.step(0.0, Connected(1))
    arrive(replica, Welcome(0, 0))
    arrive(replica, push(0))


SAID_BY_MASTERS: dict[str, HaMessage] = {
    "a second welcome": Welcome(4, 0),
    "a push at another place": push(5),
    "a push of an epoch before the last": push(4, epoch=2),
    "a push with another checksum": push(4, crc=7),
    "a fetch from one that it welcomed": FetchBack(0, 4),
}


@pytest.mark.parametrize("claim", SAID_BY_MASTERS)
def test_a_master_that_says_what_no_master_does_loses_its_slave(claim: str) -> None:
    replica = slave()
    welcome(replica)
    assert len(closes(arrive(replica, SAID_BY_MASTERS[claim]))) == 1
    assert (replica.log.log_start, replica.log.log_end) == (0, 4)


@pytest.mark.parametrize(
    "message", [push(0), Heartbeat(0), Welcome(2, 0), FetchBack(0, 9)], ids=["push", "heartbeat", "shorter", "too much"]
)
def test_a_master_that_did_not_welcome_is_not_followed(message: HaMessage) -> None:
    replica = CommitLogReplica(ReplicationConfig(broker_id=1), "slave", RecoveredCopy(0, 4, 4, (EPOCH,)), 7)
    replica.begin(0.0)
    replica.step(0.0, Connected(1))
    assert len(closes(arrive(replica, message))) == 1
    assert replica.log.log_end == 4


def test_what_is_confirmed_is_within_the_log() -> None:
    replica = slave()
    welcome(replica)
    arrive(replica, Heartbeat(2**62))
    assert replica.log.confirm_offset == 4


@pytest.mark.parametrize(("agreed_end", "cut"), [(2, [TruncateCommitLog(2)]), (9, [])])
def test_an_operator_is_offered_no_cut_behind_the_end(agreed_end: int, cut: Sequence[Effect]) -> None:
    replica = slave()
    welcome(replica)
    arrive(replica, HandshakeRefused("they part", agreed_end))
    assert [each for each in replica.step(1.0, DivergenceDiscarded()) if isinstance(each, TruncateCommitLog)] == cut


@pytest.mark.parametrize(
    "message",
    [push(0, epoch=EPOCH_MAX + 1), Handshake("broker-a", 1, True, 0, 4, (MasterEpoch(EPOCH_MAX + 1, 0),))],
    ids=["push", "handshake"],
)
def test_no_epoch_leaves_the_next_masters_none(message: HaMessage) -> None:
    (frame,) = FrameDecoder(FRAME_BYTES_MAX).feed(b"".join(map(bytes, encode(message))))
    with pytest.raises(WireError, match=r"epoch \d+ is out of range"):
        decode(frame)
