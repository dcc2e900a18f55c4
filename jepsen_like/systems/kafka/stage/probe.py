"""A probe: clients that write to one partition at a steady pace, every outcome exact and recorded.

Each client has one request under way. So the longest time between two acknowledgements is the time for which no client was served, and
with a sent request exactly one operation has an unknown outcome.
"""

import enum
import itertools
import time
from collections.abc import Mapping
from typing import Final

import attrs
import trio

from jepsen_like.history.files import HistoryWriter
from jepsen_like.history.ops import NEVER, NONE, Action, ErrorCode, Op, Outcome
from jepsen_like.port.wires import Address
from jepsen_like.systems.kafka.outcomes import outcome_of
from jepsen_like.systems.kafka.stage.conversations import Conversations
from jepsen_like.systems.kafka.stage.leaders import LeaderSearch
from jepsen_like.systems.kafka.wire import NoAnswer, NotAsked
from jepsen_like.workload.payload import encode_value
from kafka_compat.protocol.apis.init_producer_id import INIT_PRODUCER_ID, InitProducerIdRequest
from kafka_compat.protocol.apis.produce import (
    PRODUCE,
    ProducePartition,
    ProducePartitionResponse,
    ProduceRequest,
    ProduceTopic,
)
from kafka_compat.protocol.batch_header import HEADER_BYTES, encode_batch_header, read_batch_header
from kafka_compat.protocol.error_codes import KafkaErrorCode
from kafka_compat.records import encode_records

VERSION: Final = 9
INIT_VERSION: Final = 4
BACK_OFF_S: Final = 0.02
GIVES_UP_S: Final = 15.0
"""A client that tries again stops after this time."""
NOT_LEADING: Final = frozenset({3, 5, 6, 74, 75})
"""Error codes of a broker that does not lead."""
ACKS: Final = {"0": 0, "1": 1, "all": -1}


class Delivery(enum.Enum):
    """The way in which a client treats a request whose outcome is not success."""

    ONCE = "no retries"
    AGAIN = "retries"
    IDEMPOTENT = "idempotent"


@attrs.frozen(kw_only=True)
class ProbePlan:
    """The writes of a probe, and their place. `rate` is of each client; a client that is late does not catch up."""

    topic: str
    partition: int = 0
    acks: str = "all"
    rate: float = 100.0
    clients: int = 1
    records: int = 1
    """The records of one request."""
    record_bytes: int = 64
    within_s: float = 1.0
    """An answer that takes longer is unknown."""
    delivery: Delivery = Delivery.ONCE
    pinned: int = 0
    """The broker that gets every request, also where it does not lead; 0: the leader."""
    answers_lost: int = 0
    """One of so many answers is lost on its way to the client; 0: none."""


class ProbeLog:
    """The history of one topic: what all probes of it record. Partitions are its objects."""

    def __init__(self, history: HistoryWriter) -> None:
        self.history = history
        self._values = itertools.count(1)
        self._processes = itertools.count()

    def values(self, count: int) -> list[int]:
        """Returns values that no client has written yet."""
        return list(itertools.islice(self._values, count))

    def process(self) -> int:
        """Returns the number of a client that was never used."""
        return next(self._processes)


@attrs.define
class AttemptEnd:
    """The end of an attempt."""

    outcome: Outcome
    error: ErrorCode = ErrorCode.NONE
    offset: int = NONE
    node: int = NONE


@attrs.define
class _Identity:
    """An idempotent producer: its id and epoch, and the number of its next batch."""

    producer: int = -1
    epoch: int = -1
    sequence: int = 0


