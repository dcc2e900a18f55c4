"""The transaction coordinator: the only dispatch. It decides; the shell appends, sends markers and keeps the time.

Each leadership of a partition of `__transaction_state` has one. It loads the partition's records, serves, and ends with
`Resigned`. Its rules, with their sources:

- A step of a transactional id counts when its record is committed. Until then nothing follows from it: no marker leaves
  for an outcome that may be lost. Other steps wait for a moment (`waiting`), or are refused with CONCURRENT_TRANSACTIONS.
- The outcome is decided by the record of its prepared state. The markers are sent after that, again and again, also by
  the next coordinator, and the record of the completed state follows the last of them (KIP-98).
- Only the producer with the present id and epoch is served. A new producer, and a timeout, raise the epoch (KIP-360).
- A producer of version 2 gets a new epoch with each end (KIP-890). The repetition of its EndTxn has the epoch before.
"""

import enum
import math
from collections.abc import Callable
from typing import assert_never

from attrs import define

from kafka_compat.coordinator.effects import AppendRecords
from kafka_compat.coordinator.events import LoadFinished, Record, RecordsLoaded, Resigned, WriteFailed, Written
from kafka_compat.coordinator.writes import UNKNOWN_OUTCOMES, client_error
from kafka_compat.model import TopicPartition
from kafka_compat.protocol.error_codes import KafkaErrorCode
from kafka_compat.transactions.config import TransactionConfig
from kafka_compat.transactions.effects import (
    AllocateProducerId,
    NameAborted,
    SendMarkers,
    TransactionAnswer,
    TransactionEffect,
)
from kafka_compat.transactions.events import (
    AddPartitions,
    DescribeTransaction,
    EndTransaction,
    InitProducer,
    ListTransactions,
    MarkersRefused,
    MarkersWritten,
    ProducerIdAllocated,
    TransactionEvent,
    TransactionRequest,
    TransactionRequestArrived,
    TransactionTimePassed,
    VerifyPartitions,
)
from kafka_compat.transactions.model import (
    LAST_EPOCH,
    NO_EPOCH,
    NO_PRODUCER,
    RAISING_VERSION,
    TransactionalId,
    TransactionData,
    TransactionState,
)
from kafka_compat.transactions.record_formats import decode_record, encode_key, encode_value, fits
from kafka_compat.transactions.waiting import WaitingRequests
from log.values import frozen

NONE = KafkaErrorCode.NONE
COMPLETE_RETRY_S = 0.1
"""The pause before the record of a completed transaction is written again."""
EXPIRED_IN_WRITE = 1000
"""Tombstones in one write."""

_Done = Callable[[KafkaErrorCode], None]


class TransactionPhase(enum.Enum):
    """The phase of a coordinator in its leadership."""

    LOADING = "loading"
    ACTIVE = "active"
    RESIGNED = "resigned"


@frozen
class _Write:
    """A write under way: the steps that it takes, and what follows."""

    steps: tuple[tuple[TransactionalId, TransactionData | None], ...]
    done: _Done


@define
class _Due:
    """The times of the next looks at all ids, and of the next try to write a last record."""

    abort: float = math.inf
    expiry: float = math.inf
    completion: float = math.inf


