"""Every experiment, in the order in which they are carried out."""

from collections.abc import Iterable
from typing import Final

from jepsen_like.claims.experiment import Experiment
from jepsen_like.claims.experiments import raft_quorum

EXPERIMENTS: Final[tuple[Experiment, ...]] = (*raft_quorum.EXPERIMENTS,)


def experiments_of(claims: Iterable[str]) -> tuple[Experiment, ...]:
    """Returns the experiments that have a part in any of these claims, in order."""
    wanted = frozenset(claims)
    return tuple(one for one in EXPERIMENTS if wanted.intersection(one.claims))
