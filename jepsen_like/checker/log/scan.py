"""Linearizability of a replicated log, decided by one sort and one running maximum, in two passes over its pieces.

Offsets fix the order, so an operation only bounds the committed length, which never falls:

    operation             length when it ended    length when it began
    append at o           at least o + 1          at most o
    read at o saw a value at least o + 1          anything
    read at o saw nothing anything                at most o
    tail said n           at least n              at most n

A history is linearizable exactly when every place below the greatest known length has one value and an append of its own
that may have put it there (the *values*), and no operation began above a length that it denies: no y, x with
end(y) < start(x) and at_least(y) > at_most(x) (the *times*). The records of one batch count as appends at the same time,
and a length that ends inside it counts as one before or behind it (`batches`).

An append of unknown outcome may fill a place that no acknowledged append fills, if nothing showed that place to be filled
before the append began; who fills what is a matching that a greedy walk from the latest place down finds. The final logs
of the nodes are reads after everything else. Each place has one epoch, and epochs never fall along a log.

Pass one (`facts_of`) reduces a piece of the history to what the values need; `plan_of` joins the pieces; pass two
(`times_of`) checks the times of a piece, given what ended in other pieces before it; `holes_filled` does the matching. A
piece is a time segment of one log, so a log of any length needs the memory of a few pieces, plus eight bytes a record.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

import attrs
import numpy as np
import numpy.typing as npt

from jepsen_like.checker.log.batches import TornBatch, batches_of, joined_spans, placed_batches, whole_lengths
from jepsen_like.checker.rows.columns import Columns, Ints, begins_operation
from jepsen_like.history.ops import NEVER, NONE, Action, ErrorCode, Op, Outcome

EXAMPLES_MAX: Final = 5
EMPTY: Final[Ints] = np.zeros(0, np.int64)
NO_BATCHES: Final[Ints] = np.zeros((2, 0), np.int64)


@attrs.frozen(eq=False)
class Piece:
    """One log's operations in one piece of a history."""

    rows: Columns

    @property
    def ok(self) -> npt.NDArray[np.bool_]:
        """Returns which of them happened."""
        return np.asarray(self.rows.type == Outcome.OK)

    def at_least(self) -> Ints:
        """Returns the length known when each operation ended (0: none is known from it)."""
        rows = self.rows
        appended = rows.f == Action.APPEND
        saw = (rows.f == Action.READ) & (rows.a != NONE)
        lengths = np.where(appended | saw, rows.offset + 1, np.where(rows.f == Action.TAIL, rows.offset, 0))
        return np.where(self.ok, lengths, 0)

    def at_most(self) -> Ints:
        """Returns the greatest length possible when each operation began (`NEVER`: any)."""
        rows = self.rows
        denies = (rows.f != Action.READ) | (rows.a == NONE)
        return np.where(self.ok & denies, rows.offset, NEVER)


@attrs.frozen(eq=False, kw_only=True)
class Facts:
    """The answer of pass one for one log in one piece; it is small compared with the piece itself."""

    object: int
    piece: int
    ok: int
    """Operations, each counted once however many records it has; `acked` counts records."""
    fail: int
    info: int
    acked: int
    t_first: int
    t_last: int
    """The latest moment that anything is known of."""
    ended_first: int
    ended_last: int
    """The moment when the operations that make a length known ended."""
    began_first: int
    began_last: int
    """The moment when the operations that deny a length began."""
    length: int
    """The greatest known length, and (if not 0) who knew it."""
    length_op: Op | None
    filled_from: int
    filled: npt.NDArray[np.uint8]
    """Bits, from offset `filled_from` on (0 if there are none): acknowledged appends that agree with the given content."""
    filled_twice: Ints
    append_offset: Ints
    append_value: Ints
    """Acknowledged appends that do not agree with the given content."""
    read_offset: Ints
    read_value: Ints
    """The values that reads saw there and that do not agree with it, each once."""
    info_value: Ints
    info_start: Ints
    info_batch: Ints
    """Appends of unknown outcome; records that were sent together have one number that is theirs in this piece."""
    batch_start: Ints
    batch_end: Ints
    """The place where acknowledged batches stand."""
    scattered: tuple[Op, ...]
    """The first record of acknowledged batches whose places do not follow each other."""
    claim_offset: Ints
    claim_value: Ints
    claim_epoch: Ints
    """The claims of appends and reads about a place and its epoch that do not agree with the given epochs."""
    refused: Ints
    """Values whose append certainly did not happen."""
    unplaced: int
    """Acknowledged operations that do not say where: nothing can be decided."""
    damaged: tuple[Op, ...]
    """Reads whose record was not the one that was written under its id."""


