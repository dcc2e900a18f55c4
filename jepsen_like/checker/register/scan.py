"""Linearizability of registers under write, read and compare-and-set, decided by sorting, for many registers at once.

A *block* is one value with its write and all its reads. A compare-and-set from a to b makes block b follow block a at once,
so blocks form *chains*. Let f be the earliest end and g the latest start of the operations of a chain. If values are
written once, a history is linearizable exactly when

1. every value seen was written by an operation that did not certainly fail;
2. no value is replaced by two compare-and-sets, and chains have no cycle (where one is, blocks form a tree or a ring and
   no chain, so 3 and 4 are not asked of them);
3. inside a chain (write, reads, compare-and-set, reads, ...) nothing ends before something put earlier has begun;
4. no two chains have f(C) < g(D) and f(D) < g(C). With a zone [f, g] called forward when f < g and [g, f] called
   backward otherwise: no two forward zones overlap and no backward zone lies inside a forward one.

(Gibbons & Korach 1997; a smallest-f argument shows that the relation "f(C) < g(D)" has a cycle only if it has one of two.)
The initial value is a block written before everything. Operations whose outcome is unknown cost nothing: a read is
dropped; a write or compare-and-set counts, without an end, exactly when its value was seen. A compare-and-set that did not
swap is a read of the value it saw.

Registers where an observed value has two writers are not decided here but named in `ambiguous`: that is NP-hard and goes
to the search. So do registers with a compare-and-set that was refused although the value it expected was there at some
time: it saw one of all other values, which is no place in a chain.
"""

import enum
import functools
from typing import Final

import attrs
import numpy as np

from jepsen_like.checker.rows.columns import Bools, Columns, Ints
from jepsen_like.checker.rows.segments import (
    SmallTimes,
    dense,
    dense_pairs,
    group_starts,
    lifted_maximum_before,
    ordering,
    small_times,
)
from jepsen_like.history.ops import NONE, Action, ErrorCode, Outcome

LINK: Final = -(2**31)
"""The process of a compare-and-set that never happened: it stands for many in a row (see `register_reduce`)."""


class Flaw(enum.Enum):
    """Which of the four conditions is broken."""

    UNWRITTEN = 1
    """`where` is the block that was seen and that no operation wrote."""
    REPLACED_TWICE = 2
    """`where` is the block that two compare-and-sets replaced."""
    CYCLE = 3
    """`where` is a block of the cycle."""
    INSIDE_CHAIN = 4
    """`where` numbers the place (see `RegisterScan.place`) that holds an operation which ended too early."""
    CHAINS_OVERLAP = 5
    """`where` and `other` are two chains of which neither can come first."""


@attrs.frozen
class FlawFound:
    """One flaw of one register (`object` is dense)."""

    flaw: Flaw
    object: int
    where: int
    other: int = NONE


@attrs.frozen(eq=False)
class Blocks:
    """One row per (register, value), dense; `parent` is the block that a compare-and-set made this one follow."""

    object: Ints
    value: Ints
    writers: Ints
    writer: Ints
    """The row of the history that wrote it, or `NONE`."""
    seen: Bools
    parent: Ints
    root: Ints
    depth: Ints
    cyclic: Bools


@attrs.frozen(eq=False)
class Entries:
    """The operations that matter, one entry per write, read or swap: its row, block, chain and place in the chain."""

    row: Ints
    block: Ints
    chain: Ints
    place: Ints
    """Writes and swaps at 2 * depth of their block, reads just behind."""
    start: Ints
    end: Ints
    span: int
    """Start and end are small times (see `segments`) of this span."""
    times: SmallTimes


@attrs.frozen(eq=False)
class Zones:
    """One row per chain that has entries, sorted by its root: its earliest end and its latest start, small."""

    root: Ints
    f: Ints
    g: Ints


