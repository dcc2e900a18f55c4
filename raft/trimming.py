"""Trimmer: by the retention rule the oldest entries leave the log, and a snapshot takes their place.

The rule is applied `TRIM_EVERY_S`, and each time that the log has grown by a file. Whole files leave, whose entries are
all committed, durable and applied here.
"""

import math
from collections.abc import Callable

from log.retention import KEEP_ALL, Retention
from raft.applier import Applier
from raft.core import RaftCore
from raft.environment import Environment
from raft.flush_schedule import FlushSchedule
from raft.model import LogIndex, LogStart
from raft.notices import SnapshotTooLarge
from raft.snapshot_work import SnapshotWork
from raft.storage import RaftStorage

TRIM_EVERY_S = 1.0
"""The retention rule is applied this often, in addition to each time that the log has grown by a file."""
FIRST_SNAPSHOT_BYTES = 1024 * 1024
"""Room kept on the disk for the first snapshot, so that a disk that this log has filled can still be trimmed."""
TOO_LARGE_S = 60.0
"""After a snapshot that was too large the next one waits this long: the state hardly shrinks within a moment."""


class Trimmer:
    """Trims one node's log. `on_trimmed` is called with where it begins, when something has left it."""

    def __init__(
        self,
        core: RaftCore,
        storage: RaftStorage,
        applier: Applier,
        flushes: FlushSchedule,
        environment: Environment,
        on_trimmed: Callable[[LogStart], None],
        *,
        retention: Retention,
        snapshot_bytes_max: int,
        every_s: float = TRIM_EVERY_S,
    ) -> None:
        self.snapshots = SnapshotWork(
            storage,
            environment.work_beside,
            environment.clock,
            snapshot_bytes_max,
            self._note_trimmed,
            self._note_too_large,
        )
        self._core = core
        self._storage = storage
        self._applier = applier
        self._flushes = flushes
        self._environment = environment
        self._on_trimmed = on_trimmed
        self._retention = retention
        self._every_s = every_s
        self._trims = retention != KEEP_ALL
        self._due = -math.inf
        self._due_at_end: float = 0
        """The end of the log, in bytes, at which the rule is applied before its time."""
        if self._trims:
            storage.log.keep_room(FIRST_SNAPSHOT_BYTES)  # later ones find room by the size of the last

    def tick(self, now: float) -> None:
        """Apply the rule if that is due, and draw pieces of the snapshot under way."""
        if self._trims and (now >= self._due or self._storage.log.end >= self._due_at_end):
            self._trim(now)
            self._environment.turns.lap("raft: trimming the log")
        if self.snapshots.draws:
            self.snapshots.draw()
            self._environment.turns.lap("raft: taking a snapshot")

    def _trim(self, now: float) -> None:
        storage, core, applier = self._storage, self._core, self._applier
        self._due = now + self._every_s
        self._due_at_end = storage.log.end + storage.log.config.segment_bytes_max
        if storage.log.retiring:
            storage.log.retry_retiring()  # the disk was full; there may be room for the log-start checkpoint now
            self._flushes.want()
        if not (applier.is_proven and applier.takes_snapshots) or self.snapshots.is_busy:
            return
        last_index = LogIndex(min(applier.applied_index, core.log.durable_index))
        wall_ms = self._environment.wall_clock_ms()
        first_index = storage.first_kept(self._retention, core.log.start, last_index, wall_ms)
        if first_index is None:
            return
        applied, snapshot = applier.snapshot()
        self._environment.turns.lap("raft: taking a snapshot")
        if snapshot is not None:
            self.snapshots.store(first_index, applied, snapshot)

    def _note_trimmed(self, start: LogStart) -> None:
        self._flushes.want()
        self._on_trimmed(start)

    def _note_too_large(self, size: int) -> None:
        self._environment.notify(SnapshotTooLarge(size, self.snapshots.bytes_max))
        self._due, self._due_at_end = self._environment.clock() + TOO_LARGE_S, math.inf