def pieces_of(rows: Columns) -> dict[int, Piece]:
    """Returns the logs in one part file."""
    if not len(rows):
        return {}
    if (rows.object == rows.object[0]).all():
        return {int(rows.object[0]): Piece(rows)}
    order = np.argsort(rows.object, kind="stable")
    cuts = np.append(np.flatnonzero(np.append(True, np.diff(rows.object[order]) != 0)), len(rows))
    return {
        int(rows.object[order[begin]]): Piece(rows.where(order[begin:end]))
        for begin, end in zip(cuts[:-1].tolist(), cuts[1:].tolist(), strict=True)
    }


def facts_of(piece: Piece, name: int, number: int, content: Ints = EMPTY, epochs: Ints = EMPTY) -> Facts:
    """Pass one. `content[o]` is the value in the final logs, `NONE` where they say nothing; it may be empty.

    So may `epochs`, in which its epoch stands.
    """
    rows, ok = piece.rows, piece.ok
    append = rows.f == Action.APPEND
    placed = rows.offset >= 0
    acked = np.flatnonzero(ok & append & placed)
    agrees = _agrees(content, rows.offset[acked], rows.a[acked])
    saw = np.flatnonzero(ok & (rows.f == Action.READ) & (rows.a != NONE) & placed)
    saw = saw[~_agrees(content, rows.offset[saw], rows.a[saw])]
    read_pairs = np.unique(np.stack([rows.offset[saw], rows.a[saw]]), axis=1)
    at_least, at_most = piece.at_least(), piece.at_most()
    known, denies = np.flatnonzero(at_least > 0), np.flatnonzero(at_most < NEVER)
    longest = int(known[np.argmax(at_least[known])]) if len(known) else NONE
    unknown = np.flatnonzero((rows.type == Outcome.INFO) & append)
    offsets = np.sort(rows.offset[acked[agrees]])
    begins = begins_operation(rows.process, rows.t_inv, rows.t_ret)
    outcomes = rows.type[begins]
    batches = batches_of(rows, begins)
    claims = _claims(rows, ok & placed & (append | ((rows.f == Action.READ) & (rows.a != NONE))), epochs)
    filled_from, filled = _bits(offsets)
    return Facts(
        object=name,
        piece=number,
        ok=int((outcomes == Outcome.OK).sum()),
        fail=int((outcomes == Outcome.FAIL).sum()),
        info=int((outcomes == Outcome.INFO).sum()),
        acked=int((ok & append).sum()),
        t_first=_least(rows.t_inv, NEVER),
        t_last=_most(np.where(rows.t_ret < NEVER, rows.t_ret, rows.t_inv), 0),
        ended_first=_least(rows.t_ret[known], NEVER),
        ended_last=_most(rows.t_ret[known], -NEVER),
        began_first=_least(rows.t_inv[denies], NEVER),
        began_last=_most(rows.t_inv[denies], -NEVER),
        length=int(at_least[longest]) if longest != NONE else 0,
        length_op=rows.op(longest) if longest != NONE else None,
        filled_from=filled_from,
        filled=filled,
        filled_twice=np.unique(offsets[1:][offsets[1:] == offsets[:-1]]),
        append_offset=rows.offset[acked[~agrees]],
        append_value=rows.a[acked[~agrees]],
        read_offset=read_pairs[0],
        read_value=read_pairs[1],
        info_value=rows.a[unknown],
        info_start=rows.t_inv[unknown],
        info_batch=batches.batch[unknown],
        batch_start=batches.starts,
        batch_end=batches.ends,
        scattered=tuple(rows.op(int(row)) for row in batches.scattered[:EXAMPLES_MAX]),
        claim_offset=rows.offset[claims],
        claim_value=rows.a[claims],
        claim_epoch=rows.epoch[claims].astype(np.int64),
        refused=np.unique(rows.a[(rows.type == Outcome.FAIL) & append]),
        unplaced=int((ok & ~placed).sum()),
        damaged=tuple(
            rows.op(int(row)) for row in np.flatnonzero(ok & (rows.err == ErrorCode.DAMAGED_VALUE))[:EXAMPLES_MAX]
        ),
    )


