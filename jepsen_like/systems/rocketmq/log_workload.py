"""The log workload: send messages to the queues of one topic; in the end read where each queue ends, and its newest messages.

Nothing but the first message is read while faults strike: a master that has been replaced without its knowledge may answer with what
was true before, which RocketMQ does not exclude.
"""

import random
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import attrs

from jepsen_like.history.ops import NONE, Action
from jepsen_like.systems.rocketmq.clients import MessageStored, Pulled
from jepsen_like.workload.model import Nonsense, Request, Seen
from jepsen_like.workload.payload import decode_value, encode_value, value_ids

LAST_READS = 16
FIRST = 0
"""The queue that probes read."""


@attrs.define
class QueueWorkload:
    """One queue is one object of the history; messages of `record_bytes`."""

    queues: int
    record_bytes: int = 100
    name: str = "log"
    _ids: Iterator[int] = attrs.field(factory=value_ids)
    _ends: dict[int, int] = attrs.field(factory=dict)
    _claimed: dict[int, int] = attrs.field(factory=dict)

    def request(self, rng: random.Random) -> Request:
        """Send to any queue."""
        return self._send(rng.randrange(self.queues))

    def write(self, rng: random.Random) -> Request:
        """The same."""
        return self.request(rng)

    def probe(self, rng: random.Random) -> Request:
        """Read the first message of a queue, of a broker that takes messages: that never changes."""
        return Request(Action.READ, lambda connection: connection.pull_of_master(FIRST, 0), object=FIRST, offset=0)

    def final_reads(self) -> Sequence[Request]:
        """Of every queue its end, and its newest messages with one place beyond."""
        self._claimed.clear()
        found: list[Request] = []
        for queue in range(self.queues):
            end = self._ends.get(queue, 0)
            tail = _end(queue)
            found += [tail, *(_read(queue, offset) for offset in range(max(0, end - LAST_READS), end + 1)), tail]
        return found

    def claimed_ends(self) -> Mapping[int, int]:
        """Of every queue."""
        return dict(self._claimed)

    def trimmed(self, request: Request, start_offset: int) -> None:
        """Nothing leaves a queue within a run."""
        raise Nonsense(f"queue {request.object} begins at {start_offset}")

    def interpret(self, request: Request, answer: Any) -> Seen:
        """Offsets and values."""
        queue = request.object
        match answer:
            case MessageStored(queue=stored, offset=offset) if request.f is Action.APPEND and stored == queue:
                self._ends[queue] = max(self._ends.get(queue, 0), offset + 1)
                return Seen(request.values, offset)
            case Pulled(offset=offset, records=records) if request.f is Action.READ:
                if not records:
                    return Seen((NONE,), offset)
                head, body = records[0]
                if head.queue_offset != offset or head.queue_id != queue:
                    raise Nonsense(f"a pull at {offset} was answered with {head.queue_offset} of queue {head.queue_id}")
                value, is_whole = decode_value(body)
                return Seen((value,), offset, is_whole=is_whole)
            case int() if request.f is Action.TAIL:
                self._claimed[queue] = max(self._claimed.get(queue, 0), answer)
                return Seen((NONE,), answer)
            case _:
                raise Nonsense(f"{type(answer).__name__} does not answer {request.f.name}")

    def _send(self, queue: int) -> Request:
        value = next(self._ids)
        body = encode_value(value, self.record_bytes)
        return Request(
            Action.APPEND,
            lambda connection: connection.send(queue, body),
            object=queue,
            a=value,
            values=(value,),
        )


def _end(queue: int) -> Request:
    return Request(Action.TAIL, lambda connection: connection.end_of(queue), object=queue)


def _read(queue: int, offset: int) -> Request:
    return Request(Action.READ, lambda connection: connection.pull(queue, offset, 1), object=queue, offset=offset)
