"""The real core, outbox, storage and log keep every promise under every fault: fresh seeds each time, and old ones."""

import os
import time

import pytest

from jepsen_like.simulation.kernel.findings import SeedResult
from jepsen_like.simulation.raft.model import RAFT

pytestmark = pytest.mark.simulation

SHARDS = 4
SHARD_S = float(os.environ.get("QUORUMLOG_SIMULATION_S", "4")) / SHARDS
"""Seconds of fresh seeds in all; set the variable for a longer hunt."""
FRESH_SEEDS_FROM = 1 << 32
"""Far above the seeds that campaigns play, so that each run of the tests adds to them."""

REGRESSIONS = {
    0: "a lost acknowledgement left a full window full for ever (V-liveness)",
    6: "the same, with other nodes stuck",
    502_550: "a second node was damaged while the first still stood below its floor: nobody could lead (V-liveness)",
    7_011_150: "a leader met every late answer of a follower with another probe, and its answer with another (V-storm)",
    10_000_625: "a sound world, but a busy one, took more steps than were allowed (V-storm)",
    51_014_636: "the same, asked for more than any before (V-storm)",
    31_008_520: "a log let a file go whose entries had all been replaced, and said that it begins behind none (A8)",
    41_019_921: "a repair of a trimmed log took for its entries what had been replaced by what was lost (A5)",
    45_010_416: "a sound world: the disk gave a file its former name back after a sync of names had failed (A5)",
    49_000_086: "a sound world: a snapshot on the disk stands for nothing where nothing is gone (A5)",
    914: "a configuration that had been replaced was in force again behind a snapshot (A5)",
    3189: "a read waited for the answer of a node that had been removed (V-liveness)",
    4945: "a restarted leader sent a snapshot with older members than it stood for (A5)",
    7_183_235_133_444_451: "the entry of a configuration left with a snapshot before it was stored as committed (A5)",
    533: "a failed directory sync took a segment that recovery believed to be durable (A5)",
}
"""Seeds that once found a bug, and what it was. Later changes of the simulator may have given them other worlds."""
LONG = {10_000_625}
"""The quick tests play another busy world in its place."""


def format_failure(result: SeedResult) -> str:
    """Returns the failure as a person wants to read it."""
    seen = "\n".join(map(str, result.violations))
    return f"{seen}\nreproduce with: quorumlog replay {result.seed} --level core"


@pytest.mark.parametrize(
    "seed",
    [pytest.param(seed, marks=[pytest.mark.campaign] * (seed in LONG)) for seed in REGRESSIONS],
    ids=lambda seed: f"seed {seed}",
)
def test_what_was_once_broken_stays_mended(seed: int) -> None:
    result = RAFT.play(seed)
    assert not result.violations, format_failure(result)


@pytest.mark.parametrize("shard", range(SHARDS))
def test_no_fresh_seed_breaks_a_promise(shard: int) -> None:
    began = time.monotonic()
    seed = FRESH_SEEDS_FROM + time.time_ns() // 1000 * SHARDS + shard
    played = 0
    while time.monotonic() - began < SHARD_S:
        result = RAFT.play(seed)
        assert not result.violations, format_failure(result)
        seed += SHARDS
        played += 1
    assert played > 0