@attrs.frozen(eq=False, slots=False)
class RegisterScan:
    """The answer of the scan, with all that is needed to explain it."""

    rows: Columns
    objects: Ints
    """The registers, sorted; everything else numbers them densely."""
    ambiguous: Ints
    """Dense numbers of the registers that were not decided."""
    found: tuple[FlawFound, ...]
    blocks: Blocks
    entries: Entries
    place_chain: Ints
    """The chain of the place that an `INSIDE_CHAIN` flaw names."""
    place: Ints
    """And which place of that chain."""
    zones: Zones

    def entries_of_chain(self, chain: int) -> Ints:
        """Returns the entries of one chain."""
        return _run_of(self._by_chain, self.entries.chain, chain)

    def entries_of_block(self, block: int) -> Ints:
        """Returns the entries of one block."""
        return _run_of(self._by_block, self.entries.block, block)

    def refused_writers(self, block: int) -> list[int]:
        """Returns the rows that would have written a block's value, had they not certainly failed."""
        key = int(self.objects[self.blocks.object[block]]), int(self.blocks.value[block])
        return self._refused.get(key, [])

    @functools.cached_property
    def _by_chain(self) -> Ints:
        return ordering(self.entries.chain)

    @functools.cached_property
    def _by_block(self) -> Ints:
        return ordering(self.entries.block)

    @functools.cached_property
    def _refused(self) -> dict[tuple[int, int], list[int]]:
        rows = self.rows
        writes = (rows.f == Action.WRITE) | (rows.f == Action.CAS)
        found: dict[tuple[int, int], list[int]] = {}
        for row in np.flatnonzero(writes & (rows.type == Outcome.FAIL)).tolist():
            value = rows.b[row] if rows.f[row] == Action.CAS else rows.a[row]
            found.setdefault((int(rows.object[row]), int(value)), []).append(row)
        return found


@attrs.frozen(eq=False)
class _Mentions:
    """Rows sorted out by what they say: `write` puts a value there, `read` saw one, `swap` did both."""

    write: Ints
    write_value: Ints
    read: Ints
    read_value: Ints
    swap: Ints
    """Rows of compare-and-sets that swapped or may have (they are in `write` too)."""
    swap_from: Ints
    refused: Ints
    """Rows of compare-and-sets that failed because the value was another one than expected."""
    refused_value: Ints


def _run_of(order: Ints, keys: Ints, key: int) -> Ints:
    """The positions of `key` in `keys`, which `order` sorts."""
    begin = np.searchsorted(keys, key, side="left", sorter=order)
    end = np.searchsorted(keys, key, side="right", sorter=order)
    return order[begin:end]


