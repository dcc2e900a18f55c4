"""Clients and their groups: leaving, members and their changes (35, 38, 40)."""

from typing import Annotated

from rocketmq_compat.remoting.headers.fields import ExtHeader, Name, WireName


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
