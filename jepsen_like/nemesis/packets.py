"""Faults of single packets, below TCP: only a network that handles packets can do them."""

import random
from typing import ClassVar

from jepsen_like.nemesis.kind import Here
from jepsen_like.nemesis.links import Imposed
from jepsen_like.port.wires import Condition, Network

LOSS = (0.02, 0.3)
DUPLICATE = (0.05, 0.5)
REORDER = (0.05, 0.4)
HELD_UP_S = (0.001, 0.03)
CORRUPT = (0.005, 0.08)


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

    def condition(self, rng: random.Random) -> Condition:
        """Up to a third of them."""
        return Condition(loss=rng.uniform(*LOSS))


class Duplicate(PacketKind):
    """Packets that arrive twice."""

    name: ClassVar[str] = "duplicate"
    shows: ClassVar[str] = "doubles"

    def condition(self, rng: random.Random) -> Condition:
        """Up to half of them."""
        return Condition(duplicate=rng.uniform(*DUPLICATE))


class Reorder(PacketKind):
    """Packets that are overtaken by later ones."""

    name: ClassVar[str] = "reorder"
    shows: ClassVar[str] = "holds up"

    def condition(self, rng: random.Random) -> Condition:
        """Some are held up for a while."""
        return Condition(reorder=rng.uniform(*REORDER), delay_s=rng.uniform(*HELD_UP_S), jitter_s=HELD_UP_S[1])


class Corrupt(PacketKind):
    """Packets with a bit turned over; half of them get past TCP's checksum, and only our own is left to see it."""

    name: ClassVar[str] = "corrupt"
    shows: ClassVar[str] = "damages"

    def condition(self, rng: random.Random) -> Condition:
        """A few of a hundred."""
        return Condition(corrupt=rng.uniform(*CORRUPT))
