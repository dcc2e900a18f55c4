"""Graphs of transactions: pieces that hold every cycle whole, strongly connected parts, and shortest ways.

A *piece* is found by sorting. Lay all transactions out in the order in which they ended. A cycle that leads back from one place to an
earlier one does so by edges that go back, and these cover every place between. So nothing outside of the places that such
edges cover is in a cycle, and places that no common stretch covers are in different ones. Of a sound history the pieces are short:
only transactions at work at the same time depend on each other backwards.
"""

import enum
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import attrs
import numpy as np

from jepsen_like.checker.rows.columns import Ints
from jepsen_like.history.ops import NEVER, Outcome


class Kind(enum.IntEnum):
    """The reasons why one transaction comes before another."""

    WW = 0
    """It wrote a version, the other the next one."""
    WR = 1
    """It wrote what the other read."""
    RW = 2
    """It read a version, and the other wrote the next one."""
    PROCESS = 3
    """One process did it before the other."""
    REALTIME = 4
    """It had ended before the other began."""


@attrs.frozen
class Edge:
    """One reason why one transaction comes before another: at which key, from which version to which."""

    source: int
    target: int
    kind: Kind
    key: int = -1
    old: int = -1
    new: int = -1


@attrs.frozen(eq=False)
class Edges:
    """Edges as columns; sources and targets are numbers of transactions."""

    source: Ints
    target: Ints
    kind: Ints
    key: Ints
    old: Ints
    new: Ints

    @classmethod
    def of(cls, edges: Sequence[Edge]) -> "Edges":
        """Returns these edges."""
        rows = [(one.source, one.target, int(one.kind), one.key, one.old, one.new) for one in edges]
        table = np.array(rows, np.int64).reshape(-1, 6)
        return cls(*(table[:, column].copy() for column in range(6)))

    @classmethod
    def join(cls, parts: "Sequence[Edges]") -> "Edges":
        """Returns the edges of all parts."""
        return cls(*_join(cls, parts))

    def where(self, chosen: Any) -> "Edges":
        """Returns the chosen ones."""
        return Edges(*_choose(self, chosen))

    def as_list(self) -> list[Edge]:
        """Returns them one by one."""
        columns = (self.source, self.target, self.kind, self.key, self.old, self.new)
        rows = zip(*(column.tolist() for column in columns), strict=True)
        return [Edge(source, target, Kind(kind), *rest) for source, target, kind, *rest in rows]


@attrs.frozen(eq=False)
class Nodes:
    """Transactions as columns, each once, by number."""

    number: Ints
    process: Ints
    type: Ints
    t_inv: Ints
    t_ret: Ints

    @classmethod
    def join(cls, parts: "Sequence[Nodes]") -> "Nodes":
        """Returns the transactions of all parts, each once."""
        whole = cls(*_join(cls, parts))
        return whole.where(np.unique(whole.number, return_index=True)[1])

    def where(self, chosen: Any) -> "Nodes":
        """Returns the chosen ones."""
        return Nodes(*_choose(self, chosen))

    def __len__(self) -> int:
        return len(self.number)


def _join(cls: type[Edges] | type[Nodes], parts: Sequence[Edges] | Sequence[Nodes]) -> list[Ints]:
    nothing = np.zeros(0, np.int64)
    names = [field.name for field in attrs.fields(cls)]
    return [np.concatenate([nothing, *(getattr(one, name) for one in parts)]) for name in names]


def _choose(one: Edges | Nodes, chosen: Any) -> list[Ints]:
    return [getattr(one, field.name)[chosen] for field in attrs.fields(type(one))]


@attrs.frozen(eq=False)
class Piece:
    """Transactions, and the edges among them. No cycle leads out of it."""

    nodes: Nodes
    edges: Edges


