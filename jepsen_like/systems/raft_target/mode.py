"""The facts about a raft group that others run: the settings of its nodes that promises are made of."""

from collections.abc import Sequence
from typing import Final

from jepsen_like.port.port import WrongMode
from jepsen_like.systems.raft.mode import RaftMode
from jepsen_like.systems.raft.promises import Replication

FACTS: Final = ("flush", "flush_interval_s")


def mode_of(words: Sequence[str], replication: str = Replication.RAFT) -> RaftMode:
    """Raises `WrongMode` for a setting that no promise is made of, and for a value that it cannot have."""
    for word in words:
        name = word.partition("=")[0].strip()
        if name not in FACTS:
            raise WrongMode(
                f"--set: {name} is not the run's to set on a group that runs already; there are {', '.join(FACTS)}"
            )
    return RaftMode.of(words, replication)
