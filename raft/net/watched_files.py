"""Files that a process reads again when they change: looked at when a connection begins, at most once in `LOOK_EVERY_S`."""

import os
import time
from collections.abc import Callable, Iterable
from typing import Final

LOOK_EVERY_S: Final = 1.0


class WatchedFiles:
    """Notices that one of these files has been replaced, changed, removed or made since it was looked at last."""

    def __init__(self, names: Iterable[str | os.PathLike[str]], clock: Callable[[], float] = time.monotonic) -> None:
        """Look at them; read them after this, so that a later change is noticed."""
        self._names = tuple(names)
        self._clock = clock
        self._looked_at = clock()
        self._seen = self._state()

    def have_changed(self) -> bool:
        """Returns True once for each change that it finds; it looks at most once in `LOOK_EVERY_S`."""
        now = self._clock()
        if now - self._looked_at < LOOK_EVERY_S:
            return False
        self._looked_at = now
        before, self._seen = self._seen, self._state()
        return self._seen != before

    def _state(self) -> tuple[object, ...]:
        """Returns what changes with the content of a file: its time, number and size; None for a missing one."""
        states: list[object] = []
        for name in self._names:
            try:
                found = os.stat(name)
            except OSError:
                states.append(None)
            else:
                states.append((found.st_mtime_ns, found.st_ino, found.st_size))
        return tuple(states)
