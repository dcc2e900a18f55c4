"""One run of syncs, handed from the thread that owns a log to the one that waits for the disk."""

from collections.abc import Callable, Sequence

import attrs

from log.frame import Address
from log.segment import Segment

LIGHT_BYTES = 256 * 1024
"""What a light flush writes at the most."""


@attrs.frozen
class Spare:
    """A file of a retired segment, to be written to again; `size` in bytes."""

    path: str
    size: int


@attrs.frozen
class Retired:
    """What became of segments that left the log; `kept` still have their names, because the disk was full."""

    spares: tuple[Spare, ...]
    kept: tuple[Segment, ...]


class Flush:
    """Makes everything durable that was appended before it began.

    Made by `begin_flush`, carried out by `run` (in any thread, once), made known by `end_flush`.
    """

    __slots__ = (
        "_active",
        "_cool",
        "_dirty_bytes",
        "_done",
        "_fail",
        "_names_changed",
        "_note_durable",
        "_retire",
        "_retired",
        "_seal",
        "_sealed",
        "_sync_active",
        "_sync_directory",
        "target",
    )

    def __init__(
        self,
        *,
        target: Address,
        sealed: Sequence[Segment],
        active: Segment | None,
        dirty_bytes: int,
        names_changed: bool,
        seal: Callable[[Segment], None],
        sync_active: Callable[[Segment, int], None],
        sync_directory: Callable[[], None],
        retire: Callable[[], Retired] | None,
        cool: Callable[[], None] | None,
        note_durable: Callable[[], None] | None,
        fail: Callable[[BaseException], None],
    ) -> None:
        self.target = target
        self._sealed = sealed
        self._active = active
        self._dirty_bytes = dirty_bytes
        self._names_changed = names_changed
        self._seal = seal
        self._sync_active = sync_active
        self._sync_directory = sync_directory
        self._note_durable = note_durable
        self._retire = retire
        self._cool = cool
        self._retired: Retired | None = None
        self._fail = fail
        self._done = False

    @property
    def done(self) -> bool:
        """Whether `run` went well."""
        return self._done

    @property
    def is_light(self) -> bool:
        """Whether it is one sync of little: no names, no other segments, nothing to retire or to cool."""
        return self._dirty_bytes <= LIGHT_BYTES and not (
            self._names_changed or self._sealed or self._retire or self._cool
        )

    @property
    def sealed(self) -> Sequence[Segment]:
        """The sealed segments that this flush proves."""
        return self._sealed

    @property
    def retired(self) -> Retired | None:
        """What became of the segments that this flush retired; None if there were none."""
        return self._retired

    def run(self) -> None:
        """Sync. `StorageFailed` ends the log: it refuses every later call, and so must its owner.

        So does whatever else climbs out of it, `KeyboardInterrupt` too: nobody knows then what the disk holds.
        """
        try:
            # Names first: a sidecar then proves that its segment was there to stay, so that its loss is noticed.
            if self._names_changed:
                self._sync_directory()
            for segment in self._sealed:
                self._seal(segment)
            if self._active is not None:
                self._sync_active(self._active, self._dirty_bytes)
            if self._note_durable is not None:
                self._note_durable()
            if self._retire is not None:
                self._retired = self._retire()
            if self._cool is not None:
                self._cool()
        except BaseException as error:
            self._fail(error)
            raise
        self._done = True
