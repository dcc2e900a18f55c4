"""The invariants of one replica, checked after every step.

A broken rule becomes a crash instead of a wrong answer. These are the rules that one replica can check. The simulator
checks the rules that need all copies: the promise of a status is on their disks, and no slave differs from its master.
"""

from typing import TYPE_CHECKING, NamedTuple

from rocketmq_compat.replication import acks
from rocketmq_compat.replication.events import DeadlineReached, DivergenceDiscarded, Event, PutMessages, Received
from rocketmq_compat.replication.master import Master
from rocketmq_compat.replication.model import NO_EPOCH
from rocketmq_compat.replication.slave import Slave

if TYPE_CHECKING:
    from rocketmq_compat.replication.core import CommitLogReplica


class ReplicaFacts(NamedTuple):
    """The part of a replica's state that may only move one way."""

    log_start: int
    log_end: int
    confirm_offset: int
    epoch: int
    """Of a master the one that it has begun."""
    is_blocked: bool

    @classmethod
    def of(cls, replica: "CommitLogReplica") -> "ReplicaFacts":
        """Returns the facts before a step."""
        log, role = replica.log, replica.role
        if isinstance(role, Master):
            return cls(log.log_start, log.log_end, log.confirm_offset, role.epoch, role.is_blocked)
        return cls(log.log_start, log.log_end, log.confirm_offset, log.epochs.last, False)


def check(before: ReplicaFacts, event: Event, now: float, replica: "CommitLogReplica") -> None:
    """Raises `AssertionError` if the step broke a rule; the replica must then be given up, and its state reported."""
    log, role = replica.log, replica.role
    assert 0 <= log.log_start <= log.log_end, "the log ends before it begins"
    assert log.log_start <= log.flushed_end <= log.log_end, "more is flushed than is in the log"
    assert log.log_start <= log.confirm_offset <= log.log_end, "the confirm offset is outside of the log"
    assert not isinstance(event, DeadlineReached) or replica.deadline > now, "something is due, and was not done"
    if isinstance(role, Master):
        _check_master(before, event, role, replica)
    else:
        _check_slave(before, event, role, replica)


def _check_master(before: ReplicaFacts, event: Event, role: Master, replica: "CommitLogReplica") -> None:
    log = replica.log
    is_in_doubt = role.is_in_doubt
    assert is_in_doubt == (role.epoch == NO_EPOCH), "an epoch goes with a log that is whole"
    assert is_in_doubt or log.epochs.last == role.epoch, "a master has not recorded its epoch"
    assert role.epoch == before.epoch or NO_EPOCH in (role.epoch, before.epoch), "a start has two epochs"
    assert is_in_doubt or role.copy_back.source is None, "a master copies back, and takes records"
    if log.log_end != before.log_end:
        is_copied_back = isinstance(event, Received) and log.log_end > before.log_end
        assert isinstance(event, PutMessages) or is_copied_back, "a master's log changed by itself"
        assert not isinstance(event, PutMessages) or not before.is_blocked, (
            "records were taken by a master that is blocked"
        )
    assert log.confirm_offset >= before.confirm_offset, "a master's confirm offset fell"
    slaves = role.slaves
    assert len({each.slave_id for each in slaves}) == len(slaves), "a slave counts twice"
    for slave in slaves:
        assert slave.reported_end <= slave.pushed_end, "a slave reported what it was not pushed"
        assert slave.pushed_end <= log.log_end or replica.config.divergence == "rocketmq", "pushed what is not there"
    reports = [each.reported_end for each in slaves]
    for copies in role.waits.copies_awaited:
        reached = acks.copied_end(log.log_end, reports, copies)
        assert role.waits.first_end(copies) > reached or reached == -1, (
            "records with all their copies were not answered"
        )


def _check_slave(before: ReplicaFacts, event: Event, role: Slave, replica: "CommitLogReplica") -> None:
    log = replica.log
    if isinstance(event, DivergenceDiscarded):
        return
    if not isinstance(event, Received):
        assert (log.log_end, log.epochs.last) == (before.log_end, before.epoch), "a slave's log changed by itself"
    elif log.log_end < before.log_end:
        assert before.log_start == before.log_end, "a slave dropped bytes of its log"
    assert role.connection is None or role.retry_at == float("inf"), (
        "a slave waits for its next connection while it has one"
    )
    assert not role.is_welcome or role.reported_end <= log.own_end, "a slave reported more than it holds"
