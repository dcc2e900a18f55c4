"""Throttles of replication: the bytes a second that a broker gives to, or takes for, copies that catch up.

`leader.replication.throttled.rate` bounds what a broker gives, `follower.replication.throttled.rate` what it takes. Both
hold for the replicas that the topic's list of the same side names, and only while the copy is out of sync: what is
acknowledged never waits for a throttle. `kafka-reassign-partitions --throttle` sets all four.
"""

from functools import lru_cache

import attrs

from kafka_compat.broker.context import Context
from kafka_compat.config_keys import LONG_MAX
from kafka_compat.model import TopicPartition

LEADER, FOLLOWER = "leader", "follower"
UNLIMITED = LONG_MAX
SAVED_S = 1.0
"""A broker that has passed nothing for a while may pass what the rate allows for so long at once."""


@attrs.define
class ReplicationQuota:
    """A rate in bytes a second. What passes is taken as a whole, and nothing more passes until it is made up for."""

    _left: float = 0.0
    """The bytes that may pass; below 0 those that were too many."""
    _at: float = float("-inf")

    def delay_s(self, rate: int, now: float) -> float:
        """Returns for how long nothing may pass at this rate; 0: something may now."""
        self._left = min(rate * SAVED_S, self._left + rate * (now - self._at))
        self._at = now
        return 0.0 if self._left >= 0 else -self._left / rate

    def take(self, size: int, rate: int, now: float) -> float:
        """Record what passed. Returns as `delay_s`."""
        self.delay_s(rate, now)
        self._left -= size
        return self.delay_s(rate, now)


@lru_cache(maxsize=1024)
def _pairs_of(listed: str) -> frozenset[str]:
    return frozenset(listed.split(","))


def is_listed(listed: str, partition: int, broker: int) -> bool:
    """Returns True if a list of throttled replicas names this one: as partition:broker, or all by a star."""
    return listed == "*" or f"{partition}:{broker}" in _pairs_of(listed)


class Throttle:
    """One side of one broker."""

    def __init__(self, context: Context, side: str) -> None:
        self._context = context
        self._rate_name = f"{side}.replication.throttled.rate"
        self._list_name = f"{side}.replication.throttled.replicas"
        self._quota = ReplicationQuota()

    def delay_s(self, partition: TopicPartition, copy: int) -> float:
        """Returns for how long nothing may pass for the copy of this broker; 0: something may now."""
        rate = self._rate_of(partition, copy)
        return 0.0 if rate is None else self._quota.delay_s(rate, self._context.clock())

    def take(self, partition: TopicPartition, copy: int, size: int) -> float:
        """Record what passed for the copy of this broker. Returns as `delay_s`."""
        rate = self._rate_of(partition, copy)
        return 0.0 if rate is None else self._quota.take(size, rate, self._context.clock())

    def _rate_of(self, partition: TopicPartition, copy: int) -> int | None:
        rate = self._context.settings.number(self._rate_name)
        if rate == UNLIMITED:
            return None
        topic, state = self._context.image.topics.get(partition.topic), self._context.image.partition(partition)
        listed = "" if topic is None else topic.configs.get(self._list_name, "")
        if state is None or copy in state.isr or not is_listed(listed, partition.partition, self._context.broker_id):
            return None
        return rate
