"""Opening one log of a store: which bytes behind its manifest are the log, and what must never be cut.

The manifest names the sealed segments. Behind them lie the open ones: whole frames, one after the other, each segment
at the address where the one before it ends. Where that stops, everything further was never acknowledged, or is damage.
The *known durable end* decides which: the greatest of the durable-end checkpoint, the beginning of the open segments,
and the durable end in any whole frame header, also behind the damage. A manifest that is older than the one in the
checkpoint is damage, too.

A torn tail is not cut off: the log continues in a new segment, at an address that was never used, so nothing that a
power cut may bring back is ever taken for a part of it. The new manifest records where the torn segment ends. What
survives beyond the known durable end was read from the page cache, which proves nothing about the disk: it is written
again and synced first.

Every step can be repeated: a crash in between leaves a log that the next opening treats the same way. A log that was
closed, or killed after a flush, costs no sync.
"""

import contextlib
from collections.abc import Sequence

import attrs

from log.batch import StoredBatch
from log.batch_index import BatchIndex
from log.disk import Disk
from log.epoch_cache import EpochCache
from log.errors import CorruptLog, NoSpace
from log.file_pool import FilePool, PooledFile
from log.frame import HEADER_BYTES, Address, DamagedFrame, ForeignFrame, FrameKind, Header, checksum
from log.manifest import Manifest, SealedSegment, file_name, read_manifest
from log.mark import NAME as MARK_NAME
from log.mark import SLOT_BYTES, Mark, MarkFile
from log.recovery import RecoveryReport
from log.salvage import PLAN_NAME
from log.scan import CHUNK_BYTES, durable_end_behind
from log.segment import SEGMENT_SUFFIX, Segment, Window, base_of

SUSPECT_NAME = "suspect"
"""An empty file that a log has while damage that was read in it waits for its repair."""


@attrs.define(eq=False)
class StoreSegment:
    """One file of a store's log; `size` is where its frames end, in bytes.

    `index` is kept from its first batch until a manifest names it as sealed; then its footer has it.
    """

    base: Address
    file: PooledFile
    first_offset: int
    generation: int = 0
    size: int = 0
    newest_ms: int = 0
    index: BatchIndex | None = None
    reserved: int = 0
    """The size up to which there is room on the disk, if something was reserved."""

    @property
    def end(self) -> Address:
        """The address behind its last frame."""
        return Address(self.base + self.size)

    @property
    def sealed(self) -> SealedSegment:
        """Its entry in a manifest."""
        newest_ms = self.index.newest_ms if self.index is not None else self.newest_ms
        return SealedSegment(self.base, self.generation, self.size, self.first_offset, newest_ms)

    def seal(self) -> None:
        """Write the index behind the last frame, where it is no part of the log.

        Left out on a full disk, because it can be rebuilt.
        """
        assert self.index is not None, "a segment is sealed once"
        with contextlib.suppress(NoSpace):
            self.file.cut(self.size)
            self.file.write_at(self.size, [self.index.encode(self.size)])
        self.newest_ms, self.index = self.index.newest_ms, None


@attrs.frozen(kw_only=True)
class RecoveredLog:
    """The state of a log as recovered from its files. The last of `segments` is the one to append to."""

    manifest: Manifest
    mark: MarkFile
    segments: list[StoreSegment]
    epochs: EpochCache
    end_offset: int
    names_changed: bool
    """True if there is a file whose name is not durable yet."""
    report: RecoveryReport


@attrs.define(eq=False)
class Found:
    """An open segment as found: its whole frames, and the greatest durable end that any header records."""

    segment: StoreSegment
    file_bytes: int
    first: Header | None = None
    damage: str | None = None
    durable_end: int = 0
    epochs: list[tuple[int, int]] = attrs.field(factory=list)
    end_offset: int = 0
    epoch: int = 0


