"""A short run of the Kafka port's fuzzer; `python -m tests.fuzz.kafka` is the long one."""

import pytest

from tests.fuzz.kafka import fuzz


@pytest.mark.cluster
def test_fuzzed_requests_end_their_own_connection_and_nothing_else() -> None:
    outcome = fuzz(frames=600, seed=20)
    assert outcome["fates"]["answered"] > 240
    assert outcome["healthy_longest_s"] < 5
