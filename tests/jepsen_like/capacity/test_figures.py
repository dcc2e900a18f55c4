"""The figures of capacity: what was offered and served in a window, and who left messages unanswered."""

from pathlib import Path
from typing import Any

import attrs
import numpy as np

from jepsen_like.capacity.figures import Sends, TrialFigures, measure_window
from jepsen_like.capacity.page import page_of
from jepsen_like.capacity.plan import CapacityTrial
from jepsen_like.history.ops import Action, Outcome
from jepsen_like.report.experiment import render_experiment

S = 1_000_000_000
FITS = CapacityTrial(name="2+2", sizes=(2, 2), needs=2, fits=True)
LED_BY = {0: 1, 1: 2}


def sends_of(*rows: tuple[int, float, float | None]) -> Sends:
    """Messages: partition, begin, and the end of those that were acknowledged."""
    return Sends.of(
        {
            "object": np.array([row[0] for row in rows], np.int64),
            "f": np.full(len(rows), Action.APPEND, np.int64),
            "type": np.array([Outcome.INFO if row[2] is None else Outcome.OK for row in rows], np.int64),
            "t_inv": np.array([round(row[1] * S) for row in rows], np.int64),
            "t_ret": np.array([2**62 if row[2] is None else round(row[2] * S) for row in rows], np.int64),
        }
    )


def test_a_message_is_offered_when_it_is_sent_and_served_when_it_is_acknowledged() -> None:
    sends = sends_of((0, 0.5, 1.5), (0, 1.5, 1.6), (1, 1.9, 2.5), (1, 1.0, None), (1, 2.0, 2.1))
    found = measure_window(sends, 1 * S, 2 * S, LED_BY)
    assert (found.offered_s, found.served_s) == (3, 2)
    assert found.answered == 2 / 3
    assert found.brokers[1].answered == 1
    assert (found.brokers[2].offered_s, found.brokers[2].served_s, found.brokers[2].answered) == (2, 0, 0.5)
    assert found.overloaded == (2,)
    assert found.p99_ms is not None
    assert 590 < found.p99_ms <= 600


def test_reads_are_not_counted() -> None:
    columns = {name: np.array([0], np.int64) for name in ("object", "type", "t_inv", "t_ret")}
    assert len(Sends.of({**columns, "f": np.array([int(Action.READ)])}).partition) == 0


def figures(served_s: float, *, answered: bool = True, trial: CapacityTrial = FITS) -> TrialFigures:
    """Of brokers that can take ten messages a second, of which n2 and n4 are left."""
    ok = sends_of(*((partition, 0.1, 0.2 if answered or partition else None) for partition in LED_BY))
    calm = measure_window(sends_of((0, 0.1, 0.2), (1, 0.1, 0.2)), 0, S, LED_BY)
    after = measure_window(ok, 0, S, {0: 2, 1: 4})
    return TrialFigures(
        trial=trial,
        limit_s=10.0,
        zone_of={1: "a", 2: "b", 3: "a", 4: "b"},
        before=calm,
        after=after,
        surge=attrs.evolve(after, served_s=served_s),
    )


def test_a_trial_that_fits_shows_that_nobody_is_overloaded_and_how_much_is_left() -> None:
    assert figures(19.0).missing() is None
    assert figures(17.0).missing() == "2 brokers are left by the rule, and 1.70 in fact"
    assert "n2 left messages unanswered, and the rule says that none does" in str(
        figures(20.0, answered=False).missing()
    )


def test_a_trial_that_does_not_fit_has_to_show_an_overload() -> None:
    fewer = CapacityTrial(name="2+1", sizes=(1, 2), needs=3, fits=False)
    assert figures(20.0, answered=False, trial=fewer).missing() is None
    assert "everything was answered" in str(figures(20.0, trial=fewer).missing())


def test_a_trial_that_was_overloaded_before_shows_nothing() -> None:
    found = figures(20.0)
    late = measure_window(sends_of((0, 0.1, None), (1, 0.1, 0.2)), 0, S, LED_BY)
    assert "before the loss n1" in str(attrs.evolve(found, before=late).missing())


def test_the_page_shows_each_broker_and_each_trial(tmp_path: Path) -> None:
    rows: list[Any] = [
        row | {"before": {**row["before"], "brokers": dict.fromkeys("1234", row["before"]["brokers"]["1"])}}
        for row in (figures(19.0).row(), figures(17.0).row())
    ]
    page = page_of({"command": "quorumlog capacity", "trials": rows})
    text = render_experiment(tmp_path, page).read_text()
    assert text.count("<rect") == 2 * 8
    assert "n4 after: 10%" in text
    assert "2 brokers are left by the rule, and 1.70 in fact" in text
    assert page.tables[0].lines()[2].startswith("| 2+2 | 2 | 2 | 4 | 4 | 1 | 2 | 1.90 | -5.0% | 100.0% |")
