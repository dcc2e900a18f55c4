"""One flush of a log: made in the log's thread, carried out by the thread, or kernel, that waits for the disk."""

import os
from collections.abc import Callable, Sequence

from log.disk import storage_error
from log.frame import Address
from log.segment import Segment


class Flush:
    """Makes everything durable that was appended before it began: `steps`, in order.

    Made by `begin_flush`, carried out by `run` (in any thread, once), completed by `end_flush`. A flush of only one
    file needs no thread that waits: `start`, then an fdatasync of the descriptor that it returns, carried out anywhere,
    then `finish`; `start` and `finish` run in the thread that owns the log.

    `StorageFailed` ends the log: it refuses every later call, and so must its owner. So does any other exception that a
    step raises, even `KeyboardInterrupt`, because it is unknown then what the disk holds.
    """

    __slots__ = ("_fail", "done", "lone", "retiring", "sealed", "steps", "target")

    def __init__(self, target: Address, sealed: Sequence[Segment], fail: Callable[[BaseException], None]) -> None:
        self.target = target
        self.sealed = sealed
        """The sealed segments that are durable after this flush."""
        self.steps: list[Callable[[], None]] = []
        self.lone: Segment | None = None
        """The segment whose sync is the only slow step, and then the second of three; None if there are others."""
        self.retiring: tuple[Segment, ...] = ()
        """Segments that have left the log; after the flush those whose files are still to be removed."""
        self.done = False
        """True once all steps have succeeded."""
        self._fail = fail

    def run(self) -> None:
        """Carry out all steps, in this thread; after a `start`, those that are left.

        Raises `StorageFailed` if the disk fails.
        """
        self._carry_out(self.steps)
        self.done = True

    def start(self) -> int | None:
        """Carry out the steps before the sync.

        Returns the descriptor to sync; None, with nothing done, if the flush must `run`.
        """
        file = None if self.lone is None else self.lone.file
        descriptor = None if file is None else file.sync_descriptor()
        if descriptor is not None:
            self._carry_out(self.steps[:1])
        return descriptor

    def finish(self, code: int) -> None:
        """Carry out the steps after the fdatasync, which has ended with the errno `code`.

        Raises `StorageFailed` unless that is 0.
        """
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
