"""Zones: the places where the processes and clients of a cluster stand, as data.

Faults (`zone-down`), the network (delay and bandwidth between zones), systems (`broker.rack`), the check of placement and the
report all read the same `ZoneMap`. A cluster without zones has `NOWHERE`, so no one has to ask for them.
"""

import enum
import re
import string
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import attrs

from jepsen_like.port.wires import CLIENTS, Pair, Route

OUTSIDE: Final = "clients"
"""The zone of clients that stand in none of the cluster's: as far away from each as those are from each other."""
ZONES_MAX: Final = 9
_SIZES: Final = re.compile(r"\d{1,2}(\+\d{1,2})*")


class Placement(enum.StrEnum):
    """The rule by which copies of the same records are placed."""

    SPREAD = "spread"
    """Each copy in another zone, as far as there are zones."""
    TOGETHER = "together"
    """All copies in one zone: the opposite, on purpose."""


class WrongZones(Exception):
    """Zones that a cluster cannot have; the text gives the reason."""


@attrs.frozen(kw_only=True)
class ZoneMap:
    """The zones of a cluster. `of` is the zone of each member by id; `names` are all zones, in order."""

    names: tuple[str, ...] = ()
    of: Mapping[int, str] = {}
    with_data: frozenset[int] = frozenset()
    """The members that hold copies of records."""
    placement: Placement = Placement.SPREAD
    delay_s: float = 0.0
    """One way between two zones."""
    bytes_per_s: float = 0.0
    """All that passes from one zone to another, together; 0 for no bound."""
    clients: str = OUTSIDE
    """The zone in which the clients stand."""

    def zone_of(self, member: int) -> str:
        """The zone of a member; empty in a cluster without zones."""
        return self.of.get(member, "")

    def members(self, zone: str) -> tuple[int, ...]:
        """All that stand in a zone, in order of their ids."""
        return tuple(sorted(member for member, its in self.of.items() if its == zone))

    def whole(self, members: Iterable[int]) -> tuple[int, ...]:
        """All that stand in the zones of these members, in order of their ids."""
        hit = {self.of[member] for member in members}
        return tuple(sorted(member for member, its in self.of.items() if its in hit))

    def border(self, members: Iterable[int]) -> tuple[tuple[Pair, ...], tuple[int, ...]]:
        """Returns the ways between the zones of these members and all other zones: pairs, and the nodes of clients' ways."""
        inside = frozenset(self.whole(members))
        pairs = tuple(
            (one, two) for one in sorted(self.of) for two in sorted(self.of) if (one in inside) != (two in inside)
        )
        are_inside = self.clients in {self.of[member] for member in inside}
        return pairs, tuple(sorted(member for member in self.of if (member in inside) != are_inside))

    def routes(self) -> tuple[Route, ...]:
        """Returns the lines between two zones, one for each direction, that have a delay or a bound."""
        if not (self.delay_s or self.bytes_per_s):
            return ()
        places = {**self.of, CLIENTS: self.clients}
        lines: dict[tuple[str, str], list[Pair]] = {}
        for one, its in sorted(places.items()):
            for two, other in sorted(places.items()):
                if its != other:
                    lines.setdefault((its, other), []).append((one, two))
        return tuple(
            Route(ways=tuple(ways), delay_s=self.delay_s, bytes_per_s=self.bytes_per_s) for ways in lines.values()
        )

    def find_misplaced(self, copies: Mapping[str, Sequence[int]]) -> list[str]:
        """Returns a sentence for each of these whose copies do not stand as the rule demands; `copies` are nodes by name."""
        usable = len({self.of[node] for node in self.with_data})
        found = []
        for name, nodes in sorted(copies.items()):
            used = {self.zone_of(node) for node in nodes}
            wanted = min(len(nodes), usable) if self.placement is Placement.SPREAD else 1
            if self.names and nodes and len(used) != wanted:
                stand = ", ".join(f"n{node} in {self.zone_of(node)}" for node in nodes)
                found.append(
                    f"the copies of {name} stand in {len(used)} zones ({stand}); {self.placement} demands {wanted}"
                )
        return found

    def as_json(self) -> dict[str, Any]:
        """As test.json holds them."""
        return {
            "members": {name: list(self.members(name)) for name in self.names},
            "placement": self.placement.value,
            "delay_s": self.delay_s,
            "bytes_per_s": self.bytes_per_s,
            "clients": self.clients,
        }


