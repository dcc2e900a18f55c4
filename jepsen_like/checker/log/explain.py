"""Findings about logs: carries the two passes of `scan` over the part files and explains what they find.

Operations that speak of a wrong place or value are read again, in a third pass that a valid history never takes.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final, assert_never

import attrs
import numpy as np

from jepsen_like.checker.log.batches import TornBatch, whole_lengths
from jepsen_like.checker.log.scan import (
    EMPTY,
    AckedTwice,
    Diverged,
    EpochDiffers,
    EpochFalls,
    Facts,
    FinalLogs,
    Gap,
    LogContent,
    LogPlan,
    LogSums,
    LostValue,
    SeenEarly,
    Times,
    Unwritten,
    Wrong,
    facts_of,
    holes_filled,
    logs_of,
    plan_of,
    times_of,
)
from jepsen_like.checker.log.witnesses import Wanted
from jepsen_like.checker.rows.columns import Columns
from jepsen_like.checker.rows.final_logs import FinalLog
from jepsen_like.checker.rows.processes import ProcessSpans, may_overlap
from jepsen_like.checker.rows.tasks import Source, load, of_model, require_sound
from jepsen_like.checker.sentences import describe, format_value, unshown
from jepsen_like.checker.verdict import WITNESS_OPS_MAX, Check, Findings, Model, Violation, in_order, in_turn
from jepsen_like.history.ops import NEVER, NONE, Action, Op, Outcome

EXPLAINED_MAX: Final = 20
"""Violations explained per log; the others are counted."""


@attrs.frozen
class NodesDiffer:
    """Two nodes whose final logs disagree first at `offset`, on the value or the epoch."""

    offset: int
    nodes: tuple[int, int]
    values: tuple[int, int]
    epochs: tuple[int, int]


@attrs.frozen
class EndsEarly:
    """A node whose final log ends at `end`, though that of another node goes on."""

    node: int
    end: int
    longer: int


def join_logs(
    logs: Sequence[FinalLog], *, expires: bool = False
) -> tuple[FinalLogs, tuple[NodesDiffer | EndsEarly, ...]]:
    """All final logs as one, and where they are not the same.

    That is the first place where a node differs from the nodes before it, and each node whose log is not as long as the
    longest: final logs are read up to an end that all nodes have agreed on. Where they begin is for the rule of retention.
    """
    end = max((log.end for log in logs), default=0)
    content = np.full(end, NONE, np.int64)
    epochs = np.full(end, NONE, np.int64)
    holder = np.full(end, NONE, np.int64)
    differ: list[NodesDiffer | EndsEarly] = []
    for log in sorted(logs, key=lambda log: log.node):
        span = slice(log.first, log.end)
        known = holder[span] != NONE
        bad = np.flatnonzero(known & ((content[span] != log.values) | (epochs[span] != log.epochs)))
        if len(bad):
            at = int(bad[0])
            offset = log.first + at
            differ.append(
                NodesDiffer(
                    offset,
                    (int(holder[offset]), log.node),
                    (int(content[offset]), int(log.values[at])),
                    (int(epochs[offset]), int(log.epochs[at])),
                )
            )
        vacant = np.flatnonzero(~known)
        content[log.first + vacant] = log.values[vacant]
        epochs[log.first + vacant] = log.epochs[vacant]
        holder[log.first + vacant] = log.node
    longest = min((log.node for log in logs if log.end == end), default=NONE)
    differ += [EndsEarly(log.node, log.end, longest) for log in sorted(logs, key=lambda log: log.node) if log.end < end]
    node_of = {log.node: (log.first, log.end) for log in logs}
    return FinalLogs(content, end, node_of, expires, epochs), tuple(differ)


def check_logs(
    sources: Sequence[Source], final_logs: Mapping[int, Sequence[FinalLog]] | None = None, *, expires: bool = False
) -> Findings:
    """Returns everything that is wrong with the logs in `sources`; `final_logs` per log, where they are known (None: of none).

    `expires`: records may leave the logs by a rule, oldest first, so that final logs need not begin at 0. Raises
    `UnreadableHistory`.
    """
    logs: dict[int, _Log] = {}
    spans: dict[Path, list[ProcessSpans]] = {}
    for source in sources:
        every = of_model(load([source]), source, Model.LOG)
        at_work = require_sound(every, [source])
        if isinstance(source, Path):
            spans.setdefault(source.parent, []).append(at_work)
        for name, rows in logs_of(every).items():
            if name not in logs:
                known = (final_logs or {}).get(name)
                logs[name] = _Log(name, *((None, ()) if known is None else join_logs(known, expires=expires)))
            logs[name].take(rows, source)
    for directory in (path for path, of_path in spans.items() if may_overlap(of_path)):
        parts = [source for source in sources if isinstance(source, Path) and source.parent == directory]
        require_sound(load(parts), parts)
    found = [(logs.pop(name).findings(), (final_logs or {}).get(name)) for name in sorted(logs)]
    return Findings.join(
        one if known is not None or final_logs is None else without_final_log(one) for one, known in found
    )


def without_final_log(findings: Findings) -> Findings:
    """Returns what was found of one log, of which the final logs of the run say nothing: what it lost is not known."""
    return attrs.evolve(findings, unread=int(findings.acked > 0))


@attrs.frozen
class InWords:
    """A violation before its count is known to matter."""

    check: Check
    sentence: str
    ops: Sequence[Op]


def with_violations(findings: Findings, name: int, counts: Mapping[Check, int], told: Sequence[InWords]) -> Findings:
    """Returns the findings about a log together with what is wrong with it, of which `told` are the first."""
    return attrs.evolve(
        findings,
        violated=frozenset([name] if counts else []),
        counts=counts,
        violations=tuple(
            Violation(one.check, name, f"log {name}: {one.sentence}", in_order(one.ops))
            for one in in_turn(told, lambda one: one.check, EXPLAINED_MAX)
        ),
    )


def count_checks(checks: Iterable[Check], counts: Mapping[Check, int] | None = None) -> dict[Check, int]:
    """Returns how often each check is there, on top of `counts`; in the order in which they come."""
    counted = dict(counts or {})
    for check in checks:
        counted[check] = counted.get(check, 0) + 1
    return counted


@attrs.define
class _Log:
    """One log in memory: what pass one left of it, and where its rows are."""

    name: int
    final: FinalLogs | None
    differ: Sequence[NodesDiffer | EndsEarly]
    sources: list[Source] = attrs.field(factory=list)
    """Of rows in memory those of this log."""
    facts: list[Facts] = attrs.field(factory=list)
    rows: int = 0

    def __iter__(self) -> Iterator[Columns]:
        for source in self.sources:
            yield source if isinstance(source, Columns) else logs_of(load([source]))[self.name]

    def take(self, rows: Columns, source: Source) -> None:
        content, epochs = (EMPTY, EMPTY) if self.final is None else (self.final.content, self.final.epochs)
        self.facts.append(facts_of(rows, content, epochs, self.rows))
        self.sources.append(rows if isinstance(source, Columns) else source)
        self.rows += len(rows)

    def findings(self) -> Findings:
        facts = Facts.join(self.facts)
        self.facts.clear()
        sums = facts.sums
        findings = sums.findings(self.name)
        if findings.undecided:
            return findings
        plan = plan_of(self.name, facts, self.final)
        del facts
        times = times_of(self, plan)
        counts, told = self._explain(plan, [*plan.wrong, *holes_filled(plan, times.deadlines)], times, sums)
        present = np.sort(plan.content[plan.content != NONE])
        return attrs.evolve(
            with_violations(findings, self.name, counts, told),
            lost_acked=plan.lost_acked,
            expired=plan.expired,
            duplicated=int((present[1:] == present[:-1]).sum()),
        )

    def _explain(
        self, plan: LogPlan, wrong: Sequence[Wrong], times: Times, sums: LogSums
    ) -> tuple[dict[Check, int], list[InWords]]:
        """Returns how much is wrong by check, and the first of it in words."""
        named = [(one, check_of(one, plan)) for one in wrong]
        explained = in_turn(named, lambda pair: pair[1], EXPLAINED_MAX)
        in_batches = {batch_at(plan, bare_length(op)) for pair in times.examples for op in pair}
        in_batches |= {batch_at(plan, op.offset) for op in times.half_seen}
        explainer = Explainer(plan)
        if explained or any(in_batches) or sums.scattered:
            wanted = wanted_of(plan, [one for one, _ in explained], sums.scattered, filter(None, in_batches))
            explainer.take_ops([rows.op(row) for row in wanted.rows(rows).tolist()] for rows in self)
        odd = Odd(
            differ=self.differ,
            damaged=sums.damaged,
            scattered=sums.scattered,
            half_seen=times.half_seen,
            contradictions=times.examples,
        )
        told, more = [explainer.explain(*one) for one in explained], more_told(explainer, plan, odd, wrong)
        return count_checks([*(check for _, check in named), *(one.check for one in more)]), [*told, *more]


@attrs.frozen(kw_only=True)
class Odd:
    """The findings about a log that are not about the values at its places."""

    differ: Sequence[NodesDiffer | EndsEarly]
    damaged: Sequence[Op]
    scattered: Sequence[Op]
    half_seen: Sequence[Op]
    contradictions: Sequence[tuple[Op, Op]]
    """(who knew a length, who began later and denied it)."""


def more_told(explainer: "Explainer", plan: LogContent, odd: Odd, wrong: Sequence[Wrong]) -> list[InWords]:
    """Returns these in words, and a length that the log does not have in the end."""
    more = [
        explainer.nodes_differ(one) if isinstance(one, NodesDiffer) else explainer.ends_early(one) for one in odd.differ
    ]
    if plan.final is not None and not plan.final.expires:
        late = [(node, first) for node, (first, _) in plan.final.node_of.items() if first > 0]
        more += [explainer.begins_late(node, first) for node, first in sorted(late)]
    more += [explainer.explain_damaged(op) for op in odd.damaged]
    more += [explainer.explain_scattered(op) for op in odd.scattered]
    more += [explainer.half_seen(op) for op in odd.half_seen]
    more += [explainer.contradiction(*pair) for pair in odd.contradictions]
    if plan.too_long is not None and (told_long := explainer.too_long(plan.too_long, wrong)) is not None:
        more.append(told_long)
    return more


def wanted_of(
    plan: LogContent, wrong: Iterable[Wrong], scattered: Iterable[Op], batches: Iterable[tuple[int, int]]
) -> Wanted:
    """Returns the operations that are needed to tell what is wrong."""
    values, offsets, ends = set[int](), set[int](), set[int]()
    around: set[tuple[int, int] | None] = set(batches)
    for violation in wrong:
        match violation:
            case LostValue() | AckedTwice() | Unwritten():
                values.add(violation.value)
                offsets.add(violation.offset)
            case Diverged():
                values |= {violation.value, violation.other}
                offsets.add(violation.offset)
            case SeenEarly():
                values.add(violation.value)
                ends.add(violation.deadline)
                around |= {batch_at(plan, violation.reach), batch_at(plan, violation.reach + 1)}
            case Gap():
                ends.add(violation.deadline)
                around |= {batch_at(plan, violation.offset), batch_at(plan, violation.offset + 1)}
            case EpochDiffers():
                values.add(violation.value)
            case EpochFalls():
                offsets |= {violation.offset, violation.earlier}
            case TornBatch():
                values |= set(violation.values)
                start = violation.offset - violation.values.index(violation.value)
                offsets |= set(range(max(0, start), start + len(violation.values)))
            case _:
                assert_never(violation)
    for op in scattered:
        offsets.add(op.offset)
        ends.add(op.t_ret)
    for start, end in filter(None, around):
        offsets |= set(range(start, end)[:WITNESS_OPS_MAX])
        values |= set(plan.content[start:end][:WITNESS_OPS_MAX].tolist()) - {NONE}
    return Wanted(frozenset(values), frozenset(offsets), frozenset(ends))


CHECK_OF: Final[Mapping[type, Check]] = {
    LostValue: Check.LOST,
    Diverged: Check.DIVERGENT_OFFSET,
    AckedTwice: Check.DUPLICATED,
    SeenEarly: Check.ORDER,
    Gap: Check.GAP,
    EpochDiffers: Check.EPOCH,
    EpochFalls: Check.EPOCH,
    TornBatch: Check.TORN,
}
"""The name under which a wrong value is reported; of `Unwritten` it depends on what else is known."""


def check_of(wrong: Wrong, plan: LogPlan) -> Check:
    """Returns the name under which a wrong value of a log in memory is reported."""
    if not isinstance(wrong, Unwritten):
        return CHECK_OF[type(wrong)]
    if len(plan.places(wrong.value)) > 1:
        return Check.DUPLICATED
    if wrong.value in plan.refused:
        return Check.ABORTED_READ
    return Check.DIVERGENT_OFFSET if wrong.value in plan.moved else Check.PHANTOM


def batch_at(plan: LogContent, length: int) -> tuple[int, int] | None:
    """Returns where the batch starts and ends that a length ends in; None if it ends in none."""
    before, behind = whole_lengths(np.array([length]), plan.batches)
    return (int(before[0]), int(behind[0])) if before[0] < behind[0] else None


def bare_length(op: Op) -> int:
    """The length of the log that an operation knew, or denied, as if there were no batches."""
    return op.offset + (op.f is not Action.TAIL and op.a != NONE)


class Explainer:
    """Turns what is wrong with one log into sentences and operations."""

    def __init__(self, plan: LogContent) -> None:
        self._plan = plan
        self._end_of_time = 1 + plan.t_last
        self._ops: list[Op] = []

    def take_ops(self, ops: Iterable[Iterable[Op]]) -> None:
        """Take operations that explanations are made of."""
        self._ops = sorted((op for some in ops for op in some), key=lambda op: op.t_inv)

    def explain(self, wrong: Wrong, check: Check) -> InWords:
        """Returns one wrong value."""
        match wrong:
            case LostValue():
                return InWords(check, *self._explain_lost(wrong))
            case Diverged():
                return InWords(check, *self._explain_diverged(wrong))
            case AckedTwice():
                both = self._appends(wrong.value, wrong.offset)[:2]
                return InWords(check, f"offset {wrong.offset} was acknowledged to two appends of {wrong.value}", both)
            case Unwritten():
                return InWords(check, *self._unwritten(wrong, check))
            case SeenEarly():
                return InWords(check, *self._seen_early(wrong))
            case Gap():
                return InWords(check, *self._gap(wrong))
            case EpochDiffers():
                return InWords(check, *self._epoch_differs(wrong))
            case EpochFalls():
                return InWords(check, *self._epoch_falls(wrong))
            case TornBatch():
                return InWords(check, *self._explain_torn(wrong))
            case _:
                assert_never(wrong)

    def final_read(self, offset: int, value: int | None = None, node: int | None = None) -> Op:
        """Returns what the final logs hold at a place, as a read after everything else."""
        final = self._plan.final
        assert final is not None
        there = int(final.content[offset]) if offset < final.end else NONE
        # What is not there is looked for last: all that is there had been appended by then.
        at = self._end_of_time + ((there if value is None else value) == NONE)
        return Op(
            f=Action.READ,
            type=Outcome.OK,
            t_inv=at,
            t_ret=at,
            object=self._plan.object,
            process=NONE,
            offset=offset,
            a=there if value is None else value,
            epoch=int(final.epochs[offset]) if offset < len(final.epochs) and value is None else NONE,
            node=final.node_at(offset) if node is None else node,
        )

    def _appends(self, value: int, offset: int | None = None) -> list[Op]:
        return [
            op
            for op in self._ops
            if op.f is Action.APPEND and op.a == value and (offset is None or op.offset == offset)
        ]

    def _shows(self, offset: int, value: int) -> list[Op]:
        """Operations that show `value` at `offset`, the final logs last."""
        shows = [op for op in self._ops if op.type is Outcome.OK and (op.offset, op.a) == (offset, value)]
        shows = [op for op in shows if op.f in (Action.APPEND, Action.READ)]
        final = self._plan.final
        if final is not None and offset < final.end and final.content[offset] == value:
            shows.append(self.final_read(offset))
        return shows

    def _explain_lost(self, wrong: LostValue) -> tuple[str, list[Op]]:
        final = self._plan.final
        assert final is not None
        evidence = self._shows(wrong.offset, wrong.value)[:3]
        holds = self.final_read(wrong.offset)
        if wrong.offset < final.start:
            there = f"the final logs begin at {final.start}"
        elif wrong.offset < final.end:
            there = f"the final log of node {holds.node} holds {format_value(holds.a)} there"
        else:
            there = f"the final logs end at {final.end}"
        what = "was acknowledged" if wrong.acked else "happened"
        return f"the {describe(evidence[0])} {what}, but {there}", [*evidence, holds]

    def _explain_diverged(self, wrong: Diverged) -> tuple[str, list[Op]]:
        first, second = self._shows(wrong.offset, wrong.value), self._shows(wrong.offset, wrong.other)
        appends = [*self._appends(wrong.value)[:1], *self._appends(wrong.other)[:1]]
        return (
            f"offset {wrong.offset} holds two values: {wrong.value} ({describe(first[0])}) "
            f"and {wrong.other} ({describe(second[0])})",
            [first[0], second[0], *appends],
        )

    def _unwritten(self, wrong: Unwritten, check: Check) -> tuple[str, list[Op]]:
        seen = self._shows(wrong.offset, wrong.value)
        appends = self._appends(wrong.value)
        if check is Check.DUPLICATED:
            possible, places = self._possible(wrong.value), self._plan.places(wrong.value)
            times = "once" if len(possible) == 1 else f"{len(possible)} times"
            where = f"{len(places)} places" if len(places) > 2 else f"offsets {places[0]} and {places[1]}"
            evidence = self._claims(wrong.offset, wrong.value)
            return f"{wrong.value} was appended {times} but stands at {where}{unshown(evidence)}", evidence
        if check is Check.ABORTED_READ:
            return (
                f"{describe(seen[0])}, though the {describe(appends[0])} was answered as certainly not done",
                [seen[0], appends[0]],
            )
        if check is Check.DIVERGENT_OFFSET:
            acked = next(op for op in appends if op.type is Outcome.OK)
            return f"{describe(seen[0])}, but the {describe(acked)} was acknowledged", [seen[0], acked]
        return f"{describe(seen[0])}, but no client ever appended {wrong.value}", seen[:1]

    def _seen_early(self, wrong: SeenEarly) -> tuple[str, list[Op]]:
        late = [op for op in self._possible(wrong.value) if op.t_inv > wrong.deadline]
        knew = self.knew(wrong.reach, wrong.deadline)
        batch = self._batch(batch_at(self._plan, bare_length(knew)))
        evidence = list(dict.fromkeys([knew, late[0], *self._claims(wrong.offset, wrong.value), *batch]))
        return (
            f"{wrong.value} stands at offset {wrong.offset}, but the {describe(knew)} had ended "
            f"before the {describe(late[0])} began{unshown(evidence)}",
            evidence,
        )

    def _possible(self, value: int) -> list[Op]:
        """The appends of a value that may have happened."""
        return [op for op in self._appends(value) if op.type is not Outcome.FAIL]

    def _claims(self, offset: int, value: int) -> list[Op]:
        """All that can have put a value somewhere and all places where it stands, this one first."""
        places = [offset, *[place for place in self._plan.places(value) if place != offset]]
        shown_at = [op for place in places for op in self._shows(place, value)[:1]]
        return [shown_at[0], *self._possible(value), *shown_at[1:]]

    def knew(self, offset: int, deadline: int) -> Op:
        """The operation that first showed a length greater than `offset`."""
        lengths = [op for op in self._ops if op.t_ret == deadline and (op.f is not Action.READ or op.a != NONE)]
        return next(op for op in lengths if self._length(op) > offset)

    def _length(self, op: Op) -> int:
        """The length of the log that an operation knew, with the whole of a batch that it saw a part of."""
        inside = batch_at(self._plan, bare_length(op))
        return bare_length(op) if inside is None else inside[1]

    def _batch(self, inside: tuple[int, int] | None) -> list[Op]:
        """The append that put a batch at these places, and what shows it there if its outcome is unknown."""
        found: list[Op] = []
        for place in range(*(inside or (0, 0))):
            acked = [op for op in self._ops if op.f is Action.APPEND and op.offset == place and op.count > 1]
            found += acked[:1]
            if not acked and place < len(self._plan.content):
                value = int(self._plan.content[place])
                together = [op for op in self._appends(value) if op.count > 1]
                found += [*together[:1], *self._shows(place, value)[:1]]
        return found

    def _gap(self, wrong: Gap) -> tuple[str, list[Op]]:
        final = self._plan.final
        if wrong.deadline == NEVER and final is not None and wrong.offset < final.start:
            begins = self.final_read(final.start)
            return f"no append can have filled offset {wrong.offset}, and the final logs begin at {final.start}", [
                begins
            ]
        if wrong.deadline == NEVER:
            beyond = self.final_read(wrong.offset + 1)
            return f"the final logs hold nothing at offset {wrong.offset}, but go on behind it", [beyond]
        knew = self.knew(wrong.offset, wrong.deadline)
        evidence = [knew, *self._batch(batch_at(self._plan, bare_length(knew)))]
        said = f"{describe(knew)}, but no append can have filled offset {wrong.offset} by then"
        return f"{said}{unshown(evidence)}", evidence

    def _epoch_differs(self, wrong: EpochDiffers) -> tuple[str, list[Op]]:
        claims = [op for op in self._shows(wrong.offset, wrong.value) if op.epoch != NONE]
        one = next(op for op in claims if op.epoch == wrong.epoch)
        other = next(op for op in claims if op.epoch == wrong.other)
        return f"the {describe(one)} is of epoch {wrong.epoch}, the {describe(other)} of epoch {wrong.other}", [
            one,
            other,
        ]

    def _epoch_falls(self, wrong: EpochFalls) -> tuple[str, list[Op]]:
        found = []
        for offset, epoch in ((wrong.earlier, wrong.earlier_epoch), (wrong.offset, wrong.epoch)):
            claims = self._shows(offset, int(self._plan.content[offset]))
            found.append(next(op for op in claims if op.epoch == epoch))
        first, second = found
        return (
            f"epochs fall along the log: the {describe(first)} is of epoch {wrong.earlier_epoch}, "
            f"the {describe(second)} of epoch {wrong.epoch}",
            found,
        )

    def _explain_torn(self, wrong: TornBatch) -> tuple[str, list[Op]]:
        batch = [
            op
            for value in wrong.values
            for op in self._appends(value)
            if op.type is Outcome.INFO and op.count == len(wrong.values)
        ]
        at = {value: self._plan.places(value) for value in wrong.values}
        where = ", ".join(f"{value} at {at[value][0]}" if at[value] else f"{value} nowhere" for value in at)
        evidence = [*batch, *self._shows(wrong.offset, wrong.value)[:1], *self._refutes(wrong)]
        return (
            f"the records of one append of {len(wrong.values)} by process {batch[0].process} (outcome unknown) do not "
            f"stand one after the other: {where}{unshown(evidence)}",
            evidence,
        )

    def _refutes(self, wrong: TornBatch) -> list[Op]:
        """Returns what shows that the other records of a batch do not stand where they would, given the one that was found."""
        start = wrong.offset - wrong.values.index(wrong.value)
        content, final = self._plan.content, self._plan.final
        for place, value in enumerate(wrong.values, start):
            there = int(content[place]) if 0 <= place < len(content) else NONE
            if there not in (value, NONE):
                return self._shows(place, there)[:1]
            if there == NONE and final is not None and place >= final.start:
                return [self.final_read(place)]
        return [
            op
            for value in wrong.values
            for place in self._plan.places(value)[:1]
            for op in self._shows(place, value)[:1]
        ]

    def explain_scattered(self, op: Op) -> InWords:
        """Returns a batch that was acknowledged at places which do not follow each other."""
        rows = [
            one for one in self._ops if one.f is Action.APPEND and (one.process, one.t_inv) == (op.process, op.t_inv)
        ]
        said = f"the batch that begins with the {describe(op)} was acknowledged at places that do not follow each other"
        return InWords(Check.TORN, f"{said}{unshown(rows)}", rows or [op])

    def half_seen(self, op: Op) -> InWords:
        """An end of the log inside a batch."""
        inside = batch_at(self._plan, op.offset)
        assert inside is not None
        evidence = [op, *self._batch(inside)]
        said = f"the {describe(op)} lies inside the batch at offsets {inside[0]} to {inside[1] - 1}"
        return InWords(Check.TORN, f"{said}{unshown(evidence)}", evidence)

    def ends_early(self, one: EndsEarly) -> InWords:
        """Returns a final log that is shorter than another."""
        goes_on = self.final_read(one.end, node=one.longer)
        ends = self.final_read(one.end, NONE, one.node)
        said = f"the final log of node {one.node} ends at {one.end}, but that of node {one.longer} goes on"
        return InWords(Check.LOST, said, [goes_on, ends])

    def nodes_differ(self, differ: NodesDiffer) -> InWords:
        """Returns two final logs that are not the same."""
        (first, second), (value, other) = differ.nodes, differ.values
        ops = [self.final_read(differ.offset, value, first), self.final_read(differ.offset, other, second)]
        check = Check.DIVERGENT_OFFSET
        if value == other:
            check = Check.EPOCH
            what = f"{value} of epoch {differ.epochs[0]} and of epoch {differ.epochs[1]}"
            ops = [attrs.evolve(op, epoch=epoch) for op, epoch in zip(ops, differ.epochs, strict=True)]
        else:
            what = f"{value} and {other}"
        return InWords(
            check, f"the final logs of nodes {first} and {second} hold {what} at offset {differ.offset}", ops
        )

    def begins_late(self, node: int, first: int) -> InWords:
        """Returns a final log that lacks its beginning."""
        said = f"the final log of node {node} begins at {first}, and nothing may leave it"
        return InWords(Check.LOST, said, [self.final_read(first, node=node)])

    def explain_damaged(self, op: Op) -> InWords:
        """Returns a read of a damaged record."""
        return InWords(
            Check.PHANTOM, f"{describe(op)} returned a record that differs from the one written as {op.a}", [op]
        )

    def contradiction(self, knew: Op, denied: Op) -> InWords:
        """Returns two operations of which the later one denies what the earlier one knew."""
        check = Check.ORDER if denied.f is Action.APPEND else Check.STALE
        evidence = [knew, denied]
        for inside in dict.fromkeys(batch_at(self._plan, bare_length(op)) for op in evidence):
            evidence += self._batch(inside)
        said = f"the {describe(knew)} had ended before the {describe(denied)} began"
        return InWords(check, f"{said}{unshown(evidence)}", evidence)

    def too_long(self, op: Op, wrong: Sequence[Wrong]) -> InWords | None:
        """Returns a length that is not there in the end; None when the same place is reported as lost already."""
        place = op.offset - (op.f is Action.TAIL)
        if any(isinstance(one, LostValue) and one.offset == place for one in wrong):
            return None
        final = self._plan.final
        if final is None:
            return InWords(Check.GAP, f"{describe(op)}, but there were only {self._plan.appends} appends in all", [op])
        return InWords(
            Check.LOST, f"{describe(op)}, but the final logs end at {final.end}", [op, self.final_read(place)]
        )