class TransactionCoordinator:
    """The transactional ids of one partition of the transactions topic, for one leadership."""

    def __init__(self, config: TransactionConfig | None = None) -> None:
        self.config = config or TransactionConfig()
        self.phase = TransactionPhase.LOADING
        self.ids: dict[str, TransactionalId] = {}
        self._now = 0.0
        self._time_ms = 0
        self._effects: list[TransactionEffect] = []
        self._writes: dict[int, _Write] = {}
        """By write id, ascending."""
        self._last_write = self._last_number = 0
        self._allocating: dict[int, Callable[[int, KafkaErrorCode], None]] = {}
        self._markers: dict[int, TransactionalId] = {}
        self._to_complete: dict[TransactionalId, None] = {}
        """Those whose last record could not be written."""
        self._tokens: dict[int, None] = {}
        """Requests that wait."""
        self._due = _Due()
        self._waiting = WaitingRequests()

    @property
    def deadline(self) -> float:
        """The time at which `TransactionTimePassed` is due next, in seconds of `now`; infinite if nothing waits."""
        return min(self._due.abort, self._due.expiry, self._due.completion, self._waiting.deadline)

    def step(self, now: float, event: TransactionEvent) -> tuple[TransactionEffect, ...]:
        """Takes one event; returns the effects in the order in which they are to be carried out.

        `now` is monotonic, in seconds. Raises `MalformedMessage` for unreadable records (then the partition cannot be
        led), and `AssertionError` for a broken invariant.
        """
        self._now = now
        match event:
            case TransactionRequestArrived():
                self._time_ms = event.time_ms
                self._serve(event.token, event.request)
            case ProducerIdAllocated():
                self._time_ms = event.time_ms
                allocated = self._allocating.pop(event.request, None)
                if allocated is not None:
                    allocated(event.producer_id, event.error)
            case MarkersWritten(markers=markers):
                self._time_ms = event.time_ms
                entry = self._markers.pop(markers, None)
                if entry is not None:
                    self._complete(entry)
            case MarkersRefused(markers=markers):
                # Another coordinator leads this partition, or will soon: this one learns of it by `Resigned`.
                self._markers.pop(markers, None)
            case Written(write_id=write_id):
                self._on_written(write_id)
            case WriteFailed(write_id=write_id, error=error):
                self._on_failed(write_id, error)
            case RecordsLoaded(records=records):
                self._load(records)
            case LoadFinished(time_ms=time_ms):
                self._time_ms = time_ms
                self._begin()
            case TransactionTimePassed(time_ms=time_ms):
                self._time_ms = time_ms
                self._time_passed()
            case Resigned():
                self._resign()
            case _:
                assert_never(event)
        effects = tuple(self._effects)
        self._effects.clear()
        return effects

    # ----------------------------------------------------------------- requests

    def _answer(self, token: int, error: KafkaErrorCode, producer_id: int = NO_PRODUCER, epoch: int = NO_EPOCH) -> None:
        self._tokens.pop(token, None)
        self._effects.append(TransactionAnswer(token, error, producer_id, epoch))

    def _serve(self, token: int, request: TransactionRequest) -> None:
        if self.phase is not TransactionPhase.ACTIVE:
            loads = self.phase is TransactionPhase.LOADING
            self._answer(
                token, KafkaErrorCode.COORDINATOR_LOAD_IN_PROGRESS if loads else KafkaErrorCode.NOT_COORDINATOR
            )
            return
        self._tokens[token] = None
        match request:
            case InitProducer() | AddPartitions():
                self._serve_step(token, request)
            case VerifyPartitions():
                self._verify(token, request)
            case EndTransaction():
                self._end(token, request)
            case DescribeTransaction(transactional_id=name):
                known = self.ids.get(name)
                del self._tokens[token]
                if known is None or known.data.producer_epoch == NO_EPOCH:
                    self._effects.append(TransactionAnswer(token, KafkaErrorCode.TRANSACTIONAL_ID_NOT_FOUND))
                else:
                    self._effects.append(TransactionAnswer(token, NONE, described={name: known.data}))
            case ListTransactions():
                del self._tokens[token]
                listed = {each.name: each.data for each in self.ids.values() if each.data.producer_epoch != NO_EPOCH}
                self._effects.append(TransactionAnswer(token, NONE, described=listed))
            case _:
                assert_never(request)

    def _serve_step(self, token: int, request: InitProducer | AddPartitions) -> None:
        if isinstance(request, InitProducer):
            self._init_producer(token, request)
        else:
            self._add_partitions(token, request)

    def _wait(self, token: int, request: InitProducer | AddPartitions) -> None:
        """Lets a request wait for the step that is under way. Leaders of partitions ask again by themselves."""
        by_leader = isinstance(request, AddPartitions) and request.version >= RAISING_VERSION
        if by_leader or not self._waiting.add(token, request, self._now):
            self._answer(token, KafkaErrorCode.CONCURRENT_TRANSACTIONS)

    def _serve_waiting(self, transactional_id: str) -> None:
        """Serves the requests that have waited for a step that has ended, as far as none begins another."""
        while (entry := self.ids.get(transactional_id)) is None or not entry.is_concurrent:
            waiting = self._waiting.take(transactional_id)
            if waiting is None:
                return
            self._serve_step(waiting.token, waiting.request)

    # ----------------------------------------------------------------- InitProducerId

    def _init_producer(self, token: int, request: InitProducer) -> None:
        if not request.transactional_id or not fits(request.transactional_id):
            self._answer(token, KafkaErrorCode.INVALID_REQUEST)
            return
        if not 0 < request.timeout_ms <= self.config.transaction_max_timeout_ms:
            self._answer(token, KafkaErrorCode.INVALID_TRANSACTION_TIMEOUT)
            return
        entry = self.ids.get(request.transactional_id)
        if entry is None:
            entry = TransactionalId(request.transactional_id, TransactionData(NO_PRODUCER))
            self.ids[entry.name] = entry
        data = entry.data
        if entry.is_concurrent:
            self._wait(token, request)
        elif data.producer_epoch != NO_EPOCH and not _may_go_on(data, request.expected):
            self._answer(token, KafkaErrorCode.PRODUCER_FENCED)
        elif data.state is TransactionState.ONGOING:
            self._fence(entry, token, request)
        elif data.producer_epoch == NO_EPOCH or (data.is_exhausted and _needs_new_id(data, request.expected)):
            self._with_new_id(entry, token, lambda number: self._begin_producer(entry, token, request, number))
        else:
            self._raise_epoch(entry, token, request)

    def _with_new_id(self, entry: TransactionalId, token: int, then: Callable[[int], None]) -> None:
        """Orders a producer id; meanwhile no other step of this id begins."""

        def on_allocated(producer_id: int, error: KafkaErrorCode) -> None:
            entry.is_busy = False
            if error is NONE:
                then(producer_id)
            else:
                self._answer(token, error)
                self._forget_unused(entry)
            self._serve_waiting(entry.name)

        entry.is_busy = True
        self._last_number += 1
        self._allocating[self._last_number] = on_allocated
        self._effects.append(AllocateProducerId(self._last_number))

    def _begin_producer(self, entry: TransactionalId, token: int, request: InitProducer, producer_id: int) -> None:
        is_new = entry.data.producer_epoch == NO_EPOCH
        last_epoch = NO_EPOCH if is_new or request.expected is None else entry.data.producer_epoch
        begun = entry.data.with_producer(producer_id, last_epoch, request.timeout_ms, self._time_ms)
        self._take(entry, begun, lambda error: self._answer_producer(entry, token, error))

    def _raise_epoch(self, entry: TransactionalId, token: int, request: InitProducer) -> None:
        data = entry.data
        epoch, last_epoch = data.producer_epoch + 1, NO_EPOCH
        if request.expected is not None:
            if request.expected[1] == data.producer_epoch:
                last_epoch = data.producer_epoch
            elif request.expected[1] == data.last_epoch:  # the repetition of a request whose answer was lost
                epoch, last_epoch = data.producer_epoch, data.last_epoch
            else:
                self._answer(token, KafkaErrorCode.PRODUCER_FENCED)
                return
        begun = data.with_epoch(epoch, last_epoch, request.timeout_ms, self._time_ms)
        self._take(entry, begun, lambda error: self._answer_producer(entry, token, error))

    def _answer_producer(self, entry: TransactionalId, token: int, error: KafkaErrorCode) -> None:
        if error is NONE:
            self._answer(token, NONE, entry.data.producer_id, entry.data.producer_epoch)
        else:
            self._answer(token, client_error(error))
            if error not in UNKNOWN_OUTCOMES:
                self._forget_unused(entry)

    def _forget_unused(self, entry: TransactionalId) -> None:
        if entry.data.producer_epoch == NO_EPOCH and self.ids.get(entry.name) is entry:
            del self.ids[entry.name]

    def _fence(self, entry: TransactionalId, token: int, request: InitProducer) -> None:
        """Aborts the transaction of the producer before; the new producer waits until that is done."""
        prepared = self._prepare(entry, commits=False, version=entry.data.version, fences=True)

        def on_written(error: KafkaErrorCode) -> None:
            if error is NONE:
                self._send_markers(entry)
                self._wait(token, request)
            else:
                self._answer(token, client_error(error))

        self._take(entry, prepared, on_written)

    # ----------------------------------------------------------------- partitions

    def _find(self, name: str, producer_id: int) -> TransactionalId | KafkaErrorCode:
        if not name:
            return KafkaErrorCode.INVALID_REQUEST
        entry = self.ids.get(name)
        if entry is None or entry.data.producer_epoch == NO_EPOCH or entry.data.producer_id != producer_id:
            return KafkaErrorCode.INVALID_PRODUCER_ID_MAPPING
        return entry

    def _add_partitions(self, token: int, request: AddPartitions) -> None:
        entry = self._find(request.transactional_id, request.producer_id)
        if isinstance(entry, KafkaErrorCode):
            self._answer(token, entry)
            return
        data = entry.data
        if data.producer_epoch != request.producer_epoch:
            self._answer(token, KafkaErrorCode.PRODUCER_FENCED)
        elif entry.is_concurrent:
            self._wait(token, request)
        elif data.state is TransactionState.ONGOING and data.partitions.issuperset(request.partitions):
            self._answer(token, NONE)
        else:
            self._take(
                entry,
                data.with_partitions(request.partitions, request.version, self._time_ms),
                lambda error: self._answer(token, client_error(error)),
            )

    def _verify(self, token: int, request: VerifyPartitions) -> None:
        del self._tokens[token]
        entry = self._find(request.transactional_id, request.producer_id)
        if isinstance(entry, KafkaErrorCode):
            error = entry
        elif entry.data.producer_epoch != request.producer_epoch:
            error = KafkaErrorCode.PRODUCER_FENCED
        elif entry.data.state.is_prepared:
            error = KafkaErrorCode.CONCURRENT_TRANSACTIONS
        else:
            outcomes = {
                each: NONE if _is_in(entry.data, each) else KafkaErrorCode.TRANSACTION_ABORTABLE
                for each in request.partitions
            }
            self._effects.append(TransactionAnswer(token, NONE, partitions=outcomes))
            return
        self._effects.append(TransactionAnswer(token, error, partitions=dict.fromkeys(request.partitions, error)))

    # ----------------------------------------------------------------- EndTxn

    def _end(self, token: int, request: EndTransaction) -> None:
        if not request.transactional_id:
            self._answer(token, KafkaErrorCode.INVALID_REQUEST)
            return
        entry = self.ids.get(request.transactional_id)
        if entry is None or entry.data.producer_epoch == NO_EPOCH:
            self._answer(token, KafkaErrorCode.INVALID_PRODUCER_ID_MAPPING)
            return
        raises = request.version >= 2
        refusal = _refuse_raising_end(entry, request) if raises else _refuse_plain_end(entry, request)
        if refusal is None:
            self._decide(entry, token, request)
        elif refusal is NONE and raises:
            self._answer(token, NONE, entry.data.producer_id, entry.data.producer_epoch)
        else:
            self._answer(token, refusal)

    def _decide(self, entry: TransactionalId, token: int, request: EndTransaction) -> None:
        def write(next_producer_id: int) -> None:
            prepared = self._prepare(
                entry, commits=request.commits, version=request.version, next_producer_id=next_producer_id
            )
            self._take(entry, prepared, on_written)

        def on_written(error: KafkaErrorCode) -> None:
            if error is not NONE:
                self._answer(token, client_error(error))
                return
            # The outcome cannot change any more, so the producer need not wait for the markers.
            completed = entry.data.complete(self._time_ms)
            self._answer(token, NONE, completed.producer_id, completed.producer_epoch)
            self._send_markers(entry)

        if request.version >= 2 and entry.data.is_exhausted:
            self._with_new_id(entry, token, write)
        else:
            write(NO_PRODUCER)

    def _prepare(
        self,
        entry: TransactionalId,
        *,
        commits: bool,
        version: int,
        fences: bool = False,
        next_producer_id: int = NO_PRODUCER,
    ) -> TransactionData:
        return entry.data.prepare(
            commits=commits, version=version, fences=fences, next_producer_id=next_producer_id, now_ms=self._time_ms
        )

    def _send_markers(self, entry: TransactionalId) -> None:
        """Orders the markers of a decided transaction; without partitions it is complete."""
        data = entry.data
        assert data.state.is_prepared, "markers are sent for a decided outcome only"
        if not data.partitions:
            self._complete(entry)
            return
        self._last_number += 1
        self._markers[self._last_number] = entry
        self._effects.append(
            SendMarkers(
                self._last_number,
                entry.name,
                data.producer_id,
                data.producer_epoch,
                data.state is TransactionState.PREPARE_COMMIT,
                data.version,
                data.partitions,
            )
        )

    def _complete(self, entry: TransactionalId) -> None:
        def on_written(error: KafkaErrorCode) -> None:
            if error is not NONE:
                self._to_complete[entry] = None
                self._due.completion = min(self._due.completion, self._now + COMPLETE_RETRY_S)

        self._take(entry, entry.data.complete(self._time_ms), on_written)

    # ----------------------------------------------------------------- writes

    def _take(self, entry: TransactionalId, after: TransactionData, done: _Done) -> None:
        """Writes a step; it is taken once the record is committed."""
        assert not entry.is_busy, "two steps of one transactional id are under way"
        entry.is_busy = True
        self._append(((entry, after),), done)

    def _append(self, steps: tuple[tuple[TransactionalId, TransactionData | None], ...], done: _Done) -> None:
        self._last_write += 1
        self._writes[self._last_write] = _Write(steps, done)
        records = tuple((encode_key(entry.name), None if data is None else encode_value(data)) for entry, data in steps)
        self._effects.append(AppendRecords(self._last_write, records))

    def _on_written(self, write_id: int) -> None:
        """Ends this write and all before it: the log has no holes."""
        while self._writes and (first := next(iter(self._writes))) <= write_id:
            write = self._writes.pop(first)
            for entry, after in write.steps:
                entry.is_busy = False
                if after is None:
                    del self.ids[entry.name]
                else:
                    entry.data = after
            write.done(NONE)
            for entry, _ in write.steps:
                self._serve_waiting(entry.name)

    def _on_failed(self, write_id: int, error: KafkaErrorCode) -> None:
        """Takes no step. A record that is in the log all the same is followed by the record of the next step."""
        write = self._writes.pop(write_id, None)
        if write is not None:
            for entry, _ in write.steps:
                entry.is_busy = False
            write.done(error)
            for entry, _ in write.steps:
                self._serve_waiting(entry.name)

    # ----------------------------------------------------------------- leadership

    def _load(self, records: tuple[Record, ...]) -> None:
        """Later records take the place of earlier ones, as compaction would."""
        if self.phase is not TransactionPhase.LOADING:
            return
        for key, value in records:
            decoded = decode_record(key, value)
            if decoded is None:
                continue
            name, data = decoded
            if data is None:
                self.ids.pop(name, None)
            else:
                self.ids[name] = TransactionalId(name, data)

    def _begin(self) -> None:
        if self.phase is not TransactionPhase.LOADING:
            return
        self.phase = TransactionPhase.ACTIVE
        for entry in tuple(self.ids.values()):
            if entry.data.state.is_prepared:
                self._send_markers(entry)
        self._due.abort = self._now + self.config.abort_check_interval_ms / 1000
        self._due.expiry = self._now + self.config.expiry_check_interval_ms / 1000

    def _resign(self) -> None:
        """Answers all waiting requests. The next leader may still commit the writes under way."""
        if self.phase is TransactionPhase.RESIGNED:
            return
        self.phase = TransactionPhase.RESIGNED
        for token in tuple(self._tokens):
            self._answer(token, KafkaErrorCode.NOT_COORDINATOR)
        self._writes.clear()
        self._allocating.clear()
        self._markers.clear()
        self._to_complete.clear()
        self._waiting.clear()
        self.ids.clear()
        self._due = _Due()

    # ----------------------------------------------------------------- time

    def _time_passed(self) -> None:
        if self.phase is not TransactionPhase.ACTIVE:
            return
        while (late := self._waiting.take_late(self._now)) is not None:
            self._answer(late.token, KafkaErrorCode.CONCURRENT_TRANSACTIONS)
        if self._due.completion <= self._now:
            self._due.completion = math.inf
            waiting, self._to_complete = self._to_complete, {}
            for entry in waiting:
                self._complete(entry)
        if self._due.abort <= self._now:
            self._due.abort = self._now + self.config.abort_check_interval_ms / 1000
            for entry in tuple(self.ids.values()):
                if _is_late(entry, self._time_ms):
                    self._abort_late(entry)
        if self._due.expiry <= self._now:
            self._due.expiry = self._now + self.config.expiry_check_interval_ms / 1000
            self._expire()

    def _abort_late(self, entry: TransactionalId) -> None:
        self._effects.append(NameAborted(entry.name, entry.data))
        prepared = self._prepare(entry, commits=False, version=entry.data.version, fences=True)

        def on_written(error: KafkaErrorCode) -> None:
            if error is NONE:  # else the next look finds it again
                self._send_markers(entry)

        self._take(entry, prepared, on_written)

    def _expire(self) -> None:
        kept_since_ms = self._time_ms - self.config.transactional_id_expiration_ms
        old = [
            entry
            for entry in self.ids.values()
            if entry.data.state.is_idle and not entry.is_busy and entry.data.updated_ms <= kept_since_ms
        ]
        for first in range(0, len(old), EXPIRED_IN_WRITE):
            part = old[first : first + EXPIRED_IN_WRITE]
            for entry in part:
                entry.is_busy = True
            self._append(tuple((entry, None) for entry in part), _ignore)


