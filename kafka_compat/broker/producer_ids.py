"""Producer ids, which a broker takes from the controller in blocks."""

from collections import deque
from collections.abc import Callable

from kafka_compat.broker.context import Context
from kafka_compat.broker.controller_link import CommandFailed
from kafka_compat.controller.commands import AllocateProducerIds, CommandResult, ProducerIdsAllocated
from kafka_compat.protocol.error_codes import KafkaErrorCode

WAITING_MAX = 10_000
NO_PRODUCER = -1
Done = Callable[[int, KafkaErrorCode], None]


class ProducerIds:
    """The ids that one broker gives out, each once."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._next = 0
        self._end = 0
        self._waiting: deque[Done] = deque()
        """The callers that wait for the next block."""

    def take(self, done: Done) -> None:
        """Call `done` with a new id, at once or later, or with COORDINATOR_LOAD_IN_PROGRESS: then it may try again."""
        if self._next < self._end:
            self._give(done)
        elif len(self._waiting) >= WAITING_MAX:
            done(NO_PRODUCER, KafkaErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        else:
            self._waiting.append(done)
            if len(self._waiting) == 1:
                self._refill()

    def _give(self, done: Done) -> None:
        self._next += 1
        done(self._next - 1, KafkaErrorCode.NONE)

    def _refill(self) -> None:
        context = self._context
        context.controller.send(AllocateProducerIds(context.broker_id, context.broker_epoch), self._on_refilled)

    def _on_refilled(self, result: CommandResult | CommandFailed) -> None:
        if isinstance(result, ProducerIdsAllocated) and result.error is KafkaErrorCode.NONE:
            self._next, self._end = result.first, result.first + result.count
            while self._waiting and self._next < self._end:
                self._give(self._waiting.popleft())
            if self._waiting:
                self._refill()
            return
        while self._waiting:
            # Clients try again; a block that was taken without an answer is never used.
            self._waiting.popleft()(NO_PRODUCER, KafkaErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