def _claims(rows: Columns, speaks: npt.NDArray[np.bool_], epochs: Ints) -> Ints:
    """Rows that name an epoch which is not the known one of their place."""
    claims = np.flatnonzero(speaks & (rows.epoch != NONE))
    return claims[~_agrees(epochs, rows.offset[claims], rows.epoch[claims].astype(np.int64))]


def _least(values: Ints, default: int) -> int:
    return int(values.min()) if len(values) else default


def _most(values: Ints, default: int) -> int:
    return int(values.max()) if len(values) else default


def _agrees(content: Ints, offsets: Ints, values: Ints) -> npt.NDArray[np.bool_]:
    within = offsets < len(content)
    return np.asarray(within & (content[np.where(within, offsets, 0)] == values)) if len(content) else within


def _bits(offsets: Ints) -> tuple[int, npt.NDArray[np.uint8]]:
    if not len(offsets):
        return 0, np.zeros(0, np.uint8)
    first = int(offsets[0])
    flags = np.zeros(int(offsets[-1]) - first + 1, np.bool_)
    flags[offsets - first] = True
    return first, np.packbits(flags)


@attrs.frozen(eq=False)
class FinalLogs:
    """The final logs of all nodes as one: what a read of each place, after everything else, would see."""

    content: Ints
    end: int
    node_of: Mapping[int, tuple[int, int]]
    """Per node: its first offset and its end."""
    expires: bool = False
    """True if what lies below all of them has left by a rule; otherwise it is lost."""
    epochs: Ints = EMPTY
    """The epoch of each place, `NONE` where they say nothing; empty if they never do."""

    @property
    def start(self) -> int:
        """Returns where they begin: the first offset that any of them holds."""
        return min((first for first, _ in self.node_of.values()), default=0)

    def node_at(self, offset: int) -> int:
        """Returns a node whose final log tells what is at `offset` (or that nothing is)."""
        longest = max(self.node_of, key=lambda node: (self.node_of[node][1], -node), default=NONE)
        holders = [node for node, (first, end) in self.node_of.items() if first <= offset < end]
        return min(holders, default=longest)


@attrs.frozen
class LostValue:
    """An acknowledged append, or a value read, that the final logs do not hold at its place."""

    offset: int
    value: int
    acked: bool


@attrs.frozen
class Diverged:
    """Two values were seen at one place."""

    offset: int
    value: int
    other: int


@attrs.frozen
class AckedTwice:
    """Two appends were acknowledged at one place."""

    offset: int
    value: int


@attrs.frozen
class Unwritten:
    """A value at a place that no append of this value can have filled."""

    offset: int
    value: int


@attrs.frozen
class SeenEarly:
    """The only appends left for the place began after it was known to be filled.

    All other appends of the value are needed at places up to `reach`, which were known to be filled by `deadline`; for a
    value that was appended once, `reach` is the place itself.
    """

    offset: int
    value: int
    deadline: int
    reach: int


@attrs.frozen
class Gap:
    """The log was known to be longer than `offset`, but no append can have filled that place."""

    offset: int
    deadline: int


@attrs.frozen
class EpochDiffers:
    """The value at a place was said to be of one epoch, and is of another."""

    offset: int
    value: int
    epoch: int
    other: int


@attrs.frozen
class EpochFalls:
    """A place is of a lower epoch than `earlier`, a place before it."""

    offset: int
    epoch: int
    earlier: int
    earlier_epoch: int


Wrong = LostValue | Diverged | AckedTwice | Unwritten | SeenEarly | Gap | EpochDiffers | EpochFalls | TornBatch
"""The ways in which values can be wrong; each names a place of the log."""


@attrs.frozen(eq=False, kw_only=True)
class LogPlan:
    """One log after pass one: its content, what is already known to be wrong, and what pass two needs."""

    object: int
    content: Ints
    final: FinalLogs | None
    wrong: tuple[Wrong, ...]
    lost_acked: int
    expired: int
    """Acknowledged records that have left all logs by the rule."""
    too_long: Op | None
    """The operation that knew of a length that the final logs, or all appends together, do not reach."""
    holes: Ints
    """Places that no acknowledged append fills."""
    batches: Ints
    """The place where batches start and end; see `batches.joined_spans`."""
    facts: tuple[Facts, ...]
    appends: int
    """The number of all appends, whether acknowledged or of unknown outcome."""
    t_last: int
    """The latest moment that anything is known of."""

    def places(self, value: int) -> list[int]:
        """Returns where a value stands."""
        return [int(place) for place in np.flatnonzero(self.content == value)]


