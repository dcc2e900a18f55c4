"""Faults of whole zones: all that stands in one goes down with its power, is cut off, or is far away.

Each hits the zone in which the leader stands, or any. Clients that stand in the zone share its fate: a zone without power
serves no client of its own, and a client behind a cut reaches the nodes of its zone only.
"""

import random
from collections.abc import Mapping, Sequence
from typing import ClassVar, Final

import attrs

from jepsen_like.cluster.cluster import Cluster
from jepsen_like.nemesis.kind import DrawnAs, Here, NemesisKind, Seen, in_whole_zone
from jepsen_like.nemesis.links import Imposed, LinkKind, evidence
from jepsen_like.nemesis.machines import Power
from jepsen_like.nemesis.targets import ResolvedTarget, Target
from jepsen_like.port.port import Scope
from jepsen_like.port.wires import CUT, Condition

GONE: Final = Condition(is_swallowing=True)


class InZone(NemesisKind):
    """A fault of one zone, with every way between it and all others."""

    targets: ClassVar[tuple[Target, ...]] = (Target.ZONE,)
    takes_zones: ClassVar[bool] = True
    nodes_min: ClassVar[int] = 2

    def lacks(self, here: Here) -> str | None:
        """Zones, if there are none; else what the kind needs of machines."""
        return super().lacks(here) if here.zones else "needs a cluster with zones; add --zones 3"

    def select(self, rng: random.Random, target: Target, nodes: Sequence[int], leader: int) -> ResolvedTarget:
        """The zone of the leader, or of any node."""
        chosen = leader if target is Target.LEADER else rng.choice(nodes)
        return ResolvedTarget((chosen,), seed=rng.getrandbits(32), whole_zone=True)

    async def locate(self, cluster: Cluster, scope: Scope, hit: ResolvedTarget) -> ResolvedTarget:
        """All that stands in the zone, and the ways that lead out of it."""
        hit = in_whole_zone(cluster, hit)
        pairs, clients = cluster.zones.border(hit.nodes)
        return attrs.evolve(hit, pairs=pairs, clients=clients)


class ZoneDown(InZone, Power):
    """The processes of a zone are gone with their power, and what no flush has secured with them; then the power comes back.

    Its network has no power either: no connection is closed, and no peer is notified.
    """

    name: ClassVar[str] = "zone-down"
    is_alone: ClassVar[bool] = True
    """A fault of links that ends would open the ways of this one."""

    async def inject(self, cluster: Cluster, hit: ResolvedTarget) -> Seen:
        """All at once, the network first."""
        cluster.network.impose(GONE, hit.pairs, hit.clients)
        return await super().inject(cluster, hit)

    async def hold(self, cluster: Cluster, hit: ResolvedTarget, hold_s: float) -> Seen:
        """That no byte has left the zone is only worth saying after a while."""
        return await super().hold(cluster, hit, hold_s) | evidence(cluster)

    async def undo(self, cluster: Cluster, hit: ResolvedTarget) -> Seen:
        """The network has its power back, then the machines; connections of before are unknown."""
        cluster.network.heal()
        return await super().undo(cluster, hit) | await cluster.try_ways(hit.pairs, hit.clients)


class ZoneCut(InZone, LinkKind):
    """Nothing passes between a zone and all others; within it everything does."""

    name: ClassVar[str] = "zone-cut"
    shows: ClassVar[str] = "cut"
    drawn_as: ClassVar[DrawnAs | None] = "cut"

    async def inject(self, cluster: Cluster, hit: ResolvedTarget) -> Seen:
        """All ways at once."""
        cluster.network.impose(CUT, hit.pairs, hit.clients)
        return {}


class ZoneSlow(InZone, Imposed):
    """The ways between a zone and all others are as long as those to another city."""

    name: ClassVar[str] = "zone-slow"
    shows: ClassVar[str] = "slow by"
    ranges: ClassVar[Mapping[str, tuple[float, float]]] = {"delay_s": (0.015, 0.05), "jitter_s": (0.0, 0.01)}
    """One way, on top of what the zones are apart."""
