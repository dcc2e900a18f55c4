"""The facts that go into `TransactionCoordinator.step`. A `token` names a request; `TransactionAnswer` carries it back.

`time_ms` is the wall clock in ms since 1970: it is written into records, which outlive the process. What partitions of
logs have in common comes from `coordinator.events`: `RecordsLoaded`, `LoadFinished`, `Written`, `WriteFailed`,
`Resigned`.
"""

from typing import TypeAlias

from kafka_compat.coordinator.events import LoadFinished, RecordsLoaded, Resigned, WriteFailed, Written
from kafka_compat.model import TopicPartition
from kafka_compat.protocol.error_codes import KafkaErrorCode
from log.values import frozen


@frozen
class InitProducer:
    """InitProducerId: a producer begins, and fences the ones before it.

    `expected` is the id and the epoch that it has, if it goes on after an error (KIP-360).
    """

    transactional_id: str
    timeout_ms: int
    expected: tuple[int, int] | None = None


@frozen
class AddPartitions:
    """AddPartitionsToTxn, or AddOffsetsToTxn for the partition of a group. `version` is that of transactions."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    partitions: tuple[TopicPartition, ...]
    version: int


@frozen
class VerifyPartitions:
    """A leader asks if partitions were added (KIP-890)."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    partitions: tuple[TopicPartition, ...]


@frozen
class EndTransaction:
    """EndTxn. `version` is that of transactions."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    commits: bool
    version: int


@frozen
class DescribeTransaction:
    """DescribeTransactions, of one transactional id."""

    transactional_id: str


@frozen
class ListTransactions:
    """ListTransactions: all transactional ids."""


TransactionRequest: TypeAlias = (
    InitProducer | AddPartitions | VerifyPartitions | EndTransaction | DescribeTransaction | ListTransactions
)


@frozen
class TransactionRequestArrived:
    """A request; one `TransactionAnswer` with the same token answers it, perhaps much later."""

    token: int
    request: TransactionRequest
    time_ms: int


@frozen
class ProducerIdAllocated:
    """The answer to `AllocateProducerId` number `request`: a new producer id, or an error."""

    request: int
    producer_id: int
    error: KafkaErrorCode
    time_ms: int


@frozen
class MarkersWritten:
    """All markers that `SendMarkers` number `markers` ordered are committed, or their partitions are gone."""

    markers: int
    time_ms: int


@frozen
class MarkersRefused:
    """A leader has seen a newer epoch of the producer, or of this coordinator: another coordinator goes on."""

    markers: int
    error: KafkaErrorCode


@frozen
class TransactionTimePassed:
    """Time passed; due whenever `TransactionCoordinator.deadline` is reached, harmless at any other time."""

    time_ms: int


TransactionEvent: TypeAlias = (
    TransactionRequestArrived
    | ProducerIdAllocated
    | MarkersWritten
    | MarkersRefused
    | TransactionTimePassed
    | RecordsLoaded
    | LoadFinished
    | Written
    | WriteFailed
    | Resigned
)
