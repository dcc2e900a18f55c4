"""A few seeds of each small world; `tests.mutants` plays more, with bugs in place."""

import pytest

from tests.raft.shell import client_world, flush_world


@pytest.mark.parametrize("seed", range(3))
async def test_a_client_says_no_more_than_it_can_know(seed: int) -> None:
    await client_world.play(seed)


async def test_what_a_node_acknowledges_is_on_its_disk() -> None:
    await flush_world.play(1)
