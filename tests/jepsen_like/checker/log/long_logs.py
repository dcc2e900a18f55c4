"""The check of long logs against the check of short ones, on random small histories cut into tiny parts.

Any difference is a bug in one of the two: the same is counted of each check, and every explanation is about operations that
no log can have seen.
"""

import random
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import attrs

from jepsen_like.checker.engine.job import Job
from jepsen_like.checker.engine.local import LocalEngine
from jepsen_like.checker.engine.scratch import Scratch
from jepsen_like.checker.log.explain import check_logs
from jepsen_like.checker.log.long.check import check_long_log
from jepsen_like.checker.log.long.final_parts import DumpCensusTask, FinalParts
from jepsen_like.checker.rows.columns import Columns
from jepsen_like.checker.rows.final_logs import final_logs_of as final_logs_of_dump
from jepsen_like.checker.rows.gather import Limits
from jepsen_like.checker.verdict import Check, Findings, Model
from jepsen_like.history.files import DumpWriter, dump_parts, read_dump, read_kept
from jepsen_like.history.ops import Op
from tests.jepsen_like.checker.small_histories import FINAL, as_ops, final_logs_of, log_history
from tests.jepsen_like.checker.witness import alone_impossible

History = list[tuple[Any, ...]]


def comparable(findings: Findings) -> Findings:
    """Drops what depends on the cuts: the number of contradictions of a length, and the kind of operation behind them."""
    times = (Check.STALE, Check.ORDER)
    counts = {check: count for check, count in findings.counts.items() if check not in times}
    if any(check in findings.counts for check in times):
        counts[Check.ORDER] = 1
    return attrs.evolve(findings, violations=(), undecided=(), counts=counts)


def segments(ops: Sequence[Op], rng: random.Random) -> list[Sequence[Op]]:
    """Operations in the order they ended, cut at some places, but never inside of a batch."""
    cuts = sorted(rng.randint(0, len(ops)) for _ in range(rng.choice((0, 1, 2, 3))))
    cuts = [cut for cut in cuts if not 0 < cut < len(ops) or ops[cut - 1].process != ops[cut].process]
    return [ops[a:b] for a, b in zip([0, *cuts], [*cuts, len(ops)], strict=True) if a < b] or [ops]


def both(history: History, rng: random.Random, directory: Path) -> tuple[Findings, Findings]:
    """Returns the findings of both checks; `expires` is random where there are final logs."""
    ops = sorted(as_ops([one for one in history if one[2] < FINAL]), key=lambda op: op.t_ret)
    pieces = [Columns.of_ops(part) for part in segments(ops, rng)]
    dumped, engine, expires = final_logs_of(history), LocalEngine(), rng.random() < 0.3
    final = parts = None
    limits = Limits(task=rng.choice((1, 2, 3, 5, 8)))
    if dumped:
        shortest = min(len(records) for records in dumped.values())
        with DumpWriter(directory / "dump", part_rows_max=rng.choice((1, 3, 100))) as dump:
            for node, records in dumped.items():
                first = rng.randint(0, min(2, shortest)) if expires else 0
                if records:
                    dump.begin(node, first)
                for offset, (value, epoch) in list(enumerate(records))[first:]:
                    dump.record(node, offset, epoch, [value])
        kept = read_kept(directory / "dump")
        logs = final_logs_of_dump(read_dump(directory / "dump"), kept)
        final = {0: logs[0]} if 0 in logs else None
        mine = (kept or {}).get(0)
        census = DumpCensusTask(0, dump_parts(directory / "dump"), dict(mine.starts) if mine else {}, limits.task)
        parts = FinalParts.of(0, census.execute(), mine, expires=expires)
    short = check_logs(pieces, final, expires=expires)
    with Scratch(directory) as scratch:
        rows = sum(len(piece) for piece in pieces)
        long, _ = check_long_log(0, pieces, rows, parts, Job(engine, scratch, limits))
    return short, long


def differences(seed: int, count: int) -> list[str]:
    """Returns the differences in so many histories; each is a function of the seed."""
    rng = random.Random(seed)
    found = []
    for number in range(count):
        history = log_history(rng)
        if not any(one[2] < FINAL for one in history):
            continue
        with tempfile.TemporaryDirectory() as directory:
            try:
                short, long = both(history, rng, Path(directory))
            except Exception as error:
                error.add_note(f"history {number} of seed {seed}: {history}")
                raise
        if long.undecided and not short.undecided:
            continue
        if comparable(short) != comparable(long):
            found.append(f"{number}: {comparable(short)}\n!= {comparable(long)}\n{history}")
        if all(alone_impossible(one, Model.LOG) for one in short.violations):
            found += [
                f"{number}: no witness: {one}: {history}"
                for one in long.violations
                if not alone_impossible(one, Model.LOG)
            ]
    return found
