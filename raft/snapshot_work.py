"""Snapshots are written outside of the loop: what takes long about a large one goes to another thread, one piece of work at a time.

A snapshot of the own state machine is written, under a temporary name, while the loop goes on and flushes go on; then the log is trimmed,
and the next flush puts it in force. One of the leader is joined from its parts and written in the same way, before the core is given
its last part as a whole: what is left then is quick. Nothing is promised until then, so a crash meanwhile leaves the log as it was.
"""

from collections.abc import Callable

import attrs

from raft.core import RaftCore
from raft.messages import InstallSnapshot
from raft.model import LogIndex, LogStart
from raft.storage import RaftStorage, SnapshotToStore

Done = Callable[[BaseException | None], None]
WorkBeside = Callable[[Callable[[], None], Done], None]
"""`work_beside(work, done)`: has `work` called in another thread, then `done` in the loop, with what `work` raised or None."""

SMALL_BYTES = 1024 * 1024
"""A snapshot of the leader that is no larger is written in the loop."""


def at_once(work: Callable[[], None], done: Done) -> None:
    """Do the work in this thread, before this returns; for tests and simulators."""
    error: BaseException | None = None
    try:
        work()
    except Exception as raised:  # noqa: BLE001 - given to `done`, as a thread would
        error = raised
    done(error)


@attrs.define(eq=False)
class SnapshotWork:
    """The snapshots of one node that are being written."""

    storage: RaftStorage
    beside: WorkBeside
    is_busy: bool = False
    """Whether one is: until it is written, the log may neither be trimmed nor reset."""
    _installed: InstallSnapshot | None = None
    """A snapshot of the leader, whole and written, whose last part is still to come once more."""

    _is_abandoned: bool = False

    def abandon(self) -> None:
        """The node ends: what is being written is of no use any more."""
        self._is_abandoned = True

    def store(self, first_index: LogIndex, snapshot: SnapshotToStore, trimmed: Callable[[LogStart], None]) -> None:
        """Write `snapshot`, then trim the log below `first_index` and call `trimmed` with where it begins, if anything has left."""
        work = self.storage.stage_trim(first_index, snapshot)

        def trim() -> None:
            start = self.storage.trim_with(first_index, snapshot)
            if start is not None:
                trimmed(start)

        if work is None:
            trim()
        else:
            self._begin(work, trim)

    def installing(self, last: InstallSnapshot, core: RaftCore) -> InstallSnapshot | None:
        """Returns the message to give to the core for the last part of a snapshot: the snapshot as a whole once it is written, the part
        itself if that is small or of no use. None: it is being written, and the leader will send its last part again."""
        installed, self._installed = self._installed, None
        if installed is not None and _same_snapshot(installed, last):
            return attrs.evolve(installed, round=last.round)
        staged = core.staged_with(last)
        if last.total <= SMALL_BYTES or staged is None or not staged.is_whole:
            return last
        joined: list[LogStart] = []

        def work() -> None:
            joined.append(staged.joined())
            stage = self.storage.stage_reset(joined[0])
            if stage is not None:
                stage()

        def written() -> None:
            self._installed = attrs.evolve(last, start=joined[0], offset=0, bytes_left=0)

        self._begin(work, written)
        installed, self._installed = self._installed, None  # it is there at once where there is no other thread
        return installed

    def _begin(self, work: Callable[[], None], then: Callable[[], None]) -> None:
        self.is_busy = True

        def done(error: BaseException | None) -> None:
            self.is_busy = False
            if self._is_abandoned:
                return
            if error is not None:
                raise error
            then()

        self.beside(work, done)


def _same_snapshot(one: InstallSnapshot, other: InstallSnapshot) -> bool:
    places = [(each.term, each.start.position, each.start.applied, each.total) for each in (one, other)]
    return places[0] == places[1]
