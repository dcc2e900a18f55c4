"""The requests of transactional producers and of operators about transactions, for the coordinators of this broker."""

from collections.abc import Callable, Sequence

from kafka_compat.broker.calls import ClientCall
from kafka_compat.broker.context import Context
from kafka_compat.broker.coordinators import Coordinators
from kafka_compat.broker.producer_ids import ProducerIds
from kafka_compat.broker.replicas import LocalReplica, Replicas
from kafka_compat.broker.requests.groups import GroupApiRequests
from kafka_compat.broker.topic_creation import TopicCreation
from kafka_compat.broker.transaction_coordinators import TransactionCoordinators
from kafka_compat.broker.turns import Steps
from kafka_compat.broker.verification import Verification
from kafka_compat.coordinator.answers import transaction_commit_response
from kafka_compat.coordinator.effects import GroupResponse
from kafka_compat.coordinator.partitioning import partition_of
from kafka_compat.model import OFFSETS_TOPIC, TopicPartition
from kafka_compat.protocol.apis.describe_transactions import (
    DESCRIBE_PRODUCERS,
    DESCRIBE_TRANSACTIONS,
    LIST_TRANSACTIONS,
    ActiveProducer,
    DescribedProducersPartition,
    DescribedProducersTopic,
    DescribedTransaction,
    DescribedTransactionTopic,
    DescribeProducersRequest,
    DescribeProducersResponse,
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    ListedTransaction,
    ListTransactionsRequest,
    ListTransactionsResponse,
)
from kafka_compat.protocol.apis.init_producer_id import INIT_PRODUCER_ID, InitProducerIdRequest, InitProducerIdResponse
from kafka_compat.protocol.apis.transactions import (
    ADD_OFFSETS_TO_TXN,
    ADD_PARTITIONS_TO_TXN,
    END_TXN,
    TXN_OFFSET_COMMIT,
    AddOffsetsToTxnRequest,
    AddOffsetsToTxnResponse,
    AddPartitionsPartitionResult,
    AddPartitionsResult,
    AddPartitionsTopic,
    AddPartitionsTopicResult,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsTransaction,
    EndTxnRequest,
    EndTxnResponse,
    TxnOffsetCommitPartitionResponse,
    TxnOffsetCommitRequest,
    TxnOffsetCommitResponse,
    TxnOffsetCommitTopic,
    TxnOffsetCommitTopicResponse,
)
from kafka_compat.protocol.error_codes import KafkaErrorCode
from kafka_compat.transactions.effects import TransactionAnswer
from kafka_compat.transactions.events import (
    AddPartitions,
    DescribeTransaction,
    EndTransaction,
    InitProducer,
    ListTransactions,
    VerifyPartitions,
)
from kafka_compat.transactions.model import NO_TIME, TransactionData, TransactionState
from log.values import evolve
from raft.net.handlers import serves

NONE = KafkaErrorCode.NONE
NO_PRODUCER = -1
RAISING_VERSION = 2
END_RAISES, ADD_RAISES, COMMIT_RAISES = 5, 4, 5
"""From these versions of EndTxn, AddPartitionsToTxn and TxnOffsetCommit on clients speak version 2 (KIP-890)."""
INIT_FENCES, ADD_FENCES, ADD_OFFSETS_FENCES, END_FENCES = 4, 2, 2, 2
"""Before these versions of an API, PRODUCER_FENCED is INVALID_PRODUCER_EPOCH."""
ABORTABLE = 4
"""From this version of TxnOffsetCommit on clients know TRANSACTION_ABORTABLE."""
_TO_COORDINATOR = {
    KafkaErrorCode.NETWORK_EXCEPTION: KafkaErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    KafkaErrorCode.NOT_COORDINATOR: KafkaErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    KafkaErrorCode.COORDINATOR_NOT_AVAILABLE: KafkaErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    KafkaErrorCode.NOT_ENOUGH_REPLICAS: KafkaErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    KafkaErrorCode.NOT_LEADER_OR_FOLLOWER: KafkaErrorCode.NOT_COORDINATOR,
    KafkaErrorCode.PRODUCER_FENCED: KafkaErrorCode.INVALID_PRODUCER_EPOCH,
}
"""Errors of a transaction's coordinator for a client that asks the coordinator of a group: which is not to blame."""


