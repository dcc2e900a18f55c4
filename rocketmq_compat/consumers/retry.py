"""Messages that a consumer sends back: to be consumed again later, or to rest in the dead-letter topic of its group.

The rule is RocketMQ's (`AbstractSendMessageProcessor.consumerSendMsgBack`, `SendMessageProcessor.handleRetryAndDLQ`),
with one exception. RocketMQ marks returned messages with WAIT=false, so that they are acknowledged before they are
flushed and copied. The consumer then commits past the message, and a failover loses it. Here it is acknowledged as any
other message is.
"""

from collections.abc import Mapping
from typing import Final

from log.values import frozen
from rocketmq_compat.consumers.model import dead_letter_topic, retry_topic
from rocketmq_compat.remoting.bodies import SubscriptionGroupConfig

RETRY_TOPIC: Final = "RETRY_TOPIC"
ORIGIN_MESSAGE_ID: Final = "ORIGIN_MESSAGE_ID"
DELAY_LEVEL: Final = "DELAY"
WAIT_STORED: Final = "WAIT"
"""The sender waits for the flush and the slaves, unless this is "false"."""
FIRST_RETRY_LEVEL: Final = 3
DEAD_LETTER_QUEUES: Final = 1


@frozen
class ReturnedMessage:
    """A stored message that comes back."""

    topic: str
    message_id: str
    """The message id of its own record."""
    reconsume_times: int
    properties: Mapping[str, str]


@frozen
class RetriedMessage:
    """The message to store in its place: the same body, flags, born time and host; a queue is drawn from `queues`."""

    topic: str
    queues: int
    reconsume_times: int
    delay_level: int
    """0: at once."""
    properties: Mapping[str, str]


def send_back(
    message: ReturnedMessage,
    group: SubscriptionGroupConfig,
    *,
    delay_level: int,
    reconsume_times_max: int | None = None,
) -> RetriedMessage | None:
    """Returns the message to store when `group` sends one back, or None for a group without retry queues.

    `delay_level` is the client's wish: 0 leaves it to the broker, which waits longer each time; a negative one means
    dead letter. `reconsume_times_max` is the client's own limit, if it gave one.
    """
    if group.retry_queue_nums <= 0:
        return None
    properties = dict(message.properties)
    properties.setdefault(RETRY_TOPIC, message.topic)
    properties.pop(WAIT_STORED, None)
    properties[ORIGIN_MESSAGE_ID] = properties.get(ORIGIN_MESSAGE_ID, "").strip() or message.message_id
    limit = group.retry_max_times if reconsume_times_max is None else reconsume_times_max
    if message.reconsume_times >= limit or delay_level < 0:
        topic, queues, level = dead_letter_topic(group.group_name), DEAD_LETTER_QUEUES, 0
    else:
        topic, queues = retry_topic(group.group_name), group.retry_queue_nums
        level = delay_level or FIRST_RETRY_LEVEL + message.reconsume_times
    properties[DELAY_LEVEL] = str(level)
    return RetriedMessage(topic, queues, message.reconsume_times + 1, level, properties)


def is_exhausted(
    group: SubscriptionGroupConfig, *, reconsume_times: int, reconsume_times_max: int | None, consumes_in_order: bool
) -> bool:
    """Returns True if a message that a client sends to its retry topic belongs in the dead-letter topic instead.

    A group that consumes in order retries in place, and sends back only messages that it gives up.
    """
    limit = group.retry_max_times if reconsume_times_max is None else reconsume_times_max
    return consumes_in_order or reconsume_times > limit
