"""Produce: walks the records of each batch before its leader takes it, and answers when all outcomes are there.

With acks=0 there is no answer. A refused batch then closes the connection, which is the only way to report the error.

A request with more work than `TURN_WORK` is cut, and its rest continues in later rounds. The requests that follow on
its connection wait for it, so that batches keep their order. The header of a batch predicts its cost.
"""

from collections import deque
from collections.abc import Generator, Iterator
from typing import Any

import attrs

from kafka_compat.broker.calls import ClientCall
from kafka_compat.broker.context import Context
from kafka_compat.broker.replicas import Answer, LocalReplica, Replicas
from kafka_compat.broker.verification import Verification
from kafka_compat.compression import NONE, ZSTD
from kafka_compat.controller.image import TopicImage
from kafka_compat.model import INTERNAL_TOPICS
from kafka_compat.partition.effects import AnswerProduce
from kafka_compat.partition.events import Produce
from kafka_compat.partition.model import BatchInfo, BatchKind
from kafka_compat.protocol.apis.produce import (
    PRODUCE,
    ProducePartition,
    ProducePartitionResponse,
    ProduceRecordError,
    ProduceRequest,
    ProduceResponse,
    ProduceTopic,
    ProduceTopicResponse,
)
from kafka_compat.protocol.batch_header import TRANSACTIONAL, BatchHeader, InvalidBatch, check_batch, with_newest_time
from kafka_compat.protocol.common import LeaderIdAndEpoch, NodeEndpoint
from kafka_compat.protocol.error_codes import KafkaErrorCode
from kafka_compat.protocol.schema import NO_UUID
from kafka_compat.record_walk import RecordWalk, TimeBounds
from kafka_compat.stored_form import NO_STAMP
from log.errors import CorruptLog
from raft.net.connection import SocketConnection
from raft.net.decoder import Buffer
from raft.net.handlers import serves

ALL_ACKS = (0, 1, -1)
ZSTD_VERSION = 7
"""Batches compressed with zstd come in requests of this version or later (KIP-110)."""
UNKNOWN_OFFSET = -1
NO_ID = "a batch of a transaction needs the transactional id in its request"
ABORTABLE_VERSION = 11
"""From this version on clients know TRANSACTION_ABORTABLE."""
RAISING_VERSION = 12
"""From this version on a batch adds its partition to the transaction (KIP-890)."""
_TRY_AGAIN = (
    KafkaErrorCode.CONCURRENT_TRANSACTIONS,
    KafkaErrorCode.NETWORK_EXCEPTION,
    KafkaErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    KafkaErrorCode.COORDINATOR_NOT_AVAILABLE,
    KafkaErrorCode.NOT_COORDINATOR,
)
TURN_WORK = 15_000
"""The work of a round, about 15 ms.

A record counts 1, a partition `PARTITION_WORK`; the constants below give the bytes that count 1.
"""
PARTITION_WORK = 50
BYTES_OF_WORK = 2_048
COMPRESSED_BYTES_OF_WORK = 64


_Refusal = tuple[KafkaErrorCode, str | None, int | None]
"""The error, its message, and the number of the wrong record."""


@attrs.define(eq=False)
class _Outcome:
    """The state of one request until all of its partitions have an outcome."""

    call: ClientCall
    waits_for: int = 0
    topics: list[tuple[ProduceTopic, list[ProducePartitionResponse]]] = attrs.field(factory=list)
    leaders: dict[int, None] = attrs.field(factory=dict)
    """Leaders of the partitions that this broker does not lead."""
    began: bool = False


