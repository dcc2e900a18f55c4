"""The decider of a producer: one failed attempt, a cluster that is left alone and tried again, and hedges."""

import random
import zlib

import pytest

from raft.two_topics.sending import (
    Alternate,
    Answered,
    Finish,
    Hedge,
    Order,
    PairAttempt,
    PairOutbox,
    TimePassed,
    Wanted,
)

POLICY = Alternate(attempt_s=0.3, avoid_s=1.0)
HOME_0 = next(b"%d" % number for number in range(99) if zlib.crc32(b"%d" % number) % 2 == 0)
"""A key whose home is the first cluster."""


def test_messages_without_a_key_go_to_both_clusters_in_turn_and_keys_stay_at_home() -> None:
    outbox = PairOutbox(POLICY)
    sides = [
        order.side for number in range(1, 5) for order in outbox.step(0.0, Wanted(number)) if order.side is not None
    ]
    assert sides == [1, 0, 1, 0]
    assert {outbox.step(0.0, Wanted(number, HOME_0))[0].side for number in range(5, 9)} == {0}


def test_a_message_moves_on_after_one_failed_attempt_and_the_others_go_elsewhere_at_once_in_a_new_epoch() -> None:
    outbox = PairOutbox(POLICY)
    assert outbox.step(0.0, Wanted(1, HOME_0)) == [PairAttempt(1, 0, 1)]
    assert outbox.step(0.1, Answered(1, 0, False)) == [PairAttempt(1, 1, 2)]
    assert outbox.step(0.1, Wanted(2, HOME_0)) == [PairAttempt(2, 1, 2)]
    assert outbox.step(0.2, Answered(1, 1, True)) == [Finish(1, 1)]
    assert outbox.step(0.2, Answered(2, 1, True)) == [Finish(2, 1)]
    assert outbox.is_idle


def test_an_attempt_without_an_answer_has_failed_when_its_time_is_over_and_not_before() -> None:
    outbox = PairOutbox(POLICY)
    outbox.step(1.0, Wanted(1, HOME_0))
    assert outbox.wakes_at() == 1.3
    assert outbox.step(1.29, TimePassed()) == []
    assert outbox.step(1.3, TimePassed()) == [PairAttempt(1, 1, 2)]
    assert outbox.step(1.4, Answered(1, 0, False)) == []
    assert outbox.step(1.5, Answered(1, 1, True)) == [Finish(1, 1)]
    assert outbox.wakes_at() is None


def test_a_late_acknowledgement_of_the_first_attempt_ends_the_message_once() -> None:
    outbox = PairOutbox(POLICY)
    outbox.step(0.0, Wanted(1, HOME_0))
    outbox.step(0.3, TimePassed())
    assert outbox.step(0.4, Answered(1, 0, True)) == [Finish(1, 0)]
    assert outbox.step(0.5, Answered(1, 1, True)) == []


def test_a_message_that_failed_at_both_is_reported_once() -> None:
    outbox = PairOutbox(POLICY)
    outbox.step(0.0, Wanted(1, HOME_0))
    outbox.step(0.1, Answered(1, 0, False))
    assert outbox.step(0.2, Answered(1, 1, False)) == [Finish(1, None)]
    assert outbox.is_idle


def lose_first(outbox: PairOutbox) -> None:
    """The first cluster fails at 0.1 s."""
    outbox.step(0.0, Wanted(1, HOME_0))
    outbox.step(0.1, Answered(1, 0, False))
    outbox.step(0.1, Answered(1, 1, True))


def test_a_cluster_that_failed_is_tried_by_one_message_when_its_time_is_over_and_has_all_again_once_that_is_acknowledged() -> (
    None
):
    outbox = PairOutbox(POLICY)
    lose_first(outbox)
    assert outbox.step(1.0, Wanted(2, HOME_0)) == [PairAttempt(2, 1, 2)]
    assert outbox.step(1.2, Wanted(3, HOME_0)) == [PairAttempt(3, 0, 2)]
    assert outbox.step(1.2, Wanted(4, HOME_0)) == [PairAttempt(4, 1, 2)]
    outbox.step(1.25, Answered(3, 0, True))
    assert outbox.step(1.3, Wanted(5, HOME_0)) == [PairAttempt(5, 0, 2)]