def _ignore(error: KafkaErrorCode) -> None:
    """Ids that could not be forgotten are found again."""


def _is_in(data: TransactionData, partition: TopicPartition) -> bool:
    return data.state is TransactionState.ONGOING and partition in data.partitions


def _is_late(entry: TransactionalId, time_ms: int) -> bool:
    data = entry.data
    ongoing = data.state is TransactionState.ONGOING and not entry.is_busy
    return ongoing and data.start_ms + data.timeout_ms < time_ms


def _may_go_on(data: TransactionData, expected: tuple[int, int] | None) -> bool:
    """Returns True unless a request states another producer than the present one (KIP-360).

    It may state the producer before, if that one had no epoch left: then it repeats its request.
    """
    if expected is None or expected[0] == data.producer_id:
        return True
    return expected[0] == data.previous_producer_id and expected[1] >= LAST_EPOCH


def _needs_new_id(data: TransactionData, expected: tuple[int, int] | None) -> bool:
    """Returns True if a producer without a further epoch begins with a new id, False if it repeats its request."""
    repeats = expected is not None and expected[1] == data.last_epoch
    if repeats:
        return data.producer_epoch > LAST_EPOCH  # this epoch only fences: no client gets it
    return expected is None or expected[1] == data.producer_epoch


def _refuse_plain_end(entry: TransactionalId, request: EndTransaction) -> KafkaErrorCode | None:
    """Returns the error of an EndTxn of a producer that keeps its epoch; None if it decides, NONE if it is a repetition."""
    data = entry.data
    if data.producer_id != request.producer_id:
        return KafkaErrorCode.INVALID_PRODUCER_ID_MAPPING
    if data.producer_epoch != request.producer_epoch:
        return KafkaErrorCode.PRODUCER_FENCED
    if entry.is_concurrent:
        return KafkaErrorCode.CONCURRENT_TRANSACTIONS
    match data.state:
        case TransactionState.ONGOING:
            return None
        case TransactionState.COMPLETE_COMMIT | TransactionState.COMPLETE_ABORT:
            return NONE if _is_same_end(data, request) else KafkaErrorCode.INVALID_TXN_STATE
        case _:
            return KafkaErrorCode.INVALID_TXN_STATE


