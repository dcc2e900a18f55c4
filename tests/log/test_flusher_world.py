"""What the group flusher acknowledges outlives any power cut; a few seeds."""

import pytest

from tests.log import flusher_world


@pytest.mark.parametrize("seed", range(6))
async def test_what_is_acknowledged_outlives_a_power_cut(seed: int) -> None:
    await flusher_world.play(seed)
