"""Repair of a log that is damaged below its durable end: it is truncated, and the floor records how far it had reached.

The log is cut before the first damaged frame, and its owner's state is written behind the cut together with the
*floor*: the greatest (epoch, index) that the log is known to have held. The owner can then refuse whatever is older
than the floor until it has fetched again what was lost. A trimmed log whose first entry is among what is lost is cut
where it begins, because all frames left in front of the damage had been replaced. This is done only if the rest is
certain:

- the newest state. It is in a frame, and the durable-end checkpoint holds the newest one below it. If a stretch without
  readable headers may hide a newer one than either, the repair is refused. It is also refused if a state newer than the
  checkpoint's is itself damaged, even behind the known durable end, because after a power cut the checkpoint may be
  older than what was acknowledged;
- where the durable log ended. The last header below the durable end, or the checkpoint, records it.

A header is trusted alone: it has a checksum and its own address, so reading can continue behind a damaged stretch. All
segments are read, even those with sidecars, because a disk with one damaged place may have others.

What is cut off is kept in files next to the log (`*.damaged`) until the next repair. A *plan* is made durable first and
carried out then; every step can be repeated, so a crash anywhere leads to the same log: before the plan to the damaged
one, after it to the repaired one.
"""

import contextlib
import struct
from collections.abc import Callable, Sequence
from typing import NoReturn, Self

import attrs

from log.disk import Disk, File, read_file, replace_file
from log.errors import CorruptLog, NoSpace
from log.frame import (
    HEADER_BYTES,
    MAGIC,
    Address,
    DamagedFrame,
    ForeignFrame,
    FrameKind,
    Header,
    checksum,
    decode_header,
)
from log.index import LogTail
from log.mark import Mark, MarkFile
from log.segment import INDEX_SUFFIX, SEGMENT_SUFFIX, Segment, Window, base_of, segment_name
from log.start import Start
from log.start import read as read_start

PLAN_NAME = "repair"
EVIDENCE_SUFFIX = ".damaged"
_CHUNK_BYTES = 1 << 18
_MAGIC = b"QLRP"
_VERSION = 1
_LAYOUT = struct.Struct("<4sB3xQQQQQI")


@attrs.frozen(order=True)
class Floor:
    """The last frame that a log held before it was cut, ordered as it compares: epoch first; (0, 0) = none."""

    epoch: int = 0
    index: int = 0


Amend = Callable[[bytes | None, Floor], bytes]
"""`amend(state, floor)` returns the owner's state with the floor in it.

Raises `CorruptLog` if the state cannot be the newest.
"""


@attrs.frozen
class Repaired:
    """The report of a repair: the log, durable up to `cut_to`, was cut at `cut_from`; it had reached `floor`."""

    cut_from: Address
    cut_to: Address
    floor: Floor


@attrs.frozen
class Repair:
    """The plan of a repair: cut the log, and put `state` behind the cut."""

    outcome: Repaired
    state: bytes

    def encode(self, log_id: int) -> bytes:
        """Returns the content of the plan's file."""
        cut, floor = self.outcome, self.outcome.floor
        head = (_MAGIC, _VERSION, log_id, cut.cut_from, cut.cut_to, floor.epoch, floor.index, len(self.state))
        content = _LAYOUT.pack(*head) + self.state
        return content + checksum(content).to_bytes(4, "little")

    @classmethod
    def decode(cls, content: bytes, *, log_id: int) -> Self | None:
        """Returns the plan in a file; None unless it is whole and for this log."""
        if len(content) < _LAYOUT.size + 4 or checksum(content[:-4]) != int.from_bytes(content[-4:], "little"):
            return None
        magic, version, owner, cut_from, cut_to, epoch, index, size = _LAYOUT.unpack_from(content)
        state = content[_LAYOUT.size : -4]
        if (magic, version, owner, size) != (_MAGIC, _VERSION, log_id, len(state)):
            return None
        return cls(Repaired(Address(cut_from), Address(cut_to), Floor(epoch, index)), state)


