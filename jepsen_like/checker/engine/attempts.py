"""Runs a task in a worker of Spark: an error that a user can cause crosses processes as a value, not as an exception.

Workers import this module and the kernels, and neither Spark's own packages nor the command line.
"""

import errno
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import attrs

from jepsen_like.checker.rows.tasks import Task
from jepsen_like.history.files import UnreadableHistory


@attrs.frozen
class Unreadable:
    """In place of a result: the input that could not be read."""

    path: Path | str
    reason: str


@attrs.frozen
class Lacking:
    """In place of a result: what the machine that did the work ran out of."""

    reason: str
    full_disk: bool = False


def attempt(task: Task) -> Any:
    """Returns a task's result, `Unreadable` or `Lacking`."""
    try:
        return task.execute()
    except UnreadableHistory as error:
        return Unreadable(error.path, error.reason)
    except MemoryError as error:
        return Lacking(f"a worker of the check has no memory left ({error})")
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT):
            raise
        return Lacking(str(error), full_disk=True)


def first_failure(results: Iterable[Any]) -> Unreadable | Lacking | None:
    """Returns the first of these that is no result."""
    return next((one for one in results if isinstance(one, Unreadable | Lacking)), None)