def plan_of(facts: Sequence[Facts], final: FinalLogs | None) -> LogPlan:
    """Join the pieces of one log."""
    appends = sum(one.acked + len(one.info_value) for one in facts)
    longest = max(facts, key=lambda one: one.length)
    end = final.end if final is not None else min(longest.length, appends)
    content = np.full(end, NONE, np.int64)
    if final is not None:
        content[:] = final.content
    filled = np.zeros(end, np.bool_)
    twice = _fill_from_bits(filled, facts)
    appends_at, reads_at = (
        [np.concatenate([getattr(one, f"{kind}_{what}") for one in facts]) for what in ("offset", "value")]
        for kind in ("append", "read")
    )
    judged = judged_values(content, filled, twice, appends_at, reads_at, final)
    wrong: list[Wrong] = [*judged.wrong]

    holes = np.flatnonzero(~filled).astype(np.int64)
    torn, starts, ends = _find_placed(facts, content, holes, final)
    wrong += torn
    wrong += _wrong_epochs(facts, content, final)

    return LogPlan(
        object=facts[0].object,
        content=content,
        final=final,
        wrong=tuple(wrong),
        lost_acked=len(judged.lost),
        expired=len(judged.expired),
        too_long=longest.length_op if longest.length > end else None,
        holes=holes,
        batches=joined_spans([one.batch_start for one in facts] + [starts], [one.batch_end for one in facts] + [ends]),
        facts=tuple(facts),
        appends=appends,
        t_last=max(one.t_last for one in facts),
    )


@attrs.frozen(eq=False)
class JudgedValues:
    """The violations among the values of a log, or of a part of it."""

    wrong: tuple[Wrong, ...]
    lost: Ints
    """Places of acknowledged appends that the final logs lack, and of those that have left by the rule."""
    expired: Ints


def judged_values(
    content: Ints,
    filled: npt.NDArray[np.bool_],
    twice: Ints,
    appends: Sequence[Ints],
    reads: Sequence[Ints],
    final: FinalLogs | None,
) -> JudgedValues:
    """Judge what appends and reads say (places and values) that is not known to agree with `content`, which has the length of the log.

    `filled` are the places that acknowledged appends fill which do agree, `twice` those that several fill. Fills in what is
    said of places of which nothing is known.
    """
    end, wrong = len(content), list[Wrong]()
    offset, value = appends
    lost = expired = EMPTY
    if final is not None:
        # What has left by the rule is no loss; its place, value and time are still held against all that spoke of it.
        left = (offset < final.start) & final.expires
        lost, expired = offset[~left], offset[left]
        wrong += [LostValue(int(o), int(v), True) for o, v in _pairs(offset, value, ~left)]
        # An append once filled what is empty now: that is told as a loss, and not as a gap too.
        within = offset[~left & (offset < end)]
        filled[within[content[within] == NONE]] = True
        offset, value = offset[left], value[left]
    offset, value = offset[offset < end], value[offset < end]
    wrong += _place(content, offset, value)
    twice = np.concatenate([twice, _placed_twice(content, filled, offset, value)])
    wrong += [AckedTwice(int(o), int(content[o])) for o in np.unique(twice)]

    offset, value = reads
    if final is not None:
        reported = {(one.offset, one.value) for one in wrong if isinstance(one, LostValue)}
        left = (offset < final.start) & final.expires
        there = offset < end
        there[there] = content[offset[there]] != NONE
        gone = ~left & ~there
        wrong += [LostValue(int(o), int(v), False) for o, v in _pairs(offset, value, gone) if (o, v) not in reported]
        offset, value = offset[~gone], value[~gone]
    offset, value = offset[offset < end], value[offset < end]
    known = {(one.offset, one.value) for one in wrong if isinstance(one, LostValue)}
    known |= {(one.offset, one.other) for one in wrong if isinstance(one, Diverged)}
    wrong += [one for one in _place(content, offset, value) if (one.offset, one.other) not in known]
    return JudgedValues(tuple(wrong), lost, expired)


