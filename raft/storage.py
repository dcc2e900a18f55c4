"""A node's data on disk, in the core's terms: hard state, entries, and the newest durable write.

An entry is one frame of the log: records become RECORDS frames, everything else CONTROL frames, with the kind of the
entry in the frame's tag. Data and CRC pass through as they are. Term and vote are the log's state blob. Here, and
nowhere else, the core's indexes (1-based, one an entry) meet the offsets of clients (0-based, one a record).

Everything is synchronous. A write is durable once a flush that began after it has ended: `begin_flush` notes the newest
write, `run` may be in another thread, `end_flush` returns it.
"""

import contextlib
import hashlib
import struct
from collections.abc import Callable, Iterable
from itertools import pairwise
from typing import Self

import attrs
import msgpack

from log.config import LogConfig
from log.disk import Disk
from log.errors import CorruptLog, ForeignLog, NoSpace
from log.flush import Flush
from log.frame import HEADER_BYTES, Frame, FrameKind, Pieces
from log.index import LogTail
from log.retention import Retention
from log.salvage import Floor
from log.segmented_log import SegmentedLog
from log.values import frozen
from raft.config import RaftConfig
from raft.effects import LoadEntries, Persist
from raft.log_view import LogView
from raft.model import (
    NO_INDEX,
    NO_POSITION,
    NO_TERM,
    NO_WRITE,
    ORIGIN,
    Batch,
    Entry,
    EntryKind,
    HardState,
    LogIndex,
    LogStart,
    NodeId,
    Offset,
    Position,
    Term,
    WriteId,
)

START_VERSION = 1
SMALL_SNAPSHOT_BYTES = 2**16
"""A smaller one is copied."""
_LONG_BINARY = struct.Struct(">BI")
_LONG_BINARY_TAG = 0xC6
"""The tag that msgpack puts before binary data whose length needs more than 16 bits."""
STATE_VERSION = 1
STATE_WITH_FLOOR_VERSION = 2
STATE_WITH_MEMBERS_VERSION = 3
"""A floor is a promise: a version that knows nothing of it must not read the state at all."""
WARM_ENTRIES = 64
WARM_BYTES = 4 * 1024 * 1024
"""A restart reads back this much of the log's end at once; older entries for a lagging follower are loaded when needed.
"""


def log_id_of(cluster_id: str, node_id: NodeId) -> int:
    """Returns the id in every frame of this node's log, so that another node's bytes are not taken for its own."""
    return int.from_bytes(hashlib.sha256(f"{node_id}/{cluster_id}".encode()).digest()[:8], "little")


def entries_bytes(batches: Iterable[Batch]) -> int:
    """Returns how many bytes entries with these batches take on disk."""
    return sum([len(batch.data) + HEADER_BYTES for batch in batches])


@frozen
class StorageFlush:
    """A flush under way: when it is done, every write up to `write_id` is durable."""

    write_id: WriteId
    flush: Flush

    @property
    def done(self) -> bool:
        """True once the flush has succeeded."""
        return self.flush.done

    def run(self) -> None:
        """Wait for the disk; may be called in another thread, while writes go on."""
        self.flush.run()


class SnapshotToStore:
    """A snapshot of the state machine with all up to `applied`, and the payload that stands for it, uncopied."""

    __slots__ = ("applied", "payload", "snapshot")

    def __init__(self, applied: Position, snapshot: bytes) -> None:
        self.applied, self.snapshot = applied, snapshot
        packer = msgpack.Packer(autoreset=False)
        packer.pack_array_header(4)
        for value in (START_VERSION, applied.index, applied.term):
            packer.pack(value)
        if len(snapshot) <= SMALL_SNAPSHOT_BYTES:
            packer.pack(snapshot)
            self.payload: Pieces | bytes = packer.bytes()
        else:
            self.payload = Pieces([packer.bytes() + _LONG_BINARY.pack(_LONG_BINARY_TAG, len(snapshot)), snapshot])


def _tail_of(start: LogStart) -> LogTail:
    return LogTail(start.index, start.position.term, start.offset)


STATES_OF_ROUND = 16
STATE_ROOM_BYTES = 8 * 1024
"""The room that is kept for what one round may have to remember: states, each with its frame, and entries without data."""


