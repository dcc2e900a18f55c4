"""Logs of a history of any size, in bounded memory.

Short logs are sorted out by groups, which are checked one by one; a long one is checked in parts.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

import attrs

from jepsen_like.checker.allowance import Allowance, AllowedLoss
from jepsen_like.checker.engine.scratch import Scratch
from jepsen_like.checker.groups import Long, Run, dump_sizes, dump_sorted_out, kept_of_groups, require_apart, sort_out
from jepsen_like.checker.log.explain import without_final_log
from jepsen_like.checker.log.final_parts import DumpCensusTask, FinalParts
from jepsen_like.checker.log.long import check_long_log
from jepsen_like.checker.log.tasks import LogsTask
from jepsen_like.checker.rows.final_logs import DUMP, LOG_OBJECT
from jepsen_like.checker.rows.gather import Limits, chunks_of, gathered, rows_in, sized
from jepsen_like.checker.rows.tasks import Gathered
from jepsen_like.checker.verdict import Findings, Model, Undecided
from jepsen_like.history.files import HistoryReader, Kept, UnreadableHistory

WHOLE_ROWS_MAX: Final = 1 << 25
"""A log with batches of unknown outcome is checked by one task, if it has no more rows than this."""


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
    findings, losses = Findings(), list[AllowedLoss]()
    short = {number: one for number, one in enumerate(sorted_out.groups) if not isinstance(one, Long)}
    for number, long in enumerate(sorted_out.groups):
        if not isinstance(long, Long):
            continue
        final = None if dump is None else _long_final(long.object, dump, kept, run, limits, expires=expires)
        found, chunks = check_long_log(long.object, long.sources, long.rows, final, run, scratch, limits)
        if not isinstance(long.sources[0], Gathered):
            require_apart(
                [one for one in long.sources if not isinstance(one, Gathered)], [one.spans for one in chunks], run
            )
        if any(one.unknown_together for one in chunks) and long.rows <= WHOLE_ROWS_MAX:
            short[number] = long.whole
        else:
            found = without_final_log(found) if final is None and dump is not None else found
            findings = findings.plus(_excused(found, long, final, allowances))
    if not short:
        return findings, ()
    files = None if dump is None else dump_sorted_out(dump, sorted_out.divisions, run, scratch, limits)
    of_groups = kept_of_groups(kept, sorted_out)
    tasks = [
        LogsTask(
            sources,
            None if files is None else gathered(files, number),
            of_groups[number],
            tuple(allowances),
            expires,
            sorted_out.together[number],
        )
        for number, sources in short.items()
    ]
    for found, lost in run(tasks):
        findings = findings.plus(found)
        losses += lost
    return findings, tuple(sorted(losses, key=lambda loss: loss.object))


def _excused(found: Findings, long: Long, final: FinalParts | None, allowances: Sequence[Allowance]) -> Findings:
    """The same, if no fault can have cost what is wrong; else undecided: what a fault explains is found in memory only."""
    if not found.violated or final is None or not any(one.reaches(long.object) for one in allowances):
        return found
    reason = (
        f"something is wrong with it that faults of the run may explain ({found.violations[0].sentence}), and a log "
        f"of {long.rows:,} rows is too long to take out what they do"
    )
    undecided = (*found.undecided, Undecided(long.object, reason))
    return attrs.evolve(found, violated=frozenset(), counts={}, violations=(), undecided=undecided)


def _long_final(
    obj: int, dump: Sequence[Path], kept: Mapping[int, Kept] | None, run: Run, limits: Limits, *, expires: bool
) -> FinalParts | None:
    """The final logs of a long log; None if there are none of it. Raises `UnreadableHistory`."""
    mine = (kept or {}).get(obj)
    chunks = chunks_of(((path, (rows,)) for path, rows in dump_sizes(dump)), limits.chunk)
    starts = dict(mine.starts) if mine is not None else {}
    paths = [tuple(one.path for one in chunk) for chunk in chunks]
    parts = [one for some in run([DumpCensusTask(obj, of, starts, limits.task) for of in paths]) for one in some]
    if kept is not None and mine is None and parts:
        raise UnreadableHistory(Path(DUMP), f"has records of log {obj}, and does not say where it begins")
    if mine is None and not parts and not (obj == LOG_OBJECT and not rows_in(sized(dump))):
        return None
    return FinalParts.of(obj, parts, mine, expires=expires)
