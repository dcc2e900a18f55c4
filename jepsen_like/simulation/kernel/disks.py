"""Cuts power amid a node's work with its disk; `log.memory_disk` decides what is left of writes not synced."""

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
