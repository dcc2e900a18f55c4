"""What a cluster of a test has promised, and whether it kept it.

Two kinds of promises are written down: what a client was told to be appended, and what a node said to be committed, asked
just before it was brought down. Both must stand in the log in the end, record for record, at the offset that was told.
"""

from collections.abc import Mapping, Sequence

import attrs

SHOWN_MAX = 5
"""Broken promises that a text names; the others are counted."""


@attrs.frozen
class Verdict:
    """What `check` found. `broken` tells every promise that does not hold, in words."""

    acknowledged: int
    """Records that clients of the cluster were told to be appended."""
    committed: int
    """Records in the log in the end."""
    broken: tuple[str, ...] = ()

    @property
    def valid(self) -> bool:
        """Whether every promise holds."""
        return not self.broken

    def __str__(self) -> str:
        promised = f"{self.acknowledged} {_records(self.acknowledged)} acknowledged, {self.committed} in the log"
        if self.valid:
            return f"{promised}: nothing acknowledged was lost"
        more = len(self.broken) - SHOWN_MAX
        shown = [*self.broken[:SHOWN_MAX], *([f"and {more} more"] if more > 0 else [])]
        return f"{promised}: " + "; ".join(shown)


@attrs.define
class Ledger:
    """Offsets to records; only ever appended to, so that clients in several threads may write into it."""

    acknowledged: int = 0
    _promised: dict[int, bytes] = attrs.field(factory=dict)
    _broken: list[str] = attrs.field(factory=list)

    def on_appended(self, base_offset: int, records: Sequence[bytes]) -> None:
        """A client was told that these are appended from `base_offset` on."""
        self.acknowledged += len(records)
        self._promise(base_offset, records, "acknowledged")

    def on_committed(self, node: int, base_offset: int, records: Sequence[bytes]) -> None:
        """A node said that these are committed from `base_offset` on."""
        self._promise(base_offset, records, f"committed by node {node}")

    def on_broken(self, what: str) -> None:
        """Something else happened that may never happen."""
        self._broken.append(what)

    def _promise(self, base_offset: int, records: Sequence[bytes], how: str) -> None:
        for offset, record in enumerate(records, base_offset):
            known = self._promised.setdefault(offset, record)
            if known != record:
                self._broken.append(f"offset {offset} was {_shown(known)}, and {_shown(record)} is {how} there")

    def verdict(self, logs: Mapping[int, Sequence[bytes]]) -> Verdict:
        """Hold the promises against the committed log of every node."""
        broken = list(self._broken)
        longest: Sequence[bytes] = max(logs.values(), key=len, default=())
        for offset, record in sorted(self._promised.items()):
            if offset >= len(longest):
                broken.append(f"offset {offset}, {_shown(record)}, is lost")
            elif longest[offset] != record:
                broken.append(f"offset {offset} was {_shown(record)} and is {_shown(longest[offset])} now")
        for node, log in sorted(logs.items()):
            if list(log) != list(longest[: len(log)]):
                broken.append(f"the log of node {node} is not that of the others")
        return Verdict(self.acknowledged, len(longest), tuple(broken))


def _records(count: int) -> str:
    return "record" if count == 1 else "records"


def _shown(record: bytes) -> str:
    return repr(record) if len(record) <= 40 else f"{record[:40]!r}... ({len(record)} bytes)"
