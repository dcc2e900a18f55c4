"""A member that lies harms no other: their promises hold, they go on, and each claim ends its link."""

import pytest

from jepsen_like.simulation.raft.lies import LyingWorld
from jepsen_like.simulation.raft.swarm import draw
from tests.simulation.raft.test_seeds import format_failure

pytestmark = pytest.mark.simulation


def play(seed: int) -> int:
    """Returns the number of lies, all of which were refused."""
    result = LyingWorld(draw(seed)).run()
    assert not result.violations, format_failure(result)
    assert result.counts["lies_refused"] == result.counts["lies"]
    return result.counts["lies"]


def test_the_others_keep_every_promise() -> None:
    assert sum(play(seed) for seed in range(4)) > 40


@pytest.mark.campaign
def test_the_others_keep_every_promise_in_many_worlds() -> None:
    for seed in range(100, 600):
        play(seed)