def _pairs(offset: Ints, value: Ints, mask: npt.NDArray[np.bool_]) -> list[tuple[int, int]]:
    return sorted(set(zip(offset[mask].tolist(), value[mask].tolist(), strict=True)))


def _find_placed(
    facts: Sequence[Facts], content: Ints, holes: Ints, final: FinalLogs | None
) -> tuple[list[TornBatch], Ints, Ints]:
    """The batches of unknown outcome, each under a number that is its own in the whole log."""
    used, batch = 0, []
    for of_piece in facts:
        batch.append(np.where(of_piece.info_batch == NONE, NONE, of_piece.info_batch + used))
        used += int(of_piece.info_batch.max(initial=NONE)) + 1
    value = np.concatenate([one.info_value for one in facts])
    known_from = None if final is None else final.start if final.expires else 0
    return placed_batches(np.concatenate(batch), value, content, holes, known_from)


def _wrong_epochs(facts: Sequence[Facts], content: Ints, final: FinalLogs | None) -> list[Wrong]:
    """Returns where the epoch of a place is not the one that was named with its value, and where epochs fall along the log."""
    claims = [np.concatenate([getattr(one, f"claim_{what}") for one in facts]) for what in ("offset", "value", "epoch")]
    known = final is not None and len(final.epochs) == len(content)
    epochs = final.epochs.copy() if final is not None and known else np.full(len(content), NONE, np.int64)
    if not known and not len(claims[0]):
        return []
    return [*epochs_differ(epochs, content, claims), *epochs_fall(epochs)]


def epochs_differ(epochs: Ints, content: Ints, claims: Sequence[Ints]) -> list[Wrong]:
    """Returns where `claims` (places, values and epochs) name another epoch for the value at a place than `epochs`.

    Fills in the epochs of places that have none, of several the greatest.
    """
    offset, value, epoch = claims
    of_place = offset < len(content)
    of_place[of_place] = content[offset[of_place]] == value[of_place]
    offset, value, epoch = offset[of_place], value[of_place], epoch[of_place]
    vacant = epochs[offset] == NONE
    np.maximum.at(epochs, offset[vacant], epoch[vacant])
    differs = np.flatnonzero(epochs[offset] != epoch)
    named = {(int(offset[at]), int(value[at]), int(epoch[at]), int(epochs[offset[at]])) for at in differs}
    return [EpochDiffers(*one) for one in sorted(named)]


def epochs_fall(epochs: Ints) -> list[Wrong]:
    """Returns where the epoch of a place is lower than that of the last place before it that has one."""
    if not ((epochs != NONE) & (epochs < np.maximum.accumulate(epochs))).any():
        return []
    places = np.flatnonzero(epochs != NONE)
    falls = np.flatnonzero(np.diff(epochs[places]) < 0)
    pairs = zip(places[falls + 1].tolist(), places[falls].tolist(), strict=True)
    return [EpochFalls(at, int(epochs[at]), before, int(epochs[before])) for at, before in pairs]


def _fill_from_bits(filled: npt.NDArray[np.bool_], facts: Sequence[Facts]) -> Ints:
    """Mark what acknowledged appends fill; return the places that two of them fill."""
    twice = [one.filled_twice for one in facts]
    for of_piece in facts:
        flags = np.unpackbits(of_piece.filled).view(np.bool_)[: len(filled) - of_piece.filled_from]
        place = filled[of_piece.filled_from : of_piece.filled_from + len(flags)]
        twice.append(np.flatnonzero(place & flags) + of_piece.filled_from)
        place |= flags
    return np.concatenate(twice)


def _place(content: Ints, offset: Ints, value: Ints) -> list[Diverged]:
    """Put values where nothing is known yet; return where they differ from each other or from what is known.

    Of several values the greatest is taken to be there, so that it does not matter in which order they came.
    """
    if not len(offset):
        return []
    vacant = content[offset] == NONE
    content[offset[vacant]] = value[vacant]
    differs = content[offset] != value
    if differs.any():
        np.maximum.at(content, offset[vacant], value[vacant])
        differs = content[offset] != value
    return [Diverged(o, int(content[o]), v) for o, v in _pairs(offset, value, differs)]


def _placed_twice(content: Ints, filled: npt.NDArray[np.bool_], offset: Ints, value: Ints) -> Ints:
    """Mark what these acknowledged appends fill; return the places filled more than once with one value."""
    same = offset[content[offset] == value]
    places, count = np.unique(same, return_counts=True)
    twice: Ints = places[count > 1]
    filled[places] = True
    return twice


