"""The order of stops and starts is drawn from the seed alone, and every order is drawn."""

import random
from collections import Counter

import pytest

from jepsen_like.nemesis.contents import ContentKind, DamagedFiles, Vanished
from jepsen_like.nemesis.stops import Order, Stops
from jepsen_like.nemesis.targets import ResolvedTarget, Target
from tests.jepsen_like.nemesis.drawn_stops import never_drawn

NODES = (1, 2, 3)
SEEDS = range(400)


def hit_by(seed: int, kind: ContentKind | None = None) -> ResolvedTarget:
    return (kind or Vanished()).select(random.Random(seed), Target.ALL, NODES, 1)


def test_the_seed_decides() -> None:
    drawn = [Stops.draw(NODES, seed) for seed in SEEDS]
    random.seed(1)
    assert [Stops.draw(NODES, seed) for seed in SEEDS] == drawn


def test_every_order_is_drawn_with_every_signal() -> None:
    assert never_drawn() == []


@pytest.mark.parametrize("kind", [DamagedFiles(), Vanished()], ids=lambda kind: kind.name)
def test_when_all_are_stopped_one_disk_is_touched_and_often_that_of_the_last(kind: ContentKind) -> None:
    hits = [hit_by(seed, kind) for seed in SEEDS]
    assert {hit.nodes for hit in hits} == {NODES}
    assert {len(hit.damaged) for hit in hits} == {1}
    place = Counter(Stops.draw(hit.nodes, hit.seed).nodes.index(hit.damaged[0]) for hit in hits)
    assert place[2] > len(SEEDS) / 2
    assert min(place[0], place[1]) > len(SEEDS) / 10


def test_of_a_minority_every_disk_is_touched() -> None:
    hit = Vanished().select(random.Random(1), Target.MINORITY, (1, 2, 3, 4, 5), 1)
    assert len(hit.nodes) == 2
    assert hit.damaged == hit.nodes


@pytest.mark.parametrize(
    ("order", "groups", "starts"),
    [
        (Order.TOGETHER, ((2, 3, 1),), (2, 3, 1)),
        (Order.IN_TURN, ((2,), (3,), (1,)), (2, 3, 1)),
        (Order.LAST_FIRST, ((2,), (3,), (1,)), (1, 3, 2)),
        (Order.ROLLING, ((2,), (3,), (1,)), (2, 3, 1)),
    ],
)
def test_an_order_says_who_is_stopped_with_whom_and_who_is_started_first(
    order: Order, groups: tuple[tuple[int, ...], ...], starts: tuple[int, ...]
) -> None:
    stops = Stops((2, 3, 1), order, is_kill=True, gap_s=0.4)
    assert (stops.groups, stops.starts) == (groups, starts)
    assert str(stops).startswith("SIGKILL to n2, n3, n1, ")


def test_one_node_has_no_order() -> None:
    assert str(Stops((2,), Order.ROLLING, is_kill=False, gap_s=0.4)) == "SIGTERM to n2"
