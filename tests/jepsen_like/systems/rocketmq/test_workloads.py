"""Reports of the C++ client keep their uncertainty, and the check expects of a run what its mode promises."""

import pytest

from jepsen_like.checker.queue.check import expectations_of
from jepsen_like.checker.verdict import Model
from jepsen_like.history.ops import Outcome
from jepsen_like.port.port import WrongMode
from jepsen_like.systems.rocketmq.bodies import body_of, value_of
from jepsen_like.systems.rocketmq.client_plan import RAISED
from jepsen_like.systems.rocketmq.client_settings import CPP_CLIENT, OWN, client_of, has_cpp_client
from jepsen_like.systems.rocketmq.loads import KEYS, queue_of
from jepsen_like.systems.rocketmq.mode import RocketMode
from jepsen_like.systems.rocketmq.outcomes import outcome_of


@pytest.mark.parametrize(
    ("status", "place", "outcome"),
    [
        (0, 1, Outcome.OK),
        (1, 1, Outcome.INFO),
        (2, 1, Outcome.INFO),
        (3, 1, Outcome.INFO),
        (RAISED, 1, Outcome.INFO),
        (RAISED, -1, Outcome.FAIL),
    ],
)
def test_only_send_ok_is_an_acknowledgement_and_only_a_call_that_chose_no_queue_certainly_failed(
    status: int, place: int, outcome: Outcome
) -> None:
    assert outcome_of(status, is_sent=place >= 0)[0] is outcome


@pytest.mark.parametrize("value", [1, 77, 2**40])
def test_a_body_is_text_and_a_changed_one_is_no_value_of_a_client(value: int) -> None:
    body = body_of(value, 100)
    assert len(body) == 100
    assert 0 not in body
    assert value_of(body) == (value, True)
    for damaged in (body[:-2], body[:-1] + b"x", b"", b"\xff" * 100, body[:-2] + b"00"):
        found, is_whole = value_of(damaged)
        assert not is_whole
        assert found != value


def test_clients_are_the_cpp_client_where_it_is_installed_unless_told() -> None:
    installed = CPP_CLIENT if has_cpp_client() else OWN
    assert [client_of(each) for each in ("auto", CPP_CLIENT, OWN)] == [installed, CPP_CLIENT, OWN]
    assert RocketMode.of(["client=own"], "sync-slave").refusal(Model.QUEUE, []) is None
    with pytest.raises(WrongMode, match="client takes auto or wheel or own"):
        RocketMode.of(["client=java"], "sync-slave")
    with pytest.raises(WrongMode, match="consume_ms takes a number of ms"):
        RocketMode.of(["consume_ms=long"], "sync-slave")


def test_what_a_check_is_told_of_each_workload() -> None:
    mode = RocketMode.of(["order=rehashed"], "async-slave")
    assert queue_of(mode, "log") == {}
    group, order = (expectations_of(queue_of(mode, each)) for each in ("group", "order"))
    assert group.is_pushed
    assert (group.is_orderly, group.keys) == (False, 0)
    assert (order.is_orderly, order.keys, order.keys_move) == (True, KEYS, True)
    for client in (CPP_CLIENT, OWN):
        told = queue_of(RocketMode.of([f"client={client}"], "async-slave"), "order")
        assert expectations_of(told).unlocks_early is (client == CPP_CLIENT)
