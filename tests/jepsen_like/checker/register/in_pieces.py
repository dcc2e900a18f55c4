"""Registers checked in pieces against the same registers checked as a whole: any difference is a bug in one of the two.

    python -m tests.jepsen_like.checker.register.in_pieces --count 20000

Histories of a few registers are longer than those that the definition can judge, are damaged in one place or two, and are
checked with limits so small that each is cut into many pieces, which are joined several times.
"""

import argparse
import random
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import attrs
import click

from jepsen_like.checker.checking import check_run
from jepsen_like.checker.register.explain import check_registers
from jepsen_like.checker.register.scan import LINK
from jepsen_like.checker.rows.columns import Columns
from jepsen_like.checker.rows.gather import Limits
from jepsen_like.checker.verdict import Engine, Findings, Model
from jepsen_like.history.files import table_of, write_part
from jepsen_like.history.ops import NEVER, NONE, Action, ErrorCode, Op, Outcome
from tests.jepsen_like.checker.spread import mapping
from tests.jepsen_like.checker.witness import alone_impossible

BATCH = 100


@attrs.frozen
class Tally:
    """Counts of a comparison."""

    histories: int = 0
    violated: int = 0
    """With at least one register that is wrong."""
    undecided: int = 0
    witnesses: int = 0
    differences: tuple[str, ...] = ()

    def plus(self, other: "Tally") -> "Tally":
        return Tally(*(getattr(self, field.name) + getattr(other, field.name) for field in attrs.fields(Tally)))


def history_of(rng: random.Random) -> list[Op]:
    """Operations of up to four registers in the order they ended, by clients that do one thing at a time."""
    style = rng.choice(("mixed", "mixed", "chain", "reads"))
    writes, swaps = {"mixed": (0.35, 0.25), "chain": (0.04, 0.7), "reads": (0.1, 0.1)}[style]
    objects, clients = rng.choice((1, 1, 1, 2, 4)), rng.choice((1, 2, 2, 3, 5))
    unknown, failed = rng.choice((0.0, 0.05, 0.2)), rng.choice((0.0, 0.05))
    refusals = rng.random() < 0.08
    slow = rng.random() < 0.2
    state = dict.fromkeys(range(objects), NONE)
    free_at = dict.fromkeys(range(clients), 0)
    values = iter(range(1, 10_000))
    jumbled = rng.random() < 0.3
    ops: list[Op] = []
    moment, process = 0, clients
    for _ in range(rng.randint(20, rng.choice((60, 150, 400, 1200)))):
        client = min(free_at, key=lambda one: free_at[one] + rng.randrange(3))
        moment = max(moment + rng.randrange(3), free_at[client])
        begin = rng.randint(free_at[client], moment)
        end = moment + rng.randrange(40 if slow and rng.random() < 0.1 else 4)
        obj = rng.randrange(objects)
        draw, outcome = rng.random(), rng.random()
        kind = Outcome.INFO if outcome < unknown else Outcome.FAIL if outcome < unknown + failed else Outcome.OK
        happens = kind is Outcome.OK or (kind is Outcome.INFO and rng.random() < 0.5)
        value = next(values)
        value = (value * 7919) % 10_007 if jumbled else value
        common: dict[str, Any] = {"object": obj, "process": client, "t_inv": begin, "t_ret": end, "type": kind}
        err = ErrorCode.NONE if kind is Outcome.OK else ErrorCode.TIMEOUT
        before = state[obj]
        if draw < writes:
            ops.append(Op(f=Action.WRITE, a=value, err=err, **common))
            state[obj] = value if happens else before
        elif draw < writes + swaps:
            if kind is Outcome.FAIL and refusals:
                ops.append(Op(f=Action.CAS, a=rng.randint(1, 50), b=value, **common))
            elif rng.random() < 0.1 and kind is Outcome.OK:
                ops.append(Op(f=Action.CAS, a=77_777, b=value, seen=before, **common))
            else:
                known = before if kind is Outcome.OK else NONE
                ops.append(Op(f=Action.CAS, a=before, b=value, seen=known, err=err, **common))
                state[obj] = value if happens else before
        else:
            ops.append(Op(f=Action.READ, a=before if kind is Outcome.OK else NONE, err=err, **common))
        free_at[client] = end + rng.randrange(2)
        if kind is Outcome.INFO:
            ops[-1] = attrs.evolve(ops[-1], t_ret=NEVER)
            # Another one goes on in its place, and it is recorded when it is given up.
            del free_at[client]
            free_at[process], process = end, process + 1
    recorded = {id(op): (op.t_ret if op.t_ret < NEVER else op.t_inv + rng.randrange(30)) for op in ops}
    ops.sort(key=lambda op: recorded[id(op)])
    for _ in range(rng.choice((0, 0, 1, 1, 2, 3, 12, 40))):
        at = rng.randrange(len(ops))
        ops[at] = _damage_op(rng, ops, ops[at])
    return ops


