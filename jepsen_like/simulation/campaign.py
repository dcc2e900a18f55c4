"""Many seeds on all cores, and the proof that they were not idle.

A simulator that finds nothing may simply be doing nothing: a wrong rate, a fault that no longer strikes, clients that are
always refused. So each thing that must have happened is counted, and every block of seeds must reach a floor for each; what is
rare must reach one in all of them together.
"""

import contextlib
import multiprocessing
import signal
from collections import Counter
from collections.abc import Generator, Mapping

import attrs

from jepsen_like.simulation.findings import SeedResult
from jepsen_like.simulation.world import play

BLOCK_SEEDS = 1000
JUDGED_SEEDS_MIN = 200
"""Fewer seeds than this prove nothing about rates, so no floor is held against them."""
FLOOR_MIN = 5
"""Nor is a floor below this: what happens about twice as often would miss it by chance alone. It is held against more seeds."""
CHUNK_SEEDS = 8

FLOORS: Mapping[str, int] = {
    "acknowledgements": 20_000,
    "reads": 12_000,
    "unknown_outcomes": 2_000,
    "refusals": 20_000,
    "leader_changes": 1_500,
    "truncations": 200,
    "loads": 5_000,
    "segment_rolls": 3_000,
    "restarts": 2_000,
    "power_cuts": 1_500,
    "power_cuts_in_flush": 400,
    "cuts_after_send": 150,
    "cuts_after_answer": 120,
    "torn_tails": 100,
    "recovery_crashes": 200,
    "kills": 400,
    "pauses": 250,
    "partitions": 600,
    "coups": 150,
    "resets": 400,
    "clock_jumps": 200,
    "timers_overtaken": 150,
    "slow_disks": 200,
    "slow_flushes": 400,
    "disks_filled": 200,
    "disk_full": 600,
    "disk_failures": 150,
    "rots": 300,
    "rot_met": 2,
    "repairs": 180,
    "repairs_refused": 25,
    "caught_up": 180,
    "trims": 1_000,
    "snapshot_parts": 130,
    "snapshots_installed": 50,
    "snapshots_ignored": 3,
    "snapshots_dropped": 6,
    "trimmed_restarts": 90,
    "cuts_in_reset": 4,
    "messages": 300_000,
    "messages_lost": 20_000,
    "messages_lost_by_chance": 8_000,
    "messages_stopped": 13_000,
    "held_by_pauses": 2_000,
    "messages_duplicated": 7_000,
    "messages_reordered": 20_000,
}
"""What must happen at least so often in every 1,000 seeds: about half of what does, or a fifth where it comes in bursts, as
all that begins with a trim: few worlds trim, and those often, so that blocks of sound seeds differ by more than half. Faults are
counted by what they do as well: a partition that stops no message, a pause that holds nothing up, or a full disk that refuses
nothing, would be one in name only."""


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
    """Consecutive seeds and what happened in all of them together."""

    first_seed: int
    seeds: int = 0
    counts: Counter[str] = attrs.field(factory=Counter)

    def add(self, result: SeedResult) -> None:
        """One more seed."""
        self.seeds += 1
        self.counts.update(result.counts)
        self.counts["steps"] += result.steps

    def floor(self, name: str) -> int:
        """The floor for as many seeds as this block has; 0 if they are too few to judge."""
        floor = FLOORS.get(name, 0) * self.seeds // BLOCK_SEEDS if self.seeds >= JUDGED_SEEDS_MIN else 0
        return floor if floor >= FLOOR_MIN else 0

    def shortfalls(self) -> list[Shortfall]:
        """Every floor that was missed."""
        counted = ((name, self.counts[name], self.floor(name)) for name in FLOORS)
        return [Shortfall(name, count, floor) for name, count, floor in counted if count < floor]


def _play_chunk(seeds: range) -> list[SeedResult]:
    return [play(seed) for seed in seeds]


def _leave_interrupts_to_the_parent() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def play_all(seeds: range, jobs: int) -> Generator[SeedResult, None, None]:
    """The results of all seeds, in order; closing the iterator ends the workers."""
    chunks = [seeds[at : at + CHUNK_SEEDS] for at in range(0, len(seeds), CHUNK_SEEDS)]
    if jobs == 1 or len(chunks) == 1:
        for seed in seeds:
            yield play(seed)
        return
    with contextlib.ExitStack() as stack:
        spawned = multiprocessing.get_context("spawn")
        pool = stack.enter_context(spawned.Pool(min(jobs, len(chunks)), _leave_interrupts_to_the_parent))
        for results in pool.imap(_play_chunk, chunks):
            yield from results