def pieces_of(nodes: Nodes, edges: Edges) -> list[Piece]:
    """Returns the pieces in which cycles are possible. Edges of transactions that are not there are left out."""
    ended = np.where(nodes.type == Outcome.OK, nodes.t_ret, nodes.t_inv)
    order = np.lexsort((nodes.number, ended))
    place = np.empty(len(nodes), np.int64)
    place[order] = np.arange(len(nodes))
    known = np.isin(edges.source, nodes.number) & np.isin(edges.target, nodes.number)
    edges = edges.where(known & (edges.source != edges.target))
    source = place[np.searchsorted(nodes.number, edges.source)]
    target = place[np.searchsorted(nodes.number, edges.target)]
    back = source > target
    change = np.zeros(len(nodes) + 1, np.int64)
    np.add.at(change, target[back], 1)
    np.add.at(change, source[back], -1)
    is_covered = np.cumsum(change)[:-1] > 0  # the way from this place to the next one
    part = np.concatenate([[0], np.cumsum(~is_covered[:-1])]) if len(nodes) else np.zeros(0, np.int64)
    inside = part[source] == part[target]
    edges, of_edge = edges.where(inside), part[source[inside]]
    by_part = np.argsort(of_edge, kind="stable")
    starts = np.searchsorted(of_edge[by_part], np.arange(len(nodes) + 1))
    first, size = np.unique(part, return_index=True)[1], np.bincount(part) if len(part) else part
    found = []
    for number in np.flatnonzero(size > 1).tolist():
        mine = np.sort(order[first[number] : first[number] + size[number]])
        found.append(Piece(nodes.where(mine), edges.where(by_part[starts[number] : starts[number + 1]])))
    return found


def orders_in(nodes: Nodes) -> Iterator[Edge]:
    """Yields the orders of processes and of real time, without what follows from others."""
    by_begin = np.lexsort((nodes.t_inv,)).tolist()
    number, process, begin, end = (
        column.tolist() for column in (nodes.number, nodes.process, nodes.t_inv, nodes.t_ret)
    )
    last = dict[int, int]()
    for at in by_begin:
        if process[at] in last:
            yield Edge(last[process[at]], number[at], Kind.PROCESS)
        last[process[at]] = number[at]
    for one, other in precedence(by_begin, begin, end):
        yield Edge(number[one], number[other], Kind.REALTIME)


def precedence(by_begin: Sequence[int], begin: Sequence[int], end: Sequence[int]) -> Iterator[tuple[int, int]]:
    """Yields which operations ended before which others began, without what follows from others."""
    by_end = iter(sorted((at for at in by_begin if end[at] < NEVER), key=lambda at: end[at]))
    ended, following = list[int](), next(by_end, None)
    for at in by_begin:
        while following is not None and end[following] < begin[at]:
            # What had ended before this one began comes before it by what was yielded already.
            ended = [one for one in ended if end[one] >= begin[following]]
            ended.append(following)
            following = next(by_end, None)
        for one in ended:
            yield one, at


Neighbours = Mapping[int, Sequence[Edge]]


def neighbours_of(edges: Sequence[Edge]) -> Neighbours:
    """Returns the edges that leave each node."""
    found = dict[int, list[Edge]]()
    for edge in edges:
        found.setdefault(edge.source, []).append(edge)
    return found


def components(nodes: Sequence[int], following: Callable[[int], Sequence[int]]) -> list[list[int]]:
    """Returns the strongly connected parts of more than one node (Tarjan's algorithm, without recursion)."""
    index, low = dict[int, int](), dict[int, int]()
    stack, on_stack, found = list[int](), set[int](), list[list[int]]()
    for root in nodes:
        if root in index:
            continue
        work = [(root, iter(following(root)))]
        index[root] = low[root] = len(index)
        stack.append(root)
        on_stack.add(root)
        while work:
            node, rest = work[-1]
            for target in rest:
                if target not in index:
                    index[target] = low[target] = len(index)
                    stack.append(target)
                    on_stack.add(target)
                    work.append((target, iter(following(target))))
                    break
                if target in on_stack:
                    low[node] = min(low[node], index[target])
            else:
                work.pop()
                if work:
                    low[work[-1][0]] = min(low[work[-1][0]], low[node])
                if low[node] == index[node]:
                    part = list[int]()
                    while not part or part[-1] != node:
                        part.append(stack.pop())
                        on_stack.discard(part[-1])
                    if len(part) > 1:
                        found.append(part)
    return found


def find_way(start: int, goal: int, following: Callable[[int], Sequence[Edge]]) -> list[Edge] | None:
    """Returns the edges of a shortest way; None if there is none."""
    came = dict[int, Edge | None]({start: None})
    frontier = [start]
    while frontier and goal not in came:
        reached = []
        for node in frontier:
            for edge in following(node):
                if edge.target not in came:
                    came[edge.target] = edge
                    reached.append(edge.target)
        frontier = reached
    if goal not in came:
        return None
    way, at = list[Edge](), goal
    while (step := came[at]) is not None:
        way.append(step)
        at = step.source
    return way[::-1]