class RaftStorage:
    """The log of one node.

    Errors of the log are raised as they are: `NoSpace` from `reserve` is survivable, `StorageFailed` is not.
    """

    def __init__(self, log: SegmentedLog) -> None:
        self.log = log
        self.written = NO_WRITE
        """The newest write handed to the operating system."""
        self.durable = NO_WRITE
        """The newest write known to be durable."""
        self._state_write = NO_WRITE
        """The newest write with a term or a vote."""
        self._to_install: SnapshotToStore | None = None
        self.was_lost = False
        """True if this node's stored data was set aside, and nothing has taken its place yet."""
        self.set_aside_for: str | None = None
        """The missing or damaged part for which this opening has set the log aside, if it has."""

    @classmethod
    def open(cls, disk: Disk, directory: str, config: LogConfig, *, log_id: int, repair: bool = True) -> Self:
        """Returns the opened log, repaired if it is damaged and nothing that the node promised is lost with the damage.

        Raises what `SegmentedLog.open` raises; `CorruptLog` if a promise may be lost, and for any damage unless
        `repair`.
        """
        amend = _with_floor if repair else None
        storage = cls(SegmentedLog.open(disk, directory, config, log_id=log_id, amend=amend))
        try:
            storage._newest_entries(LogIndex(storage.log.last_index))
        except CorruptLog:
            # A sidecar vouched for a segment that was damaged later. Finding the damage has removed the sidecar, so the
            # next recovery reads the segment.
            storage.close()
            storage = cls(SegmentedLog.open(disk, directory, config, log_id=log_id, amend=amend))
        with contextlib.suppress(NoSpace):
            # Recovery has released the room that was reserved before the restart. Reserve some again, so that a full
            # disk takes votes.
            storage.reserve(0)
        return storage

    @property
    def has_term(self) -> bool:
        """True if the node has been in a term, and so remembers what it promised."""
        return self.log.state is not None and _unpack_state(self.log.state).term > NO_TERM

    @property
    def has_members(self) -> bool:
        """True if the members are known from here, because they have changed since the group began."""
        return self.log.state is not None and bool(_unpack_state(self.log.state).configurations)

    # ---------------------------------------------------------------- writing

    def reserve(self, size: int) -> None:
        """Make sure that a write of `size` bytes will fit.

        Raises `NoSpace` if it will not, before anything is written.
        """
        self.log.reserve(size)

    @property
    def has_room_for_state(self) -> bool:
        """True if some more terms and votes, and the first entry of a leader, will fit for certain."""
        return self.log.room >= STATE_ROOM_BYTES + STATES_OF_ROUND * len(self.log.state or b"")

    def persist(self, persist: Persist) -> None:
        """Write; the state goes first, so that no entry can be durable before its term (P2).

        A write with a `start` resets the log, which waits for the disk; no flush may be under way then.
        """
        if persist.hard_state is not None:
            self.log.save_state(_pack_state(persist.hard_state))
            self._state_write = persist.write_id
        if persist.start is not None:
            start, staged = persist.start, self._to_install
            if staged is None or staged.snapshot is not start.snapshot or staged.applied != start.applied:
                staged = SnapshotToStore(start.applied, start.snapshot)
            self._to_install = None
            self.log.reset(_tail_of(start), staged.payload)
        if persist.entries:
            self.log.append([_to_frame(entry) for entry in persist.entries])
        self.written = persist.write_id

    @property
    def is_durable(self) -> bool:
        """True if there is nothing to flush."""
        return self.durable == self.written

    @property
    def owes_state(self) -> bool:
        """True if a term or a vote was written that is not durable yet."""
        return self.durable < self._state_write

    def begin_flush(self) -> StorageFlush:
        """Returns a flush of everything written so far. There must be no other under way."""
        return StorageFlush(self.written, self.log.begin_flush())

    def end_flush(self, flush: StorageFlush) -> WriteId:
        """Process a flush that is done. Returns the newest write that is durable now."""
        self.log.end_flush(flush.flush)
        self.durable = max(self.durable, flush.write_id)
        return self.durable

    def flush(self) -> WriteId:
        """Begin, run and end a flush in this thread. Returns the newest write that is durable now."""
        flush = self.begin_flush()
        flush.run()
        return self.end_flush(flush)

    # ---------------------------------------------------------------- trimming

    def first_kept(self, retention: Retention, start: LogStart, last_index: LogIndex, now_ms: int) -> LogIndex | None:
        """Returns the lowest index that the rule keeps; None if a log that begins with `start` is to stay as it is.

        No segment leaves that reaches beyond `last_index`, and none unless all that may leave weighs as much as the
        last snapshot: one that weighs more than what leaves for it would be written over and over.
        """
        facts = self.log.segment_facts()
        first_index = min(retention.first_index(facts, now_ms), last_index + 1, max(self.log.last_index, 1))
        leaving_bytes = sum(each.size_bytes for each, next_ in pairwise(facts) if next_.first_index <= first_index)
        if first_index <= start.index + 1 or leaving_bytes < len(start.snapshot):
            return None
        return LogIndex(first_index)

    def trim(self, first_index: LogIndex, applied: Position, snapshot: bytes) -> LogStart | None:
        """Trim the segments below `first_index`. Returns where the log begins then, None if no entry has left.

        Durable with the next flush. `snapshot` is the state machine's, which has applied all up to `applied`.
        """
        return self.trim_with(first_index, SnapshotToStore(applied, snapshot))

    def trim_with(self, first_index: LogIndex, snapshot: SnapshotToStore) -> LogStart | None:
        """Like `trim`; quick, if `stage_trim` was called with the same arguments and its work has ended."""
        log = self.log
        if first_index <= max(log.first_index, 1):
            return None
        start = log.start
        log.trim(first_index, snapshot.payload)
        if log.start is start or not log.start.before.last_index:
            return None  # nothing left, or a segment all of whose entries had been replaced
        before = log.start.before
        position = Position(LogIndex(before.last_index), Term(before.last_epoch))
        return LogStart(position, Offset(before.end_offset), snapshot.applied, snapshot.snapshot)

    def stage_trim(self, first_index: LogIndex, snapshot: SnapshotToStore) -> Callable[[], None] | None:
        """Returns work for another thread that leaves `trim_with` little to do; None if there is none.

        Until it has ended the log may neither be trimmed nor reset.
        """
        return (
            self.log.stage_trim(first_index, snapshot.payload) if first_index > max(self.log.first_index, 1) else None
        )

    def stage_reset(self, start: LogStart) -> Callable[[], None] | None:
        """Returns work for another thread that spares `persist` most of a reset to this `start`; as `stage_trim`."""
        self._to_install = SnapshotToStore(start.applied, start.snapshot)
        return self.log.stage_reset(_tail_of(start), self._to_install.payload)

    # ---------------------------------------------------------------- reading

    def restore(self, cache_bytes_max: int | None = None) -> tuple[HardState, LogView]:
        """Returns the state after a restart.

        Recovery has made all of it durable, because bytes read back may never have reached the disk (P10).

        Raises `CorruptLog` if the state is older than the log.
        """
        self.flush()
        log = self.log
        last_index = LogIndex(log.last_index)
        view = LogView.restore(
            runs=[(LogIndex(start.first_index), Term(start.epoch)) for start in log.epochs],
            last_index=last_index,
            end_offset=Offset(log.end_offset),
            cache_bytes_max=RaftConfig().cache_bytes_max if cache_bytes_max is None else cache_bytes_max,
            entries=self._newest_entries(last_index),
            start=_to_start(log.start.before, log.start_payload()),
        )
        state = HardState() if log.state is None else _unpack_state(log.state)
        if state.term < view.last_term:
            raise CorruptLog(
                "the state", 0, f"its term {state.term} is older than that of the last entry, {view.last_term}"
            )
        return state, view

    def _newest_entries(self, last_index: LogIndex) -> tuple[Entry, ...]:
        if self.log.first_index == NO_INDEX:
            return ()
        first_index = LogIndex(max(self.log.first_index, last_index - WARM_ENTRIES + 1))
        entries = self.entries(first_index, WARM_BYTES)
        return entries if entries[-1].index == last_index else ()

    def load(self, load: LoadEntries) -> tuple[Entry, ...]:
        """Returns the entries that `load` asks for; none if the log does not hold them (any more)."""
        if not 1 <= self.log.first_index <= load.first_index <= self.log.last_index:
            return ()
        return self.entries(load.first_index, load.bytes_max)

    def entries(self, first_index: LogIndex, bytes_max: int, last_index: LogIndex | None = None) -> tuple[Entry, ...]:
        """Returns entries from `first_index` up to `last_index`: at least one, and about `bytes_max` bytes at most."""
        return tuple(map(_to_entry, self.log.read(first_index, bytes_max, last_index)))

    def find_index(self, offset: Offset) -> LogIndex:
        """Returns the index of the entry that holds the record at `offset`. Raises `OffsetOutOfRange` if none does."""
        return LogIndex(self.log.find_offset(offset))

    def close(self) -> None:
        """Make what was written durable and release the files; after a failure only release them."""
        self.log.close()


