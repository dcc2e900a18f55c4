"""Decides which broker serves a consumer that pulls (PullMessageProcessor, DefaultMessageStore.getMessage)."""

import attrs

from log.values import frozen
from rocketmq_compat.replication.model import MASTER_ID


@attrs.frozen
class ReadSettings:
    """Settings of a broker and a subscription group; the names in brackets are RocketMQ's.

    Raises `ValueError` for a ratio that is no percentage.
    """

    slave_read_enable: bool = False
    """[slaveReadEnable]"""
    memory_bytes: int = attrs.field(default=0, validator=attrs.validators.ge(0))
    """The physical memory of the machine."""
    memory_percent_max: int = attrs.field(
        default=40, validator=attrs.validators.and_(attrs.validators.ge(0), attrs.validators.le(100))
    )
    """[accessMessageInMemoryMaxRatio]"""
    group_broker_id: int = MASTER_ID
    """[brokerId] of the subscription group."""
    slow_broker_id: int = 1
    """[whichBrokerWhenConsumeSlowly] of the subscription group."""


@frozen
class PullAdvice:
    """`serves`: this broker answers with records, else PULL_RETRY_IMMEDIATELY. `broker_id` is suggestWhichBrokerId."""

    serves: bool
    broker_id: int


def pull_advice(settings: ReadSettings, *, is_slave: bool, log_end: int, pulled_end: int) -> PullAdvice:
    """Returns the broker that serves this pull, and the one that the client shall ask next.

    `log_end` is this broker's end of the commit log, `pulled_end` the end of the pulled records. A consumer that lags
    more than memory holds is sent to the slave; from a slave that is near its end, back to the group's broker.
    """
    if not settings.slave_read_enable:
        return PullAdvice(not is_slave, MASTER_ID)
    is_slow = (log_end - pulled_end) * 100 > settings.memory_bytes * settings.memory_percent_max
    return PullAdvice(True, settings.slow_broker_id if is_slow else settings.group_broker_id)
