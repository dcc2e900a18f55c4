"""One log of any length, over many tasks, each of which holds a bounded part of it.

Three passes. Each *chunk* of rows, a segment of time, is read once and reduced (`chunks`). Each *range* of places
is judged from what the chunks left for it (`ranges`). Holes that only appends of unknown outcome can have filled,
and values that may stand in two ranges, are judged by value (`values`). What a task returns to the driver is
bounded: sums, a few examples, the names of files. The rules are those of `scan`, and so are the counts, with one
difference: how many contradictions between times are counted depends on how the work was cut.

Explanations are made of the operations that speak of the places concerned, as for short logs (`witnesses`).
"""

import functools
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final, cast

import attrs
import numpy as np

from jepsen_like.checker.engine.job import Job
from jepsen_like.checker.log.explain import (
    CHECK_OF,
    EXPLAINED_MAX,
    EndsEarly,
    Explainer,
    InWords,
    NodesDiffer,
    Odd,
    count_checks,
    more_told,
    wanted_of,
    with_violations,
)
from jepsen_like.checker.log.long.chunks import ChunkFacts, ChunkTask
from jepsen_like.checker.log.long.final_parts import FinalParts
from jepsen_like.checker.log.long.parts import LogDivision
from jepsen_like.checker.log.long.ranges import WRONG_KEPT_MAX, PlacesKnown, RangeFacts, RangeTask
from jepsen_like.checker.log.long.values import ValueFacts, ValueTask, WaitingTask
from jepsen_like.checker.log.long.witnesses import FewPlaces, FewPlacesContent, SpeakTask
from jepsen_like.checker.log.scan import EpochFalls, FinalLogs, Gap, LogSums, SeenEarly, Unwritten, Wrong
from jepsen_like.checker.log.witnesses import Denied, first_denier
from jepsen_like.checker.rows.columns import Columns, Ints
from jepsen_like.checker.rows.gather import Chunk
from jepsen_like.checker.rows.tasks import Gathered, Shared
from jepsen_like.checker.verdict import Check, Findings, Undecided, in_turn
from jepsen_like.history.ops import NEVER, NONE, Action, Op

ROWS_PER_PART: Final = 4
"""Rows of the whole log for each part of its values, as a multiple of what a task holds: only a part of them goes there."""
MARGIN_BATCHES: Final = 3
"""The width of a margin, as a multiple of the largest batch."""


def check_long_log(
    obj: int, sources: Sequence[Chunk | Gathered | Columns], rows: int, final: FinalParts | None, job: Job
) -> tuple[Findings, Sequence[ChunkFacts]]:
    """Returns a log's flaws and its chunks' results. `sources` are its rows alone, about `rows`, in recorded order."""
    limits = job.limits
    farthest = max(rows, final.end if final is not None else 0)
    division = LogDivision(
        obj, limits.task, (farthest + 2) // limits.task + 1, max(1, rows // (ROWS_PER_PART * limits.task))
    )
    directory = job.scratch.path / f"log-{obj}"
    directory.mkdir(exist_ok=True)
    tasks = [ChunkTask(source, division, directory, number) for number, source in enumerate(sources)]
    chunks: list[ChunkFacts] = job.run(tasks)
    return _LongLog(sources, chunks, division, final, job, directory).findings(), chunks


