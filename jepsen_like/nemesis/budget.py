"""Bounds how many nodes may have less than they once acknowledged: in a group never more than the mode can spare.

The bound covers all kinds of faults. A damaged node counts from the fault until it holds all that was acknowledged when
it was first asked for. A fault that would damage more waits for that, at most `CATCH_UP_WITHIN_S`, and is then
withheld. A group can promise something only while enough nodes hold everything; beyond it a loss would prove nothing.
"""

from collections.abc import Callable, Iterable, Sequence

import trio

from jepsen_like.cluster.cluster import Cluster
from jepsen_like.nemesis.kind import Withheld

CATCH_UP_WITHIN_S = 20.0
POLL_S = 0.05


class DamageBudget:
    """Keeps the damaged nodes of one cluster; `spare` tells how many of a group of so many nodes may be damaged."""

    def __init__(self, spare: Callable[[int], int], groups: Sequence[Sequence[int]]) -> None:
        self._groups = [(frozenset(group), spare(len(group))) for group in groups]
        self._behind: dict[int, object | None] = {}
        """Damaged nodes, each with the goal it has to reach, once that is known."""

    @property
    def behind(self) -> frozenset[int]:
        """Damaged nodes that are not known to have caught up."""
        return frozenset(self._behind)

    def charge(self, nodes: Iterable[int]) -> None:
        """These have been damaged, or are about to be."""
        self._behind.update(dict.fromkeys(nodes))

    async def room_for(self, cluster: Cluster, nodes: Iterable[int]) -> None:
        """Wait until these nodes may be damaged too. Raises `Withheld` if that takes too long, or can never be."""
        wanted = frozenset(nodes)
        for group, spare in self._groups:
            if len(wanted & group) > spare:
                raise Withheld(f"damage to {len(wanted & group)} nodes is more than the mode can spare ({spare})")
        with trio.move_on_after(CATCH_UP_WITHIN_S):
            await self.look(cluster)
            while any(len((self.behind | wanted) & group) > spare for group, spare in self._groups):
                await self.look(cluster)
                await trio.sleep(POLL_S)
            return
        names = ", ".join(f"n{node}" for node in sorted(self.behind))
        raise Withheld(f"{names} had not caught up {CATCH_UP_WITHIN_S:g} s after the damage")

    async def look(self, cluster: Cluster) -> None:
        """Ask the nodes how far they are."""
        if not self._behind:
            return
        now = await cluster.control.goal()
        if now is None:
            return
        for node, goal in tuple(self._behind.items()):
            if goal is None:
                self._behind[node] = now
            elif await cluster.control.has_reached(node, goal):
                del self._behind[node]
