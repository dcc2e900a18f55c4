"""A paced sender sends what is due, whatever became of what was sent before, and refuses what would only wait."""

from collections import Counter
from typing import Any

import pytest

from jepsen_like.history.ops import ErrorCode, Outcome
from jepsen_like.systems.kafka import paced_sender, sender
from jepsen_like.systems.kafka.paced_sender import QUEUE_MAX, PacedSender
from jepsen_like.systems.kafka.worker_plan import PACED_SENDER, WorkerPlan
from jepsen_like.workload.client_rows import SentRow


class Silent:
    """A producer whose broker answers only for partition 0."""

    def __init__(self, config: Any) -> None:
        self.answers: list[Any] = []

    def produce(self, topic: str, value: bytes, *, partition: int, on_delivery: Any) -> None:
        if partition == 0:
            self.answers.append(on_delivery)

    def poll(self, timeout: float) -> None:
        while self.answers:
            self.answers.pop()(None, self)

    def offset(self) -> int:
        return 7


class Pipe:
    """Keeps what it is told."""

    def __init__(self) -> None:
        self.rows: list[SentRow] = []

    def report(self, row: SentRow) -> None:
        self.rows.append(row)


def test_a_partition_without_answers_holds_up_nothing_else(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [100.0]
    for module in (sender, paced_sender):
        monkeypatch.setattr(module.time, "monotonic", lambda: now[0])
    monkeypatch.setattr(sender, "Producer", Silent)
    plan = WorkerPlan(
        role=PACED_SENDER,
        topic="log",
        seed=1,
        slots=64,
        rate=10.0,
        client={},
        partitions=2,
        may_retry=False,
        order=(0, 1, 1, 0),
    )
    pipe: Any = Pipe()
    paced = PacedSender(plan, pipe)
    for _ in range(40):
        now[0] += 0.1
        paced._send_due()
        paced._poll()
    ended = Counter((row.object, row.outcome, row.error) for row in pipe.rows)
    assert ended[0, Outcome.OK, ErrorCode.NONE] == 20
    assert ended[1, Outcome.FAIL, ErrorCode.BUSY] == 20 - QUEUE_MAX
    assert len({row.value for row in pipe.rows}) == len(pipe.rows) == 40 - QUEUE_MAX
