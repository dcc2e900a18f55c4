"""Many logs: rows sorted out by groups of whole objects, and the groups checked one by one.

What is small enough is checked as it lies, a bucket at a time. See `gather` for the rest.
"""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import attrs
import numpy as np

from jepsen_like.checker.allowance import Allowance, AllowedLoss
from jepsen_like.checker.gather import (
    CensusTask,
    Grouping,
    Limits,
    MeetingTask,
    SortDumpTask,
    SortTask,
    bucket_numbers,
    chunks_of,
    gathered,
    rows_in,
    sized,
)
from jepsen_like.checker.log_tasks import LogsTask
from jepsen_like.checker.processes import meetings
from jepsen_like.checker.scratch import Scratch
from jepsen_like.checker.tasks import Source, Task
from jepsen_like.checker.verdict import Findings, Model
from jepsen_like.history.files import HistoryReader, Kept

Run = Callable[[Sequence[Task]], list[Any]]


@attrs.frozen
class SortedOut:
    """The rows of a history by group, in the order of the buckets."""

    groups: tuple[tuple[Source, ...], ...]
    together: tuple[bool, ...]
    """Of each group: whether it is small enough to be loaded at once."""
    divisions: tuple[Grouping | None, ...]
    """By bucket; None for one without rows."""


def sort_out(history: HistoryReader, model: Model, run: Run, scratch: Scratch, limits: Limits) -> SortedOut:
    """Bring the rows of each group together. Raises `UnreadableHistory`."""
    sizes = [sized(parts) for parts in history.parts]
    large = {bucket: chunks_of(of, limits.chunk) for bucket, of in enumerate(sizes) if rows_in(of) > 2 * limits.task}
    censuses = iter(run([CensusTask(chunk) for chunks in large.values() for chunk in chunks]))
    divisions: list[Grouping | None] = []
    for bucket, parts in enumerate(history.parts):
        of_bucket = [next(censuses) for _ in large.get(bucket, ())]
        divisions.append(Grouping.of(of_bucket, limits.task) if parts else None)
    tasks, files = list[SortTask](), dict[int, list[Path]]()
    for bucket, chunks in large.items():
        division = divisions[bucket]
        assert division is not None
        files[bucket] = [scratch.path / f"rows-{bucket}-{number}.arrow" for number in range(len(chunks))]
        tasks += [SortTask(chunk, model, division, file) for chunk, file in zip(chunks, files[bucket], strict=True)]
    found = iter(run(tasks))
    for chunks in large.values():
        spans = [next(found).spans for _ in chunks]
        run([MeetingTask((chunks[i], chunks[j]), processes) for i, j, processes in meetings(spans)])
    groups: list[tuple[Source, ...]] = []
    together: list[bool] = []
    for bucket, (parts, division) in enumerate(zip(history.parts, divisions, strict=True)):
        if bucket in large:
            assert division is not None
            groups += [gathered(files[bucket], number) for number in range(division.groups)]
            together += (division.rows <= 2 * limits.task).tolist()
        elif parts:
            groups.append(parts)
            together.append(True)
    return SortedOut(tuple(groups), tuple(together), tuple(divisions))


def check_many_logs(
    history: HistoryReader,
    dump: Sequence[Path] | None,
    kept: Mapping[int, Kept] | None,
    allowances: Sequence[Allowance],
    run: Run,
    scratch: Scratch,
    limits: Limits,
    *,
    expires: bool,
) -> tuple[Findings, tuple[AllowedLoss, ...]]:
    """Returns everything that is wrong with the logs of a history, and what was lost and may have been.

    `dump` are the part files of the final logs (None: they are not known). Raises `UnreadableHistory`.
    """
    sorted_out = sort_out(history, Model.LOG, run, scratch, limits)
    files = None if dump is None else _dump_sorted_out(dump, sorted_out.divisions, run, scratch, limits)
    group_of_kept = _groups_of(list(kept or {}), sorted_out.divisions)
    of_groups: list[dict[int, Kept]] = [{} for _ in sorted_out.groups]
    for obj, group in group_of_kept.items():
        of_groups[group][obj] = (kept or {})[obj]
    tasks = [
        LogsTask(
            sources,
            None if files is None else gathered(files, number),
            None if kept is None else of_groups[number],
            tuple(allowances),
            expires,
            sorted_out.together[number],
        )
        for number, sources in enumerate(sorted_out.groups)
    ]
    findings, losses = Findings(), list[AllowedLoss]()
    for found, lost in run(tasks):
        findings = findings.plus(found)
        losses += lost
    return findings, tuple(sorted(losses, key=lambda loss: loss.object))


def _dump_sorted_out(
    dump: Sequence[Path], divisions: tuple[Grouping | None, ...], run: Run, scratch: Scratch, limits: Limits
) -> list[Path]:
    tasks = [
        SortDumpTask(tuple(one.path for one in chunk), divisions, scratch.path / f"dump-{number}.arrow")
        for number, chunk in enumerate(chunks_of(((path, (rows,)) for path, rows in _dump_sizes(dump)), limits.chunk))
    ]
    run(tasks)
    return [task.file for task in tasks]


def _dump_sizes(dump: Sequence[Path]) -> list[tuple[Path, int]]:
    return [(path, sum(rows)) for path, rows in sized(dump)]


def _groups_of(objects: Sequence[int], divisions: Sequence[Grouping | None]) -> dict[int, int]:
    """The group of each of these objects; those of a bucket without rows have none."""
    buckets = bucket_numbers(np.array(objects, np.int64), len(divisions)).tolist()
    begins = np.cumsum([0, *(one.groups if one is not None else 0 for one in divisions)]).tolist()
    found = {}
    for obj, bucket in zip(objects, buckets, strict=True):
        division = divisions[bucket]
        if division is not None:
            found[obj] = begins[bucket] + int(division.group_of(np.array([obj], np.int64))[0])
    return found
