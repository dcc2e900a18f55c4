"""A short run of the fuzzer of RocketMQ's ports; `python -m tests.fuzz.rocketmq` is the long one."""

import pytest

from tests.fuzz.rocketmq import EPISODE_EVERY, fuzz


@pytest.mark.cluster
def test_fuzzed_frames_and_rogue_peers_end_their_own_connections_and_nothing_else() -> None:
    outcome = fuzz(frames=25 * EPISODE_EVERY, seed=20)
    assert outcome["reached_handler"] > 200
    assert len(outcome["episodes"]) == 22
    assert outcome["lies_told_to_a_slave"] == 1
