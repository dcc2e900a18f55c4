"""The promises of a test's cluster, and the check that it kept them.

Two kinds of promises are recorded: acknowledgements to a client, and the commits that a node reported when asked just
before it was brought down. Both must be in the log in the end, record for record, at the reported offset. Where all
logs begin later, if records may leave them (`retention_bytes`, `retention_s`), there is nothing to look for. A log that
begins behind everything that was reported, or keeps less than its rule requires, is a broken promise, too.
"""

from collections.abc import Collection, Mapping, Sequence

import attrs

from log.frame import HEADER_BYTES
from log.retention import KEEP_ALL, Retention

SHOWN_MAX = 5
"""Broken promises that a text names; the others are counted."""
NOTHING_LOST = "nothing acknowledged was lost"
UNSEEN_BYTES = 64 * 1024
"""A log may hold this much in addition to records: terms and votes, entries that were replaced."""


@attrs.frozen
class LedgerVerdict:
    """The result of `check`. `broken` lists every promise that does not hold, in words."""

    acknowledged: int
    """Records that were acknowledged to clients of the cluster."""
    committed: int
    """Records in the log in the end."""
    broken: tuple[str, ...] = ()
    expired: int = 0
    """Promised records that have left all logs by the retention rule."""

    @property
    def valid(self) -> bool:
        """True if every promise holds."""
        return not self.broken

    def __str__(self) -> str:
        promised = f"{self.acknowledged} {_records(self.acknowledged)} acknowledged, {self.committed} in the log"
        if self.expired:
            promised += f", {self.expired} have left it"
        return f"{promised}: {'; '.join(show_first(self.broken)) or NOTHING_LOST}"


@attrs.define
class Ledger:
    """Offsets to records; only ever appended to, so that clients in several threads may write into it."""

    acknowledged: int = 0
    retention: Retention = KEEP_ALL
    """The rule by which logs are kept; of records that may leave, the oldest leave first."""
    committed_end: int = 0
    """The number of records that nodes reported as committed."""
    unknown_bytes: int = 0
    """Bytes of what clients sent and got no answer to: a log may hold them though they were replaced."""
    _promised: dict[int, bytes] = attrs.field(factory=dict)
    _told: set[int] = attrs.field(factory=set)
    _broken: list[str] = attrs.field(factory=list)

    def on_appended(self, base_offset: int, records: Sequence[bytes]) -> None:
        """These records were acknowledged to a client, from `base_offset` on."""
        self.acknowledged += len(records)
        self._told.update(range(base_offset, base_offset + len(records)))
        self._promise(base_offset, records, "acknowledged")

    def on_committed(self, node: int, base_offset: int, records: Sequence[bytes]) -> None:
        """A node reported that these records are committed, from `base_offset` on."""
        self._promise(base_offset, records, f"committed by node {node}")

    def on_end(self, committed_end: int) -> None:
        """A node reported that so many records are committed."""
        self.committed_end = max(self.committed_end, committed_end)

    def on_broken(self, what: str) -> None:
        """Something else happened that may never happen."""
        self._broken.append(what)

    def _promise(self, base_offset: int, records: Sequence[bytes], how: str) -> None:
        for offset, record in enumerate(records, base_offset):
            known = self._promised.setdefault(offset, record)
            if known != record:
                self._broken.append(f"offset {offset} was {show(known)}, and {show(record)} is {how} there")

    @property
    def expires(self) -> bool:
        """True if records may leave the logs."""
        return self.retention != KEEP_ALL

    def verdict(
        self,
        logs: Mapping[int, Sequence[bytes]],
        starts: Mapping[int, int] | None = None,
        *,
        of_records: Collection[int] = (),
    ) -> LedgerVerdict:
        """Hold the promises against the committed log of every node, which begins at 0 or as `starts` has it.

        `of_records`: nodes of which it is known that what is left of their logs is records and little else.
        """
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
                broken.append(f"offset {offset}, {show(record)}, is lost")
            elif held[offset] != record:
                broken.append(f"offset {offset} was {show(record)} and is {show(held[offset])} now")
        for node, log in sorted(logs.items()):
            if any(held[offset] != record for offset, record in enumerate(log, starts[node])):
                broken.append(f"the log of node {node} is not that of the others")
            if starts[node] and not self.expires:
                broken.append(f"the log of node {node} begins at {starts[node]}, and nothing may leave it")
        known_end = max([self.committed_end, *(offset + 1 for offset in self._promised)])
        for node, log in sorted(logs.items()) if self.expires else ():
            if starts[node] > known_end:
                broken.append(
                    f"the log of node {node} begins at {starts[node]}, and there were never more than {known_end}"
                )
            elif starts[node] and node in of_records and (missing := self._missing(starts[node], log)) > 0:
                broken.append(
                    f"the log of node {node} begins at {starts[node]} and lacks {missing} bytes of what its retention keeps"
                )
        committed = 0 if longest is None else len(logs[longest])
        return LedgerVerdict(self.acknowledged, committed, tuple(broken), expired)

    def _missing(self, start: int, log: Sequence[bytes]) -> int:
        """Returns how many more bytes a trimmed log should hold in addition to these records, if only bytes count.

        0 if others wrote, too: the outcome of their records is not known here.
        """
        if self.retention.age_ms_max is not None or self.retention.bytes_max is None:
            return 0
        if not self._told.issuperset(range(start, start + len(log))):
            return 0
        held = sum(HEADER_BYTES + len(record) for record in log)
        return self.retention.bytes_max - UNSEEN_BYTES - self.unknown_bytes - held


def _records(count: int) -> str:
    return "record" if count == 1 else "records"


def show_first(found: Sequence[str]) -> list[str]:
    """Returns the first of these findings, and how many more there are."""
    more = len(found) - SHOWN_MAX
    return [*found[:SHOWN_MAX], *([f"and {more} more"] if more > 0 else [])]


def show(record: bytes) -> str:
    """Returns bytes as people can read them, not all if there are many."""
    return repr(record) if len(record) <= 40 else f"{record[:40]!r}... ({len(record)} bytes)"
