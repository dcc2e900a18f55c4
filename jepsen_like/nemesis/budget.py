"""How many nodes may have less than they once acknowledged: never more than a minority, over all kinds of faults.

A damaged node counts from the blow until it has committed all that the leader held when it was first asked after.
Whoever wants to damage more waits for that, at most `CATCH_UP_WITHIN_S`, and then lets it be. A majority that holds
everything is the assumption under which a group can promise anything; beyond it a loss would prove nothing.
"""

from collections.abc import Iterable

import trio

from jepsen_like.cluster.cluster import Cluster, leader_among
from jepsen_like.nemesis.kind import Withheld

CATCH_UP_WITHIN_S = 20.0
POLL_S = 0.05


class DamageBudget:
    """Keeps the damaged nodes of one cluster."""

    def __init__(self, nodes: int) -> None:
        self.minority = (nodes - 1) // 2
        self._behind: dict[int, int | None] = {}
        """Damaged nodes, each with the commit index it has to reach, once that is known."""

    @property
    def behind(self) -> frozenset[int]:
        """Damaged nodes that are not known to have caught up."""
        return frozenset(self._behind)

    def charge(self, nodes: Iterable[int]) -> None:
        """These have been damaged, or are about to be."""
        self._behind.update(dict.fromkeys(nodes))

    async def room_for(self, cluster: Cluster, nodes: Iterable[int]) -> None:
        """Wait until these may be damaged too. `Withheld` if that takes too long, or can never be."""
        wanted = frozenset(nodes)
        if len(wanted) > self.minority:
            raise Withheld(f"damage to {len(wanted)} nodes is more than a minority ({self.minority})")
        with trio.move_on_after(CATCH_UP_WITHIN_S):
            await self.look(cluster)
            while len(self.behind | wanted) > self.minority:
                await self.look(cluster)
                await trio.sleep(POLL_S)
            return
        names = ", ".join(f"n{node}" for node in sorted(self.behind))
        raise Withheld(f"{names} had not caught up {CATCH_UP_WITHIN_S:g} s after the damage")

    async def look(self, cluster: Cluster) -> None:
        """Ask the nodes how far they are."""
        if not self._behind:
            return
        statuses = await cluster.statuses()
        leader = leader_among(statuses.values())
        if leader is None:
            return
        for node, goal in tuple(self._behind.items()):
            if goal is None:
                # Not its commit index: a leader that was elected just now does not know yet what is committed.
                self._behind[node] = leader.last_index
            elif node in statuses and statuses[node].commit_index >= goal:
                del self._behind[node]
