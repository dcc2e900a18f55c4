"""A member of a consumer group, in a process of its own: polls what it is given, commits by hand, and now and then
leaves and comes back.

Without a group it reads all partitions from their begin, stays unless its certificate is replaced, and commits nothing.

Rows stand in the order in which things happened to the member. Records that were polled before a rebalance are written
down before it: librdkafka calls back from within `poll`, and the record that this poll then returns belongs to what the
member has afterwards.
"""

import math
import random
import time
from typing import Final

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, KafkaException, Message, TopicPartition

from jepsen_like.history.ops import NONE
from jepsen_like.systems.kafka.client_config import ClientConfig
from jepsen_like.systems.kafka.outcomes import outcome_of_commit
from jepsen_like.systems.kafka.worker_plan import WorkerPlan
from jepsen_like.workload.client_process import FINAL, QUIT, STOP, STOPPED, ClientPipe
from jepsen_like.workload.client_rows import AssignedRow, CommittedRow, PolledRow, PositionRow, RevokedRow, SoughtRow
from jepsen_like.workload.payload import decode_value

POLL_S: Final = 0.02
RECORDS_MAX: Final = 100
"""Of one poll, as the history has it."""
COMMIT_EVERY_S: Final = 0.15
ANSWER_WITHIN_S: Final = 2.0
STAYS_S: Final = (2.0, 8.0)
"""A member stays this long before it leaves and comes back."""
PAUSE_S: Final = 0.02
_RESETS: Final = frozenset({KafkaError._AUTO_OFFSET_RESET, KafkaError._LOG_TRUNCATION, KafkaError.OFFSET_OUT_OF_RANGE})