class TransactionRequests:
    """The handlers of one broker."""

    def __init__(
        self,
        context: Context,
        replicas: Replicas,
        coordinators: TransactionCoordinators,
        groups: Coordinators,
        group_requests: GroupApiRequests,
        verification: Verification,
        ids: ProducerIds,
        creation: TopicCreation,
    ) -> None:
        self._context = context
        self._replicas = replicas
        self._coordinators = coordinators
        self._groups = groups
        self._group_requests = group_requests
        self._verification = verification
        self._ids = ids
        self._creation = creation

    # ---------------------------------------------------------------- producers

    @serves(INIT_PRODUCER_ID.key)
    def init_producer_id(self, call: ClientCall) -> None:
        """Answer with a producer id: a new one, or for a transactional id the one that it has, with the next epoch."""
        request: InitProducerIdRequest = call.request
        if request.transactional_id is None:
            self._ids.take(
                lambda number, error: call.answer(
                    InitProducerIdResponse(
                        error_code=error, producer_id=number, producer_epoch=0 if error is NONE else NO_PRODUCER
                    )
                )
            )
            return
        if request.enable2_pc or request.keep_prepared_txn:
            error = KafkaErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED  # as where two-phase commit is switched off
            call.answer(InitProducerIdResponse(error_code=error, producer_epoch=NO_PRODUCER))
            return
        stated = (request.producer_id, request.producer_epoch)
        if (stated[0] == NO_PRODUCER) != (stated[1] == NO_PRODUCER):
            call.answer(InitProducerIdResponse(error_code=KafkaErrorCode.INVALID_REQUEST, producer_epoch=NO_PRODUCER))
            return
        expected = None if request.producer_id == NO_PRODUCER else stated

        def respond(answer: TransactionAnswer) -> None:
            call.answer(
                InitProducerIdResponse(
                    error_code=_fenced_as(answer.error, call.version, INIT_FENCES),
                    producer_id=answer.producer_id,
                    producer_epoch=answer.producer_epoch,
                )
            )

        name = request.transactional_id
        self._coordinators.ask(name, InitProducer(name, request.transaction_timeout_ms, expected), respond)

    # ---------------------------------------------------------------- partitions

    @serves(ADD_PARTITIONS_TO_TXN.key)
    def add_partitions_to_txn(self, call: ClientCall) -> None:
        """Add partitions to a transaction; from version 4 on to several, or verify them, for other brokers."""
        request: AddPartitionsToTxnRequest = call.request
        if call.version < ADD_RAISES:

            def respond_plainly(topics: tuple[AddPartitionsTopicResult, ...]) -> None:
                call.answer(AddPartitionsToTxnResponse(results_by_topic_v3_and_below=topics))

            one = AddPartitionsTransaction(
                transactional_id=request.v3_and_below_transactional_id,
                producer_id=request.v3_and_below_producer_id,
                producer_epoch=request.v3_and_below_producer_epoch,
                topics=request.v3_and_below_topics,
            )
            self._add(call.version, one, respond_plainly)
            return
        results: dict[int, AddPartitionsResult] = {}

        def respond(number: int, topics: tuple[AddPartitionsTopicResult, ...]) -> None:
            name = request.transactions[number].transactional_id
            results[number] = AddPartitionsResult(transactional_id=name, topic_results=topics)
            if len(results) == len(request.transactions):
                ordered = tuple(results[each] for each in range(len(results)))
                call.answer(AddPartitionsToTxnResponse(results_by_transaction=ordered))

        if not request.transactions:
            call.answer(AddPartitionsToTxnResponse())
        for number, each in enumerate(request.transactions):
            self._add(call.version, each, lambda topics, number=number: respond(number, topics))  # type: ignore[misc]

    def _add(
        self,
        version: int,
        asked: AddPartitionsTransaction,
        respond: Callable[[tuple[AddPartitionsTopicResult, ...]], None],
    ) -> None:
        partitions = tuple(TopicPartition(topic.name, number) for topic in asked.topics for number in topic.partitions)
        producer = asked.producer_id, asked.producer_epoch
        name = asked.transactional_id
        if asked.verify_only:

            def on_verified(answer: TransactionAnswer) -> None:
                respond(_results(asked.topics, lambda each: answer.partitions.get(each, answer.error)))

            self._coordinators.ask(name, VerifyPartitions(name, *producer, partitions), on_verified)
            return
        missing = {each for each in partitions if self._context.image.partition(each) is None}
        if missing:  # all or none
            respond(
                _results(
                    asked.topics,
                    lambda each: (
                        KafkaErrorCode.UNKNOWN_TOPIC_OR_PARTITION
                        if each in missing
                        else KafkaErrorCode.OPERATION_NOT_ATTEMPTED
                    ),
                )
            )
            return

        def on_added(answer: TransactionAnswer) -> None:
            error = _fenced_as(answer.error, version, ADD_FENCES)
            respond(_results(asked.topics, lambda each: error))

        raising = RAISING_VERSION if version >= ADD_RAISES else 0
        self._coordinators.ask(name, AddPartitions(name, *producer, partitions, raising), on_added)

    @serves(ADD_OFFSETS_TO_TXN.key)
    def add_offsets_to_txn(self, call: ClientCall) -> None:
        """Add the partition of a group's offsets to a transaction. The first request makes their topic."""
        if OFFSETS_TOPIC in self._context.image.topics:
            self._add_offsets(call)
        else:
            self._creation.create([OFFSETS_TOPIC], lambda: self._add_offsets(call))

    def _add_offsets(self, call: ClientCall) -> None:
        request: AddOffsetsToTxnRequest = call.request
        topic = self._context.image.topics.get(OFFSETS_TOPIC)
        if topic is None or not request.group_id:
            error = KafkaErrorCode.INVALID_GROUP_ID if topic is not None else KafkaErrorCode.COORDINATOR_NOT_AVAILABLE
            call.answer(AddOffsetsToTxnResponse(error_code=error))
            return
        partition = TopicPartition(OFFSETS_TOPIC, partition_of(request.group_id, len(topic.partitions)))

        def respond(answer: TransactionAnswer) -> None:
            error = _fenced_as(answer.error, call.version, ADD_OFFSETS_FENCES)
            call.answer(AddOffsetsToTxnResponse(error_code=error))

        name = request.transactional_id
        self._coordinators.ask(
            name, AddPartitions(name, request.producer_id, request.producer_epoch, (partition,), 0), respond
        )

    @serves(END_TXN.key)
    def end_txn(self, call: ClientCall) -> None:
        """Commit or abort; the answer comes when the outcome is decided for good."""
        request: EndTxnRequest = call.request

        def respond(answer: TransactionAnswer) -> None:
            call.answer(
                EndTxnResponse(
                    error_code=_fenced_as(answer.error, call.version, END_FENCES),
                    producer_id=answer.producer_id,
                    producer_epoch=answer.producer_epoch,
                )
            )

        name = request.transactional_id
        version = RAISING_VERSION if call.version >= END_RAISES else 0
        self._coordinators.ask(
            name, EndTransaction(name, request.producer_id, request.producer_epoch, request.committed, version), respond
        )

    # ---------------------------------------------------------------- offsets

    @serves(TXN_OFFSET_COMMIT.key)
    def txn_offset_commit(self, call: ClientCall) -> None:
        """Commit offsets of a group in a transaction, once its coordinator has them in it."""
        request: TxnOffsetCommitRequest = call.request
        known, unknown = self._split(request.topics)

        def respond(response: GroupResponse) -> None:
            assert isinstance(response, TxnOffsetCommitResponse), "a commit is answered as one"
            call.answer(evolve(response, topics=(*response.topics, *unknown)))

        asked = evolve(request, topics=known)
        topic = self._context.image.topics.get(OFFSETS_TOPIC)
        partition = -1 if topic is None else partition_of(request.group_id, len(topic.partitions))
        hosted = self._groups.replica_of(partition)
        if not known or hosted is None:
            error = KafkaErrorCode.NOT_COORDINATOR if known else NONE
            respond(transaction_commit_response(asked, error))
            return

        def on_verified(error: KafkaErrorCode, guard: int) -> None:
            if error is NONE:
                self._group_requests.ask_coordinator(call, asked, respond, guard)
                return
            error = _TO_COORDINATOR.get(error, error)
            if error is KafkaErrorCode.TRANSACTION_ABORTABLE and call.version < ABORTABLE:
                error = KafkaErrorCode.INVALID_TXN_STATE
            respond(transaction_commit_response(asked, error))

        producer = request.producer_id, request.producer_epoch
        self._verification.verify(
            hosted, request.transactional_id, producer, NO_PRODUCER, on_verified, adds=call.version >= COMMIT_RAISES
        )

    def _split(
        self, topics: tuple[TxnOffsetCommitTopic, ...]
    ) -> tuple[tuple[TxnOffsetCommitTopic, ...], tuple[TxnOffsetCommitTopicResponse, ...]]:
        """Returns the partitions that exist, and the answers for the others."""
        known: list[TxnOffsetCommitTopic] = []
        unknown: list[TxnOffsetCommitTopicResponse] = []
        for topic in topics:
            found = self._context.image.topics.get(topic.name)
            count = len(found.partitions) if found is not None else 0
            inside = tuple(each for each in topic.partitions if 0 <= each.partition_index < count)
            outside = tuple(each for each in topic.partitions if not 0 <= each.partition_index < count)
            if inside:
                known.append(evolve(topic, partitions=inside))
            if outside:
                unknown.append(
                    TxnOffsetCommitTopicResponse(
                        name=topic.name,
                        partitions=tuple(
                            TxnOffsetCommitPartitionResponse(
                                partition_index=each.partition_index,
                                error_code=KafkaErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
                            )
                            for each in outside
                        ),
                    )
                )
        return tuple(known), tuple(unknown)

    # ---------------------------------------------------------------- operators

    @serves(DESCRIBE_TRANSACTIONS.key)
    def describe_transactions(self, call: ClientCall) -> None:
        """Answer with the state of each transactional id that this broker coordinates."""
        request: DescribeTransactionsRequest = call.request
        names = tuple(dict.fromkeys(request.transactional_ids))
        found: list[DescribedTransaction] = []

        def respond(name: str, answer: TransactionAnswer) -> None:
            found.append(_describe(name, answer))
            if len(found) == len(names):
                call.answer(DescribeTransactionsResponse(transaction_states=tuple(found)))

        if not names:
            call.answer(DescribeTransactionsResponse(transaction_states=()))
        for name in names:
            if not name:
                respond(name, TransactionAnswer(0, KafkaErrorCode.INVALID_REQUEST))
            else:
                self._coordinators.ask(
                    name,
                    DescribeTransaction(name),
                    lambda answer, name=name: respond(name, answer),  # type: ignore[misc]
                )

    @serves(LIST_TRANSACTIONS.key)
    def list_transactions(self, call: ClientCall) -> None:
        """Answer with the transactional ids that this broker coordinates and that pass the filters."""
        request: ListTransactionsRequest = call.request
        now_ms = self._context.wall_ms()
        known = {each.title: each for each in TransactionState}
        states = {known[each] for each in request.state_filters if each in known}
        producers = frozenset(request.producer_id_filters)
        answers: list[TransactionAnswer] = []
        for partition in self._coordinators.led:
            self._coordinators.ask_in(partition, ListTransactions(), answers.append)
        loading = any(each.error is KafkaErrorCode.COORDINATOR_LOAD_IN_PROGRESS for each in answers)

        def is_wanted(data: TransactionData) -> bool:
            if request.duration_filter >= 0:
                age_ms = now_ms - data.start_ms
                if data.state.is_idle or data.start_ms == NO_TIME or age_ms <= request.duration_filter:
                    return False
            return (not request.state_filters or data.state in states) and (
                not producers or data.producer_id in producers
            )

        call.answer(
            ListTransactionsResponse(
                error_code=KafkaErrorCode.COORDINATOR_LOAD_IN_PROGRESS if loading else NONE,
                unknown_state_filters=tuple(each for each in request.state_filters if each not in known),
                transaction_states=()
                if loading
                else tuple(
                    ListedTransaction(
                        transactional_id=name, producer_id=data.producer_id, transaction_state=data.state.title
                    )
                    for answer in answers
                    for name, data in answer.described.items()
                    if is_wanted(data)
                ),
            )
        )

    @serves(DESCRIBE_PRODUCERS.key)
    def describe_producers(self, call: ClientCall) -> None:
        """Answer with the producers of partitions that this broker leads, and where their open transactions begin."""
        self._context.turns.run(call, self._describe_producers(call, call.request))

    def _describe_producers(self, call: ClientCall, request: DescribeProducersRequest) -> Steps:
        topics: list[DescribedProducersTopic] = []
        items = 0
        for topic in request.topics:
            partitions: list[DescribedProducersPartition] = []
            for number in topic.partition_indexes:
                partitions.append(self._producers_of(TopicPartition(topic.name, number)))
                items += 1 + len(partitions[-1].active_producers)
                yield 1 + len(partitions[-1].active_producers)
            topics.append(DescribedProducersTopic(name=topic.name, partitions=tuple(partitions)))
        self._context.turns.answer(call, DescribeProducersResponse(topics=tuple(topics)), items)

    def _producers_of(self, partition: TopicPartition) -> DescribedProducersPartition:
        hosted = self._replicas.hosted.get(partition)
        if hosted is None or not hosted.leads:
            known = self._context.image.partition(partition) is not None
            error = KafkaErrorCode.NOT_LEADER_OR_FOLLOWER if known else KafkaErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            return DescribedProducersPartition(partition_index=partition.partition, error_code=error)
        return DescribedProducersPartition(
            partition_index=partition.partition, error_code=NONE, active_producers=self._active(hosted)
        )

    def _active(self, hosted: LocalReplica) -> tuple[ActiveProducer, ...]:
        now_ms = self._context.wall_ms()
        open_ = hosted.decider.log.producers.transactions.open
        return tuple(
            ActiveProducer(
                producer_id=each.producer_id,
                producer_epoch=each.epoch,
                last_sequence=each.batches[-1].last_sequence if each.batches else NO_PRODUCER,
                last_timestamp=now_ms - int(each.idle_s * 1000),
                coordinator_epoch=each.coordinator_epoch,
                current_txn_start_offset=open_.get(each.producer_id, NO_PRODUCER),
            )
            for each in hosted.decider.producer_snapshot(self._context.clock())
        )


