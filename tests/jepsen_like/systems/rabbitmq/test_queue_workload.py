"""Confirmations and messages become rows of a queue; a take without an answer has taken nothing."""

import random
from pathlib import Path

import pytest
import trio

from jepsen_like.history.files import HistoryReader, HistoryWriter
from jepsen_like.history.ops import NONE, Action, ErrorCode, Outcome
from jepsen_like.systems.rabbitmq.clients import StillOut
from jepsen_like.systems.rabbitmq.queue_workload import BACKLOG, DRY_AFTER_S, RabbitQueueWorkload, TakingRecorder
from jepsen_like.workload.model import Nonsense, Request, Seen
from jepsen_like.workload.payload import encode_value


class Queue:
    """Stands for a connection: it gives these messages, and then finds the queue empty."""

    def __init__(self, *bodies: bytes) -> None:
        self.bodies = list(bodies)

    async def publish(self, body: bytes) -> None:
        await trio.lowlevel.checkpoint()

    async def get(self) -> bytes | None:
        await trio.lowlevel.checkpoint()
        return self.bodies.pop(0) if self.bodies else None


def take(workload: RabbitQueueWorkload) -> Request:
    return workload.probe(random.Random(0))


def test_a_take_tells_the_value_or_that_there_was_none() -> None:
    workload = RabbitQueueWorkload()
    write = workload.write(random.Random(0))
    assert workload.interpret(write, None) == Seen((write.a,))
    assert workload.interpret(take(workload), encode_value(write.a, 100)) == Seen((write.a,))
    assert workload.interpret(take(workload), None) == Seen((NONE,))


def test_what_answers_another_question_is_nonsense() -> None:
    workload = RabbitQueueWorkload()
    with pytest.raises(Nonsense):
        workload.interpret(workload.write(random.Random(0)), b"a message")


async def test_the_queue_is_kept_short() -> None:
    workload, rng = RabbitQueueWorkload(), random.Random(1)
    for _ in range(10 * BACKLOG):
        request = workload.request(rng)
        await request.ask(Queue())
        if request.f is Action.DEQUEUE and workload._waiting:
            workload.interpret(request, encode_value(min(workload._waiting), 100))
    assert BACKLOG / 2 < len(workload._waiting) < 2 * BACKLOG


async def test_the_last_takes_wait_for_what_may_come_back() -> None:
    now_s = [0.0]
    workload = RabbitQueueWorkload(clock=lambda: now_s[0])
    reads = workload.final_reads()
    queue = Queue(b"one")
    assert await reads[0].ask(queue) == b"one"
    for later_s in (1.0, DRY_AFTER_S):
        now_s[0] = later_s
        with pytest.raises(StillOut):
            await reads[0].ask(queue)
    queue.bodies = [b"two"]
    assert await reads[0].ask(queue) == b"two"
    with pytest.raises(StillOut):  # another one may come back as late
        await reads[0].ask(queue)
    now_s[0] += DRY_AFTER_S
    assert await reads[0].ask(queue) is None


async def test_all_that_was_sent_is_taken_in_the_end() -> None:
    workload, rng = RabbitQueueWorkload(), random.Random(1)
    for _ in range(300):
        await workload.write(rng).ask(Queue())
    sent = len(workload.final_reads())
    assert sent > 300
    workload.write(rng)  # it found no node
    assert len(workload.final_reads()) == sent


def test_a_take_without_an_answer_is_recorded_as_one_that_took_nothing(tmp_path: Path) -> None:
    workload = RabbitQueueWorkload()
    with HistoryWriter(tmp_path / "history.parquet") as history:
        recorder = TakingRecorder(history)
        for request in (workload.write(random.Random(0)), take(workload)):
            recorder.record_end(request, Outcome.INFO, ErrorCode.TIMEOUT, process=0, node=1, t_inv=1, t_ret=2)
    kinds, outcomes = HistoryReader.open(tmp_path / "history.parquet").columns(("f", "type"))
    assert dict(zip(kinds.tolist(), outcomes.tolist(), strict=True)) == {
        Action.ENQUEUE: Outcome.INFO,
        Action.DEQUEUE: Outcome.FAIL,
    }
