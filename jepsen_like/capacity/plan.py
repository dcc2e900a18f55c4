"""The plan of a measurement of capacity, as data: brokers in zones, who takes over from whom, and the load. Pure.

A load needs M brokers, each with the same capacity. In N equal zones it needs M * N / (N - 1) of them, so that M are
left when one zone is lost. Each trial states what is left by this rule; what was left in fact is measured.

Two conditions make the rule hold, and the plan sees to both: leaders are spread evenly, and so are those who take over
from each. Kafka's controllers need a majority without the lost zone, so arbiters that hold no records may stand in a zone
of their own.
"""

import itertools
import math
from collections.abc import Mapping, Sequence
from typing import Final

import attrs

from jepsen_like.port.zones import ZoneMap

LOAD: Final = 0.95
"""The load on M brokers: a little below their capacity, for a queue at exactly its capacity never grows short again."""
SURGE: Final = 0.6
"""So much of the capacity of M brokers is added in the end, to see what those that are left can do."""
BROKERS_A_ZONE: Final = 2
ZONES_MIN, ZONES_MAX = 2, 4
UNEVEN: Final = (4, 1, 1)


@attrs.frozen(kw_only=True)
class Limit:
    """The stated capacity of each broker: what clients send to it in a second; 0 for no bound."""

    requests_per_s: float = 0.0
    bytes_per_s: float = 0.0

    def requests(self, record_bytes: int) -> float:
        """Returns how many requests of one record it takes in a second."""
        bounds = [self.requests_per_s, self.bytes_per_s / record_bytes]
        return min(bound for bound in bounds if bound)


@attrs.frozen(kw_only=True)
class CapacityTrial:
    """Brokers in zones, under the load of `needs` brokers; the first zone is lost, the largest."""

    name: str
    sizes: tuple[int, ...]
    needs: int
    fits: bool
    """True if by the rule the load fits those that are left."""

    @property
    def brokers(self) -> int:
        """The brokers that hold records."""
        return sum(self.sizes)

    @property
    def left(self) -> int:
        """The brokers that are left."""
        return self.brokers - self.sizes[0]

    @property
    def arbiters(self) -> int:
        """The brokers without records that are needed so that a majority is left."""
        return max(0, 2 * self.sizes[0] - self.brokers + 1)

    @property
    def zones(self) -> str:
        """As `ZonePlan.of` reads it: the last zone is that of the arbiters, if there are any."""
        return "+".join(map(str, (*self.sizes, *([self.arbiters] if self.arbiters else []))))

    def holders(self, zones: ZoneMap) -> dict[int, str]:
        """Returns the brokers that hold records, each with its zone."""
        return {node: zone for node, zone in sorted(zones.of.items()) if zone in zones.names[: len(self.sizes)]}


def brokers_needed(needs: int, zones: int) -> float:
    """Returns the number of brokers in so many zones of which `needs` are left when a zone is lost."""
    return needs * zones / (zones - 1)


def even_sizes(brokers: int, zones: int) -> tuple[int, ...]:
    """Returns the brokers of each zone, as even as can be, the largest zone first."""
    return tuple((brokers + zones - 1 - number) // zones for number in range(zones))


def plan_trials(zones: Sequence[int]) -> list[CapacityTrial]:
    """Returns for each number of zones the brokers that the rule demands, and one fewer; then the uneven zones for three."""
    trials = []
    for count in zones:
        needs = BROKERS_A_ZONE * (count - 1)
        demanded = round(brokers_needed(needs, count))
        for brokers in (demanded, demanded - 1):
            sizes = even_sizes(brokers, count)
            trials.append(CapacityTrial(name=_name(sizes), sizes=sizes, needs=needs, fits=brokers == demanded))
        if sum(UNEVEN) == demanded:
            trials.append(CapacityTrial(name=_name(UNEVEN), sizes=UNEVEN, needs=needs, fits=False))
    return trials


def _name(sizes: Sequence[int]) -> str:
    return "+".join(map(str, sizes))


def place_pairs(zone_of: Mapping[int, str]) -> list[tuple[int, int]]:
    """Returns a pair for each partition: its leader, and in another zone the broker that takes over from it.

    Each broker has a partition with each broker of another zone.
    """
    brokers = sorted(zone_of)
    return [(one, other) for one in brokers for other in brokers if zone_of[one] != zone_of[other]]


def order_sends(pairs: Sequence[tuple[int, int]]) -> list[int]:
    """Returns the partitions in the order in which messages go to them, again and again.

    Each leader has its turn equally often, and so has each of those that take over from it. Leaders come in turn, so that
    no broker gets several messages at once.
    """
    of_leader: dict[int, list[int]] = {}
    for partition, (leader, _) in enumerate(pairs):
        of_leader.setdefault(leader, []).append(partition)
    rounds = math.lcm(*(len(partitions) for partitions in of_leader.values()))
    turns = {leader: itertools.cycle(partitions) for leader, partitions in of_leader.items()}
    return [next(turns[leader]) for _ in range(rounds) for leader in of_leader]
