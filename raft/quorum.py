"""The majority rules, alone."""

from collections.abc import Iterable, Sequence, Set


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


def is_quorum(granted: Set[int], groups: Iterable[Set[int]]) -> bool:
    """Returns True if `granted` has a majority of each group: of the voters, or in joint consensus of both their sets."""
    return all(len(granted & group) >= majority(len(group)) for group in groups)


def quorums_meet(groups: Sequence[Set[object]], others: Sequence[Set[object]]) -> bool:
    """Returns True if, surely, each quorum of `groups` has a voter in common with each quorum of `others`.

    Both are lists of groups of which each needs a majority, so it is enough if two groups do so. Two majorities are
    apart at best if each takes as few of the common voters as it can.
    """
    return any(
        max(0, majority(len(group)) - len(group - other)) + max(0, majority(len(other)) - len(other - group))
        > len(group & other)
        for group in groups
        for other in others
    )
