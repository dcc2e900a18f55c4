"""Producers, readers and committers of a simulated Kafka cluster; each draws from a stream of its own."""

import enum
from collections import Counter, defaultdict
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import attrs

from jepsen_like.simulation.kafka.broker import BEGIN_MS, SimulatedBroker
from jepsen_like.simulation.kafka.swarm import KafkaKnobs
from jepsen_like.simulation.kafka.wire import ClientWire, build_offset_commit, build_offset_fetch
from jepsen_like.simulation.kernel.streams import stream
from kafka_compat.broker.replicas import Answer
from kafka_compat.model import TopicPartition
from kafka_compat.partition.effects import AnswerProduce
from kafka_compat.partition.model import NO_OFFSET, BatchInfo
from kafka_compat.protocol.apis.fetch import FetchPartitionResponse
from kafka_compat.protocol.apis.list_offsets import ListOffsetsPartitionResponse
from kafka_compat.protocol.batch_header import HEADER_BYTES, encode_batch_header, read_batch_header
from kafka_compat.protocol.error_codes import KafkaErrorCode
from kafka_compat.records import encode_records

if TYPE_CHECKING:
    from jepsen_like.simulation.kafka.world import KafkaWorld

TOPIC = "data"
BRIEF = "brief"
"""A topic that an administrator deletes now and then."""
BRIEF_SHARE = 0.2
LISTS = 0.2
"""The share of reads that first look for a time."""
COMMIT_VERSION = 7
FETCH_VERSION = 7
RETRIES_MAX = 12
PRODUCER_STEP = 1000
SEQUENCES = 2**31


class SentOutcome(enum.Enum):
    """The outcome of a batch as its producer knows it."""

    OPEN = "open"
    OK = "ok"
    FAILED = "failed"
    UNKNOWN = "unknown"


@attrs.define(eq=False)
class SentBatch:
    """A batch of a producer."""

    partition: TopicPartition
    info: BatchInfo
    content: bytes
    value: str
    """The content of its records; no other batch has it."""
    outcome: SentOutcome = SentOutcome.OPEN
    tries: int = 0
    unsure: bool = False
    waiting: int = 0
    """The number of the try that is waited for."""


