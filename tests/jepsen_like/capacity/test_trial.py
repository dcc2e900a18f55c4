"""A trial of capacity on real Kafka brokers: too few brokers are overloaded, by as much as the rule states."""

from pathlib import Path

import pytest

from jepsen_like.capacity.plan import Limit, plan_trials
from jepsen_like.capacity.trial import run_trial


@pytest.mark.campaign
async def test_one_broker_fewer_than_the_rule_demands_is_overloaded(tmp_path: Path) -> None:
    trial = next(trial for trial in plan_trials([2]) if not trial.fits)
    found = await run_trial(trial, Limit(requests_per_s=40.0), tmp_path)
    assert found.missing() is None
    assert found.after.overloaded
