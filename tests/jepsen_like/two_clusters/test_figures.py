"""The figures of two topics are read from a history: waits, losses, and what came late, out of order or twice."""

from pathlib import Path

import attrs
import pytest

from jepsen_like.history.ops import Action, Op, Outcome
from jepsen_like.report.experiment import render_experiment
from jepsen_like.two_clusters.command import page_of
from jepsen_like.two_clusters.figures import KEYS, TAKES, TwoTopicsFigures, measure
from jepsen_like.two_clusters.plan import TRIALS
from raft.two_topics.receiving import Take

S = 1_000_000_000
LOST, BACK = 10 * S, 14 * S
REPLAY, DEADLINE, EPOCH, COMPENSATE, AT_ONCE, LATER, FOR_GOOD = TRIALS


def send(number: int, begin: float, took: float | None = 0.01) -> Op:
    """A message; without an end no cluster acknowledged it."""
    t_inv = round(begin * S)
    if took is None:
        return Op(f=Action.SEND, type=Outcome.INFO, t_inv=t_inv, a=number)
    return Op(f=Action.SEND, type=Outcome.OK, t_inv=t_inv, t_ret=t_inv + round(took * S), a=number, node=1)


def read(number: int, at: float, take: Take = Take.GIVE) -> Op:
    """A message that was read."""
    t_ns = round(at * S)
    return Op(f=Action.POLL, type=Outcome.OK, t_inv=t_ns, t_ret=t_ns, a=number, b=TAKES.index(take) + 1, node=2)


def figures_of(*ops: Op) -> TwoTopicsFigures:
    """The figures of a trial with these rows."""
    return measure(REPLAY, ops, LOST, BACK)


def test_the_wait_of_calm_times_and_that_of_the_loss_are_kept_apart() -> None:
    figures = figures_of(send(1, 5, 0.05), send(2, 9.9, 0.4), send(3, 12, 0.2), send(4, 20, 0.9))
    assert (figures.calm_ms, figures.wait_ms) == (50, 400)
    assert figures_of(send(1, 12, 0.2), send(2, 13, None)).failed == 1


def test_what_was_acknowledged_and_never_read_is_lost_and_what_was_read_and_dropped_is_not() -> None:
    figures = figures_of(
        *(send(number, 5) for number in range(1, 6)), read(1, 6), read(2, 6, Take.DROP), read(3, 6, Take.DOUBLE)
    )
    assert (figures.acked, figures.lost, figures.dropped, figures.doubles) == (5, 2, 1, 1)


def test_late_and_reordered_are_counted_of_what_is_given_only() -> None:
    one, three, other = 1, 1 + 2 * KEYS, 2
    ops = [send(one, 5), send(three, 6), send(other, 6), read(three, 6.1), read(one, 15), read(other, 6.9)]
    figures = figures_of(*ops)
    assert (figures.late, figures.reordered, figures.stale) == (1, 1, 1)
    figures = figures_of(*ops[:-2], read(one, 15, Take.COMPENSATE), read(other, 6.9))
    assert (figures.late, figures.reordered, figures.stale, figures.compensated) == (0, 0, 0, 1)


def test_a_message_that_is_given_twice_is_counted() -> None:
    assert figures_of(send(1, 5), read(1, 6), read(1, 7)).given_twice == 1


GOOD = attrs.evolve(figures_of(send(1, 5), read(1, 6)), late=3, reordered=2, wait_ms=310.0)


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({}, None),
        ({"wait_ms": 700.0}, "waited 700 ms"),
        ({"failed": 1}, "acknowledged by neither"),
        ({"given_twice": 1}, "given twice"),
        ({"lost": 4}, "4 acknowledged messages were never read"),
        ({"late": 0}, "nothing came late"),
        ({"trial": DEADLINE}, "3 late messages were given"),
        ({"trial": DEADLINE, "late": 0, "dropped": 3}, None),
        ({"trial": EPOCH, "dropped": 3}, None),
        ({"trial": EPOCH, "dropped": 3, "stale": 1}, "1 keys are stale"),
        ({"trial": COMPENSATE, "compensated": 3}, "2 messages were given out of order"),
        ({"trial": COMPENSATE, "compensated": 3, "reordered": 0}, None),
        ({"trial": AT_ONCE}, "2 messages came after newer ones"),
        ({"trial": AT_ONCE, "reordered": 0}, None),
        ({"trial": AT_ONCE, "reordered": 0, "wait_ms": 360.0}, "stated are 350 ms"),
        ({"trial": FOR_GOOD}, "took no message with it"),
        ({"trial": FOR_GOOD, "lost": 4}, None),
    ],
)
def test_a_trial_has_to_show_what_its_policy_states(changes: dict[str, object], reason: str | None) -> None:
    missing = attrs.evolve(GOOD, **changes).missing()  # type: ignore[arg-type]
    assert missing is None if reason is None else reason in str(missing)


def test_the_page_has_a_row_for_each_trial(tmp_path: Path) -> None:
    page = page_of({"command": "quorumlog two-topics", "trials": [GOOD.row(), attrs.evolve(GOOD, lost=4).row()]})
    text = render_experiment(tmp_path, page).read_text()
    assert text.count("<tr>") == 3
    assert "4 acknowledged messages were never read" in text
    assert page.tables[0].lines()[2].startswith("| alternate, replay | 1 | 10 ms | 310 ms | 0 | 3 | 2 |")
