"""The majority rules, alone."""

from collections.abc import Iterable


def majority(voters: int) -> int:
    """The smallest number of voters of which any two groups share a member."""
    return voters // 2 + 1


def reached_by_majority(values: Iterable[int]) -> int:
    """The largest value that a majority of the voters has reached; one value a voter, at least one voter.

    Of match indexes it is the index that a majority holds (paper section 5.3); of acknowledged rounds, the newest
    round in which a majority still took this node for its leader (dissertation section 6.4).
    """
    ranked = sorted(values, reverse=True)
    return ranked[majority(len(ranked)) - 1]
