"""Clients and groups: leaving, members and their changes (35, 38, 40), requests to clients (220, 221, 307, 309)."""

from typing import Annotated

from rocketmq_compat.remoting.headers.fields import ExtHeader, Int, Long, Name, WireName


class UnregisterClientRequestHeader(ExtHeader):
    """A client leaves its groups."""

    client_id: Annotated[Name, WireName("clientID")]
    producer_group: str | None = None
    consumer_group: str | None = None


class ConsumerGroupRequestHeader(ExtHeader):
    """A consumer group: GET_CONSUMER_LIST_BY_GROUP, GET_CONSUMER_CONNECTION_LIST, NOTIFY_CONSUMER_IDS_CHANGED."""

    consumer_group: Name


class ProducerGroupRequestHeader(ExtHeader):
    """One producer group: GET_PRODUCER_CONNECTION_LIST."""

    producer_group: Name


class ResetOffsetRequestHeader(ExtHeader):
    """Resets a group to a time in a topic, in ms (-1: its end): INVOKE_BROKER_TO_RESET_OFFSET, and 220 to clients."""

    topic: Name
    group: Name
    timestamp: Long
    is_force: bool = True
    """True if it may also go forward."""
    queue_id: Int = -1
    """The only queue that is meant, if it is not negative; `offset` is then where the group goes on."""
    offset: Long | None = None


class GetConsumerStatusRequestHeader(ExtHeader):
    """Asks for the offsets of a group's consumers: INVOKE_BROKER_TO_GET_CONSUMER_STATUS, and 221 to clients."""

    topic: Name
    group: Name
    client_addr: str | None = None


class GetConsumerRunningInfoRequestHeader(ExtHeader):
    """Asks a client for its description. The broker passes the request on to the client."""

    consumer_group: Name
    client_id: Name
    jstack_enable: bool = False


class ConsumeMessageDirectlyRequestHeader(ExtHeader):
    """A message that a client is to consume now. The broker passes it on to the client."""

    consumer_group: Name
    client_id: str | None = None
    msg_id: str | None = None
    broker_name: str | None = None
