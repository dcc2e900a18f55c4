"""One run of syncs, handed from the thread that owns a log to the one that waits for the disk."""

from collections.abc import Callable, Sequence

from log.frame import Address
from log.segment import Segment

LIGHT_BYTES = 256 * 1024
"""What a light flush writes at the most."""


class Flush:
    """Makes everything durable that was appended before it began: `steps`, in order.

    Made by `begin_flush`, carried out by `run` (in any thread, once), made known by `end_flush`.
    """

    __slots__ = ("_fail", "done", "is_light", "retiring", "sealed", "steps", "target")

    def __init__(self, target: Address, sealed: Sequence[Segment], fail: Callable[[BaseException], None]) -> None:
        self.target = target
        self.sealed = sealed
        """The sealed segments that this flush proves."""
        self.steps: list[Callable[[], None]] = []
        self.is_light = False
        """Whether a disk in order has it done in a moment: it is one sync of little, and nothing else."""
        self.retiring: tuple[Segment, ...] = ()
        """Segments that left the log; once `run` is done those that still have their names."""
        self.done = False
        """Whether `run` went well."""
        self._fail = fail

    def run(self) -> None:
        """Sync. `StorageFailed` ends the log: it refuses every later call, and so must its owner.

        So does whatever else climbs out of it, `KeyboardInterrupt` too: nobody knows then what the disk holds.
        """
        try:
            for step in self.steps:
                step()
        except BaseException as error:
            self._fail(error)
            raise
        self.done = True