def _fenced_as(error: KafkaErrorCode, version: int, first: int) -> KafkaErrorCode:
    """Returns the error for a version of an API: PRODUCER_FENCED is known from `first` on."""
    if error is KafkaErrorCode.PRODUCER_FENCED and version < first:
        return KafkaErrorCode.INVALID_PRODUCER_EPOCH
    return error


def _results(
    topics: Sequence[AddPartitionsTopic], error_of: Callable[[TopicPartition], KafkaErrorCode]
) -> tuple[AddPartitionsTopicResult, ...]:
    return tuple(
        AddPartitionsTopicResult(
            name=topic.name,
            results_by_partition=tuple(
                AddPartitionsPartitionResult(
                    partition_index=number, partition_error_code=error_of(TopicPartition(topic.name, number))
                )
                for number in topic.partitions
            ),
        )
        for topic in topics
    )


def _describe(name: str, answer: TransactionAnswer) -> DescribedTransaction:
    data = answer.described.get(name)
    if data is None:
        return DescribedTransaction(error_code=answer.error, transactional_id=name)
    topics: dict[str, list[int]] = {}
    for partition in sorted(data.partitions):
        topics.setdefault(partition.topic, []).append(partition.partition)
    return DescribedTransaction(
        error_code=answer.error,
        transactional_id=name,
        transaction_state=data.state.title,
        transaction_timeout_ms=data.timeout_ms,
        transaction_start_time_ms=data.start_ms,
        producer_id=data.producer_id,
        producer_epoch=data.producer_epoch,
        topics=tuple(
            DescribedTransactionTopic(topic=topic, partitions=tuple(numbers)) for topic, numbers in topics.items()
        ),
    )
