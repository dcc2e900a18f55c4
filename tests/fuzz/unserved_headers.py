"""Ext fields of requests that RocketMQ's brokers serve, and ours refuse."""

from rocketmq_compat.remoting.headers.fields import ExtHeader, Int, Long, Name, Offset


class EndTransactionRequestHeader(ExtHeader):
    """The outcome of a transaction: 8 commits, 12 rolls back, 0 is undecided."""

    producer_group: Name
    tran_state_table_offset: Offset
    """The queue offset of the half message."""
    commit_log_offset: Offset
    """Its physical offset."""
    commit_or_rollback: Int
    from_transaction_check: bool = False
    msg_id: str = ""
    transaction_id: str | None = None


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


class QueryConsumeTimeSpanRequestHeader(ExtHeader):
    """Asks for the age of the messages that a group consumes from a topic."""

    topic: Name
    group: Name
