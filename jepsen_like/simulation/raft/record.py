"""The history of the whole cluster so far, as no node can know it: the memory of invariants and audits.

- the *content* of every (index, term) ever written, with the term before it: if each pair always has the same content
  and the same predecessor, then log matching holds by induction, at O(1) an entry;
- the *ledger*: what was committed, in order, and in which leader's term each entry first was;
- the log of each term's leader, which acknowledgements to that leader are measured against;
- what each prefix of the ledger makes of a state machine (`Replica`), which snapshots are measured against.
"""

from bisect import bisect_right
from collections.abc import Collection, Sequence
from hashlib import blake2b
from typing import Protocol

import attrs
import msgpack

from raft.membership import Configuration
from raft.model import Entry, EntryKind, LogIndex, NodeId, Position, Term
from raft.register import RegisterMachine

NUMBER_BYTES = 8
Content = tuple[Term, int, EntryKind, int, int]
"""The identity of an entry: the term before it, base offset, kind, span, CRC-32C of its data."""


class Termed(Protocol):
    """An entry, in memory or on a disk."""

    @property
    def term(self) -> Term:
        """The term that wrote it."""


def content(entry: Entry, previous_term: Term) -> Content:
    """Returns the values that must be the same wherever (index, term) is."""
    batch = entry.batch
    return previous_term, entry.base_offset, batch.kind, batch.span, batch.crc


@attrs.frozen
class LedgerEntry:
    """One committed entry; `leader_term` is the term of the leader that first committed it, with those `members`."""

    entry: Entry
    leader_term: Term
    members: Configuration


@attrs.define
class Replica:
    """The registers of the product, which remember as well that each command was applied, and in which order.

    The result of a command is its number, counted from 0, and then that of the registers.
    """

    filler_bytes: int = 0
    """A snapshot has this many bytes in addition to what it must have."""
    applied: int = 0
    digest: bytes = bytes(16)
    registers: RegisterMachine = attrs.field(factory=RegisterMachine)

    def check(self, command: bytes, *, read_only: bool) -> None:
        """See `StateMachine`."""
        self.registers.check(command, read_only=read_only)

    def apply(self, index: int, command: bytes) -> bytes:
        """Apply the next one, whichever it is."""
        result = self.registers.apply(index, command)
        made = index.to_bytes(8, "big") + command
        self.digest = blake2b(self.digest + made, digest_size=16).digest()
        self.applied += 1
        return (self.applied - 1).to_bytes(NUMBER_BYTES, "big") + result

    def query(self, command: bytes) -> bytes:
        """Returns the number of commands applied, and the answer of the registers."""
        return self.applied.to_bytes(NUMBER_BYTES, "big") + self.registers.query(command)

    def snapshot(self) -> bytes:
        """Returns the number of applied commands, the digest of the machine, its registers, and filler."""
        held = self.registers.snapshot()
        head = self.applied.to_bytes(8, "big") + self.digest + len(held).to_bytes(4, "big")
        return head + held + bytes(self.filler_bytes)

    def restore(self, snapshot: bytes) -> None:
        """Take the state of a snapshot."""
        self.applied, self.digest = state_in(snapshot)
        self.registers = RegisterMachine()
        self.registers.restore(snapshot[28 : 28 + int.from_bytes(snapshot[24:28], "big")])


def state_in(snapshot: bytes) -> tuple[int, bytes]:
    """Returns the number of commands that a snapshot stands for, and the digest of its machine."""
    return int.from_bytes(snapshot[:8], "big"), snapshot[8:24]


