"""Each group has a budget of damage of its own: nodes of two groups hold no copies of each other."""

from typing import cast

import attrs
import pytest
import trio.testing

from jepsen_like.cluster.cluster import Cluster
from jepsen_like.nemesis import budget
from jepsen_like.nemesis.kind import Withheld


@attrs.frozen
class Unasked:
    """A cluster of which it is not known how far its nodes are."""

    @property
    def control(self) -> "Unasked":
        return self

    async def goal(self) -> None:
        return None


async def test_damage_to_one_group_is_none_to_another(autojump_clock: trio.testing.MockClock) -> None:
    cluster = cast(Cluster, Unasked())
    account = budget.DamageBudget(lambda nodes: nodes - 1, [(1, 2), (3, 4)])
    account.charge([1])
    await account.room_for(cluster, [3])
    with pytest.raises(Withheld, match="n1 had not caught up"):
        await account.room_for(cluster, [2])
    with pytest.raises(Withheld, match="damage to 2 nodes is more"):
        await account.room_for(cluster, [3, 4])
