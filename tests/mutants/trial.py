"""One mutant on trial, in a process of its own: `python -m tests.mutants.trial NAME FIRST_SEED END_SEED`.

Plays seeds with the bug in place, past crashes, until an oracle speaks; prints what happened as one line of JSON.
"""

import json
import sys
import time
from collections import Counter
from typing import Any

from tests.mutants.catalogue import by_name
from tests.mutants.mutant import Mutant, install

NOT_ORACLES = frozenset({"crash", "V-storm"})
"""A dead node or an endless run is noticed by anybody; only what an oracle says counts."""


def simulate(mutant: Mutant, first_seed: int, end_seed: int) -> dict[str, Any]:
    """Play seeds until one is killed by an oracle."""
    from jepsen_like.simulation.world import play  # after the bug is in place

    crashed: Counter[str] = Counter()
    for seed in range(first_seed, end_seed):
        try:
            result = play(seed, stop_at_first=False)
        except Exception as error:  # noqa: BLE001 - a bug may break the simulator itself, which proves nothing
            crashed[type(error).__name__] += 1
            continue
        seen = [violation for violation in result.violations if violation.oracle not in NOT_ORACLES]
        counted = [found for found in seen if found.oracle != "V-liveness" or "V-liveness" in mutant.oracles]
        crashed["node"] += any(violation.oracle == "crash" for violation in result.violations)
        if counted:
            return {
                "killed_by": counted[0].oracle,
                "sentence": str(counted[0]),
                "also": sorted({found.oracle for found in counted[1:]} - {counted[0].oracle}),
                "seed": seed,
                "seeds": seed - first_seed + 1,
                "crashed": dict(crashed),
            }
    return {"killed_by": None, "seeds": end_seed - first_seed, "crashed": dict(crashed)}


def main(arguments: list[str]) -> int:
    """Print the verdict on one mutant."""
    name, first_seed, end_seed = arguments
    mutant = by_name(name)
    install(mutant)
    began = time.monotonic()
    verdict = simulate(mutant, int(first_seed), int(end_seed))
    print(json.dumps({**verdict, "name": name, "elapsed_s": round(time.monotonic() - began, 2)}))  # noqa: T201
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
