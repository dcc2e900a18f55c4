"""Sending messages, and replies of requests.

SEND_MESSAGE (10), SEND_MESSAGE_V2 (310), SEND_BATCH_MESSAGE (320), CONSUMER_SEND_MSG_BACK (36), replies (324 to 326).
"""

import functools
from collections.abc import Mapping
from typing import Annotated, Final, Self

import attrs

from rocketmq_compat.remoting.headers.fields import (
    Count,
    ExtField,
    ExtHeader,
    Int,
    Long,
    Name,
    Offset,
    WireName,
    plan,
    read_fields,
    written_fields,
)

AUTO_CREATE_TEMPLATE: Final = "TBW102"
"""The topic whose settings a topic gets that is made because a message was sent to it."""


class SendMessageRequestHeader(ExtHeader):
    """One message, or a batch of them. SEND_MESSAGE_V2 and SEND_BATCH_MESSAGE name each field by one letter."""

    producer_group: Name
    topic: Name
    default_topic: str = AUTO_CREATE_TEMPLATE
    default_topic_queue_nums: Int = 4
    queue_id: Int
    """Negative: the broker chooses."""
    sys_flag: Int
    born_timestamp: Long
    flag: Int
    properties: str | None = None
    """As `records.read_properties` reads them."""
    reconsume_times: Count = 0
    unit_mode: bool = False
    max_reconsume_times: Int | None = None
    batch: bool = False
    broker_name: Annotated[str | None, WireName("bname")] = None

    @classmethod
    def read_v2(cls, ext: Mapping[str, str]) -> Self:
        """Like `read`, for fields with names of one letter."""
        return read_fields(cls, _letters(), ext)

    def ext_v2(self) -> dict[str, str]:
        """Like `ext`, with names of one letter."""
        return written_fields(self, _letters())


@functools.cache
def _letters() -> tuple[ExtField, ...]:
    """Returns the same fields with the names a to n (SendMessageRequestHeaderV2.java)."""
    return tuple(
        attrs.evolve(field, name=letter)
        for field, letter in zip(plan(SendMessageRequestHeader), "abcdefghijklmn", strict=True)
    )


class SendMessageResponseHeader(ExtHeader):
    """The place of a message. For a batch: all ids, joined by commas, and the offset of the first."""

    msg_id: str
    queue_id: Count
    queue_offset: Offset
    transaction_id: str | None = None
    region_id: Annotated[str | None, WireName("MSG_REGION")] = None
    trace_on: Annotated[bool | None, WireName("TRACE_ON")] = None
    """The region and the trace flag with which the message is stored: a producer traces it by them."""


class ReplyMessageRequestHeader(ExtHeader):
    """A reply that the broker pushes to the client that asked, with its fields: PUSH_REPLY_MESSAGE_TO_CLIENT."""

    producer_group: Name
    topic: Name
    default_topic: str
    default_topic_queue_nums: Int
    queue_id: Int
    sys_flag: Int
    born_timestamp: Long
    flag: Int
    properties: str
    reconsume_times: Count
    unit_mode: bool
    born_host: str
    """HOST:PORT, as `store_host`."""
    store_host: str
    store_timestamp: Long


class ConsumerSendMsgBackRequestHeader(ExtHeader):
    """A message that was not consumed: it is to come again later, or goes to the dead-letter topic."""

    offset: Offset
    """Its physical offset."""
    group: Name
    delay_level: Int
    """0: the broker chooses by the count of tries; negative: to the dead-letter topic at once."""
    origin_msg_id: str | None = None
    origin_topic: str | None = None
    unit_mode: bool = False
    max_reconsume_times: Int | None = None
