"""A transactional producer of a run, in a process of its own: whole transactions, some of them aborted on purpose.

A feeder writes to all partitions. A transformer takes the inputs of one partition as read_committed has them, makes one
record of each, and commits the position that it has reached in the same transaction. Producers share a transactional id in
two ways: two transformers of the same input take it from each other (those that are fenced come back), and now and then a
producer opens a transaction, is replaced by a new one with its id, and goes on as if it were not.

A transaction is committed if the client reports it, and certainly not if its commit was never asked for: no one else ends it
so. With any other answer to a commit, an abort afterwards too, its outcome is unknown.
"""

import functools
import itertools
import queue
import random
import threading
import time
from collections.abc import Callable
from typing import Final

import attrs
from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition

from jepsen_like.history.ops import NONE, READ_COMMITTED, ErrorCode, Outcome
from jepsen_like.systems.kafka.client_config import ClientConfig
from jepsen_like.systems.kafka.worker_plan import TRANSFORMER, WorkerPlan
from jepsen_like.workload.client_process import FINAL, ClientPipe
from jepsen_like.workload.client_rows import FoundRow, InitRow, PositionRow, TransactionRow
from jepsen_like.workload.payload import decode_value, encode_value

ANSWER_WITHIN_S: Final = 3.0
PATIENCE_S: Final = 8.0
"""A step that may be tried again is given up after this time, and with it the producer."""
FINAL_WITHIN_S: Final = 18.0
BACK_OFF_S: Final = 0.05
AWAY_S: Final = (0.3, 1.5)
"""A producer that was fenced comes back after such a time."""
RECORDS: Final = (2, 6)
INPUTS_MAX: Final = 12
POLL_S: Final = 0.05
ABORTED_SHARE, REPLACED_SHARE = 0.12, 0.03
FENCED: Final = frozenset(
    {KafkaError._FENCED, KafkaError.INVALID_PRODUCER_EPOCH, KafkaError.INVALID_PRODUCER_ID_MAPPING, 90}
)
"""90 is PRODUCER_FENCED."""


@attrs.define
class Transaction:
    """A transaction under way, and what becomes known of it."""

    life: int
    number: int
    records: list[list[int]] = attrs.field(factory=list)
    positions: list[list[int]] = attrs.field(factory=list)
    commit_ns: int = NONE
    undelivered: int = 0
    outcome: Outcome = Outcome.FAIL
    error: ErrorCode = ErrorCode.NONE

    def note(self, error: KafkaError) -> None:
        """It has failed: certainly, unless its commit was asked for."""
        self.outcome = Outcome.FAIL if self.commit_ns == NONE else Outcome.INFO
        self.error = ErrorCode.FENCED if error.code() in FENCED else ErrorCode.OTHER

    def take_report(self, place: int, error: KafkaError | None, message: Message) -> None:
        """Take the report about a record."""
        if error is None:
            offset = message.offset()
            self.records[place][3] = NONE if offset is None else offset
            self.undelivered -= 1


