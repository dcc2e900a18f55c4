"""Computes the offset that a leader's high watermark may move to."""

from collections.abc import Iterable

from kafka_compat.partition.follower_state import FollowerState
from kafka_compat.partition.replica_log import ReplicaContext


def compute_high_watermark(
    context: ReplicaContext, followers: Iterable[FollowerState], maximal_isr: frozenset[int], now: float
) -> int:
    """Returns the least end of the leader's own copy, of the maximal ISR, and of followers that are about to join it.

    Waiting for the latter lets the ISR grow under load. Returns NO_OFFSET while a member has not fetched.
    """
    log, lag_time_s, brokers = context.log, context.config.replica_lag_time_s, context.brokers
    lowest = log.own_end
    for follower in followers:
        if follower.log_end < lowest and (
            follower.replica in maximal_isr
            or (
                follower.is_caught_up(log.log_end, now, lag_time_s)
                and follower.is_eligible(brokers.get(follower.replica))
            )
        ):
            lowest = follower.log_end
    return lowest


def effective_min_isr(min_insync_replicas: int, factor: int) -> int:
    """Returns the min ISR, limited to the replication factor."""
    return min(min_insync_replicas, factor)
