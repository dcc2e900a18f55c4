"""Faults of the ways between processes, node to node and client to node. They are undone all at once."""

import random
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import attrs
import trio

from jepsen_like.cluster.cluster import Cluster
from jepsen_like.nemesis.kind import DrawnAs, NemesisKind, Seen, Withheld, look_at
from jepsen_like.nemesis.targets import Lane, ResolvedTarget, Target, around, both_ways, draw_parts
from jepsen_like.port.port import Scope
from jepsen_like.port.wires import CLEAR, CUT, Condition

FLAP_S = (0.05, 0.3)
"""The times for which a flapping link is cut, and for which it is not."""
RESET_S = (0.05, 0.5)
"""Connections live this long between two resets."""
SHRINK_POLL_S = 0.1


class LinkKind(NemesisKind):
    """A fault of links: seen when it has held for its time."""

    lane: ClassVar[Lane] = Lane.NETWORK
    nodes_min: ClassVar[int] = 2
    shows: ClassVar[str]
    """The words with which every way that it concerns tells of it."""

    async def hold(self, cluster: Cluster, hit: ResolvedTarget, hold_s: float) -> Seen:
        """That nothing passed, or how much, is only worth saying after a while."""
        await trio.sleep(hold_s)
        return evidence(cluster)

    async def undo(self, cluster: Cluster, hit: ResolvedTarget) -> Seen:
        """Restore every link. Returns which of them carry bytes again."""
        cluster.network.heal()
        return look_at(cluster, hit.nodes) | await cluster.try_ways(hit.pairs, hit.clients)


class Parting(LinkKind):
    """A fault that parts groups of nodes."""

    drawn_as: ClassVar[DrawnAs | None] = "cut"
    shows: ClassVar[str] = "cut"
    targets: ClassVar[tuple[Target, ...]] = (Target.HALVES, Target.ONE_WAY, Target.BRIDGE, Target.RING)

    def select(self, rng: random.Random, target: Target, nodes: Sequence[int], leader: int) -> ResolvedTarget:
        """The ways between the parts."""
        return draw_parts(rng, target, nodes, leader)

    async def inject(self, cluster: Cluster, hit: ResolvedTarget) -> Seen:
        """All at once."""
        cluster.network.impose(CUT, hit.pairs, hit.clients)
        return {}


class Partition(Parting):
    """Links that pass nothing."""

    name: ClassVar[str] = "partition"


class Flapping(Parting):
    """Links that are cut and healed again many times a second, all together."""

    name: ClassVar[str] = "flapping"

    async def hold(self, cluster: Cluster, hit: ResolvedTarget, hold_s: float) -> Seen:
        """Heal and cut, again and again."""
        rng = random.Random(hit.seed)
        with trio.move_on_after(hold_s):
            while True:
                for condition in (CLEAR, CUT):
                    await trio.sleep(rng.uniform(*FLAP_S))
                    cluster.network.impose(condition, hit.pairs, hit.clients)
        return evidence(cluster)


class ShrinkIsr(LinkKind):
    """The followers of one leader are cut off until none is in sync; a majority remains: fewer copies than nodes."""

    name: ClassVar[str] = "shrink-isr"
    shows: ClassVar[str] = "cut"
    targets: ClassVar[tuple[Target, ...]] = ()
    nodes_min: ClassVar[int] = 3
    shrinks_within_s: ClassVar[float] = 15.0
    """It waits at most this long for the last follower to leave."""

    def select(self, rng: random.Random, target: Target, nodes: Sequence[int], leader: int) -> ResolvedTarget:
        """The leader; who follows it is asked later."""
        return ResolvedTarget((leader,), seed=rng.getrandbits(32))

    async def locate(self, cluster: Cluster, scope: Scope, hit: ResolvedTarget) -> ResolvedTarget:
        """Every way of the followers."""
        (leader,) = hit.nodes
        followers = [node for node in await cluster.control.copies(scope) if node != leader]
        others = [node for node in cluster.targets if node not in followers]
        if not followers:
            raise Withheld(f"no node is known to follow n{leader} in {scope or 'this system'}")
        if len(others) <= len(cluster.targets) // 2:
            raise Withheld(
                f"without {', '.join(f'n{node}' for node in followers)} there is no majority to agree on a smaller ISR: "
                "use more nodes, or fewer copies"
            )
        apart = tuple((one, other) for one in followers for other in followers if one != other)
        return attrs.evolve(hit, pairs=(*both_ways(followers, others), *apart), scope=scope)

    async def inject(self, cluster: Cluster, hit: ResolvedTarget) -> Seen:
        """All at once; complete when only the leader is in sync."""
        cluster.network.impose(CUT, hit.pairs, hit.clients)
        in_sync: tuple[int, ...] = ()
        with trio.move_on_after(self.shrinks_within_s):
            while in_sync != hit.nodes:
                in_sync = await cluster.control.in_sync(hit.scope) or in_sync
                await trio.sleep(SHRINK_POLL_S)
        return {f"in sync with {hit.scope}": ", ".join(f"n{node}" for node in in_sync)}


