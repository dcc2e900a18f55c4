"""Rows of a piece of a history, reduced to fewer rows that say the same about registers.

A history of any length is cut into *pieces*, rows in the order recorded. Each is reduced by itself to rows that `scan` finds the
same flaws in, together with those of the other pieces, as in all rows: the same number of each kind. So pieces are reduced,
joined with their neighbours and reduced again, until one is left. How much is left of a piece depends on how many operations
were under way at its ends, not on its length.

Times tell most of what another piece can hold. A piece has a *territory*: behind everything that earlier pieces hold and before
everything that later ones do. A chain is *closed* when its write and all its operations lie in the territory, it is sound, and it
ended neither as the newest nor began as the oldest of its register: had a closed value been seen in another piece as well, its
chain would hold a whole other one in its midst, a violation. No value is believed to be in one piece only for that: the pieces
return a hash of each value that they hold, and one that is closed in one piece and occurs in another is *opened* in the former,
which is reduced again.

Of closed chains no other piece needs more than the outermost: a zone that reaches into the territory from outside meets the
first or the last of the zones in it, if any. So these stay, with all that are part of a collision, and what stays of each value is
its writes, the read that ended first and the read that began last. Of a long chain the middle becomes a *link*, a
compare-and-set that never happened and stands for many: it keeps no time, since the operations of the middle that began last
and ended first stay, too.
"""

from collections.abc import Sequence
from typing import Any, Final

import attrs
import numpy as np
import numpy.typing as npt

from jepsen_like.checker.register.scan import LINK, Flaw, RegisterScan, scan
from jepsen_like.checker.rows.columns import Bools, Columns, Ints
from jepsen_like.checker.rows.segments import dense_pairs, group_starts, lifted_maximum_before, ordering
from jepsen_like.checker.verdict import WITNESS_OPS_MAX
from jepsen_like.history.ops import NEVER, NONE, Action, ErrorCode, Outcome

REGISTER_BITS: Final = 12
"""In a key. Only so many registers are reduced together."""
LINKED_MIN: Final = 4
"""So many blocks in a row become a link, at least."""
Keys = npt.NDArray[np.uint64]
NO_KEYS: Final = np.zeros(0, np.uint64)


@attrs.frozen
class Territory:
    """The time between what earlier pieces and what later pieces hold, both excluded."""

    begin: int = -NEVER
    end: int = NEVER


@attrs.frozen(eq=False)
class Reduced:
    """The rest of a piece after it was reduced."""

    rows: Columns
    ambiguous: Ints
    """Registers that the scan cannot decide; nothing is left of them."""
    keys: Keys
    """A hash of each value that was there, sorted. Its last bit: whether it is closed."""


def keys_of(registers: Ints, values: Ints) -> Keys:
    """Returns a hash of each value: above it the number of the register, below it one bit that is 0."""
    mixed = values.astype(np.uint64) + np.uint64(0x9E3779B97F4A7C15)
    for factor in (0xBF58476D1CE4E5B9, 0x94D049BB133111EB):
        mixed ^= mixed >> np.uint64(30)
        mixed *= np.uint64(factor)
    mixed >>= np.uint64(REGISTER_BITS)
    return (registers.astype(np.uint64) << np.uint64(64 - REGISTER_BITS)) | (mixed & ~np.uint64(1))


def registers_of(keys: Keys) -> Ints:
    """Returns the number of the register of each key."""
    return (keys >> np.uint64(64 - REGISTER_BITS)).astype(np.int64)


def shared_keys(pieces: Sequence[Keys]) -> Keys:
    """Returns the keys that are closed in one of these pieces and occur in another, without their last bit."""
    merged = np.sort(np.concatenate([NO_KEYS, *pieces]))
    key = merged >> np.uint64(1)
    # Keys are different within a piece, and a closed one comes last.
    again = (key[1:] == key[:-1]) & (merged[1:] & np.uint64(1)).astype(np.bool_)
    return np.unique(merged[1:][again] & ~np.uint64(1))


