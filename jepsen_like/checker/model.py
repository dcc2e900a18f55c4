"""The protocol of models: a model plans the tasks of a check, and joins what they return."""

from collections.abc import Sequence
from typing import Any, Protocol

import attrs

from jepsen_like.checker.allowance import AllowedLoss
from jepsen_like.checker.engine.job import Job
from jepsen_like.checker.rows.tasks import Task
from jepsen_like.checker.verdict import Check, CompactionCounts, Findings, MirrorCounts, TransactionCounts
from jepsen_like.history.files import HistoryReader


@attrs.frozen
class Conclusion:
    """Everything that a model found in a history."""

    findings: Findings
    losses: tuple[AllowedLoss, ...] = ()
    """Acknowledged records that were lost and may have been."""
    unchecked: frozenset[Check] = frozenset()
    """Checks that the history has no evidence for."""
    transactions: TransactionCounts | None = None
    """Of a history of transactions."""
    compaction: CompactionCounts | None = None
    """Of a history of compacted partitions."""
    mirror: MirrorCounts | None = None
    """Of a history of two clusters."""


class ModelCheck(Protocol):
    """A model that one history is checked against. It may run tasks while it plans: the last ones depend on what they return."""

    def plan(self, history: HistoryReader, job: Job) -> Sequence[Task]:
        """Returns the last tasks, which do not depend on each other. Raises `UnreadableHistory`."""
        ...

    def join(self, results: Sequence[Any]) -> Conclusion:
        """Returns everything that is wrong with the history, given the results of the planned tasks."""
        ...


def conclude(model: ModelCheck, history: HistoryReader, job: Job) -> Conclusion:
    """Check a history against a model. Raises `UnreadableHistory`."""
    return model.join(job.run(model.plan(history, job)))
