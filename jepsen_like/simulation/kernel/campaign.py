"""Many seeds on all cores, and the proof that they were not idle.

A simulator that finds nothing may do nothing: a wrong rate, a fault that no longer strikes, clients always refused. So
what must happen is counted, and each block of seeds must reach a floor for each; what is rare, in all together.
"""

import contextlib
import functools
import gc
import multiprocessing
import signal
from collections import Counter
from collections.abc import Generator, Mapping, Sequence
from typing import Any

import attrs

from jepsen_like.simulation.kernel.findings import SeedResult
from jepsen_like.simulation.kernel.model import SystemModel

BLOCK_SEEDS = 1000
JUDGED_SEEDS_MIN = 200
"""Fewer seeds than this prove nothing about rates, so no floor is held against them."""
FLOOR_MIN = 5
"""Nor is a floor below this: what happens about twice as often is held against more seeds, lest chance miss it."""
CHUNK_SEEDS = 8


@attrs.frozen
class Shortfall:
    """Something that happened too seldom."""

    name: str
    count: int
    floor: int

    def __str__(self) -> str:
        return f"{self.name} {self.count:,} is below the floor of {self.floor:,}"


@attrs.define
class Block:
    """Seeds one after the other, and what happened in all of them together."""

    first_seed: int
    floors: Mapping[str, int]
    """For `BLOCK_SEEDS` seeds."""
    seeds: int = 0
    end_seed: int = 0
    """One beyond the last seed."""
    counts: Counter[str] = attrs.field(factory=Counter)

    def add(self, result: SeedResult) -> None:
        """One more seed."""
        self.seeds += 1
        self.end_seed = result.seed + 1
        self.counts.update(result.counts)
        self.counts["steps"] += result.steps

    def floor(self, name: str) -> int:
        """The floor for as many seeds as this block has; 0 if they are too few to judge."""
        floor = self.floors.get(name, 0) * self.seeds // BLOCK_SEEDS if self.seeds >= JUDGED_SEEDS_MIN else 0
        return floor if floor >= FLOOR_MIN else 0

    def shortfalls(self) -> list[Shortfall]:
        """Every floor that was missed."""
        counted = ((name, self.counts[name], self.floor(name)) for name in self.floors)
        return [Shortfall(name, count, floor) for name, count, floor in counted if count < floor]


def _play_chunk(model: SystemModel[Any], seeds: Sequence[int]) -> list[SeedResult]:
    return [model.play(seed) for seed in seeds]


def _begin_worker() -> None:
    """Leave interrupts to the parent, and collect garbage seldom: a seed leaves much, all at its end."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    gc.freeze()
    gc.set_threshold(100_000)


def play_all(model: SystemModel[Any], seeds: Sequence[int], jobs: int) -> Generator[SeedResult, None, None]:
    """The results of all seeds, in order; closing the iterator ends the workers."""
    chunks = [seeds[at : at + CHUNK_SEEDS] for at in range(0, len(seeds), CHUNK_SEEDS)]
    if jobs == 1 or len(chunks) == 1:
        for seed in seeds:
            yield model.play(seed)
        return
    with contextlib.ExitStack() as stack:
        spawned = multiprocessing.get_context("spawn")
        pool = stack.enter_context(spawned.Pool(min(jobs, len(chunks)), _begin_worker))
        for results in pool.imap(functools.partial(_play_chunk, model), chunks):
            yield from results
