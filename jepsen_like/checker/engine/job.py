"""A check under way as one value: the engine that runs its tasks, the place where they meet, and the limits that they keep."""

from collections.abc import Sequence
from typing import Any, Protocol

import attrs

from jepsen_like.checker.engine.local import LocalEngine
from jepsen_like.checker.engine.scratch import Scratch
from jepsen_like.checker.rows.columns import Ints
from jepsen_like.checker.rows.gather import LIMITS, Limits
from jepsen_like.checker.rows.tasks import Shared, Task


class TaskRunner(Protocol):
    """An engine runs tasks, here or elsewhere."""

    @property
    def alone(self) -> bool:
        """Returns whether all tasks run on this machine."""
        ...

    def run(self, tasks: Sequence[Task]) -> list[Any]:
        """Executes the tasks; returns their results in the same order."""
        ...


@attrs.frozen
class Job:
    """A check under way."""

    engine: TaskRunner
    scratch: Scratch
    limits: Limits = LIMITS

    def run(self, tasks: Sequence[Task]) -> list[Any]:
        """Executes the tasks; returns their results in the same order."""
        return self.engine.run(tasks)

    def share(self, array: Ints) -> Shared:
        """Makes an array reachable for tasks: as it is for those of this process, in a file for others."""
        return array if isinstance(self.engine, LocalEngine) else self.scratch.share(array)
