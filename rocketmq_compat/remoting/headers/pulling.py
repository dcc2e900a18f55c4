"""Pulling messages, PULL_MESSAGE (11) and LITE_PULL_MESSAGE (361), and looking single ones up (12, 33)."""

from typing import Annotated, Final

from rocketmq_compat.remoting.headers.fields import Count, ExtHeader, Int, Long, Name, Offset, WireName

COMMITS_OFFSET: Final = 1
SUSPENDS: Final = 2
HAS_SUBSCRIPTION: Final = 4
FILTERS_BY_CLASS: Final = 8
IS_LITE: Final = 16
"""The bits of a pull's `sys_flag` (PullSysFlag.java)."""


class PullMessageRequestHeader(ExtHeader):
    """Messages of one queue from an offset on."""

    consumer_group: Name
    topic: Name
    queue_id: Count
    queue_offset: Long
    max_msg_nums: Int
    sys_flag: Int
    commit_offset: Long = 0
    """To be committed for the group if `COMMITS_OFFSET` is set."""
    suspend_timeout_millis: Long = 0
    """The time to wait for a message if `SUSPENDS` is set."""
    subscription: str | None = None
    """The subscription, if `HAS_SUBSCRIPTION` is set; otherwise the one in the group's heartbeat counts."""
    sub_version: Long = 0
    expression_type: str | None = None
    """TAG or SQL92; TAG if it is missing."""
    max_msg_bytes: Int | None = None


class PullMessageResponseHeader(ExtHeader):
    """The position to go on from, and the broker of the name to ask.

    The offsets belong to the queue; `max_offset` is exclusive.
    """

    suggest_which_broker_id: Offset
    next_begin_offset: Long
    min_offset: Long
    max_offset: Long
    topic_sys_flag: Int | None = None
    group_sys_flag: Int | None = None
    """The sys flags in the settings of topic and group (5.x)."""


class QueryMessageRequestHeader(ExtHeader):
    """Messages of a topic with a key, stored between two times in ms."""

    topic: Name
    key: str
    max_num: Count
    begin_timestamp: Long
    end_timestamp: Long
    is_unique_key: Annotated[bool, WireName("_UNIQUE_KEY_QUERY")] = False
    """True if the key is a producer's message id, and not one of the message's keys."""


class QueryMessageResponseHeader(ExtHeader):
    """The progress of the index."""

    index_last_update_timestamp: Long
    index_last_update_phyoffset: Long


class ViewMessageRequestHeader(ExtHeader):
    """The message at a physical offset."""

    offset: Offset
