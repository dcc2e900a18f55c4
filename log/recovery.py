"""Recovery of a directory after a crash: which bytes are the log, what is cut, and what must never be cut.

Whether an invalid byte may be cut depends on whether it was ever durable. The *known durable end* decides that: the
greatest of

- the durable end recorded by any whole frame header, also behind the damage (headers are trusted alone),
- the end of every segment that has a whole sidecar, or had one (it is written only after the segment and its name were
  synced),
- the durable-end checkpoint that each flush writes (`mark.py`).

Invalid bytes at or beyond it are the torn tail of writes that were never acknowledged: they are cut, and reported.
Invalid bytes below it are damage: recovery raises `CorruptLog` and changes nothing (`salvage.py` is the repair). A
missing segment or a short file is treated the same way.

A file may be longer than its frames: zeros were written ahead, and a recycled file keeps the bytes of its former use.
Zeros where a frame should begin, with no whole frame of this place behind them, are such a rest, and so is whatever
lies between the last frame of a segment and the address at which the next one begins. It is cut, too, so that it is
never read again. Frames of a former use name other addresses, so they do not count.

What survives was read from the page cache, which proves nothing about the disk: after a failed sync the cache shows
bytes that the disk never got. So all beyond the known durable end is written again and synced first.

At the address in the log-start checkpoint (`start.py`) there must be a segment. If it is missing that is damage, unless
a crash interrupted a reset of the log before the segment got its name; then recovery renames it first.

Every step can be repeated: a crash during recovery leaves a directory that the next recovery treats the same way.
"""

import contextlib
from collections.abc import Iterator, Sequence

import attrs

from log import start
from log.disk import Disk, File, rename_file, replace_file
from log.epoch_cache import EpochCache
from log.errors import CorruptLog, ForeignLog, NoSpace
from log.frame import HEADER_BYTES, Address, DamagedFrame, ForeignFrame, Header, checksum
from log.index import SUMMARY_BYTES_READ, DamagedIndex, LogTail, SegmentIndex, Summary, decode_summary, summary_bytes
from log.mark import Mark, MarkFile
from log.salvage import Repaired
from log.scan import CHUNK_BYTES, Scan, scan
from log.segment import (
    INDEX_SUFFIX,
    RESET_SUFFIX,
    SEGMENT_SUFFIX,
    SPARE_SUFFIX,
    Segment,
    Window,
    base_of,
    cut_segments,
    index_name,
    reset_name,
    segment_name,
)
from log.start import Start


@attrs.frozen(kw_only=True)
class RecoveryReport:
    """The findings and repairs of one opening of a log."""

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
    """True if the durable-end checkpoint is damaged, or missing for a log of a store."""
    segment_missing: bool = False
    """True if a log of a store lacks its newest segment, and nothing shows that the segment held anything."""
    repaired: Repaired | None = None
    """The frames that were cut off because of damage below the known durable end."""


@attrs.frozen(kw_only=True)
class Recovered:
    """The state of a log as recovered from its files.

    `segments` is in order and may be empty; only the last has an index and is open.
    """

    start: Start
    segments: list[Segment]
    epochs: EpochCache
    tail: LogTail
    state: bytes | None
    report: RecoveryReport


@attrs.define(eq=False)
class _Found:
    """One segment as found. Without a `scan` its sidecar vouches for it, so it was not read."""

    segment: Segment
    summary: Summary
    durable_end: int
    scan: Scan | None = None

    @property
    def valid_bytes(self) -> int:
        return self.scan.valid_bytes if self.scan is not None else self.segment.size

    @property
    def first(self) -> Header | None:
        return self.scan.first if self.scan is not None else None

    @property
    def damage(self) -> DamagedFrame | None:
        return self.scan.damage if self.scan is not None else None

    @property
    def rest(self) -> bool:
        return self.scan is not None and self.scan.rest

    @property
    def file(self) -> File:
        assert self.segment.file is not None, "a segment that was scanned is open"
        return self.segment.file


@attrs.frozen
class _Hole:
    """The place where the log stops being whole: `keep` segments are whole before it, or whole up to it."""

    address: Address
    keep: int
    error: CorruptLog


def _written_end(found: _Found) -> int:
    """The place behind the last byte that is not zero."""
    end = found.segment.size
    while end > found.valid_bytes:
        start = max(found.valid_bytes, end - CHUNK_BYTES)
        written = found.file.read_at(start, end - start).rstrip(b"\0")
        if written:
            return start + len(written)
        end = start
    return end


