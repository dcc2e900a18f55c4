"""One node of a cluster with a deliberate bug in it: `python -m tests.mutants.mutated_node NAME`, then what `quorumlog node` takes."""

import sys

from tests.mutants.catalogue import by_name
from tests.mutants.mutant import install

if __name__ == "__main__":
    install(by_name(sys.argv.pop(1)))
    from raft.node import node  # after the bug is in place

    node()
