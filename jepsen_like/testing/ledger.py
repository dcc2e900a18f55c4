"""What a cluster of a test has promised, and whether it kept it.

Two kinds of promises are written down: what a client was told to be appended, and what a node said to be committed, asked
just before it was brought down. Both must stand in the log in the end, record for record, at the offset that was told; only
below where all logs begin, if records may leave them (`retention_bytes`, `retention_s`), there is nothing to look for.
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
    expired: int = 0
    """Promised records that have left all logs, as their retention says."""

    @property
    def valid(self) -> bool:
        """Whether every promise holds."""
        return not self.broken

    def __str__(self) -> str:
        promised = f"{self.acknowledged} {_records(self.acknowledged)} acknowledged, {self.committed} in the log"
        if self.expired:
            promised += f", {self.expired} have left it"
        if self.valid:
            return f"{promised}: nothing acknowledged was lost"
        more = len(self.broken) - SHOWN_MAX
        shown = [*self.broken[:SHOWN_MAX], *([f"and {more} more"] if more > 0 else [])]
        return f"{promised}: " + "; ".join(shown)


@attrs.define
class Ledger:
    """Offsets to records; only ever appended to, so that clients in several threads may write into it."""

    acknowledged: int = 0
    expires: bool = False
    """Whether records may leave the logs, oldest first."""
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

    def verdict(self, logs: Mapping[int, Sequence[bytes]], starts: Mapping[int, int] | None = None) -> Verdict:
        """Hold the promises against the committed log of every node, which begins at 0 unless `starts` says otherwise."""
        broken = list(self._broken)
        starts = dict.fromkeys(logs, 0) | dict(starts or {})
        longest = max(logs, key=lambda node: (starts[node] + len(logs[node]), len(logs[node])), default=None)
        held: dict[int, bytes] = {}
        for node in sorted(logs, key=lambda node: node != longest):
            for offset, record in enumerate(logs[node], starts[node]):
                held.setdefault(offset, record)
        begin = min(starts.values(), default=0)
        expired = 0
        for offset, record in sorted(self._promised.items()):
            if offset < begin and self.expires:
                expired += 1
            elif offset not in held:
                broken.append(f"offset {offset}, {_shown(record)}, is lost")
            elif held[offset] != record:
                broken.append(f"offset {offset} was {_shown(record)} and is {_shown(held[offset])} now")
        for node, log in sorted(logs.items()):
            if any(held[offset] != record for offset, record in enumerate(log, starts[node])):
                broken.append(f"the log of node {node} is not that of the others")
            if starts[node] and not self.expires:
                broken.append(f"the log of node {node} begins at {starts[node]}, and nothing may leave it")
        committed = 0 if longest is None else len(logs[longest])
        return Verdict(self.acknowledged, committed, tuple(broken), expired)


def _records(count: int) -> str:
    return "record" if count == 1 else "records"


def _shown(record: bytes) -> str:
    return repr(record) if len(record) <= 40 else f"{record[:40]!r}... ({len(record)} bytes)"