class ProduceRequests:
    """The handler of one broker."""

    def __init__(self, context: Context, replicas: Replicas, verification: Verification) -> None:
        self._context = context
        self._replicas = replicas
        self._verification = verification
        self._work_left = TURN_WORK
        self._cut: dict[SocketConnection[Any], deque[Iterator[None]]] = {}
        """Requests under way, and the requests that wait for them, by connection.

        The connection whose turn is next comes first.
        """

    @serves(PRODUCE.key)
    def produce(self, call: ClientCall) -> None:
        """Append the batches, each for itself."""
        work = self._produce(call)
        waiting = self._cut.get(call.connection)
        if waiting is not None:
            waiting.append(work)
        elif not self._is_done(work):
            self._cut[call.connection] = deque([work])

    @property
    def has_more(self) -> bool:
        """True if a request was cut, so that another round is needed."""
        return bool(self._cut)

    def pump(self) -> None:
        """Begin a round: continue the cut requests, one of each connection in turn."""
        self._work_left = TURN_WORK
        while self._cut and self._work_left > 0:
            connection = next(iter(self._cut))
            waiting = self._cut[connection]
            try:
                if not connection.is_closed and not self._is_done(waiting[0]):
                    return
            except Exception as error:  # noqa: BLE001 - `refuse` raises what ends the process
                connection.refuse(error)
            waiting.popleft()
            del self._cut[connection]
            if waiting and not connection.is_closed:
                self._cut[connection] = waiting

    @staticmethod
    def _is_done(work: Iterator[None]) -> bool:
        """Continue a request within the limits of this round. Returns True if it is done."""
        return next(work, work) is work

    def _produce(self, call: ClientCall) -> Generator[None, None, None]:
        """Yields wherever the request may be cut and the work of the round is spent."""
        request: ProduceRequest = call.request
        outcome = _Outcome(call)
        for topic in request.topic_data:
            image = self._topic(topic)
            responses: list[ProducePartitionResponse] = []
            outcome.topics.append((topic, responses))
            for partition in topic.partition_data:
                if self._work_left <= 0:
                    yield
                self._work_left -= PARTITION_WORK
                yield from self._append(outcome, request, image, partition, responses)
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
    ) -> Generator[None, None, None]:
        hosted = None if topic is None else self._replicas.by_name(topic.name, partition.index)
        refusal: _Refusal | None = self._refusal(outcome.call, request, topic, partition, hosted)
        if refusal is None:
            assert hosted is not None, "nothing refused it"
            assert partition.records is not None, "nothing refused it"
            try:
                header, records = yield from self._check_records(outcome.call.version, hosted, partition.records)
            except InvalidBatch as error:
                refusal = error.code, str(error), error.record
            else:
                if header.is_transactional and request.transactional_id is None:
                    refusal = KafkaErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, NO_ID, None
                elif header.is_transactional:
                    self._verify(outcome, request, hosted, header, records, responses)
                    return
                else:
                    self._step(outcome, request, hosted, header, records, responses)
                    return
        if request.acks == 0:
            outcome.call.close(f"a batch was refused: {refusal[0].name}")
            return
        self._note_leader(outcome, topic, partition.index, refusal[0])
        leader = self._leader(topic, partition.index, refusal[0])
        log_start = hosted.log.start_offset if hosted is not None and hosted.leads else UNKNOWN_OFFSET
        responses.append(_build_refusal(partition.index, *refusal, leader=leader, log_start=log_start))

    def _check_records(
        self, version: int, hosted: LocalReplica, records: Buffer
    ) -> Generator[None, None, tuple[BatchHeader, Buffer]]:
        """Returns the one batch in `records` as its topic stores it, with the newest time of its records in its header.

        Raises `InvalidBatch`.
        """
        if self._work_left <= 0:
            yield
        header = check_batch(records)
        _check_header(version, header, len(records))
        self._work_left -= header.size // (BYTES_OF_WORK if header.compression == NONE else COMPRESSED_BYTES_OF_WORK)
        settings, form = hosted.settings, hosted.settings.stored_form
        now_ms = self._context.wall_ms()
        times = (
            TimeBounds.without_limits()
            if form.stamps
            else TimeBounds.around(now_ms, settings.timestamp_before_max_ms, settings.timestamp_after_max_ms)
        )
        walk = RecordWalk(header, records, times, keyed=settings.compacted)
        self._work_left -= walk.part
        while not walk.step():
            if self._work_left <= 0:
                yield
            self._work_left -= walk.part
        if form.changes(header):
            if form.packs(header):
                self._work_left -= len(walk.records) // COMPRESSED_BYTES_OF_WORK
            header, records = form.apply(header, records, walk.records, walk.newest_ms, self._context.wall_ms())
            if header.size > settings.max_message_bytes:
                raise InvalidBatch(*_too_large(header.size, settings.max_message_bytes))
        elif walk.newest_ms != header.max_timestamp:
            records = with_newest_time(records, walk.newest_ms)
        return header, records

    def _refusal(
        self,
        call: ClientCall,
        request: ProduceRequest,
        topic: TopicImage | None,
        partition: ProducePartition,
        hosted: LocalReplica | None,
    ) -> _Refusal | None:
        if request.acks not in ALL_ACKS:
            return KafkaErrorCode.INVALID_REQUIRED_ACKS, None, None
        if topic is None:
            unknown_id = call.version >= 13
            code = KafkaErrorCode.UNKNOWN_TOPIC_ID if unknown_id else KafkaErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            return code, None, None
        if not 0 <= partition.index < len(topic.partitions):
            return KafkaErrorCode.UNKNOWN_TOPIC_OR_PARTITION, None, None
        if topic.name in INTERNAL_TOPICS:
            return KafkaErrorCode.INVALID_TOPIC_EXCEPTION, f"{topic.name} is internal; clients cannot write to it", None
        if hosted is None or not hosted.leads:
            return KafkaErrorCode.NOT_LEADER_OR_FOLLOWER, None, None
        if not partition.records:
            return KafkaErrorCode.INVALID_RECORD, "a request has exactly one batch for each partition", None
        if len(partition.records) > hosted.settings.max_message_bytes:
            return *_too_large(len(partition.records), hosted.settings.max_message_bytes), None
        return None

    def _verify(
        self,
        outcome: _Outcome,
        request: ProduceRequest,
        hosted: LocalReplica,
        header: BatchHeader,
        records: Buffer,
        responses: list[ProducePartitionResponse],
    ) -> None:
        """Append a batch of a transaction, the first one once the coordinator has agreed (KIP-890)."""
        version = outcome.call.version

        def on_verified(error: KafkaErrorCode, guard: int) -> None:
            if error is KafkaErrorCode.NONE:
                self._step(outcome, request, hosted, header, records, responses, guard)
            elif request.acks == 0:
                outcome.call.close(f"a batch was refused: {error.name}")
            else:
                index, start = hosted.partition.partition, hosted.log.start_offset
                code, reason = _verification_error(version, error)
                leader = self._leader(self._context.image.topics.get(hosted.partition.topic), index, code)
                responses.append(_build_refusal(index, code, reason, None, leader=leader, log_start=start))
            outcome.waits_for -= 1  # only now: a step that is refused at once has its answer already
            if outcome.began and not outcome.waits_for and request.acks != 0:
                self._answer(outcome)

        outcome.waits_for += 1
        assert request.transactional_id is not None, "checked before"
        self._verification.verify(
            hosted,
            request.transactional_id,
            (header.producer_id, header.producer_epoch),
            header.base_sequence,
            on_verified,
            adds=version >= RAISING_VERSION,
        )

    def _step(
        self,
        outcome: _Outcome,
        request: ProduceRequest,
        hosted: LocalReplica,
        header: BatchHeader,
        records: Buffer,
        responses: list[ProducePartitionResponse],
        guard: int = 0,
    ) -> None:
        index, log_end = hosted.partition.partition, hosted.log.end_offset

        def on_answer(answer: Answer) -> None:
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
                        log_append_time_ms=_find_stamp(hosted, header, answer.base_offset, log_end),
                        log_start_offset=answer.log_start,
                    )
                )
            else:
                topic = self._context.image.topics.get(hosted.partition.topic)
                self._note_leader(outcome, topic, index, answer.error)
                leader = self._leader(topic, index, answer.error)
                start = answer.log_start
                responses.append(_build_refusal(index, answer.error, None, None, leader=leader, log_start=start))
            if outcome.began and not outcome.waits_for:
                self._answer(outcome)

        if request.acks != 0:
            outcome.waits_for += 1
        token = self._replicas.token(on_answer)
        timeout_s = max(request.timeout_ms, 0) / 1000
        self._replicas.step(hosted, Produce(token, request.acks, _info(header), timeout_s, (records,), guard))
        if request.acks == 0:
            self._replicas.forget(token)

    def _answer(self, outcome: _Outcome) -> None:
        endpoints: tuple[NodeEndpoint, ...] = ()
        if outcome.leaders:
            brokers, listener = self._context.image.brokers, outcome.call.caller.listener
            endpoints = tuple(
                NodeEndpoint(node_id=leader, host=address[0], port=address[1], rack=brokers[leader].rack)
                for leader in sorted(outcome.leaders)
                if leader in brokers and (address := brokers[leader].address_at(listener)) is not None
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
        """Returns the leader to which the client should go instead (KIP-951)."""
        if error is not KafkaErrorCode.NOT_LEADER_OR_FOLLOWER or topic is None or index >= len(topic.partitions):
            return LeaderIdAndEpoch()
        state = topic.partitions[index]
        return LeaderIdAndEpoch(leader_id=state.leader, leader_epoch=state.leader_epoch)


def _check_header(version: int, header: BatchHeader, size: int) -> None:
    """Raises `InvalidBatch` unless `header` describes the only batch in `size` bytes, of a kind for clients."""
    if header.size != size:
        raise InvalidBatch(KafkaErrorCode.INVALID_RECORD, "more than one batch for a partition", header.size)
    if header.is_control:
        raise InvalidBatch(KafkaErrorCode.INVALID_RECORD, "clients write no control batches")
    if header.is_transactional and (header.producer_id < 0 or header.base_sequence < 0):
        raise InvalidBatch(KafkaErrorCode.INVALID_RECORD, "a batch of a transaction has a producer id and a sequence")
    if header.has_append_time:
        raise InvalidBatch(KafkaErrorCode.INVALID_TIMESTAMP, "the time of appending is not the producer's to set")
    if header.compression > ZSTD:
        raise InvalidBatch(KafkaErrorCode.UNSUPPORTED_COMPRESSION_TYPE, f"codec {header.compression} is unknown")
    if header.compression == ZSTD and version < ZSTD_VERSION:
        raise InvalidBatch(
            KafkaErrorCode.UNSUPPORTED_COMPRESSION_TYPE, f"zstd needs Produce {ZSTD_VERSION} or later, not {version}"
        )


def _too_large(size: int, size_max: int) -> tuple[KafkaErrorCode, str]:
    return KafkaErrorCode.MESSAGE_TOO_LARGE, f"{size} bytes, max.message.bytes is {size_max}"


def _info(header: BatchHeader) -> BatchInfo:
    """Returns the decider's view of a batch."""
    return BatchInfo(
        header.last_offset_delta + 1,
        header.size,
        header.producer_id,
        header.producer_epoch,
        header.base_sequence,
        kind=BatchKind.TRANSACTIONAL if header.attributes & TRANSACTIONAL else BatchKind.PLAIN,
    )


def _find_stamp(hosted: LocalReplica, header: BatchHeader, base_offset: int, log_end: int) -> int:
    """Returns the time that the leader gave the batch at `base_offset`, NO_STAMP if the producer gave it.

    `log_end` is where the log ended before the request: a duplicate is below it, and has its first stamp.
    """
    if not header.has_append_time:
        return NO_STAMP
    if base_offset >= log_end:
        return header.max_timestamp
    try:
        stored = next(hosted.log.headers(base_offset, base_offset + 1), header)
    except CorruptLog:
        return NO_STAMP
    return stored.max_timestamp if stored.base_offset == base_offset and stored.has_append_time else NO_STAMP


def _verification_error(version: int, error: KafkaErrorCode) -> tuple[KafkaErrorCode, str | None]:
    """Returns the error that makes a client of this version do what the coordinator's answer asks for, and the reason.

    NOT_ENOUGH_REPLICAS makes it try again, and does not let it look for another leader.
    """
    if error in _TRY_AGAIN:
        return KafkaErrorCode.NOT_ENOUGH_REPLICAS, f"the transaction's coordinator could not be asked: {error.name}"
    if error is KafkaErrorCode.PRODUCER_FENCED:
        return KafkaErrorCode.INVALID_PRODUCER_EPOCH, None
    if error is KafkaErrorCode.TRANSACTION_ABORTABLE and version < ABORTABLE_VERSION:
        return KafkaErrorCode.INVALID_TXN_STATE, "the partition was not added to the transaction"
    return error, None


def _build_refusal(
    index: int,
    error: KafkaErrorCode,
    message: str | None,
    record: int | None,
    *,
    leader: LeaderIdAndEpoch,
    log_start: int,
) -> ProducePartitionResponse:
    wrong = () if record is None else (ProduceRecordError(batch_index=record, batch_index_error_message=message),)
    return ProducePartitionResponse(
        index=index,
        error_code=error,
        base_offset=UNKNOWN_OFFSET,
        log_start_offset=log_start,
        record_errors=wrong,
        error_message=message,
        current_leader=leader,
    )
