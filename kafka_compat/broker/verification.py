"""Asks coordinators whether partitions of this broker belong to a transaction, before its first batch (KIP-890).

Producers of version 2 have not added the partition: then the question adds it. To each coordinator one request is
under way at a time, with all questions that wait for it. While the last transaction of the producer is being ended the
question is asked again for a short time, because its client would wait much longer. Clients send several batches without
waiting, so the later ones of a producer wait for the first: it opens the transaction, and sequences go on in order.
"""

from collections import deque
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import attrs

from kafka_compat.broker.context import Context
from kafka_compat.broker.peers import Peer, PeerFailed
from kafka_compat.broker.replicas import Answer, LocalReplica, Replicas
from kafka_compat.broker.transaction_coordinators import TransactionCoordinators
from kafka_compat.coordinator.partitioning import partition_of
from kafka_compat.model import NO_LEADER, TRANSACTIONS_TOPIC, TopicPartition
from kafka_compat.partition.effects import AnswerVerification
from kafka_compat.partition.events import VerificationAsked
from kafka_compat.protocol.apis.transactions import (
    ADD_PARTITIONS_TO_TXN,
    AddPartitionsResult,
    AddPartitionsTopic,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsTransaction,
)
from kafka_compat.protocol.error_codes import KafkaErrorCode, known_error
from kafka_compat.transactions.effects import TransactionAnswer
from kafka_compat.transactions.events import AddPartitions, VerifyPartitions

CALL_TIMEOUT_S = 5.0
RETRY_S = 0.02
RETRIES_S = 0.1
"""So long a question is asked again (`add.partitions.to.txn.retry.backoff.max.ms`)."""
VERSION = 5
RAISING_VERSION = 2
NEVER = float("inf")
NONE, CONCURRENT = KafkaErrorCode.NONE, KafkaErrorCode.CONCURRENT_TRANSACTIONS
Done = Callable[[KafkaErrorCode, int], None]


@attrs.define(eq=False)
class _Question:
    """One partition of one transaction. `adds` is true if the answer adds the partition."""

    hosted: LocalReplica
    partition: TopicPartition
    transactional_id: str
    producer_id: int
    producer_epoch: int
    sequence: int
    adds: bool
    done: Done
    until: float
    guard: int = 0

    @property
    def key(self) -> tuple[TopicPartition, int, int]:
        """Names the partition and the producer."""
        return self.partition, self.producer_id, self.producer_epoch


