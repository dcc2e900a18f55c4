"""Produce: checks each batch as far as an opaque broker can, and answers when every partition has its outcome.

With acks=0 there is no answer; a batch that is refused then closes the connection, because nothing else would tell the client.
"""

from collections.abc import Mapping

import attrs

from kafka_compat.broker.calls import ClientCall, Handler
from kafka_compat.broker.context import Context
from kafka_compat.broker.replicas import Answer, Hosted, Replicas
from kafka_compat.controller.image import TopicImage
from kafka_compat.model import INTERNAL_TOPICS, NO_UUID
from kafka_compat.partition.effects import AnswerProduce
from kafka_compat.partition.events import Produce
from kafka_compat.partition.model import BatchInfo
from kafka_compat.protocol.apis.produce import (
    PRODUCE,
    ProducePartition,
    ProducePartitionResponse,
    ProduceRequest,
    ProduceResponse,
    ProduceTopic,
    ProduceTopicResponse,
)
from kafka_compat.protocol.batch_header import InvalidBatch, check_batch
from kafka_compat.protocol.common import LeaderIdAndEpoch, NodeEndpoint
from kafka_compat.protocol.error_codes import KafkaErrorCode
from raft.net.decoder import Buffer

ALL_ACKS = (0, 1, -1)
LZ4, ZSTD = 3, 4
ZSTD_VERSION = 7
"""Batches compressed with zstd come in requests of this version or later (KIP-110)."""
NOT_APPENDED = -1


@attrs.define(eq=False)
class _Outcome:
    """What one request waits for."""

    call: ClientCall
    waits_for: int = 0
    topics: list[tuple[ProduceTopic, list[ProducePartitionResponse]]] = attrs.field(factory=list)
    leaders: dict[int, None] = attrs.field(factory=dict)
    """Brokers that lead what this one does not."""
    began: bool = False


