"""What is made of a directory after a crash: which bytes are the log, what is cut, and what must never be cut.

The question at every invalid byte is whether it was ever promised. The *known durable end* answers it: the greatest of

- the durable end recorded by any whole frame header, also behind the damage (headers are trusted alone),
- the end of every segment that has a whole sidecar, or had one (it is written only after the segment and its name were
  synced),
- the mark that each flush leaves.

Invalid bytes at or beyond it are the torn tail of writes that nobody was promised: they are cut, and reported. Invalid bytes
below it are damage: `CorruptLog`, and nothing is changed (`salvage.py` says what can be done then). A missing segment or a short file is judged the same way.

A file may be longer than its frames: zeros were written ahead, and a recycled file keeps what its former life left. Zeros
where a frame should begin, with no whole frame of this place behind them, are such a rest, and so is whatever lies between
the last frame of a segment and the address at which the next one begins. It is cut, too, so that nothing in it is ever met
again. Frames of a former life name other addresses, so they are neither frames nor witnesses here.

What survives was read from the page cache, which proves nothing about the platter: after a failed sync the cache shows
bytes that the disk never got. So everything beyond the known durable end is written again and synced before it is trusted.

Every step can be repeated: a crash during recovery finds the same question and gives it the same answer.
"""

import contextlib
from collections.abc import Iterator, Sequence

import attrs

from log.disk import Disk, File, NoSpace, replace_file
from log.epoch_cache import EpochCache
from log.errors import CorruptLog
from log.frame import (
    HEADER_BYTES,
    MAGIC,
    Address,
    DamagedFrame,
    ForeignFrame,
    Header,
    checksum,
    decode_header,
    written_for,
)
from log.index import DamagedIndex, SegmentIndex, SparseIndex, Tail
from log.mark import MarkFile
from log.salvage import Repaired
from log.segment import INDEX_SUFFIX, SEGMENT_SUFFIX, Segment, Window, base_of, index_name, segment_name

_CHUNK_BYTES = 1 << 18


@attrs.frozen(kw_only=True)
class RecoveryReport:
    """What opening a log found and did."""

    torn_bytes_cut: int = 0
    """Bytes beyond the known durable end that were not a whole frame, or came after such bytes.

    Zeros at the end of the file are left out; what a recycled file held before is not.
    """
    torn_at: Address | None = None
    """The address where they began; None if nothing was cut."""
    torn_reason: str | None = None
    segments_removed: int = 0
    """Segment files that lay wholly behind the cut."""
    segments_scanned: int = 0
    """Segments read frame by frame: the newest, and those without a whole sidecar."""
    indexes_rebuilt: int = 0
    bytes_rewritten: int = 0
    """Bytes of unproven durability that were written again before the sync."""
    mark_damaged: bool = False
    repaired: Repaired | None = None
    """What was cut off because of damage below the known durable end."""


@attrs.frozen(kw_only=True)
class Recovered:
    """A log's memory, as its files say. `segments` is in order and may be empty; only the last has an index."""

    segments: list[Segment]
    sparse: SparseIndex
    epochs: EpochCache
    tail: Tail
    state: bytes | None
    report: RecoveryReport


@attrs.define(eq=False)
class _Found:
    """One segment as found. `proven`: its sidecar vouches for it, so it was not scanned.

    `rest`: what follows its frames was never written, or only with zeros.
    """

    segment: Segment
    file: File
    index: SegmentIndex
    valid_bytes: int
    durable_end: int
    proven: bool = False
    first: Header | None = None
    damage: DamagedFrame | None = None
    rest: bool = False


@attrs.frozen
class _Hole:
    """Where the log stops being whole: `keep` segments are whole before it, or whole up to it."""

    address: Address
    keep: int
    error: CorruptLog


