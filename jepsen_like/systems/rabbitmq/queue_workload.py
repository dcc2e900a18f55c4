"""The queue workload: publish a message and wait for its confirmation, and take a message out.

A message counts as taken when a client has it. So a take without an answer has taken nothing: a message that was on its
way was not acknowledged, and comes again. The final takes go on until the queue has been empty for a while.
"""

import random
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

import attrs

from jepsen_like.history.ops import NONE, Action, ErrorCode, Outcome
from jepsen_like.systems.rabbitmq.clients import RabbitConnection, StillOut
from jepsen_like.systems.rabbitmq.wire import HEARTBEAT_S
from jepsen_like.workload.model import Nonsense, Request, Seen
from jepsen_like.workload.payload import decode_value, encode_value, value_ids
from jepsen_like.workload.recorder import Recorder

QUEUE_OBJECT: Final = 0
"""The object of the history."""
BACKLOG: Final = 128
"""About so many messages wait in the queue: enough to lose, and soon taken out in the end."""
PUBLISH_PART: Final = (0.65, 0.35)
"""Of the operations: while fewer wait, and while more do. The rest takes."""
RECORD_BYTES: Final = 100
AGAIN_MAX: Final = 64
"""Messages that may come again in the end."""
DRY_AFTER_S: Final = 3.0 * HEARTBEAT_S
"""A server has noticed by then that a client is gone, and given what that client had not acknowledged back to the queue."""


@attrs.define
class RabbitQueueWorkload:
    """One queue, object 0 of the history."""

    clock: Callable[[], float] = time.monotonic
    name: str = "queue"
    _ids: Iterator[int] = attrs.field(factory=value_ids)
    _waiting: set[int] = attrs.field(factory=set)
    """Values that were sent, whatever came of it, and not taken yet."""
    _empty_since_s: float | None = None
    """The moment since which the final takes have found nothing."""

    def request(self, rng: random.Random) -> Request:
        """Publish or take."""
        part = PUBLISH_PART[len(self._waiting) > BACKLOG]
        return self.write(rng) if rng.random() < part else self.probe(rng)

    def write(self, rng: random.Random) -> Request:
        """Publish one message."""
        value = next(self._ids)
        return Request(
            Action.ENQUEUE, lambda connection: self._publish(connection, value), a=value, values=(value,), anywhere=True
        )

    async def _publish(self, connection: RabbitConnection, value: int) -> None:
        """Raises what a publish raises."""
        self._waiting.add(value)
        await connection.publish(encode_value(value, RECORD_BYTES))

    def probe(self, rng: random.Random) -> Request:
        """Take one message: only a leader with a majority gives one away, or finds none."""
        return Request(Action.DEQUEUE, lambda connection: connection.get(), anywhere=True)

    def final_reads(self) -> Sequence[Request]:
        """Take all that may be there."""
        self._empty_since_s = None
        return [Request(Action.DEQUEUE, self._take_last)] * (len(self._waiting) + AGAIN_MAX)

    async def _take_last(self, connection: RabbitConnection) -> bytes | None:
        """Raises `StillOut` until nothing has come for a while, in addition to what a take raises."""
        taken = await connection.get()
        if taken is not None:
            self._empty_since_s = None
        elif self._empty_since_s is None:
            self._empty_since_s = self.clock()
            raise StillOut
        elif self.clock() - self._empty_since_s < DRY_AFTER_S:
            raise StillOut
        return taken

    def claimed_ends(self) -> Mapping[int, int]:
        """A queue has no end."""
        return {}

    def on_trimmed(self, request: Request, start_offset: int) -> None:
        """No message is ever out of reach."""
        raise Nonsense(f"{request.f.name} was answered by a log that begins at {start_offset}")

    def interpret(self, request: Request, answer: Any) -> Seen:
        """Values; `NONE` of an empty queue."""
        match request.f, answer:
            case Action.ENQUEUE, None:
                return Seen(request.values)
            case Action.DEQUEUE, None:
                return Seen((NONE,))
            case Action.DEQUEUE, bytes(body):
                value, is_whole = decode_value(body)
                self._waiting.discard(value)
                return Seen((value,), is_whole=is_whole)
            case _:
                raise Nonsense(f"{answer} does not answer {request.f.name}")


class TakingRecorder(Recorder):
    """Records a take without an answer as one that has taken nothing."""

    def record_end(
        self,
        request: Request,
        outcome: Outcome,
        error: ErrorCode,
        *,
        process: int,
        node: int,
        t_inv: int,
        t_ret: int,
        seen: int = NONE,
    ) -> None:
        """See `Recorder`."""
        known = Outcome.FAIL if request.f is Action.DEQUEUE else outcome
        super().record_end(request, known, error, process=process, node=node, t_inv=t_inv, t_ret=t_ret, seen=seen)