def occurs(keys: npt.NDArray[Any], among: npt.NDArray[Any]) -> Bools:
    """Returns which of `keys` are in `among`, which is sorted."""
    if not len(among):
        return np.zeros(len(keys), np.bool_)
    found: Bools = among[np.minimum(np.searchsorted(among, keys), len(among) - 1)] == keys
    return found


def reduce_piece(rows: Columns, registers: Ints, number: Ints, territory: Territory, opened: Keys = NO_KEYS) -> Reduced:
    """Reduce a piece about `registers`, sorted; row i is about that at `number[i]`. Other pieces hold `opened` too."""
    outcome = scan(rows, (registers, number))
    blocks = outcome.blocks
    decided = np.ones(len(outcome.objects), np.bool_)
    decided[outcome.ambiguous] = False
    block_key = keys_of(blocks.object, blocks.value)
    beside = _beside(outcome, number, decided, block_key, territory, opened)
    opened = np.union1d(opened, beside.expected)
    is_open = occurs(block_key, opened) | (blocks.value == NONE)
    entries = outcome.entries
    start, end, times = entries.start, entries.end, entries.times
    first, last = times.below(territory.begin), times.above(territory.end)
    inside = (start > first) & (start < last) & ((end < last) | (end == entries.span - 2))
    is_open[entries.block[~inside]] = True

    chains = _Chains.of(outcome, is_open)
    kept_chain = np.zeros(len(blocks.object), np.bool_)
    kept_chain[chains.root[chains.choose_kept()]] = True
    kept_chain &= decided[blocks.object]
    closed_chain = np.zeros(len(blocks.object), np.bool_)
    closed_chain[chains.root[chains.closed]] = True
    kept_entry = np.flatnonzero(kept_chain[entries.chain])
    linear = np.zeros(len(blocks.object), np.bool_)
    linear[chains.root[chains.sound]] = True
    dropped, linked, links = _link(outcome, start, end, kept_entry, linear, is_open)
    kept_entry = kept_entry[~dropped[entries.block[kept_entry]]]
    chosen = entries.row[_extremes(outcome, start, end, kept_entry)]
    chosen = np.concatenate([chosen, beside.rows])

    mentioned = (blocks.seen | (blocks.writers > 0)) & (blocks.value != NONE) & decided[blocks.object]
    is_closed = closed_chain[blocks.root] | dropped
    is_closed[linked] = True
    keys = np.concatenate(
        [
            block_key[mentioned & ~is_closed],
            block_key[mentioned & is_closed] | np.uint64(1),
            beside.open_keys,
            beside.closed_keys | np.uint64(1),
        ]
    )
    keys = np.sort(keys)
    keys = keys[group_starts(keys)]
    # Of one that is both something was left out.
    both = np.zeros(len(keys), np.bool_)
    both[:-1] = (keys[1:] ^ np.uint64(1)) == keys[:-1]
    left = rows.where(np.sort(chosen))
    if len(links.object):
        left = Columns.join([left, links])
    return Reduced(left, outcome.objects[outcome.ambiguous], keys[~both])


@attrs.frozen(eq=False)
class _Beside:
    """Rows that are part of no chain: refused ones, and those of unknown outcome whose value was not seen."""

    rows: Ints
    """Those that stay."""
    expected: Keys
    """The keys that compare-and-sets among these expect to replace, which they do if their own value is seen in another piece."""
    open_keys: Keys
    closed_keys: Keys