class Around(LinkKind):
    """A fault of every way of some nodes, to their clients too."""

    targets: ClassVar[tuple[Target, ...]] = (Target.ONE, Target.MINORITY, Target.ALL)

    def select(self, rng: random.Random, target: Target, nodes: Sequence[int], leader: int) -> ResolvedTarget:
        """The ways from and to the nodes."""
        return around(rng, target, nodes, leader)


class Imposed(Around):
    """One condition, drawn from the fault's seed."""

    ranges: ClassVar[Mapping[str, tuple[float, float]]] = {}
    """The fields of the condition that are drawn, each from the least to the most."""

    def condition(self, rng: random.Random) -> Condition:
        """Returns the condition of the ways while it holds."""
        drawn: dict[str, Any] = {name: rng.uniform(*bounds) for name, bounds in self.ranges.items()}
        return Condition(**drawn)

    async def inject(self, cluster: Cluster, hit: ResolvedTarget) -> Seen:
        """All ways at once; each direction may be chosen alone."""
        rng = random.Random(hit.seed)
        cluster.network.impose(self.condition(rng), hit.pairs, hit.clients)
        return {}


class Slow(Imposed):
    """Delay and jitter, each direction by its own measure."""

    name: ClassVar[str] = "slow"
    shows: ClassVar[str] = "slow by"
    ranges: ClassVar[Mapping[str, tuple[float, float]]] = {"delay_s": (0.005, 0.06), "jitter_s": (0.0, 0.06)}
    """One way; an election timeout is a second and more, so a slow group still serves."""

    async def inject(self, cluster: Cluster, hit: ResolvedTarget) -> Seen:
        """Slow the ways in and the ways out by different measures."""
        rng = random.Random(hit.seed)
        inward = tuple(pair for pair in hit.pairs if pair[1] in hit.nodes)
        outward = tuple(pair for pair in hit.pairs if pair[1] not in hit.nodes)
        cluster.network.impose(self.condition(rng), inward, hit.clients)
        cluster.network.impose(self.condition(rng), outward)
        return {}


class Throttle(Imposed):
    """Links that pass no more than so many bytes a second."""

    name: ClassVar[str] = "throttle"
    shows: ClassVar[str] = "throttled to"
    ranges: ClassVar[Mapping[str, tuple[float, float]]] = {"bytes_per_s": (24 * 1024.0, 256 * 1024.0)}


class HalfOpen(Imposed):
    """Nodes that disappear without closing connections: what is sent to and by them is dropped."""

    name: ClassVar[str] = "half-open"
    shows: ClassVar[str] = "half-open"
    targets: ClassVar[tuple[Target, ...]] = (Target.ONE, Target.MINORITY, Target.MAJORITY)
    takes_down: ClassVar[bool] = True
    drawn_as: ClassVar[DrawnAs | None] = "cut"

    def condition(self, rng: random.Random) -> Condition:
        """New connections hang, or are refused."""
        return Condition(is_swallowing=True, refuses=rng.random() < 0.5)


class Reset(Around):
    """Established connections end with RST, again and again."""

    name: ClassVar[str] = "reset"
    shows: ClassVar[str] = "reset"

    async def inject(self, cluster: Cluster, hit: ResolvedTarget) -> Seen:
        """Once."""
        cluster.network.reset(hit.pairs, hit.clients)
        return {}

    async def hold(self, cluster: Cluster, hit: ResolvedTarget, hold_s: float) -> Seen:
        """And again."""
        rng = random.Random(hit.seed)
        with trio.move_on_after(hold_s):
            while True:
                await trio.sleep(rng.uniform(*RESET_S))
                cluster.network.reset(hit.pairs, hit.clients)
        return evidence(cluster)


def evidence(cluster: Cluster) -> Seen:
    """Returns the effects on every way that is not as it should be."""
    return {each.way: str(each) for each in cluster.network.evidence()}
