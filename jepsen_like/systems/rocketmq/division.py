"""Which broker is of which group: a run's brokers, in order, are divided evenly among its groups. Pure.

A history has one object for each queue of each group: the queues of the first group come first.
"""

import string
from collections.abc import Iterable
from typing import Final

import attrs

from jepsen_like.port.port import Scope

PAIRS_MAX: Final = 15


@attrs.frozen
class Division:
    """Brokers 1 to `nodes` in `pairs` groups of one size; groups are numbered from 0."""

    pairs: int
    nodes: int

    @property
    def size(self) -> int:
        """The number of brokers of a group."""
        return self.nodes // self.pairs

    @property
    def scopes(self) -> tuple[Scope, ...]:
        """The groups' names, in order: `brokerName` of their brokers."""
        return tuple(f"broker-{letter}" for letter in string.ascii_lowercase[: self.pairs])

    def number_of(self, node: int) -> int:
        """The group of a broker."""
        return (node - 1) // self.size

    def members(self, number: int) -> tuple[int, ...]:
        """The brokers of a group, in order."""
        first = number * self.size + 1
        return tuple(range(first, first + self.size))

    def all(self) -> tuple[tuple[int, ...], ...]:
        """The brokers of every group."""
        return tuple(self.members(number) for number in range(self.pairs))

    def members_named(self, scope: Scope) -> tuple[int, ...]:
        """The brokers of the group with this name. Raises `ValueError` for another name."""
        return self.members(self.scopes.index(scope))

    def master(self, number: int, promoted: Iterable[int]) -> int:
        """Returns the master of a group with given roles: the first, or the one that an operator has promoted last."""
        first, *_ = members = self.members(number)
        return next((node for node in reversed(tuple(promoted)) if node in members), first)

    def objects(self, number: int, queues: int) -> range:
        """The objects of a group whose topic has so many queues."""
        return range(number * queues, (number + 1) * queues)