@attrs.define
class ClusterRecord:
    """Grows only. `ledger[i - 1]` is the committed entry of index i."""

    initial: Configuration
    """The configuration with which the group begins."""

    contents: dict[tuple[LogIndex, Term], Content] = attrs.field(factory=dict)
    entries: dict[tuple[LogIndex, Term], Entry] = attrs.field(factory=dict)
    ledger: list[LedgerEntry] = attrs.field(factory=list)
    leaders: dict[Term, NodeId] = attrs.field(factory=dict)
    leader_logs: dict[Term, list[Entry]] = attrs.field(factory=dict)
    configurations: dict[tuple[LogIndex, Term], Configuration] = attrs.field(factory=dict)
    """By index and term: the configurations that leaders have put into their logs."""
    taken_from: float = float("inf")
    """The lowest index of all that power cuts took from disks before it was durable, where that was acknowledged."""
    taken_values: set[int] = attrs.field(factory=set)
    """The values in it."""
    _newest: Replica = attrs.field(factory=Replica)
    _states: list[tuple[int, bytes]] = attrs.field(factory=lambda: [(0, Replica().digest)])
    _commands: list[tuple[LogIndex, bytes]] = attrs.field(factory=list)

    @property
    def committed_index(self) -> LogIndex:
        """The last index that any node has committed."""
        return LogIndex(len(self.ledger))

    def members_in(self, entries: Sequence[Termed]) -> Configuration:
        """Returns the last configuration in a log of these entries, from index 1 on: the one in force there."""
        found, last = self.initial, 0
        for (index, term), configuration in self.configurations.items():
            if last < index <= len(entries) and entries[index - 1].term == term:
                found, last = configuration, index
        return found

    def committed_members(self) -> Configuration:
        """Returns the last configuration that is committed."""
        return self.members_in([known.entry for known in self.ledger]) if self.configurations else self.initial

    @property
    def committed_position(self) -> Position:
        """The end of the committed log."""
        if not self.ledger:
            return Position(LogIndex(0), Term(0))
        entry = self.ledger[-1].entry
        return Position(entry.index, entry.term)

    def note_taken(self, entries: Sequence[Entry]) -> None:
        """A power cut took these entries from a disk, though others may count on that copy."""
        self.taken_from = min(self.taken_from, entries[0].index)
        for entry in entries:
            self.taken_values.update(values_of(entry), map(value_of, commands_of(entry)))

    def may_be_lost(self, index: LogIndex) -> bool:
        """Returns True if power cuts may have cost the group the entry at `index`, committed or not."""
        return index >= self.taken_from

    def roll_back(self, last_index: LogIndex) -> None:
        """Forget what was committed above `last_index`: the group has lost it."""
        del self.ledger[last_index:]
        self._newest, self._states, self._commands = Replica(), [(0, Replica().digest)], []

    def committed_before(self, term: Term) -> Entry | None:
        """The newest entry that a leader of an earlier term committed: every leader of `term` must hold it."""
        for known in reversed(self.ledger):
            if known.leader_term < term:
                return known.entry
        return None

    def state_at(self, index: LogIndex) -> tuple[int, bytes] | None:
        """Returns the number of commands up to `index`, and the digest they make; None unless all are committed."""
        self._apply_committed()
        return self._states[index] if index < len(self._states) else None

    def commands(self) -> Sequence[tuple[LogIndex, bytes]]:
        """Returns the committed commands in order, each with its index."""
        self._apply_committed()
        return self._commands

    def _apply_committed(self) -> None:
        while len(self._states) <= len(self.ledger):
            entry = self.ledger[len(self._states) - 1].entry
            for command in commands_of(entry):
                self._newest.apply(entry.index, command)
                self._commands.append((entry.index, command))
            self._states.append((self._newest.applied, self._newest.digest))

    def entry_at(self, offset: int) -> Entry | None:
        """Returns the committed entry that holds the record at `offset`; None if none does."""
        at = bisect_right(self.ledger, offset, key=lambda known: known.entry.end_offset)
        return self.ledger[at].entry if at < len(self.ledger) else None

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


def have_majorities(nodes: Collection[NodeId], members: Configuration) -> bool:
    """Returns True if `nodes` has more than half of the voters, and while they are replaced of the old ones as well.

    Once more, as an oracle has it: a mistake in `raft.quorum` must not excuse itself.
    """
    groups = [members.voters, members.outgoing] if members.outgoing else [members.voters]
    return all(2 * sum(node in nodes for node in group) > len(group) for group in groups)


def values_of(entry: Entry) -> list[int]:
    """The values that an entry carries, in the order of their offsets."""
    return values_in(bytes(entry.batch.data)) if entry.batch.kind is EntryKind.RECORDS else []


def values_in(data: bytes) -> list[int]:
    """Returns the values of records that stand one after the other."""
    values: list[int] = []
    at = 0
    while at < len(data):
        size = int.from_bytes(data[at : at + 2], "big")
        values.append(int.from_bytes(data[at + 2 : at + 2 + VALUE_BYTES], "big"))
        at += 2 + size
    return values


def records_of(entry: Entry, first: int, count: int) -> bytes:
    """Returns the bytes of `count` records of an entry, of which `first` is the number in it."""
    data, begin, at = bytes(entry.batch.data), 0, 0
    for number in range(first + count):
        if number == first:
            begin = at
        at += 2 + int.from_bytes(data[at : at + 2], "big")
    return data[begin:at]


def commands_of(entry: Entry) -> list[bytes]:
    """Returns the commands that an entry carries, in order."""
    if entry.batch.kind is not EntryKind.COMMANDS:
        return []
    unpacker = msgpack.Unpacker()
    unpacker.feed(bytes(entry.batch.data))
    return list(unpacker)


def value_of(command: bytes) -> int:
    """Returns the value that a command gives its register."""
    value: int = msgpack.unpackb(command)[-1]
    return value


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
    """Returns the first place, from 0, where one has another entry or ends before the other; None if they are equal."""
    both = zip(entries, others, strict=False)
    differs = next((at for at, (entry, other) in enumerate(both) if not same(entry, other)), None)
    if differs is None and len(entries) != len(others):
        return min(len(entries), len(others))
    return differs


def as_recent(position: Position, other: Position) -> bool:
    """Returns True if a log that ends at `position` is as recent as one that ends at `other`, or more recent.

    The paper's rule (section 5.4.1) once more: a mistake in `Position.up_to_date_with` must not excuse itself.
    """
    if position.term != other.term:
        return position.term > other.term
    return position.index >= other.index


def prefix_holds(entries: Sequence[Entry], wanted: Entry) -> bool:
    """Returns True if `entries` has `wanted` at its index."""
    return len(entries) >= wanted.index and same(entries[wanted.index - 1], wanted)
