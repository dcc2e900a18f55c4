"""A trial of two topics on real Kafka brokers: a message waits for one failed attempt, and none is lost or given twice."""

from pathlib import Path

import pytest

from jepsen_like.two_clusters.plan import TRIALS
from jepsen_like.two_clusters.trial import run_trial


@pytest.mark.campaign
async def test_a_lost_cluster_costs_one_failed_attempt_and_its_messages_are_set_apart_when_it_is_back(
    tmp_path: Path,
) -> None:
    trial = next(trial for trial in TRIALS if trial.name == "alternate, compensate")
    found = await run_trial(trial, tmp_path)
    assert found.missing() is None
