"""Whom clients ask, and whom they no longer believe."""

import random

from jepsen_like.workload.routing import OLD_BELIEFS_S, RETRY_SUSPECT_S, Routing


def leader_of(routing: Routing) -> int | None:
    return routing.leader


def test_no_node_leads_until_an_answered_probe_or_a_hint() -> None:
    routing = Routing([1, 2, 3])
    assert leader_of(routing) is None
    routing.on_refused(2, 3, now=0.0)
    assert leader_of(routing) == 3
    routing.on_probe_answered(1, now=0.0)
    assert leader_of(routing) == 1


def test_a_leader_that_does_not_answer_is_believed_no_more_whatever_others_say() -> None:
    routing = Routing([1, 2, 3])
    routing.on_probe_answered(1, now=0.0)
    routing.on_unanswered(1, now=0.0)
    assert leader_of(routing) is None
    routing.on_refused(2, 1, now=0.0)
    assert leader_of(routing) is None, "an old hint pointed at the node that was lost"
    routing.on_probe_answered(1, now=0.0)
    assert leader_of(routing) == 1


def test_a_refusal_by_another_node_moves_no_client() -> None:
    routing = Routing([1, 2, 3])
    routing.on_probe_answered(1, now=0.0)
    routing.on_refused(2, 3, now=0.0)
    routing.on_unanswered(3, now=0.0)
    assert leader_of(routing) == 1


def test_the_leader_itself_can_hand_on_or_resign() -> None:
    routing = Routing([1, 2, 3])
    routing.on_probe_answered(1, now=0.0)
    routing.on_refused(1, 2, now=0.0)
    assert leader_of(routing) == 2
    routing.on_refused(2, None, now=0.0)
    assert leader_of(routing) is None
    routing.on_refused(2, 9, now=0.0)
    assert leader_of(routing) is None, "a hint to a node that does not exist"


def test_a_suspect_is_tried_by_one_client_at_a_time() -> None:
    rng = random.Random(1)
    routing = Routing([1])
    routing.on_unanswered(1, now=0.0)
    assert routing.anyone(rng, RETRY_SUSPECT_S / 2) is None
    assert routing.anyone(rng, RETRY_SUSPECT_S) == 1
    assert routing.anyone(rng, RETRY_SUSPECT_S) is None
    routing.on_refused(1, None, now=0.0)
    assert routing.anyone(rng, RETRY_SUSPECT_S) == 1


def test_a_node_that_led_until_just_now_may_have_old_beliefs() -> None:
    routing = Routing([1, 2])
    routing.on_probe_answered(1, now=0.0)
    assert not routing.may_have_old_beliefs(1, now=0.0)
    routing.on_probe_answered(2, now=10.0)
    assert routing.may_have_old_beliefs(1, now=10.0 + OLD_BELIEFS_S - 0.1)
    assert not routing.may_have_old_beliefs(1, now=10.0 + OLD_BELIEFS_S)
    assert not routing.may_have_old_beliefs(2, now=10.0)
    routing.on_probe_answered(1, now=11.0)
    assert not routing.may_have_old_beliefs(1, now=11.0)
