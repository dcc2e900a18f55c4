"""One kind of fault: what it can hit, how it is done and undone, what it shows, and what it means for a promise.

A kind is a class without state; `table` holds one of each, and everybody else (command line, schedule, promises,
report) reads it there. A new kind is one class and one line in that table.

A fault has three acts, and each returns what it has seen from outside, by node ("3") or by way ("3>1"): `inject` is
over when the fault is complete, `hold` lasts as long as it is to last, and `undo` is over when all is whole again.
`undo` is also called after an act that was cancelled half-way, so it mends whatever it finds.
"""

import abc
import enum
import random
from collections.abc import Mapping, Sequence
from typing import ClassVar, Final, Literal

import attrs
import trio

from jepsen_like.cluster.cluster import Cluster
from jepsen_like.cluster.machine import Need, lacking
from jepsen_like.nemesis.targets import Lane, ResolvedTarget, Target, processes
from jepsen_like.port.port import Scope
from jepsen_like.port.wires import Network

DrawnAs = Literal["down", "paused", "cut"]
Seen = dict[str, str]
"""The effects of an act, in words."""


TAKES_PART: Final = "takes part"
TAKES_NO_PART: Final = "takes no part: "
"""Begins what was seen over the network of a process that a fault holds."""


class Reach(enum.Enum):
    """The written data that a fault may destroy."""

    NOTHING = enum.auto()
    """Processes come and go; the operating system keeps what was written."""
    UNFLUSHED = enum.auto()
    """Data that no flush has secured."""
    DISK = enum.auto()
    """All that lies on the data disk of a node."""


@attrs.frozen
class Here:
    """The offers of a run to its faults."""

    nodes: int
    network: Network = Network.PROXIES
    zones: int = 0


class Withheld(Exception):
    """A fault that could not be carried out now, or may not be: it is recorded, and the run goes on."""


class NemesisKind(abc.ABC):
    """One kind of fault."""

    name: ClassVar[str]
    """As `--nemesis` names it."""
    lane: ClassVar[Lane]
    targets: ClassVar[tuple[Target, ...]]
    """The targets it can hit in addition to the leader."""
    hits_first: ClassVar[Target] = Target.LEADER
    """The target that every run has at least once."""
    serves_within_s: ClassVar[float] = 10.0
    """The group may be without service for this long after all is healed; after a longer time a run is undecided.

    Generous: an election takes two or three seconds, several times that on a busy machine. A group that needs more has
    a trouble worth a look, whatever its history shows.
    """
    reach: ClassVar[Reach] = Reach.NOTHING
    """The data that may be lost to it, if nothing had secured them."""
    nodes_min: ClassVar[int] = 1
    """In a smaller cluster it means nothing."""
    damages: ClassVar[bool] = False
    """True if a node it hits has afterwards less than it once acknowledged. Such a fault waits until those that were
    damaged before have caught up, so that they never are more than a minority."""
    is_alone: ClassVar[bool] = False
    """True if nothing else may be broken while it holds."""
    takes_zones: ClassVar[bool] = False
    """True if it can be asked for with the target `zone`."""
    takes_down: ClassVar[bool] = False
    """True if the nodes it hits cannot serve while it holds."""
    drawn_as: ClassVar[DrawnAs | None] = None
    """The state in which a picture of the run draws the nodes that it names; None if they go on."""

    needs: ClassVar[frozenset[Need]] = frozenset()
    """The properties that the machines of the run must have for it."""

    def lacks(self, here: Here) -> str | None:
        """Returns why it cannot be done here, and what to do, in one line; None if it can."""
        return next((reason for need in sorted(self.needs, key=str) if (reason := lacking(need))), None)

    @abc.abstractmethod
    def select(self, rng: random.Random, target: Target, nodes: Sequence[int], leader: int) -> ResolvedTarget:
        """Returns what the target means when `leader` leads; `nodes` are all nodes, in order."""

    async def locate(self, cluster: Cluster, scope: Scope, hit: ResolvedTarget) -> ResolvedTarget:
        """Returns those really hit, where a kind has to ask the cluster for them. Raises `Withheld`."""
        return hit

    @abc.abstractmethod
    async def inject(self, cluster: Cluster, hit: ResolvedTarget) -> Seen:
        """Inject the fault. Returns what is observed once it holds. Raises `Withheld`, with nothing touched."""

    async def hold(self, cluster: Cluster, hit: ResolvedTarget, hold_s: float) -> Seen:
        """Let it last, and look at it when it has."""
        await trio.sleep(hold_s)
        return {}

    @abc.abstractmethod
    async def undo(self, cluster: Cluster, hit: ResolvedTarget) -> Seen:
        """Undo the fault. Returns what is observed afterwards."""

    def stops_service(self, hit: int, spare: int) -> bool:
        """Returns True if a group cannot acknowledge while it holds: more are `hit` than the mode can `spare`."""
        return self.takes_down and hit > spare


class MachineKind(NemesisKind):
    """A fault of whole machines, or of their processes."""

    lane: ClassVar[Lane] = Lane.MACHINE
    targets: ClassVar[tuple[Target, ...]] = (Target.ALL, Target.ONE, Target.MINORITY, Target.MAJORITY)

    def select(self, rng: random.Random, target: Target, nodes: Sequence[int], leader: int) -> ResolvedTarget:
        """So many nodes."""
        hit = processes(rng, target, nodes, leader)
        return ResolvedTarget(hit, seed=rng.getrandbits(32), whole_zone=target is Target.ZONE)

    async def locate(self, cluster: Cluster, scope: Scope, hit: ResolvedTarget) -> ResolvedTarget:
        """All that stands in the zone, where one is meant."""
        return in_whole_zone(cluster, hit) if hit.whole_zone else hit


def in_whole_zone(cluster: Cluster, hit: ResolvedTarget) -> ResolvedTarget:
    """Returns all that stands in the zones of the nodes that are hit. Raises `Withheld` in a cluster without zones."""
    if not cluster.zones.names:
        raise Withheld("the cluster has no zones; start it with --zones 3")
    return attrs.evolve(hit, nodes=cluster.zones.whole(hit.nodes))


def look_at(cluster: Cluster, nodes: Sequence[int]) -> Seen:
    """Returns what the kernel reports of the processes of these nodes."""
    return {str(node): cluster.nodes[node].observe() for node in nodes}


Kinds = Mapping[str, NemesisKind]
