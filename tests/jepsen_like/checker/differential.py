"""The checker against the definition, on random small histories. Any difference is a bug in one of the two.

    python -m tests.jepsen_like.checker.differential --count 1000000

Registers go through the kernel (and the search, where values repeat) many at a time, as they do in a real check; logs
are cut into up to three time segments, so that the two passes have something to join. Some logs are checked in tiny parts as
long logs are, too, where the same has to be found. `--maps` compares every model that operation
maps can describe, read from files of all forms (`element_differential`), `--count` of each. Every history is a function of the seed.
"""

import argparse
import itertools
import random
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import attrs
import click
import numpy as np

from jepsen_like.checker.log.explain import check_logs
from jepsen_like.checker.register.explain import check_registers
from jepsen_like.checker.rows.columns import Columns
from jepsen_like.checker.rows.final_logs import FinalLog
from jepsen_like.checker.verdict import Model, Violation
from jepsen_like.history.ops import Op
from tests.jepsen_like.checker import oracle
from tests.jepsen_like.checker.elements import element_differential
from tests.jepsen_like.checker.log.long_logs import differences
from tests.jepsen_like.checker.small_histories import (
    FINAL,
    as_ops,
    final_logs_of,
    log_history,
    overlap,
    register_history,
)
from tests.jepsen_like.checker.spread import mapping
from tests.jepsen_like.checker.tally import Tally
from tests.jepsen_like.checker.witness import alone_impossible

History = list[tuple[Any, ...]]
BATCH = 5000
SEEDS_APART = 1_000_003
"""The seeds of the batches of one seed, from those of the next."""
TOGETHER = (250, 25)
"""Registers checked at once, in turn: of many, all that is explained was found by the scan; of few, what was searched is explained, too."""
SHARE_OF_LOGS = 0.4
SHARE_OF_LONG_LOGS = 0.02
"""Logs that are checked in parts as well, as long ones are, in addition to the others: each takes many small files."""
LONG_BATCH = 250


@attrs.frozen
class Opinion:
    """The checker's conclusion about one history (None: undecided)."""

    valid: bool | None
    violations: tuple[Violation, ...] = ()


def opinions_on_registers(histories: Sequence[History]) -> Iterator[Opinion]:
    """A register each, `TOGETHER` at a time: few enough that many are explained, too."""
    at = 0
    for together in itertools.cycle(TOGETHER):
        if at >= len(histories):
            return
        yield from _opinions_together(histories[at : at + together])
        at += together


def _opinions_together(histories: Sequence[History]) -> Iterator[Opinion]:
    rows = Columns.of_ops(op for number, history in enumerate(histories) for op in as_ops(history, number))
    findings = check_registers(rows)
    undecided = {one.object for one in findings.undecided}
    explained: dict[int, list[Violation]] = {}
    for violation in findings.violations:
        explained.setdefault(violation.object, []).append(violation)
    for number in range(len(histories)):
        valid = None if number in undecided else number not in findings.violated
        yield Opinion(valid, tuple(explained.get(number, ())))


def opinion_on_log(history: History, rng: random.Random) -> Opinion:
    """One log, in up to three time segments."""
    ops = sorted(as_ops([one for one in history if one[2] < FINAL]), key=lambda op: op.t_ret)
    dumped = final_logs_of(history)
    final = None
    if dumped:
        columns = {node: np.array(records, np.int64).reshape(-1, 2).T for node, records in dumped.items()}
        final = {0: [FinalLog(node, 0, values, epochs) for node, (values, epochs) in columns.items()]}
    findings = check_logs([Columns.of_ops(part) for part in _segments(ops, rng)], final)
    return Opinion(None if findings.undecided else not findings.violated, findings.violations)


def _segments(ops: Sequence[Op], rng: random.Random) -> list[Sequence[Op]]:
    cuts = sorted(rng.randint(0, len(ops)) for _ in range(rng.choice((0, 0, 1, 2))))
    # The records of one batch are recorded together.
    cuts = [cut for cut in cuts if not 0 < cut < len(ops) or ops[cut - 1].process != ops[cut].process]
    return [ops[a:b] for a, b in zip([0, *cuts], [*cuts, len(ops)], strict=True) if a < b]