def scan(rows: Columns, numbered: tuple[Ints, Ints] | None = None) -> RegisterScan:
    """Decide every register of `rows`. `numbered`, if known: all registers, sorted, and the number of each row's."""
    said = _mentions(rows)
    objects, number = dense(rows.object) if numbered is None else numbered
    count = len(objects)
    blocks_object, blocks_value, position = dense_pairs(
        np.concatenate(
            [number[said.write], number[said.read], number[said.swap], number[said.refused], np.arange(count)]
        ),
        np.concatenate(
            [said.write_value, said.read_value, said.swap_from, said.refused_value, np.full(count, NONE, np.int64)]
        ),
    )
    write_block, read_block, from_block, refused_block, _ = np.split(
        position, np.cumsum([len(said.write), len(said.read), len(said.swap), len(said.refused)])
    )
    blocks_count = len(blocks_object)

    # Unknown writes and swaps count when their value was seen, which may make the value that a swap replaced seen too.
    swap_known = rows.type[said.swap] == Outcome.OK
    to_block = np.full(len(rows), NONE, np.int64)
    to_block[said.write] = write_block
    swap_to = to_block[said.swap]
    seen = np.zeros(blocks_count, np.bool_)
    seen[read_block] = True
    seen[from_block[swap_known]] = True
    while True:
        newly = ~swap_known & seen[swap_to] & ~seen[from_block]
        if not newly.any():
            break
        seen[from_block[newly]] = True
    counts = (rows.type[said.write] == Outcome.OK) | seen[write_block]
    write_row, write_block = said.write[counts], write_block[counts]
    swap_counts = swap_known | seen[swap_to]
    from_block, swap_to = from_block[swap_counts], swap_to[swap_counts]

    writers = np.bincount(write_block, minlength=blocks_count)
    writer = np.full(blocks_count, NONE, np.int64)
    writer[write_block] = write_row
    twice = (writers > 1) | ((writers > 0) & (blocks_value == NONE))
    ambiguous = np.zeros(count, np.bool_)
    ambiguous[blocks_object[twice]] = True
    was_there = (writers[refused_block] > 0) | (blocks_value[refused_block] == NONE)
    ambiguous[blocks_object[refused_block[was_there]]] = True

    parent = np.arange(blocks_count)
    parent[swap_to] = from_block
    root, depth, cyclic = _chains(parent)
    blocks = Blocks(blocks_object, blocks_value, writers, writer, seen, parent, root, depth, cyclic)
    entries = _entries(rows, write_row, write_block, said.read, read_block, blocks)

    replaced_twice = np.flatnonzero(np.bincount(from_block, minlength=blocks_count) > 1)
    found = _block_flaws(blocks, replaced_twice)
    chains, places, zones, more = _time_flaws(entries, blocks, root[replaced_twice])
    found = [one for one in [*found, *more] if not ambiguous[one.object]]
    return RegisterScan(rows, objects, np.flatnonzero(ambiguous), tuple(found), blocks, entries, chains, places, zones)


def _mentions(rows: Columns) -> _Mentions:
    happened = rows.type == Outcome.OK
    possible = happened | (rows.type == Outcome.INFO)
    cas = rows.f == Action.CAS
    swap = cas & possible & (rows.a != rows.b) & (~happened | (rows.seen == rows.a))
    write = ((rows.f == Action.WRITE) & possible) | swap
    read = happened & ((rows.f == Action.READ) | (cas & ~swap))
    refused = cas & (rows.type == Outcome.FAIL) & (rows.err == ErrorCode.NONE)
    value_seen = np.where(cas, rows.seen, rows.a)
    value_put = np.where(cas, rows.b, rows.a)
    write_row, read_row, swap_row, refused_row = map(np.flatnonzero, (write, read, swap, refused))
    return _Mentions(
        write_row,
        value_put[write_row],
        read_row,
        value_seen[read_row],
        swap_row,
        rows.a[swap_row],
        refused_row,
        rows.a[refused_row],
    )


def _chains(parent: Ints) -> tuple[Ints, Ints, Bools]:
    """Root and depth of every block by pointer doubling, and which blocks lead into a cycle instead of to a root."""
    is_root = parent == np.arange(len(parent))
    up = parent.copy()
    depth = np.where(is_root, 0, 1)
    for _ in range(len(parent).bit_length()):
        if is_root[up].all():
            break
        depth = depth + depth[up]
        up = up[up]
    cyclic = ~is_root[up]
    up[cyclic] = np.flatnonzero(cyclic)
    depth[cyclic] = 0
    return up, depth, cyclic


def _entries(
    rows: Columns, write_row: Ints, write_block: Ints, read_row: Ints, read_block: Ints, blocks: Blocks
) -> Entries:
    row = np.concatenate([write_row, read_row])
    block = np.concatenate([write_block, read_block])
    late = np.concatenate([np.zeros(len(write_row), np.int64), np.ones(len(read_row), np.int64)])
    times = small_times(rows.t_inv[row], rows.t_ret[row], len(blocks.object))
    return Entries(
        row, block, blocks.root[block], 2 * blocks.depth[block] + late, times.start, times.end, times.span, times
    )