# -------------------------------------------------------------------- what can still be read


@attrs.define
class _Survey:
    """The contents of the readable headers of a damaged log. Addresses in the whole stream, ends exclusive."""

    gaps: list[tuple[int, int]] = attrs.field(factory=list)
    """Stretches without a readable header."""
    damage: int | None = None
    """The address at which the first damaged frame begins."""
    end: int = 0
    durable_end: int = 0
    floor: Floor = attrs.field(factory=Floor)
    lowest: int | None = None
    """The lowest index that a frame before the damage writes or cuts from."""
    last_index: int = 0
    """The log's last one in front of the damage."""
    state_at: int | None = None
    state: bytes | None = None
    """The payload of the newest STATE frame; None if it is damaged."""

    def note_gap(self, start: int, end: int) -> None:
        if self.damage is None:
            self.damage = start
        self.gaps.append((start, end))

    def note(self, header: Header, payload: memoryview) -> None:
        whole = len(payload) == header.payload_bytes and checksum(payload) == header.payload_crc
        if not whole and self.damage is None:
            self.damage = header.address
        if self.damage is None:
            self._note_whole(header)
        self.durable_end = max(self.durable_end, header.durable_end)
        self.floor = max(self.floor, Floor(header.epoch, header.log_index))
        if header.kind == FrameKind.STATE:
            self.state_at, self.state = header.address, bytes(payload) if whole else None
        self.end = header.address + header.frame_bytes

    def _note_whole(self, header: Header) -> None:
        self.last_index = header.log_index
        if header.kind != FrameKind.STATE:
            written = header.log_index + (header.kind == FrameKind.TRUNCATE)
            self.lowest = written if self.lowest is None else min(self.lowest, written)

    def may_hide(self, start: int, end: int) -> bool:
        """Returns True if this stretch could hide a frame."""
        return start < end and any(first < end and stop > start for first, stop in self.gaps)


