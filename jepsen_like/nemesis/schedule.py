"""Which faults a run will see and when: a pure function of the seed, the kinds, the length and the number of nodes.

- Every kind hits the node that leads at that moment at least `LEADER_HITS_PER_120_S` times in 120 s and at least once in
  any run; these hits come first in the order of the run, one of each kind, so that a run cut short has had them.
- What remains of the time goes to other targets (followers, minorities, majorities, everything) drawn from the seed.
- One fault at a time, each with an end: a schedule leaves nothing broken, and between two faults the cluster has time
  to serve, so that every fault has acknowledgements before and after it.

A fault names its target by role ("leader", "minority"); which nodes that means is decided by `select` when it happens,
from the fault's own seed and the leader of that moment. So the same seed hits the same roles at the same times in every
run, whoever leads.
"""

import enum
import math
import random
from collections.abc import Sequence
from typing import assert_never

import attrs

LEADER_HITS_PER_120_S = 3
SLOT_S = 8.0
"""How often something breaks, where time allows: a fault of 3-4 s, then time to serve in peace."""
SLOT_S_MIN = 2.2
"""Below this an election does not fit between two faults."""
EDGE_S = 3.0
"""Peace at the beginning and at the end of a run, less in a short one."""
HOLD_PART = (0.38, 0.52)
"""How much of its slot a fault holds."""
CLIENTS_CUT_CHANCE = 0.35


class FaultKind(enum.StrEnum):
    """What is done to a node, and undone after a while."""

    KILL = "kill"
    """SIGKILL, then started again with its disk."""
    PAUSE = "pause"
    """SIGSTOP, then SIGCONT: it resumes with old beliefs."""
    PARTITION = "partition"
    """Links that pass nothing."""
    RESTART = "restart"
    """SIGTERM, a clean end, then started again."""


class Target(enum.StrEnum):
    """Whom a fault hits. For a partition the leader is isolated, fully."""

    LEADER = "leader"
    ONE = "one"
    MINORITY = "minority"
    MAJORITY = "majority"
    ALL = "all"
    HALVES = "halves"
    ONE_WAY = "one-way"
    BRIDGE = "bridge"


PROCESS_TARGETS = (Target.ONE, Target.MINORITY, Target.MAJORITY, Target.ALL)
OTHER_TARGETS = {
    FaultKind.KILL: PROCESS_TARGETS,
    FaultKind.PAUSE: PROCESS_TARGETS,
    FaultKind.PARTITION: (Target.HALVES, Target.ONE_WAY, Target.BRIDGE),
    FaultKind.RESTART: (Target.ONE, Target.ALL),
}
STOPS_SERVICE = frozenset({Target.MAJORITY, Target.ALL})
"""Nothing can be acknowledged while one of these holds: they are kept shorter."""

Pair = tuple[int, int]


@attrs.frozen
class Fault:
    """One intent. `at_s` counts from the start of the load; `seed` decides which nodes the target means."""

    id: int
    kind: FaultKind
    target: Target
    at_s: float
    hold_s: float
    seed: int


@attrs.frozen
class Blow:
    """What a fault means now: processes to hit, or ordered pairs to cut (from, to) and nodes to cut off from clients."""

    nodes: tuple[int, ...]
    cuts: tuple[Pair, ...] = ()
    clients_cut: tuple[int, ...] = ()


