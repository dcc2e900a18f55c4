"""The orders that `TransactionCoordinator.step` returns. Carry them out in their order."""

from collections.abc import Mapping
from typing import TypeAlias

import attrs

from kafka_compat.coordinator.effects import AppendRecords
from kafka_compat.model import TopicPartition
from kafka_compat.protocol.error_codes import KafkaErrorCode
from kafka_compat.transactions.model import NO_EPOCH, NO_PRODUCER, TransactionData
from log.values import frozen


@frozen
class TransactionAnswer:
    """The outcome of a request. Only the fields that its request asks for are filled."""

    token: int
    error: KafkaErrorCode
    producer_id: int = NO_PRODUCER
    producer_epoch: int = NO_EPOCH
    partitions: Mapping[TopicPartition, KafkaErrorCode] = attrs.field(factory=dict)
    """VerifyPartitions: the outcome of each partition."""
    described: Mapping[str, TransactionData] = attrs.field(factory=dict)
    """DescribeTransaction and ListTransactions: the state of each transactional id."""


@frozen
class AllocateProducerId:
    """Get a new producer id, and report `ProducerIdAllocated` with the same number."""

    request: int


@frozen
class SendMarkers:
    """Let the leader of each partition write a marker, again until it is committed; then report `MarkersWritten`.

    `version` is that of transactions: from 2 on the epoch is above that of the transaction's batches.
    """

    markers: int
    transactional_id: str
    producer_id: int
    producer_epoch: int
    commits: bool
    version: int
    partitions: frozenset[TopicPartition]


@frozen
class NameAborted:
    """News for operators: a transaction was aborted because its timeout had passed."""

    transactional_id: str
    data: TransactionData


TransactionEffect: TypeAlias = TransactionAnswer | AppendRecords | AllocateProducerId | SendMarkers | NameAborted
