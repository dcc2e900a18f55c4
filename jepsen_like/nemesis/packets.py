"""Faults of single packets, below TCP: only a network that handles packets can do them."""

from collections.abc import Mapping
from typing import ClassVar

from jepsen_like.nemesis.kind import Here
from jepsen_like.nemesis.links import Imposed
from jepsen_like.port.wires import Network


class PacketKind(Imposed):
    """A fault that happens to one packet and not to the next."""

    def lacks(self, here: Here) -> str | None:
        """TCP forwarders see no packets."""
        if here.network is not Network.NAMESPACES:
            return (
                f"{self.name} is about packets, which --network proxies does not see; as root, use --network namespaces"
            )
        return super().lacks(here)


class PacketLoss(PacketKind):
    """Packets that never arrive."""

    name: ClassVar[str] = "loss"
    shows: ClassVar[str] = "loses"
    ranges: ClassVar[Mapping[str, tuple[float, float]]] = {"loss": (0.02, 0.3)}


class Duplicate(PacketKind):
    """Packets that arrive twice."""

    name: ClassVar[str] = "duplicate"
    shows: ClassVar[str] = "doubles"
    ranges: ClassVar[Mapping[str, tuple[float, float]]] = {"duplicate": (0.05, 0.5)}


class Reorder(PacketKind):
    """Packets that are overtaken by later ones, since some are held up for a while."""

    name: ClassVar[str] = "reorder"
    shows: ClassVar[str] = "holds up"
    ranges: ClassVar[Mapping[str, tuple[float, float]]] = {
        "reorder": (0.05, 0.4),
        "delay_s": (0.001, 0.03),
        "jitter_s": (0.03, 0.03),
    }


class Corrupt(PacketKind):
    """Packets with a bit turned over; half of them get past TCP's checksum, and only our own is left to see it."""

    name: ClassVar[str] = "corrupt"
    shows: ClassVar[str] = "damages"
    ranges: ClassVar[Mapping[str, tuple[float, float]]] = {"corrupt": (0.005, 0.08)}
