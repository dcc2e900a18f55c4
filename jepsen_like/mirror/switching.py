"""A switch in words: its plan, its ends, and what it left behind."""

from collections.abc import Mapping
from typing import Any, Final

import attrs

from jepsen_like.mirror.kept import Partition
from jepsen_like.mirror.plan import MirrorPlan

WAIT_S: Final = 30.0


@attrs.frozen
class SwitchPlan:
    """A switch from the source of a mirror to its target."""

    mirror: MirrorPlan
    wait_s: float = WAIT_S
    gives_up: bool = False
    fences: bool = True


@attrs.frozen
class LeftBehind:
    """One partition after the switch: what the target has, and what only the source has."""

    partition: Partition
    copied_to: int
    source_end: int | None
    lost: int | None
    """The records that were acknowledged and not copied; None if the source does not answer."""

    def row(self) -> dict[str, Any]:
        """Returns it as a row of a table."""
        return {
            "topic": self.partition[0],
            "partition": self.partition[1],
            "copied_to": self.copied_to,
            "source_end": self.source_end,
            "lost": self.lost,
        }


@attrs.frozen
class Switched:
    """The end of a switch."""

    epoch: int
    left: tuple[LeftBehind, ...]
    duration_s: float

    @property
    def lost(self) -> int | None:
        """The records that were lost; None if a part is unknown."""
        known = [each.lost for each in self.left if each.lost is not None]
        return sum(known) if len(known) == len(self.left) else None


class NotSwitched(Exception):
    """Clients certainly must stay at the source; the text states why, and what to do."""


class PerhapsSwitched(Exception):
    """The cut was asked for and its outcome is unknown; the text states what to do."""


def row_of_end(switched: Switched, link: str) -> Mapping[str, Any]:
    """Returns the last object that a program reads."""
    return {
        "event": "switched",
        "link": link,
        "epoch": switched.epoch,
        "lost": switched.lost,
        "unknown": switched.lost is None,
        "duration_s": round(switched.duration_s, 3),
    }
