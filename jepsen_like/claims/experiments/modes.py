"""The ways to replicate next to each other: speed without a fault, time away and records lost under two; from the plans of the matrix."""

from collections.abc import Mapping, Sequence
from typing import Final

import attrs

from jepsen_like.claims.experiment import ClaimDesk, DidNotRun, DoneRun, Experiment
from jepsen_like.claims.judgement import Part, at_least, at_most, exactly, expect
from jepsen_like.run.matrix_plan import CALM, COLUMNS, WAYS, ModeRow, why_not

FAULTS: Final = ("kill", "power")
NAMES_SHOWN: Final = (
    "rocketmq, async-slave",
    "rocketmq, sync-slave",
    "rocketmq, DLedger durable",
    "rocketmq, DLedger page cache",
    "raft, before-ack",
    "raft, page cache",
    "kafka, acks=1",
    "kafka, acks=all min.insync=2",
)
WAYS_SHOWN: Final = tuple(next(way for way in WAYS if way.name == name) for name in NAMES_SHOWN)
"""By system, so that one whose clusters do not come up leaves the figures of the others."""
SPEED_IS_EQUAL: Final = 1.05
"""Rates that differ by less are alike on a busy machine."""


@attrs.frozen(kw_only=True)
class ModeFigures:
    """The figures of a way to replicate: acknowledged records per second, seconds away, and records lost, over all faults."""

    system: str
    rate_s: float
    away_s: float
    lost: int

    def is_best_of(self, others: Sequence["ModeFigures"]) -> bool:
        """Returns True if it is the fastest or as fast, is away for the shortest time, and loses least, of all of these."""
        return (
            all(self.rate_s * SPEED_IS_EQUAL >= other.rate_s for other in others)
            and self.away_s <= min(other.away_s for other in others)
            and self.lost <= min(other.lost for other in others)
        )


def count_best(found: Mapping[str, ModeFigures], system: str) -> int:
    """Returns how many ways of a system are the best of all its ways in everything."""
    own = [each for each in found.values() if each.system == system]
    return sum(each.is_best_of(own) for each in own)


def run_way(desk: ClaimDesk, way: ModeRow) -> dict[str, DoneRun]:
    """The runs of a way: without a fault, and under each fault. Raises `DidNotRun`."""
    runs = {}
    for column in COLUMNS:
        if column.name in (CALM, *FAULTS):
            plan = way.plan(column, desk.seed, quick=True)
            if (reason := why_not(plan)) is not None:
                raise DidNotRun(f"{way.name}, {column.name}: {reason}")
            runs[column.name] = desk.run(f"{way.name}, {'no fault' if column.name == CALM else column.name}", plan)
    return runs


def figures_of(way: ModeRow, runs: Mapping[str, DoneRun]) -> ModeFigures:
    """Of the runs of one way."""
    broken = [runs[name] for name in FAULTS]
    return ModeFigures(
        system=way.system,
        rate_s=runs[CALM].rate_s,
        away_s=sum(float(run.results.availability["down_s"] or 0.0) for run in broken),
        lost=sum(run.lost for run in broken),
    )


def compare_modes(desk: ClaimDesk) -> None:
    """Every way under the same load and the same faults; no row may be the best in everything."""
    for system in dict.fromkeys(way.system for way in WAYS_SHOWN):
        found: dict[str, ModeFigures] = {}
        shown: list[DoneRun] = []
        for way in (each for each in WAYS_SHOWN if each.system == system):
            runs = run_way(desk, way)
            found[way.name] = figures_of(way, runs)
            shown += runs.values()
        desk.measure(f"{system}_ways_best_in_everything", count_best(found, system), "", *shown)
        if system == "rocketmq":
            _compare_pairs_and_groups(desk, found, shown)


def _compare_pairs_and_groups(desk: ClaimDesk, found: Mapping[str, ModeFigures], shown: Sequence[DoneRun]) -> None:
    fixed, synced = found["rocketmq, async-slave"], found["rocketmq, sync-slave"]
    group, durable = found["rocketmq, DLedger page cache"], found["rocketmq, DLedger durable"]
    desk.measure("seconds_away_of_a_pair_to_a_group", round(fixed.away_s - group.away_s, 2), "s", *shown)
    desk.measure("speed_of_a_pair_to_a_durable_group", round(fixed.rate_s / durable.rate_s, 2), "x", *shown)
    desk.measure("speed_of_sync_to_async", round(synced.rate_s / fixed.rate_s, 2), "x", *shown)


EXPERIMENTS: Final = (
    Experiment(
        name="modes",
        story="Eight ways to replicate get the same load: without a fault, with the leader killed behind a cut, and with no power for all.",
        seconds=330,
        expects=(
            *(expect("C92", f"{system}_ways_best_in_everything", exactly(0)) for system in ("rocketmq", "kafka")),
            expect("C83", "seconds_away_of_a_pair_to_a_group", at_least(0.0)),
            expect("C83", "speed_of_a_pair_to_a_durable_group", at_least(1.0)),
            expect("C43", "speed_of_sync_to_async", at_most(1.05)),
            expect("C70", "speed_of_sync_to_async", part=Part.PRICE),
        ),
        conduct=compare_modes,
    ),
)