@attrs.frozen(eq=False)
class EarlierPieces:
    """The facts about the other pieces of a log that pass two needs for one piece."""

    floor: int
    """The length known before anything in this piece that denies a length began, and who knew it."""
    floor_op: Op | None
    neighbours: tuple[int, ...]
    """Pieces whose operations ended while those of this piece began."""


def before(facts: Sequence[Facts], piece: Facts, batches: Ints = NO_BATCHES) -> EarlierPieces:
    """Sort the other pieces of the log into those wholly before this one and those at the same time."""
    earlier = [one for one in facts if one is not piece and one.ended_last < piece.began_first]
    beside = [
        one.piece
        for one in facts
        if one is not piece and one.ended_first < piece.began_last and one.ended_last >= piece.began_first
    ]
    highest = max(earlier, key=lambda one: one.length, default=None)
    _, floor = whole_lengths(np.array([highest.length if highest else 0]), batches)
    return EarlierPieces(int(floor[0]), highest.length_op if highest else None, tuple(beside))


def holes_of(plan: LogPlan, piece: Facts) -> tuple[int, int]:
    """Returns the first, and one past the last, of the holes of the log that a piece may be the first to know filled.

    The others are known before anything in this piece ended, or lie behind all that it knows. So what pass two returns about
    holes does not grow with the number of pieces.
    """
    before = max((one.length for one in plan.facts if one.ended_last < piece.ended_first), default=0)
    _, whole = whole_lengths(np.array([before, piece.length]), plan.batches)
    first, last = np.searchsorted(plan.holes, whole).tolist()
    return min(first, last), last


@attrs.frozen(eq=False)
class Times:
    """The answer of pass two for one log in one piece."""

    contradictions: int
    examples: tuple[tuple[Op, Op], ...]
    """(who knew a length, who began later and denied it)."""
    deadlines: Ints
    """For each hole: when it was first known to be filled, by this piece (`NEVER`: not at all)."""
    half_seen: tuple[Op, ...] = ()
    """The first few operations that said that the log ended inside a batch."""


def times_of(
    piece: Piece, beside: Iterable[Piece], earlier: EarlierPieces, holes: Ints, batches: Ints = NO_BATCHES
) -> Times:
    """Pass two. `holes` are sorted offsets, `batches` where batches start and end."""
    own_end, own_length = _known_lengths(piece, batches)
    pieces = [piece, *beside]
    ends, lengths = zip(*(_known_lengths(one, batches) for one in pieces), strict=True)
    sources = np.repeat(np.arange(len(pieces)), [len(one) for one in ends])
    end, length = np.concatenate(ends), np.concatenate(lengths)
    order = np.argsort(end, kind="stable")
    end, length, sources = end[order], length[order], sources[order]
    running = np.maximum.accumulate(length)

    at_most = piece.at_most()
    denies = np.flatnonzero(at_most < NEVER)
    tails = denies[piece.rows.f[denies] == Action.TAIL]
    half_seen = tails[np.not_equal(*whole_lengths(at_most[tails], batches))]
    at_most[denies], _ = whole_lengths(at_most[denies], batches)
    ended_before = np.searchsorted(end, piece.rows.t_inv[denies], side="left")
    local = np.append(0, running)[ended_before]
    bad = np.flatnonzero(np.maximum(local, earlier.floor) > at_most[denies])
    # One operation that knew a wrong length contradicts all that follow: they count once, for the one that knew.
    knower = np.where(local[bad] > earlier.floor, np.searchsorted(running, local[bad], side="left"), NONE)
    # Of those that follow, an append is the better example: it was put in the wrong place itself.
    appends_first = np.argsort(piece.rows.f[denies[bad]] != Action.APPEND, kind="stable")
    knowers, first = np.unique(knower[appends_first], return_index=True)
    examples = []
    for who, at in list(zip(knowers.tolist(), bad[appends_first[first]].tolist(), strict=True))[:EXAMPLES_MAX]:
        denier = piece.rows.op(int(denies[at]))
        if who == NONE:
            assert earlier.floor_op is not None
            examples.append((earlier.floor_op, denier))
        else:
            knew = _find(pieces[int(sources[who])], int(end[who]), int(length[who]), batches)
            examples.append((knew, denier))
    told = tuple(piece.rows.op(int(row)) for row in half_seen[:EXAMPLES_MAX])
    return Times(len(knowers), tuple(examples), _deadlines(own_end, own_length, holes), told)


