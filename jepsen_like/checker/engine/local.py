"""The same tasks in this process, one after the other: for small histories, tests and machines without Java."""

from collections.abc import Sequence
from typing import Any, Final

from jepsen_like.checker.rows.tasks import Task


class LocalEngine:
    """Runs tasks here and now."""

    alone: Final = True
    """All tasks run on this machine."""

    def run(self, tasks: Sequence[Task]) -> list[Any]:
        """Executes the tasks; returns their results in the same order."""
        return [task.execute() for task in tasks]
