"""Gathers violations of one object, and what is allowed. All are counted, and some of each check are explained."""

from collections.abc import Iterable, Mapping
from typing import Final

from jepsen_like.checker.verdict import Check, Tolerated, Violation, in_order
from jepsen_like.history.ops import Op

EXPLAINED_MAX: Final = 20
"""Violations of each check that are explained for an object; the others are counted."""


class Found:
    """The findings about one object. `allows` are checks that are not made, each with the reason."""

    def __init__(self, noun: str, number: int, allows: Mapping[Check, str] | None = None) -> None:
        self.number = number
        self.counts: dict[Check, int] = {}
        self.violations: list[Violation] = []
        self._name = f"{noun} {number}"
        self._allows = allows or {}
        self._tolerated: dict[tuple[Check, str], tuple[int, str]] = {}

    def add(self, check: Check, sentence: str, ops: Iterable[Op]) -> None:
        """Count a violation, and keep it if there are few of its kind."""
        if check in self._allows:
            self.tolerate(check, self._allows[check], sentence)
            return
        count = self.counts.get(check, 0)
        self.counts[check] = count + 1
        if count < EXPLAINED_MAX:
            self.violations.append(Violation(check, self.number, f"{self._name}: {sentence}", in_order(list(ops))))

    def tolerate(self, check: Check, because: str, sentence: str) -> None:
        """Count what is allowed."""
        count, example = self._tolerated.get((check, because), (0, f"{self._name}: {sentence}"))
        self._tolerated[check, because] = count + 1, example

    @property
    def tolerated(self) -> tuple[Tolerated, ...]:
        """Returns what is allowed, by check and reason."""
        return tuple(
            Tolerated(check=check, object=self.number, count=count, because=because, example=example)
            for (check, because), (count, example) in self._tolerated.items()
        )