class ProduceRequests:
    """The handler of one broker."""

    def __init__(self, context: Context, replicas: Replicas) -> None:
        self._context = context
        self._replicas = replicas

    def handlers(self) -> Mapping[int, Handler]:
        """Returns the handlers by API key."""
        return {PRODUCE.key: self.produce}

    def produce(self, call: ClientCall) -> None:
        """Append the batches, each for itself."""
        request: ProduceRequest = call.request
        outcome = _Outcome(call)
        for topic in request.topic_data:
            image = self._topic(topic)
            responses: list[ProducePartitionResponse] = []
            outcome.topics.append((topic, responses))
            for partition in topic.partition_data:
                self._append(outcome, request, image, partition, responses)
        outcome.began = True
        if request.acks == 0:
            if not call.connection.is_closed:
                call.answer_nothing()
        elif not outcome.waits_for:
            self._answer(outcome)

    def _topic(self, topic: ProduceTopic) -> TopicImage | None:
        image = self._context.image
        return image.topics_by_id.get(topic.topic_id) if topic.topic_id != NO_UUID else image.topics.get(topic.name)

    def _append(
        self,
        outcome: _Outcome,
        request: ProduceRequest,
        topic: TopicImage | None,
        partition: ProducePartition,
        responses: list[ProducePartitionResponse],
    ) -> None:
        hosted = None if topic is None else self._replicas.by_name(topic.name, partition.index)
        refusal = self._refusal(outcome.call, request, topic, partition, hosted)
        if refusal is None:
            assert hosted is not None, "nothing refused it"
            assert partition.records is not None, "nothing refused it"
            try:
                batch = _checked(outcome.call.version, partition.records)
            except InvalidBatch as error:
                refusal = error.code, str(error)
            else:
                self._step(outcome, request, hosted, batch, partition, responses)
                return
        if request.acks == 0:
            outcome.call.close(f"a batch was refused: {refusal[0].name}")
            return
        self._note_leader(outcome, topic, partition.index, refusal[0])
        responses.append(_refused(partition.index, *refusal, leader=self._leader(topic, partition.index, refusal[0])))

    def _refusal(
        self,
        call: ClientCall,
        request: ProduceRequest,
        topic: TopicImage | None,
        partition: ProducePartition,
        hosted: Hosted | None,
    ) -> tuple[KafkaErrorCode, str | None] | None:
        if request.acks not in ALL_ACKS:
            return KafkaErrorCode.INVALID_REQUIRED_ACKS, None
        if topic is None:
            unknown_id = call.version >= 13
            code = KafkaErrorCode.UNKNOWN_TOPIC_ID if unknown_id else KafkaErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            return code, None
        if not 0 <= partition.index < len(topic.partitions):
            return KafkaErrorCode.UNKNOWN_TOPIC_OR_PARTITION, None
        if topic.name in INTERNAL_TOPICS:
            return KafkaErrorCode.INVALID_TOPIC_EXCEPTION, f"{topic.name} is internal; clients cannot write to it"
        if request.transactional_id is not None:
            return KafkaErrorCode.INVALID_TXN_STATE, "transactions are not supported"
        if hosted is None:
            return KafkaErrorCode.NOT_LEADER_OR_FOLLOWER, None
        if not partition.records:
            return KafkaErrorCode.INVALID_RECORD, "a request has exactly one batch for each partition"
        return None

    def _step(
        self,
        outcome: _Outcome,
        request: ProduceRequest,
        hosted: Hosted,
        batch: BatchInfo,
        partition: ProducePartition,
        responses: list[ProducePartitionResponse],
    ) -> None:
        index = partition.index

        def done(answer: Answer) -> None:
            if not isinstance(answer, AnswerProduce):  # CloseConnection: acks=0
                outcome.call.close(f"a batch was refused: {answer.error.name}")
                return
            outcome.waits_for -= 1
            if answer.error is KafkaErrorCode.NONE:
                responses.append(
                    ProducePartitionResponse(
                        index=index,
                        error_code=answer.error,
                        base_offset=answer.base_offset,
                        log_start_offset=answer.log_start,
                    )
                )
            else:
                topic = self._context.image.topics.get(hosted.partition.topic)
                self._note_leader(outcome, topic, index, answer.error)
                leader = self._leader(topic, index, answer.error)
                responses.append(_refused(index, answer.error, None, leader=leader))
            if outcome.began and not outcome.waits_for:
                self._answer(outcome)

        if request.acks != 0:
            outcome.waits_for += 1
        token = self._replicas.token(done)
        timeout_s = max(request.timeout_ms, 0) / 1000
        self._replicas.step(hosted, Produce(token, request.acks, batch, timeout_s, (partition.records,)))
        if request.acks == 0:
            self._replicas.forget(token)

    def _answer(self, outcome: _Outcome) -> None:
        endpoints: tuple[NodeEndpoint, ...] = ()
        if outcome.leaders:
            brokers = self._context.image.brokers
            endpoints = tuple(
                NodeEndpoint(node_id=each, host=brokers[each].host, port=brokers[each].port, rack=brokers[each].rack)
                for each in sorted(outcome.leaders)
                if each in brokers
            )
        outcome.call.answer(
            ProduceResponse(
                responses=tuple(
                    ProduceTopicResponse(name=topic.name, topic_id=topic.topic_id, partition_responses=tuple(responses))
                    for topic, responses in outcome.topics
                ),
                node_endpoints=endpoints,
            )
        )

    def _note_leader(self, outcome: _Outcome, topic: TopicImage | None, index: int, error: KafkaErrorCode) -> None:
        leader = self._leader(topic, index, error)
        if leader.leader_id >= 0:
            outcome.leaders[leader.leader_id] = None

    def _leader(self, topic: TopicImage | None, index: int, error: KafkaErrorCode) -> LeaderIdAndEpoch:
        """Where the client should go instead (KIP-951)."""
        if error is not KafkaErrorCode.NOT_LEADER_OR_FOLLOWER or topic is None or index >= len(topic.partitions):
            return LeaderIdAndEpoch()
        state = topic.partitions[index]
        return LeaderIdAndEpoch(leader_id=state.leader, leader_epoch=state.leader_epoch)


def _checked(version: int, records: Buffer) -> BatchInfo:
    """Returns what the decider sees of the one batch in `records`. Raises `InvalidBatch`."""
    header = check_batch(records)
    if header.size != len(records):
        raise InvalidBatch(KafkaErrorCode.INVALID_RECORD, "more than one batch for a partition", header.size)
    if header.is_control or header.is_transactional:
        raise InvalidBatch(KafkaErrorCode.INVALID_RECORD, "clients write no control batches and no transactions here")
    if header.has_append_time:
        raise InvalidBatch(KafkaErrorCode.INVALID_TIMESTAMP, "the time of appending is not the producer's to set")
    if header.compression > ZSTD:
        raise InvalidBatch(KafkaErrorCode.UNSUPPORTED_COMPRESSION_TYPE, f"codec {header.compression} is unknown")
    if header.compression == ZSTD and version < ZSTD_VERSION:
        raise InvalidBatch(
            KafkaErrorCode.UNSUPPORTED_COMPRESSION_TYPE, f"zstd needs Produce {ZSTD_VERSION} or later, not {version}"
        )
    return BatchInfo(
        header.last_offset_delta + 1,
        header.size,
        header.producer_id,
        header.producer_epoch,
        header.base_sequence,
    )


def _refused(
    index: int, error: KafkaErrorCode, message: str | None, *, leader: LeaderIdAndEpoch
) -> ProducePartitionResponse:
    return ProducePartitionResponse(
        index=index,
        error_code=error,
        base_offset=NOT_APPENDED,
        error_message=message,
        current_leader=leader,
    )
