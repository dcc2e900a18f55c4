"""Cuts power in the middle of a node's work with its disk.

The disk itself is `log.memory_disk`, which decides what a power cut leaves of writes that were not synced.
"""

from collections.abc import Callable


class PowerFailed(Exception):
    """Ends a flush between two of its calls to the disk."""


def failing_after(calls: int) -> Callable[[str, str], None]:
    """A `MemoryDisk.before_call` that lets so many calls through and raises `PowerFailed` at the next."""
    left = iter(range(calls))

    def before_call(operation: str, path: str) -> None:
        if next(left, None) is None:
            raise PowerFailed

    return before_call
