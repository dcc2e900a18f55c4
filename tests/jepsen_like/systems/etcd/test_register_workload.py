"""Answers of etcd's gateway become what a register held; what is no such answer is nonsense."""

import base64
import random
from typing import Any

import pytest

from jepsen_like.history.ops import NONE, Action
from jepsen_like.systems.etcd.register_workload import EtcdRegisterWorkload
from jepsen_like.workload.model import Nonsense, Request, Seen
from jepsen_like.workload.payload import DAMAGED


def range_of(value: str) -> dict[str, Any]:
    return {"header": {}, "kvs": [{"value": base64.b64encode(value.encode()).decode()}], "count": "1"}


def draw(workload: EtcdRegisterWorkload, f: Action) -> Request:
    rng = random.Random(1)
    return next(request for _ in range(200) if (request := workload.request(rng)).f is f)


def test_a_read_shows_the_value_or_that_there_is_none() -> None:
    workload = EtcdRegisterWorkload()
    read = draw(workload, Action.READ)
    assert workload.interpret(read, range_of("17")) == Seen((17,))
    assert workload.interpret(read, {"header": {}}) == Seen((NONE,))


@pytest.mark.parametrize("value", ["words", "-1", "0", str(DAMAGED)])
def test_a_value_of_no_client_stays_one(value: str) -> None:
    workload = EtcdRegisterWorkload()
    assert workload.interpret(draw(workload, Action.READ), range_of(value)).values[0] >= DAMAGED


def test_a_swap_tells_the_value_that_was_there() -> None:
    workload = EtcdRegisterWorkload(keys=1)
    workload.interpret(draw(workload, Action.READ), range_of("17"))
    swap = draw(workload, Action.CAS)
    assert swap.a == 17
    assert workload.interpret(swap, {"header": {}, "succeeded": True, "responses": []}) == Seen((17,), seen=17)
    refused = {"header": {}, "responses": [{"response_range": range_of("18")}]}
    assert workload.interpret(swap, refused) == Seen((17,), seen=18)


@pytest.mark.parametrize("f", [Action.READ, Action.WRITE])
def test_what_has_no_header_answers_nothing(f: Action) -> None:
    workload = EtcdRegisterWorkload()
    with pytest.raises(Nonsense):
        workload.interpret(draw(workload, f), {"kvs": []})


def test_any_member_is_asked() -> None:
    assert all(draw(EtcdRegisterWorkload(), f).anywhere for f in (Action.READ, Action.WRITE))


def test_a_guarded_change_compares_all_registers_first() -> None:
    workload = EtcdRegisterWorkload(guards=50)
    write = draw(workload, Action.WRITE)
    assert workload.interpret(write, {"header": {}, "succeeded": True}) == Seen((write.a,))
    with pytest.raises(Nonsense):
        workload.interpret(write, {"header": {}})
    body = take_body(write)
    assert len(body["compare"]) == 50
    assert {(guard["result"], guard["version"]) for guard in body["compare"]} == {("GREATER", "-1")}
    (put,) = body["success"]
    key, first, end = put["request_put"]["key"], body["compare"][0]["key"], body["compare"][0]["range_end"]
    assert base64.b64decode(first) < base64.b64decode(key) < base64.b64decode(end)
    assert "compare" not in take_body(draw(EtcdRegisterWorkload(), Action.WRITE))


def take_body(request: Request) -> Any:
    """Returns the body that a request sends."""

    class Connection:
        """Answers with what it was asked."""

        def ask(self, path: str, body: Any) -> Any:
            return body

    return request.ask(Connection())
