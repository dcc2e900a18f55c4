"""Sorts the rows of larger buckets out by groups of whole objects, which are checked one by one (see `gather`)."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import attrs
import numpy as np

from jepsen_like.checker.engine.job import Job
from jepsen_like.checker.rows.gather import (
    CensusTask,
    Chunk,
    Grouping,
    MeetingTask,
    SortDumpTask,
    SortTask,
    batches_of,
    bucket_numbers,
    chunks_of,
    rows_in,
    with_sizes,
)
from jepsen_like.checker.rows.processes import ProcessSpans, meetings
from jepsen_like.checker.rows.tasks import Gathered, Source
from jepsen_like.checker.verdict import Model
from jepsen_like.history.files import HistoryReader, Kept


@attrs.frozen
class Long:
    """An object that is more than a task can hold, with its rows and no others in the order they were recorded."""

    object: int
    rows: int
    sources: tuple[Chunk | Gathered, ...]

    @property
    def whole(self) -> tuple[Source, ...]:
        """Returns the same rows as sources of a task that holds all of them."""
        parts = [one for some in self.sources if not isinstance(some, Gathered) for one in some]
        return tuple(dict.fromkeys(one.path for one in parts)) or tuple(
            one for one in self.sources if isinstance(one, Gathered)
        )


@attrs.frozen
class SortedOut:
    """The rows of a history by group, in the order of the buckets."""

    groups: tuple[tuple[Source, ...] | Long, ...]
    together: tuple[bool, ...]
    """Of each group: whether it is small enough to be loaded at once."""
    divisions: tuple[Grouping | None, ...]
    """By bucket; None for one without rows."""


def sort_out(history: HistoryReader, model: Model, job: Job) -> SortedOut:
    """Bring the rows of each group together. Raises `UnreadableHistory`."""
    limits = job.limits
    sizes = [with_sizes(parts) for parts in history.parts]
    large = {
        bucket: chunks_of(of, limits.chunk)
        for bucket, of in enumerate(sizes)
        if rows_in(of) > min(2 * limits.task, limits.object)
    }
    censuses = iter(job.run([CensusTask(chunk) for chunks in large.values() for chunk in chunks]))
    divisions: list[Grouping | None] = []
    for bucket, parts in enumerate(history.parts):
        of_bucket = [next(censuses) for _ in large.get(bucket, ())]
        divisions.append(Grouping.of(of_bucket, limits.task) if parts else None)
    # A log that has a bucket to itself is read as it lies.
    alone = {
        bucket: obj
        for bucket in large
        if model is Model.LOG
        and (division := divisions[bucket]) is not None
        and division.groups == 1
        and (obj := division.alone_in(0)) is not None
    }
    tasks, files = list[SortTask](), dict[int, list[Path]]()
    sorted_out = {bucket: chunks for bucket, chunks in large.items() if bucket not in alone}
    for bucket, chunks in sorted_out.items():
        division = divisions[bucket]
        assert division is not None
        files[bucket] = [job.scratch.path / f"rows-{bucket}-{number}.arrow" for number in range(len(chunks))]
        tasks += [SortTask(chunk, model, division, file) for chunk, file in zip(chunks, files[bucket], strict=True)]
    found = iter(job.run(tasks))
    for chunks in sorted_out.values():
        require_apart(chunks, [next(found) for _ in chunks], job)
    groups: list[tuple[Source, ...] | Long] = []
    together: list[bool] = []
    for bucket, (parts, division) in enumerate(zip(history.parts, divisions, strict=True)):
        if bucket in alone:
            groups.append(Long(alone[bucket], rows_in(sizes[bucket]), tuple(large[bucket])))
            together.append(False)
        elif bucket in large:
            assert division is not None
            for number, rows in enumerate(division.rows.tolist()):
                of_group = batches_of(files[bucket], number)
                obj = division.alone_in(number) if model is Model.LOG and rows > 2 * limits.task else None
                groups.append(of_group if obj is None else Long(obj, rows, of_group))
                together.append(rows <= 2 * limits.task)
        elif parts:
            groups.append(parts)
            together.append(True)
    return SortedOut(tuple(groups), tuple(together), tuple(divisions))


def require_apart(chunks: Sequence[Chunk], spans: Sequence[ProcessSpans], job: Job) -> None:
    """Raises `UnreadableHistory` if a process is at work in two chunks of a bucket at once."""
    job.run([MeetingTask((chunks[i], chunks[j]), processes) for i, j, processes in meetings(spans)])


def sort_out_dump(dump: Sequence[Path], divisions: tuple[Grouping | None, ...], job: Job) -> list[Path]:
    """Bring the final records of each group together; returns the files, of which each has a record batch for each group."""
    tasks = [
        SortDumpTask(tuple(one.path for one in chunk), divisions, job.scratch.path / f"dump-{number}.arrow")
        for number, chunk in enumerate(
            chunks_of(((path, (rows,)) for path, rows in dump_sizes(dump)), job.limits.chunk)
        )
    ]
    job.run(tasks)
    return [task.file for task in tasks]


def dump_sizes(dump: Sequence[Path]) -> list[tuple[Path, int]]:
    """Returns the part files of a dump with their rows."""
    return [(path, sum(rows)) for path, rows in with_sizes(dump)]


def kept_of_groups(kept: Mapping[int, Kept] | None, sorted_out: SortedOut) -> list[dict[int, Kept] | None]:
    """Returns what is known of the logs of each group; those of a bucket without rows are left out."""
    if kept is None:
        return [None] * len(sorted_out.groups)
    divisions = sorted_out.divisions
    buckets = bucket_numbers(np.array(list(kept), np.int64), len(divisions)).tolist()
    begins = np.cumsum([0, *(one.groups if one is not None else 0 for one in divisions)]).tolist()
    found: list[dict[int, Kept] | None] = [{} for _ in sorted_out.groups]
    for (obj, of_object), bucket in zip(kept.items(), buckets, strict=True):
        division = divisions[bucket]
        if division is not None:
            group = found[begins[bucket] + int(division.group_of(np.array([obj], np.int64))[0])]
            assert group is not None
            group[obj] = of_object
    return found