def _beside(
    outcome: RegisterScan, number: Ints, decided: Bools, block_key: Keys, territory: Territory, opened: Keys
) -> _Beside:
    rows = outcome.rows
    cas = rows.f == Action.CAS
    undecided = ~decided[number]
    writes = (rows.f == Action.WRITE) | (cas & (rows.a != rows.b))
    refused = np.flatnonzero(cas & (rows.type == Outcome.FAIL) & (rows.err == ErrorCode.NONE) & ~undecided)
    failed = np.flatnonzero((cas | (rows.f == Action.WRITE)) & (rows.type == Outcome.FAIL) & ~undecided)
    unknown = np.flatnonzero(writes & (rows.type == Outcome.INFO) & ~undecided)
    put = np.where(cas, rows.b, rows.a)
    counted = np.zeros(len(rows), np.bool_)
    counted[outcome.entries.row] = True
    unknown = unknown[~counted[unknown]]
    blocks = outcome.blocks
    unwritten = np.sort(block_key[blocks.seen & (blocks.writers == 0)])

    # One of each value is enough. Values that share a hash are still two.
    _, first = np.unique(dense_pairs(number[refused], rows.a[refused])[2], return_index=True)
    refused = refused[first]
    refused_key = keys_of(number[refused], rows.a[refused])
    unknown_key = keys_of(number[unknown], put[unknown])
    begun = rows.t_inv[unknown]
    unknown_stays = occurs(unknown_key, opened) | (begun <= territory.begin) | (begun >= territory.end)
    # What one that stays expects to replace may have been put by another one whose value was not seen.
    expects = keys_of(number[unknown], rows.a[unknown])
    while True:
        expected = np.unique(expects[unknown_stays & cas[unknown]])
        more = occurs(unknown_key, expected) & ~unknown_stays
        if not more.any():
            break
        unknown_stays |= more
    failed_key = keys_of(number[failed], put[failed])
    failed_stays = occurs(failed_key, unwritten) | occurs(failed_key, opened) | occurs(failed_key, expected)
    stays = np.unique(np.concatenate([refused, failed[failed_stays], unknown[unknown_stays]]))
    return _Beside(
        stays,
        expected,
        np.concatenate([refused_key, expected, failed_key[failed_stays], unknown_key[unknown_stays]]),
        np.concatenate([failed_key[~failed_stays], unknown_key[~unknown_stays]]),
    )


@attrs.frozen(eq=False)
class _Chains:
    """One row per chain, sorted by register."""

    root: Ints
    object: Ints
    f: Ints
    g: Ints
    """Small times."""
    span: int
    sound: Bools
    """True if no flaw inside was found, and it is no tree and no ring."""
    closed: Bools

    @classmethod
    def of(cls, outcome: RegisterScan, is_open: Bools) -> "_Chains":
        """Returns the chains of a piece; `is_open` are blocks of which other pieces may know more."""
        blocks = outcome.blocks
        count = len(blocks.object)
        root, f, g = outcome.zones.root, outcome.zones.f, outcome.zones.g
        flawed = blocks.cyclic.copy()
        for flaw in outcome.found:
            if flaw.flaw is Flaw.INSIDE_CHAIN:
                flawed[outcome.place_chain[flaw.where]] = True
            elif flaw.flaw is Flaw.REPLACED_TWICE:
                flawed[blocks.root[flaw.where]] = True
        unclosed = np.zeros(count, np.bool_)
        unclosed[blocks.root[is_open]] = True
        unclosed |= flawed | (blocks.writers == 0)
        objects = blocks.object[root]
        chains = cls(root, objects, f, g, outcome.entries.span, ~flawed[root], ~unclosed[root])
        return attrs.evolve(chains, closed=chains.closed & ~chains._outermost())

    def _outermost(self) -> Bools:
        """Those that may go on in a later piece, or have begun in an earlier one, without holding another."""
        if not len(self.root):
            return self.closed
        last, last_but_one = self._two_greatest(self.g)
        first, first_but_one = (-value for value in self._two_greatest(-self.f))
        newest = self.f >= np.where(self.g == last, last_but_one, last)
        oldest = self.g <= np.where(self.f == first, first_but_one, first)
        found: Bools = newest | oldest
        return found

    def _two_greatest(self, values: Ints) -> tuple[Ints, Ints]:
        """The greatest value of each register and the one after it, given for each chain."""
        begins = group_starts(self.object)
        sizes = np.diff(np.append(begins, len(self.object)))
        first = np.repeat(np.maximum.reduceat(values, begins), sizes)
        is_first = values == first
        several = np.repeat(np.add.reduceat(is_first.astype(np.int64), begins) > 1, sizes)
        rest = np.repeat(np.maximum.reduceat(np.where(is_first, -NEVER, values), begins), sizes)
        return first, np.where(several, first, rest)

    def choose_kept(self) -> Bools:
        """Which stay: those that are not closed, the outermost of the others, and all that are part of a collision."""
        stays = ~self.closed
        if not len(stays):
            return stays
        forward = self.f < self.g
        begins = group_starts(self.object)
        sizes = np.diff(np.append(begins, len(self.object)))
        number = np.repeat(np.arange(len(begins)), sizes)
        for which, values in (
            (forward, self.g),
            (forward, self.f),
            (forward, -self.f),
            (~forward, self.g),
            (~forward, -self.f),
        ):
            of_some = np.where(which & self.closed, values, -NEVER)
            chosen = np.flatnonzero(of_some == np.maximum.reduceat(of_some, begins)[number])
            chosen = chosen[of_some[chosen] > -NEVER]
            _, one = np.unique(number[chosen], return_index=True)
            stays[chosen[one]] = True
        stays[_collisions(number, self.f, self.g, self.closed, self.span)] = True
        return stays