class KafkaClient:
    """One client; its parts share what it knows of leaders."""

    def __init__(self, world: "KafkaWorld", knobs: KafkaKnobs, number: int) -> None:
        self.number = number
        self.sent: list[SentBatch] = []
        self.considered = 0
        rng = self.rng = stream(knobs.seed, f"client/{number}")
        self._world = world
        self._knobs = knobs
        self._wire = ClientWire(world, knobs, rng)
        self.idempotent = rng.random() < knobs.idempotent
        self.acks = -1 if self.idempotent or rng.random() < knobs.acks_all else rng.choice((1, 1, 0))
        self._producer = number * PRODUCER_STEP, 0
        """Its id and epoch."""
        first = stream(knobs.seed, f"sequences/{number}").choice((0, 0, SEQUENCES - 4))
        self._sequences: dict[TopicPartition, int] = defaultdict(lambda: first)
        self._window: list[SentBatch] = []
        self._position: Counter[TopicPartition] = Counter()
        self.committing = 0
        self.acknowledged = -1
        """The highest offset that was acknowledged, or read: from then on it is not lost."""
        self.unresolved: set[int] = set()
        """Offsets whose commit had no answer: they may be written at any time."""
        self._commit_until = 0.0
        self.era = 0
        """Counts losses that have an excuse: what was asked before one proves nothing after it."""
        self.group = f"group-{number}"

    def _partition(self) -> TopicPartition:
        if self._knobs.alters and self.rng.random() < BRIEF_SHARE:
            return TopicPartition(BRIEF, 0)
        return TopicPartition(TOPIC, self.rng.randrange(self._knobs.partitions))

    # ---------------------------------------------------------------- producing

    def wake(self) -> None:
        """Send another batch, unless enough are on their way; until the world heals."""
        world, knobs = self._world, self._knobs
        if world.healed:
            return
        world.schedule(world.now + knobs.think_s * (0.5 + self.rng.random()), self.wake)
        if len(self._window) >= knobs.burst:
            return
        self.considered += 1
        self.produce(self._partition(), asked=(self.number, self.considered) not in knobs.unasked)

    def produce(self, partition: TopicPartition, *, asked: bool = True) -> SentBatch | None:
        """Send a batch of one to three records."""
        count = self.rng.randint(1, 3)
        if not asked:
            return None
        self._world.requests += 1
        value = f"{self.number}.{len(self.sent) + 1}"
        content = encode_records([(None, value.encode())] * count, BEGIN_MS + int(self._world.now * 1000))
        info = BatchInfo(count, len(content))
        if self.idempotent:
            sequence = self._sequences[partition]
            info = BatchInfo(count, len(content), *self._producer, sequence)
            content = _of_producer(content, info)
            self._sequences[partition] = (sequence + count) % SEQUENCES
        sent = SentBatch(partition, info, content, value)
        self.sent.append(sent)
        self._window.append(sent)
        self._try(sent)
        return sent

    def _try(self, sent: SentBatch) -> None:
        if sent.outcome is not SentOutcome.OPEN:
            return
        sent.tries += 1
        this = sent.waiting = sent.tries

        def on_done(answer: Answer) -> None:
            self._on_answered(sent, this, answer)

        def ask(broker: SimulatedBroker, answers: Callable[..., None]) -> None:
            batch = sent.info, sent.content, sent.value
            broker.produce(sent.partition, self.acks, batch, self._knobs.request_s, answers)

        self._wire.call(self._wire.leader(sent.partition), ask, on_done)
        if self.acks == 0:
            self._end(sent, SentOutcome.UNKNOWN)
        else:
            self._world.schedule(self._world.now + 1.3 * self._knobs.request_s, self._on_timeout, sent, this)

    def _on_timeout(self, sent: SentBatch, this: int) -> None:
        if sent.outcome is SentOutcome.OPEN and sent.waiting == this:
            sent.unsure = True
            self._again(sent, KafkaErrorCode.REQUEST_TIMED_OUT)

    def _on_answered(self, sent: SentBatch, this: int, answer: Answer) -> None:
        if sent.outcome is not SentOutcome.OPEN or not isinstance(answer, AnswerProduce):
            return
        if answer.error is KafkaErrorCode.NONE:
            self._end(sent, SentOutcome.OK)
            return
        sent.unsure |= answer.base_offset != NO_OFFSET
        if sent.waiting == this:
            self._again(sent, answer.error)

    def _again(self, sent: SentBatch, error: KafkaErrorCode) -> None:
        """An idempotent producer repeats itself; one that cannot go on begins again, with another epoch or id."""
        sent.waiting = 0
        gives_up = sent.tries >= RETRIES_MAX or (
            error is KafkaErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
            and next((each for each in self._window if each.partition == sent.partition), None) is sent
        )
        if self.idempotent and not gives_up:
            self._world.schedule(self._world.now + self._knobs.retry_s, self._try, sent)
            return
        self._end(sent, SentOutcome.UNKNOWN if sent.unsure else SentOutcome.FAILED)
        if self.idempotent:
            for other in tuple(self._window):
                self._end(other, SentOutcome.UNKNOWN)
            producer_id, epoch = self._producer
            self._producer = (producer_id, epoch + 1) if len(self.sent) % 2 else (producer_id + 1, 0)
            self._sequences = defaultdict(int)  # another epoch begins at 0

    def _end(self, sent: SentBatch, outcome: SentOutcome) -> None:
        if sent.outcome is not SentOutcome.OPEN:
            return
        sent.outcome = outcome
        self._window.remove(sent)
        self._world.counts[f"produces_{outcome.value}"] += 1

    # ---------------------------------------------------------------- reading

    def read(self) -> None:
        """Fetch from where the last fetch ended; until the world heals."""
        world, knobs = self._world, self._knobs
        if world.healed:
            return
        world.schedule(world.now + max(knobs.think_s, knobs.fetch_wait_s), self.read)
        partition = self._partition()
        if self.rng.random() < LISTS:
            self._seek(partition)
            return

        def on_done(answer: FetchPartitionResponse, end: int) -> None:
            if answer.error_code == KafkaErrorCode.OFFSET_OUT_OF_RANGE:
                self._position[partition] = max(answer.log_start_offset, 0)
            else:
                self._position[partition] = max(end, self._position[partition])

        def ask(broker: SimulatedBroker, answers: Callable[..., None]) -> None:
            broker.fetch(partition, self._position[partition], answers)

        self._wire.call(self._wire.leader(partition), ask, on_done)

    def _seek(self, partition: TopicPartition) -> None:
        """Go on at some time."""
        time_ms = BEGIN_MS + int(1000 * self._world.now * self.rng.random())

        def on_done(answer: ListOffsetsPartitionResponse) -> None:
            if answer.offset >= 0:
                self._position[partition] = answer.offset

        def ask(broker: SimulatedBroker, answers: Callable[..., None]) -> None:
            broker.list_offset(partition, time_ms, answers)

        self._wire.call(self._wire.leader(partition), ask, on_done)

    # ---------------------------------------------------------------- offsets of a group

    def commit_or_fetch(self) -> None:
        """Commit the next offset of its own group, or ask for the last; until the world heals."""
        world, knobs = self._world, self._knobs
        if world.healed:
            return
        world.schedule(world.now + 3 * knobs.think_s + 0.05, self.commit_or_fetch)
        self.commit() if self.rng.random() < 0.6 else self.fetch_offset()

    def commit(self) -> None:
        """Commit an offset that is higher than all before, one at a time."""
        if self._world.now < self._commit_until:
            return
        self._commit_until = self._world.now + 1.3 * self._knobs.request_s
        self.committing += 1
        offset = self.committing
        request = build_offset_commit(self.group, TOPIC, 0, offset)
        era = self.era
        self.unresolved.add(offset)

        def on_done(response: Any) -> None:
            if offset == self.committing:
                self._commit_until = 0.0
            if response.topics[0].partitions[0].error_code == KafkaErrorCode.NONE and era == self.era:
                self.acknowledged = max(self.acknowledged, offset)
                if offset == self.committing:
                    self.unresolved.discard(offset)
                self._world.counts["offset_commits"] += 1

        self._wire.ask_group(request, COMMIT_VERSION, on_done)

    def fetch_offset(self) -> None:
        """Ask for the offset: not older than what was acknowledged before, not newer than what was committed."""
        acknowledged, era = self.acknowledged, self.era
        stale: list[int] = []
        request = build_offset_fetch(self.group, TOPIC, 0)

        def on_done(response: Any) -> None:
            if era != self.era or stale or response.error_code or not response.topics:
                return
            found = response.topics[0].partitions[0]
            if found.error_code:
                return
            offset = found.committed_offset
            self._world.counts["offset_fetches"] += 1
            if (offset < acknowledged and offset not in self.unresolved) or offset > self.committing:
                what = f"{acknowledged} was acknowledged or read before"
                self._world.report("K8", 0, f"{self.group} has offset {offset}, and {what}")
            self.acknowledged = max(self.acknowledged, offset)

        self._wire.ask_group(request, FETCH_VERSION, on_done, stale=stale)


def _of_producer(content: bytes, info: BatchInfo) -> bytes:
    """Returns a batch as an idempotent producer sends it."""
    header = attrs.evolve(
        read_batch_header(content),
        producer_id=info.producer_id,
        producer_epoch=info.producer_epoch,
        base_sequence=info.base_sequence,
    )
    return encode_batch_header(header, content[HEADER_BYTES:]) + content[HEADER_BYTES:]
