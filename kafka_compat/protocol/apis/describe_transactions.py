"""Questions of operators about transactions: DescribeTransactions (65), ListTransactions (66), DescribeProducers (61)."""

from kafka_compat.protocol.api import Api
from kafka_compat.protocol.schema import INT32, INT64, STRING, Message, array, int16, int32, int64, string


class DescribeTransactionsRequest(Message):
    """Asks for the states of transactional ids."""

    transactional_ids: tuple[str, ...] = array(STRING)


class DescribedTransactionTopic(Message):
    """The partitions of one topic that are in a transaction."""

    topic: str = string()
    partitions: tuple[int, ...] = array(INT32)


class DescribedTransaction(Message):
    """The state of one transactional id; the start is in ms since 1970, -1 without a transaction."""

    error_code: int = int16()
    transactional_id: str = string()
    transaction_state: str = string(default="")
    transaction_timeout_ms: int = int32(default=0)
    transaction_start_time_ms: int = int64(default=-1)
    producer_id: int = int64(default=-1)
    producer_epoch: int = int16(default=-1)
    topics: tuple[DescribedTransactionTopic, ...] = array(DescribedTransactionTopic, default=())


class DescribeTransactionsResponse(Message):
    """The states."""

    throttle_time_ms: int = int32(default=0)
    transaction_states: tuple[DescribedTransaction, ...] = array(DescribedTransaction)


class ListTransactionsRequest(Message):
    """Asks for the transactional ids of a broker, by states, producer ids and age in ms."""

    state_filters: tuple[str, ...] = array(STRING)
    producer_id_filters: tuple[int, ...] = array(INT64)
    duration_filter: int = int64("1+", default=-1)


class ListedTransaction(Message):
    """One transactional id."""

    transactional_id: str = string()
    producer_id: int = int64()
    transaction_state: str = string()


class ListTransactionsResponse(Message):
    """The transactional ids, and the names among the filters that are no states."""

    throttle_time_ms: int = int32(default=0)
    error_code: int = int16()
    unknown_state_filters: tuple[str, ...] = array(STRING, default=())
    transaction_states: tuple[ListedTransaction, ...] = array(ListedTransaction, default=())


class DescribeProducersTopic(Message):
    """The partitions of one topic."""

    name: str = string()
    partition_indexes: tuple[int, ...] = array(INT32)


class DescribeProducersRequest(Message):
    """Asks for the producers of partitions."""

    topics: tuple[DescribeProducersTopic, ...] = array(DescribeProducersTopic)


class ActiveProducer(Message):
    """One producer of a partition; `current_txn_start_offset` is -1 without an open transaction."""

    producer_id: int = int64()
    producer_epoch: int = int32()
    last_sequence: int = int32(default=-1)
    last_timestamp: int = int64(default=-1)
    coordinator_epoch: int = int32()
    current_txn_start_offset: int = int64(default=-1)


class DescribedProducersPartition(Message):
    """The producers of one partition."""

    partition_index: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable="0+", default=None)
    active_producers: tuple[ActiveProducer, ...] = array(ActiveProducer, default=())


class DescribedProducersTopic(Message):
    """The partitions of one topic."""

    name: str = string()
    partitions: tuple[DescribedProducersPartition, ...] = array(DescribedProducersPartition)


class DescribeProducersResponse(Message):
    """The producers."""

    throttle_time_ms: int = int32(default=0)
    topics: tuple[DescribedProducersTopic, ...] = array(DescribedProducersTopic)


DESCRIBE_TRANSACTIONS = Api.of(
    65, "DescribeTransactions", DescribeTransactionsRequest, DescribeTransactionsResponse, versions="0-0", flexible="0+"
)
LIST_TRANSACTIONS = Api.of(
    66, "ListTransactions", ListTransactionsRequest, ListTransactionsResponse, versions="0-1", flexible="0+"
)
DESCRIBE_PRODUCERS = Api.of(
    61, "DescribeProducers", DescribeProducersRequest, DescribeProducersResponse, versions="0-0", flexible="0+"
)
