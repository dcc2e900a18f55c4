"""Names the levels of isolation, and decides which cycles each forbids: kinds of cycles by their rank, and what a single key shows.

A cycle of dependencies is named by its worst part. `ww` alone is G0; with `wr` it is G1c; one `rw` makes it G-single, several that
never follow each other G-nonadjacent, others G2. It is of its *session* if it needs the order of a process besides, and of *real
time* if it needs that one transaction ended before another began. The names are those of Adya's thesis and of Elle.
"""

import enum
from collections.abc import Mapping
from typing import Final

import attrs

from jepsen_like.checker.verdict import Check, Model


class KeptOrder(enum.IntEnum):
    """The orders that a cycle may need besides its dependencies."""

    NONE = 0
    PROCESS = 1
    REALTIME = 2


class Rank(enum.IntEnum):
    """The kinds of cycles, the worst first."""

    G0 = 0
    G1C = 1
    G_SINGLE = 2
    G_NONADJACENT = 3
    G2 = 4


CYCLES: Final[Mapping[tuple[Rank, KeptOrder], Check]] = {
    (Rank.G0, KeptOrder.NONE): Check.G0,
    (Rank.G1C, KeptOrder.NONE): Check.G1C,
    (Rank.G_SINGLE, KeptOrder.NONE): Check.G_SINGLE,
    (Rank.G_NONADJACENT, KeptOrder.NONE): Check.G_NONADJACENT,
    (Rank.G2, KeptOrder.NONE): Check.G2,
    (Rank.G0, KeptOrder.PROCESS): Check.G0_PROCESS,
    (Rank.G1C, KeptOrder.PROCESS): Check.G1C_PROCESS,
    (Rank.G_SINGLE, KeptOrder.PROCESS): Check.G_SINGLE_PROCESS,
    (Rank.G_NONADJACENT, KeptOrder.PROCESS): Check.G_NONADJACENT_PROCESS,
    (Rank.G2, KeptOrder.PROCESS): Check.G2_PROCESS,
    (Rank.G0, KeptOrder.REALTIME): Check.G0_REALTIME,
    (Rank.G1C, KeptOrder.REALTIME): Check.G1C_REALTIME,
    (Rank.G_SINGLE, KeptOrder.REALTIME): Check.G_SINGLE_REALTIME,
    (Rank.G_NONADJACENT, KeptOrder.REALTIME): Check.G_NONADJACENT_REALTIME,
    (Rank.G2, KeptOrder.REALTIME): Check.G2_REALTIME,
}
FROM: Final[Mapping[Check, Rank]] = {
    Check.PHANTOM: Rank.G0,
    Check.DUPLICATED: Rank.G0,
    Check.CYCLIC_VERSIONS: Rank.G0,
    Check.ABORTED_READ: Rank.G1C,
    Check.INTERMEDIATE_READ: Rank.G1C,
    Check.INCOMPATIBLE_ORDER: Rank.G1C,
    Check.DIRTY_UPDATE: Rank.G1C,
    Check.INTERNAL: Rank.G_SINGLE,
    Check.LOST_UPDATE: Rank.G_SINGLE,
}
"""The checks that one key decides, by the rank of the cycles that are forbidden together with it."""


class Level(enum.Enum):
    """The levels that a history may be held to."""

    READ_UNCOMMITTED = "read-uncommitted"
    READ_COMMITTED = "read-committed"
    SNAPSHOT_ISOLATION = "snapshot-isolation"
    REPEATABLE_READ = "repeatable-read"
    SERIALIZABLE = "serializable"
    STRONG_SESSION_SNAPSHOT_ISOLATION = "strong-session-snapshot-isolation"
    STRONG_SESSION_SERIALIZABLE = "strong-session-serializable"
    STRONG_SNAPSHOT_ISOLATION = "strong-snapshot-isolation"
    STRICT_SERIALIZABLE = "strict-serializable"

    @property
    def rank(self) -> Rank:
        """Returns the mildest kind of cycles that it forbids, and with it all that are worse."""
        match self:
            case Level.READ_UNCOMMITTED:
                return Rank.G0
            case Level.READ_COMMITTED:
                return Rank.G1C
            case Level.SNAPSHOT_ISOLATION | Level.STRONG_SESSION_SNAPSHOT_ISOLATION | Level.STRONG_SNAPSHOT_ISOLATION:
                return Rank.G_NONADJACENT
            case _:
                return Rank.G2

    @property
    def order(self) -> KeptOrder:
        """Returns the order that its transactions keep besides their dependencies."""
        match self:
            case Level.STRONG_SESSION_SNAPSHOT_ISOLATION | Level.STRONG_SESSION_SERIALIZABLE:
                return KeptOrder.PROCESS
            case Level.STRONG_SNAPSHOT_ISOLATION | Level.STRICT_SERIALIZABLE:
                return KeptOrder.REALTIME
            case _:
                return KeptOrder.NONE

    @property
    def allows(self) -> Mapping[Check, str]:
        """Returns the checks that it does not make, each with the reason."""
        because = f"{self.value} allows it"
        mild = {check: because for (rank, _), check in CYCLES.items() if rank > self.rank}
        return {**mild, **{check: because for check, rank in FROM.items() if rank > self.rank}}


STRICT: Final = Level.STRICT_SERIALIZABLE
TRANSACTIONAL: Final = (Model.LIST_APPEND, Model.RW_REGISTER)


@attrs.frozen
class HeldTo:
    """A model of transactions, held to a level."""

    model: Model
    level: Level