def _damage_op(rng: random.Random, ops: Sequence[Op], op: Op) -> Op:
    others = [one for one in ops if one.object == op.object]
    near = sorted(others, key=lambda one: abs(one.t_inv - op.t_inv))[: rng.choice((4, 12, 1000))]
    puts = [one.b if one.f is Action.CAS else one.a for one in near if one.f is not Action.READ]
    value = rng.choice([*puts, NONE, 88_888] if rng.random() < 0.3 else [*puts, op.a])
    match op.f:
        case Action.READ:
            return attrs.evolve(op, a=value if op.type is Outcome.OK else op.a)
        case Action.WRITE:
            return (
                attrs.evolve(op, a=value)
                if rng.random() < 0.3 and value != NONE
                else attrs.evolve(op, type=Outcome.FAIL)
            )
        case _:
            if op.type is Outcome.OK and op.seen == op.a:
                return attrs.evolve(op, a=value, seen=value)
            return attrs.evolve(op, a=value)


def compare_histories(count: int, seed: int) -> Tally:
    """Compare so many histories."""
    rng = random.Random(seed)
    total = Tally()
    with tempfile.TemporaryDirectory(prefix="in-pieces-") as directory:
        for number in range(count):
            total = total.plus(_compare_history(Path(directory) / str(number), rng))
    return total


def _compare_history(run: Path, rng: random.Random) -> Tally:
    ops = history_of(rng)
    table = table_of(ops)
    part_rows = rng.choice((3, 5, 9)) if len(ops) < 300 else 40
    bucket = run / "history.parquet" / "bucket=0"
    bucket.mkdir(parents=True)
    for number, begin in enumerate(range(0, len(ops), part_rows)):
        write_part(table.slice(begin, part_rows), bucket / f"part-0-{number:06d}.parquet")
    chunk = rng.choice((9, 20, 40, 80, 300))
    limits = Limits(
        task=chunk * rng.choice((1, 2, 3)),
        chunk=chunk,
        piece=chunk,
        whole=5000,
        reduced_share=rng.choice((1000, 1000, 3)),
    )
    whole = check_registers(Columns.of_ops(ops))
    parts = check_run(run, Model.REGISTER, Engine.LOCAL, limits=limits).findings
    differences = []
    if _compare(whole) != _compare(parts):
        differences.append(f"whole {_compare(whole)}\nparts {_compare(parts)}\n{limits} {run}")
    differences += [
        f"no witness: {one}"
        for one in parts.violations
        if any(op.process == LINK for op in one.ops) or not alone_impossible(one, Model.REGISTER)
    ]
    return Tally(
        histories=1,
        violated=bool(whole.violated),
        undecided=len(parts.undecided),
        witnesses=len(parts.violations),
        differences=tuple(differences),
    )


def _compare(findings: Findings) -> Findings:
    return attrs.evolve(
        findings,
        violations=(),
        counts=dict(sorted(findings.counts.items())),
        undecided=tuple(sorted(findings.undecided, key=lambda one: one.object)),
    )


def all_compared(count: int, seed: int, processes: int) -> Tally:
    """So many histories, over several processes."""
    work = [(min(BATCH, count - at), seed * 1_000_003 + at) for at in range(0, count, BATCH)]
    total = Tally()
    with mapping(processes) as spread:
        for tally in spread(compare_histories, *zip(*work, strict=True)):
            total = total.plus(tally)
    return total


def main() -> int:
    parser = argparse.ArgumentParser(
        description="Compare registers checked in pieces with registers checked as a whole."
    )
    parser.add_argument("--count", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--processes", type=int, default=2)
    arguments = parser.parse_args()
    began = time.monotonic()
    tally = all_compared(arguments.count, arguments.seed, arguments.processes)
    click.echo(
        f"{tally.histories} histories, {tally.violated} wrong, {tally.undecided} registers undecided, "
        f"{tally.witnesses} witnesses, {len(tally.differences)} differences, {time.monotonic() - began:.1f} s"
    )
    for difference in tally.differences[:10]:
        click.echo(f"  {difference}")
    return 1 if tally.differences or tally.undecided else 0


if __name__ == "__main__":
    sys.exit(main())
