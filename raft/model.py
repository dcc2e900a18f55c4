"""The nouns of the core: ids, entries and what must survive a restart.

An entry is one position of the Raft log and one frame on disk. It carries a *batch*: any number of client records
(or commands) packed by the shell into one opaque `data`, so that nothing here costs anything per record.

Indexes are 1-based and inclusive, 0 means "none"; offsets are 0-based and count records.
"""

import enum
from typing import NewType

from log.frame import Payload
from log.values import frozen

NodeId = NewType("NodeId", int)
Term = NewType("Term", int)
LogIndex = NewType("LogIndex", int)
Offset = NewType("Offset", int)
Token = NewType("Token", int)
"""Names one proposal or one read of this node; the shell draws it and finds its waiter by it."""
WriteId = NewType("WriteId", int)
"""Names one `Persist`, counting up from 1; 0 means "depends on no write"."""

NO_INDEX = LogIndex(0)
NO_TERM = Term(0)
FIRST_OFFSET = Offset(0)
NO_WRITE = WriteId(0)


class EntryKind(enum.IntEnum):
    """The contents of an entry's batch."""

    NOOP = 0
    """Nothing: the entry by which a leader commits what it inherited (paper section 8)."""
    RECORDS = 1
    """Client records; `span` is how many offsets they take."""
    COMMANDS = 2
    """Commands for the state machine; they take no offsets."""
    CONFIGURATION = 3
    """The members of the group from this entry on (`raft.membership`)."""


@frozen
class Batch:
    """The opaque content of an entry. `crc` is the CRC-32C of `data`, computed once where the bytes arrived.

    Large `data` may be one or several views of the received bytes, which must not be written to any more.
    """

    kind: EntryKind
    span: int
    timestamp_ms: int
    data: Payload
    crc: int


NOOP = Batch(EntryKind.NOOP, span=0, timestamp_ms=0, data=b"", crc=0)


@frozen
class Entry:
    """One position of the log. Its records have the offsets `base_offset` up to `end_offset`, exclusive."""

    index: LogIndex
    term: Term
    base_offset: Offset
    batch: Batch

    @property
    def end_offset(self) -> Offset:
        """The offset of the first record after this entry."""
        return Offset(self.base_offset + self.batch.span)


ENTRY_OVERHEAD_BYTES = 64
"""The cost of an entry in addition to its data, on disk and on the wire; an empty batch is not free."""


def entry_bytes(batch: Batch) -> int:
    """Returns the size in bytes that windows and bounds count for one entry."""
    return len(batch.data) + ENTRY_OVERHEAD_BYTES


@frozen
class Position:
    """The place of an entry: its index and the term that wrote it. Ordered as section 5.4.1 compares logs."""

    index: LogIndex
    term: Term

    def up_to_date_with(self, other: "Position") -> bool:
        """Returns True if a log that ends here is at least as up-to-date as one that ends at `other` (paper 5.4.1)."""
        return (self.term, self.index) >= (other.term, other.index)


NO_POSITION = Position(NO_INDEX, NO_TERM)


@frozen
class LogStart:
    """The start of a log whose oldest entries were trimmed: behind `position`, with `offset` (paper section 7).

    All up to there is committed. `snapshot` is the state that the entries up to `applied` made; those are a few more
    than were trimmed, since segments are trimmed as a whole.
    """

    position: Position = NO_POSITION
    offset: Offset = FIRST_OFFSET
    applied: Position = NO_POSITION
    snapshot: bytes = b""

    @property
    def index(self) -> LogIndex:
        """The last index that is gone; 0 = none."""
        return self.position.index


ORIGIN = LogStart()
"""A log that holds all it ever held."""


@frozen
class HardState:
    """The state that a node must keep across restarts: the newest term and its vote in it (paper section 5.2).

    `floor` is the end that its log had before a repair truncated it; (0, 0) if nothing is missing. `directory_id` names
    the directory of a node that has lost an earlier one, or joined; `configurations` are those that it knows of, as
    `raft.membership` writes them.
    """

    term: Term = NO_TERM
    vote: NodeId | None = None
    floor: Position = NO_POSITION
    directory_id: int = 0
    configurations: bytes = b""
