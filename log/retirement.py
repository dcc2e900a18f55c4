"""Removes segments that have left the log: first the log-start checkpoint, then names; keeps spare files and room.

The flush's thread carries out what the owner's has decided. Both threads give and take spare files, each in one step.
"""

import contextlib

import attrs

from log.config import LogConfig
from log.disk import Disk
from log.errors import NoSpace
from log.flush import Flush
from log.frame import Address
from log.segment import Segment, index_name, spare_name
from log.start import Start, commit, prepare
from log.start import keep_room as keep_room_for_start

RETIRED_PER_FLUSH_MAX = 8
"""The most files that one flush removes: a large one takes milliseconds, and appends may wait for that flush."""


@attrs.frozen
class Spare:
    """A file of a retired segment, to be written to again; `size` in bytes."""

    path: str
    size: int


class Retirement:
    """Of the segments of one log."""

    __slots__ = ("_config", "_directory", "_disk", "_log_id", "_spares", "_staged", "begins_at", "room_bytes")

    def __init__(self, disk: Disk, directory: str, config: LogConfig, *, log_id: int, begins_at: Address) -> None:
        self.begins_at = begins_at
        """The address where the log on the disk begins."""
        self.room_bytes = 0
        """The size in bytes of the smallest payload that room is kept for."""
        self._disk = disk
        self._directory = directory
        self._config = config
        self._log_id = log_id
        self._spares: list[Spare] = []
        self._staged: Start | None = None
        """The durable contents of the file for the next checkpoint; None if they are not known."""

    def stage(self, start: Start) -> None:
        """Write `start` under its temporary name, ahead of its time and in any thread.

        On a full disk nothing is staged.
        """
        self._staged = None
        with contextlib.suppress(NoSpace):
            prepare(self._disk, self._directory, start, log_id=self._log_id)
            self._staged = start

    def prepare(self, start: Start) -> None:
        """Write the next checkpoint under its temporary name, unless just that is staged. Raises `NoSpace`."""
        staged, self._staged = self._staged, None
        is_staged = (
            staged is not None
            and (staged.base, staged.before) == (start.base, start.before)
            and staged.payload is start.payload
        )
        if not is_staged:
            prepare(self._disk, self._directory, start, log_id=self._log_id)

    def carry_out(self, flush: Flush, start: Start) -> None:
        """Write the log-start checkpoint, then remove the files of segments before it.

        On a full disk this waits, except for files that a checkpoint already covers. What a power cut leaves of these
        files, recovery removes.
        """
        is_new = start.base > self.begins_at and self._has_prepared(start)
        if is_new:
            commit(self._disk, self._directory)
            self.begins_at = start.base
        leaving = [each for each in flush.retiring if each.base < self.begins_at][:RETIRED_PER_FLUSH_MAX]
        for segment in leaving:
            remove_sidecar(self._disk, self._directory, segment)
            if len(self._spares) < self._config.spare_files_max and segment.size >= self._config.segment_bytes_max:
                spare = Spare(f"{self._directory}/{spare_name(segment.base)}", segment.size)
                self._disk.rename(segment.path, spare.path)
                self._spares.append(spare)
            else:
                self._disk.remove(segment.path)
        flush.retiring = flush.retiring[len(leaving) :]
        if is_new:
            self.keep_room(len(start.payload))

    def _has_prepared(self, start: Start) -> bool:
        """Write the new checkpoint under its temporary name.

        Returns whether there was room; spare files are removed to make some.
        """
        while True:
            try:
                self.prepare(start)
            except NoSpace:
                if not self.give_up_spare():
                    return False
            else:
                return True

    def keep_room(self, payload_bytes: int) -> None:
        """Reserve room for the next trim's checkpoint, with a last payload of this size; may remove spare files."""
        self._staged = None
        for wanted in (max(self.room_bytes, payload_bytes * 3 // 2), payload_bytes):
            while True:
                try:
                    keep_room_for_start(self._disk, self._directory, wanted)
                except NoSpace:
                    if not self.give_up_spare():
                        break
                else:
                    return

    def take_spare(self) -> Spare | None:
        """Returns a spare file to be written to again, which now belongs to the caller; None if there is none."""
        try:
            return self._spares.pop()
        except IndexError:
            return None

    def give_up_spare(self) -> bool:
        """Remove a spare file to free its room. Returns whether there was one."""
        spare = self.take_spare()
        if spare is not None:
            self._disk.remove(spare.path)
        return spare is not None


def remove_sidecar(disk: Disk, directory: str, segment: Segment) -> None:
    """Remove the sidecar of a segment, if it has one."""
    sidecar = f"{directory}/{index_name(segment.base)}"
    if disk.exists(sidecar):
        disk.remove(sidecar)
