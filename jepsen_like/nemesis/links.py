"""Faults of the ways between processes, node to node and client to node. They are undone all at once."""

import random
from collections.abc import Sequence
from typing import ClassVar

import trio

from jepsen_like.cluster.cluster import Cluster
from jepsen_like.nemesis.kind import Kind, Seen, look_at
from jepsen_like.nemesis.targets import Blow, Lane, Target, parted


class LinkKind(Kind):
    """What is done to links: seen when it has held for its time."""

    lane: ClassVar[Lane] = Lane.NETWORK
    nodes_min: ClassVar[int] = 2

    async def hold(self, cluster: Cluster, blow: Blow, hold_s: float) -> Seen:
        """That nothing passed, or how much, is only worth saying after a while."""
        await trio.sleep(hold_s)
        return {each.link: str(each) for each in cluster.network.evidence()}

    async def undo(self, cluster: Cluster, blow: Blow) -> Seen:
        """Every link as it was."""
        cluster.network.heal()
        return look_at(cluster, blow.nodes)


class Partition(LinkKind):
    """Links that pass nothing."""

    name: ClassVar[str] = "partition"
    targets: ClassVar[tuple[Target, ...]] = (Target.HALVES, Target.ONE_WAY, Target.BRIDGE, Target.RING)
    serves: ClassVar[str] = "where a majority is together: after an election timeout and an election; elsewhere not"

    def select(self, rng: random.Random, target: Target, nodes: Sequence[int], leader: int) -> Blow:
        """The ways between the parts."""
        return parted(rng, target, nodes, leader)

    async def inject(self, cluster: Cluster, blow: Blow) -> Seen:
        """All at once."""
        cluster.cut(blow.pairs, blow.clients)
        return {}
