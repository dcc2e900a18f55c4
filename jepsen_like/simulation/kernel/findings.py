"""What a simulated world can be found guilty of, and how often each thing happened in it."""

from collections import Counter

import attrs

from log.errors import LogError

NODE_ERRORS = (AssertionError, ArithmeticError, AttributeError, LookupError, TypeError, ValueError, LogError)
"""What a node may die of: its own assertions, plain bugs, and whatever storage raises."""
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
    """What one seed came to: its violations in the order found, its counts, and a fingerprint of the whole run."""

    seed: int
    violations: tuple[OracleViolation, ...]
    counts: Counter[str]
    steps: int
    fingerprint: str
