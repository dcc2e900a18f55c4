"""Producers, writes that fail or time out, markers, time and failovers in any order, against a model of the log.

The model is the log itself: of each transactional id the state that its last committed record gives. Each record must be
a lawful step from the one before. Each answer, and each order to send markers, must be what the model has then.
"""

from collections import Counter
from collections.abc import Iterable

import attrs
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from kafka_compat.coordinator.effects import AppendRecords
from kafka_compat.coordinator.events import LoadFinished, Record, RecordsLoaded, Resigned, WriteFailed, Written
from kafka_compat.model import TopicPartition
from kafka_compat.protocol.error_codes import KafkaErrorCode
from kafka_compat.transactions.config import TransactionConfig
from kafka_compat.transactions.core import TransactionCoordinator
from kafka_compat.transactions.effects import AllocateProducerId, NameAborted, SendMarkers, TransactionAnswer
from kafka_compat.transactions.events import (
    AddPartitions,
    EndTransaction,
    InitProducer,
    MarkersRefused,
    MarkersWritten,
    ProducerIdAllocated,
    TransactionEvent,
    TransactionRequest,
    TransactionRequestArrived,
    TransactionTimePassed,
    VerifyPartitions,
)
from kafka_compat.transactions.model import LAST_EPOCH, NO_EPOCH, NO_PRODUCER, TransactionData, TransactionState
from kafka_compat.transactions.record_formats import decode_record, encode_key, encode_value
from tests.examples import examples

NONE = KafkaErrorCode.NONE
IDS = ("a", "b")
PARTITIONS = tuple(TopicPartition("t", number) for number in range(3))
TIMEOUT_MS = 20_000
CONFIG = TransactionConfig(transactional_id_expiration_ms=200_000, expiry_check_interval_ms=60_000)
FIRST_EPOCHS = (0, 0, LAST_EPOCH - 2, LAST_EPOCH - 1)
"""Some producers are near the end of their epochs."""
BEGUN_MS = 1_000_000
NO_ONE = TransactionData(NO_PRODUCER)
_DECIDES = {
    TransactionState.PREPARE_COMMIT: TransactionState.COMPLETE_COMMIT,
    TransactionState.PREPARE_ABORT: TransactionState.COMPLETE_ABORT,
}


@attrs.define
class _UnderWay:
    """Records in the log that are not committed. `certain`: no report about them was lost."""

    write_id: int
    records: tuple[Record, ...]
    certain: bool = True


