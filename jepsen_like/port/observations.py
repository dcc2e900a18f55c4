"""The reports of the processes of a run about themselves: as a system's adapter decodes them, and with node and time as a run keeps them."""

from collections import Counter
from collections.abc import Mapping
from typing import Any, Final

import attrs

LEADER: Final = "leader"
"""The role that leads; all other roles are words of the system."""
DOWN: Final = "down"
"""In place of a role, of a node whose process has ended; started again it has none until it reports one."""


@attrs.frozen
class Ready:
    """The process serves."""


@attrs.frozen
class RoleReported:
    """The process has another role in a scope; `role` is `LEADER` for the one that leads."""

    role: str
    epoch: int
    scope: str = ""


@attrs.frozen
class LogBegins:
    """The log of the process begins at `offset` now."""

    offset: int
    is_snapshot: bool


@attrs.frozen
class OwnEnd:
    """The process is about to end by itself, with this exit status and for this reason."""

    status: int
    reason: str


@attrs.frozen
class TurnReported:
    """The loop of the process served no one for `ms`, `processor_ms` of them spent computing, most of it because of `cause`."""

    ms: int
    processor_ms: int
    cause: str


@attrs.frozen
class Served:
    """The process did something so many times more, in the words of its system; what a run may have to show."""

    what: str
    times: int


Observation = Ready | RoleReported | LogBegins | OwnEnd | TurnReported | Served
FAILED: Final = 1
"""The exit status of a process that ends by itself, if it does not report one."""


def observe_any(event: Mapping[str, Any]) -> Observation | None:
    """Returns the meaning of a line that processes of every system of ours print: they end by themselves, or took a long turn.

    Raises `KeyError` or `ValueError` for one without its fields.
    """
    match event.get("event"):
        case "broken_invariant" | "failed":
            return OwnEnd(int(event.get("status", FAILED)), str(event.get("reason", "")))
        case "long_turn":
            return TurnReported(int(event["ms"]), int(event["processor_ms"]), str(event["cause"]))
        case _:
            return None


@attrs.frozen
class RoleSeen:
    """A node reported that its role in a scope has changed, or its process has ended (`DOWN`, term 0).

    `t_ns` is on the monotonic clock, shared by all processes here; `term` is the epoch of the leadership; `scope` names
    what is led, empty where a system has one leader for everything.
    """

    node: int
    t_ns: int
    role: str
    term: int
    scope: str = ""


@attrs.frozen
class TurnSeen:
    """A node reported a long turn of its loop, which ended at `t_ns` on the monotonic clock."""

    node: int
    t_ns: int
    turn: TurnReported


@attrs.frozen
class StartSeen:
    """A node reported that its log begins at `offset` now: files have left it, or a snapshot of the leader took their place."""

    node: int
    offset: int
    is_snapshot: bool

    def __str__(self) -> str:
        how = "was reset to a snapshot, its log begins" if self.is_snapshot else "let records go, its log begins"
        return f"n{self.node} {how} at offset {self.offset:,}"


@attrs.define(eq=False)
class Reports:
    """All that the nodes of a cluster have reported, in the order in which it was read."""

    roles: list[RoleSeen] = attrs.field(factory=list)
    starts: list[StartSeen] = attrs.field(factory=list)
    turns: list[TurnSeen] = attrs.field(factory=list)
    served: Counter[str] = attrs.field(factory=Counter)
    """By the words of the system, the number of times that something was done."""