class MemberWorker:
    """One worker. `run` returns when the harness tells it to quit."""

    def __init__(self, plan: WorkerPlan, pipe: ClientPipe) -> None:
        self._plan = plan
        self._pipe = pipe
        self._rng = random.Random(f"member {plan.seed} {plan.index}")
        self._is_alone = plan.group == NONE
        self._is_incremental = plan.client.get("group.protocol") == "consumer"
        self._polled: list[Message] = []
        """Not yet written down."""
        self._poll_began_ns = 0
        self._positions: dict[int, int] = {}
        """Of the partitions that it has: the next record to be read."""
        self._left_at: dict[int, int] = {}
        """The positions of a member without a group when it left."""
        self._committed: dict[int, int] = {}
        self._config = ClientConfig(plan)

    def run(self) -> None:
        """Consume until told otherwise."""
        stopping = False
        while True:
            consumer = None if stopping else self._join()
            leaves_at = time.monotonic() + (math.inf if self._is_alone else self._rng.uniform(*STAYS_S))
            while True:
                for command, *_ in self._pipe.commands():
                    if command == QUIT:
                        return
                    stopping |= command == STOP
                    if command == FINAL:
                        self._pipe.say(FINAL, True, {})
                if consumer is None:
                    time.sleep(PAUSE_S)
                    continue
                if stopping or time.monotonic() > leaves_at or self._config.is_outdated:
                    break
                self._consume(consumer)
            self._leave(consumer)
            if stopping:
                self._pipe.say(STOPPED)

    def _join(self) -> Consumer:
        consumer = Consumer(self._config.now())
        self._commit_at = time.monotonic() + COMMIT_EVERY_S
        if self._is_alone:
            self._positions = self._left_at or dict.fromkeys(range(self._plan.partitions), 0)
            self._pipe.report(AssignedRow(list(self._positions), list(self._positions.values()), time.monotonic_ns()))
            consumer.assign([TopicPartition(self._plan.topic, *place) for place in self._positions.items()])
            return consumer
        consumer.subscribe(
            [self._plan.topic], on_assign=self._on_assign, on_revoke=self._on_revoke, on_lost=self._on_lost
        )
        return consumer

    def _leave(self, consumer: Consumer) -> None:
        """Closing calls back for what it still has."""
        self._write_polled()
        consumer.close()
        self._left_at = dict(self._positions)
        if self._positions:  # not called back: it is gone all the same
            self._pipe.report(RevokedRow(list(self._positions), True, time.monotonic_ns()))
            self._positions.clear()
        self._pipe.flush(force=True)
        self._pipe.incarnation += 1

    # ---------------------------------------------------------------- polling

    def _consume(self, consumer: Consumer) -> None:
        self._poll_began_ns = time.monotonic_ns()
        message = consumer.poll(POLL_S)
        while message is not None:
            error = message.error()
            if error is None:
                self._polled.append(message)
            elif error.code() in _RESETS:
                self._write_polled()
                self._reset(consumer, message.partition())
            if len(self._polled) >= RECORDS_MAX:
                break
            message = consumer.poll(0)
        self._write_polled()
        if time.monotonic() > self._commit_at and not self._is_alone:
            self._commit(consumer)
            self._commit_at = time.monotonic() + COMMIT_EVERY_S
        self._pipe.flush()

    def _write_polled(self) -> None:
        """Write the messages polled so far, by partition."""
        now = time.monotonic_ns()
        by_partition: dict[int, list[Message]] = {}
        for message in self._polled:
            by_partition.setdefault(message.partition() or 0, []).append(message)
        for partition, messages in by_partition.items():
            decoded = [decode_value(message.value() or b"") for message in messages]
            offsets = [message.offset() or 0 for message in messages]
            self._positions[partition] = offsets[-1] + 1
            values = [value for value, _ in decoded]
            is_whole = all(is_whole for _, is_whole in decoded)
            self._pipe.report(PolledRow(partition, values, offsets, is_whole, self._poll_began_ns, now))
        self._polled = []
        self._poll_began_ns = now

    def _reset(self, consumer: Consumer, partition: int | None) -> None:
        """Its position is out of the log: begin again at the log's start."""
        if partition is None or partition not in self._positions:
            return
        place = TopicPartition(self._plan.topic, partition)
        try:
            marks = consumer.get_watermark_offsets(place, timeout=ANSWER_WITHIN_S)
            if marks is None:
                return
            place.offset = marks[0]
            now = time.monotonic_ns()
            consumer.seek(place)
        except KafkaException:
            return  # the error comes again
        self._positions[partition] = place.offset
        self._pipe.report(SoughtRow(partition, place.offset, now))

    def _commit(self, consumer: Consumer) -> bool:
        """Commit where it is, of what has moved. Returns whether that was answered without an error."""
        moved = {
            partition: offset
            for partition, offset in self._positions.items()
            if offset >= 0 and self._committed.get(partition) != offset
        }
        if not moved:
            return False
        places = [TopicPartition(self._plan.topic, partition, offset) for partition, offset in moved.items()]
        began = time.monotonic_ns()
        codes = {}
        try:
            for place in consumer.commit(offsets=places, asynchronous=False) or ():
                codes[place.partition] = place.error.code() if place.error is not None else 0
        except KafkaException as error:
            codes = dict.fromkeys(moved, error.args[0].code())
        ended = time.monotonic_ns()
        for partition, offset in moved.items():
            code = codes.get(partition, KafkaError._FAIL)
            self._pipe.report(CommittedRow(partition, offset, *outcome_of_commit(code), began, ended))
            if code == 0:
                self._committed[partition] = offset
        return all(codes.get(partition) == 0 for partition in moved)

    # ---------------------------------------------------------------- rebalances

    def _on_assign(self, consumer: Consumer, given: list[TopicPartition]) -> None:
        """Begin where the group has committed, or at the beginning."""
        self._write_polled()
        places = [TopicPartition(self._plan.topic, each.partition) for each in given]
        starts = {each.partition: -1 for each in given}
        began = time.monotonic_ns()
        try:
            found = consumer.committed(places, timeout=ANSWER_WITHIN_S) if places else []
        except KafkaException:
            found = []  # librdkafka asks for it itself
        ended = time.monotonic_ns()
        answered = [each for each in found if each.error is None]
        for each in answered:
            starts[each.partition] = max(-1, each.offset)
            self._pipe.report(PositionRow(each.partition, starts[each.partition], began, ended))
        if answered:
            for place in places:
                place.offset = starts[place.partition] if starts[place.partition] >= 0 else OFFSET_BEGINNING
        if self._is_incremental:
            self._positions |= starts
        else:
            self._positions = dict(starts)
            self._committed = {}
        self._pipe.report(AssignedRow(list(starts), list(starts.values()), time.monotonic_ns()))
        assign = consumer.incremental_assign if self._is_incremental else consumer.assign
        assign(places if len(answered) == len(places) else given)

    def _on_revoke(self, consumer: Consumer, taken: list[TopicPartition]) -> None:
        """Commit, then give up."""
        self._write_polled()
        now = time.monotonic_ns()
        if self._commit(consumer):
            now = time.monotonic_ns()  # a commit that was answered was one of a member
        self._pipe.report(RevokedRow([each.partition for each in taken], False, now))
        self._forget(taken)

    def _on_lost(self, consumer: Consumer, taken: list[TopicPartition]) -> None:
        """The group has gone on without this member."""
        self._write_polled()
        self._pipe.report(RevokedRow([each.partition for each in taken], True, time.monotonic_ns()))
        self._forget(taken)

    def _forget(self, taken: list[TopicPartition]) -> None:
        """By KIP-848 it keeps the partitions that were not taken, by the classic protocol none."""
        if not self._is_incremental:
            self._positions.clear()
        for each in taken:
            self._positions.pop(each.partition, None)
            self._committed.pop(each.partition, None)
