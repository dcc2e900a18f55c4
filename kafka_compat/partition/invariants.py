"""The invariants of one replica, checked after every step.

A broken rule becomes a crash instead of a wrong answer. These are the rules that one replica can check. The simulator
checks the rules that need all replicas: ISR members hold what any leader calls committed, and logs match.
"""

from typing import TYPE_CHECKING, NamedTuple

from kafka_compat.partition.follower import FollowerReplica
from kafka_compat.partition.leader import LeaderReplica

if TYPE_CHECKING:
    from kafka_compat.partition.core import PartitionReplica


class PartitionFacts(NamedTuple):
    """The part of a replica's state that may only move one way.

    The high watermark may only rise while one replica leads in one epoch.
    """

    leader_epoch: int
    partition_epoch: int
    log_end: int
    high_watermark: int
    last_stable: int
    role: object

    @classmethod
    def of(cls, replica: "PartitionReplica") -> "PartitionFacts":
        """Returns the facts before a step."""
        log, state = replica.log, replica.state
        return cls(
            replica.role.epoch,
            -1 if state is None else state.partition_epoch,
            log.log_end,
            log.high_watermark,
            log.last_stable_offset,
            replica.role,
        )


def check(before: PartitionFacts, replica: "PartitionReplica") -> None:
    """Raises `AssertionError` if the step broke a rule; the replica must then be given up, and its state reported."""
    log, role, state = replica.log, replica.role, replica.state
    assert 0 <= log.log_start <= log.high_watermark <= log.log_end, "the high watermark is outside of the log"
    assert log.flushed_end <= log.log_end, "more is flushed than is in the log"
    assert role.epoch >= before.leader_epoch, "the leader epoch fell"
    assert state is None or state.partition_epoch >= before.partition_epoch, "the partition epoch fell"
    assert log.epochs.last <= role.epoch or state is None, "a batch comes from a later leader epoch"
    if isinstance(role, LeaderReplica):
        _check_leader(before, role, replica)
    elif isinstance(role, FollowerReplica):
        occupied = (role.fetching_from is not None) + (role.truncating_to is not None) + (role.retry_at < float("inf"))
        assert occupied <= 1, "a follower fetches, truncates and waits at once"
        assert role.fetching_from in (None, log.log_end), "the log changed under a fetch"


def _check_leader(before: PartitionFacts, role: LeaderReplica, replica: "PartitionReplica") -> None:
    log, isr = replica.log, role.isr
    if isinstance(before.role, LeaderReplica):
        assert log.log_end >= before.log_end, "a leader's log became shorter"
        assert log.high_watermark >= before.high_watermark, "a leader's high watermark fell"
        assert log.last_stable_offset >= before.last_stable, "a leader's last stable offset fell"
    if before.role is role:
        assert not isr.eligible or log.high_watermark == before.high_watermark, (
            "committed while a copy outside of the ISR may lead"
        )
    assert log.high_watermark <= log.own_end or log.high_watermark == before.high_watermark, (
        "committed before it is held"
    )
    assert log.epochs.last == role.epoch, "a leader has not recorded its epoch"
    assert replica.broker_id in isr.committed, "a leader is not in its own ISR"
    assert isr.maximal.issuperset(isr.committed), "the maximal ISR lacks a committed member"
    if isr.pending is None:
        assert len(isr.maximal) == len(isr.committed), "the maximal ISR has a member that is not proposed"
    for waiting in role.waits.replicated:
        assert waiting.end_offset > log.high_watermark, "a replicated batch was not acknowledged"
        break
