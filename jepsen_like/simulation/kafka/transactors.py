"""Transactional producers and a reader of committed records in a simulated Kafka cluster, and what is true of them.

A transactor speaks version 0 or 2 of transactions. As a careful client of version 0 it raises its epoch when something
of its last transaction may still be on its way: in that version nothing else keeps a late request out of the next one.
Half of its transactions commit an offset, too (see `consumed`).
At the end the logs of the leaders decide, marker by marker, what was committed (K14):

- of a transaction everything is committed or nothing, as its producer was answered;
- what a reader of committed records has read is committed.
"""

import enum
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from typing import TYPE_CHECKING, Any

import attrs

from jepsen_like.simulation.kafka.broker import BEGIN_MS, SimulatedBroker
from jepsen_like.simulation.kafka.consumed import ConsumedOffsets
from jepsen_like.simulation.kafka.logs import LoggedBatch
from jepsen_like.simulation.kafka.swarm import KafkaKnobs
from jepsen_like.simulation.kafka.wire import GROUPS, ClientWire
from jepsen_like.simulation.kernel.streams import stream
from kafka_compat.controller.commands import NewTopic
from kafka_compat.markers import read_marker
from kafka_compat.model import OFFSETS_TOPIC, TRANSACTIONS_TOPIC, TopicPartition
from kafka_compat.partition.model import BatchKind
from kafka_compat.protocol.api import Api
from kafka_compat.protocol.apis.fetch import (
    FETCH,
    FetchPartition,
    FetchPartitionResponse,
    FetchRequest,
    FetchResponse,
    FetchTopic,
)
from kafka_compat.protocol.apis.init_producer_id import INIT_PRODUCER_ID, InitProducerIdRequest
from kafka_compat.protocol.apis.produce import PRODUCE, ProducePartition, ProduceRequest, ProduceTopic
from kafka_compat.protocol.apis.transactions import (
    ADD_OFFSETS_TO_TXN,
    ADD_PARTITIONS_TO_TXN,
    END_TXN,
    TXN_OFFSET_COMMIT,
    AddPartitionsTopic,
    AddPartitionsToTxnRequest,
    EndTxnRequest,
)
from kafka_compat.protocol.batch_header import HEADER_BYTES, batch_headers, encode_batch_header, read_batch_header
from kafka_compat.protocol.error_codes import KafkaErrorCode
from kafka_compat.records import encode_records, read_records

if TYPE_CHECKING:
    from jepsen_like.simulation.kafka.world import KafkaWorld

LEDGER = "ledger"
LEDGER_PARTITIONS = 2
COORDINATOR = TopicPartition(TRANSACTIONS_TOPIC, 0)
IDS = 2
"""Transactional ids; producers of one take turns."""
TRIES_MAX = 14
COMMITS = 0.7
FORGETS = 0.08
"""The share of transactions whose producer forgets them: they time out."""
CONSUMES = 0.5
"""The share of transactions that commit an offset, too."""
HURRIES = 0.5
"""The share of transactions of version 2 that begin at once, while markers of the one before may be on their way."""
TIMEOUT_MS = 1_500
READ_COMMITTED = 1
FETCH_VERSION = 7
INIT_VERSION = 5
_AGAIN = frozenset(
    {
        KafkaErrorCode.CONCURRENT_TRANSACTIONS,
        KafkaErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        KafkaErrorCode.COORDINATOR_NOT_AVAILABLE,
        KafkaErrorCode.NOT_COORDINATOR,
        KafkaErrorCode.NOT_LEADER_OR_FOLLOWER,
        KafkaErrorCode.NOT_ENOUGH_REPLICAS,
        KafkaErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
        KafkaErrorCode.REQUEST_TIMED_OUT,
        KafkaErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        KafkaErrorCode.UNKNOWN_SERVER_ERROR,
    }
)


