"""Repair of one log of a store that is damaged: it is cut before the damage, or reset, and what is cut off is kept.

The owner asks for it (`LogStore.repair`) when other copies of the log exist, and afterwards treats this copy as one
that may lack something. All frames are read, sealed segments too, because a disk with one damaged place may have
others. What precedes the first damage stays. A log whose manifest is missing, damaged or older than the one in force is
reset to offset 0: the manifest alone records which frames had been cut, and where the log starts.

The *plan* is the manifest that the repair puts in force, in a file of its own, durable before anything is changed.
Carrying it out can be repeated, so a crash leaves the damaged log before the plan, and the repaired one after it.
Segments that the plan does not name are renamed to `*.damaged` and stay until the next repair. The damaged part of a
segment that is kept in front of it stays in its file, behind the end that the manifest names.
"""

import contextlib

import attrs

from log.batch_index import BatchIndex
from log.disk import read_file, replace_file
from log.epoch_cache import EpochCache
from log.errors import CorruptLog
from log.frame import Address
from log.manifest import Manifest, SealedSegment, file_name, read_manifest
from log.salvage import EVIDENCE_SUFFIX, PLAN_NAME
from log.segment import SEGMENT_SUFFIX
from log.store_recovery import SUSPECT_NAME, Found, StoreRecovery, open_mark


@attrs.frozen(kw_only=True)
class StoreRepaired:
    """The outcome of one repair. `reason` is the damage, None if the log was read to its end and found whole."""

    reason: str | None
    end_offset: int = 0
    """The offset at which the log ends now."""
    was_reset: bool = False
    """Nothing of the log was kept."""
    set_aside: tuple[str, ...] = ()
    """The files of what was cut off."""


@attrs.define
class _Kept:
    """The part of a log in front of its damage."""

    sealed: list[SealedSegment] = attrs.field(factory=list)
    epochs: list[tuple[int, int]] = attrs.field(factory=list)
    end_offset: int = 0
    reason: str | None = None