@attrs.frozen(slots=False)
class _LongLog:
    """A log after pass one."""

    sources: Sequence[Chunk | Gathered | Columns]
    chunks: Sequence[ChunkFacts]
    division: LogDivision
    final: FinalParts | None
    job: Job
    directory: Path

    def findings(self) -> Findings:
        chunks, name = self.chunks, self.division.object
        findings = self._sums.findings(name)
        if findings.undecided:
            return findings
        together = sum(one.unknown_together for one in chunks)
        if together:
            reason = f"it is too long for batches of unknown outcome, of which it has {together} records"
            return attrs.evolve(findings, undecided=(Undecided(name, reason),))
        tasks = self._range_tasks()
        ranges: list[RangeFacts] = self.job.run(tasks)
        values: list[ValueFacts] = self.job.run(self._value_tasks(ranges))
        gaps, first_gaps = self._waiting(ranges, values)
        wrong, counts, standing = self._wrong(ranges, values, gaps, first_gaps)
        told = self._put_into_words(tasks, ranges, wrong, standing)
        counts = count_checks((one.check for one in told[1]), counts)
        return attrs.evolve(
            with_violations(findings, name, counts, [*told[0], *told[1]]),
            lost_acked=sum(one.lost_acked for one in ranges)
            + (sum(one.far_acked for one in chunks) if self.final is not None else 0),
            expired=sum(one.expired for one in ranges),
            duplicated=sum(one.duplicated for one in ranges) + sum(one.duplicated for one in values),
        )

    @functools.cached_property
    def _sums(self) -> LogSums:
        return LogSums.join([one.sums for one in self.chunks])

    @property
    def _appends(self) -> int:
        return self._sums.acked + sum(one.unknown for one in self.chunks)

    @property
    def _end(self) -> int:
        return self.final.end if self.final is not None else min(self._sums.length, self._appends)

    # ------------------------------------------------------------ the tasks

    def _range_tasks(self) -> list[RangeTask]:
        division, chunks, end = self.division, self.chunks, self._end
        largest = max(one.batch_max for one in chunks)
        margin = MARGIN_BATCHES * largest if largest > 1 else 0
        known_ns = np.full(division.ranges + 1, NEVER, np.int64)
        known_ns[-1] = min(one.far_ns for one in chunks)
        touching: dict[int, list[int]] = {}
        reach = -(-margin // division.places)
        for number, chunk in enumerate(chunks):
            known_ns[chunk.touched] = np.minimum(known_ns[chunk.touched], chunk.known_ns)
            near = {at + by for at in chunk.touched.tolist() for by in range(-reach, reach + 1)}
            for at in near:
                touching.setdefault(at, []).append(number)
        later_ns = np.append(np.minimum.accumulate(known_ns[::-1])[::-1][1:], NEVER)
        exchanged, times = self._share_exchanged(), self.job.share(self._times())
        numbers = {*range(-(-end // division.places)), *touching} & set(range(division.ranges))
        tasks = []
        for number in sorted(numbers):
            begin = number * division.places
            mine = touching.get(number, [])
            tasks.append(
                RangeTask(
                    division=division,
                    number=number,
                    margin=margin,
                    end=end,
                    longest=self._sums.length,
                    later_ns=int(later_ns[number]),
                    dense=tuple(chunks[at].dense for at in mine),
                    rows=tuple(chunks[at].rows for at in mine),
                    final=None
                    if self.final is None
                    else self.final.within(begin - margin, begin + division.places + margin),
                    exchanged=exchanged,
                    times=times,
                    directory=self.directory,
                )
            )
        return tasks

    def _share_exchanged(self) -> Shared | None:
        """The buckets of values that are touched by several ranges; None if they cannot be told."""
        by_range: dict[int, list[Ints]] = {}
        said = [pair for one in self.chunks for pair in zip(one.touched.tolist(), one.buckets, strict=True)]
        if self.final is not None:
            said += [pair for one in self.final.parts for pair in one.buckets]
        for number, buckets in said:
            if buckets is None:
                return None
            by_range.setdefault(number, []).append(buckets)
        found = [np.unique(np.concatenate(some)) for some in by_range.values()]
        bucket, ranges = np.unique(np.concatenate([*found, np.zeros(0, np.int64)]), return_counts=True)
        return self.job.share(bucket[ranges > 1])

    def _times(self) -> Ints:
        """Returns where the parts of time begin, but the first: about as many appends begin in each."""
        began = np.sort(np.array([one.sums.t_first for one in self.chunks], np.int64))
        at = np.arange(1, self.division.parts) * len(began) // self.division.parts
        return np.unique(began[at])

    def _value_tasks(self, ranges: Sequence[RangeFacts]) -> list[ValueTask]:
        chunks, holes = tuple(one.values for one in self.chunks), tuple(one.holes for one in ranges)
        times, parts = self.job.share(self._times()), self.division.parts
        return [ValueTask(number, parts, chunks, holes, times, self.directory) for number in range(parts)]

    def _waiting(self, ranges: Sequence[RangeFacts], values: Sequence[ValueFacts]) -> tuple[int, list[Gap]]:
        """Returns how many holes of which nothing is known stay empty, and the first of them."""
        unseen, left = tuple(one.unseen for one in ranges), tuple(one.left for one in values)
        found = self.job.run([WaitingTask(number, unseen, left) for number in range(self.division.parts)])
        waiting = 0
        for of_part in reversed(found):
            waiting = max(waiting + of_part.net, of_part.least)
        earliest = [pair for one in found for pair in one.first.tolist()][: min(waiting, WRONG_KEPT_MAX)]
        return waiting, [Gap(place, due) for due, place in earliest]

    # ------------------------------------------------------------ what is wrong

    def _wrong(
        self, ranges: Sequence[RangeFacts], values: Sequence[ValueFacts], gaps: int, first_gaps: Sequence[Gap]
    ) -> tuple[list[tuple[Wrong, Check]], dict[Check, int], dict[int, tuple[int, ...]]]:
        """Returns what is wrong with values, the first of each kind, how much that is by check, and where values stand."""
        counts: dict[Check, int] = {}
        named: list[tuple[Wrong, Check]] = []
        for of_range in ranges:
            named += [(one, CHECK_OF[type(one)]) for one in of_range.wrong]
            for kind, count in of_range.counts.items():
                check = CHECK_OF[kind]
                counts[check] = counts.get(check, 0) + count
        falls = list(_falls_between(ranges))
        named += [(one, Check.EPOCH) for one in falls[:WRONG_KEPT_MAX]]
        found = {Check.EPOCH: len(falls), Check.GAP: gaps}
        if self.final is not None:
            named += [(one, Check.LOST) for chunk in self.chunks for one in chunk.far]
            found[Check.LOST] = sum(one.far_values for one in self.chunks)
        standing: dict[int, tuple[int, ...]] = {}
        for of_values in values:
            for violation, check, places in of_values.wrong:
                named.append((violation, check))
                standing[_value(violation)] = places
            for check, count in of_values.counts.items():
                found[check] = found.get(check, 0) + count
        named += [(one, Check.GAP) for one in first_gaps]
        for check, count in found.items():
            if count:
                counts[check] = counts.get(check, 0) + count
        return in_turn(named, lambda pair: pair[1], EXPLAINED_MAX), counts, standing

    def _put_into_words(
        self,
        tasks: Sequence[RangeTask],
        ranges: Sequence[RangeFacts],
        wrong: Sequence[tuple[Wrong, Check]],
        standing: Mapping[int, tuple[int, ...]],
    ) -> tuple[list[InWords], list[InWords]]:
        """Returns what is wrong in words: with values, and else."""
        early: dict[int, int] = {}
        for known_ns, place in (pair for of_range in ranges for pair in of_range.early):
            early.setdefault(known_ns, place)
        half_seen = [place for one in ranges for place in one.half_seen]
        differ = self._differ(ranges)
        sums = self._sums
        too_long = sums.length_op if sums.length > self._end else None
        if too_long is not None and self._is_lost(ranges, too_long):
            too_long = None
        late = self.final is not None and not self.final.expires and any(one for one, _ in self.final.nodes.values())
        if not (wrong or early or half_seen or differ or sums.scattered or sums.damaged or too_long or late):
            return [], []
        asked = {place + by for place in (*early.values(), *half_seen) for by in (0, 1)}
        for violation, _ in wrong:
            asked |= {violation.offset, violation.offset + 1}
            if isinstance(violation, SeenEarly):
                asked |= {violation.reach, violation.reach + 1}
            if isinstance(violation, EpochFalls):
                asked |= {violation.earlier, violation.earlier + 1}
        asked |= {place for places in standing.values() for place in places}
        if self.final is not None:
            asked |= {self.final.end, *(place for pair in self.final.nodes.values() for place in pair)}
            asked.add(min((first for first, _ in self.final.nodes.values()), default=0))
        asked |= {one.offset for one in differ if isinstance(one, NodesDiffer)}
        if too_long is not None:
            asked |= {too_long.offset - 1, too_long.offset}
        searched = [(one.offset, one.value) for one, _ in wrong if isinstance(one, SeenEarly | Unwritten)]
        around = self._around(tasks, asked, searched)
        standing = _standing(standing, around)
        plan = self._plan(around, too_long, standing)
        denied = [self._denial_of(plan, place, known_ns) for known_ns, place in sorted(early.items())][:EXPLAINED_MAX]
        in_batches = [span for one in (*(one.first for one in denied), *half_seen) if (span := _span(plan, one))]
        wanted = wanted_of(plan, [one for one, _ in wrong], sums.scattered, in_batches)
        wanted = attrs.evolve(
            wanted,
            offsets=wanted.offsets.union(*standing.values()),
            ends=wanted.ends | {one.after_ns for one in denied},
            tails=frozenset(half_seen),
            denied=tuple(denied),
        )
        found = self.job.run([SpeakTask(source, wanted) for source in self.sources])
        ops = [op for some in found for op in some]
        explainer = Explainer(plan)
        explainer.take_ops([ops])
        odd = Odd(
            differ=differ,
            damaged=sums.damaged,
            scattered=sums.scattered,
            half_seen=[op for op in ops if op.f is Action.TAIL and op.offset in set(half_seen)],
            contradictions=[
                (explainer.knew(one.first, one.after_ns), denier)
                for one in denied
                if (denier := first_denier(ops, one)) is not None
            ],
        )
        return [explainer.explain(*one) for one in wrong], more_told(explainer, plan, odd, [one for one, _ in wrong])

    def _is_lost(self, ranges: Sequence[RangeFacts], op: Op) -> bool:
        """Returns True if the place that shows a length is told as lost anyway."""
        place = op.offset - (op.f is Action.TAIL)
        return self.final is not None and (
            any(one.is_lost for one in ranges) or any(lost.offset == place for one in self.chunks for lost in one.far)
        )

    def _differ(self, ranges: Sequence[RangeFacts]) -> list[NodesDiffer | EndsEarly]:
        """Returns where final logs are not the same: the first place of each node, and nodes that end early."""
        first: dict[int, NodesDiffer] = {}
        for difference in (one for of_range in ranges for one in of_range.differ):
            if difference.nodes[1] not in first or difference.offset < first[difference.nodes[1]].offset:
                first[difference.nodes[1]] = difference
        if self.final is None:
            return []
        end = self.final.end
        longest = min((node for node, (_, its) in self.final.nodes.items() if its == end), default=NONE)
        early = [EndsEarly(node, its, longest) for node, (_, its) in sorted(self.final.nodes.items()) if its < end]
        return [*(first[node] for node in sorted(first)), *early]

    def _around(
        self, tasks: Sequence[RangeTask], asked: Iterable[int], searched: Iterable[tuple[int, int]]
    ) -> list[PlacesKnown]:
        """Returns what is known of these places, and of those of batches that touch them."""
        found: list[PlacesKnown] = []
        wanted, places = set(asked), self.division.places
        values: dict[int, set[int]] = {}
        for place, value in searched:
            values.setdefault(place // places, set()).add(value)
        for _ in range(2):
            by_range: dict[int, set[int]] = {}
            for place in wanted:
                by_range.setdefault(place // places, set()).add(place)
            again = [
                attrs.evolve(
                    task,
                    asked=tuple(sorted(by_range[task.number])),
                    asked_values=tuple(sorted(values.get(task.number, ()))),
                )
                for task in tasks
                if task.number in by_range
            ]
            found += [one.around for one in self.job.run(again)]
            batches = {pair for one in found for pair in zip(*one.batches.tolist(), strict=True)}
            known = {place for one in found for place in one.places.tolist()}
            wanted = {place for start, end in batches for place in range(start, end)[:WRONG_KEPT_MAX]}
            wanted |= {place for one in found for some in one.standing.values() for place in some}
            wanted -= known
            if not wanted:
                break
        return found

    def _plan(
        self, around: Sequence[PlacesKnown], too_long: Op | None, standing: Mapping[int, tuple[int, ...]]
    ) -> FewPlacesContent:
        columns: list[dict[int, int]] = [{}, {}, {}]
        for known in around:
            for column, values in zip(columns, (known.content, known.final, known.epochs), strict=True):
                column.update(zip(known.places.tolist(), values.tolist(), strict=True))
        end = self._end
        content, of_final, epochs = (cast("Ints", FewPlaces(column, end)) for column in columns)
        final = None
        if self.final is not None:
            final = FinalLogs(of_final, end, self.final.nodes, self.final.expires, epochs)
        batches = {pair for one in around for pair in zip(*one.batches.tolist(), strict=True)}
        places: dict[int, set[int]] = {value: set(some) for value, some in standing.items()}
        for place, value in columns[0].items():
            if value != NONE:
                places.setdefault(value, set()).add(place)
        return FewPlacesContent(
            object=self.division.object,
            content=content,
            final=final,
            too_long=too_long,
            batches=np.array(sorted(batches), np.int64).reshape(-1, 2).T,
            appends=self._appends,
            t_last=self._sums.t_last,
            standing={value: tuple(sorted(some)) for value, some in places.items()},
        )

    def _denial_of(self, plan: FewPlacesContent, place: int, known_ns: int) -> Denied:
        """Returns who was told at `known_ns` that there is a record at a place, and who denied it later."""
        span = _span(plan, place + 1)
        return Denied(place, place + 1 if span is None or span[0] != place else span[1], known_ns)


def _span(plan: FewPlacesContent, length: int) -> tuple[int, int] | None:
    """The batch that has a place before `length`, if that lies inside of it."""
    found = [(start, end) for start, end in plan.batches.T.tolist() if start < length <= end and end - start > 1]
    return found[0] if found else None


def _standing(elsewhere: Mapping[int, tuple[int, ...]], around: Sequence[PlacesKnown]) -> dict[int, tuple[int, ...]]:
    """Places of values, in other ranges and in those that were looked at."""
    places = {value: set(some) for value, some in elsewhere.items()}
    for known in around:
        for value, standing_at in known.standing.items():
            places.setdefault(value, set()).update(standing_at)
    return {value: tuple(sorted(some)[:WRONG_KEPT_MAX]) for value, some in places.items()}


def _value(wrong: Wrong) -> int:
    assert isinstance(wrong, SeenEarly | Unwritten)
    return wrong.value


def _falls_between(ranges: Sequence[RangeFacts]) -> Iterable[EpochFalls]:
    """Yields where the epoch of the first place of a range is lower than that of the last before it."""
    before: tuple[int, int] | None = None
    for of_range in ranges:
        if before is not None and of_range.first_epoch is not None and of_range.first_epoch[1] < before[1]:
            yield EpochFalls(*of_range.first_epoch, *before)
        before = of_range.last_epoch or before
