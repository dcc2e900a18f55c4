"""The pieces of work of a check of queues: a bucket each, for each partition lies in one whole."""

from pathlib import Path

import attrs

from jepsen_like.checker.allowance import Allowance, AllowedLoss
from jepsen_like.checker.log_check import FinalLog
from jepsen_like.checker.queue_check import check_queue, malformed
from jepsen_like.checker.queue_rows import QueueExpectations
from jepsen_like.checker.tasks import Shared, Source, array, loaded, of_model
from jepsen_like.checker.verdict import Findings, Model
from jepsen_like.history.files import UnreadableHistory


@attrs.frozen
class SharedLog:
    """The final log of one node, within reach of tasks: see `FinalLog`."""

    node: int
    first: int
    values: Shared
    epochs: Shared

    def log(self) -> FinalLog:
        """Returns the log itself."""
        return FinalLog(self.node, self.first, array(self.values), array(self.epochs))


@attrs.frozen
class QueueTask:
    """Check all partitions of one bucket."""

    sources: tuple[Source, ...]
    expectations: QueueExpectations
    replicas: tuple[tuple[int, tuple[SharedLog, ...]], ...]
    """The final logs of its partitions."""
    allowances: tuple[Allowance, ...]

    def execute(self) -> tuple[Findings, tuple[AllowedLoss, ...]]:
        """See `Task`."""
        rows = of_model(loaded(self.sources), self.sources[0], Model.QUEUE)
        reason = malformed(rows)
        if reason is not None:
            path = self.sources[0] if isinstance(self.sources[0], Path) else Path("history")
            raise UnreadableHistory(path, f"is malformed: {reason}")
        replicas = {number: [one.log() for one in logs] for number, logs in self.replicas}
        return check_queue(rows, replicas, self.expectations, self.allowances)