def _known_lengths(piece: Piece, batches: Ints) -> tuple[Ints, Ints]:
    at_least = piece.at_least()
    known = np.flatnonzero(at_least > 0)
    return piece.rows.t_ret[known], whole_lengths(at_least[known], batches)[1]


def _find(piece: Piece, end: int, length: int, batches: Ints) -> Op:
    at_least = piece.at_least()
    rows = np.flatnonzero((piece.rows.t_ret == end) & (whole_lengths(at_least, batches)[1] == length))
    # Of a batch the last record knew the length without the others.
    return piece.rows.op(int(rows[np.argmax(at_least[rows])]))


def _deadlines(end: Ints, length: Ints, holes: Ints) -> Ints:
    if not len(holes):
        return EMPTY
    order = np.argsort(length, kind="stable")
    earliest_from = np.minimum.accumulate(end[order][::-1])[::-1]
    at = np.searchsorted(length[order], holes, side="right")
    deadlines: Ints = np.append(earliest_from, np.int64(NEVER))[at]
    return deadlines


class _Taken(NamedTuple):
    """A hole, when it was known to be filled, and the beginning of the append that it took."""

    offset: int
    deadline: int
    start: int


def holes_filled(plan: LogPlan, deadlines: Ints) -> list[Wrong]:
    """Let appends of unknown outcome fill the holes; return the holes that stay empty. See the module for the rule."""
    value, start = (np.concatenate([getattr(one, f"info_{what}") for one in plan.facts]) for what in ("value", "start"))
    values = plan.content[plan.holes]
    known = values != NONE
    wrong, left = known_holes_filled(plan.holes[known], values[known], deadlines[known], value, start)
    unknown = np.flatnonzero(~known)
    for at in unknown[np.argsort(deadlines[unknown], kind="stable")[::-1]].tolist():
        while left and left[-1] > deadlines[at]:
            left.pop()
        if not left:
            wrong.append(Gap(int(plan.holes[at]), int(deadlines[at])))
        else:
            left.pop()
    return wrong


def known_holes_filled(
    holes: Ints, values: Ints, deadlines: Ints, info_value: Ints, info_start: Ints
) -> tuple[list[Wrong], list[int]]:
    """Let appends of unknown outcome fill the holes of which the values are known; return what is wrong, and when those began,
    in their order, that were not needed.

    A hole can be filled by an append that began no later than its deadline. From the latest deadline down, each hole takes
    the latest append that can fill it: what is left over are then the earliest ones, the most useful for places whose
    value no operation saw.
    """
    starts: dict[int, list[int]] = {}
    for value, start in zip(info_value.tolist(), info_start.tolist(), strict=True):
        starts.setdefault(value, []).append(start)
    for of_value in starts.values():
        of_value.sort()
    wrong: list[Wrong] = []
    late: dict[int, int] = {}
    taken: dict[int, list[_Taken]] = {}
    for at in np.argsort(deadlines, kind="stable")[::-1].tolist():
        value, deadline = int(values[at]), int(deadlines[at])
        of_value = starts.get(value, [])
        spare = late.get(value, 0)
        while spare < len(of_value) and of_value[len(of_value) - 1 - spare] > deadline:
            spare += 1
        if spare < len(of_value):
            start = of_value.pop(len(of_value) - 1 - spare)
            taken.setdefault(value, []).append(_Taken(int(holes[at]), deadline, start))
        elif spare:
            offset = int(holes[at])
            wrong.append(SeenEarly(offset, value, *_need(taken.get(value, []), offset, deadline)))
        else:
            wrong.append(Unwritten(int(holes[at]), value))
        late[value] = spare
    return wrong, sorted(start for of_value in starts.values() for start in of_value)


def _need(taken: Sequence[_Taken], offset: int, deadline: int) -> tuple[int, int]:
    """The last deadline and the last place of the holes that compete with this one for the appends they all could use."""
    reach = offset
    for append in reversed(taken):  # deadlines ascend, and so do places
        if append.start <= deadline:
            deadline, reach = max(deadline, append.deadline), max(reach, append.offset)
    return deadline, reach