class _Surveyor:
    """Reads segments from one end to the other, past every damage."""

    def __init__(self, disk: Disk, directory: str, log_id: int, base: Address) -> None:
        self._disk = disk
        self._directory = directory
        self._log_id = log_id
        self._survey = _Survey(end=base)
        # What the first segment of a trimmed log follows is gone.
        self._tail: LogTail | None = None if base else LogTail()

    def survey(self, bases: Sequence[Address]) -> _Survey:
        """Returns what can still be read.

        Raises `CorruptLog` for what no damage explains: another log's frames, or frames that contradict each other.
        """
        with contextlib.ExitStack() as files:
            segments = [self._open(base, files) for base in bases]
            first = [self._resync(segment, 0) for segment in segments]
            # A file without any frame may never have been a part of the log.
            segments = [each for each, at in zip(segments, first, strict=True) if at < each.size]
            for at, segment in enumerate(segments, start=1):
                self._read(segment, segments[at].base if at < len(segments) else None)
        return self._survey

    def _open(self, base: Address, files: contextlib.ExitStack) -> Segment:
        path = f"{self._directory}/{segment_name(base)}"
        file = files.enter_context(contextlib.closing(self._disk.open(path, create=False)))
        return Segment(base, path, size=file.size(), file=file)

    def _read(self, segment: Segment, limit: Address | None) -> None:
        """One segment; what lies at or beyond `limit`, where the next one begins, is none of the log's."""
        survey = self._survey
        if segment.base < survey.end:
            self._contradiction(segment, 0, "the segment begins before the previous one ends")
        if segment.base > survey.end:
            self._gap(survey.end, segment.base)
        survey.end = segment.base
        size = segment.size if limit is None else min(segment.size, limit - segment.base)
        file = segment.file
        assert file is not None, "the segment was opened"
        window = Window(file, size, _CHUNK_BYTES)
        position = 0
        while position < size:
            try:
                header = window.header(position, base=segment.base, log_id=self._log_id)
            except DamagedFrame:
                start = position
                position = self._resync(segment, position + 1, size)
                if position < size or limit is not None:
                    self._gap(segment.base + start, segment.base + position)
                    survey.end = segment.base + position
                continue
            except ForeignFrame as foreign:
                self._contradiction(segment, position, foreign.reason)
            self._require_sequence(segment, header)
            survey.note(header, window.at(position + HEADER_BYTES, header.payload_bytes))
            position += header.frame_bytes

    def _gap(self, start: int, end: int) -> None:
        self._survey.note_gap(start, end)
        self._tail = None

    def _require_sequence(self, segment: Segment, header: Header) -> None:
        """Before the first gap, each frame must follow the one before it."""
        if self._tail is None:
            return
        if objection := self._tail.objection(header):
            self._contradiction(segment, header.address - segment.base, objection)
        self._tail = LogTail(header.log_index, header.epoch, header.end_offset)

    def _contradiction(self, segment: Segment, position: int, reason: str) -> NoReturn:
        raise CorruptLog(segment.path, position, reason)

    def _resync(self, segment: Segment, position: int, size: int | None = None) -> int:
        """Returns the position of the next whole header from `position` on; `size` if there is none."""
        file = segment.file
        assert file is not None, "the segment was opened"
        size = segment.size if size is None else size
        for start in range(position, size, _CHUNK_BYTES):
            content = file.read_at(start, min(_CHUNK_BYTES + HEADER_BYTES, size - start))
            view = memoryview(content)
            at = content.find(MAGIC)
            while 0 <= at < _CHUNK_BYTES:
                with contextlib.suppress(DamagedFrame, ForeignFrame):
                    decode_header(view, at, log_id=self._log_id, address=segment.base + start + at)
                    return start + at
                at = content.find(MAGIC, at + 1)
        return size


# -------------------------------------------------------------------- what is to be done


