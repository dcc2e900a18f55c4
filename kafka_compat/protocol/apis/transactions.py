"""The requests of a transactional producer: AddPartitionsToTxn (24), AddOffsetsToTxn (25), EndTxn (26) and
TxnOffsetCommit (28).

From version 4 on AddPartitionsToTxn is for brokers: one request names several transactions, to add partitions to them
or only to verify that they were added (KIP-890).
"""

from kafka_compat.protocol.api import Api
from kafka_compat.protocol.schema import INT32, Message, array, boolean, int16, int32, int64, string


class AddPartitionsTopic(Message):
    """The partitions of one topic."""

    name: str = string()
    partitions: tuple[int, ...] = array(INT32)


class AddPartitionsTransaction(Message):
    """The partitions of one transaction. `verify_only` asks if they were added, and adds none."""

    transactional_id: str = string()
    producer_id: int = int64()
    producer_epoch: int = int16()
    verify_only: bool = boolean(default=False)
    topics: tuple[AddPartitionsTopic, ...] = array(AddPartitionsTopic)


class AddPartitionsToTxnRequest(Message):
    """Adds partitions to a transaction, up to version 3; to several, by a broker, from 4."""

    transactions: tuple[AddPartitionsTransaction, ...] = array(AddPartitionsTransaction, "4+", default=())
    v3_and_below_transactional_id: str = string("0-3", default="")
    v3_and_below_producer_id: int = int64("0-3", default=0)
    v3_and_below_producer_epoch: int = int16("0-3", default=0)
    v3_and_below_topics: tuple[AddPartitionsTopic, ...] = array(AddPartitionsTopic, "0-3", default=())


class AddPartitionsPartitionResult(Message):
    """The outcome for one partition."""

    partition_index: int = int32()
    partition_error_code: int = int16()


class AddPartitionsTopicResult(Message):
    """The partitions of one topic."""

    name: str = string()
    results_by_partition: tuple[AddPartitionsPartitionResult, ...] = array(AddPartitionsPartitionResult)


class AddPartitionsResult(Message):
    """The outcome for one transaction."""

    transactional_id: str = string()
    topic_results: tuple[AddPartitionsTopicResult, ...] = array(AddPartitionsTopicResult)


class AddPartitionsToTxnResponse(Message):
    """The outcomes: by topic up to version 3, by transaction from 4."""

    throttle_time_ms: int = int32(default=0)
    error_code: int = int16("4+", default=0)
    results_by_transaction: tuple[AddPartitionsResult, ...] = array(AddPartitionsResult, "4+", default=())
    results_by_topic_v3_and_below: tuple[AddPartitionsTopicResult, ...] = array(
        AddPartitionsTopicResult, "0-3", default=()
    )


class AddOffsetsToTxnRequest(Message):
    """Adds the partition of a group's offsets to a transaction."""

    transactional_id: str = string()
    producer_id: int = int64()
    producer_epoch: int = int16()
    group_id: str = string()


class AddOffsetsToTxnResponse(Message):
    """The outcome."""

    throttle_time_ms: int = int32(default=0)
    error_code: int = int16()


class EndTxnRequest(Message):
    """Commits or aborts a transaction."""

    transactional_id: str = string()
    producer_id: int = int64()
    producer_epoch: int = int16()
    committed: bool = boolean()


class EndTxnResponse(Message):
    """The outcome, and from version 5 the producer id and epoch of the next transaction (KIP-890)."""

    throttle_time_ms: int = int32(default=0)
    error_code: int = int16()
    producer_id: int = int64("5+", default=-1)
    producer_epoch: int = int16("5+", default=-1)


class TxnOffsetCommitPartition(Message):
    """The offset of one partition."""

    partition_index: int = int32()
    committed_offset: int = int64()
    committed_leader_epoch: int = int32("2+", default=-1)
    committed_metadata: str | None = string(nullable="0+")


class TxnOffsetCommitTopic(Message):
    """The partitions of one topic."""

    name: str = string()
    partitions: tuple[TxnOffsetCommitPartition, ...] = array(TxnOffsetCommitPartition)


class TxnOffsetCommitRequest(Message):
    """Commits offsets of a group with a transaction.

    From version 3 on it may name the member and the generation, which fence a former member (KIP-447).
    """

    transactional_id: str = string()
    group_id: str = string()
    producer_id: int = int64()
    producer_epoch: int = int16()
    generation_id: int = int32("3+", default=-1)
    member_id: str = string("3+", default="")
    group_instance_id: str | None = string("3+", nullable="3+", default=None)
    topics: tuple[TxnOffsetCommitTopic, ...] = array(TxnOffsetCommitTopic)


class TxnOffsetCommitPartitionResponse(Message):
    """The outcome for one partition."""

    partition_index: int = int32()
    error_code: int = int16()


class TxnOffsetCommitTopicResponse(Message):
    """The partitions of one topic."""

    name: str = string()
    partitions: tuple[TxnOffsetCommitPartitionResponse, ...] = array(TxnOffsetCommitPartitionResponse)


class TxnOffsetCommitResponse(Message):
    """The outcomes."""

    throttle_time_ms: int = int32(default=0)
    topics: tuple[TxnOffsetCommitTopicResponse, ...] = array(TxnOffsetCommitTopicResponse)


ADD_PARTITIONS_TO_TXN = Api.of(
    24, "AddPartitionsToTxn", AddPartitionsToTxnRequest, AddPartitionsToTxnResponse, versions="0-5", flexible="3+"
)
ADD_OFFSETS_TO_TXN = Api.of(
    25, "AddOffsetsToTxn", AddOffsetsToTxnRequest, AddOffsetsToTxnResponse, versions="0-4", flexible="3+"
)
END_TXN = Api.of(26, "EndTxn", EndTxnRequest, EndTxnResponse, versions="0-5", flexible="3+")
TXN_OFFSET_COMMIT = Api.of(
    28, "TxnOffsetCommit", TxnOffsetCommitRequest, TxnOffsetCommitResponse, versions="0-5", flexible="3+"
)