class Probe:
    """Writes from `run` on until `stop`."""

    def __init__(self, plan: ProbePlan, addresses: Mapping[int, Address], log: ProbeLog) -> None:
        self.plan = plan
        self._addresses = addresses
        self._log = log
        self._leader = LeaderSearch(plan.topic, plan.partition, addresses)
        self._stopping = trio.Event()
        self._requests = 0
        self.acked = 0
        """Records acknowledged so far."""

    def stop(self) -> None:
        """Begin no more requests."""
        self._stopping.set()

    async def run(self) -> None:
        """Write until told to stop, and until the last request has ended."""
        async with trio.open_nursery() as nursery:
            for _ in range(self.plan.clients):
                nursery.start_soon(self._client)

    async def _client(self) -> None:
        conversations, process = Conversations(self._addresses), self._log.process()
        identity = _Identity()
        due = trio.current_time()
        try:
            while not self._stopping.is_set():
                with trio.move_on_at(due):
                    await self._stopping.wait()
                    break
                due = max(due + 1 / self.plan.rate, trio.current_time())
                ended = await self._send(conversations, identity, process)
                if ended is Outcome.INFO:
                    process = self._log.process()  # the operation may take effect at any later time
        finally:
            conversations.close()

    async def _send(self, conversations: Conversations, identity: _Identity, process: int) -> Outcome:
        """Carry one operation out, and record it."""
        values = self._log.values(self.plan.records)
        t_inv, gives_up = time.monotonic_ns(), trio.current_time() + GIVES_UP_S
        ended = await self._attempt(conversations, identity, values)
        may_be_there = ended.outcome is Outcome.INFO
        while (
            self.plan.delivery is not Delivery.ONCE
            and ended.outcome is not Outcome.OK
            and trio.current_time() < gives_up
        ):
            await trio.sleep(BACK_OFF_S)
            ended = await self._attempt(conversations, identity, values)
            may_be_there |= ended.outcome is Outcome.INFO
        if ended.outcome is Outcome.OK:
            identity.sequence += len(values)
            self.acked += len(values)
        elif may_be_there:
            ended.outcome = Outcome.INFO
        op = Op(
            f=Action.APPEND,
            type=ended.outcome,
            t_inv=t_inv,
            t_ret=NEVER if ended.outcome is Outcome.INFO else time.monotonic_ns(),
            object=self.plan.partition,
            process=process,
            err=ended.error,
            a=values[0],
            offset=ended.offset,
            count=len(values),
            node=ended.node,
        )
        self._log.history.record_batch(op, values)
        if ended.outcome is Outcome.FAIL:
            await trio.sleep(BACK_OFF_S)
        return ended.outcome

    async def _attempt(self, conversations: Conversations, identity: _Identity, values: list[int]) -> AttemptEnd:
        plan = self.plan
        node = plan.pinned or await self._leader.find()
        if node is None:
            return AttemptEnd(Outcome.FAIL, ErrorCode.CONNECTION_REFUSED)
        self._requests += 1
        try:
            if plan.delivery is Delivery.IDEMPOTENT and identity.producer < 0:
                await self._identify(conversations, node, identity)
            request = self._request(values, identity)
            if plan.acks == "0":
                await conversations.say(node, PRODUCE, VERSION, request, within_s=plan.within_s)
                return AttemptEnd(Outcome.INFO, node=node)
            if plan.answers_lost and self._requests % plan.answers_lost == 0:
                await conversations.say(node, PRODUCE, VERSION, request, within_s=plan.within_s)
                await trio.sleep(BACK_OFF_S)
                conversations.drop(node)
                return AttemptEnd(Outcome.INFO, ErrorCode.CONNECTION_LOST, node=node)
            answer = await conversations.ask(node, PRODUCE, VERSION, request, within_s=plan.within_s)
        except NotAsked:
            self._leader.forget(node)
            return AttemptEnd(Outcome.FAIL, ErrorCode.CONNECTION_REFUSED, node=node)
        except NoAnswer:
            self._leader.forget(node)
            return AttemptEnd(Outcome.INFO, ErrorCode.CONNECTION_LOST, node=node)
        return self._read(node, answer.responses[0].partition_responses[0])

    def _read(self, node: int, answer: ProducePartitionResponse) -> AttemptEnd:
        if answer.error_code in NOT_LEADING:
            self._leader.forget(node)
        if answer.error_code == KafkaErrorCode.DUPLICATE_SEQUENCE_NUMBER:
            return AttemptEnd(Outcome.OK, node=node)
        outcome, error = outcome_of(answer.error_code, may_retry=False)
        return AttemptEnd(outcome, error, answer.base_offset if outcome is Outcome.OK else NONE, node)

    async def _identify(self, conversations: Conversations, node: int, identity: _Identity) -> None:
        """Get a producer id. Raises `NotAsked`, since nothing was written."""
        request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=60_000)
        try:
            answer = await conversations.ask(node, INIT_PRODUCER_ID, INIT_VERSION, request, within_s=self.plan.within_s)
        except NoAnswer as error:
            raise NotAsked(str(error)) from error
        if answer.error_code:
            raise NotAsked(f"InitProducerId: error {answer.error_code}")
        identity.producer, identity.epoch = answer.producer_id, answer.producer_epoch

    def _request(self, values: list[int], identity: _Identity) -> ProduceRequest:
        plan = self.plan
        now_ms = time.time_ns() // 1_000_000
        batch = encode_records([(None, encode_value(value, plan.record_bytes)) for value in values], now_ms)
        if identity.producer >= 0:
            header = attrs.evolve(
                read_batch_header(batch),
                producer_id=identity.producer,
                producer_epoch=identity.epoch,
                base_sequence=identity.sequence,
            )
            body = batch[HEADER_BYTES:]
            batch = encode_batch_header(header, body) + body
        return ProduceRequest(
            acks=ACKS[plan.acks],
            timeout_ms=round(plan.within_s * 1e3),
            topic_data=(
                ProduceTopic(name=plan.topic, partition_data=(ProducePartition(index=plan.partition, records=batch),)),
            ),
        )
