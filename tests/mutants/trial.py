"""One mutant on trial, in a process of its own: `python -m tests.mutants.trial NAME FIRST_SEED END_SEED`, or `NAME explore`.

Prints what its judge found as one line of JSON.
"""

import json
import sys
import time
from typing import Any

import attrs

from tests.mutants.catalogue import by_name
from tests.mutants.judges import JUDGES
from tests.mutants.mutant import install

STATES_MAX = 1_000_000
"""A search gives up after so many states."""


def explore(states_max: int) -> dict[str, Any]:
    """Search the first scope, both its starts, as `quorumlog sim --explore` does."""
    from jepsen_like.simulation.raft.explorer import RaftExplorer  # after the bug is in place
    from jepsen_like.simulation.raft.scope import Scope

    explored = RaftExplorer(Scope()).explore(states_max=states_max)
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
    first_seed, end_seed = map(int, how)
    began = time.monotonic()
    judgement = JUDGES[mutant.judge](mutant, range(first_seed, end_seed))
    print(json.dumps({**attrs.asdict(judgement), "seconds": round(time.monotonic() - began, 2)}))  # noqa: T201
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
