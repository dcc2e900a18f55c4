"""Registers of a history of any size, in bounded memory.

What is small is checked as it lies, a bucket at a time. In a larger bucket, registers that have a good part of the rows are
reduced piece by piece (`register_reduce`), however many rows each has; the rows of all others are sorted out by groups of whole
registers (`gather`), and the groups checked one by one. Registers that only a search over all of their operations can decide are
gathered, too; one that has too many operations for that is undecided.
"""

import itertools
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import attrs
import numpy as np

from jepsen_like.checker.engine.job import Job
from jepsen_like.checker.model import Conclusion
from jepsen_like.checker.register.reduce import REGISTER_BITS, Territory, registers_of
from jepsen_like.checker.register.tasks import (
    GatherTask,
    KeysTask,
    LastTask,
    Left,
    ReduceTask,
    RegistersTask,
    SpansTask,
)
from jepsen_like.checker.rows.columns import Ints
from jepsen_like.checker.rows.gather import (
    SLOTS,
    Census,
    CensusTask,
    Chunk,
    Grouping,
    Limits,
    MeetingTask,
    batches_of,
    chunks_of,
    count_heavy,
    rows_in,
    with_sizes,
)
from jepsen_like.checker.rows.tasks import Shared, Source, Task
from jepsen_like.checker.verdict import Findings, Undecided
from jepsen_like.history.files import HistoryReader
from jepsen_like.history.ops import NEVER

KEYS_MAX: Final = 1 << 22
"""Compared by one task."""
JOINED_SHARE_MAX: Final = 0.75
"""The place where joining leaves more than this part of the pieces, it leads nowhere."""
OPENINGS_MAX: Final = 8
"""So often values are opened; each time those that depend on them come to light."""


@attrs.frozen
class RowsPiece:
    """Rows of a bucket: of the history, or what is left of several pieces."""

    source: Chunk | tuple[Path, ...]
    rows: int
    begin: int
    end: int


@attrs.define
class RegisterCheck:
    """The check of registers; see `ModelCheck`."""

    _findings: Findings = attrs.field(factory=Findings, init=False)
    """The findings of reducing."""
    _undecided: Sequence[Undecided] = attrs.field(default=(), init=False)
    _whole: int = attrs.field(default=0, init=False)
    """So many of the last tasks are about registers whose operations have been counted."""

    def plan(self, history: HistoryReader, job: Job) -> Sequence[Task]:
        """Returns a task for each group of registers, once those of large buckets are reduced. Raises `UnreadableHistory`."""
        reducing = _Reducing(history, job)
        self._findings = reducing.reduce_large()
        groups = reducing.groups()
        whole, self._undecided = reducing.gather_whole()
        self._whole = len(whole)
        return [RegistersTask(sources, job.limits.search) for sources in [*groups, *whole]]

    def join(self, results: Sequence[Findings]) -> Conclusion:
        """Returns everything that is wrong with the registers."""
        counted = len(results) - self._whole
        of_whole = [
            attrs.evolve(found, ok=0, fail=0, info=0, objects=0, acked=0, unread=0, unexamined=0)
            for found in results[counted:]
        ]
        whole = Findings.join([Findings(undecided=tuple(self._undecided)), *of_whole])
        return Conclusion(Findings.join([self._findings, *results[:counted], whole]))


class _Bucket:
    """A bucket that is too large for one task."""

    def __init__(self, number: int, chunks: list[Chunk], censuses: list[Census], limits: Limits) -> None:
        self.number = number
        self.chunks = chunks
        heavy = count_heavy(censuses)
        total = sum(int(one.slots.sum() + one.rows.sum()) for one in censuses)
        chosen = sorted(obj for obj, rows in heavy.items() if rows * limits.reduced_share >= total)
        self.registers = np.array(chosen, np.int64)
        """Those that are reduced."""
        self.rows = np.array([heavy[obj] for obj in chosen], np.int64)
        self.pieces = [
            RowsPiece(chunk, int(one.slots.sum() + one.rows.sum()), one.begin, one.end)
            for chunk, one in zip(chunks, censuses, strict=True)
        ]
        others = [
            attrs.evolve(one, heavy=one.heavy[keep], rows=one.rows[keep])
            for one in censuses
            for keep in [~np.isin(one.heavy, self.registers)]
        ]
        self.division = Grouping.of(others, limits.task)
        self.has_others = any(one.slots.any() or len(one.heavy) for one in others)
        self.others: list[Path] = []
        self.whole = np.zeros(0, np.int64)
        """Numbers of the registers that are decided by all of their rows at once."""
        self.left: dict[int, Left] = {}
        """By the number of the piece."""
        self.files: list[Path] = []
        self.keys: list[Path] = []

    def add_whole(self, numbers: Ints) -> None:
        """Note registers that cannot be reduced."""
        self.whole = np.union1d(self.whole, numbers).astype(np.int64)

    def without(self) -> Ints:
        """Returns the names of these."""
        return self.registers[self.whole]


