"""A leader's knowledge of one follower, learned from its fetches in this leader epoch alone."""

import math

import attrs

from kafka_compat.model import NO_EPOCH, BrokerRegistration
from kafka_compat.partition.model import NO_OFFSET


@attrs.define
class FollowerState:
    """A follower in one leader epoch.

    A new epoch begins with a new object, because the follower may have truncated since. `log_end` is NO_OFFSET until
    the first fetch. `caught_up_at` is the last time at which it had all records of the leader.
    """

    replica: int
    caught_up_at: float = -math.inf
    log_end: int = NO_OFFSET
    log_start: int = NO_OFFSET
    broker_epoch: int = NO_EPOCH
    fetched_at: float = -math.inf
    leader_end_at_fetch: int = NO_OFFSET

    def record_fetch(self, fetch_offset: int, log_start: int, broker_epoch: int, leader_end: int, now: float) -> None:
        """Record a fetch from `fetch_offset`: the follower has everything below.

        `leader_end` is the leader's log end before the answer is read. The follower is caught up now if it has reached
        `leader_end`. It was caught up at its previous fetch if it has reached the log end that the leader had then.
        """
        if fetch_offset >= leader_end:
            self.caught_up_at = now
        elif self.log_end >= 0 and fetch_offset >= self.leader_end_at_fetch:
            self.caught_up_at = max(self.caught_up_at, self.fetched_at)
        self.log_end = fetch_offset
        self.log_start = log_start
        self.broker_epoch = broker_epoch
        self.fetched_at = now
        self.leader_end_at_fetch = leader_end

    def is_caught_up(self, leader_end: int, now: float, lag_time_s: float) -> bool:
        """Returns True if the follower's lag in time allows it in the ISR."""
        return self.log_end == leader_end or now - self.caught_up_at <= lag_time_s

    def is_eligible(self, registration: BrokerRegistration | None) -> bool:
        """Returns True if the controller accepts the follower in an ISR.

        Its broker must be active, and registered by the process that fetched (KIP-903).
        """
        return registration is not None and registration.active and registration.epoch == self.broker_epoch