class Transactor:
    """One worker. `run` returns when the harness tells it to quit."""

    def __init__(self, plan: WorkerPlan, pipe: ClientPipe) -> None:
        self._plan = plan
        self._pipe = pipe
        self._rng = random.Random(f"{plan.role} {plan.seed} {plan.index}")
        self._numbers = itertools.count(1 + plan.first_number, plan.numbers_step)
        self._values = itertools.count(1 + plan.first_number, plan.numbers_step)
        self._config = ClientConfig(plan)
        self._producer: Producer | None = None
        self._consumer: Consumer | None = None
        self._reads = 0
        """Lives of the consumer: a new one whenever it begins elsewhere."""
        self._lives = 0
        self._position = 0
        self._is_lost = True
        """The consumer has to ask where its group is."""

    def run(self) -> None:
        """Run transactions until told otherwise."""
        for works in self._pipe.turns(self._final):
            if not works:
                time.sleep(BACK_OFF_S)
                continue
            if self._config.is_outdated:
                self._drop()
                self._consumer = None
            self._turn()
            self._pipe.flush()

    def _turn(self) -> None:
        """One transaction, or one step towards it."""
        if self._producer is None and not self._take_id():
            return
        assert self._producer is not None
        if self._plan.role == TRANSFORMER and self._is_lost and not self._resume():
            return
        inputs = self._poll() if self._plan.role == TRANSFORMER else []
        if self._plan.role == TRANSFORMER and not inputs:
            return
        draw = self._rng.random()
        if draw < REPLACED_SHARE:
            self._be_replaced(self._producer, inputs)
        else:
            self._transact(self._producer, inputs, aborts=draw < REPLACED_SHARE + ABORTED_SHARE)

    # ---------------------------------------------------------------- a producer's life

    def _take_id(self) -> bool:
        """Make a producer and take the transactional id over. Returns False if that took too long."""
        config = {**self._config.now(), "transactional.id": f"txn-{self._plan.transactional_id}"}
        producer = Producer({**config, "error_cb": _take_note})
        t_inv = time.monotonic_ns()
        error = self._patiently(lambda: producer.init_transactions(ANSWER_WITHIN_S))
        if error is not None:
            time.sleep(BACK_OFF_S)
            return False
        self._lives += 1
        self._pipe.report(InitRow(self._lives, self._plan.transactional_id, t_inv, time.monotonic_ns()))
        self._producer, self._is_lost = producer, True
        return True

    def _drop(self) -> None:
        if self._producer is not None:
            self._producer.purge()
        self._producer, self._is_lost = None, True

    def _patiently(self, step: Callable[[], object]) -> KafkaError | None:
        """Carry a step out, again where its error allows it. Returns the error that ended it, None for success."""
        deadline = time.monotonic() + PATIENCE_S
        while (error := _carry_out(step)) is not None:
            is_over = error.fatal() or error.txn_requires_abort() or not error.retriable()
            if is_over or time.monotonic() > deadline:
                return error
            time.sleep(BACK_OFF_S)
        return None

    # ---------------------------------------------------------------- a transaction

    def _begin(self) -> Transaction:
        return Transaction(self._lives, next(self._numbers))

    def _transact(self, producer: Producer, inputs: list[tuple[int, int]], *, aborts: bool) -> Outcome:
        one = self._begin()
        error = self._fill(producer, one, inputs)
        if error is None and not aborts:
            error = self._commit(producer, one)
        if error is not None:
            one.note(error)
        goes_on = error is None or not error.fatal()
        if goes_on and one.outcome is not Outcome.OK:
            failure = self._patiently(lambda: producer.abort_transaction(ANSWER_WITHIN_S))
            # librdkafka uses the numbers of what it gave up again, and a broker takes the next record for a repetition of that.
            goes_on = failure is None and not one.undelivered
            self._is_lost = True
        self._report(one)
        if not goes_on:
            self._drop()
            if one.error is ErrorCode.FENCED:
                time.sleep(self._rng.uniform(*AWAY_S))
        return one.outcome

    def _fill(self, producer: Producer, one: Transaction, inputs: list[tuple[int, int]]) -> KafkaError | None:
        """Write its records and positions, and wait until all are delivered. Returns the error that stopped it."""
        error = self._patiently(producer.begin_transaction)
        if error is not None:
            return error
        for source, partition in self._choose(inputs):
            error = self._produce(producer, one, source, partition)
            if error is not None:
                return error
        if inputs:
            position = inputs[-1][0] + 1
            one.positions.append([self._plan.input, position])
            places = [TopicPartition(self._plan.topic, self._plan.input, position)]
            assert self._consumer is not None
            metadata = self._consumer.consumer_group_metadata()
            error = self._patiently(lambda: producer.send_offsets_to_transaction(places, metadata, ANSWER_WITHIN_S))
            if error is not None:
                return error
        error = self._patiently(lambda: producer.flush(PATIENCE_S))
        return KafkaError(KafkaError._TIMED_OUT) if error is None and one.undelivered else error

    def _choose(self, inputs: list[tuple[int, int]]) -> list[tuple[int, int]]:
        """Returns the source and the partition of each record that is to be written."""
        if self._plan.role == TRANSFORMER:
            outputs = [each for each in range(self._plan.partitions) if each >= self._plan.inputs] or [0]
            return [(value, self._rng.choice(outputs)) for _, value in inputs]
        return [(NONE, self._rng.randrange(self._plan.partitions)) for _ in range(self._rng.randint(*RECORDS))]

    def _produce(self, producer: Producer, one: Transaction, source: int, partition: int) -> KafkaError | None:
        value = next(self._values)
        record = encode_value(value, self._plan.record_bytes)
        one.records.append([partition, value, source, NONE, time.monotonic_ns()])
        one.undelivered += 1
        report = functools.partial(one.take_report, len(one.records) - 1)
        try:
            producer.produce(self._plan.topic, record, partition=partition, on_delivery=report)
        except (BufferError, KafkaException, SystemError) as problem:
            return _error_of(problem)
        return None

    def _commit(self, producer: Producer, one: Transaction) -> KafkaError | None:
        one.commit_ns = time.monotonic_ns()
        error = self._patiently(lambda: producer.commit_transaction(ANSWER_WITHIN_S))
        if error is None:
            one.outcome = Outcome.OK
        return error

    def _report(self, one: Transaction) -> None:
        if not one.records:
            return
        number, ended = self._plan.transactional_id, time.monotonic_ns()
        what = (int(one.outcome), int(one.error), one.commit_ns, ended, one.records, one.positions)
        self._pipe.report(TransactionRow(one.life, number, one.number, *what))

    def _be_replaced(self, old: Producer, inputs: list[tuple[int, int]]) -> None:
        """Leave a transaction open, let a new producer take the id, and go on with the old one: it has to be refused."""
        one = self._begin()
        error = self._fill(old, one, inputs)
        self._producer, self._is_lost = None, True
        self._take_id()
        if error is None and self._rng.random() < 0.5:
            error = self._produce(old, one, NONE, self._rng.randrange(self._plan.partitions))
            error = error or self._patiently(lambda: old.flush(ANSWER_WITHIN_S))
        error = self._commit(old, one)
        if error is not None:
            one.note(error)
        old.purge()
        self._report(one)

    # ---------------------------------------------------------------- inputs

    def _resume(self) -> bool:
        """Ask where the group is, and read from there. Returns False if that was not answered."""
        if self._consumer is None:
            self._consumer = Consumer(self._config.secure(self._plan.consumer))
        place = TopicPartition(self._plan.topic, self._plan.input)
        t_inv = time.monotonic_ns()
        try:
            (found,) = self._consumer.committed([place], timeout=ANSWER_WITHIN_S)
            if found.error is not None:
                return False
            self._pipe.report(PositionRow(self._plan.input, max(NONE, found.offset), t_inv, time.monotonic_ns()))
            place.offset = max(0, found.offset)
            self._consumer.assign([place])
        except KafkaException:
            time.sleep(BACK_OFF_S)
            return False
        self._reads += 1
        self._is_lost = False
        return True

    def _poll(self) -> list[tuple[int, int]]:
        """Returns offset and value of the next inputs, at most so many as a transaction has."""
        assert self._consumer is not None
        t_inv = time.monotonic_ns()
        try:
            messages = self._consumer.consume(self._rng.randint(1, INPUTS_MAX), timeout=POLL_S)
        except KafkaException:
            messages = []
        good = []
        for message in messages:
            if message.error() is not None:
                break
            good.append((message.offset() or 0, *decode_value(message.value() or b"")))
        if good:
            offsets, values = [offset for offset, *_ in good], [value for _, value, _ in good]
            is_whole = all(is_whole for *_, is_whole in good)
            times = (t_inv, time.monotonic_ns())
            self._pipe.report(
                FoundRow(self._reads, READ_COMMITTED, self._plan.input, values, offsets, is_whole, *times)
            )
        if len(good) < len(messages):
            self._is_lost = True
        return [(offset, value) for offset, value, _ in good]

    # ---------------------------------------------------------------- the end

    def _final(self) -> None:
        """Feeders commit once more. A transformer takes its id, which ends what was open, and asks where its group is."""
        deadline = time.monotonic() + FINAL_WITHIN_S
        is_done = False
        while not is_done and time.monotonic() < deadline:
            if self._plan.role == TRANSFORMER:
                self._drop()
                is_done = self._take_id() and self._resume()
            elif self._producer is not None or self._take_id():
                assert self._producer is not None
                is_done = self._transact(self._producer, [], aborts=False) is Outcome.OK
            self._pipe.flush(force=True)
        self._pipe.flush(force=True)
        self._pipe.say(FINAL, is_done, {})


def _carry_out(step: Callable[[], object]) -> KafkaError | None:
    """Returns the error with which a call of librdkafka ends; a fatal one if it does not end, which its time-outs do not ensure."""
    ended: queue.SimpleQueue[KafkaError | None] = queue.SimpleQueue()

    def run() -> None:
        try:
            step()
        except (KafkaException, SystemError) as problem:
            ended.put(_error_of(problem))
        else:
            ended.put(None)

    # The thread of a call that never ends holds its producer, whose destruction would not end either.
    threading.Thread(target=run, daemon=True).start()
    try:
        return ended.get(timeout=2 * PATIENCE_S)
    except queue.Empty:
        return KafkaError(KafkaError._TIMED_OUT, "a call did not end", True)


def _error_of(problem: Exception) -> KafkaError:
    """Returns the error of Kafka in an exception; a call that met one in a callback has it as its cause."""
    for each in (problem, problem.__cause__):
        if isinstance(each, KafkaException):
            found: KafkaError = each.args[0]
            return found
    return KafkaError(KafkaError._QUEUE_FULL)


def _take_note(error: KafkaError) -> None:
    """Errors are those of the call that they end: without a callback, any call may raise them."""
