"""The bounds of an exhaustive search of a Raft group, and their form on a command line."""

import re

import attrs

LOGS = re.compile(r"[\d./]+")
SCOPE_MAX = {
    "nodes": 5,
    "timeouts": 9,
    "entries": 9,
    "crashes": 9,
    "heartbeats": 9,
    "damages": 9,
    "trims": 9,
    "changes": 9,
}


@attrs.frozen
class Scope:
    """The bounds of a search."""

    nodes: int = 3
    timeouts: int = 2
    entries: int = 1
    crashes: int = 1
    heartbeats: int = 0
    """A leader asks all others again for what they hold, this often."""
    damages: int = 0
    """A disk loses any part of its end, and the node comes back repaired, below its floor, this often."""
    trims: int = 0
    """A log is trimmed this often."""
    changes: int = 0
    """A leader is asked to change the members, or to hand over, this often."""
    logs: tuple[tuple[int, ...], ...] = ()
    """The terms of the entries that each node begins with, all durable.

    By default a search begins from nothing (wide), and with three nodes from `PARTED` (deep) as well.
    """

    def __str__(self) -> str:
        """As `--scope` takes it."""
        numbers = ",".join(f"{name}={getattr(self, name)}" for name in SCOPE_MAX)
        logs = "/".join(".".join(map(str, log)) for log in self.logs)
        return f"{numbers},logs={logs}" if logs else numbers

    @property
    def starts(self) -> tuple[tuple[tuple[int, ...], ...], ...]:
        """The logs that the search begins from."""
        if self.logs:
            return (self.logs,)
        nothing = ((),) * self.nodes
        return (nothing, PARTED) if self.nodes == len(PARTED) else (nothing,)


PARTED = ((1, 2), (1,), (1, 3))
"""The remains of earlier terms, as in the paper's figures 7 and 8: leaders of 2 and 3 wrote for themselves alone."""


def read_scope(text: str) -> Scope:
    """`nodes=3,timeouts=2,entries=1,crashes=1,logs=1.2/1/1`; what is left out keeps its default.

    Raises `ValueError` for an unknown name or a number that makes no sense.
    """
    numbers: dict[str, int] = {}
    logs: tuple[tuple[int, ...], ...] = ()
    for part in text.split(","):
        name, equals, number = part.partition("=")
        if name == "logs" and LOGS.fullmatch(number):
            logs = tuple(tuple(int(term) for term in log.split(".") if term) for log in number.split("/"))
        elif equals and number.isdecimal() and int(number) <= SCOPE_MAX.get(name, -1):
            numbers[name] = int(number)
        else:
            bounds = ", ".join(f"{known} up to {most}" for known, most in SCOPE_MAX.items())
            raise ValueError(
                f"{part!r} bounds nothing; there are {bounds}, and logs=1.2/1/1 for the terms in each node's first log"
            )
    scope = Scope(**numbers, logs=logs)
    if not scope.nodes or len(logs) not in (0, scope.nodes) or any(list(log) != sorted(log) for log in logs):
        raise ValueError("there must be a node, and as many logs as nodes, each with terms that do not fall")
    return scope
