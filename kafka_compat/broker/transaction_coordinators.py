"""The transaction coordinators of this broker: one for each partition of the transactions topic that it leads."""

from collections.abc import Callable, Iterator
from typing import Any

from kafka_compat.broker.context import Context
from kafka_compat.broker.coordinator_host import CoordinatorHost, HostedCoordinator
from kafka_compat.broker.marker_sender import MarkerSender
from kafka_compat.broker.producer_ids import ProducerIds
from kafka_compat.broker.replicas import LocalReplica, Replicas
from kafka_compat.broker.reporter import Tell
from kafka_compat.coordinator.effects import AppendRecords
from kafka_compat.coordinator.events import RecordsLoaded
from kafka_compat.coordinator.partitioning import partition_of
from kafka_compat.model import TRANSACTIONS_TOPIC
from kafka_compat.protocol.batch_header import BatchHeader
from kafka_compat.protocol.error_codes import KafkaErrorCode
from kafka_compat.records import read_records
from kafka_compat.transactions.config import TransactionConfig
from kafka_compat.transactions.core import TransactionCoordinator
from kafka_compat.transactions.effects import (
    AllocateProducerId,
    NameAborted,
    SendMarkers,
    TransactionAnswer,
    TransactionEffect,
)
from kafka_compat.transactions.events import (
    MarkersRefused,
    MarkersWritten,
    ProducerIdAllocated,
    TransactionEvent,
    TransactionRequest,
    TransactionRequestArrived,
    TransactionTimePassed,
)

WRITE_TIMEOUT_S = 5.0
Respond = Callable[[TransactionAnswer], None]


class TransactionCoordinators(CoordinatorHost[TransactionCoordinator]):
    """All transaction coordinators of this broker."""

    def __init__(
        self, context: Context, replicas: Callable[[], Replicas], markers: MarkerSender, ids: ProducerIds, tell: Tell
    ) -> None:
        super().__init__(context, replicas, WRITE_TIMEOUT_S)
        number = context.settings.number
        self._markers = markers
        self._ids = ids
        self._tell = tell
        self._config = TransactionConfig(
            transaction_max_timeout_ms=number("transaction.max.timeout.ms"),
            transactional_id_expiration_ms=number("transactional.id.expiration.ms"),
            abort_check_interval_ms=number("transaction.abort.timed.out.transaction.cleanup.interval.ms"),
            expiry_check_interval_ms=number("transaction.remove.expired.transaction.cleanup.interval.ms"),
        )

    def ask(self, transactional_id: str, request: TransactionRequest, respond: Respond) -> None:
        """Give a request to the coordinator of a transactional id; `respond` is called once, at once or later."""
        topic = self._context.image.topics.get(TRANSACTIONS_TOPIC)
        if topic is None:
            respond(TransactionAnswer(0, KafkaErrorCode.NOT_COORDINATOR))
            return
        self.ask_in(partition_of(transactional_id, len(topic.partitions)), request, respond)

    def ask_in(self, partition: int, request: TransactionRequest, respond: Respond) -> None:
        """Give a request to the coordinator of a partition, as `ask` does."""
        time_ms = self._context.wall_ms()
        if not self.request(partition, lambda token: TransactionRequestArrived(token, request, time_ms), respond):
            respond(TransactionAnswer(0, KafkaErrorCode.NOT_COORDINATOR))

    # See `CoordinatorHost`

    def _make(self) -> TransactionCoordinator:
        return TransactionCoordinator(self._config)

    def _read_batch(self, header: BatchHeader, batch: memoryview) -> Iterator[TransactionEvent]:
        yield RecordsLoaded(tuple((each.key, each.value) for each in read_records(batch) if each.key is not None))

    def _time_passed(self) -> TransactionTimePassed:
        return TransactionTimePassed(self._context.wall_ms())

    def _stop_work(self, coordinator: HostedCoordinator[TransactionCoordinator]) -> None:
        self._markers.cancel(coordinator)

    def _execute(self, coordinator: HostedCoordinator[TransactionCoordinator], effect: Any) -> None:
        done: TransactionEffect = effect
        match done:
            case TransactionAnswer(token=token):
                self._answers.pop(token)(done)
            case AllocateProducerId():
                self._allocate(coordinator, done)
            case SendMarkers():
                self._send(coordinator, done)
            case NameAborted(transactional_id=name, data=data):
                self._tell(
                    "transaction_timed_out",
                    transactional_id=name,
                    producer_id=data.producer_id,
                    timeout_ms=data.timeout_ms,
                    partitions=[str(each) for each in sorted(data.partitions)[:20]],
                )
            case AppendRecords():
                raise AssertionError("the host appends")

    def _allocate(self, coordinator: HostedCoordinator[TransactionCoordinator], order: AllocateProducerId) -> None:
        def on_taken(producer_id: int, error: KafkaErrorCode) -> None:
            if self._is_present(coordinator):
                time_ms = self._context.wall_ms()
                self._step(coordinator, ProducerIdAllocated(order.request, producer_id, error, time_ms))

        self._ids.take(on_taken)

    def _send(self, coordinator: HostedCoordinator[TransactionCoordinator], order: SendMarkers) -> None:
        def on_sent(error: KafkaErrorCode) -> None:
            if not self._is_present(coordinator):
                return
            if error is KafkaErrorCode.NONE:
                self._step(coordinator, MarkersWritten(order.markers, self._context.wall_ms()))
            else:
                self._tell(
                    "markers_refused",
                    transactional_id=order.transactional_id,
                    producer_id=order.producer_id,
                    error=error.name,
                )
                self._step(coordinator, MarkersRefused(order.markers, error))

        self._markers.send(coordinator, order, coordinator.leader_epoch, on_sent)


def is_transactions_partition(hosted: LocalReplica) -> bool:
    """Returns True if this partition holds transactional ids."""
    return hosted.partition.topic == TRANSACTIONS_TOPIC