def _refuse_raising_end(entry: TransactionalId, request: EndTransaction) -> KafkaErrorCode | None:
    """Returns the error of an EndTxn that raises the epoch; None if it decides, NONE if it is a repetition (KIP-890).

    A repetition has the epoch before the present one, or the last epoch of the producer id before.
    """
    data = entry.data
    if entry.is_concurrent:
        return KafkaErrorCode.CONCURRENT_TRANSACTIONS
    is_rotated = (
        data.previous_producer_id == request.producer_id
        and request.producer_epoch == LAST_EPOCH
        and data.producer_epoch == 0
    )
    is_repeated = is_rotated or (
        data.producer_id == request.producer_id and data.producer_epoch == request.producer_epoch + 1
    )
    if data.producer_id != request.producer_id and not is_rotated:
        return KafkaErrorCode.INVALID_PRODUCER_ID_MAPPING
    is_present = data.producer_epoch == request.producer_epoch
    match data.state:
        case TransactionState.ONGOING:
            return None if is_present else KafkaErrorCode.PRODUCER_FENCED
        case TransactionState.COMPLETE_COMMIT | TransactionState.COMPLETE_ABORT if is_repeated:
            return NONE if _is_same_end(data, request) else KafkaErrorCode.INVALID_TXN_STATE
        case _ if not is_present:
            return KafkaErrorCode.PRODUCER_FENCED
        case _:  # no partition was added yet: there is nothing to commit, and an abort raises the epoch
            return KafkaErrorCode.INVALID_TXN_STATE if request.commits else None


def _is_same_end(data: TransactionData, request: EndTransaction) -> bool:
    return (data.state is TransactionState.COMPLETE_COMMIT) == request.commits
