"""One run of syncs, handed from the thread that owns a log to whoever waits for the disk."""

import os
from collections.abc import Callable, Sequence

from log.disk import storage_error
from log.frame import Address
from log.segment import Segment


class Flush:
    """Makes everything durable that was appended before it began: `steps`, in order.

    Made by `begin_flush`, carried out by `run` (in any thread, once), made known by `end_flush`. A flush of nothing but one file
    can do without a thread that waits: `start`, then an fdatasync of the descriptor that it gives, by whoever, then `finish`,
    both in the thread that owns the log.

    `StorageFailed` ends the log: it refuses every later call, and so must its owner. So does whatever else climbs out of a
    step, `KeyboardInterrupt` too: nobody knows then what the disk holds.
    """

    __slots__ = ("_fail", "done", "lone", "retiring", "sealed", "steps", "target")

    def __init__(self, target: Address, sealed: Sequence[Segment], fail: Callable[[BaseException], None]) -> None:
        self.target = target
        self.sealed = sealed
        """The sealed segments that this flush proves."""
        self.steps: list[Callable[[], None]] = []
        self.lone: Segment | None = None
        """The segment of which a sync is all that takes time: then it is the second of three steps."""
        self.retiring: tuple[Segment, ...] = ()
        """Segments that left the log; once all is done those that still have their names."""
        self.done = False
        """Whether all went well."""
        self._fail = fail

    def run(self) -> None:
        """All steps, here and now; after a `start`, too."""
        self._carry_out(self.steps)
        self.done = True

    def start(self) -> int | None:
        """Do what comes before the sync; the descriptor to sync. None, and nothing is done, if the flush has to `run`."""
        file = None if self.lone is None else self.lone.file
        descriptor = None if file is None else file.sync_descriptor()
        if descriptor is not None:
            self._carry_out(self.steps[:1])
        return descriptor

    def finish(self, code: int) -> None:
        """The fdatasync has ended, with this errno or 0: do what comes behind it, or raise what it says."""
        assert self.lone is not None, "only a flush of one file is synced elsewhere"
        if code:
            error = storage_error(OSError(code, os.strerror(code)), "sync", self.lone.path)
            self._fail(error)
            raise error
        self._carry_out(self.steps[2:])
        self.done = True

    def _carry_out(self, steps: Sequence[Callable[[], None]]) -> None:
        try:
            for step in steps:
                step()
        except BaseException as error:
            self._fail(error)
            raise