class TransactionOutcome(enum.Enum):
    """The outcome of a transaction as its producer knows it. Without a request to commit it cannot be committed."""

    COMMITTED = "committed"
    NOT_COMMITTED = "aborted"
    UNKNOWN = "unknown"


@attrs.define(eq=False)
class SentTransaction:
    """One transaction of a transactor."""

    values: dict[TopicPartition, str]
    offset: int = 0
    """The offset of its input that it commits; 0 without one."""
    acknowledged: set[str | int] = attrs.field(factory=set)
    outcome: TransactionOutcome = TransactionOutcome.NOT_COMMITTED
    is_forgotten: bool = False
    """True if its producer never ends it."""
    is_excused: bool = False
    """True if a part of it may be lost, with an excuse."""
    input: int = 0
    """The partition of its offset."""

    @property
    def is_sent(self) -> bool:
        """True if all of it is acknowledged."""
        return len(self.acknowledged) == len(self.values) + bool(self.offset)

    def is_committed(self, committed: Set[str]) -> bool:
        """Returns True if its values are among those that are committed."""
        return not committed.isdisjoint(self.values.values())


class SimulatedTransactor:
    """One transactional producer; several may share a transactional id, and fence each other."""

    def __init__(self, world: "KafkaWorld", knobs: KafkaKnobs, number: int, consumed: ConsumedOffsets) -> None:
        self.sent: list[SentTransaction] = []
        self._world = world
        self._knobs = knobs
        self._number = number
        self._rng = stream(knobs.seed, f"transactor/{number}")
        self._wire = ClientWire(world, knobs, self._rng)
        self._raises = self._rng.random() < 0.5
        self._input = number % IDS
        self._id = f"id-{self._input}"
        self._consumed = consumed
        self._producer = (-1, -1)
        self._sequences: dict[TopicPartition, int] = defaultdict(int)
        self._unsure = False
        """True if a request of this transaction had no answer: it may arrive later."""
        self.has_recovered = False
        """True if it has committed a transaction since the world has healed."""

    def wake(self) -> None:
        """Begin."""
        self._init()

    @property
    def is_done(self) -> bool:
        """True once the world has healed, but for one transaction of one producer of each id: others would fence it."""
        return self._world.healed and (self.has_recovered or self._number > IDS)

    # ---------------------------------------------------------------- requests

    def _ask(
        self,
        to: TopicPartition,
        api: Api[Any, Any],
        version: int,
        request: object,
        error_of: Callable[[Any], int],
        done: Callable[[KafkaErrorCode, Any], None],
        tries: int = 1,
    ) -> None:
        """Ask the leader of a partition, again after errors that pass; `done` gets the last error."""
        answered: list[object] = []

        def ask(broker: SimulatedBroker, answers: Callable[..., None]) -> None:
            def on_served(response: Any) -> None:
                answers(response)
                if api is END_TXN and error_of(response) == KafkaErrorCode.NONE:
                    self._world.decides(broker, strikes=self._rng.random() < self._knobs.strikes)

            broker.serve(api, version, request, on_served)

        def on_answer(response: Any) -> None:
            if answered:
                return
            answered.append(response)
            error = KafkaErrorCode(error_of(response))
            if error in _AGAIN:
                again(error)
            else:
                done(error, response)

        def on_timeout() -> None:
            if not answered:
                answered.append(None)
                self._unsure = True
                again(KafkaErrorCode.REQUEST_TIMED_OUT)

        def again(error: KafkaErrorCode) -> None:
            if tries >= TRIES_MAX:
                done(error, None)
            else:
                self._later(self._ask, to, api, version, request, error_of, done, tries + 1)

        self._wire.call(self._wire.leader(to), ask, on_answer)
        self._world.schedule(self._world.now + 2 * self._knobs.request_s, on_timeout)

    def _later(self, action: Callable[..., None], *arguments: object) -> None:
        self._world.schedule(self._world.now + self._knobs.retry_s, action, *arguments)

    # ---------------------------------------------------------------- a producer begins

    def _init(self) -> None:
        if self.is_done:
            return
        request = InitProducerIdRequest(transactional_id=self._id, transaction_timeout_ms=TIMEOUT_MS)

        def on_done(error: KafkaErrorCode, response: Any) -> None:
            if error is not KafkaErrorCode.NONE:
                self._later(self._init)
                return
            self._world.counts["transactors_begun"] += 1
            self._become(response.producer_id, response.producer_epoch)
            self._begin()

        self._ask(COORDINATOR, INIT_PRODUCER_ID, INIT_VERSION, request, lambda each: int(each.error_code), on_done)

    def _become(self, producer_id: int, epoch: int) -> None:
        if (producer_id, epoch) != self._producer:
            self._sequences.clear()
        self._producer = producer_id, epoch

    # ---------------------------------------------------------------- a transaction

    def _begin(self) -> None:
        if self.is_done:
            return
        count = self._rng.randint(1, LEDGER_PARTITIONS)
        chosen = self._rng.sample(range(LEDGER_PARTITIONS), count)
        name = f"t{self._number}.{len(self.sent) + 1}"
        offset = self._consumed.take(self._input) if self._rng.random() < CONSUMES else 0
        values = {TopicPartition(LEDGER, each): f"{name}.{each}" for each in chosen}
        transaction = SentTransaction(values, offset, input=self._input)
        self.sent.append(transaction)
        self._unsure = False
        if self._raises:
            self._send(transaction)
        else:
            self._add(transaction)

    def _add(self, transaction: SentTransaction) -> None:
        topic = AddPartitionsTopic(name=LEDGER, partitions=tuple(each.partition for each in transaction.values))
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=self._id,
            v3_and_below_producer_id=self._producer[0],
            v3_and_below_producer_epoch=self._producer[1],
            v3_and_below_topics=(topic,),
        )

        def error_of(response: Any) -> int:
            (result,) = response.results_by_topic_v3_and_below
            return int(result.results_by_partition[0].partition_error_code)

        def on_done(error: KafkaErrorCode, response: Any) -> None:
            if error is not KafkaErrorCode.NONE:
                self._give_up(error)
            elif transaction.offset:
                self._add_offsets(transaction)
            else:
                self._send(transaction)

        self._ask(COORDINATOR, ADD_PARTITIONS_TO_TXN, 3, request, error_of, on_done)

    def _add_offsets(self, transaction: SentTransaction) -> None:
        def on_done(error: KafkaErrorCode, response: Any) -> None:
            if error is KafkaErrorCode.NONE:
                self._send(transaction)
            else:
                self._give_up(error)

        request = self._consumed.add_request(self._id, self._producer)
        self._ask(COORDINATOR, ADD_OFFSETS_TO_TXN, 3, request, lambda each: int(each.error_code), on_done)

    def _send(self, transaction: SentTransaction) -> None:
        transaction.is_forgotten = not self._world.healed and self._rng.random() < FORGETS
        failed: list[KafkaErrorCode] = []
        for partition, value in transaction.values.items():
            self._produce(transaction, partition, value, failed)
        if transaction.offset:
            self._commit_offset(transaction, failed)

    def _produce(
        self, transaction: SentTransaction, partition: TopicPartition, value: str, failed: list[KafkaErrorCode]
    ) -> None:
        producer, sequence = self._producer, self._sequences[partition]
        self._sequences[partition] += 1
        content = encode_records([(None, value.encode())], BEGIN_MS + int(self._world.now * 1000), producer=producer)
        header = attrs.evolve(read_batch_header(content), base_sequence=sequence)
        batch = encode_batch_header(header, content[HEADER_BYTES:]) + content[HEADER_BYTES:]
        data = ProducePartition(index=partition.partition, records=memoryview(batch))
        request = ProduceRequest(
            transactional_id=self._id,
            acks=-1,
            timeout_ms=round(self._knobs.request_s * 1000),
            topic_data=(ProduceTopic(name=LEDGER, partition_data=(data,)),),
        )

        on_done = self._make_part(transaction, value, failed)
        version = 12 if self._raises else 11
        self._ask(
            partition,
            PRODUCE,
            version,
            request,
            lambda each: int(each.responses[0].partition_responses[0].error_code),
            on_done,
        )

    def _commit_offset(self, transaction: SentTransaction, failed: list[KafkaErrorCode]) -> None:
        request = self._consumed.commit_request(self._id, self._producer, self._input, transaction.offset)
        self._ask(
            GROUPS,
            TXN_OFFSET_COMMIT,
            5 if self._raises else 3,
            request,
            lambda each: int(each.topics[0].partitions[0].error_code),
            self._make_part(transaction, transaction.offset, failed),
        )

    def _make_part(
        self, transaction: SentTransaction, part: str | int, failed: list[KafkaErrorCode]
    ) -> Callable[[KafkaErrorCode, Any], None]:
        """Returns what takes the answer about one value, or the offset. The transaction ends after the last one."""
        producer = self._producer

        def on_done(error: KafkaErrorCode, response: Any) -> None:
            if producer != self._producer or failed:
                return
            if error is KafkaErrorCode.NONE:
                transaction.acknowledged.add(part)
                if not transaction.is_sent:
                    return
                if transaction.is_forgotten:
                    self._world.schedule(self._world.now + 2 * TIMEOUT_MS / 1000, self._init)
                else:
                    self._end(transaction, commits=self._world.healed or self._rng.random() < COMMITS)
                return
            failed.append(error)
            self._unsure = True
            if error in (KafkaErrorCode.INVALID_PRODUCER_EPOCH, KafkaErrorCode.INVALID_PRODUCER_ID_MAPPING):
                self._give_up(error)
            else:
                self._end(transaction, commits=False)

        return on_done

    def _end(self, transaction: SentTransaction, *, commits: bool) -> None:
        producer = self._producer
        request = EndTxnRequest(
            transactional_id=self._id, producer_id=producer[0], producer_epoch=producer[1], committed=commits
        )
        if commits:
            transaction.outcome = TransactionOutcome.UNKNOWN

        def on_done(error: KafkaErrorCode, response: Any) -> None:
            if producer != self._producer:
                return
            if error is KafkaErrorCode.NONE:
                self._world.counts["transactions_committed" if commits else "transactions_aborted"] += 1
                if commits:
                    self._on_committed(transaction)
                if self._raises:
                    self._become(response.producer_id, response.producer_epoch)
                if self._raises and self._rng.random() < HURRIES:
                    self._begin()
                else:
                    self._later(self._begin if self._raises or not self._unsure else self._init)
                return
            self._give_up(error)

        version = 5 if self._raises else 3
        self._ask(COORDINATOR, END_TXN, version, request, lambda each: int(each.error_code), on_done)

    def _on_committed(self, transaction: SentTransaction) -> None:
        transaction.outcome = TransactionOutcome.COMMITTED
        self.has_recovered = self._world.healed
        if transaction.offset:
            self._world.counts["transactions_with_offsets"] += 1
            self._consumed.on_committed(self._input, transaction.offset)

    def _give_up(self, error: KafkaErrorCode) -> None:
        if error in (KafkaErrorCode.PRODUCER_FENCED, KafkaErrorCode.INVALID_PRODUCER_EPOCH):
            self._world.counts["transactors_fenced"] += 1
        self._producer = (-1, -1)
        self._later(self._init)


