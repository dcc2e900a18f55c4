"""Offsets of queues: the offsets of a group (14, 15), and a queue's begin, end or position at a time (29 to 32)."""

from typing import Final

from rocketmq_compat.remoting.headers.fields import Count, ExtHeader, Long, Name, Offset

LOWER: Final = "lower"
UPPER: Final = "upper"


class QueryConsumerOffsetRequestHeader(ExtHeader):
    """Asks for a group's offset in a queue."""

    consumer_group: Name
    topic: Name
    queue_id: Count
    set_zero_if_not_found: bool = True
    """True if the broker may answer 0 for a group that is new to a queue whose first messages are still there."""


class UpdateConsumerOffsetRequestHeader(ExtHeader):
    """Commits an offset: all messages before it are consumed."""

    consumer_group: Name
    topic: Name
    queue_id: Count
    commit_offset: Offset


class QueueRequestHeader(ExtHeader):
    """One queue: GET_MAX_OFFSET, GET_MIN_OFFSET and GET_EARLIEST_MSG_STORETIME."""

    topic: Name
    queue_id: Count


class SearchOffsetRequestHeader(ExtHeader):
    """The first message of a queue that was stored at a time, in ms, or later."""

    topic: Name
    queue_id: Count
    timestamp: Long
    boundary_type: str | None = None
    """`LOWER` or `UPPER`, in any case: with the latter, the last message that was stored at that time or earlier."""


class OffsetResponseHeader(ExtHeader):
    """An offset of a queue: the answer to 14, 29, 30 and 31."""

    offset: Long


class DelayOffsetsResponseHeader(ExtHeader):
    """With the answer to GET_ALL_DELAY_OFFSET; not RocketMQ's."""

    log_end: Long | None = None
    """The end of the commit log that contains all deliveries which these offsets count."""


class EarliestMsgStoretimeResponseHeader(ExtHeader):
    """The store time of the oldest message of a queue, in ms; -1 for an empty queue."""

    timestamp: Long
