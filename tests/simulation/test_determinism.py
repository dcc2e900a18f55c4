"""A seed is a world: the same trace in every process, whatever the hash seed, and whichever process plays it."""

import os
import subprocess
import sys

import pytest

from jepsen_like.simulation.command import MODELS
from jepsen_like.simulation.kernel.streams import stream
from jepsen_like.simulation.kernel.tracing import Trace
from jepsen_like.simulation.raft.model import RAFT

pytestmark = pytest.mark.simulation


def replay_seed(seed: int, hash_seed: str, system: str = "raft") -> str:
    """Returns the last line of a replay in a fresh process."""
    command = [sys.executable, "-m", "jepsen_like.cli", "replay", str(seed), "--system", system, "--quiet"]
    environment = {**os.environ, "PYTHONHASHSEED": hash_seed}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    return done.stdout.splitlines()[-1]


@pytest.mark.parametrize(
    ("system", "seed"),
    [
        ("raft", 1),
        ("kafka", 3),
        pytest.param("rocketmq", 1, marks=pytest.mark.campaign),
        pytest.param("raft", 77, marks=pytest.mark.campaign),
    ],
)
def test_a_seed_gives_the_same_trace_in_a_fresh_process_with_another_hash_seed(system: str, seed: int) -> None:
    lines: list[str] = []
    trace = Trace(lines.append)
    result = MODELS[system].play(seed, observer=trace.event)
    here = f"no violation, {result.steps} steps, {len(lines)} events, trace {trace.hash}"
    # This process may have drawn any of them.
    other = "1" if os.environ.get("PYTHONHASHSEED") != "1" else "4321"
    assert replay_seed(seed, other, system).endswith(here)


def test_watching_a_seed_does_not_change_it() -> None:
    watched = RAFT.play(5, observer=Trace(lambda line: None).event)
    assert watched == RAFT.play(5) == RAFT.play(5, stop_at_first=False)


def test_other_seeds_are_other_worlds() -> None:
    assert len({RAFT.play(seed).fingerprint for seed in range(8)}) == 8


def test_streams_of_other_names_are_independent() -> None:
    assert stream(1, "a").random() == stream(1, "a").random()
    assert stream(1, "a").random() != stream(1, "b").random()
    assert stream(1, "a").random() != stream(2, "a").random()
