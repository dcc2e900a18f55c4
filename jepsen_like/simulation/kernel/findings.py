"""The violations of a simulated world, and the counts of its events."""

from collections import Counter

import attrs

from log.errors import LogError

NODE_ERRORS = (AssertionError, ArithmeticError, AttributeError, LookupError, TypeError, ValueError, LogError)
"""The errors that a node may die of: its own assertions, plain bugs, and errors of storage."""
CRASH = "crash"
"""A node raised: a bug, but found by the product's own assertions, not by an oracle."""


@attrs.frozen
class OracleViolation:
    """One broken promise: which oracle saw it, when (virtual seconds), at which node (0 = no one in particular)."""

    oracle: str
    time_s: float
    node: int
    sentence: str

    def __str__(self) -> str:
        where = f" at n{self.node}" if self.node else ""
        return f"{self.oracle}{where} at {self.time_s:.4f} s: {self.sentence}"


@attrs.frozen
class SeedResult:
    """The result of one seed: its violations in the order found, its counts, and a fingerprint of the whole run."""

    seed: int
    violations: tuple[OracleViolation, ...]
    counts: Counter[str]
    steps: int
    fingerprint: str