def _to_frame(entry: Entry) -> Frame:
    batch = entry.batch
    return Frame(
        kind=FrameKind.RECORDS if batch.kind is EntryKind.RECORDS else FrameKind.CONTROL,
        tag=int(batch.kind),
        epoch=entry.term,
        index=entry.index,
        base_offset=entry.base_offset,
        span=batch.span,
        timestamp_ms=batch.timestamp_ms,
        payload=batch.data,
        payload_crc=batch.crc,
    )


def _to_entry(frame: Frame) -> Entry:
    batch = Batch(EntryKind(frame.tag), frame.span, frame.timestamp_ms, bytes(frame.payload), frame.payload_crc)
    return Entry(LogIndex(frame.index), Term(frame.epoch), Offset(frame.base_offset), batch)


def _to_start(before: LogTail, payload: bytes) -> LogStart:
    """Its CRC was good, so anything unexpected is another version's doing, or not a raft log at all."""
    if not before.last_index:
        return ORIGIN
    try:
        values = msgpack.unpackb(payload, max_array_len=4, max_map_len=0, max_ext_len=0)
    except (ValueError, TypeError, msgpack.UnpackException):
        values = None
    match values:
        case [1, int(index), int(term), bytes(snapshot)] if index >= before.last_index:
            position = Position(LogIndex(before.last_index), Term(before.last_epoch))
            return LogStart(position, Offset(before.end_offset), Position(LogIndex(index), Term(term)), snapshot)
        case _:
            raise ForeignLog("the start", 0, f"this version cannot read it: {payload[:40]!r}")


