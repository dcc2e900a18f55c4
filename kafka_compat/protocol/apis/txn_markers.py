"""WriteTxnMarkers (27): a transaction coordinator ends transactions in the partitions that a broker leads."""

from kafka_compat.protocol.api import Api
from kafka_compat.protocol.schema import INT32, Message, array, boolean, int8, int16, int32, int64, string


class TxnMarkerTopic(Message):
    """The partitions of one topic."""

    name: str = string()
    partition_indexes: tuple[int, ...] = array(INT32)


class TxnMarker(Message):
    """The end of one producer's transaction; `transaction_result` is true for a commit.

    `transaction_version` is 2 if the epoch was raised for this end (KIP-890): then it must be above the batches' epoch.
    """

    producer_id: int = int64()
    producer_epoch: int = int16()
    transaction_result: bool = boolean()
    topics: tuple[TxnMarkerTopic, ...] = array(TxnMarkerTopic)
    coordinator_epoch: int = int32()
    transaction_version: int = int8("2+", default=0)


class WriteTxnMarkersRequest(Message):
    """Writes markers."""

    markers: tuple[TxnMarker, ...] = array(TxnMarker)


class TxnMarkerPartitionResult(Message):
    """The outcome for one partition."""

    partition_index: int = int32()
    error_code: int = int16()


class TxnMarkerTopicResult(Message):
    """The partitions of one topic."""

    name: str = string()
    partitions: tuple[TxnMarkerPartitionResult, ...] = array(TxnMarkerPartitionResult)


class TxnMarkerResult(Message):
    """The outcomes of one marker."""

    producer_id: int = int64()
    topics: tuple[TxnMarkerTopicResult, ...] = array(TxnMarkerTopicResult)


class WriteTxnMarkersResponse(Message):
    """The outcomes, in the order of the markers."""

    markers: tuple[TxnMarkerResult, ...] = array(TxnMarkerResult)


WRITE_TXN_MARKERS = Api.of(
    27, "WriteTxnMarkers", WriteTxnMarkersRequest, WriteTxnMarkersResponse, versions="1-2", flexible="1+"
)
