"""A replacement of the cluster's secret, its certificates and their authority, while it serves."""

import random
from collections.abc import Sequence
from typing import ClassVar, Final

import trio

from jepsen_like.cluster.cluster import Cluster
from jepsen_like.nemesis.kind import NemesisKind, Seen, Withheld, look_at
from jepsen_like.nemesis.targets import Lane, ResolvedTarget, Target

READ_WITHIN_S: Final = 1.5
"""A process that begins a connection has read changed files after this time: it looks at them once a second."""
ADDED, TURNED, DROPPED = "added", "turned", "dropped"


class Rotate(NemesisKind):
    """The three steps of `cluster.keys`, each once every process can have read the one before. It concerns all nodes."""

    name: ClassVar[str] = "rotate"
    lane: ClassVar[Lane] = Lane.KEYS
    targets: ClassVar[tuple[Target, ...]] = ()
    hits_first: ClassVar[Target] = Target.ALL

    def select(self, rng: random.Random, target: Target, nodes: Sequence[int], leader: int) -> ResolvedTarget:
        """All nodes, whatever the target is."""
        return ResolvedTarget(tuple(nodes))

    async def inject(self, cluster: Cluster, hit: ResolvedTarget) -> Seen:
        """The first step."""
        if not cluster.keys.exist:
            raise Withheld("the cluster has neither a secret nor certificates")
        return {f"{ADDED}: {what}": told for what, told in cluster.keys.add().items()}

    async def hold(self, cluster: Cluster, hit: ResolvedTarget, hold_s: float) -> Seen:
        """The second step. New connections are tried once its time is over."""
        await trio.sleep(READ_WITHIN_S)
        turned = {f"{TURNED}: {what}": told for what, told in cluster.keys.turn().items()}
        await trio.sleep(max(READ_WITHIN_S, hold_s - READ_WITHIN_S))
        return turned | await cluster.try_ways((), hit.nodes)

    async def undo(self, cluster: Cluster, hit: ResolvedTarget) -> Seen:
        """The last step; before the second the first is taken back."""
        dropped = {f"{DROPPED}: {what}": told for what, told in cluster.keys.drop().items()}
        return dropped | look_at(cluster, hit.nodes)
