"""In which order nodes are stopped and started again around what is done to their disks: a pure function of a seed.

The order decides who was the last to have everything, and who is asked first what it has.
"""

import enum
import random
from collections.abc import Iterable
from typing import Final

import attrs
import trio

from jepsen_like.cluster.cluster import Cluster

GAPS_S: Final = (0.1, 0.4, 1.0, 2.0)
"""The next node is started this long after one, where they start apart: within an election or a session, or beyond."""


class Order(enum.StrEnum):
    """The order in which several nodes are stopped and started."""

    TOGETHER = "all at once"
    IN_TURN = "all in turn"
    LAST_FIRST = "all in turn, and the last first again"
    ROLLING = "rolling"
    """Each is started again before the next is stopped, but for the last one, which stays down."""


@attrs.frozen
class Stops:
    """The drawn stops: `nodes` in the order in which they are stopped, and the signal."""

    nodes: tuple[int, ...]
    order: Order
    is_kill: bool
    gap_s: float

    @classmethod
    def draw(cls, nodes: Iterable[int], seed: int) -> "Stops":
        """Returns what this seed draws for these nodes."""
        rng = random.Random(f"stops {seed}")
        shuffled = sorted(nodes)
        rng.shuffle(shuffled)
        return cls(tuple(shuffled), rng.choice(list(Order)), rng.random() < 0.5, rng.choice(GAPS_S))

    @property
    def starts(self) -> tuple[int, ...]:
        """In which order they are started; of a rolling restart that of the stops."""
        return self.nodes[::-1] if self.order is Order.LAST_FIRST else self.nodes

    @property
    def groups(self) -> tuple[tuple[int, ...], ...]:
        """Those that are stopped together, in order."""
        return (self.nodes,) if self.order is Order.TOGETHER else tuple((node,) for node in self.nodes)

    @property
    def signal(self) -> str:
        """By name."""
        return "SIGKILL" if self.is_kill else "SIGTERM"

    def __str__(self) -> str:
        stopped = f"{self.signal} to {_names(self.nodes)}"
        if len(self.nodes) == 1:
            return stopped
        if self.order in (Order.TOGETHER, Order.ROLLING):
            return f"{stopped}, {self.order}"
        return f"{stopped}, {self.order}; {_names(self.starts)} started every {self.gap_s:g} s"

    async def stop(self, cluster: Cluster, nodes: tuple[int, ...]) -> None:
        """Stop these together and wait until they are gone."""
        await (cluster.kill(nodes) if self.is_kill else cluster.stop(nodes))

    async def start(self, cluster: Cluster) -> None:
        """Start in order what does not run, and wait until all listen: one alone may not listen without a majority."""
        async with trio.open_nursery() as nursery:
            for number, node in enumerate(self.starts):
                if number and self.order in (Order.IN_TURN, Order.LAST_FIRST):
                    await trio.sleep(self.gap_s)
                nursery.start_soon(cluster.restart, (node,))


def _names(nodes: Iterable[int]) -> str:
    return ", ".join(f"n{node}" for node in nodes)