def _with_floor(payload: bytes | None, floor: Floor) -> bytes:
    """Returns the state with the floor of a damaged log that had reached `floor`; an earlier floor may be higher."""
    state = HardState() if payload is None else _unpack_state(payload)
    if state.term < floor.epoch:
        raise CorruptLog("the state", 0, f"its term {state.term} is older than that of an entry, {floor.epoch}")
    reached = Position(LogIndex(floor.index), Term(floor.epoch))
    higher = state.floor if state.floor.up_to_date_with(reached) else reached
    return _pack_state(attrs.evolve(state, floor=higher))


def _pack_state(state: HardState) -> bytes:
    values: tuple[int | bytes | None, ...] = (STATE_VERSION, state.term, state.vote)
    if state.floor != NO_POSITION:
        values = (STATE_WITH_FLOOR_VERSION, state.term, state.vote, state.floor.term, state.floor.index)
    if state.directory_id or state.configurations:
        floor = (state.floor.term, state.floor.index)
        values = (STATE_WITH_MEMBERS_VERSION, state.term, state.vote, *floor, state.directory_id, state.configurations)
    packed: bytes = msgpack.packb(values)
    return packed


def _unpack_state(payload: bytes) -> HardState:
    """Its CRC was good, so anything unexpected is another version's doing, or not a raft log at all."""
    try:
        values = msgpack.unpackb(payload, max_array_len=7, max_map_len=0, max_ext_len=0)
    except (ValueError, TypeError, msgpack.UnpackException):
        values = None
    match values:
        case [1, int(term), int() | None as vote] if term >= 0:
            return HardState(Term(term), None if vote is None else NodeId(vote))
        case [2, int(term), int() | None as vote, int(floor_term), int(floor_index)] if term >= floor_term > 0:
            floor = Position(LogIndex(floor_index), Term(floor_term))
            return HardState(Term(term), None if vote is None else NodeId(vote), floor)
        case [3, int(term), int() | None as vote, int(floor_term), int(floor_index), int(number), bytes(stored)]:
            floor = Position(LogIndex(floor_index), Term(floor_term))
            return HardState(Term(term), None if vote is None else NodeId(vote), floor, number, stored)
        case _:
            raise ForeignLog("the state", 0, f"this version cannot read it: {payload[:40]!r}")