class StoreRecovery:
    """One recovery of one log. The caller holds the lock of the store."""

    def __init__(self, disk: Disk, pool: FilePool, directory: str, *, log_id: int, interval_bytes: int) -> None:
        self._disk = disk
        self._pool = pool
        self._directory = directory
        self._log_id = log_id
        self._interval_bytes = interval_bytes

    def run(self) -> RecoveredLog:
        """Recover the log. Returns its state.

        Raises `CorruptLog` for damage below the known durable end, before anything is changed, and for a log that waits
        for its repair (see `store_salvage.py`).
        """
        names = self._disk.list_directory(self._directory)
        for name, cause in ((PLAN_NAME, "its repair was interrupted"), (SUSPECT_NAME, "damage was read in it")):
            if name in names:
                raise CorruptLog(self._directory, 0, cause)
        manifest = read_manifest(self._disk, self._directory, log_id=self._log_id)
        for each in manifest.sealed:
            if each.name not in names:
                raise CorruptLog(f"{self._directory}/{each.name}", 0, "the segment is missing")
        mark = open_mark(self._pool, self._directory, self._log_id)
        newest = mark.newest
        if newest is not None and newest.last_index > manifest.version:
            raise CorruptLog(self._directory, 0, "the manifest is older than the one that was in force")
        found = self._without_unused(self._scan(self._open_bases(names, manifest), manifest))
        marked_end = newest.durable_end if newest is not None else Address(0)
        durable_end = max([marked_end, manifest.open_base, *(each.durable_end for each in found)])
        kept, reason = self._whole(found, manifest)
        end = kept[-1].segment.end if kept else manifest.open_base
        if end < durable_end:
            path = kept[-1].segment.file.path if kept else f"{self._directory}/{file_name(end, 0)}"
            raise CorruptLog(path, kept[-1].segment.size if kept else 0, reason or "the file ends early, or is missing")
        # Every log gets a checkpoint as it is made: one without has lost it.
        report = RecoveryReport(
            segments_scanned=len(found), mark_damaged=mark.damaged or newest is None, segment_missing=not kept
        )
        report = attrs.evolve(report, bytes_rewritten=sum(self._prove(each, durable_end) for each in kept))
        is_blank = not kept or (len(kept) == 1 and not kept[0].segment.size)
        if (
            newest is None
            or newest.last_index != manifest.version
            or (not is_blank and kept[-1].segment.base >= marked_end)
        ):
            # A process that was killed may have left names that no sync covers.
            self._disk.sync_directory(self._directory)
        epochs = self._epochs(manifest, kept)
        segments = [*map(self._sealed_segment, manifest.sealed), *(each.segment for each in kept)]
        end_offset = kept[-1].end_offset if kept else manifest.open_offset
        if reason is not None:
            segments = [each for each in segments if each.size]
            used = max(each.segment.base + each.file_bytes for each in found)
            manifest = self._seal(manifest, segments, epochs, Address(max(used, end) + 1), end_offset)
            report = attrs.evolve(
                report,
                torn_bytes_cut=sum(each.file_bytes for each in found) - sum(each.segment.size for each in kept),
                torn_at=end,
                torn_reason=reason,
                segments_removed=len(found) - len(kept),
            )
            end = manifest.open_base
        if reason is not None or not kept:
            segments.append(self._open_segment(manifest.open_base, end_offset, create=True))
        if newest is None or (newest.durable_end, newest.last_index) != (end, manifest.version):
            mark.write(Mark.of(end, manifest.version, 0, None))
        self._remove_leftovers(names, found, segments)
        return RecoveredLog(
            manifest=manifest,
            mark=mark,
            segments=segments,
            epochs=epochs,
            end_offset=end_offset,
            names_changed=is_blank or reason is not None,
            report=report,
        )

    @staticmethod
    def _open_bases(names: Sequence[str], manifest: Manifest) -> list[Address]:
        bases = sorted(base for name in names if (base := base_of(name, SEGMENT_SUFFIX)) is not None)
        return [base for base in bases if base >= manifest.open_base]

    def _open_segment(self, base: Address, first_offset: int, *, create: bool = False) -> StoreSegment:
        file = self._pool.file(f"{self._directory}/{file_name(base, 0)}", create=create)
        return StoreSegment(base, file, first_offset, index=BatchIndex(self._interval_bytes))

    def _sealed_segment(self, sealed: SealedSegment) -> StoreSegment:
        file = self._pool.file(f"{self._directory}/{sealed.name}")
        return StoreSegment(
            sealed.base, file, sealed.first_offset, sealed.generation, sealed.size_bytes, sealed.newest_ms
        )

    def _scan(self, bases: Sequence[Address], manifest: Manifest) -> list[Found]:
        found: list[Found] = []
        end_offset = manifest.open_offset
        epoch = manifest.epochs[-1].epoch if manifest.epochs else 0
        for base in bases:
            each = Found(self._open_segment(base, end_offset), 0, end_offset=end_offset, epoch=epoch)
            self._scan_one(each)
            found.append(each)
            end_offset, epoch = each.end_offset, each.epoch
        return found

    def _scan_one(self, found: Found, limit: int | None = None) -> None:
        """Read a segment to its end, or to `limit`, or to its first damage."""
        segment, position = found.segment, 0
        index = segment.index
        assert index is not None, "a segment that is scanned has an index"
        found.file_bytes = segment.file.size()
        end = found.file_bytes if limit is None else min(limit, found.file_bytes)
        window = Window(segment.file, end, CHUNK_BYTES)
        try:
            while position < end:
                header = window.header(position, base=segment.base, log_id=self._log_id)
                payload = window.at(position + HEADER_BYTES, header.payload_bytes)
                batch = StoredBatch.read(header, payload)
                if len(payload) < header.payload_bytes:
                    raise DamagedFrame("the file ends inside the frame")
                if checksum(payload) != header.payload_crc:
                    raise DamagedFrame("the checksum of the payload does not match")
                if header.kind != FrameKind.RECORDS:
                    raise DamagedFrame(f"a frame of kind {header.kind} has no place in a log of a store")
                if objection := batch.objection(found.end_offset, found.epoch):
                    raise DamagedFrame(objection)
                found.durable_end = max(found.durable_end, header.durable_end)
                index.note(batch.base_offset, batch.timestamp_ms, position)
                if batch.epoch != found.epoch or not position:
                    found.epochs.append((batch.epoch, batch.base_offset))
                found.end_offset, found.epoch = batch.end_offset, batch.epoch
                position += header.frame_bytes
        except DamagedFrame as damage:
            found.damage = damage.reason
            place = Segment(segment.base, segment.file.path, size=found.file_bytes)
            recorded = durable_end_behind(place, segment.file, position, self._log_id)
            found.durable_end = max(found.durable_end, recorded or 0)
        except ForeignFrame as foreign:
            raise CorruptLog(segment.file.path, position, foreign.reason) from None
        segment.size = position

    @staticmethod
    def _without_unused(found: Sequence[Found]) -> list[Found]:
        """The segments but for files without a frame at an address that another one holds.

        A change of the log that met a full disk had made them; the power cut took back the removal of their names.
        """
        used: list[Found] = []
        for each in found:
            if each.segment.size or not used or each.segment.base >= used[-1].segment.end:
                used.append(each)
            else:
                each.segment.file.close()
        return used

    @staticmethod
    def _whole(found: Sequence[Found], manifest: Manifest) -> tuple[list[Found], str | None]:
        """The segments that are one log, and why it ends before the last byte; None if it does not."""
        kept: list[Found] = []
        end = manifest.open_base
        for at, each in enumerate(found):
            if each.segment.base != end:
                return kept, "the file ends early, or the next segment is missing"
            kept.append(each)
            end = each.segment.end
            follows = at + 1 < len(found) and found[at + 1].segment.base == end
            if each.damage is not None and not follows:
                return kept, each.damage
        return kept, None

    def _prove(self, found: Found, durable_end: int) -> int:
        """Write again what may be in the page cache alone, and sync it. Returns how many bytes that were."""
        segment = found.segment
        start = max(0, durable_end - segment.base)
        if start >= segment.size:
            return 0
        for position in range(start, segment.size, CHUNK_BYTES):
            segment.file.write_at(position, [segment.file.read_at(position, min(CHUNK_BYTES, segment.size - position))])
        segment.file.sync()
        return segment.size - start

    @staticmethod
    def _epochs(manifest: Manifest, kept: Sequence[Found]) -> EpochCache:
        epochs = EpochCache()
        for begun in manifest.epochs:
            epochs.note(begun.epoch, begun.first_index, begun.base_offset)
        for each in kept:
            for epoch, offset in each.epochs:
                epochs.note(epoch, offset, offset)
        epochs.trim(manifest.start_offset, manifest.start_offset)
        return epochs

    def _seal(
        self, before: Manifest, segments: Sequence[StoreSegment], epochs: EpochCache, base: Address, end_offset: int
    ) -> Manifest:
        """End the log where it is torn: all its segments are sealed, the next one begins at `base`."""
        manifest = attrs.evolve(
            before,
            version=before.version + 1,
            open_base=base,
            open_offset=end_offset,
            sealed=tuple(each.sealed for each in segments),
            epochs=tuple(epochs),
        )
        manifest.write(self._disk, self._directory)
        for each in segments:
            if each.index is not None:
                each.seal()
        return manifest

    def _remove_leftovers(self, names: Sequence[str], found: Sequence[Found], segments: Sequence[StoreSegment]) -> None:
        kept = {each.file.path for each in segments}
        for each in found:
            if each.segment.file.path not in kept:
                each.segment.file.close()
        for name in names:
            path = f"{self._directory}/{name}"
            if name.endswith(SEGMENT_SUFFIX) and path not in kept:
                self._disk.remove(path)


def open_mark(pool: FilePool, directory: str, log_id: int) -> MarkFile:
    """Returns the file of the durable-end checkpoint in a log's directory, made if it is missing."""
    file = pool.file(f"{directory}/{MARK_NAME}", create=True, lossy=True)
    if file.size() < 2 * SLOT_BYTES:
        # All the room it will ever need, so that checkpoints can be written on a full disk.
        file.write_at(0, [bytes(2 * SLOT_BYTES)])
    return MarkFile(file, log_id)
