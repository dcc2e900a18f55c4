"""Reads what the page shows of the copies of a broker group's commit log: who had which role when, how far each copy was, what was confirmed.

It is what the brokers told (`partitions.parquet`). Times are seconds since the load began. Bounded: of points that share a place of
the time axis one is kept, and of cuts the first.
"""

import itertools
from collections.abc import Mapping
from typing import Any, Final

import attrs
import numpy as np

from jepsen_like.checker.rows.columns import Ints
from jepsen_like.history.ops import NONE
from jepsen_like.history.partition_states import StateKind

POINTS_MAX: Final = 500
"""Of each copy, of its end and of what it confirmed."""
SPANS_MAX: Final = 400
CUTS_MAX: Final = 50
TOLD_EVERY_S: Final = 0.25
"""The time after which a broker reports again where its copy is, while that moves."""

Points = tuple[tuple[float, int], ...]


@attrs.frozen
class RoleSpan:
    """A broker is master or slave in an epoch, from when to when (None: until the end)."""

    begin_s: float
    end_s: float | None
    is_master: bool
    epoch: int


@attrs.frozen
class BrokerCopy:
    """One broker's copy over time. Lines are apart where its process ended."""

    node: int
    roles: tuple[RoleSpan, ...]
    ends: tuple[Points, ...]
    """Ends of its log, in bytes."""
    confirmed: tuple[Points, ...]
    """Up to where it confirmed the log, while it was master."""
    cuts: tuple[tuple[float, int, int], ...]
    """The moment when its log was found to be shorter: the end before and after."""

    def holds(self, *, as_master: bool = False) -> bool:
        """Returns True if it was there when the run ended, as master if that is asked."""
        last = self.roles[-1] if self.roles else None
        return last is not None and last.end_s is None and (last.is_master or not as_master)


@attrs.frozen
class CopyGroup:
    """The copies of one group."""

    copies: tuple[BrokerCopy, ...]

    @property
    def end(self) -> int:
        """The furthest that any copy was."""
        return max((offset for copy in self.copies for line in copy.ends for _, offset in line), default=0)


def read_copies(states: Mapping[str, Any], origin_ns: int) -> tuple[CopyGroup, ...]:
    """Returns the groups among the objects of `partitions.parquet`: those with roles."""
    order = np.argsort(states["t_ns"], kind="stable")
    columns = {name: np.asarray(column)[order] for name, column in states.items()}
    columns["at_s"] = (columns["t_ns"] - origin_ns) / 1e9
    return tuple(
        CopyGroup(
            tuple(
                _copy(columns, np.flatnonzero((columns["object"] == obj) & (columns["node"] == node)), int(node))
                for node in np.unique(columns["node"][columns["object"] == obj])
            )
        )
        for obj in groups_of(states)
    )


def groups_of(states: Mapping[str, Any]) -> list[int]:
    """The objects that are commit logs of groups; the others are partitions."""
    found: list[int] = np.unique(np.asarray(states["object"])[states["kind"] == StateKind.ROLE]).tolist()
    return found


def _copy(columns: Mapping[str, Any], rows: Ints, node: int) -> BrokerCopy:
    roles: list[RoleSpan] = []
    for row in rows[columns["kind"][rows] == StateKind.ROLE].tolist():
        at_s, value = float(columns["at_s"][row]), int(columns["value"][row])
        if roles and roles[-1].end_s is None:
            roles[-1] = attrs.evolve(roles[-1], end_s=at_s)
        if value != NONE:
            roles.append(RoleSpan(at_s, None, bool(value), int(columns["epoch"][row])))
    ends = _lines(columns, rows, StateKind.END)
    points = [point for line in ends for point in line]
    falls = [(later[0], one[1], later[1]) for one, later in itertools.pairwise(points) if later[1] < one[1]]
    return BrokerCopy(
        node,
        tuple(roles[:SPANS_MAX]),
        _thin(ends),
        _thin(_lines(columns, rows, StateKind.HIGH_WATERMARK)),
        tuple(falls[:CUTS_MAX]),
    )


def _lines(columns: Mapping[str, Any], rows: Ints, kind: StateKind) -> tuple[Points, ...]:
    """One line for each life of the process and each time as master. Brokers tell what has changed: what was told before held until then."""
    lines: list[list[tuple[float, int]]] = [[]]
    for row in rows.tolist():
        at_s, value = float(columns["at_s"][row]), int(columns["value"][row])
        current = lines[-1]
        if columns["kind"][row] == kind:
            if current and at_s - current[-1][0] > 2 * TOLD_EVERY_S:
                current.append((at_s - TOLD_EVERY_S, current[-1][1]))
            current.append((at_s, value))
        elif columns["kind"][row] == StateKind.ROLE and (kind != StateKind.END or value == NONE):
            if current and at_s > current[-1][0]:
                current.append((at_s, current[-1][1]))
            lines.append([])
    return tuple(tuple(line) for line in lines if line)


def _thin(lines: tuple[Points, ...]) -> tuple[Points, ...]:
    """At most so many points, the first and the last of each line among them."""
    step = -(-sum(map(len, lines)) // POINTS_MAX)
    return tuple((*line[:-1:step], line[-1]) for line in lines) if step > 1 else lines