class StoreSalvage(StoreRecovery):
    """One repair of one log.

    The caller holds the lock of the store, and opens the log in the ordinary way afterwards.
    """

    def repair(self, *, reset: str | None = None) -> StoreRepaired:
        """Repair the log; with a reason to `reset` it nothing is kept.

        Returns what was done; may be repeated after any error.

        Raises `NoSpace` or `StorageFailed` of the disk.
        """
        plan = self._pending()
        reason: str | None = "its repair was interrupted"
        if plan is None:
            plan, reason = self._plan() if reset is None else (self._reset(0), reset)
            if plan is not None:
                for name in self._disk.list_directory(self._directory):
                    if name.endswith(EVIDENCE_SUFFIX):
                        self._disk.remove(f"{self._directory}/{name}")
                replace_file(self._disk, self._directory, PLAN_NAME, plan.encode())
        set_aside = self._carry_out(plan) if plan is not None else ()
        for name in (PLAN_NAME, SUSPECT_NAME):
            if self._disk.exists(f"{self._directory}/{name}"):
                self._disk.remove(f"{self._directory}/{name}")
        self._disk.sync_directory(self._directory)
        if plan is None:
            return StoreRepaired(reason=None)
        return StoreRepaired(
            reason=reason,
            end_offset=max(plan.open_offset, plan.start_offset),
            was_reset=not plan.sealed,
            set_aside=set_aside,
        )

    # The plan

    def _pending(self) -> Manifest | None:
        """Returns the plan that a crash interrupted; a damaged one is taken for none, and made again."""
        content = read_file(self._disk, f"{self._directory}/{PLAN_NAME}")
        if content is None:
            return None
        plan = Manifest.decode(content)
        if plan is None or plan.log_id != self._log_id:
            # Segments may have been set aside already, which the manifest in force does not know.
            return self._reset(0)
        return plan

    def _plan(self) -> tuple[Manifest | None, str | None]:
        """Returns the manifest of the repaired log with the damage; None twice if the log is whole."""
        try:
            manifest = read_manifest(self._disk, self._directory, log_id=self._log_id)
        except CorruptLog as error:
            return self._reset(0), error.reason
        with contextlib.closing(open_mark(self._pool, self._directory, self._log_id)) as mark:
            newest = mark.newest
        marked_end = newest.durable_end if newest is not None else 0
        if newest is not None and newest.last_index > manifest.version:
            return self._reset(newest.last_index), "the manifest is older than the one that was in force"
        kept = self._whole_segments(manifest)
        durable_end = max(marked_end, manifest.open_base)
        if kept.reason is None:
            durable_end = self._open(manifest, kept, durable_end)
        if kept.reason is None:
            return None, None
        end_offset = max(kept.end_offset, manifest.start_offset)
        epochs = EpochCache()
        for begun in manifest.epochs:
            epochs.note(begun.epoch, begun.first_index, begun.base_offset)
        for epoch, offset in kept.epochs:
            if epoch > epochs.last_epoch or not len(epochs):
                epochs.note(epoch, offset, offset)
        epochs.cut(kept.end_offset)
        version = max(manifest.version, newest.last_index if newest is not None else 0) + 1
        return (
            attrs.evolve(
                manifest,
                version=version,
                open_base=self._unused_address(max(durable_end, marked_end)),
                open_offset=end_offset,
                sealed=tuple(kept.sealed),
                epochs=tuple(epochs),
            ),
            kept.reason,
        )

    def _reset(self, version: int) -> Manifest:
        with contextlib.closing(open_mark(self._pool, self._directory, self._log_id)) as mark:
            newest = mark.newest
        if newest is not None:
            version = max(version, newest.last_index)
            base = self._unused_address(newest.durable_end)
        else:
            base = self._unused_address(0)
        with contextlib.suppress(CorruptLog):
            version = max(version, read_manifest(self._disk, self._directory, log_id=self._log_id).version)
        return Manifest(log_id=self._log_id, version=version + 1, open_base=base)

    def _unused_address(self, at_least: int) -> Address:
        """Returns an address behind all that any file of this log was ever written for."""
        end = at_least
        for name in self._disk.list_directory(self._directory):
            stem, _, suffix = name.rpartition(".")
            digits = stem.partition("-")[0]
            if f".{suffix}" in (SEGMENT_SUFFIX, EVIDENCE_SUFFIX) and digits.isascii() and digits.isdigit():
                with contextlib.closing(self._disk.open(f"{self._directory}/{name}", create=False)) as file:
                    end = max(end, int(digits) + file.size())
        return Address(end + 1)

    # What can still be read

    def _whole_segments(self, manifest: Manifest) -> _Kept:
        """Returns the sealed segments up to the first damage in one of them.

        They end with their last batch: where compaction left none before the damage, what stood for it is gone, too.
        """
        kept = _Kept()
        epoch = 0
        for each in manifest.sealed:
            if not self._disk.exists(f"{self._directory}/{each.name}"):
                kept.reason = f"the segment {each.name} is missing"
                return kept
            segment = self._sealed_segment(each)
            segment.index = BatchIndex(self._interval_bytes)
            found = Found(segment, 0, end_offset=each.first_offset, epoch=epoch)
            try:
                self._scan_one(found, each.size_bytes)
            finally:
                segment.file.close()
            epoch = found.epoch
            if segment.size:
                kept.end_offset = found.end_offset
            kept.epochs += found.epochs
            if segment.size < each.size_bytes:
                kept.reason = f"{each.name} is damaged at byte {segment.size}: {found.damage or 'the file ends early'}"
                if segment.size:
                    kept.sealed.append(segment.sealed)
                return kept
            kept.sealed.append(each)
        return kept

    def _open(self, manifest: Manifest, kept: _Kept, durable_end: int) -> int:
        """Add the open segments to `kept`, if one of them is damaged: all that precedes it was durable.

        Returns the known durable end.
        """
        names = self._disk.list_directory(self._directory)
        found = self._without_unused(self._scan(self._open_bases(names, manifest), manifest))
        try:
            durable_end = max([durable_end, *(each.durable_end for each in found)])
            whole, reason = self._whole(found, manifest)
            end = whole[-1].segment.end if whole else manifest.open_base
            if end >= durable_end:
                return durable_end
            last = whole[-1].segment if whole else None
            name, at = (last.file.path.rpartition("/")[2], last.size) if last else (file_name(end, 0), 0)
            kept.reason = f"{name} is damaged at byte {at}: {reason or 'the file ends early, or is missing'}"
            for each in whole:
                if each.segment.size:
                    kept.sealed.append(each.segment.sealed)
                    kept.end_offset = each.end_offset
                kept.epochs += each.epochs
        finally:
            for each in found:
                each.segment.file.close()
        return durable_end

    def _scan_one(self, found: Found, limit: int | None = None) -> None:
        """Read a segment; frames of another log are damage like any other."""
        try:
            super()._scan_one(found, limit)
        except CorruptLog as foreign:
            found.damage, found.segment.size = foreign.reason, foreign.position

    # Carrying it out

    def _carry_out(self, plan: Manifest) -> tuple[str, ...]:
        """Set aside what the plan does not name, and put it in force; may be repeated.

        Returns the names of the files set aside.
        """
        kept = {each.name for each in plan.sealed}
        for name in self._disk.list_directory(self._directory):
            if name.endswith(SEGMENT_SUFFIX) and name not in kept:
                path = f"{self._directory}/{name}"
                self._disk.rename(path, f"{path.removesuffix(SEGMENT_SUFFIX)}{EVIDENCE_SUFFIX}")
        self._disk.sync_directory(self._directory)
        plan.write(self._disk, self._directory)
        names = self._disk.list_directory(self._directory)
        return tuple(name for name in names if name.endswith(EVIDENCE_SUFFIX))
