"""The majority rules, alone."""

from collections.abc import Iterable


def majority(voters: int) -> int:
    """Returns the smallest number of voters such that any two groups of that size share a member."""
    return voters // 2 + 1


def reached_by_majority(values: Iterable[int]) -> int:
    """Returns the largest value that a majority of the voters has reached.

    There is one value for each voter, and at least one voter.

    Of match indexes it is the index that a majority holds (paper section 5.3); of acknowledged rounds, the newest
    round in which a majority still took this node for its leader (dissertation section 6.4).
    """
    ranked = sorted(values, reverse=True)
    return ranked[majority(len(ranked)) - 1]