def scan(segment: Segment, file: File, *, log_id: int, interval_bytes: int) -> _Found:
    """Read a segment frame by frame, up to its end or its first invalid byte. `CorruptLog` for a foreign frame."""
    window = Window(file, segment.size, _CHUNK_BYTES)
    found = _Found(segment, file, SegmentIndex(segment.base, interval_bytes), 0, 0)
    position = 0
    try:
        while position < segment.size:
            header = window.header(position, base=segment.base, log_id=log_id)
            if found.first is None:
                found.first = header
            elif objection := found.index.tail.objection(header):
                raise DamagedFrame(objection, header)
            payload = window.at(position + HEADER_BYTES, header.payload_bytes)
            if len(payload) < header.payload_bytes:
                raise DamagedFrame("the file ends inside the frame", header)
            if checksum(payload) != header.payload_crc:
                raise DamagedFrame("the checksum of the payload does not match", header)
            found.durable_end = max(found.durable_end, header.durable_end)
            found.index.note(header, position)
            position += header.frame_bytes
    except DamagedFrame as damage:
        witness = _durable_end_behind(segment, file, position, log_id)
        found.damage = damage
        found.durable_end = max(found.durable_end, witness or 0)
        found.rest = witness is None and not any(window.at(position, HEADER_BYTES))
    except ForeignFrame as foreign:
        raise CorruptLog(segment.path, position, foreign.reason) from None
    found.valid_bytes = position
    return found


def _durable_end_behind(segment: Segment, file: File, position: int, log_id: int) -> int | None:
    """The greatest durable end in any whole header from `position` on, wherever one begins; None if there is no such header."""
    durable_end: int | None = None
    for start in range(position, segment.size, _CHUNK_BYTES):
        # A header that begins in this chunk may end in the next.
        content = file.read_at(start, _CHUNK_BYTES + HEADER_BYTES)
        view = memoryview(content)
        at = content.find(MAGIC)
        while 0 <= at < _CHUNK_BYTES:
            address = segment.base + start + at
            # Asked first, because a recycled file is full of frames that were written for other addresses.
            if written_for(view, at) == address:
                with contextlib.suppress(DamagedFrame, ForeignFrame):
                    header = decode_header(view, at, log_id=log_id, address=address)
                    durable_end = max(durable_end or 0, header.durable_end)
            at = content.find(MAGIC, at + len(MAGIC))
    return durable_end


def _written_end(found: _Found) -> int:
    """The place behind the last byte that is not zero."""
    end = found.segment.size
    while end > found.valid_bytes:
        start = max(found.valid_bytes, end - _CHUNK_BYTES)
        written = found.file.read_at(start, end - start).rstrip(b"\0")
        if written:
            return start + len(written)
        end = start
    return end