class Verification:
    """The questions of one broker. `pump` is to be called once a round."""

    def __init__(
        self,
        context: Context,
        replicas: Callable[[], Replicas],
        coordinators: TransactionCoordinators,
        peers: Mapping[int, Peer],
    ) -> None:
        self._context = context
        self._replicas = replicas
        self._coordinators = coordinators
        self._peers = peers
        self._waiting: dict[int, deque[_Question]] = {}
        """By coordinator."""
        self._busy: set[int] = set()
        self._again: deque[tuple[float, _Question]] = deque()
        self._behind: dict[tuple[TopicPartition, int, int], deque[_Question]] = {}
        """The questions that wait for an earlier one of the same producer and partition, by that."""
        self.asked = 0
        """The questions that were asked."""

    def verify(
        self,
        hosted: LocalReplica,
        transactional_id: str,
        producer: tuple[int, int],
        sequence: int,
        done: Done,
        *,
        adds: bool,
    ) -> None:
        """Call `done` with NONE and the guard for `Produce`, or with the reason to refuse the batch; once, perhaps now."""
        until = self._context.clock() + RETRIES_S
        question = _Question(hosted, hosted.partition, transactional_id, *producer, sequence, adds, done, until)
        behind = self._behind.get(question.key)
        if behind is None:
            self._behind[question.key] = deque()
            self._begin(question)
        else:
            behind.append(question)

    def _end(self, question: _Question, error: KafkaErrorCode, guard: int) -> None:
        """End a question, and those behind it: they go on in its transaction, or are refused as it is."""
        question.done(error, guard)
        behind = self._behind.pop(question.key)
        producers, producer = question.hosted.decider.log.producers, (question.producer_id, question.producer_epoch)
        for each in behind:
            if error is NONE and not producers.is_open(*producer):
                error = KafkaErrorCode.NOT_ENOUGH_REPLICAS  # the first batch was refused: the client sends all again
            each.done(error, 0)

    def _begin(self, question: _Question) -> None:
        """Take a guard from the partition, and ask."""
        hosted, producer = question.hosted, (question.producer_id, question.producer_epoch)
        if hosted.decider.log.producers.is_open(*producer):
            self._end(question, NONE, 0)
            return
        answers: list[Answer] = []
        token = self._replicas().token(answers.append)
        self._replicas().step(hosted, VerificationAsked(token, *producer, question.sequence))
        if not answers:  # the step waits for the end of another, which asked for this
            self._replicas().forget(token)
            self._end(question, KafkaErrorCode.NOT_ENOUGH_REPLICAS, 0)
            return
        (answer,) = answers
        assert isinstance(answer, AnswerVerification), "answered as asked"
        if answer.error is not NONE or not answer.guard:
            self._end(question, answer.error, 0)
            return
        question.guard = answer.guard
        self._ask(question)

    def _ask(self, question: _Question) -> None:
        coordinator = self._coordinator_of(question.transactional_id)
        self.asked += 1
        if coordinator is None:
            self._end(question, KafkaErrorCode.COORDINATOR_NOT_AVAILABLE, 0)
        elif coordinator == self._context.broker_id:
            self._ask_here(question)
        else:
            self._waiting.setdefault(coordinator, deque()).append(question)
            self._send(coordinator)

    def _coordinator_of(self, transactional_id: str) -> int | None:
        topic = self._context.image.topics.get(TRANSACTIONS_TOPIC)
        if topic is None:
            return None
        leader = topic.partitions[partition_of(transactional_id, len(topic.partitions))].leader
        return (
            None if leader == NO_LEADER or (leader != self._context.broker_id and leader not in self._peers) else leader
        )

    def _ask_here(self, question: _Question) -> None:
        name, producer = question.transactional_id, (question.producer_id, question.producer_epoch)
        partitions = (question.partition,)
        if question.adds:
            request = AddPartitions(name, *producer, partitions, RAISING_VERSION)
            self._coordinators.ask(name, request, lambda answer: self._take_answer(question, answer.error))
            return

        def on_answer(answer: TransactionAnswer) -> None:
            self._take_answer(question, answer.partitions.get(question.partition, answer.error))

        self._coordinators.ask(name, VerifyPartitions(name, *producer, partitions), on_answer)

    def _send(self, coordinator: int) -> None:
        if coordinator in self._busy or not self._waiting.get(coordinator):
            return
        questions = list(self._waiting.pop(coordinator))
        self._busy.add(coordinator)
        request = AddPartitionsToTxnRequest(
            transactions=tuple(
                AddPartitionsTransaction(
                    transactional_id=each.transactional_id,
                    producer_id=each.producer_id,
                    producer_epoch=each.producer_epoch,
                    verify_only=not each.adds,
                    topics=(AddPartitionsTopic(name=each.partition.topic, partitions=(each.partition.partition,)),),
                )
                for each in questions
            )
        )
        self._peers[coordinator].call(
            ADD_PARTITIONS_TO_TXN,
            VERSION,
            request,
            partial(self._on_response, coordinator, questions),
            timeout_s=CALL_TIMEOUT_S,
        )

    def _on_response(
        self, coordinator: int, questions: list[_Question], response: AddPartitionsToTxnResponse | PeerFailed | Any
    ) -> None:
        """The results stand in the order of the questions."""
        self._busy.discard(coordinator)
        errors = [KafkaErrorCode.NETWORK_EXCEPTION] * len(questions)
        if isinstance(response, AddPartitionsToTxnResponse):
            if response.error_code:
                errors = [known_error(response.error_code)] * len(questions)
            elif len(response.results_by_transaction) == len(questions):
                errors = [_error_in(each) for each in response.results_by_transaction]
        for question, error in zip(questions, errors, strict=True):
            self._take_answer(question, error)
        self._send(coordinator)

    def _take_answer(self, question: _Question, error: KafkaErrorCode) -> None:
        now = self._context.clock()
        if question.adds and now < question.until and (error is CONCURRENT or (error is NONE and _is_void(question))):
            self._again.append((now + RETRY_S, question))
        else:
            self._end(question, error, question.guard)

    def pump(self, now: float) -> None:
        """Ask again what is due, each with a guard of its own: the marker that it waited for voids the one before."""
        while self._again and self._again[0][0] <= now:
            question = self._again.popleft()[1]
            if self._replicas().hosted.get(question.partition) is question.hosted:
                self._begin(question)
            else:
                self._end(question, KafkaErrorCode.NOT_LEADER_OR_FOLLOWER, 0)

    @property
    def deadline(self) -> float:
        """The time at which `pump` is due."""
        return self._again[0][0] if self._again else NEVER


def _is_void(question: _Question) -> bool:
    """Returns True if a marker came meanwhile: that of the transaction before, when the answer adds to the next one."""
    producers, producer = question.hosted.decider.log.producers, (question.producer_id, question.producer_epoch)
    return not producers.is_open(*producer) and not producers.transactions.is_verified(*producer, question.guard)


def _error_in(result: AddPartitionsResult) -> KafkaErrorCode:
    """Returns the outcome of the one partition that was asked about."""
    for topic in result.topic_results:
        for each in topic.results_by_partition:
            return known_error(each.partition_error_code)
    return KafkaErrorCode.UNKNOWN_SERVER_ERROR
