"""The log workload: send messages to the queues of one topic, which every group has; in the end read where each queue
ends, and its newest messages.

Nothing but the first message is read while faults strike: a master that has been replaced without its knowledge may
answer with what was true before, which RocketMQ does not exclude.
"""

import random
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import attrs

from jepsen_like.history.ops import NONE, Action
from jepsen_like.systems.rocketmq.bodies import body_of, value_of
from jepsen_like.systems.rocketmq.clients import MessageStored, Pulled, UnknownTopic
from jepsen_like.workload.model import Nonsense, Request, Seen
from jepsen_like.workload.payload import value_ids

LAST_READS = 16


@attrs.define
class QueueWorkload:
    """Each of `queues` of each of `pairs` groups is one object of the history; messages of `record_bytes`."""

    pairs: int
    queues: int
    record_bytes: int = 100
    name: str = "log"
    _ids: Iterator[int] = attrs.field(factory=value_ids)
    _ends: dict[int, int] = attrs.field(factory=dict)
    _claimed: dict[int, int] = attrs.field(factory=dict)

    def request(self, rng: random.Random) -> Request:
        """Send to any queue."""
        return self._send(rng.randrange(self.pairs * self.queues))

    def write(self, rng: random.Random) -> Request:
        """The same."""
        return self.request(rng)

    def probe(self, rng: random.Random) -> Request:
        """Read the first message of a group's first queue, of a broker that takes messages: that never changes."""
        group = rng.randrange(self.pairs)
        obj = group * self.queues
        return Request(Action.READ, lambda on: on.pull_of_master(0, 0), object=obj, offset=0, group=group)

    def final_reads(self) -> Sequence[Request]:
        """Of every queue its end, and its newest messages with one place beyond."""
        self._claimed.clear()
        found: list[Request] = []
        for obj in range(self.pairs * self.queues):
            end = self._ends.get(obj, 0)
            tail = self._end(obj)
            found += [tail, *(self._read(obj, offset) for offset in range(max(0, end - LAST_READS), end + 1)), tail]
        return found

    def claimed_ends(self) -> Mapping[int, int]:
        """Of every queue."""
        return dict(self._claimed)

    def on_trimmed(self, request: Request, start_offset: int) -> None:
        """Nothing leaves a queue within a run."""
        raise Nonsense(f"queue {request.object} begins at {start_offset}")

    def interpret(self, request: Request, answer: Any) -> Seen:
        """Offsets and values."""
        obj, queue = request.object, request.object % self.queues
        match answer:
            case MessageStored(queue=stored, offset=offset) if request.f is Action.APPEND and stored == queue:
                self._ends[obj] = max(self._ends.get(obj, 0), offset + 1)
                return Seen(request.values, offset)
            case Pulled(offset=offset, records=records) if request.f is Action.READ:
                if not records:
                    return Seen((NONE,), offset)
                head, body = records[0]
                if head.queue_offset != offset or head.queue_id != queue:
                    raise Nonsense(f"a pull at {offset} was answered with {head.queue_offset} of queue {head.queue_id}")
                value, is_whole = value_of(body)
                return Seen((value,), offset, is_whole=is_whole)
            case UnknownTopic() if request.f is Action.READ:
                return Seen(())
            case int() if request.f is Action.TAIL:
                self._claimed[obj] = max(self._claimed.get(obj, 0), answer)
                return Seen((NONE,), answer)
            case _:
                raise Nonsense(f"{type(answer).__name__} does not answer {request.f.name}")

    def _send(self, obj: int) -> Request:
        group, queue = divmod(obj, self.queues)
        value = next(self._ids)
        body = body_of(value, self.record_bytes)
        return Request(
            Action.APPEND,
            lambda connection: connection.send(queue, body),
            object=obj,
            a=value,
            values=(value,),
            group=group,
        )

    def _end(self, obj: int) -> Request:
        group, queue = divmod(obj, self.queues)
        return Request(Action.TAIL, lambda on: on.end_of(queue), object=obj, group=group)

    def _read(self, obj: int, offset: int) -> Request:
        group, queue = divmod(obj, self.queues)
        return Request(Action.READ, lambda on: on.pull(queue, offset, 1), object=obj, offset=offset, group=group)


@attrs.define
class PushedProbes(QueueWorkload):
    """The same of a queue pushed to groups: what is sent is a message, and what is read is not recorded."""

    def request(self, rng: random.Random) -> Request:
        """Send to any queue."""
        return attrs.evolve(super().request(rng), f=Action.SEND)

    def interpret(self, request: Request, answer: Any) -> Seen:
        """Offsets and values."""
        return super().interpret(attrs.evolve(request, f=Action.APPEND) if request.is_write else request, answer)