class Transactions(RuleBasedStateMachine):
    """One partition of the topic, its coordinators one after the other, and all that they order."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0
        self.tokens = 0
        self.asked: dict[int, TransactionRequest] = {}
        self.committed: list[Record] = []
        self.under_way: list[_UnderWay] = []
        self.model: dict[str, TransactionData] = {}
        """The state that each id has for its coordinator."""
        self.allocating: list[int] = []
        self.last_producer = 0
        self.sent: dict[int, SendMarkers] = {}
        self.marked: set[tuple[str, int, int, bool]] = set()
        """The outcomes of which all markers are written."""
        self.refused = False
        self.clients: list[tuple[str, int, int]] = []
        """All producers that any answer has named: id, producer id and epoch."""
        self.newest: Counter[str] = Counter()
        """By id: the greatest producer that a request to begin was given, as one number."""
        self.coordinator = TransactionCoordinator(CONFIG)
        self.step(LoadFinished(self.time_ms))

    @initialize(epoch=st.sampled_from(FIRST_EPOCHS))
    def a_producer_is_known(self, epoch: int) -> None:
        name, first = IDS[0], TransactionData(0, epoch, timeout_ms=TIMEOUT_MS, updated_ms=BEGUN_MS)
        self.committed.append((encode_key(name), encode_value(first)))
        self.clients.append((name, 0, epoch))
        self.newest[name] = _rank(first)
        self.another_coordinator_loads(0, False)

    @property
    def time_ms(self) -> int:
        return BEGUN_MS + round(self.now * 1000)

    def state(self, name: str) -> TransactionData:
        return self.model.get(name, NO_ONE)

    # ---------------------------------------------------------------- what the coordinator orders

    def step(self, event: TransactionEvent) -> None:
        for effect in self.coordinator.step(self.now, event):
            match effect:
                case TransactionAnswer():
                    self.on_answer(self.asked.pop(effect.token), effect)
                case AppendRecords():
                    for name, after in _decode(effect.records):
                        self.check_step(name, after)
                    self.under_way.append(_UnderWay(effect.write_id, effect.records))
                case AllocateProducerId():
                    self.allocating.append(effect.request)
                case SendMarkers():
                    self.on_markers(effect)
                case NameAborted():
                    assert self.state(effect.transactional_id).state is TransactionState.ONGOING

    def check_step(self, name: str, after: TransactionData | None) -> None:
        """A record is written: it must be a lawful step."""
        before = self.state(name)
        if after is None:
            assert before.state.is_idle, "an id is forgotten in a transaction"
            return
        assert _rank(after) >= _rank(before), "an epoch, or a producer id, goes back"
        match after.state:
            case TransactionState.EMPTY:
                assert before.state.is_idle, "a producer begins in the transaction of another"
                assert self.is_beginning(name), "no producer begins"
            case TransactionState.ONGOING:
                assert not before.state.is_prepared and _rank(after) == _rank(before), "a step overtakes an outcome"
                assert before.state is not TransactionState.ONGOING or after.partitions > before.partitions
            case TransactionState.PREPARE_COMMIT:
                assert before.state is TransactionState.ONGOING and after.partitions == before.partitions
                assert self.is_committing(name, before), "no producer commits"
            case TransactionState.PREPARE_ABORT:
                assert not before.state.is_prepared
                assert after.partitions == (before.partitions if before.state is TransactionState.ONGOING else set())
            case TransactionState.COMPLETE_COMMIT | TransactionState.COMPLETE_ABORT:
                assert _DECIDES.get(before.state) is after.state, "the outcome is another one than was decided"
                assert not before.partitions or _outcome(name, before) in self.marked, "a marker is missing"
            case _:
                raise AssertionError(f"no step leads to {after.state}")

    def is_beginning(self, name: str) -> bool:
        return any(isinstance(each, InitProducer) and each.transactional_id == name for each in self.asked.values())

    def is_committing(self, name: str, before: TransactionData) -> bool:
        return any(
            isinstance(each, EndTransaction)
            and each.commits
            and (each.transactional_id, each.producer_id, each.producer_epoch)
            == (name, before.producer_id, before.producer_epoch)
            for each in self.asked.values()
        )

    def on_markers(self, order: SendMarkers) -> None:
        """They leave for what is decided for good, and for all of it."""
        data = self.state(order.transactional_id)
        wanted = TransactionState.PREPARE_COMMIT if order.commits else TransactionState.PREPARE_ABORT
        assert data.state is wanted, "markers of an outcome that is not written"
        assert (order.producer_id, order.producer_epoch) == (data.producer_id, data.producer_epoch)
        assert order.partitions == data.partitions, "a partition of the transaction gets no marker"
        self.sent[order.markers] = order

    def on_answer(self, request: TransactionRequest, answer: TransactionAnswer) -> None:
        if answer.error is not NONE:
            return
        match request:
            case InitProducer(transactional_id=name):
                data = self.state(name)
                assert (data.producer_id, data.producer_epoch) == (answer.producer_id, answer.producer_epoch)
                assert data.state is TransactionState.EMPTY
                rank = _rank(data)
                assert rank > self.newest[name] or (rank == self.newest[name] and request.expected is not None)
                self.newest[name] = rank
                self.clients.append((name, answer.producer_id, answer.producer_epoch))
            case AddPartitions(transactional_id=name):
                self.check_present(request)
                assert self.state(name).state is TransactionState.ONGOING
                assert self.state(name).partitions.issuperset(request.partitions)
            case VerifyPartitions(transactional_id=name):
                self.check_present(request)
                data = self.state(name)
                assert not data.state.is_prepared, "a batch could enter what is decided"
                for partition, error in answer.partitions.items():
                    there = data.state is TransactionState.ONGOING and partition in data.partitions
                    assert (error is NONE) == there
            case EndTransaction(transactional_id=name):
                data = self.state(name)
                outcomes = {TransactionState.PREPARE_COMMIT, TransactionState.COMPLETE_COMMIT}
                assert data.state is not TransactionState.EMPTY, "nothing was decided"
                assert (data.state in outcomes) == request.commits, "the outcome is not the one of the answer"
                if request.version < 2:
                    self.check_present(request)
                else:
                    raised = data.producer_epoch == request.producer_epoch + 1
                    assert (data.producer_id == request.producer_id and raised) or _rank(data) > _rank_of(request)
                    if answer.producer_id != NO_PRODUCER:
                        self.clients.append((name, answer.producer_id, answer.producer_epoch))
            case _:
                pass

    def check_present(self, request: AddPartitions | VerifyPartitions | EndTransaction) -> None:
        """Only the present producer is served."""
        data = self.state(request.transactional_id)
        assert (request.producer_id, request.producer_epoch) == (data.producer_id, data.producer_epoch)

    # ---------------------------------------------------------------- requests

    def ask(self, request: TransactionRequest) -> None:
        self.tokens += 1
        self.asked[self.tokens] = request
        self.step(TransactionRequestArrived(self.tokens, request, self.time_ms))

    def client(self, draw: int) -> tuple[str, int, int]:
        """Returns a producer, seldom one of the first ones."""
        return self.clients[-1 - draw % min(len(self.clients), 4)] if draw else self.clients[0]

    @rule(name=st.sampled_from(IDS))
    def a_producer_begins(self, name: str) -> None:
        self.ask(InitProducer(name, TIMEOUT_MS))

    @precondition(lambda self: self.clients)
    @rule(draw=st.integers(0, 9))
    def a_producer_goes_on(self, draw: int) -> None:
        name, producer_id, epoch = self.client(draw)
        self.ask(InitProducer(name, TIMEOUT_MS, (producer_id, epoch)))

    @precondition(lambda self: self.clients)
    @rule(draw=st.integers(0, 9), added=st.sets(st.sampled_from(PARTITIONS), min_size=1), raises=st.booleans())
    def partitions_are_added(self, draw: int, added: set[TopicPartition], raises: bool) -> None:
        self.ask(AddPartitions(*self.client(draw), tuple(sorted(added)), 2 * raises))

    @precondition(lambda self: self.clients)
    @rule(draw=st.integers(0, 9))
    def partitions_are_verified(self, draw: int) -> None:
        self.ask(VerifyPartitions(*self.client(draw), PARTITIONS))

    @precondition(lambda self: self.clients)
    @rule(draw=st.integers(0, 9), commits=st.booleans(), raises=st.booleans())
    def a_transaction_ends(self, draw: int, commits: bool, raises: bool) -> None:
        self.ask(EndTransaction(*self.client(draw), commits, 2 * raises))

    # ---------------------------------------------------------------- what was ordered is done

    @precondition(lambda self: self.allocating)
    @rule(fails=st.integers(0, 4))
    def a_producer_id_comes(self, fails: int) -> None:
        number = self.allocating.pop(0)
        if not fails:
            error = KafkaErrorCode.COORDINATOR_NOT_AVAILABLE
            self.step(ProducerIdAllocated(number, NO_PRODUCER, error, self.time_ms))
            return
        self.last_producer += 1
        self.step(ProducerIdAllocated(number, self.last_producer, NONE, self.time_ms))

    @precondition(lambda self: any(each.certain for each in self.under_way))
    @rule()
    def the_log_is_committed(self) -> None:
        """Up to a write, with all before it."""
        end = next(at for at, each in enumerate(self.under_way) if each.certain)
        done, self.under_way = self.under_way[: end + 1], self.under_way[end + 1 :]
        for each in done:
            self.commit(each)
        self.step(Written(done[-1].write_id))

    def commit(self, done: _UnderWay) -> None:
        self.committed += done.records
        for name, after in _decode(done.records):
            if after is None:
                self.model.pop(name, None)
            elif done.certain:
                self.model[name] = after

    @precondition(lambda self: any(each.certain for each in self.under_way))
    @rule(unknown=st.booleans())
    def a_write_fails(self, unknown: bool) -> None:
        """For certain, or it stays in the log for others to commit."""
        failed = next(each for each in self.under_way if each.certain)
        failed.certain = False
        if not unknown:
            self.under_way.remove(failed)
        error = KafkaErrorCode.REQUEST_TIMED_OUT if unknown else KafkaErrorCode.NOT_ENOUGH_REPLICAS
        self.step(WriteFailed(failed.write_id, error))

    @precondition(lambda self: self.sent)
    @rule()
    def markers_are_written(self) -> None:
        number, order = next(iter(self.sent.items()))
        del self.sent[number]
        self.marked.add((order.transactional_id, order.producer_id, order.producer_epoch, order.commits))
        self.step(MarkersWritten(number, self.time_ms))

    @precondition(lambda self: self.sent)
    @rule()
    def markers_are_refused(self) -> None:
        number, _ = self.sent.popitem()
        self.refused = True
        self.step(MarkersRefused(number, KafkaErrorCode.TRANSACTION_COORDINATOR_FENCED))

    # ---------------------------------------------------------------- time and failovers

    @rule(seconds=st.sampled_from((0.2, 11.0, 30.0, 300.0)))
    def time_passes(self, seconds: float) -> None:
        self.now += seconds
        self.step(TransactionTimePassed(self.time_ms))

    @rule(kept=st.integers(0, 3), resigns=st.booleans())
    def another_coordinator_loads(self, kept: int, resigns: bool) -> None:
        """It has a part of what was under way: the log up to some record."""
        if resigns:
            self.step(Resigned())
            assert not self.asked, "a request has no answer"
        for each in self.under_way[:kept]:
            self.committed += each.records
        self.under_way, self.allocating, self.sent, self.refused = [], [], {}, False
        self.asked.clear()
        self.model = {}
        for name, after in _decode(self.committed):
            if after is None:
                self.model.pop(name, None)
            else:
                self.model[name] = after
        self.coordinator = TransactionCoordinator(CONFIG)
        half = len(self.committed) // 2
        self.step(RecordsLoaded(tuple(self.committed[:half])))
        self.step(RecordsLoaded(tuple(self.committed[half:])))
        self.step(LoadFinished(self.time_ms))
        waiting = {each.transactional_id for each in self.sent.values()}
        prepared = {name for name, data in self.model.items() if data.state.is_prepared and data.partitions}
        assert waiting == prepared, "markers are forgotten"

    def teardown(self) -> None:
        """All that was ordered is done: every request has an answer, and every id can begin."""
        if self.refused:
            self.another_coordinator_loads(0, True)
        self.drain()
        assert not self.asked, "a request has no answer"
        for name in IDS:
            for _ in range(3):  # the first may find an open transaction, and abort it
                before = self.newest[name]
                self.ask(InitProducer(name, TIMEOUT_MS))
                self.drain()
                if self.newest[name] > before:
                    break
            else:
                raise AssertionError(f"{name} cannot begin: {self.state(name)}")
            assert not self.state(name).state.is_prepared

    def drain(self) -> None:
        """Do all that is ordered, and what follows from it a little later."""
        for _ in range(100):
            if self.sent:
                self.markers_are_written()
            elif self.allocating:
                self.a_producer_id_comes(1)
            elif any(each.certain for each in self.under_way):
                self.the_log_is_committed()
            else:
                self.under_way.clear()  # nothing follows what timed out
                self.now += 0.2
                self.step(TransactionTimePassed(self.time_ms))
                if not (self.under_way or self.allocating or self.sent):
                    return
        raise AssertionError("it never comes to rest")


def _decode(records: Iterable[Record]) -> list[tuple[str, TransactionData | None]]:
    found = [decode_record(key, value) for key, value in records]
    return [each for each in found if each is not None]


def _rank(data: TransactionData) -> int:
    """Returns a number that grows with each producer of an id."""
    return 0 if data.producer_epoch == NO_EPOCH else data.producer_id * 2**16 + data.producer_epoch + 1


def _rank_of(request: EndTransaction) -> int:
    return request.producer_id * 2**16 + request.producer_epoch + 1


def _outcome(name: str, data: TransactionData) -> tuple[str, int, int, bool]:
    return name, data.producer_id, data.producer_epoch, data.state is TransactionState.PREPARE_COMMIT


TestTransactions = Transactions.TestCase
TestTransactions.settings = settings(max_examples=examples(60), stateful_step_count=40, deadline=None)