def compare_histories(model: Model, count: int, seed: int) -> Tally:
    """Compare `count` histories of one model."""
    rng = random.Random(seed)
    total = Tally()
    opinions: Iterable[Opinion]
    if model is Model.REGISTER:
        histories = [register_history(rng) for _ in range(count)]
        opinions = opinions_on_registers(histories)
        truths = (oracle.linearizable(history, oracle.register, None) for history in histories)
    else:
        histories = [log_history(rng) for _ in range(count)]
        opinions = (opinion_on_log(history, rng) for history in histories)
        truths = (oracle.epochs_rise(history) and oracle.linearizable(history, oracle.log, ()) for history in histories)
    for history, opinion, truth in zip(histories, opinions, truths, strict=True):
        total = total.plus(_tally(model, history, opinion, truth))
    return total


def _tally(model: Model, history: History, opinion: Opinion, truth: bool) -> Tally:
    differences = [
        f"no witness: {violation}: {history}"
        for violation in opinion.violations
        if not alone_impossible(violation, model)
    ]
    if opinion.valid is not None and opinion.valid != truth:
        differences.append(f"checker returns {opinion.valid}, definition requires {truth}: {history}")
    written = [one[-1] for one in history if one[0] in ("write", "swap")]
    written += [value for one in history if one[0] == "append" for value in one[4]]
    return Tally(
        histories=1,
        invalid=not truth,
        overlapping=overlap(history) >= 3,
        unknown=any(one[1] is False for one in history),
        repeated=len(set(written)) < len(written),
        undecided=opinion.valid is None,
        witnesses=len(opinion.violations),
        differences=tuple(differences),
    )


def all_compared(count: int, seed: int, processes: int) -> dict[Model, Tally]:
    """`count` histories, a share of them logs, over several processes."""
    logs = int(count * SHARE_OF_LOGS)
    return _in_processes(compare_histories, {Model.LOG: logs, Model.REGISTER: count - logs}, seed, processes)


def maps_compared(models: Iterable[Model], count: int, seed: int, processes: int) -> dict[Model, Tally]:
    """`count` histories of each model, read as operation maps."""
    return _in_processes(element_differential.compare_histories, dict.fromkeys(models, count), seed, processes)


def _in_processes(
    compare: Callable[[Model, int, int], Tally], counts: dict[Model, int], seed: int, processes: int
) -> dict[Model, Tally]:
    work = [
        (model, min(BATCH, total - at), seed * SEEDS_APART + at)
        for model, total in counts.items()
        for at in range(0, total, BATCH)
    ]
    tallies = {model: Tally() for model in counts}
    with mapping(processes) as spread:
        for (model, _, _), tally in zip(work, spread(compare, *zip(*work, strict=True)), strict=True):
            tallies[model] = tallies[model].plus(tally)
    return tallies


def long_logs_compared(count: int, seed: int, processes: int) -> list[str]:
    """Returns the differences between the checks of long and of short logs, in so many histories, over several processes."""
    work = [(seed * SEEDS_APART + at, min(LONG_BATCH, count - at)) for at in range(0, count, LONG_BATCH)]
    with mapping(processes) as spread:
        return [one for some in spread(differences, *zip(*work, strict=True)) for one in some] if work else []


def main() -> int:
    parser = argparse.ArgumentParser(description="Compare the checker with the definition of linearizability.")
    parser.add_argument("--count", type=int, default=100_000)
    parser.add_argument("--maps", action="store_true", help="operation maps, and the models that only these have")
    parser.add_argument("--model", choices=[model.value for model in element_differential.TRUTHS], help="with --maps")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--processes", type=int, default=2)
    arguments = parser.parse_args()
    began = time.monotonic()
    wrong = 0
    if arguments.maps:
        chosen = [Model(arguments.model)] if arguments.model else list(element_differential.TRUTHS)
        tallies = maps_compared(chosen, arguments.count, arguments.seed, arguments.processes)
    else:
        tallies = all_compared(arguments.count, arguments.seed, arguments.processes)
    for model, tally in tallies.items():
        shares = ", ".join(
            f"{100 * getattr(tally, name) / max(1, tally.histories):.0f} % {name}"
            for name in ("invalid", "overlapping", "unknown", "repeated")
        )
        click.echo(
            f"{model.value}: {tally.histories} histories ({shares}), {tally.undecided} undecided, "
            f"{tally.witnesses} witnesses, {len(tally.differences)} differences"
        )
        wrong += len(tally.differences) + tally.undecided
        for difference in tally.differences[:10]:
            click.echo(f"  {difference}")
    of_long = int(arguments.count * SHARE_OF_LONG_LOGS)
    differ = long_logs_compared(of_long, arguments.seed, arguments.processes)
    click.echo(f"logs in parts: {of_long} histories, {len(differ)} differences")
    for difference in differ[:10]:
        click.echo(f"  {difference}")
    wrong += len(differ)
    click.echo(f"{time.monotonic() - began:.1f} s")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
