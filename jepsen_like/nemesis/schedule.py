"""Which faults a run will see and when: a pure function of the seed, the kinds, the length and the number of nodes.

- Every kind hits the node that leads at that moment (or all, if it concerns all) at least once in any run, and `LEADER_HITS_PER_120_S` times in 120
  s where there is room for it; one hit of each kind comes first, so that a run cut short has had them.
- What remains of the time goes to other targets (followers, minorities, majorities, everything) drawn from the seed;
  the first that a kind names comes first.
- Time is cut in slots, one fault in each, with an end: a schedule leaves nothing broken, and between two slots the
  cluster has time to serve, so that every fault has acknowledgements before and after it.
- In a slot that is long enough a second fault may overlap the first, of the other lane (a slow link while a node is
  killed), and ends before it or with it: never more than two at once, and none together with a kind that has to be
  alone.
"""

import math
import random
from collections.abc import Sequence
from typing import Protocol

import attrs

from jepsen_like.nemesis.targets import Lane, Target

LEADER_HITS_PER_120_S = 3
LEADER_PART = 0.6
"""The share of a run for hits of the leader, beyond the first of each kind."""
SLOT_S = 8.0
"""Something breaks this often where there is no hurry: a fault of 3-4 s, then time to serve in peace."""
SLOT_S_TIGHT = 4.0
"""Something breaks this often where many kinds wait for their turn. Below it no faults overlap."""
SLOT_S_MIN = 2.2
"""Below this an election does not fit between two faults."""
EDGE_S = 3.0
"""Peace at the beginning and at the end of a run, less in a short one."""
EDGE_PART = 0.1
HOLD_PART = (0.38, 0.52)
"""The share of its slot that a fault holds."""
SHORT_PART = 0.6
"""The share of that which remains when nothing can be acknowledged meanwhile."""
OVERLAP_CHANCE = 0.4
OVERLAP_LEADER_CHANCE = 0.3
STOPPING = frozenset({Target.MAJORITY, Target.ALL})


class Drawable(Protocol):
    """The facts about a kind that a schedule must know."""

    @property
    def name(self) -> str:
        """As `--nemesis` names it."""

    @property
    def lane(self) -> Lane:
        """The lane whose time it may not share."""

    @property
    def targets(self) -> tuple[Target, ...]:
        """The targets it can hit in addition to the leader; may be empty."""

    @property
    def hits_first(self) -> Target:
        """The target that every run has: the leader, but for kinds that concern all."""

    @property
    def is_alone(self) -> bool:
        """True if nothing else may be broken meanwhile."""

    @property
    def takes_down(self) -> bool:
        """True if the nodes it hits cannot serve: hitting a majority then stops everything."""


@attrs.frozen
class Fault:
    """One planned fault.

    `at_s` counts from the start of the load; `seed` decides which nodes the target means; `overlaps` is the id of the
    fault within which it begins, 0 for none: it waits until that one is complete. `scope`: whose leader; empty: any.
    """

    id: int
    kind: str
    target: Target
    at_s: float
    hold_s: float
    seed: int
    overlaps: int = 0
    scope: str = ""

    def rng(self) -> random.Random:
        """Returns a generator for resolving the target; its draws are the same at every call."""
        return random.Random(self.seed)


def needed_s(kinds: int) -> float:
    """Returns the shortest run in which so many kinds hit the leader once each, in whole seconds."""
    return math.ceil(kinds * SLOT_S_MIN / (1 - 2 * EDGE_PART))


def schedule(seed: int, kinds: Sequence[Drawable], duration_s: float) -> tuple[Fault, ...]:
    """Returns the faults by time. Raises `ValueError` if `duration_s` is too short to hit the leader by every kind."""
    if not kinds:
        return ()
    rng = random.Random(f"schedule {seed}")
    edge_s = min(EDGE_S, duration_s * EDGE_PART)
    span_s = duration_s - 2 * edge_s
    leader_hits, slots = _room(len(kinds), duration_s, span_s)
    slot_s = span_s / slots
    if slot_s < SLOT_S_MIN:
        raise ValueError(f"{len(kinds)} kinds of faults need at least {needed_s(len(kinds)):g} s, not {duration_s:g}")
    faults: list[Fault] = []
    for number, (kind, target) in enumerate(_order(rng, kinds, leader_hits, slots)):
        is_stopping = kind.takes_down and target in STOPPING
        hold_s = slot_s * rng.uniform(*HOLD_PART) * (SHORT_PART if is_stopping else 1.0)
        slack_s = slot_s * (1 - HOLD_PART[1]) * 0.4
        at_s = edge_s + number * slot_s + rng.uniform(0, slack_s)
        fault = Fault(len(faults) + 1, kind.name, target, round(at_s, 3), round(hold_s, 3), rng.getrandbits(32))
        faults.append(fault)
        others = [other for other in kinds if other.lane is not kind.lane and not other.is_alone]
        if others and not kind.is_alone and slot_s >= SLOT_S_TIGHT and rng.random() < OVERLAP_CHANCE:
            faults.append(_overlapping(rng, fault, others))
    return tuple(faults)


def _room(kinds: int, duration_s: float, span_s: float) -> tuple[int, int]:
    """Returns how often each kind hits the leader, and the number of slots."""
    wanted = math.floor(LEADER_HITS_PER_120_S * duration_s / 120)
    tight = math.floor(span_s / SLOT_S_TIGHT)
    leader_hits = max(1, min(wanted, math.floor(LEADER_PART * tight / kinds)))
    for_all = kinds * leader_hits
    return leader_hits, max(for_all, min(math.ceil(for_all / LEADER_PART), tight), math.floor(span_s / SLOT_S))


def _order(
    rng: random.Random, kinds: Sequence[Drawable], leader_hits: int, slots: int
) -> list[tuple[Drawable, Target]]:
    first = [(kind, kind.hits_first) for kind in kinds]
    rng.shuffle(first)
    rest = [(kind, kind.hits_first) for kind in kinds for _ in range(leader_hits - 1)]
    waiting = {kind.name: list(kind.targets[:1]) for kind in kinds}
    while len(first) + len(rest) < slots:
        kind = rng.choice(kinds)
        targets = waiting[kind.name]
        if not targets:  # each once, before one comes again
            targets += rng.sample(kind.targets, len(kind.targets)) or [kind.hits_first]
        rest.append((kind, targets.pop()))
    rng.shuffle(rest)
    return first + rest


def _overlapping(rng: random.Random, fault: Fault, kinds: Sequence[Drawable]) -> Fault:
    kind = rng.choice(kinds)
    hits_first = not kind.targets or rng.random() < OVERLAP_LEADER_CHANCE
    target = kind.hits_first if hits_first else rng.choice(kind.targets)
    later_s = fault.hold_s * rng.uniform(0.1, 0.5)
    hold_s = (fault.hold_s - later_s) * rng.uniform(0.6, 1.0)
    return Fault(
        fault.id + 1,
        kind.name,
        target,
        round(fault.at_s + later_s, 3),
        round(hold_s, 3),
        rng.getrandbits(32),
        overlaps=fault.id,
    )
