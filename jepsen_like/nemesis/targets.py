"""Targets of faults, drawn beforehand, and the nodes and links that they are resolved to.

A fault names its target by role ("leader", "minority"); which nodes that means is decided when it happens, from the
fault's own seed and the leader of that moment. So the same seed hits the same roles at the same times in every run,
even if other nodes lead.
"""

import enum
import random
from collections.abc import Sequence
from typing import assert_never

import attrs

CLIENTS_CUT_CHANCE = 0.35


class Target(enum.StrEnum):
    """The target of a fault. Of links, the target `leader` is separated from all others, in both directions."""

    LEADER = "leader"
    ONE = "one"
    MINORITY = "minority"
    MAJORITY = "majority"
    ALL = "all"
    HALVES = "halves"
    ONE_WAY = "one-way"
    BRIDGE = "bridge"
    RING = "ring"
    """Every node sees a majority, no two the same. Three nodes have no such ring, and get a bridge."""
    ZONE = "zone"
    """All that stands in one zone of the cluster."""
    ENTRANCE = "entrance"
    """One of the processes that hold no data, and tell clients where it is."""
    ENTRANCES = "entrances"


class Lane(enum.StrEnum):
    """Faults of different lanes may hold at the same time, those of one lane never do."""

    NETWORK = "network"
    MACHINE = "machine"
    """Processes, disks and clocks."""
    KEYS = "keys"
    """Secrets and certificates."""


Pair = tuple[int, int]
"""From this node to that one."""


@attrs.frozen
class ResolvedTarget:
    """Resolved as its fault begins: nodes; of links the pairs (from, to) and whose clients; `seed` is for the fault."""

    nodes: tuple[int, ...]
    pairs: tuple[Pair, ...] = ()
    clients: tuple[int, ...] = ()
    seed: int = 0
    scope: str = ""
    """The scope whose leader was meant, for a fault to which that matters."""
    harmed: tuple[int, ...] = ()
    """The nodes whose disks are touched, where those are not all that are hit."""
    whole_zone: bool = False
    """True while `nodes` stand for all that is in their zones."""
    entrance: Target | None = None
    """Set while one or all of the processes that hold no data are meant, and not yet known."""

    @property
    def damaged(self) -> tuple[int, ...]:
        """The nodes that have less afterwards, if the fault damages."""
        return self.harmed or self.nodes

    @property
    def links(self) -> tuple[str, ...]:
        """The links by name, "from>to", clients included."""
        return tuple(f"{sender}>{receiver}" for sender, receiver in self.pairs) + tuple(
            f"client>{node}" for node in self.clients
        )


def processes(rng: random.Random, target: Target, nodes: Sequence[int], leader: int) -> tuple[int, ...]:
    """Returns the nodes of a target; `nodes`: all, in order, not empty. Raises `ValueError` for a target of links."""
    minority = (len(nodes) - 1) // 2
    match target:
        case Target.LEADER:
            return (leader,)
        case Target.ONE | Target.ZONE:  # any node of the zone stands for it
            return (rng.choice(nodes),)
        case Target.MINORITY:
            return tuple(sorted(rng.sample(nodes, max(1, minority))))
        case Target.MAJORITY:
            return tuple(sorted(rng.sample(nodes, len(nodes) - minority)))
        case Target.ALL:
            return tuple(nodes)
        case Target.ENTRANCE | Target.ENTRANCES:
            raise ValueError(f"{target} is about processes that hold no data")
        case Target.HALVES | Target.ONE_WAY | Target.BRIDGE | Target.RING:
            raise ValueError(f"{target} is about links, not processes")
        case _:
            assert_never(target)


def draw_parts(rng: random.Random, target: Target, nodes: Sequence[int], leader: int) -> ResolvedTarget:
    """Returns the links between a target's groups; `nodes` as above. Raises `ValueError` for a target of processes."""
    return attrs.evolve(_draw_parts(rng, target, nodes, leader), seed=rng.getrandbits(32))


def _draw_parts(rng: random.Random, target: Target, nodes: Sequence[int], leader: int) -> ResolvedTarget:
    others = [node for node in nodes if node != leader]
    match target:
        case Target.LEADER:
            clients = (leader,) if rng.random() < CLIENTS_CUT_CHANCE else ()
            return ResolvedTarget((leader,), both_ways([leader], others), clients)
        case Target.HALVES:
            shuffled = rng.sample(nodes, len(nodes))
            smaller, larger = shuffled[: len(nodes) // 2], shuffled[len(nodes) // 2 :]
            return ResolvedTarget(tuple(sorted(smaller)), both_ways(smaller, larger))
        case Target.ONE_WAY:
            # A leader that can send and not receive, or receive and not send.
            outward = rng.random() < 0.5
            return ResolvedTarget((leader,), tuple((leader, other) if outward else (other, leader) for other in others))
        case Target.BRIDGE:
            if len(nodes) < 3:
                return _draw_parts(rng, Target.HALVES, nodes, leader)
            bridge, *sides = rng.sample(nodes, len(nodes))
            half = len(sides) // 2
            return ResolvedTarget((bridge,), both_ways(sides[:half], sides[half:]))
        case Target.RING:
            return _ring(rng, nodes) if len(nodes) > 3 else _draw_parts(rng, Target.BRIDGE, nodes, leader)
        case (
            Target.ONE
            | Target.MINORITY
            | Target.MAJORITY
            | Target.ALL
            | Target.ZONE
            | Target.ENTRANCE
            | Target.ENTRANCES
        ):
            raise ValueError(f"{target} is about processes, not links")
        case _:
            assert_never(target)


def around(rng: random.Random, target: Target, nodes: Sequence[int], leader: int) -> ResolvedTarget:
    """Returns all links of the target's nodes, to and from all other nodes and their clients."""
    hit = processes(rng, target, nodes, leader)
    pairs = tuple((one, other) for one in nodes for other in nodes if one != other and (one in hit or other in hit))
    return ResolvedTarget(hit, pairs, hit, rng.getrandbits(32))


def _ring(rng: random.Random, nodes: Sequence[int]) -> ResolvedTarget:
    """On a ring in random order every node keeps the neighbours on both sides that make a majority with it."""
    ring = rng.sample(nodes, len(nodes))
    reach = (len(ring) // 2 + 1) // 2
    pairs = tuple(
        sorted(
            (one, other)
            for here, one in enumerate(ring)
            for there, other in enumerate(ring)
            if min((here - there) % len(ring), (there - here) % len(ring)) > reach
        )
    )
    return ResolvedTarget(tuple(sorted(ring)), pairs)


def both_ways(ours: Sequence[int], theirs: Sequence[int]) -> tuple[Pair, ...]:
    """Every pair between two groups, in both directions."""
    return tuple(pair for one in sorted(ours) for other in sorted(theirs) for pair in ((one, other), (other, one)))
