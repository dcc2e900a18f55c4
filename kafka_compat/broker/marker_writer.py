"""Writes markers into the partitions that this broker leads, for its own coordinators and those of other brokers."""

from collections.abc import Callable, Mapping, Sequence

import attrs

from kafka_compat.broker.calls import ClientCall
from kafka_compat.broker.context import Context
from kafka_compat.broker.coordinators import Coordinators
from kafka_compat.broker.replicas import Answer, Replicas
from kafka_compat.markers import Marker, encode_marker, marker_info
from kafka_compat.model import OFFSETS_TOPIC, TopicPartition
from kafka_compat.partition.effects import AnswerProduce
from kafka_compat.partition.events import Produce
from kafka_compat.protocol.apis.txn_markers import (
    WRITE_TXN_MARKERS,
    TxnMarkerPartitionResult,
    TxnMarkerResult,
    TxnMarkerTopicResult,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from kafka_compat.protocol.error_codes import KafkaErrorCode
from raft.net.handlers import serves

WRITE_TIMEOUT_S = 5.0
ALL_ACKS = -1
Outcomes = dict[TopicPartition, KafkaErrorCode]


@attrs.frozen
class MarkerOrder:
    """A marker for some partitions. `version` is that of transactions."""

    marker: Marker
    version: int
    partitions: Sequence[TopicPartition]


@attrs.define(eq=False)
class _Writing:
    """The outcomes of some markers until all are there."""

    done: Callable[[list[Outcomes]], None]
    outcomes: list[Outcomes]
    left: int = 0
    began: bool = False


class MarkerWriter:
    """The writer of one broker, and its handler of WriteTxnMarkers."""

    def __init__(self, context: Context, replicas: Callable[[], Replicas], groups: Coordinators) -> None:
        self._context = context
        self._replicas = replicas
        self._groups = groups

    @serves(WRITE_TXN_MARKERS.key)
    def write_txn_markers(self, call: ClientCall) -> None:
        """Write the markers of another broker's coordinator, or of an operator's tool."""
        request: WriteTxnMarkersRequest = call.request
        orders = [
            MarkerOrder(
                Marker(each.producer_id, each.producer_epoch, each.transaction_result, each.coordinator_epoch),
                each.transaction_version,
                [TopicPartition(topic.name, number) for topic in each.topics for number in topic.partition_indexes],
            )
            for each in request.markers
        ]

        def respond(outcomes: list[Outcomes]) -> None:
            call.answer(
                WriteTxnMarkersResponse(
                    markers=tuple(
                        TxnMarkerResult(producer_id=order.marker.producer_id, topics=_by_topic(each))
                        for order, each in zip(orders, outcomes, strict=True)
                    )
                )
            )

        self.write(orders, respond)

    def write(self, orders: Sequence[MarkerOrder], done: Callable[[list[Outcomes]], None]) -> None:
        """Write the markers; `done` is called once with the outcomes of each, when all are committed or refused."""
        writing = _Writing(done, [{} for _ in orders])
        for order, outcomes in zip(orders, writing.outcomes, strict=True):
            for partition in order.partitions:
                self._write(order, partition, outcomes, writing)
        writing.began = True
        if not writing.left:
            done(writing.outcomes)

    def _write(self, order: MarkerOrder, partition: TopicPartition, outcomes: Outcomes, writing: _Writing) -> None:
        hosted = self._replicas().hosted.get(partition)
        if hosted is None or not hosted.leads:
            known = self._context.image.partition(partition) is not None
            outcomes[partition] = (
                KafkaErrorCode.NOT_LEADER_OR_FOLLOWER if known else KafkaErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            )
            return
        marker = order.marker

        def on_answer(answer: Answer) -> None:
            assert isinstance(answer, AnswerProduce), "with acks=all there is an answer"
            outcomes[partition] = answer.error
            if answer.error is KafkaErrorCode.NONE and partition.topic == OFFSETS_TOPIC:
                self._groups.transaction_ended(partition.partition, marker.producer_id, commits=marker.commits)
            writing.left -= 1
            if writing.began and not writing.left:
                writing.done(writing.outcomes)

        writing.left += 1
        batch = encode_marker(marker, self._context.wall_ms())
        token = self._replicas().token(on_answer)
        event = Produce(
            token, ALL_ACKS, marker_info(marker), WRITE_TIMEOUT_S, (batch,), transaction_version=order.version
        )
        self._replicas().step(hosted, event)


def _by_topic(outcomes: Mapping[TopicPartition, KafkaErrorCode]) -> tuple[TxnMarkerTopicResult, ...]:
    topics: dict[str, list[TxnMarkerPartitionResult]] = {}
    for partition, error in outcomes.items():
        topics.setdefault(partition.topic, []).append(
            TxnMarkerPartitionResult(partition_index=partition.partition, error_code=error)
        )
    return tuple(TxnMarkerTopicResult(name=name, partitions=tuple(each)) for name, each in topics.items())
