"""Runs a task in a worker of Spark: an error that a user can cause crosses processes as a value, not as an exception.

Workers import this module and the kernels, and neither Spark's own packages nor the command line.
"""

import errno
from typing import Any

import attrs

from jepsen_like.checker.rows.tasks import Task
from jepsen_like.history.files import UnreadableHistory


@attrs.frozen
class Failed:
    """In place of a result: the input that could not be read, or what the machine that did the work ran out of."""

    error: UnreadableHistory | MemoryError | OSError


def attempt(task: Task) -> Any:
    """Returns a task's result, or that it `Failed`."""
    try:
        return task.execute()
    except UnreadableHistory as error:
        return Failed(error)
    except MemoryError as error:
        return Failed(MemoryError(str(error)))
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT):
            raise
        return Failed(OSError(errno.ENOSPC, str(error)))
