"""Snapshots are written outside of the loop: what takes long about a large one goes to another thread, one piece of
work at a time.

A snapshot of the own state machine is written, under a temporary name, while the loop goes on and flushes go on; then
the log is trimmed, and the next flush puts it in force. One of the leader is joined from its parts and written in the
same way, before the core is given its last part as a whole: what is left then is quick. Nothing is promised until then,
so a crash meanwhile leaves the log as it was.
"""

from collections.abc import Callable, Iterable, Iterator

import attrs

from raft.core import RaftCore
from raft.messages import InstallSnapshot
from raft.model import LogIndex, LogStart, Position
from raft.storage import RaftStorage, SnapshotToStore

Done = Callable[[BaseException | None], None]
WorkBeside = Callable[[Callable[[], None], Done], None]
"""`work_beside(work, done)` calls `work` in another thread, then `done` in the loop with its error or None."""

SMALL_BYTES = 1024 * 1024
"""A snapshot of the leader that is no larger is written in the loop."""


DRAW_S = 0.01
"""For how long pieces of the own snapshot are drawn in one turn, and one piece at least."""


def at_once(work: Callable[[], None], done: Done) -> None:
    """Do the work in this thread, before this returns; for tests and simulators."""
    error: BaseException | None = None
    try:
        work()
    except Exception as raised:  # noqa: BLE001 - given to `done`, as a thread would
        error = raised
    done(error)


@attrs.define(eq=False)
class _Drawing:
    """A snapshot in pieces, some of which have been drawn."""

    first_index: LogIndex
    applied: Position
    rest: Iterator[bytes]
    drawn: list[bytes] = attrs.field(factory=list)
    size: int = 0


@attrs.define(eq=False)
class SnapshotWork:
    """The snapshots of one node that are being written."""

    storage: RaftStorage
    beside: WorkBeside
    clock: Callable[[], float]
    bytes_max: int
    trimmed: Callable[[LogStart], None]
    """Called with where the log begins, when something has left it."""
    too_large: Callable[[int], None]
    """Called with the size of a snapshot above `bytes_max`, or of the part of it that was drawn: it is dropped."""
    is_busy: bool = False
    """True while a snapshot is made: until it is written, the log may neither be trimmed nor reset."""
    _installed: InstallSnapshot | None = None
    """A snapshot of the leader, whole and written, whose last part is still to come once more."""

    _drawing: "_Drawing | None" = None
    _is_abandoned: bool = False

    def abandon(self) -> None:
        """The node ends: what is being written is of no use any more."""
        self._is_abandoned = True

    def store(self, first_index: LogIndex, applied: Position, snapshot: bytes | Iterable[bytes]) -> None:
        """Write a snapshot of what all up to `applied` has made, then trim the log below `first_index`.

        One in pieces is drawn first, in as many calls of `draw` as it takes.
        """
        if not isinstance(snapshot, bytes):
            self._drawing, self.is_busy = _Drawing(first_index, applied, iter(snapshot)), True
        elif len(snapshot) > self.bytes_max:
            self.too_large(len(snapshot))
        else:
            self._write(first_index, applied, [snapshot])

    @property
    def is_written(self) -> bool:
        """True once a snapshot of the leader is written, and its last part still to come."""
        return self._installed is not None

    @property
    def draws(self) -> bool:
        """True while pieces are still to be drawn."""
        return self._drawing is not None

    def draw(self) -> None:
        """Draw pieces for `DRAW_S`; after the last one, begin to write.

        Raises `TypeError` for a piece that is not bytes.
        """
        drawing, until = self._drawing, self.clock() + DRAW_S
        assert drawing is not None, "nothing is to be drawn"
        for piece in drawing.rest:
            if not isinstance(piece, bytes):
                raise TypeError(f"a snapshot is made of bytes, not of {type(piece).__name__}")
            drawing.drawn.append(piece)
            drawing.size += len(piece)
            if drawing.size > self.bytes_max:
                self._drawing, self.is_busy = None, False
                self.too_large(drawing.size)
                return
            if self.clock() >= until:
                return
        self._drawing = None
        self._write(drawing.first_index, drawing.applied, drawing.drawn)

    def _write(self, first_index: LogIndex, applied: Position, pieces: list[bytes]) -> None:
        made: list[SnapshotToStore] = []

        def work() -> None:
            made.append(SnapshotToStore(applied, pieces[0] if len(pieces) == 1 else b"".join(pieces)))
            stage = self.storage.stage_trim(first_index, made[0])
            if stage is not None:
                stage()

        def trim() -> None:
            start = self.storage.trim_with(first_index, made[0])
            if start is not None:
                self.trimmed(start)

        self._begin(work, trim)

    def installing(self, last: InstallSnapshot, core: RaftCore) -> InstallSnapshot | None:
        """Returns the message to give to the core for the last part of a snapshot: the snapshot as a whole once it is
        written, the part itself if that is small or of no use. None: it is being written, and the leader will send its
        last part again.
        """
        installed, self._installed = self._installed, None
        if installed is not None and _same_snapshot(installed, last):
            return attrs.evolve(installed, round=last.round)
        staged = core.staged_with(last)
        if last.total <= SMALL_BYTES or staged is None or not staged.is_whole:
            return last
        joined: list[LogStart] = []

        def work() -> None:
            joined.append(staged.join_parts())
            stage = self.storage.stage_reset(joined[0])
            if stage is not None:
                stage()

        def note_written() -> None:
            self._installed = attrs.evolve(last, start=joined[0], offset=0, bytes_left=0)

        self._begin(work, note_written)
        installed, self._installed = self._installed, None  # it is there at once where there is no other thread
        return installed

    def _begin(self, work: Callable[[], None], then: Callable[[], None]) -> None:
        self.is_busy = True

        def on_done(error: BaseException | None) -> None:
            self.is_busy = False
            if self._is_abandoned:
                return
            if error is not None:
                raise error
            then()

        self.beside(work, on_done)


def _same_snapshot(one: InstallSnapshot, other: InstallSnapshot) -> bool:
    places = [(each.term, each.start.position, each.start.applied, each.total) for each in (one, other)]
    return places[0] == places[1]
