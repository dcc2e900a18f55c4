"""Finds the cycles of one piece of a graph, and names each by its worst part.

Whether a forbidden cycle is there is decided exactly, by strongly connected parts: of `ww` (G0), of `ww` and `wr` (G1c), of all edges
(G2), and for snapshot isolation of a graph that has each node twice, so that no `rw` follows another. Only the search for the
shortest example, and so whether one is called G-single or G-nonadjacent, is bounded. Of each part, one cycle of each kind is told.
"""

import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import Final

import attrs

from jepsen_like.checker.cycles.graph import Edge, Kind, Piece, components, find_way, neighbours_of, orders_in
from jepsen_like.checker.cycles.levels import KeptOrder, Rank

TRIED_MAX: Final = 200
"""Edges of a part from which a shortest cycle is looked for."""
DEPENDENCIES: Final = (Kind.WW, Kind.WR, Kind.RW)
Following = Callable[[int], Sequence[Edge]]
"""Returns the edges that leave a transaction."""
OF_ORDER: Final = {
    KeptOrder.NONE: (),
    KeptOrder.PROCESS: (Kind.PROCESS,),
    KeptOrder.REALTIME: (Kind.PROCESS, Kind.REALTIME),
}


@attrs.frozen
class Cycle:
    """Edges that lead back to where they began, none of whose transactions comes twice."""

    edges: tuple[Edge, ...]

    @property
    def rank(self) -> Rank:
        """Returns its kind by its worst part."""
        kinds = [edge.kind for edge in self.edges]
        if (count := kinds.count(Kind.RW)) == 0:
            return Rank.G1C if Kind.WR in kinds else Rank.G0
        if count == 1:
            return Rank.G_SINGLE
        return Rank.G2 if has_neighbours(kinds) else Rank.G_NONADJACENT

    @property
    def order(self) -> KeptOrder:
        """Returns the order that it needs besides its dependencies."""
        kinds = {edge.kind for edge in self.edges}
        return (
            KeptOrder.REALTIME
            if Kind.REALTIME in kinds
            else KeptOrder.PROCESS
            if Kind.PROCESS in kinds
            else KeptOrder.NONE
        )


def has_neighbours(kinds: Sequence[Kind]) -> bool:
    """Returns whether two `rw` follow each other around a cycle."""
    return any(one is other is Kind.RW for one, other in itertools.pairwise([*kinds, kinds[0]]))


def cycles_in(piece: Piece, order: KeptOrder) -> Iterator[Cycle]:
    """Yields the cycles of a piece, those first that need less besides their dependencies."""
    dependencies, orders = piece.edges.as_list(), list(orders_in(piece.nodes)) if order else []
    told = dict[int, Rank]()
    """By transaction the worst kind of a cycle found in its part."""
    for needed in KeptOrder:
        if needed > order:
            return
        allowed = [edge for edge in orders if edge.kind in OF_ORDER[needed]]
        found = list(_by_order(piece, dependencies, allowed, told))
        for part, cycle in found:
            for node in part:
                told[node] = min(cycle.rank, told.get(node, Rank.G2))
        yield from (cycle for _, cycle in found)


def _by_order(
    piece: Piece, dependencies: Sequence[Edge], orders: Sequence[Edge], told: dict[int, Rank]
) -> Iterator[tuple[Sequence[int], Cycle]]:
    """Yields the cycles of each part that are worse than those found in it with fewer edges."""
    edges = [*dependencies, *orders]
    following = neighbours_of(edges)
    for part in _parts(piece.nodes.number.tolist(), edges):
        inside = set(part)
        mine = [edge for node in part for edge in following.get(node, ()) if edge.target in inside]
        known = min((told[node] for node in part if node in told), default=None)
        worst = [rank for rank in Rank if known is None or rank < known]
        found = list(_of_part(part, mine, worst))
        yield from ((part, cycle) for cycle in found)