def _collisions(register: Ints, f: Ints, g: Ints, closed: Bools, span: int) -> Ints:
    """Returns closed chains that collide, or may with an open one: for each forward zone (see `scan`) the first."""
    those = np.flatnonzero(closed)
    if not len(those):
        return those
    forward = f[those] < g[those]
    low, high = np.minimum(f, g)[those], np.maximum(f, g)[those]
    order = ordering((register[those] * span + low) * 2 + forward)
    those, forward, low, high = those[order], forward[order], low[order], high[order]
    of_closed = register[those]
    running, before = lifted_maximum_before(np.where(forward, high, 0), of_closed, span)
    at = np.maximum.accumulate(np.where(running != before, np.arange(len(those)), 0))
    collides = np.flatnonzero(np.where(forward, low, high) + of_closed * span < before)
    culprit = at[collides - 1]
    _, first = np.unique(culprit, return_index=True)
    found = [culprit[first], collides[first]]
    others = np.flatnonzero(~closed)
    if len(others):
        key = of_closed * span + low
        begin_of = register[others] * span
        end = np.searchsorted(key, begin_of + span)
        f_key, g_key = begin_of + f[others], begin_of + g[others]
        # Such a chain may collide with the highest zone of those that begin before its f, or its g ...
        for places in (f_key, g_key):
            place = np.searchsorted(key, places, side="right") - 1
            meets = (place >= 0) & (running[np.maximum(place, 0)] > f_key)
            found.append(at[place[meets]])
        # ... and with the next forward zone after its f, and of the backward ones after it with that which ends first.
        after = np.searchsorted(key, f_key)
        count = len(those)
        lifted = np.where(forward, span, high) + of_closed * span
        least = _least_of_rest(lifted)
        for where in (forward, lifted == least):
            following = np.append(_least_of_rest(np.where(where, np.arange(count), count)), count)[after]
            meets = following < end
            meets[meets] = np.where(forward, low, high)[following[meets]] < g[others[meets]]
            found.append(following[meets])
    taken: Ints = those[np.unique(np.concatenate(found))]
    return taken


def _least_of_rest(values: Ints) -> Ints:
    """For each place the least value of its own and all later ones."""
    least: Ints = np.minimum.accumulate(values[::-1])[::-1]
    return least


def _extremes(outcome: RegisterScan, start: Ints, end: Ints, chosen: Ints) -> Ints:
    """Of these entries all writes, and the reads of each block that ended first and that began last."""
    entries = outcome.entries
    is_read = entries.place[chosen] % 2 == 1
    reads = chosen[is_read]
    kept = [chosen[~is_read]]
    for values in (end, -start):
        order = reads[np.lexsort((values[reads], entries.block[reads]))]
        kept.append(order[group_starts(entries.block[order])])
    return np.unique(np.concatenate(kept))


