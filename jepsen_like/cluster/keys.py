"""The keys of a cluster that serves: its secret, its certificates and their authority, replaced in three steps.

1. `add`: all processes take the new ones too.
2. `turn`: all prove themselves by the new ones, and take the earlier ones too.
3. `drop`: the earlier ones are worth nothing.

Processes and clients read their files again when a connection begins, at most once a second. So a second at least lies
between two steps.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Protocol

from jepsen_like.port.port import SecretSteps

ONE, TWO = "one is accepted", "two are accepted"


class Certified(Protocol):
    """The certificates of a cluster; each step returns which authority counts from then on."""

    def add(self) -> str:
        """Take the first step."""

    def turn(self) -> str:
        """Take the second step."""

    def drop(self) -> str:
        """Take the last step, or take the first one back."""


class Keys:
    """The keys of one cluster. Each step returns what is in force from then on, by what it is about."""

    def __init__(self, secret: Path | None, steps: SecretSteps | None, papers: Certified | None) -> None:
        """`steps` are those of the secret, which is in a file."""
        self._secret = secret
        self._steps = steps
        self._papers = papers
        self._is_replacing = False

    @property
    def exist(self) -> bool:
        """False for a cluster with neither a secret nor certificates."""
        return self._secret is not None or self._papers is not None

    def add(self) -> Mapping[str, str]:
        """Take the first step."""
        self._is_replacing = True
        if self._secret is not None and self._steps is not None:
            self._steps.add(self._secret)
        return self._state(TWO, None if self._papers is None else self._papers.add())

    def turn(self) -> Mapping[str, str]:
        """Take the second step."""
        if self._secret is not None and self._steps is not None:
            self._steps.turn(self._secret)
        return self._state(TWO, None if self._papers is None else self._papers.turn())

    def drop(self) -> Mapping[str, str]:
        """Take the last step after the second one; before that take the first one back. Once more does nothing."""
        if not self._is_replacing:
            return self._state(ONE, None)
        self._is_replacing = False
        if self._secret is not None and self._steps is not None:
            self._steps.drop(self._secret)
        return self._state(ONE, None if self._papers is None else self._papers.drop())

    def _state(self, of_secret: str, of_papers: str | None) -> Mapping[str, str]:
        found = {} if self._secret is None else {"secret": of_secret}
        return found if of_papers is None else {**found, "certificates": of_papers}