NOWHERE: Final = ZoneMap()
"""The zones of a cluster without any."""


@attrs.frozen(kw_only=True)
class ZonePlan:
    """The zones that a cluster is to have, before it is known who its members are; `sizes` empty: as even as can be."""

    count: int = 0
    sizes: tuple[int, ...] = ()
    placement: Placement = Placement.SPREAD
    delay_s: float = 0.0
    bytes_per_s: float = 0.0
    clients: str = OUTSIDE

    @classmethod
    def of(cls, text: str, **more: Any) -> "ZonePlan":
        """From `3`, three zones, or `2+1`, the number of data nodes in each. Raises `WrongZones`."""
        if not _SIZES.fullmatch(text):
            raise WrongZones(f"{text!r} is neither a number of zones, like 3, nor the nodes in each, like 2+1")
        sizes = tuple(map(int, text.split("+"))) if "+" in text else ()
        plan = cls(count=len(sizes) or int(text), sizes=sizes, **more)
        if not 2 <= plan.count <= ZONES_MAX:
            raise WrongZones(f"{text}: there can be 2 to {ZONES_MAX} zones, not {plan.count}")
        if plan.clients not in (*plan.names, OUTSIDE):
            raise WrongZones(f"clients cannot stand in {plan.clients!r}; there are {', '.join((*plan.names, OUTSIDE))}")
        return plan

    @property
    def names(self) -> tuple[str, ...]:
        """The zones, in order."""
        return tuple(string.ascii_lowercase[: self.count])

    @property
    def text(self) -> str:
        """As `of` reads it."""
        return "+".join(map(str, self.sizes)) if self.sizes else str(self.count)

    def settle(self, groups: Sequence[Sequence[int]], others: Sequence[int] = ()) -> ZoneMap:
        """Returns the zones of a cluster: of the `groups` of nodes that hold the same records, and of the `others` in turn.

        Raises `WrongZones` if they do not fit.
        """
        if not self.count:
            return NOWHERE
        nodes = sum(map(len, groups))
        if self.sizes and sum(self.sizes) != nodes:
            raise WrongZones(f"{self.text}: these are places for {sum(self.sizes)} nodes, and there are {nodes}")
        place = _spread if self.placement is Placement.SPREAD else _together
        of = place(groups, self.names, self.sizes)
        of |= {member: self.names[at % self.count] for at, member in enumerate(others)}
        return ZoneMap(
            names=self.names,
            of=of,
            with_data=frozenset(node for group in groups for node in group),
            placement=self.placement,
            delay_s=self.delay_s,
            bytes_per_s=self.bytes_per_s,
            clients=self.clients,
        )


NO_ZONES: Final = ZonePlan()
"""The plan of a cluster without any."""


def _spread(groups: Sequence[Sequence[int]], names: Sequence[str], sizes: Sequence[int]) -> dict[int, str]:
    """Each node of a group where the fewest of its group are, then where the most room is; each group begins one zone further."""
    nodes = sum(map(len, groups))
    room = dict(
        zip(names, sizes or [(nodes + len(names) - 1 - at) // len(names) for at in range(len(names))], strict=True)
    )
    of: dict[int, str] = {}
    for number, group in enumerate(groups):
        turn = {name: (at - number) % len(names) for at, name in enumerate(names)}
        used = dict.fromkeys(names, 0)
        for node in group:
            free = [name for name in names if room[name]]
            of[node] = name = min(free, key=lambda name: (used[name], -room[name], turn[name]))
            used[name] += 1
            room[name] -= 1
    return of


def _together(groups: Sequence[Sequence[int]], names: Sequence[str], sizes: Sequence[int]) -> dict[int, str]:
    """A group in the next zone that has room for all of it. Raises `WrongZones` if there is none."""
    room = dict(zip(names, sizes, strict=True)) if sizes else {}
    of: dict[int, str] = {}
    for number, group in enumerate(groups):
        name = names[number % len(names)]
        if sizes:
            fitting = [name for name in names if room[name] >= len(group)]
            if not fitting:
                raise WrongZones(f"no zone has room for all of {', '.join(f'n{node}' for node in group)}")
            name = fitting[0]
            room[name] -= len(group)
        of |= dict.fromkeys(group, name)
    return of
