"""A scenario compares its trials, and one in which the story did not come about is not taken for one in which it did."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import attrs
import click
import pytest

from jepsen_like.cli import ExitStatus
from jepsen_like.port.scenario import Shows
from jepsen_like.record.results import RunResults
from jepsen_like.run.command import validate
from jepsen_like.run.scenario import (
    TAKES_OVER_S,
    chosen_trials,
    judge,
    missing,
    plan_trial,
    reproduction,
    scenarios,
    status_of,
)

EVERY_TRIAL = [
    pytest.param(system, story, trial, id=f"{story.name}-{trial.name}")
    for system, story in scenarios().values()
    for trial in story.trials
]


def silent(a: float, b: float | None, all_s: float) -> dict[str, Any]:
    return {"silences": {"scopes_s": {"broker-a": a, "broker-b": b}, "all_s": all_s}}


def make_recovery(*first_s: float | None) -> dict[str, Any]:
    return {"rto_s": {"faults": [{"s": s, "hold_s": 8.0, "recovered": s is not None} for s in first_s]}}


INVERTED = [{"check": "key_order", "count": 5}, {"check": "two_owners", "count": 2}]


def under(**changes: int) -> dict[str, Any]:
    """Returns the record of progress while the one fault held."""
    return {"under_faults": [{"hold_s": 8.0, "left": 9, "given_late": 0, "keys": 4, "keys_waiting": 0, **changes}]}


def results(**changes: Any) -> RunResults:
    faults = [{"begin_s": 4.0, "end_s": 12.0}, {"begin_s": 5.0, "end_s": 6.0}]
    stalls = {"groups_s": {"readers": 0.2, "auditors": 0.3}, "reads_s": 0.1}
    document = {
        "valid": True,
        "acked": 9,
        "lost_acked": 0,
        "lost_allowed": [],
        "stalls": stalls,
        **silent(8.1, 0.2, 0.1),
        **make_recovery(2.0, 8.2),
        "faults": faults,
        **changes,
    }
    return RunResults.of_json(document)


@pytest.mark.parametrize(("system", "story", "trial"), EVERY_TRIAL)
def test_every_trial_is_a_run_that_can_be_started(system: Any, story: Any, trial: Any) -> None:
    plan = plan_trial(system, story, trial, 1)
    validate(plan)
    assert plan.faults() == trial.faults
    assert all(fault.at_s < story.duration_s for fault in trial.faults)


@pytest.mark.parametrize(
    ("shows", "changes", "why"),
    [
        (Shows.LOSS, {}, "no loss that the mode allows was found"),
        (Shows.LOSS, {"lost_acked": 3, "lost_allowed": [{"records": 3}]}, None),
        (Shows.NO_LOSS, {}, None),
        (Shows.NO_LOSS, {"lost_acked": 3}, "3 records were lost"),
        (Shows.BROKEN, {"valid": False}, None),
        (Shows.BROKEN, {"valid": None}, "every promise was kept"),
        (Shows.SCOPE_STOPS_ALONE, {}, None),
        (Shows.SCOPE_STOPS_ALONE, {"lost_acked": 3}, "3 records were lost"),
        (Shows.SCOPE_STOPS_ALONE, silent(7.1, 0.1, 0.1), "broker-a stopped for 7.1 s only"),
        (Shows.SCOPE_STOPS_ALONE, silent(8.1, 4.1, 0.1), "broker-b stopped too, for 4.1 s"),
        (Shows.SCOPE_STOPS_ALONE, silent(8.1, 0.2, 4.1), "nothing was acknowledged for 4.1 s"),
        (Shows.SCOPE_STOPS_ALONE, silent(8.1, None, 0.1), "nothing of broker-b was ever acknowledged"),
        (Shows.MAJORITY_COUNTS, {}, None),
        (Shows.MAJORITY_COUNTS, {"lost_acked": 3}, "3 records were lost"),
        (Shows.MAJORITY_COUNTS, make_recovery(8.1, 8.2), "while one was down"),
        (Shows.MAJORITY_COUNTS, make_recovery(None, 8.2), "while one was down"),
        (Shows.MAJORITY_COUNTS, make_recovery(2.0, 5.9), "acknowledged while two were down"),
        (Shows.MAJORITY_COUNTS, make_recovery(2.0, 6.1), None),
        (Shows.MAJORITY_COUNTS, make_recovery(2.0, None), "nothing was acknowledged after two had been down"),
        (Shows.ZONE_SURVIVED, make_recovery(2.0), None),
        (Shows.ZONE_SURVIVED, make_recovery(6.1), "no write was acknowledged while the zone was down"),
        (Shows.ZONE_SURVIVED, make_recovery(None), "no write was acknowledged while the zone was down"),
        (Shows.ZONE_SURVIVED, {"lost_acked": 3, **make_recovery(2.0)}, "3 records were lost"),
        (Shows.STOPS_WITH_ZONE, make_recovery(6.1), None),
        (Shows.STOPS_WITH_ZONE, make_recovery(2.0), "a write was acknowledged 2.0 s after"),
        (Shows.STOPS_WITH_ZONE, {"lost_acked": 3, **make_recovery(6.1)}, "3 records were lost"),
        (Shows.LOST_WITH_ZONE, make_recovery(6.1), "no loss that the mode allows was found"),
        (Shows.LOST_WITH_ZONE, {"lost_allowed": [{"records": 3}], **make_recovery(6.1)}, None),
        (Shows.LOST_WITH_ZONE, {"lost_allowed": [{"records": 3}], **make_recovery(2.0)}, "a write was acknowledged"),
        (Shows.GROUPS_GO_ON, {}, None),
        (Shows.GROUPS_STALL, {}, "stalled for 0.2 s only"),
        (Shows.GROUPS_STALL, {"stalls": {"groups_s": {"readers": 9.0}, "reads_s": 0.1}}, None),
        (Shows.GROUPS_STALL, {"stalls": {"groups_s": {"readers": 9.0}, "reads_s": 9.0}}, "plain reads stalled"),
        (Shows.GROUPS_STALL, {"stalls": {"groups_s": {"readers": 9.0}, "reads_s": None}}, "plain reads stalled"),
        (Shows.GROUPS_GO_ON, {"stalls": {"groups_s": {"readers": TAKES_OVER_S}, "reads_s": 0.1}}, "readers stalled"),
        (Shows.GROUPS_GO_ON, {"stalls": {"groups_s": {"readers": None}, "reads_s": 0.1}}, "never committed anything"),
        (Shows.CONSUMERS_GO_ON, under(given_late=3), None),
        (Shows.CONSUMERS_GO_ON, under(), "nothing was given in the second half"),
        (Shows.CONSUMERS_WAIT, under(), None),
        (Shows.CONSUMERS_WAIT, under(given_late=3), "3 messages were given"),
        (Shows.CONSUMERS_WAIT, under(left=0), "nothing was left"),
        (Shows.WRITES_WAIT_IN_ORDER, under(keys_waiting=2), None),
        (Shows.WRITES_WAIT_IN_ORDER, under(), "0 of 4 keys"),
        (Shows.WRITES_WAIT_IN_ORDER, under(keys_waiting=4), "4 of 4 keys"),
        (Shows.WRITES_WAIT_IN_ORDER, {**under(keys_waiting=2), "tolerated": INVERTED}, "5 messages of a key"),
        (Shows.WRITES_GO_ON_OUT_OF_ORDER, {**under(), "tolerated": INVERTED}, None),
        (Shows.WRITES_GO_ON_OUT_OF_ORDER, under(), "every key kept its order"),
        (Shows.WRITES_GO_ON_OUT_OF_ORDER, {**under(keys_waiting=1), "tolerated": INVERTED}, "1 of 4 keys"),
    ],
)
def test_what_a_trial_was_to_show_is_seen_or_missed(shows: Shows, changes: dict[str, Any], why: str | None) -> None:
    found = missing(shows, results(**changes), down_s=8.0, held_s=6.0)
    assert found is None if why is None else found is not None and why in found


def test_a_scenario_ends_as_its_worst_trial() -> None:
    _, story = scenarios()["acks1-leader-killed"]
    (lossy, safe) = story.trials
    lost = results(lost_acked=2, lost_allowed=[{"records": 2}])
    kept = judge(safe, "2", results())
    assert status_of([judge(lossy, "1", lost), kept]) is ExitStatus.VALID
    assert status_of([judge(lossy, "1", results()), kept]) is ExitStatus.UNKNOWN
    assert status_of([judge(lossy, "1", attrs.evolve(lost, faults=lost.faults[:1])), kept]) is ExitStatus.UNKNOWN
    assert status_of([judge(lossy, "1", attrs.evolve(lost, valid=None)), kept]) is ExitStatus.UNKNOWN
    assert status_of([judge(lossy, "1", attrs.evolve(lost, valid=False)), kept]) is ExitStatus.VIOLATION


def test_a_trial_is_chosen_by_its_name() -> None:
    story = scenarios()["acks1-leader-killed"][1]
    assert [trial.name for trial in chosen_trials(story, ["acks=all"])] == ["acks=all"]
    assert chosen_trials(story, []) == list(story.trials)
    with pytest.raises(click.UsageError, match="there are acks=1, acks=all"):
        chosen_trials(story, ["acks=2"])
    assert reproduction(story, ["acks=all"], 3, quick=True) == (
        "quorumlog scenario acks1-leader-killed --seed 3 --trial acks=all --quick"
    )


@pytest.mark.campaign
@pytest.mark.cluster
def test_a_leader_that_dies_ahead_of_its_followers_loses_what_acks_1_acknowledged(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "jepsen_like.cli", "scenario", "acks1-leader-killed", "--trial", "acks=1"]
    ended = subprocess.run(
        [*command, "--quick", "--json", "--out", str(tmp_path)],
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert ended.returncode == ExitStatus.VALID, ended.stderr
    told = json.loads(ended.stdout.splitlines()[-1])
    assert told == json.loads((tmp_path / "latest" / "scenario.json").read_text())
    (trial,) = told["trials"]
    assert 0 < trial["lost"] == trial["lost_allowed"] < trial["acked"]
    page = (tmp_path / "latest" / "report.html").read_text()
    assert f"{trial['lost']:,} acknowledged, lost (allowed)" in page