def _link(
    outcome: RegisterScan, start: Ints, end: Ints, kept_entry: Ints, linear: Bools, is_open: Bools
) -> tuple[Bools, Ints, Columns]:
    """Which blocks of the chains that stay become part of a link, those before a link, and the links."""
    blocks, entries = outcome.blocks, outcome.entries
    dropped = np.zeros(len(blocks.object), np.bool_)
    nothing, no_blocks = Columns.of_ops(()), np.zeros(0, np.int64)
    mine = np.unique(entries.block[kept_entry])
    mine = mine[linear[blocks.root[mine]]]
    length = np.bincount(blocks.root[mine], minlength=len(blocks.object))
    mine = mine[length[blocks.root[mine]] > LINKED_MIN + 2 * WITNESS_OPS_MAX]
    if not len(mine):
        return dropped, no_blocks, nothing
    mine = mine[np.lexsort((blocks.depth[mine], blocks.root[mine]))]
    root = blocks.root[mine]
    replaced = np.bincount(blocks.parent[mine[blocks.parent[mine] != mine]], minlength=len(blocks.object))
    inner = ~is_open[mine] & (blocks.writers[mine] == 1) & (replaced[mine] == 1) & (blocks.depth[mine] > 0)
    # The blocks of a run between two that stay: those with the latest start and the earliest end stay, too.
    run = np.cumsum(np.append(True, (root[1:] != root[:-1]) | ~inner[1:] | ~inner[:-1]))
    run_of = np.full(len(blocks.object), NONE, np.int64)
    run_of[mine[inner]] = run[inner]
    within = kept_entry[run_of[entries.block[kept_entry]] != NONE]
    place = np.zeros(len(blocks.object), np.int64)
    place[mine] = np.arange(len(mine))
    important = ~inner
    for values in (end, -start):
        order = within[np.lexsort((values[within], run_of[entries.block[within]]))]
        important[place[entries.block[order[group_starts(run_of[entries.block[order]])]]]] = True
    # And the neighbours of all that stay, so that a witness which leads through a link is not short of operations.
    at = np.flatnonzero(important)
    for shift in range(-WITNESS_OPS_MAX, WITNESS_OPS_MAX + 1):
        near = at + shift
        fits = (near >= 0) & (near < len(mine))
        near = near[fits]
        important[near[root[near] == root[at[fits]]]] = True
    goes = ~important
    edge = np.flatnonzero(np.diff(np.concatenate([[False], goes, [False]]).astype(np.int8)))
    begins, ends = edge[::2], edge[1::2]
    long = ends - begins >= LINKED_MIN
    begins, ends = begins[long], ends[long]
    if not len(begins):
        return dropped, no_blocks, nothing
    for_run = np.zeros(len(mine) + 1, np.int64)
    np.add.at(for_run, begins, 1)
    np.add.at(for_run, ends, -1)
    dropped[mine[np.cumsum(for_run[:-1]) > 0]] = True
    # A link leads from the block before to the last of those dropped, whose value the next compare-and-set replaced.
    last = mine[ends - 1]
    rows = outcome.rows
    writer = blocks.writer[last]
    links = rows.where(writer)
    shown = blocks.value[mine[begins - 1]]
    links = attrs.evolve(
        links,
        f=np.full(len(last), Action.CAS, np.int8),
        type=np.full(len(last), Outcome.OK, np.int8),
        err=np.zeros(len(last), np.int16),
        process=np.full(len(last), LINK, np.int32),
        a=shown,
        seen=shown,
        b=blocks.value[last],
        t_ret=np.full(len(last), NEVER),
    )
    # What replaced the block before a link is left out: it is as closed as those that are.
    return dropped, mine[begins - 1], links
