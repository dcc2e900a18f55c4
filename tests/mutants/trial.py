"""One mutant on trial, in a process of its own: `python -m tests.mutants.trial NAME FIRST_SEED END_SEED`, or `NAME explore`.

Plays seeds with the bug in place, past crashes, until an oracle speaks; prints what happened as one line of JSON.
"""

import json
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

from tests.mutants.catalogue import by_name
from tests.mutants.mutant import Mutant, install

OPERATIONS = 50_000
"""How many operations hide one planted violation."""
STATES_MAX = 1_000_000
"""A search gives up after so many states."""
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


def check(mutant: Mutant) -> dict[str, Any]:
    """Look for each planted violation with the bug in the checker; one that is not found kills the bug."""
    from jepsen_like.checker.checking import check_run  # after the bug is in place
    from jepsen_like.checker.verdict import Engine
    from tests.jepsen_like.checker.planted import CULPRIT, PLANTS, log_base, planted, register_base, write_run

    bases = {base.model: base for base in (log_base(OPERATIONS, seed=1), register_base(OPERATIONS, seed=1, keys=500))}
    for tried, plant in enumerate(PLANTS, start=1):
        with tempfile.TemporaryDirectory() as directory:
            write_run(planted(bases[plant.model], plant, seed=3), Path(directory))
            verdict = check_run(Path(directory), plant.model, Engine.LOCAL)
        witnesses = {op.process for violation in verdict.violations for op in violation.ops}
        if verdict.valid is not False or CULPRIT not in witnesses:
            said = {True: "valid", False: "invalid, for another reason", None: "unknown"}[verdict.valid]
            sentence = f"a planted {plant.name} was not found: the checker says {said}"
            return {"killed_by": "planted", "sentence": sentence, "also": [], "seed": 3, "seeds": tried, "crashed": {}}
    return {"killed_by": None, "seeds": len(PLANTS), "crashed": {}}


def explore(states_max: int) -> dict[str, Any]:
    """Search the first scope, both its starts, as `quorumlog sim --explore` does."""
    from jepsen_like.simulation.explorer import Explorer, Scope  # after the bug is in place

    explored = Explorer(Scope()).explore(states_max=states_max)
    found = explored.found
    return {"states": explored.states, "sentence": found and found.sentence, "steps": found and len(found.path)}


def main(arguments: list[str]) -> int:
    """Print the verdict on one mutant."""
    name, *how = arguments
    mutant = by_name(name)
    install(mutant)
    if how == ["explore"]:
        print(json.dumps(explore(STATES_MAX)))  # noqa: T201
        return 0
    first_seed, end_seed = how
    began = time.monotonic()
    verdict = check(mutant) if mutant.judge == "checker" else simulate(mutant, int(first_seed), int(end_seed))
    print(json.dumps({**verdict, "name": name, "elapsed_s": round(time.monotonic() - began, 2)}))  # noqa: T201
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