def _block_flaws(blocks: Blocks, replaced: Ints) -> list[FlawFound]:
    """Conditions 1 and 2."""
    unwritten = np.flatnonzero(blocks.seen & (blocks.writers == 0) & (blocks.value != NONE))
    cyclic = np.flatnonzero(blocks.cyclic)
    found = [FlawFound(Flaw.UNWRITTEN, int(blocks.object[block]), int(block)) for block in unwritten]
    found += [FlawFound(Flaw.REPLACED_TWICE, int(blocks.object[block]), int(block)) for block in replaced]
    _, first_of_object = np.unique(blocks.object[cyclic], return_index=True)
    found += [FlawFound(Flaw.CYCLE, int(blocks.object[block]), int(block)) for block in cyclic[first_of_object]]
    return found


def _time_flaws(entries: Entries, blocks: Blocks, trees: Ints) -> tuple[Ints, Ints, Zones, list[FlawFound]]:
    """Conditions 3 and 4; also chain and place of every group of entries, for the explanation, and the zones.

    `trees` are the roots of what is no chain, because a value in it was replaced twice.
    """
    empty = np.zeros(0, np.int64)
    if not len(entries.row):
        return empty, empty, Zones(empty, empty, empty), []
    places = int(entries.place.max()) + 1
    key = entries.chain * places + entries.place
    order = ordering(key)
    key = key[order]
    begins = group_starts(key)
    latest_start = np.maximum.reduceat(entries.start[order], begins)
    earliest_end = np.minimum.reduceat(entries.end[order], begins)
    chain, place = key[begins] // places, key[begins] % places

    chain_begins = group_starts(chain)
    sequence = np.repeat(np.arange(len(chain_begins)), np.diff(np.append(chain_begins, len(chain))))
    _, before = lifted_maximum_before(latest_start, sequence, entries.span)
    is_tree = np.zeros(len(blocks.object), np.bool_)
    is_tree[trees] = True
    inside = np.flatnonzero((earliest_end + sequence * entries.span < before) & ~is_tree[chain])
    # One operation that began too late contradicts all that follow it: they count once, under the first of them.
    _, first = np.unique(before[inside], return_index=True)
    found = [FlawFound(Flaw.INSIDE_CHAIN, int(blocks.object[chain[group]]), int(group)) for group in inside[first]]

    roots = chain[chain_begins]
    f = np.minimum.reduceat(earliest_end, chain_begins)
    g = np.maximum.reduceat(latest_start, chain_begins)
    zones = Zones(roots, f, g)
    # The write of the initial value ended before everything, even if no operation observed that.
    f = np.where(blocks.value[roots] == NONE, 0, f)
    # A chain that is wrong in itself is reported already and proves nothing about others.
    sound = (blocks.writers[roots] > 0) | (blocks.value[roots] == NONE)
    sound[sequence[inside]] = False
    sound &= ~is_tree[roots]
    return chain, place, zones, [*found, *_overlaps(roots[sound], f[sound], g[sound], blocks, entries.span)]


def _overlaps(roots: Ints, f: Ints, g: Ints, blocks: Blocks, span: int) -> list[FlawFound]:
    """Condition 4: one flaw per forward zone that another zone collides with."""
    forward = f < g
    low, high = np.minimum(f, g), np.maximum(f, g)
    registers, register = dense(blocks.object[roots])
    # Where low ends are equal, backward zones come first: they touch the forward zone but do not lie inside it.
    order = ordering((register * span + low) * 2 + forward)
    roots, forward, low, high, register = roots[order], forward[order], low[order], high[order], register[order]
    running, before = lifted_maximum_before(np.where(forward, high, 0), register, span)
    collides = np.flatnonzero(np.where(forward, low, high) + register * span < before)
    culprits = np.searchsorted(running, before[collides], side="left")
    _, first = np.unique(culprits, return_index=True)
    return [
        FlawFound(Flaw.CHAINS_OVERLAP, int(registers[register[one]]), int(roots[culprit]), int(roots[one]))
        for culprit, one in zip(culprits[first], collides[first], strict=True)
    ]
