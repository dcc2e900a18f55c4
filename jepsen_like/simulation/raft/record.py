"""The history of the whole cluster so far, as no node can know it: the memory of invariants and audits.

- the *content* of every (index, term) ever written, with the term before it: if each pair always has the same content
  and the same predecessor, then log matching holds by induction, at O(1) an entry;
- the *ledger*: what was committed, in order, and in which leader's term each entry first was;
- the log of each term's leader, which acknowledgements to that leader are measured against;
- what each prefix of the ledger makes of a state machine (`Replica`), which snapshots are measured against.
"""

from collections.abc import Sequence
from hashlib import blake2b

import attrs

from raft.model import Entry, EntryKind, LogIndex, NodeId, Position, Term

Content = tuple[Term, int, EntryKind, int, int]
"""The identity of an entry: the term before it, base offset, kind, span, CRC-32C of its data."""


def content(entry: Entry, previous_term: Term) -> Content:
    """Returns the values that must be the same wherever (index, term) is."""
    batch = entry.batch
    return previous_term, entry.base_offset, batch.kind, batch.span, batch.crc


@attrs.frozen
class LedgerEntry:
    """One committed entry; `leader_term` is the term of the leader that first committed it."""

    entry: Entry
    leader_term: Term


@attrs.define
class Replica:
    """A state machine that remembers of each entry that it was applied, and in which order."""

    applied: int = 0
    digest: bytes = bytes(16)

    def apply(self, entry: Entry) -> None:
        """The next one, whichever it is."""
        batch = entry.batch
        made = repr((entry.index, entry.term, entry.base_offset, batch.kind.value, batch.span, batch.crc))
        self.digest = blake2b(self.digest + made.encode(), digest_size=16).digest()
        self.applied += 1

    def snapshot(self, filler_bytes: int) -> bytes:
        """Returns the number of applied entries, the digest of the machine, and filler."""
        return self.applied.to_bytes(8, "big") + self.digest + bytes(filler_bytes)

    def restore(self, snapshot: bytes) -> None:
        """Take the state of a snapshot."""
        self.applied, self.digest = int.from_bytes(snapshot[:8], "big"), snapshot[8:24]


@attrs.define
class ClusterRecord:
    """Grows only. `ledger[i - 1]` is the committed entry of index i."""

    contents: dict[tuple[LogIndex, Term], Content] = attrs.field(factory=dict)
    entries: dict[tuple[LogIndex, Term], Entry] = attrs.field(factory=dict)
    ledger: list[LedgerEntry] = attrs.field(factory=list)
    leaders: dict[Term, NodeId] = attrs.field(factory=dict)
    leader_logs: dict[Term, list[Entry]] = attrs.field(factory=dict)
    _newest: Replica = attrs.field(factory=Replica)
    _digests: list[bytes] = attrs.field(factory=lambda: [Replica().digest])

    @property
    def committed_index(self) -> LogIndex:
        """The last index that any node has committed."""
        return LogIndex(len(self.ledger))

    @property
    def committed_position(self) -> Position:
        """The end of the committed log."""
        if not self.ledger:
            return Position(LogIndex(0), Term(0))
        entry = self.ledger[-1].entry
        return Position(entry.index, entry.term)

    def committed_before(self, term: Term) -> Entry | None:
        """The newest entry that a leader of an earlier term committed: every leader of `term` must hold it."""
        for known in reversed(self.ledger):
            if known.leader_term < term:
                return known.entry
        return None

    def digest(self, index: LogIndex) -> bytes | None:
        """Returns the digest of a machine that applied the committed entries up to `index`; None unless all are
        committed.
        """
        while self._newest.applied < len(self.ledger):
            self._newest.apply(self.ledger[self._newest.applied].entry)
            self._digests.append(self._newest.digest)
        return self._digests[index] if index < len(self._digests) else None

    def term_of(self, index: LogIndex) -> Term | None:
        """The term of the committed entry at `index`; None if none is committed there."""
        return self.ledger[index - 1].entry.term if 0 < index <= len(self.ledger) else None

    def values(self) -> list[int]:
        """The committed log as its clients see it: values by offset."""
        return [value for known in self.ledger for value in values_of(known.entry)]


VALUE_BYTES = 8


def record_bytes(value: int, filler: int) -> bytes:
    """One record: its length, the value, and filler; so that a batch can be read back."""
    return (VALUE_BYTES + filler).to_bytes(2, "big") + value.to_bytes(VALUE_BYTES, "big") + bytes(filler)


def values_of(entry: Entry) -> list[int]:
    """The values that an entry carries, in the order of their offsets."""
    if entry.batch.kind is not EntryKind.RECORDS:
        return []
    data = bytes(entry.batch.data)
    values: list[int] = []
    at = 0
    while at < len(data):
        size = int.from_bytes(data[at : at + 2], "big")
        values.append(int.from_bytes(data[at + 2 : at + 2 + VALUE_BYTES], "big"))
        at += 2 + size
    return values


def same(entry: Entry, other: Entry) -> bool:
    """Returns True if two entries of one index are the same one."""
    return entry is other or (
        entry.term == other.term
        and entry.base_offset == other.base_offset
        and entry.batch.kind == other.batch.kind
        and entry.batch.crc == other.batch.crc
        and entry.batch.span == other.batch.span
    )


def first_difference(entries: Sequence[Entry], others: Sequence[Entry]) -> int | None:
    """Returns the first place, counted from 0, where one has another entry or ends before the other; None if they are
    equal.
    """
    both = zip(entries, others, strict=False)
    differs = next((at for at, (entry, other) in enumerate(both) if not same(entry, other)), None)
    if differs is None and len(entries) != len(others):
        return min(len(entries), len(others))
    return differs


def as_recent(position: Position, other: Position) -> bool:
    """Returns True if a log that ends at `position` is as recent as one that ends at `other`, or more recent.

    The rule of section 5.4.1 of the paper, written once more for the oracles: they must not decide by the product's own
    `Position.up_to_date_with`, since a mistake there would then excuse itself.
    """
    if position.term != other.term:
        return position.term > other.term
    return position.index >= other.index


def prefix_holds(entries: Sequence[Entry], wanted: Entry) -> bool:
    """Returns True if `entries` has `wanted` at its index."""
    return len(entries) >= wanted.index and same(entries[wanted.index - 1], wanted)
