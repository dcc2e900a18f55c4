"""Every kind of fault that there is, by name, in the order in which people read them."""

from collections.abc import Iterable
from types import MappingProxyType
from typing import Final

from jepsen_like.nemesis.contents import DamagedFiles, Vanished
from jepsen_like.nemesis.disks import DiskError, DiskFull, DiskShort, DiskSlow
from jepsen_like.nemesis.keys import Rotate
from jepsen_like.nemesis.kind import Here, Kinds, NemesisKind
from jepsen_like.nemesis.links import Flapping, HalfOpen, Partition, Reset, ShrinkIsr, Slow, Throttle
from jepsen_like.nemesis.machines import ClockDrift, ClockJump, Power
from jepsen_like.nemesis.packets import Corrupt, Duplicate, PacketLoss, Reorder
from jepsen_like.nemesis.processes import Kill, Pause, PromoteByHand, Restart, Wipe, WipeMaster
from jepsen_like.nemesis.zones import ZoneCut, ZoneDown, ZoneSlow

_KINDS: Final[tuple[type[NemesisKind], ...]] = (
    *(Kill, Pause, Restart),
    *(Partition, Flapping, Slow, Throttle, HalfOpen, Reset),
    *(PacketLoss, Duplicate, Reorder, Corrupt),
    *(Power, ClockJump, ClockDrift),
    *(DiskSlow, DiskShort, DiskFull, DiskError, DamagedFiles, Vanished),
    *(Wipe, PromoteByHand, WipeMaster, ShrinkIsr),
    *(ZoneDown, ZoneCut, ZoneSlow),
    Rotate,
)
KINDS: Final[Kinds] = MappingProxyType({kind.name: kind() for kind in _KINDS})


def usable(here: Here) -> tuple[str, ...]:
    """The names of all kinds that work here."""
    return tuple(name for name, kind in KINDS.items() if here.nodes >= kind.nodes_min and kind.lacks(here) is None)


def kinds_named(names: Iterable[str]) -> tuple[NemesisKind, ...]:
    """Returns the kinds of these names. Raises `KeyError` for an unknown name."""
    return tuple(KINDS[name] for name in names)
