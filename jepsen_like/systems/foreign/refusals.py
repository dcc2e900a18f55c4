"""The kinds of faults that are not done to programs of others, and why."""

from typing import Final

from jepsen_like.cluster.machine import Need
from jepsen_like.nemesis.table import KINDS

OF_OURS: Final = {
    **dict.fromkeys(("damage", "vanish", "wipe"), "it states no promise about files that are damaged or gone"),
    **dict.fromkeys(("wipe-master", "promote-by-hand"), "its servers elect their leader themselves; use kill"),
    "shrink-isr": "its adapter knows no set of replicas in sync; use partition",
    "rotate": "it is started without certificates and a secret",
}
GO_PROGRAM: Final = dict.fromkeys(
    (kind.name for kind in KINDS.values() if Need.LIBRARY in kind.needs),
    "a program in Go calls the kernel itself, past any library that is preloaded",
)
LIBRARY_UNTRIED: Final = dict.fromkeys(GO_PROGRAM, "it has not been tried with a preloaded library")
