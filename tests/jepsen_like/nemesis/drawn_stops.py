"""Which ways of stopping and starting three nodes no seed draws: for the tests, and for the judge of deliberate bugs."""

import itertools
from collections.abc import Sequence
from typing import Final

from jepsen_like.nemesis.stops import GAPS_S, Order, Stops

NODES: Final = (1, 2, 3)
SEEDS: Final = range(1000)


def never_drawn() -> Sequence[str]:
    """Returns every way that `SEEDS` leave out, one line each; empty if none is."""
    drawn = [Stops.draw(NODES, seed) for seed in SEEDS]
    ways = {(each.nodes, each.order, each.is_kill) for each in drawn}
    starts = {(each.order, each.nodes == each.starts) for each in drawn}
    gaps = {each.gap_s for each in drawn}
    wanted = itertools.product(itertools.permutations(NODES), Order, (False, True))
    return [
        *(f"no seed draws {way}" for way in wanted if way not in ways),
        *(f"{order} starts as another" for order in Order if (order, order is not Order.LAST_FIRST) not in starts),
        *(f"no seed waits {gap_s:g} s between two starts" for gap_s in GAPS_S if gap_s not in gaps),
    ]