class CommittedReader:
    """Reads the ledger at `read_committed`, as a client does, and remembers what it was given."""

    def __init__(self, world: "KafkaWorld", knobs: KafkaKnobs) -> None:
        self.seen: dict[str, TopicPartition] = {}
        self._world = world
        self._knobs = knobs
        self._wire = ClientWire(world, knobs, stream(knobs.seed, "committed"))
        self._position: Counter[TopicPartition] = Counter()
        self._turn = 0

    def wake(self) -> None:
        """Fetch from one partition after the other, until the world heals."""
        if self._world.healed:
            return
        self._world.schedule(self._world.now + self._knobs.think_s + self._knobs.fetch_wait_s, self.wake)
        self._turn += 1
        partition = TopicPartition(LEDGER, self._turn % LEDGER_PARTITIONS)
        offset = self._position[partition]
        asked = FetchPartition(partition=partition.partition, fetch_offset=offset, partition_max_bytes=4000)
        request = FetchRequest(
            max_wait_ms=0,
            min_bytes=0,
            isolation_level=READ_COMMITTED,
            topics=(FetchTopic(topic=LEDGER, partitions=(asked,)),),
        )

        def ask(broker: SimulatedBroker, answers: Callable[..., None]) -> None:
            broker.serve(FETCH, FETCH_VERSION, request, answers)

        def on_answer(response: FetchResponse) -> None:
            answer = response.responses[0].partitions[0]
            if answer.error_code == KafkaErrorCode.NONE and offset == self._position[partition]:
                self._take(partition, answer)

        self._wire.call(self._wire.leader(partition), ask, on_answer)

    def _take(self, partition: TopicPartition, answer: FetchPartitionResponse) -> None:
        waiting = sorted((each.first_offset, each.producer_id) for each in answer.aborted_transactions or ())
        aborted: set[int] = set()
        assert not isinstance(answer.records, tuple), "what was decoded is one buffer"
        records = memoryview(answer.records or b"")
        for at, header in batch_headers(records):
            while waiting and waiting[0][0] <= header.base_offset:
                aborted.add(waiting.pop(0)[1])
            batch = records[at : at + header.size]
            self._position[partition] = header.end_offset
            if header.is_control:
                marker = read_marker(header, batch)
                if marker is not None and not marker.commits:
                    aborted.discard(marker.producer_id)
            elif header.producer_id not in aborted or not header.is_transactional:
                self._world.counts["committed_reads"] += 1
                for record in read_records(batch):
                    self.seen[(record.value or b"").decode()] = partition