def _of_part(part: Sequence[int], edges: Sequence[Edge], ranks: Sequence[Rank]) -> Iterator[Cycle]:
    """Yields a cycle of each of these kinds that a strongly connected part has."""
    if Rank.G0 in ranks:
        yield from _of_kinds(part, edges, {Kind.RW, Kind.WR}, Kind.WW)
    if Rank.G1C in ranks:
        yield from _of_kinds(part, edges, {Kind.RW}, Kind.WR)
    if not {Rank.G_SINGLE, Rank.G_NONADJACENT, Rank.G2} & set(ranks):
        return
    plain = neighbours_of([edge for edge in edges if edge.kind is not Kind.RW])
    starts = [edge for edge in edges if edge.kind is Kind.RW]
    single = _close(starts, lambda node: plain.get(node, ()))
    if single is not None:
        yield single
        return
    apart = _apart(part, edges) if Rank.G_NONADJACENT in ranks else None
    if apart is not None:
        yield apart
        return
    whole = neighbours_of(edges)
    if Rank.G2 in ranks and (cycle := _close(starts, lambda node: whole.get(node, ()))) is not None:
        yield cycle


def _of_kinds(part: Sequence[int], edges: Sequence[Edge], without: set[Kind], needed: Kind) -> Iterator[Cycle]:
    """Yields a cycle with an edge of the needed kind, for each part that remains without some kinds."""
    left = [edge for edge in edges if edge.kind not in without]
    following = neighbours_of(left)
    for smaller in _parts(part, left):
        inside = set(smaller)
        starts = [
            edge
            for node in smaller
            for edge in following.get(node, ())
            if edge.kind is needed and edge.target in inside
        ]
        cycle = _close(starts, lambda node: following.get(node, ()))
        if cycle is not None:
            yield cycle


def _close(starts: Sequence[Edge], following: Following) -> Cycle | None:
    """Returns the shortest cycle that begins with one of these edges, of those that are tried."""
    best: list[Edge] | None = None
    for edge in starts[:TRIED_MAX]:
        way = find_way(edge.target, edge.source, following)
        if way is not None and (best is None or len(way) + 1 < len(best)):
            best = [edge, *way]
            if len(best) == 2:
                break
    return None if best is None else Cycle(tuple(best))


def _apart(part: Sequence[int], edges: Sequence[Edge]) -> Cycle | None:
    """Returns a cycle in which no `rw` follows another, with one of them at least; None if there is none.

    Each node stands for two: 2n was reached by another edge, 2n + 1 by an `rw`, which no `rw` leaves.
    """
    numbers = {node: at for at, node in enumerate(part)}
    twice = list[Edge]()
    originals = dict[tuple[int, int], Edge]()
    for edge in edges:
        source, target = 2 * numbers[edge.source], 2 * numbers[edge.target]
        pairs = [(source, target + 1)] if edge.kind is Kind.RW else [(source, target), (source + 1, target)]
        for pair in pairs:
            if pair not in originals:
                originals[pair] = edge
                twice.append(Edge(*pair, edge.kind))
    following = neighbours_of(twice)
    for smaller in _parts(range(2 * len(part)), twice):
        inside = set(smaller)
        for node in smaller:
            for edge in following.get(node, ()):
                if edge.kind is Kind.RW and edge.target in inside:
                    way = find_way(edge.target, edge.source, lambda at: following.get(at, ()))
                    assert way is not None
                    walk = [originals[one.source, one.target] for one in (edge, *way)]
                    return Cycle(tuple(_without_repeats(walk)))
    return None


def _without_repeats(walk: list[Edge]) -> list[Edge]:
    """Cut a closed walk down to one that visits no transaction twice, and in which no `rw` follows another."""
    seen = dict[int, int]()
    for at, edge in enumerate(walk):
        if edge.source in seen:
            first = seen[edge.source]
            loops = [walk[first:at], [*walk[at:], *walk[:first]]]
            sound = [loop for loop in loops if not has_neighbours([one.kind for one in loop])]
            sound.sort(key=lambda loop: not any(one.kind is Kind.RW for one in loop))
            return _without_repeats(sound[0])
        seen[edge.source] = at
    return walk


def _parts(nodes: Sequence[int], edges: Sequence[Edge]) -> list[list[int]]:
    following = dict[int, list[int]]()
    for edge in edges:
        following.setdefault(edge.source, []).append(edge.target)
    return components(nodes, lambda node: following.get(node, ()))
