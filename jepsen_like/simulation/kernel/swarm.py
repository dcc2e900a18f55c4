"""Draws from a seed what every world has, whichever system lives in it: its size, its network, its faults.

Swarm testing: a run in which *every* fault is on hides the bugs that need one of them off, so each seed switches on a
random part of the faults and draws its own weights and moments.
"""

import enum
from collections.abc import Collection, Sequence
from typing import TypeVar

import attrs

from jepsen_like.simulation.kernel.streams import stream


class FaultKind(enum.Enum):
    """The faults that the nemesis can inject."""

    POWER_CUT = "power_cut"
    """Power is lost at once: whatever was not synced may be gone, in part or whole."""
    CUT_IN_FLUSH = "cut_in_flush"
    """Power is lost while the next fsync is under way."""
    CUT_AFTER_SEND = "cut_after_send"
    """Power is lost right after a chosen kind of message was put on the wire."""
    CUT_AFTER_ANSWER = "cut_after_answer"
    """Power is lost right after a client was told that its write is committed."""
    CUT_ALL = "cut_all"
    """Power is lost on every node at once."""
    KILL = "kill"
    """The process dies, its page cache survives."""
    PAUSE = "pause"
    """The process stands still and comes back with stale timers and a full inbox."""
    ISOLATE = "isolate"
    """One node is cut off from all others."""
    HALVES = "halves"
    """The nodes are split in two groups."""
    ONE_WAY = "one_way"
    """Some links are cut in one direction only."""
    BRIDGE = "bridge"
    """Two groups that see each other only through one node."""
    COUP = "coup"
    """A leader is cut off, alone or with one follower, while clients go on; as it comes back, its successor fails."""
    RESET = "reset"
    """Connections break: what was in flight is lost and both ends are told."""
    CLOCK_JUMP = "clock_jump"
    """A node's clock jumps forward."""
    SLOW_DISK = "slow_disk"
    """A node's fsyncs take many times longer."""
    DISK_FULL = "disk_full"
    """A node's disk has no room for entries, for a while."""
    DISK_FAILS = "disk_fails"
    """One of a node's next disk calls fails; a failed fsync may have lost what it should have saved."""
    LOSS_BURST = "loss_burst"
    """The network loses a third of all messages for a while."""
    DAMAGE = "damage"
    """A node stops, and a part of what its disk had is damaged when it starts again."""
    VANISH = "vanish"
    """A node stops, and a file, a directory or the whole disk is gone when it starts again."""
    STOPS = "stops"
    """All nodes stop in a drawn order and start in another; meanwhile disks may be damaged, or parts of them vanish."""
    ZONE_DOWN = "zone_down"
    """Power is lost on all nodes of a zone at once, and comes back at once."""
    ZONE_CUT = "zone_cut"
    """The nodes of a zone are cut off from all others."""


ZONE_FAULTS = (FaultKind.ZONE_DOWN, FaultKind.ZONE_DOWN, FaultKind.ZONE_CUT)
"""Drawn for worlds with zones."""
ZONES_SHARE = 0.1
"""So many worlds have zones."""
BASIC_FAULTS = tuple(
    kind for kind in FaultKind if kind not in (FaultKind.DAMAGE, FaultKind.VANISH, FaultKind.STOPS, *ZONE_FAULTS)
)
"""The faults of every system that chooses none of its own."""
TELLING = frozenset({FaultKind.COUP, FaultKind.CUT_IN_FLUSH, FaultKind.CUT_AFTER_SEND})
"""Drawn twice as often: they aim at the moments in which most bugs show."""


@attrs.frozen
class PlannedFault:
    """One fault: when it strikes, what it is, and the seed from which it draws everything else."""

    at_s: float
    kind: FaultKind
    name: str


@attrs.frozen(kw_only=True)
class Knobs:
    """The decisions of one seed for any system: virtual seconds, probabilities from 0 to 1. A model adds its own."""

    seed: int
    nodes: int
    safety_s: float
    """Faults strike for this long before the world heals."""
    delay_s: float
    """Typical one-way delay of a message; the tail is several times that."""
    delay_s_spread: float
    loss: float
    duplicate: float
    fifo: bool
    """True if a link keeps the order of messages, as one TCP connection does."""
    clients: int
    faults: tuple[PlannedFault, ...]
    lost: frozenset[tuple[int, int, int]] = frozenset()
    """(from, to, number) of single messages that are lost, counted from 1 on each link; a seed draws none."""
    zones: int = 0
    """The nodes stand in so many zones, in turn; 0: there are none."""
    unasked: frozenset[tuple[int, int]] = frozenset()
    """(client, number) of single requests that are not made, counted from 1; a seed draws none."""

    def zone_of(self, node: int) -> int:
        """The number of a node's zone."""
        return node % self.zones

    @property
    def patience_s(self) -> float:
        """The longest time that a node waits in vain before it acts, a measure for outages and late messages."""
        return 1.0


KnobsT = TypeVar("KnobsT", bound=Knobs)


def with_zones(knobs: KnobsT) -> KnobsT:
    """In one of ten worlds, drawn apart, the nodes stand in two or three zones, of which one or two are struck as a whole."""
    rng = stream(knobs.seed, "zones")
    if rng.random() >= ZONES_SHARE or knobs.nodes < 2:
        return knobs
    zones = min(knobs.nodes, rng.choice((2, 3, 3)))
    struck = [
        PlannedFault(rng.uniform(0.05, 0.95) * knobs.safety_s, rng.choice(ZONE_FAULTS), f"zone/{number}")
        for number in range(rng.choice((1, 1, 2)))
    ]
    faults = tuple(sorted((*knobs.faults, *struck), key=lambda fault: fault.at_s))
    return attrs.evolve(knobs, zones=zones, faults=faults)


def draw_faults(
    seed: int, safety_s: float, kinds: Sequence[FaultKind] = BASIC_FAULTS, telling: Collection[FaultKind] = TELLING
) -> tuple[PlannedFault, ...]:
    """A random part of `kinds`, maybe none, weighted, at random moments; those in `telling` are twice as likely."""
    rng = stream(seed, "faults")
    kinds = [kind for kind in kinds if rng.random() < 0.5]
    if not kinds or rng.random() < 0.02:
        return ()
    weights = [rng.choice((1, 2, 4)) * (2 if kind in telling else 1) for kind in kinds]
    count = rng.randint(2, 14)
    times = sorted(rng.uniform(0.05, 0.95) * safety_s for _ in range(count))
    chosen = rng.choices(kinds, weights, k=count)
    return tuple(
        PlannedFault(at_s, kind, f"fault/{number}")
        for number, (at_s, kind) in enumerate(zip(times, chosen, strict=True))
    )