def outcomes_of(batches: Sequence[LoggedBatch]) -> Iterator[tuple[str, BatchKind]]:
    """Yields each value of a log's transactions with the marker that ended it; TRANSACTIONAL if none did."""
    open_: dict[int, list[str]] = defaultdict(list)
    for batch in batches:
        info = batch.info
        if info.kind is BatchKind.TRANSACTIONAL:
            open_[info.producer_id].append(batch.value)
        elif info.kind is not BatchKind.PLAIN:
            yield from ((value, info.kind) for value in open_.pop(info.producer_id, ()))
    for values in open_.values():
        yield from ((value, BatchKind.TRANSACTIONAL) for value in values)


class TransactionLedger:
    """The transactors of a world and the readers of what they commit."""

    def __init__(self, world: "KafkaWorld", knobs: KafkaKnobs) -> None:
        self.is_excused = False
        """True if a loss with an excuse took a part of what the coordinator knew: then nothing is promised any more."""
        self._has_lost = False
        """True if such a loss took a part of the ledger: then the transactions before it are not judged."""
        self.consumed = ConsumedOffsets(world, knobs, LEDGER, LEDGER_PARTITIONS)
        numbers = range(1, knobs.transactors + 1)
        self._transactors = [SimulatedTransactor(world, knobs, number, self.consumed) for number in numbers]
        self._reader = CommittedReader(world, knobs)

    def begin(self, schedule: Callable[..., None]) -> None:
        """Let all begin."""
        for number, transactor in enumerate(self._transactors):
            schedule(0.1 + 0.1 * number, transactor.wake)
        if self._transactors:
            schedule(0.3, self._reader.wake)
            schedule(0.4, self.consumed.wake)

    def topics(self, factor: int, configs: tuple[tuple[str, str], ...]) -> tuple[NewTopic, ...]:
        """Returns its topics; `configs` are those of an internal one."""
        if not self._transactors:
            return ()
        return (
            NewTopic(LEDGER, bytes([3] * 16), LEDGER_PARTITIONS, factor),
            NewTopic(TRANSACTIONS_TOPIC, bytes([4] * 16), 1, factor, configs=configs),
        )

    @property
    def sent(self) -> Sequence[SentTransaction]:
        """All transactions so far."""
        return [each for transactor in self._transactors for each in transactor.sent]

    def excuse(self, partition: TopicPartition) -> None:
        """A partition has lost something, with an excuse. Of the ledger that discounts the transactions before."""
        match partition.topic:
            case name if name == LEDGER:
                self._has_lost = True
                for each in self.sent:
                    each.is_excused = True
            case name if name == TRANSACTIONS_TOPIC:
                self.is_excused = True
            case name if name == OFFSETS_TOPIC:
                self.consumed.is_excused = True
            case _:
                pass

    def settles(self, topic: str) -> bool:
        """Returns True if no transaction stays open in the logs of a topic once the world has healed."""
        if self.is_excused or not self._transactors:
            return False
        return {LEDGER: not self._has_lost, OFFSETS_TOPIC: not self.consumed.is_excused}.get(topic, False)

    def open_conditions(self) -> Iterator[str]:
        """Yields the transactional ids that cannot go on, although the world has healed."""
        if not self.is_excused:
            for number, transactor in enumerate(self._transactors, 1):
                if not transactor.is_done:
                    yield f"transactor {number} has not committed a transaction"

    def judge(
        self,
        log_of: Callable[[TopicPartition], Sequence[LoggedBatch]],
        groups: SimulatedBroker,
        report: Callable[[str, str], None],
    ) -> int:
        """Report each transaction that is torn or not as its producer knows it. Returns how many were judged.

        `groups` coordinates the group. `report` takes the name of the promise, and a sentence.
        """
        if self.is_excused or not self._transactors:
            return 0
        logs = [log_of(TopicPartition(LEDGER, number)) for number in range(LEDGER_PARTITIONS)]
        committed = find_committed(logs)
        judged = [each for each in self.sent if not each.is_excused]
        ours = {value for each in judged for value in each.values.values()}
        seen = {value: partition for value, partition in self._reader.seen.items() if value in ours}
        judge_transactions(judged, seen, committed, lambda sentence: report("K14", sentence))
        if not (self._has_lost or self.consumed.is_excused):
            consumed = {(each.input, each.offset): each.is_committed(committed) for each in judged if each.offset}
            self.consumed.judge(groups, consumed, lambda sentence: report("K15", sentence))
        return len(judged)


def find_committed(logs: Sequence[Sequence[LoggedBatch]]) -> Set[str]:
    """Returns the values that these logs commit."""
    found = dict(each for batches in logs for each in outcomes_of(batches))
    return {value for value, kind in found.items() if kind is BatchKind.COMMIT}


def judge_transactions(
    sent: Sequence[SentTransaction],
    seen: Mapping[str, TopicPartition],
    committed: Set[str],
    report: Callable[[str], None],
) -> None:
    """Report each transaction that is torn, or other than its producer was answered, and each wrong read."""
    for transaction in sent:
        values = set(transaction.values.values())
        there = values & committed
        match transaction.outcome:
            case TransactionOutcome.COMMITTED if there != values:
                report(f"{sorted(values - there)} is not committed, and its producer was answered that it is")
            case TransactionOutcome.NOT_COMMITTED if there:
                report(f"{sorted(there)} is committed, and its producer did not commit it")
            case TransactionOutcome.UNKNOWN if there not in (values, set()):
                report(f"of {sorted(values)} only {sorted(there)} is committed")
            case _:
                pass
    for value, partition in seen.items():
        if value not in committed:
            report(f"{value} of {partition} was read as committed, and is not")