class Recovery:
    """One recovery of one directory. The caller holds the directory's lock."""

    def __init__(self, disk: Disk, directory: str, mark: MarkFile, *, log_id: int, interval_bytes: int) -> None:
        self.durable_end: int | None = None
        """The known durable end, once it is known; damage that is found from then on may be one that can be repaired."""
        self._disk = disk
        self._directory = directory
        self._mark = mark
        self._log_id = log_id
        self._interval_bytes = interval_bytes
        self._report = RecoveryReport(mark_damaged=mark.damaged)

    def run(self) -> Recovered:
        """Find, judge, mend. `CorruptLog` for damage below the known durable end, before anything is changed."""
        names = self._disk.list_directory(self._directory)
        with contextlib.ExitStack() as files:
            found = self._find(names, files)
            found, unused = self._without_unused(found)
            marked_end = self._mark.newest.durable_end if self._mark.newest is not None else 0
            durable_end = max([marked_end, self._orphans_end(names), *(each.durable_end for each in found)])
            self.durable_end = durable_end
            hole = self._hole(found, durable_end)
            if hole is not None and hole.address < durable_end:
                raise hole.error
            self._report = attrs.evolve(self._report, segments_scanned=sum(not each.proven for each in found))
            kept = self._cut(found, hole) if hole is not None else found
            if kept and kept[-1].proven:
                kept[-1] = self._rescanned(kept[-1])
            for each in unused:
                each.file.close()
                self._disk.remove(each.segment.path)
            self._remove_leftovers(names, {each.segment.base for each in kept})
            for each in kept:
                if not each.proven:
                    self._prove(each, durable_end)
            self._disk.sync_directory(self._directory)
            self._rebuild_indexes(kept)
            recovered = self._assemble(kept)
            files.pop_all()
        return recovered

    def _read_file(self, path: str) -> bytes:
        with contextlib.closing(self._disk.open(path, create=False)) as file:
            return file.read_at(0, file.size())

    def _find(self, names: Sequence[str], files: contextlib.ExitStack) -> list[_Found]:
        bases = sorted(base for name in names if (base := base_of(name, SEGMENT_SUFFIX)) is not None)
        found = []
        for base in bases:
            path = f"{self._directory}/{segment_name(base)}"
            file = files.enter_context(contextlib.closing(self._disk.open(path, create=False)))
            segment = Segment(base, path, size=file.size(), file=file)
            vouched, vouched_bytes = self._sidecar(base, names)
            if vouched is not None and vouched_bytes == segment.size and base != bases[-1]:
                found.append(_Found(segment, file, vouched, segment.size, segment.end, proven=True))
                continue
            each = scan(segment, file, log_id=self._log_id, interval_bytes=self._interval_bytes)
            if vouched is not None:
                each.durable_end = max(each.durable_end, base + vouched_bytes)
            found.append(each)
        return found

    @staticmethod
    def _without_unused(found: Sequence[_Found]) -> tuple[list[_Found], list[_Found]]:
        """The segments, and apart from them empty files within the segment before them.

        That one went on past their beginning, so they were never used: a full disk took back the beginning of a segment,
        and the power cut took back the removal of its name.
        """
        used: list[_Found] = []
        unused: list[_Found] = []
        end = 0
        for each in found:
            if not each.segment.size and each.segment.base < end:
                unused.append(each)
            else:
                used.append(each)
                end = each.segment.base + each.valid_bytes
        return used, unused

    def _sidecar(self, base: Address, names: Sequence[str]) -> tuple[SegmentIndex | None, int]:
        name = index_name(base)
        if name not in names:
            return None, 0
        content = self._read_file(f"{self._directory}/{name}")
        try:
            return SegmentIndex.decode(content, log_id=self._log_id, base=base, interval_bytes=self._interval_bytes)
        except DamagedIndex:
            return None, 0

    def _orphans_end(self, names: Sequence[str]) -> int:
        """What the sidecars of missing segments vouch for."""
        ends = [0]
        for name in names:
            base = base_of(name, INDEX_SUFFIX)
            if base is not None and segment_name(base) not in names:
                vouched, vouched_bytes = self._sidecar(base, names)
                ends.append(base + vouched_bytes if vouched is not None else 0)
        return max(ends)

    def _hole(self, found: Sequence[_Found], durable_end: int) -> _Hole | None:
        """The first place where the segments, one after the other, are not one whole log."""
        end, tail = Address(0), Tail()
        for keep, each in enumerate(found):
            segment = each.segment
            if segment.base != end:
                return self._gap(found, keep, end)
            if each.first is not None and (objection := tail.objection(each.first)):
                return _Hole(end, keep, CorruptLog(segment.path, 0, objection))
            end = Address(segment.base + each.valid_bytes)
            if each.damage is not None and not self._ends_here(each, found[keep + 1 :], durable_end):
                header = each.damage.header
                named = (header.log_index, header.epoch, header.base_offset) if header else (None, None, None)
                return _Hole(end, keep + 1, CorruptLog(segment.path, each.valid_bytes, each.damage.reason, *named))
            if each.valid_bytes:
                tail = each.index.tail
        if end < durable_end:
            return self._gap(found, len(found), end)
        return None

    @staticmethod
    def _ends_here(each: _Found, behind: Sequence[_Found], durable_end: int) -> bool:
        """Whether the log left this segment where its whole frames end, so that what follows them there is a rest."""
        end = each.segment.base + each.valid_bytes
        if behind and behind[0].segment.base == end:
            return each.rest or behind[0].valid_bytes > 0
        return not behind and each.rest and end >= durable_end

    def _gap(self, found: Sequence[_Found], keep: int, end: Address) -> _Hole:
        following = found[keep].segment if keep < len(found) else None
        if following is not None and following.base < end:
            raise CorruptLog(following.path, 0, "the segment begins before the previous one ends")
        if keep == 0:
            path = f"{self._directory}/{segment_name(0)}"
            return _Hole(end, 0, CorruptLog(path, 0, "the segment is missing"))
        last = found[keep - 1].segment
        return _Hole(end, keep, CorruptLog(last.path, last.size, "the file ends early, or the next segment is missing"))

    def _cut(self, found: list[_Found], hole: _Hole) -> list[_Found]:
        """Remove the files behind the hole; `_prove` cuts the torn one. The directory sync makes it durable."""
        kept, removed = found[: hole.keep], found[hole.keep :]
        torn = [each for each in [*kept[-1:], *removed] if each.valid_bytes < each.segment.size]
        torn_bytes = sum(_written_end(each) - each.valid_bytes for each in torn) + sum(
            each.valid_bytes for each in removed
        )
        for each in reversed(removed):
            each.file.close()
            self._disk.remove(each.segment.path)
        self._report = attrs.evolve(
            self._report,
            torn_bytes_cut=torn_bytes,
            torn_at=hole.address,
            torn_reason=hole.error.reason,
            segments_removed=len(removed),
        )
        return kept

    def _rescanned(self, last: _Found) -> _Found:
        """The newest segment needs the index as it grows, which a sidecar does not hold."""
        again = scan(last.segment, last.file, log_id=self._log_id, interval_bytes=self._interval_bytes)
        if again.damage is not None:
            raise CorruptLog(last.segment.path, again.valid_bytes, again.damage.reason)
        return again

    def _remove_leftovers(self, names: Sequence[str], kept: set[Address]) -> None:
        for name in names:
            orphan = base_of(name, INDEX_SUFFIX)
            if name.endswith(".tmp") or (orphan is not None and orphan not in kept):
                self._disk.remove(f"{self._directory}/{name}")

    def _prove(self, found: _Found, durable_end: int) -> None:
        if found.valid_bytes < found.segment.size:
            found.file.cut(found.valid_bytes)
            found.segment.size = found.valid_bytes
        start = max(0, durable_end - found.segment.base)
        for position in range(start, found.valid_bytes, _CHUNK_BYTES):
            chunk = found.file.read_at(position, min(_CHUNK_BYTES, found.valid_bytes - position))
            found.file.write_at(position, [chunk])
        found.file.sync()
        rewritten = max(0, found.valid_bytes - start)
        self._report = attrs.evolve(self._report, bytes_rewritten=self._report.bytes_rewritten + rewritten)

    def _rebuild_indexes(self, kept: Sequence[_Found]) -> None:
        missing = [each for each in kept[:-1] if not each.proven]
        for each in missing:
            write_sidecar(self._disk, self._directory, each.segment, each.index, self._log_id)
        self._report = attrs.evolve(self._report, indexes_rebuilt=len(missing))

    def _assemble(self, kept: Sequence[_Found]) -> Recovered:
        sparse, epochs, tail = SparseIndex(), EpochCache(), Tail()
        for each in kept:
            each.index.apply_to(sparse, epochs)
            if each.valid_bytes:
                tail = each.index.tail
        if kept:
            kept[-1].segment.index = kept[-1].index
        return Recovered(
            segments=[each.segment for each in kept],
            sparse=sparse,
            epochs=epochs,
            tail=tail,
            state=next(self._states(kept), None),
            report=self._report,
        )

    def _states(self, kept: Sequence[_Found]) -> Iterator[bytes]:
        """The newest state of each segment that has one, the newest segment first."""
        for each in reversed(kept):
            position = each.index.state_position
            if position is None:
                continue
            window = Window(each.file, each.valid_bytes, HEADER_BYTES)
            try:
                header = window.header(position, base=each.segment.base, log_id=self._log_id)
            except (DamagedFrame, ForeignFrame) as damage:
                raise CorruptLog(each.segment.path, position, damage.reason) from None
            payload = window.at(position + HEADER_BYTES, header.payload_bytes)
            if checksum(payload) != header.payload_crc:
                raise CorruptLog(each.segment.path, position, "the checksum of the state does not match")
            yield bytes(payload)


def write_sidecar(disk: Disk, directory: str, segment: Segment, index: SegmentIndex, log_id: int) -> bool:
    """Write the index of a sealed, synced segment beside it; False if the disk is full, since it can be rebuilt."""
    content = index.encode(log_id=log_id, segment_bytes=segment.size)
    try:
        replace_file(disk, directory, index_name(segment.base), content)
    except NoSpace:
        return False
    return True