class Salvage:
    """Repairs one directory. The caller holds its lock, and recovers the log in the ordinary way afterwards."""

    def __init__(self, disk: Disk, directory: str, *, log_id: int, mark: MarkFile) -> None:
        self._disk = disk
        self._directory = directory
        self._log_id = log_id
        self._mark = mark

    def pending(self) -> Repair | None:
        """Returns the plan of a repair that a crash interrupted, None if there is none.

        Raises `CorruptLog` if it cannot be read.
        """
        path = f"{self._directory}/{PLAN_NAME}"
        content = read_file(self._disk, path)
        if content is None:
            return None
        plan = Repair.decode(content, log_id=self._log_id)
        if plan is None:
            raise CorruptLog(path, 0, "the plan of an interrupted repair is damaged itself")
        return plan

    def plan(self, found: CorruptLog, durable_end: int, amend: Amend) -> Repair:
        """Determine what can be kept, and write the plan, durably. The log itself is not changed. Returns the plan.

        Raises `found`, the damage, again, with what is missing, if the owner's newest state may be lost.
        """
        mark = self._mark.newest
        start = self._start()
        survey = _Surveyor(self._disk, self._directory, self._log_id, start.base).survey(self._bases(start.base))
        durable_end = max(durable_end, survey.durable_end)
        if survey.end < durable_end:
            survey.note_gap(survey.end, durable_end)
        if survey.damage is None or survey.damage >= durable_end:
            raise found
        if survey.may_hide(durable_end - 1, durable_end) and (mark is None or mark.durable_end < durable_end):
            raise attrs.evolve(found, reason=f"{found.reason}; where the durable log ended is not known either")
        floor = survey.floor
        if mark is not None:
            floor = max(floor, Floor(mark.last_epoch, mark.last_index))
        state = self._newest_state(found, survey, durable_end, mark)
        cut_from = survey.damage if start.is_met(survey.lowest, survey.last_index) else start.base
        outcome = Repaired(Address(cut_from), Address(durable_end), floor)
        plan = Repair(outcome, amend(state, floor))
        for name in self._disk.list_directory(self._directory):
            if name.endswith(EVIDENCE_SUFFIX):
                self._disk.remove(f"{self._directory}/{name}")
        replace_file(self._disk, self._directory, PLAN_NAME, plan.encode(self._log_id))
        return plan

    @staticmethod
    def _newest_state(found: CorruptLog, survey: _Survey, durable_end: int, mark: Mark | None) -> bytes | None:
        """Returns the newest durable state; None if there never was one. Raises `found` unless that is certain."""
        told_by_mark = mark.durable_end if mark is not None and mark.state_kept else 0
        at = survey.state_at
        if survey.may_hide(max(told_by_mark, at or 0), durable_end):
            raise attrs.evolve(found, reason=f"{found.reason}; a newer state of this node may be among what is lost")
        if at is not None and at >= told_by_mark:
            if survey.state is None:
                raise attrs.evolve(found, reason=f"{found.reason}; the newest state of this node is lost")
            return survey.state
        return mark.state if mark is not None and mark.state_kept else None

    def carry_out(self, plan: Repair) -> None:
        """Cut the log; may be repeated. What is left ends at `cut_from`, and no file records a later durable end."""
        cut_from, first = plan.outcome.cut_from, self._start().base
        for base in reversed(self._bases(first)):
            path = f"{self._directory}/{segment_name(base)}"
            if base >= cut_from:
                self._set_aside(path, f"{self._directory}/{base:020d}{EVIDENCE_SUFFIX}")
                continue
            with contextlib.closing(self._disk.open(path, create=False)) as file:
                if file.size() < cut_from - base:
                    continue  # it ends before, or was never used and lies within the one before it
                if file.size() > cut_from - base:
                    self._keep_evidence(file, cut_from - base, cut_from)
                # Cut twice, as in `Recovery`: a cut whose sync failed is visible in the cache, but not on the disk.
                file.cut(cut_from - base + 1)
                file.cut(cut_from - base)
                file.sync()
        for name in self._disk.list_directory(self._directory):
            if base_of(name, INDEX_SUFFIX) is not None:
                self._disk.remove(f"{self._directory}/{name}")
        if cut_from == first:
            # Nothing is left of the first segment, but it is not missing.
            self._disk.open(f"{self._directory}/{segment_name(first)}", create=True).close()
        self._mark.replace(Mark.of(Address(0), 0, 0, None))
        self._disk.sync_directory(self._directory)

    def finish(self) -> None:
        """Remove the plan, once the state is durable behind the cut."""
        self._disk.remove(f"{self._directory}/{PLAN_NAME}")
        self._disk.sync_directory(self._directory)

    def _set_aside(self, path: str, evidence: str) -> None:
        """A whole segment; one that is there for the second time holds only the state of an interrupted repair."""
        if self._disk.exists(evidence):
            self._disk.remove(path)
        else:
            self._disk.rename(path, evidence)

    def _keep_evidence(self, file: File, position: int, address: Address) -> None:
        """Copy what is going to be cut, unless that was done before.

        On a full disk the copy is given up, because nothing depends on it.
        """
        name = f"{address:020d}{EVIDENCE_SUFFIX}"
        if self._disk.exists(f"{self._directory}/{name}"):
            return
        with contextlib.suppress(NoSpace):
            replace_file(self._disk, self._directory, name, file.read_at(position, file.size() - position))

    def _bases(self, first: Address) -> list[Address]:
        names = self._disk.list_directory(self._directory)
        bases = sorted(base for name in names if (base := base_of(name, SEGMENT_SUFFIX)) is not None)
        return [base for base in bases if base >= first]

    def _start(self) -> Start:
        return read_start(self._disk, self._directory, log_id=self._log_id)