class _Reducing:
    """The registers of large buckets while they are reduced."""

    def __init__(self, history: HistoryReader, job: Job) -> None:
        self._history = history
        self._job = job
        self._files = 0
        self._large: set[int] = set()
        """Numbers of the large buckets."""
        self._buckets: list[_Bucket] = []

    def reduce_large(self) -> Findings:
        """Reduce all large registers; returns everything that is wrong with them, but for those that `whole` has."""
        limits = self._job.limits
        sizes = [with_sizes(parts) for parts in self._history.parts]
        large = {
            number: chunks_of(of, limits.piece) for number, of in enumerate(sizes) if rows_in(of) > 2 * limits.task
        }
        self._large = set(large)
        censuses = iter(self._job.run([CensusTask(chunk, timed=True) for chunks in large.values() for chunk in chunks]))
        buckets = self._buckets = [
            _Bucket(number, chunks, [next(censuses) for _ in chunks], limits) for number, chunks in large.items()
        ]
        self._reduce(buckets, of_history=True)
        findings = self._count(buckets)
        active = buckets
        while active := [bucket for bucket in active if not self._join(bucket)]:
            self._reduce(active, of_history=False)
        last = [LastTask(tuple(bucket.files), self._job.share(bucket.without())) for bucket in buckets]
        for bucket, (findings_of, ambiguous) in zip(buckets, self._job.run(last), strict=True):
            findings = findings.plus(findings_of)
            bucket.add_whole(np.searchsorted(bucket.registers, ambiguous))
        return findings

    def _count(self, buckets: Sequence[_Bucket]) -> Findings:
        """Returns the operations of these registers, counted. Raises `UnreadableHistory` if a process did two things at once."""
        findings = Findings()
        met = self._job.run([SpansTask(tuple(bucket.files)) for bucket in buckets])
        for bucket, meetings_of in zip(buckets, met, strict=True):
            counted = [left.counted for left in bucket.left.values() if left.counted is not None]
            self._job.run([MeetingTask((bucket.chunks[i], bucket.chunks[j]), some) for i, j, some in meetings_of])
            for of_piece in counted:
                findings = findings.plus(of_piece.findings)
            looked = np.max([of_piece.looked for of_piece in counted], axis=0)
            changed = np.max([of_piece.changed for of_piece in counted], axis=0)
            findings = attrs.evolve(
                findings,
                objects=findings.objects + len(bucket.registers),
                unread=findings.unread + int((changed > looked).sum()),
                unexamined=findings.unexamined + int((looked == -NEVER).sum()),
            )
        return findings

    def groups(self) -> list[tuple[Source, ...]]:
        """Returns the rows of all other registers: small buckets as they lie, and groups of the large ones."""
        small: list[tuple[Source, ...]] = [
            parts for number, parts in enumerate(self._history.parts) if parts and number not in self._large
        ]
        return small + [
            batches_of(bucket.others, number)
            for bucket in self._buckets
            if bucket.has_others
            for number in range(bucket.division.groups)
        ]

    def _reduce(self, buckets: Sequence[_Bucket], *, of_history: bool) -> None:
        """Reduce all pieces; then again those that others know more of, until none is left of which that is not known."""
        todo = {bucket.number: list(range(len(bucket.pieces))) for bucket in buckets}
        opened: dict[int, list[Shared]] = {bucket.number: [] for bucket in buckets}
        for bucket in buckets:
            count = len(bucket.pieces)
            bucket.left = {}
            bucket.files, bucket.keys = self._paths("left", count), self._paths("keys", count)
            if of_history:
                bucket.others = self._paths("rows", count)
        for round_ in range(OPENINGS_MAX + 1):
            work = [(bucket, at) for bucket in buckets for at in todo[bucket.number]]
            tasks = [self._task(bucket, at, opened[bucket.number], of_history) for bucket, at in work]
            for (bucket, at), left in zip(work, self._job.run(tasks), strict=True):
                before = bucket.left.get(at)
                bucket.left[at] = left if before is None else attrs.evolve(left, counted=before.counted)
                bucket.add_whole(np.searchsorted(bucket.registers, left.ambiguous))
            todo = {bucket.number: [] for bucket in buckets}
            ranges = [(bucket, begin, end) for bucket in buckets for begin, end in self._ranges(bucket)]
            compared = self._job.run([KeysTask(tuple(bucket.keys), begin, end) for bucket, begin, end in ranges])
            for (bucket, _, _), shared in zip(ranges, compared, strict=True):
                bucket.add_whole(shared.many)
                keys = shared.keys[~np.isin(registers_of(shared.keys), bucket.whole)]
                if round_ == OPENINGS_MAX:
                    bucket.add_whole(np.unique(registers_of(keys)))
                elif len(keys):
                    opened[bucket.number].append(self._job.share(keys.view(np.int64)))
                    todo[bucket.number] = sorted({*todo[bucket.number], *shared.pieces})
            if not any(todo.values()):
                return

    def _task(self, bucket: _Bucket, at: int, opened: Sequence[Shared], of_history: bool) -> ReduceTask:
        pieces = bucket.pieces
        territory = Territory(
            max([-NEVER, *(one.end for one in pieces[:at])]), min([NEVER, *(one.begin for one in pieces[at + 1 :])])
        )
        sorts_out = of_history and not opened and bucket.has_others
        return ReduceTask(
            pieces[at].source,
            self._job.share(bucket.registers),
            self._job.share(bucket.without()),
            territory,
            tuple(opened),
            bucket.files[at],
            bucket.keys[at],
            bucket.division if sorts_out else None,
            bucket.others[at] if sorts_out else None,
            of_history,
        )

    def _ranges(self, bucket: _Bucket) -> list[tuple[int, int]]:
        """Ranges of keys of which each task compares one."""
        count = -(-sum(left.keys for left in bucket.left.values()) // KEYS_MAX) if len(bucket.pieces) > 1 else 0
        end = len(bucket.registers) << (64 - REGISTER_BITS)
        bounds = [end * number // max(1, count) for number in range(count + 1)]
        return list(itertools.pairwise(bounds))

    def _join(self, bucket: _Bucket) -> bool:
        """Join what is left of neighbouring pieces. Returns whether one task can hold all of it."""
        if sum(left.rows for left in bucket.left.values()) <= self._job.limits.task:
            return True
        joined: list[RowsPiece] = []
        for left, file in zip(bucket.left.values(), bucket.files, strict=True):
            before = joined[-1] if joined else None
            if before is not None and before.rows + left.rows <= self._job.limits.task:
                joined[-1] = RowsPiece(
                    (*before.source, file),
                    before.rows + left.rows,
                    min(before.begin, left.begin),
                    max(before.end, left.end),
                )
            else:
                joined.append(RowsPiece((file,), left.rows, left.begin, left.end))
        if len(joined) <= len(bucket.pieces) * JOINED_SHARE_MAX:
            bucket.pieces = joined
            return False
        per_register = np.sum([left.per_register for left in bucket.left.values()], axis=0)
        per_register[bucket.whole] = 0
        by_rows = np.argsort(per_register, kind="stable")
        bucket.add_whole(by_rows[np.cumsum(per_register[by_rows]) > self._job.limits.whole])
        return True

    def gather_whole(self) -> tuple[list[tuple[Source, ...]], list[Undecided]]:
        """Gather the registers that cannot be reduced; returns their rows by group, and which of them are too long."""
        undecided: list[Undecided] = []
        groups: list[tuple[Source, ...]] = []
        work: list[GatherTask] = []
        rows_max = self._job.limits.whole
        for bucket in self._buckets:
            fits = bucket.rows[bucket.whole] <= rows_max
            for number in bucket.whole[~fits].tolist():
                reason = (
                    "it cannot be checked in parts (values were written twice or seen long after they had been replaced, or a"
                    f" compare-and-set was refused), and of its {bucket.rows[number]:,} operations one task holds {rows_max:,}"
                )
                undecided.append(Undecided(int(bucket.registers[number]), reason))
            chosen = bucket.whole[fits]
            if not len(chosen):
                continue
            nothing = np.zeros(0, np.int64)
            census = Census(np.zeros(SLOTS, np.int64), bucket.registers[chosen], bucket.rows[chosen])
            division = Grouping.of([census, Census(np.zeros(SLOTS, np.int64), nothing, nothing)], self._job.limits.task)
            files = self._paths("whole", len(bucket.chunks))
            objects = self._job.share(bucket.registers[chosen])
            work += [
                GatherTask(chunk, objects, division, file) for chunk, file in zip(bucket.chunks, files, strict=True)
            ]
            groups += [batches_of(files, number) for number in range(division.groups)]
        self._job.run(work)
        return groups, undecided

    def _paths(self, name: str, count: int) -> list[Path]:
        self._files += 1
        suffix = "npy" if name == "keys" else "arrow"
        return [self._job.scratch.path / f"{name}-{self._files}-{number}.{suffix}" for number in range(count)]
