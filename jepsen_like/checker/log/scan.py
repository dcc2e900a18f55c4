"""Linearizability of a replicated log, decided by one sort and one running maximum, in two passes over its parts.

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

The rows of a log come in parts, such as its part files, of which one is in memory at a time. Pass one (`facts_of`) reduces each
part to what the values need, and to the lengths that were news when they became known. `plan_of` judges the values of all parts together;
pass two (`times_of`) holds the times of each part against the lengths; `holes_filled` does the matching. So a log needs the memory of its
largest part, plus up to 130 bytes a record.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

import attrs
import numpy as np

from jepsen_like.checker.log.batches import (
    BatchRows,
    TornBatch,
    batches_of,
    joined_spans,
    placed_batches,
    whole_lengths,
)
from jepsen_like.checker.rows.columns import Bools, Columns, Ints, begins_operation
from jepsen_like.checker.verdict import Findings, Undecided
from jepsen_like.history.ops import NEVER, NONE, Action, ErrorCode, Op, Outcome

EXAMPLES_MAX: Final = 5
EMPTY: Final[Ints] = np.zeros(0, np.int64)


def at_least(rows: Columns) -> Ints:
    """Returns the length known when each operation ended (0: none is known from it)."""
    saw = (rows.f == Action.APPEND) | ((rows.f == Action.READ) & (rows.a != NONE))
    lengths = np.where(saw, rows.offset + 1, np.where(rows.f == Action.TAIL, rows.offset, 0))
    return np.where(rows.type == Outcome.OK, lengths, 0)


def at_most(rows: Columns) -> Ints:
    """Returns the greatest length possible when each operation began (`NEVER`: any)."""
    denies = (rows.f != Action.READ) | (rows.a == NONE)
    return np.where((rows.type == Outcome.OK) & denies, rows.offset, NEVER)


def logs_of(rows: Columns) -> dict[int, Columns]:
    """Returns the rows of each log, in their order."""
    if not len(rows):
        return {}
    if (rows.object == rows.object[0]).all():
        return {int(rows.object[0]): rows}
    order = np.argsort(rows.object, kind="stable")
    cuts = np.append(np.flatnonzero(np.append(True, np.diff(rows.object[order]) != 0)), len(rows))
    return {
        int(rows.object[order[begin]]): rows.where(order[begin:end])
        for begin, end in zip(cuts[:-1].tolist(), cuts[1:].tolist(), strict=True)
    }


@attrs.frozen(kw_only=True)
class LogSums:
    """The sums of a part of a log, and a few operations that are needed whatever else there is."""

    ok: int
    """Operations, each counted once however many records it has; `acked` counts records."""
    fail: int
    info: int
    acked: int
    t_first: int
    t_last: int
    """The latest moment that anything is known of."""
    unplaced: int
    """Acknowledged operations that do not say where: nothing can be decided."""
    length: int
    """The greatest known length, and (if not 0) who knew it."""
    length_op: Op | None
    damaged: tuple[Op, ...]
    """Reads whose record was not the one that was written under its id, the first few."""
    scattered: tuple[Op, ...]
    """The first record of acknowledged batches whose places do not follow each other, of the first few."""

    @classmethod
    def of(cls, rows: Columns, begins: Bools, batches: BatchRows | None, longest: int, length: int) -> "LogSums":
        """Of these rows, which `begins` divides into operations and of which `longest` knew the greatest length."""
        happened = rows.type == Outcome.OK
        outcomes = np.bincount(rows.type[begins], minlength=len(Outcome) + 1)
        damaged = np.flatnonzero(happened & (rows.err == ErrorCode.DAMAGED_VALUE))
        scattered = batches.scattered if batches is not None else EMPTY
        return cls(
            ok=int(outcomes[Outcome.OK]),
            fail=int(outcomes[Outcome.FAIL]),
            info=int(outcomes[Outcome.INFO]),
            acked=int((happened & (rows.f == Action.APPEND)).sum()),
            t_first=int(rows.t_inv.min(initial=NEVER)),
            t_last=int(np.where(rows.t_ret < NEVER, rows.t_ret, rows.t_inv).max(initial=0)),
            unplaced=int((happened & (rows.offset < 0)).sum()),
            length=length,
            length_op=rows.op(longest) if length else None,
            damaged=tuple(rows.op(int(row)) for row in damaged[:EXAMPLES_MAX]),
            scattered=tuple(rows.op(int(row)) for row in scattered[:EXAMPLES_MAX]),
        )

    @classmethod
    def join(cls, parts: "Sequence[LogSums]") -> "LogSums":
        """Returns the sums of all parts, of which there is at least one."""
        longest = max(parts, key=lambda one: one.length)
        return cls(
            ok=sum(one.ok for one in parts),
            fail=sum(one.fail for one in parts),
            info=sum(one.info for one in parts),
            acked=sum(one.acked for one in parts),
            t_first=min(one.t_first for one in parts),
            t_last=max(one.t_last for one in parts),
            unplaced=sum(one.unplaced for one in parts),
            length=longest.length,
            length_op=longest.length_op,
            damaged=tuple(op for one in parts for op in one.damaged),
            scattered=tuple(op for one in parts for op in one.scattered),
        )

    def findings(self, name: int) -> Findings:
        """Returns what they are of a log of this name; undecided if an acknowledged operation does not say where."""
        undecided: tuple[Undecided, ...] = ()
        if self.unplaced:
            undecided = (Undecided(name, f"{self.unplaced} acknowledged operations do not say at which offset"),)
        return Findings(
            ok=self.ok,
            fail=self.fail,
            info=self.info,
            objects=1,
            acked=self.acked,
            t_first=self.t_first,
            undecided=undecided,
        )


@attrs.define(eq=False, kw_only=True)
class Facts:
    """The answer of pass one for a part of a log. Rows are numbered through all parts."""

    sums: LogSums
    known_ns: Ints
    """The moments, in their order, when a length became known that is greater than all before; the length; the row that knew it."""
    known_length: Ints
    known_row: Ints
    agreed: Ints
    """Places of acknowledged appends that agree with the given content."""
    append_offset: Ints
    append_value: Ints
    """Acknowledged appends that do not agree with the given content."""
    read_offset: Ints
    read_value: Ints
    """The values that reads saw there and that do not agree with it, each once."""
    info_value: Ints
    info_start: Ints
    info_batch: Ints
    """Appends of unknown outcome; for records that were sent together the row of the first of them, `NONE` for others."""
    batch_start: Ints
    batch_end: Ints
    """The place where acknowledged batches stand."""
    claim_offset: Ints
    claim_value: Ints
    claim_epoch: Ints
    """The claims of appends and reads about a place and its epoch that do not agree with the given epochs."""
    refused: Ints
    """Values whose append certainly did not happen."""

    @classmethod
    def join(cls, parts: "Sequence[Facts]") -> "Facts":
        """Returns those of all parts, which are left empty, so that a long log is in memory once."""
        if len(parts) == 1:
            return parts[0]
        columns = {}
        for name in (field.name for field in attrs.fields(cls) if field.name != "sums"):
            columns[name] = np.concatenate([getattr(one, name) for one in parts])
            for one in parts:
                setattr(one, name, EMPTY)
        return cls(sums=LogSums.join([one.sums for one in parts]), **columns)


def facts_of(rows: Columns, content: Ints = EMPTY, epochs: Ints = EMPTY, begin: int = 0) -> Facts:
    """Pass one over the part of a log whose first row has the number `begin`.

    `content[o]` is the value in the final logs, `NONE` where they say nothing; it may be empty. So may `epochs`, in which its epoch
    stands.
    """
    ok, append, read = rows.type == Outcome.OK, rows.f == Action.APPEND, rows.f == Action.READ
    placed = rows.offset >= 0
    acked = np.flatnonzero(ok & append & placed)
    agrees = _agrees(content, rows.offset[acked], rows.a[acked])
    saw = ok & read & (rows.a != NONE) & placed
    differs = np.flatnonzero(saw)
    differs = differs[~_agrees(content, rows.offset[differs], rows.a[differs])]
    read_pairs = np.unique(np.stack([rows.offset[differs], rows.a[differs]]), axis=1)
    claims = np.flatnonzero(((ok & append & placed) | saw) & (rows.epoch != NONE))
    claims = claims[~_agrees(epochs, rows.offset[claims], rows.epoch[claims].astype(np.int64))]
    unknown = np.flatnonzero((rows.type == Outcome.INFO) & append)
    begins = begins_operation(rows.process, rows.t_inv, rows.t_ret)
    batches = batches_of(rows, begins)
    of_unknown = batches.batch[unknown]
    lengths = at_least(rows)
    longest = int(np.argmax(lengths)) if len(rows) else NONE
    known = np.flatnonzero(lengths > 0)
    known = known[np.argsort(rows.t_ret[known], kind="stable")]
    known = known[lengths[known] > _greatest_before(lengths[known])]
    return Facts(
        sums=LogSums.of(rows, begins, batches, longest, int(lengths.max(initial=0))),
        known_ns=rows.t_ret[known],
        known_length=lengths[known],
        known_row=known + begin,
        agreed=rows.offset[acked[agrees]],
        append_offset=rows.offset[acked[~agrees]],
        append_value=rows.a[acked[~agrees]],
        read_offset=read_pairs[0],
        read_value=read_pairs[1],
        info_value=rows.a[unknown],
        info_start=rows.t_inv[unknown],
        info_batch=np.where(of_unknown == NONE, NONE, of_unknown + begin),
        batch_start=batches.starts,
        batch_end=batches.ends,
        claim_offset=rows.offset[claims],
        claim_value=rows.a[claims],
        claim_epoch=rows.epoch[claims].astype(np.int64),
        refused=np.unique(rows.a[(rows.type == Outcome.FAIL) & append]),
    )


def _greatest_before(lengths: Ints) -> Ints:
    """Returns for each the greatest of those before it, 0 for the first."""
    return np.append(0, np.maximum.accumulate(lengths))[:-1]


def _agrees(content: Ints, offsets: Ints, values: Ints) -> Bools:
    within = offsets < len(content)
    return np.asarray(within & (content[np.where(within, offsets, 0)] == values)) if len(content) else within


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

    The value's other appends are needed up to `reach` (the place, if there are none), known to be filled by `deadline`.
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
class LogContent:
    """The content of one log, as far as explanations need it."""

    object: int
    content: Ints
    final: FinalLogs | None
    too_long: Op | None
    """The operation that knew of a length that the final logs, or all appends together, do not reach."""
    batches: Ints
    """The place where batches start and end; see `batches.joined_spans`."""
    appends: int
    """The number of all appends, whether acknowledged or of unknown outcome."""
    t_last: int
    """The latest moment that anything is known of."""

    def places(self, value: int) -> list[int]:
        """Returns where a value stands."""
        return [int(place) for place in np.flatnonzero(self.content == value)]


@attrs.frozen(eq=False, kw_only=True)
class LogPlan(LogContent):
    """One log after pass one: its content, what is already known to be wrong, and what pass two needs."""

    wrong: tuple[Wrong, ...]
    lost_acked: int
    expired: int
    """Acknowledged records that have left all logs by the rule."""
    holes: Ints
    """Places that no acknowledged append fills."""
    unknown: tuple[Ints, Ints]
    """Appends of unknown outcome: their values, and when they began."""
    refused: Ints
    moved: Ints
    """Values of acknowledged appends that do not stand at their places."""
    known: tuple[Ints, Ints, Ints]
    """The moments, in their order, when lengths became known; the lengths; the numbers of the rows that knew them."""


def plan_of(name: int, facts: Facts, final: FinalLogs | None) -> LogPlan:
    """Judge the values of one log."""
    sums = facts.sums
    appends = sums.acked + len(facts.info_value)
    end = final.end if final is not None else min(sums.length, appends)
    content = np.full(end, NONE, np.int64)
    if final is not None:
        content[:] = final.content
    filled = np.zeros(end, np.bool_)
    filled[facts.agreed] = True
    twice = EMPTY if filled.sum() == len(facts.agreed) else _find_repeated(facts.agreed)
    said, read = (facts.append_offset, facts.append_value), (facts.read_offset, facts.read_value)
    judged = judged_values(content, filled, twice, said, read, final)
    holes = np.flatnonzero(~filled).astype(np.int64)
    known_from = None if final is None else final.start if final.expires else 0
    torn, starts, ends = placed_batches(facts.info_batch, facts.info_value, content, holes, known_from)
    by_end = np.argsort(facts.known_ns, kind="stable")
    return LogPlan(
        object=name,
        content=content,
        final=final,
        wrong=(*judged.wrong, *torn, *_wrong_epochs(facts, content, final)),
        lost_acked=len(judged.lost),
        expired=len(judged.expired),
        too_long=sums.length_op if sums.length > end else None,
        holes=holes,
        batches=joined_spans([facts.batch_start, starts], [facts.batch_end, ends]),
        unknown=(facts.info_value, facts.info_start),
        refused=facts.refused,
        moved=judged.moved,
        known=(facts.known_ns[by_end], facts.known_length[by_end], facts.known_row[by_end]),
        appends=appends,
        t_last=sums.t_last,
    )


@attrs.frozen(eq=False)
class JudgedValues:
    """The violations among the values of a log, or of a part of it."""

    wrong: tuple[Wrong, ...]
    lost: Ints
    """Places of acknowledged appends that the final logs lack, and of those that have left by the rule."""
    expired: Ints
    moved: Ints
    """Values of acknowledged appends that do not stand at their places."""


def judged_values(
    content: Ints, filled: Bools, twice: Ints, appends: Sequence[Ints], reads: Sequence[Ints], final: FinalLogs | None
) -> JudgedValues:
    """Judge what appends and reads say (places and values) that is not known to agree with `content`, which has the length of the log.

    `filled` are the places that acknowledged appends fill which do agree, `twice` those that several fill. Fills in what is
    said of places of which nothing is known.
    """
    end, wrong = len(content), list[Wrong]()
    offset, value = appends
    lost = expired = moved = EMPTY
    if final is not None:
        # What has left by the rule is no loss; its place, value and time are still held against all that spoke of it.
        left = (offset < final.start) & final.expires
        lost, expired = offset[~left], offset[left]
        wrong += [LostValue(int(o), int(v), True) for o, v in _pairs(offset, value, ~left)]
        # An append once filled what is empty now: that is told as a loss, and not as a gap too.
        within = offset[~left & (offset < end)]
        filled[within[content[within] == NONE]] = True
        moved, offset, value = value[~left], offset[left], value[left]
    moved = np.concatenate([moved, value[offset >= end]])
    offset, value = offset[offset < end], value[offset < end]
    wrong += _place(content, offset, value)
    moved = np.concatenate([moved, value[content[offset] != value]])
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
    return JudgedValues(tuple(wrong), lost, expired, moved)


def _pairs(offset: Ints, value: Ints, mask: Bools) -> list[tuple[int, int]]:
    return sorted(set(zip(offset[mask].tolist(), value[mask].tolist(), strict=True)))


def _wrong_epochs(facts: Facts, content: Ints, final: FinalLogs | None) -> list[Wrong]:
    """Returns where the epoch of a place is not the one that was named with its value, and where epochs fall along the log."""
    claims = (facts.claim_offset, facts.claim_value, facts.claim_epoch)
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


def _place(content: Ints, offset: Ints, value: Ints) -> list[Diverged]:
    """Put values where none is known, of several the greatest; return where they differ from others or the known."""
    if not len(offset):
        return []
    vacant = content[offset] == NONE
    content[offset[vacant]] = value[vacant]
    differs = content[offset] != value
    if differs.any():
        np.maximum.at(content, offset[vacant], value[vacant])
        differs = content[offset] != value
    return [Diverged(o, int(content[o]), v) for o, v in _pairs(offset, value, differs)]


def _placed_twice(content: Ints, filled: Bools, offset: Ints, value: Ints) -> Ints:
    """Mark what these acknowledged appends fill; return the places filled more than once with one value."""
    same = offset[content[offset] == value]
    filled[same] = True
    return _find_repeated(same)


def _find_repeated(places: Ints) -> Ints:
    """Returns those that are there more than once, sorted, each once."""
    found, count = np.unique(places, return_counts=True)
    repeated: Ints = found[count > 1]
    return repeated


class Times(NamedTuple):
    """The answer of pass two."""

    examples: list[tuple[Op, Op]]
    """(who knew a length, who began later and denied it), the first few: one for each that knew."""
    deadlines: Ints
    """For each hole: when it was first known to be filled (`NEVER`: not at all)."""
    half_seen: list[Op]
    """The first few operations that said that the log ended inside a batch."""


class _Denied(NamedTuple):
    """An operation that denied what was known before it began."""

    is_append: bool
    op: Op


def times_of(parts: Iterable[Columns], plan: LogPlan) -> Times:
    """Pass two over the same rows as pass one; they are gone through twice where a length was denied after it was known."""
    known_ns, known_length, known_row = plan.known
    length = whole_lengths(known_length, plan.batches)[1]
    running = np.maximum.accumulate(length)
    half_seen: list[Op] = []
    denied: dict[int, _Denied] = {}
    for rows in parts:
        least = at_most(rows)
        denies = np.flatnonzero(least < NEVER)
        tails = denies[rows.f[denies] == Action.TAIL]
        inside = tails[np.not_equal(*whole_lengths(least[tails], plan.batches))]
        half_seen += [rows.op(row) for row in inside[: EXAMPLES_MAX - len(half_seen)].tolist()]
        least = whole_lengths(least[denies], plan.batches)[0]
        known = np.append(0, running)[np.searchsorted(known_ns, rows.t_inv[denies], side="left")]
        bad = np.flatnonzero(known > least)
        # One operation that knew a wrong length contradicts all that follow: they count once, for the one that knew.
        knower = np.searchsorted(running, known[bad], side="left")
        # Of those that follow, an append is the better example: it was put in the wrong place itself.
        appends_first = np.argsort(rows.f[denies[bad]] != Action.APPEND, kind="stable")
        knowers, first = np.unique(knower[appends_first], return_index=True)
        for who, row in list(zip(knowers.tolist(), denies[bad[appends_first[first]]].tolist(), strict=True))[
            :EXAMPLES_MAX
        ]:
            found = _Denied(bool(rows.f[row] == Action.APPEND), rows.op(row))
            if who not in denied or found.is_append > denied[who].is_append:
                denied[who] = found
    knew: dict[int, int] = {}
    for who in sorted(denied)[:EXAMPLES_MAX]:
        same = np.flatnonzero((known_ns == known_ns[who]) & (length == length[who]))
        # Of a batch the last record knew the length without the others.
        knew[who] = int(known_row[same[np.argmax(known_length[same])]])
    ops = _ops_at(parts, set(knew.values()))
    deadlines = np.append(known_ns, NEVER)[np.searchsorted(running, plan.holes, side="right")]
    return Times([(ops[row], denied[who].op) for who, row in knew.items()], deadlines, half_seen)


def _ops_at(parts: Iterable[Columns], numbers: set[int]) -> dict[int, Op]:
    """Returns the operations of the rows with these numbers."""
    found: dict[int, Op] = {}
    begin = 0
    for rows in parts if numbers else ():
        found |= {number: rows.op(number - begin) for number in numbers if begin <= number < begin + len(rows)}
        begin += len(rows)
    return found


class _Taken(NamedTuple):
    """A hole, when it was known to be filled, and the beginning of the append that it took."""

    offset: int
    deadline: int
    start: int


def holes_filled(plan: LogPlan, deadlines: Ints) -> list[Wrong]:
    """Let appends of unknown outcome fill the holes; return the holes that stay empty. See the module for the rule."""
    values = plan.content[plan.holes]
    known = values != NONE
    wrong, left = known_holes_filled(plan.holes[known], values[known], deadlines[known], *plan.unknown)
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
    """Let appends of unknown outcome fill known holes; return what is wrong, and when the spare ones began, in order.

    From the latest deadline down, each hole takes the latest append that began by its deadline. The earliest ones are
    left over, the most useful for places whose value no operation saw.
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