def schedule(seed: int, kinds: Sequence[FaultKind], duration_s: float) -> tuple[Fault, ...]:
    """The faults of a run, in order of time; empty without kinds.

    `ValueError` if `duration_s` is too short to hit the leader once with every kind.
    """
    if not kinds:
        return ()
    rng = random.Random(f"schedule {seed}")
    edge_s = min(EDGE_S, duration_s * 0.1)
    span_s = duration_s - 2 * edge_s
    leader_hits = max(1, math.floor(LEADER_HITS_PER_120_S * duration_s / 120))
    slots = max(len(kinds) * leader_hits, math.floor(span_s / SLOT_S))
    slot_s = span_s / slots
    if slot_s < SLOT_S_MIN:
        needed = math.ceil(len(kinds) * SLOT_S_MIN / 0.8)
        raise ValueError(f"{len(kinds)} kinds of faults need at least {needed} s, not {duration_s:g}")
    faults = []
    for number, (kind, target) in enumerate(_order(rng, kinds, leader_hits, slots)):
        hold_s = slot_s * rng.uniform(*HOLD_PART) * (0.6 if target in STOPS_SERVICE else 1.0)
        slack_s = slot_s * (1 - HOLD_PART[1]) * 0.4
        at_s = edge_s + number * slot_s + rng.uniform(0, slack_s)
        faults.append(Fault(number + 1, kind, target, round(at_s, 3), round(hold_s, 3), rng.getrandbits(32)))
    return tuple(faults)


def _order(
    rng: random.Random, kinds: Sequence[FaultKind], leader_hits: int, slots: int
) -> list[tuple[FaultKind, Target]]:
    first = [(kind, Target.LEADER) for kind in kinds]
    rng.shuffle(first)
    rest = [(kind, Target.LEADER) for kind in kinds for _ in range(leader_hits - 1)]
    while len(first) + len(rest) < slots:
        kind = rng.choice(kinds)
        rest.append((kind, rng.choice(OTHER_TARGETS[kind])))
    rng.shuffle(rest)
    return first + rest


def select(fault: Fault, nodes: Sequence[int], leader: int) -> Blow:
    """Whom `fault` hits when `leader` leads. `nodes` are all nodes of the cluster, at least one."""
    rng = random.Random(fault.seed)
    everyone = sorted(nodes)
    if fault.kind is FaultKind.PARTITION:
        return _partition(rng, fault.target, everyone, leader)
    return Blow(_processes(rng, fault.target, everyone, leader))


def _processes(rng: random.Random, target: Target, nodes: Sequence[int], leader: int) -> tuple[int, ...]:
    minority = (len(nodes) - 1) // 2
    match target:
        case Target.LEADER:
            return (leader,)
        case Target.ONE:
            return (rng.choice(nodes),)
        case Target.MINORITY:
            return tuple(sorted(rng.sample(nodes, max(1, minority))))
        case Target.MAJORITY:
            return tuple(sorted(rng.sample(nodes, len(nodes) - minority)))
        case Target.ALL:
            return tuple(nodes)
        case Target.HALVES | Target.ONE_WAY | Target.BRIDGE:
            raise ValueError(f"{target} is about links, not processes")
        case _:
            assert_never(target)


def _partition(rng: random.Random, target: Target, nodes: Sequence[int], leader: int) -> Blow:
    others = [node for node in nodes if node != leader]
    match target:
        case Target.LEADER:
            clients_cut = (leader,) if rng.random() < CLIENTS_CUT_CHANCE else ()
            return Blow((leader,), _both_ways([leader], others), clients_cut)
        case Target.HALVES:
            shuffled = rng.sample(nodes, len(nodes))
            smaller, larger = shuffled[: len(nodes) // 2], shuffled[len(nodes) // 2 :]
            return Blow(tuple(sorted(smaller)), _both_ways(smaller, larger))
        case Target.ONE_WAY:
            # A leader that is heard and hears nothing, or hears and is not heard.
            outward = rng.random() < 0.5
            cuts = tuple((leader, other) if outward else (other, leader) for other in others)
            return Blow((leader,), cuts)
        case Target.BRIDGE:
            if len(nodes) < 3:
                return _partition(rng, Target.HALVES, nodes, leader)
            bridge, *sides = rng.sample(nodes, len(nodes))
            half = len(sides) // 2
            return Blow((bridge,), _both_ways(sides[:half], sides[half:]))
        case Target.ONE | Target.MINORITY | Target.MAJORITY | Target.ALL:
            raise ValueError(f"{target} is about processes, not links")
        case _:
            assert_never(target)


def _both_ways(ours: Sequence[int], theirs: Sequence[int]) -> tuple[Pair, ...]:
    return tuple(pair for one in sorted(ours) for other in sorted(theirs) for pair in ((one, other), (other, one)))
