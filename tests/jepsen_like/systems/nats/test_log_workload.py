"""Acknowledgements and messages become rows of a log; what is neither is nonsense."""

import base64
import random
from typing import Any

import pytest

from jepsen_like.history.ops import NONE, Action
from jepsen_like.systems.nats.log_workload import EMPTY, StreamLogWorkload, has_majority
from jepsen_like.workload.model import Nonsense, Request, Seen
from jepsen_like.workload.payload import encode_value


def message(sequence: int, value: int) -> dict[str, Any]:
    return {"message": {"seq": sequence, "data": base64.b64encode(encode_value(value, 100)).decode()}}


def read_after(workload: StreamLogWorkload, count: int) -> Request:
    for sequence in range(1, count + 1):
        workload.interpret(workload.write(random.Random(0)), {"stream": "log", "seq": sequence})
    return workload.final_reads()[-1]


def test_a_sequence_number_is_one_more_than_the_offset() -> None:
    workload = StreamLogWorkload()
    write = workload.write(random.Random(0))
    assert workload.interpret(write, {"stream": "log", "seq": 1}) == Seen((write.a,), 0)
    assert workload.interpret(read_after(workload, 3), message(3, 9)) == Seen((9,), 2)


def test_a_probe_says_which_place_it_has_read() -> None:
    workload = StreamLogWorkload()
    assert workload.interpret(workload.probe(random.Random(0)), message(5, 9)) == Seen((9,), 4)
    assert workload.interpret(workload.probe(random.Random(0)), EMPTY) == Seen((NONE,), 0)


def test_reads_ask_for_what_was_acknowledged() -> None:
    workload, rng = StreamLogWorkload(), random.Random(1)
    assert all(workload.request(rng).f is Action.APPEND for _ in range(50))
    read_after(workload, 40)
    offsets = {request.offset for _ in range(3000) if (request := workload.request(rng)).f is Action.READ}
    assert offsets == set(range(40))


@pytest.mark.parametrize(
    "answer", [{}, {"stream": "log", "seq": 0}, {"stream": "log", "seq": 3, "duplicate": True}, message(3, 9)]
)
def test_what_acknowledges_nothing_new_is_nonsense_to_a_write(answer: dict[str, Any]) -> None:
    workload = StreamLogWorkload()
    with pytest.raises(Nonsense):
        workload.interpret(workload.write(random.Random(0)), answer)


def test_another_message_than_the_one_asked_for_is_nonsense() -> None:
    workload = StreamLogWorkload()
    with pytest.raises(Nonsense):
        workload.interpret(read_after(workload, 3), message(2, 9))


@pytest.mark.parametrize(
    ("active_s", "has"),
    [((), True), ((0.1, 9), True), ((9, 9), False), ((0.1, 9, 9, 9), False), ((0.1, 1, 9, 9), True)],
)
def test_a_leader_has_a_majority_while_it_hears_of_one(active_s: tuple[float, ...], has: bool) -> None:
    assert has_majority({"cluster": {"replicas": [{"active": int(each * 1e9)} for each in active_s]}}) is has