class Recovery:
    """One recovery of one directory. The caller holds the directory's lock."""

    def __init__(self, disk: Disk, directory: str, mark: MarkFile, *, log_id: int, interval_bytes: int) -> None:
        self.durable_end: int | None = None
        """The known durable end; None until it is determined. Damage found after that may be repairable."""
        self._disk = disk
        self._directory = directory
        self._mark = mark
        self._log_id = log_id
        self._interval_bytes = interval_bytes
        self._report = RecoveryReport(mark_damaged=mark.damaged)
        self._start = Start()

    def run(self) -> Recovered:
        """Recover the log. Returns its state.

        Raises `CorruptLog` for damage below the known durable end, before anything is changed. Only an interrupted
        reset is completed before that.
        """
        self._start = start.read(self._disk, self._directory, log_id=self._log_id)
        names = self._disk.list_directory(self._directory)
        if reset_name(self._start.base) in names and segment_name(self._start.base) not in names:
            self._finish_reset()
            names = self._disk.list_directory(self._directory)
        with contextlib.ExitStack() as files:
            found = self._find(names, files)
            found, unused = self._without_unused(found)
            marked_end = self._mark.newest.durable_end if self._mark.newest is not None else 0
            known_ends = [marked_end, self._start.base, self._orphans_end(names)]
            durable_end = max([*known_ends, *(each.durable_end for each in found)])
            self.durable_end = durable_end
            hole = self._hole(found, durable_end)
            if hole is not None and (hole.address < durable_end or self._is_missing(hole)):
                raise hole.error
            self._report = attrs.evolve(self._report, segments_scanned=sum(each.scan is not None for each in found))
            kept = found[: hole.keep] if hole is not None else found
            self._require_beginning(kept)
            self._scan_newest(kept, files)
            if hole is not None:
                self._cut(kept, found[hole.keep :], hole)
            for each in unused:
                self._disk.remove(each.segment.path)
            self._remove_leftovers(names, {each.segment.base for each in kept})
            for each in kept:
                if each.scan is not None:
                    self._prove(each, durable_end)
            self._disk.sync_directory(self._directory)
            self._rebuild_indexes(kept)
            recovered = self._assemble(kept)
            files.pop_all()
        return recovered

    def _finish_reset(self) -> None:
        """Complete a reset that a crash interrupted: rename the new first segment.

        All of it was durable before the log-start checkpoint was. The durable-end checkpoint may be older, so it is
        written first.
        """
        base, before = self._start.base, self._start.before
        segment = self._measure(base, reset_name(base))
        with contextlib.ExitStack() as files:
            found = self._scan_segment(segment, files)
            if found.damage is not None:
                raise CorruptLog(segment.path, found.valid_bytes, found.damage.reason)
            state = next(self._states([found]), None)
        self._mark.replace(Mark.of(segment.end, before.last_index, before.last_epoch, state))
        rename_file(self._disk, self._directory, reset_name(base), segment_name(base))

    def _find(self, names: Sequence[str], files: contextlib.ExitStack) -> list[_Found]:
        bases = sorted(base for name in names if (base := base_of(name, SEGMENT_SUFFIX)) is not None)
        found = []
        for base in bases:
            if base < self._start.base:
                continue
            segment = self._measure(base, segment_name(base))
            vouched = self._read_summary(base, names)
            if vouched is not None and vouched.segment_bytes == segment.size and base != bases[-1]:
                found.append(_Found(segment, vouched, segment.end))
                continue
            each = self._scan_segment(segment, files)
            if vouched is not None:
                each.durable_end = max(each.durable_end, base + vouched.segment_bytes)
            found.append(each)
        return found

    def _measure(self, base: Address, name: str) -> Segment:
        path = f"{self._directory}/{name}"
        with contextlib.closing(self._disk.open(path, create=False)) as file:
            return Segment(base, path, size=file.size())

    def _scan_segment(self, segment: Segment, files: contextlib.ExitStack) -> _Found:
        segment.file = file = self._disk.open(segment.path, create=False)
        files.callback(file.close)
        found = scan(segment, file, log_id=self._log_id, interval_bytes=self._interval_bytes)
        return _Found(segment, found.index.summary(found.valid_bytes), found.durable_end, found)

    @staticmethod
    def _without_unused(found: Sequence[_Found]) -> tuple[list[_Found], list[_Found]]:
        """The segments, and apart from them files without a frame within the segment before them.

        That one went on past their beginning, so they were never used: a full disk took back the beginning of a
        segment, and the power cut took back the removal of its name.
        """
        used: list[_Found] = []
        unused: list[_Found] = []
        end = 0
        for each in found:
            if not each.valid_bytes and each.segment.base < end:
                unused.append(each)
            else:
                used.append(each)
                end = each.segment.base + each.valid_bytes
        return used, unused

    def _read_summary(self, base: Address, names: Sequence[str]) -> Summary | None:
        """Returns the summary in the sidecar of a segment; None if there is no whole one."""
        name = index_name(base)
        if name not in names:
            return None
        with contextlib.closing(self._disk.open(f"{self._directory}/{name}", create=False)) as file:
            content = file.read_at(0, SUMMARY_BYTES_READ)
            if (wanted := summary_bytes(content)) > len(content):
                content = file.read_at(0, min(wanted, file.size()))
        try:
            return decode_summary(content, log_id=self._log_id, base=base)
        except DamagedIndex:
            return None

    def _orphans_end(self, names: Sequence[str]) -> int:
        """Returns the greatest end of a segment that is missing but still has a sidecar; 0 if there is none."""
        ends = [0]
        for name in names:
            base = base_of(name, INDEX_SUFFIX)
            if base is not None and base >= self._start.base and segment_name(base) not in names:
                vouched = self._read_summary(base, names)
                ends.append(base + vouched.segment_bytes if vouched is not None else 0)
        return max(ends)

    def _hole(self, found: Sequence[_Found], durable_end: int) -> _Hole | None:
        """The first place where the segments, one after the other, are not one whole log."""
        end = self._start.base
        # The entries before the first segment of a trimmed log are gone, so its first frame is accepted wherever it
        # continues from.
        tail = LogTail() if end == 0 else None
        for keep, each in enumerate(found):
            segment = each.segment
            if segment.base != end:
                return self._gap(found, keep, end)
            if each.first is not None and tail is not None and (objection := tail.objection(each.first)):
                return _Hole(end, keep, CorruptLog(segment.path, 0, objection))
            end = Address(segment.base + each.valid_bytes)
            if each.damage is not None and not self._ends_here(each, found[keep + 1 :], durable_end):
                header = each.damage.header
                named = (header.log_index, header.epoch, header.base_offset) if header else (None, None, None)
                return _Hole(end, keep + 1, CorruptLog(segment.path, each.valid_bytes, each.damage.reason, *named))
            if each.valid_bytes:
                tail = each.summary.tail
        if end < durable_end or (end and not found):
            return self._gap(found, len(found), end)
        return None

    def _require_beginning(self, kept: Sequence[_Found]) -> None:
        """Raises `CorruptLog` if a trimmed log lacks its first entry, durable before the log-start checkpoint."""
        before = self._start.before
        lowest = min((each.summary.lowest[0] for each in kept if each.summary.lowest is not None), default=None)
        tail = next((each.summary.tail for each in reversed(kept) if each.valid_bytes), before)
        if not self._start.is_met(lowest, tail.last_index):
            last = kept[-1]
            reason = (
                f"the log begins with index {before.last_index + 1}, which is missing; all that is here was replaced"
            )
            raise CorruptLog(last.segment.path, last.valid_bytes, reason)

    def _scan_newest(self, kept: list[_Found], files: contextlib.ExitStack) -> None:
        """Read the newest segment if it was not read yet because it has a sidecar.

        Raises `CorruptLog` if its frames are damaged.
        """
        if not kept or kept[-1].scan is not None:
            return
        segment = kept[-1].segment
        kept[-1] = newest = self._scan_segment(segment, files)
        if newest.damage is not None:
            raise CorruptLog(segment.path, newest.valid_bytes, newest.damage.reason)

    def _is_missing(self, hole: _Hole) -> bool:
        """Returns whether this is the place of the first segment, and the log-start checkpoint requires one."""
        return hole.keep == 0 and self._start.base > 0

    @staticmethod
    def _ends_here(each: _Found, behind: Sequence[_Found], durable_end: int) -> bool:
        """Returns True if the log left this segment where its whole frames end, so bytes behind them are a rest."""
        end = each.segment.base + each.valid_bytes
        if behind and behind[0].segment.base == end:
            return each.rest or behind[0].valid_bytes > 0
        return not behind and each.rest and end >= durable_end

    def _gap(self, found: Sequence[_Found], keep: int, end: Address) -> _Hole:
        following = found[keep].segment if keep < len(found) else None
        if following is not None and following.base < end:
            raise CorruptLog(following.path, 0, "the segment begins before the previous one ends")
        if keep == 0:
            path = f"{self._directory}/{segment_name(self._start.base)}"
            return _Hole(end, 0, CorruptLog(path, 0, "the segment is missing"))
        last = found[keep - 1].segment
        return _Hole(end, keep, CorruptLog(last.path, last.size, "the file ends early, or the next segment is missing"))

    def _cut(self, kept: Sequence[_Found], removed: Sequence[_Found], hole: _Hole) -> None:
        """Remove the files behind the hole; `_prove` cuts the torn one. The directory sync makes it durable."""
        torn = [each for each in [*kept[-1:], *removed] if each.valid_bytes < each.segment.size]
        torn_bytes = sum(_written_end(each) - each.valid_bytes for each in torn) + sum(
            each.valid_bytes for each in removed
        )
        for each in reversed(removed):
            self._disk.remove(each.segment.path)
        self._report = attrs.evolve(
            self._report,
            torn_bytes_cut=torn_bytes,
            torn_at=hole.address,
            torn_reason=hole.error.reason,
            segments_removed=len(removed),
        )

    def _remove_leftovers(self, names: Sequence[str], kept: set[Address]) -> None:
        for name in names:
            orphan = base_of(name, INDEX_SUFFIX)
            retired = base_of(name, SEGMENT_SUFFIX)
            if (
                # A spare may hold frames of a segment whose retirement a power cut has undone, so it must never be read
                # again.
                name.endswith((".tmp", SPARE_SUFFIX, RESET_SUFFIX))
                or (orphan is not None and orphan not in kept)
                or (retired is not None and retired < self._start.base)
            ):
                self._disk.remove(f"{self._directory}/{name}")

    def _prove(self, found: _Found, durable_end: int) -> None:
        # Cut twice: if the sync of an earlier cut failed, the size is right in the cache but not on the disk, and
        # cutting to the same size again would change nothing.
        found.file.cut(found.valid_bytes + 1)
        found.file.cut(found.valid_bytes)
        found.segment.size = found.valid_bytes
        start = max(0, durable_end - found.segment.base)
        for position in range(start, found.valid_bytes, CHUNK_BYTES):
            chunk = found.file.read_at(position, min(CHUNK_BYTES, found.valid_bytes - position))
            found.file.write_at(position, [chunk])
        found.file.sync()
        rewritten = max(0, found.valid_bytes - start)
        self._report = attrs.evolve(self._report, bytes_rewritten=self._report.bytes_rewritten + rewritten)

    def _rebuild_indexes(self, kept: Sequence[_Found]) -> None:
        missing = [each for each in kept[:-1] if each.scan is not None]
        for each in missing:
            assert each.scan is not None, "it was just asked"
            write_sidecar(self._disk, self._directory, each.segment, each.scan.index, self._log_id)
            each.file.close()
            each.segment.file = None
        self._report = attrs.evolve(self._report, indexes_rebuilt=len(missing))

    def _assemble(self, kept: Sequence[_Found]) -> Recovered:
        segments: list[Segment] = []
        epochs, tail = EpochCache(), self._start.before
        for each in kept:
            segment, summary = each.segment, each.summary
            lowest = summary.lowest
            if lowest is None:
                lowest = tail.last_index + 1, tail.end_offset
            else:
                cut_segments(segments, *lowest)
                epochs.cut(lowest[0])
            segment.first_index, segment.first_offset = lowest
            segment.newest_ms = summary.newest_ms
            segments.append(segment)
            for begun in summary.epochs:
                epochs.note(begun.epoch, begun.first_index, begun.base_offset)
            if each.valid_bytes:
                tail = summary.tail
        if kept:
            newest = kept[-1]
            assert newest.scan is not None, "the newest segment was scanned"
            newest.segment.index = newest.scan.index
            newest.segment.live = newest.scan.index.living()
        return Recovered(
            start=self._start,
            segments=segments,
            epochs=epochs,
            tail=tail,
            state=next(self._states(kept), None),
            report=self._report,
        )

    def _states(self, kept: Sequence[_Found]) -> Iterator[bytes]:
        """The newest state of each segment that has one, the newest segment first."""
        for each in reversed(kept):
            position = each.summary.state_position
            if position is None:
                continue
            with contextlib.closing(self._disk.open(each.segment.path, create=False)) as file:
                window = Window(file, each.valid_bytes, HEADER_BYTES)
                try:
                    header = window.header(position, base=each.segment.base, log_id=self._log_id)
                except ForeignFrame as foreign:
                    raise ForeignLog(each.segment.path, position, foreign.reason) from None
                except DamagedFrame as damage:
                    raise CorruptLog(each.segment.path, position, damage.reason) from None
                payload = bytes(window.at(position + HEADER_BYTES, header.payload_bytes))
            if checksum(payload) != header.payload_crc:
                raise CorruptLog(each.segment.path, position, "the checksum of the state does not match")
            yield payload


def write_sidecar(disk: Disk, directory: str, segment: Segment, index: SegmentIndex, log_id: int) -> bool:
    """Write the sidecar of a sealed, synced segment.

    Returns False on a full disk, which is no error because it can be rebuilt.
    """
    content = index.encode(log_id=log_id, segment_bytes=segment.size)
    try:
        replace_file(disk, directory, index_name(segment.base), content)
    except NoSpace:
        return False
    return True
