"""See `benchmarks.peers.command`."""

import sys

from benchmarks.peers.command import peers
from jepsen_like.cli import main

assert peers.name is not None
main(["bench", peers.name, *sys.argv[1:]])