def test_a_message_that_tries_a_lost_cluster_in_vain_costs_one_failed_attempt_and_no_epoch() -> None:
    outbox = PairOutbox(POLICY)
    lose_first(outbox)
    outbox.step(1.2, Wanted(2, HOME_0))
    assert outbox.step(1.3, Answered(2, 0, False)) == [PairAttempt(2, 1, 2)]
    assert outbox.step(2.2, Wanted(3, HOME_0)) == [PairAttempt(3, 1, 2)]
    assert outbox.step(2.4, Wanted(4, HOME_0)) == [PairAttempt(4, 0, 2)]


def test_a_hedge_at_once_has_two_attempts_and_the_first_acknowledgement_counts() -> None:
    outbox = PairOutbox(Hedge())
    assert outbox.step(0.0, Wanted(1, HOME_0)) == [PairAttempt(1, 0, 1), PairAttempt(1, 1, 1)]
    assert outbox.step(0.1, Answered(1, 1, True)) == [Finish(1, 1)]
    assert outbox.step(0.2, Answered(1, 0, False)) == []


def test_a_hedge_begins_after_its_wait_or_when_the_first_attempt_fails() -> None:
    outbox = PairOutbox(Hedge(after_s=0.05))
    assert outbox.step(0.0, Wanted(1, HOME_0)) == [PairAttempt(1, 0, 1)]
    assert outbox.wakes_at() == 0.05
    assert outbox.step(0.05, TimePassed()) == [PairAttempt(1, 1, 1)]
    outbox.step(0.06, Answered(1, 1, True))
    assert outbox.step(1.0, Wanted(2, HOME_0)) == [PairAttempt(2, 0, 1)]
    assert outbox.step(1.01, Answered(2, 0, False)) == [PairAttempt(2, 1, 2)]
    assert outbox.step(1.05, TimePassed()) == []


def test_a_hedge_whose_first_attempts_were_overtaken_tries_a_lost_cluster_again() -> None:
    outbox = PairOutbox(Hedge(after_s=0.05, attempt_s=0.2, avoid_s=1.0))
    lose_first(outbox)
    assert outbox.step(1.2, Wanted(2, HOME_0)) == [PairAttempt(2, 0, 2)]
    outbox.step(1.25, TimePassed())
    assert outbox.step(1.26, Answered(2, 1, True)) == [Finish(2, 1)]
    assert outbox.step(1.3, Wanted(3, HOME_0))[0] == PairAttempt(3, 1, 2)
    assert outbox.step(1.5, Wanted(4, HOME_0))[0] == PairAttempt(4, 0, 2)


@pytest.mark.parametrize("policy", [POLICY, Hedge(), Hedge(after_s=0.05)])
def test_whatever_clusters_answer_every_message_ends_once_and_no_cluster_is_asked_twice_for_it(
    policy: Alternate | Hedge,
) -> None:
    for seed in range(200):
        rng = random.Random(seed)
        outbox, now, ended, asked, open_ = (
            PairOutbox(policy),
            0.0,
            list[int](),
            list[tuple[int, int]](),
            list[PairAttempt](),
        )

        def note(
            orders: list[Order],
            ended: list[int] = ended,
            asked: list[tuple[int, int]] = asked,
            open_: list[PairAttempt] = open_,
        ) -> None:
            for order in orders:
                match order:
                    case PairAttempt():
                        asked.append((order.number, order.side))
                        open_.append(order)
                    case Finish():
                        ended.append(order.number)

        for number in range(1, 30):
            now += rng.random() * 0.2
            note(outbox.step(now, Wanted(number, rng.choice([None, b"a", b"b"]))))
            for attempt in [attempt for attempt in open_ if rng.random() < 0.5]:
                open_.remove(attempt)
                note(outbox.step(now, Answered(attempt.number, attempt.side, rng.random() < 0.6)))
            note(outbox.step(now, TimePassed()))
        while (due := outbox.wakes_at()) is not None:
            now = due
            note(outbox.step(now, TimePassed()))
        assert sorted(ended) == list(range(1, 30))
        assert len(set(asked)) == len(asked)
        assert outbox.is_idle


def test_a_message_has_not_failed_while_the_other_cluster_is_being_asked() -> None:
    outbox = PairOutbox(Hedge())
    outbox.step(0.0, Wanted(1, HOME_0))
    assert outbox.step(0.1, Answered(1, 0, False)) == []
    assert outbox.step(0.2, Answered(1, 1, True)) == [Finish(1, 1)]
