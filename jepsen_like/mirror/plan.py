"""The plan of a mirror and of a switch: two clusters, a link between them, and what of the source is copied."""

import enum
import secrets
from collections.abc import Callable, Mapping
from fnmatch import fnmatchcase
from typing import Any

import attrs

from jepsen_like.operate.access import OPEN, BrokerAccess
from jepsen_like.port.wires import Address

Tell = Callable[[Mapping[str, Any]], None]
"""Receives the progress of a mirror, one mapping an event."""


class DivergedTail(enum.Enum):
    """The treatment of records that stand at the end of a target's topic and were never copied from there."""

    REFUSE = "refuse"
    KEEP = "keep"
    RECREATE = "recreate"


@attrs.frozen
class LinkEnd:
    """One cluster: some of its brokers, and how to reach them."""

    addresses: tuple[Address, ...]
    access: BrokerAccess = OPEN


@attrs.frozen
class MirrorPlan:
    """One direction of a link."""

    source: LinkEnd
    target: LinkEnd
    link: str = "mirror"
    topics: tuple[str, ...] = ("*",)
    groups: tuple[str, ...] = ("*",)
    diverged: DivergedTail = DivergedTail.REFUSE
    until_caught_up: bool = False
    system: str = "kafka"

    def copies_topic(self, name: str) -> bool:
        """Returns True if a topic of the source is copied; names that begin with `__` belong to the brokers."""
        return not name.startswith("__") and any(fnmatchcase(name, pattern) for pattern in self.topics)

    def copies_group(self, name: str) -> bool:
        """Returns True if the offsets of a group of the source are copied."""
        return any(fnmatchcase(name, pattern) for pattern in self.groups)

    def turn(self) -> "MirrorPlan":
        """Returns the plan of the other direction."""
        return attrs.evolve(self, source=self.target, target=self.source)


def fresh_holder() -> str:
    """Returns the name of a process that takes a link."""
    return secrets.token_hex(8)
