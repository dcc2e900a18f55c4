"""The pieces of work of a check of queues of elements, sets and keys: a group of whole objects each."""

from collections.abc import Sequence

import attrs

from jepsen_like.checker.allowance import Allowance, AllowedLoss
from jepsen_like.checker.elements.key_values import check_key_values
from jepsen_like.checker.elements.losses import forgive_elements
from jepsen_like.checker.elements.queues import check_element_queues
from jepsen_like.checker.elements.sets import check_sets
from jepsen_like.checker.engine.job import Job
from jepsen_like.checker.groups import Long, sort_out
from jepsen_like.checker.model import Conclusion
from jepsen_like.checker.rows.columns import Columns
from jepsen_like.checker.rows.packs import Packs
from jepsen_like.checker.rows.tasks import Source, Task, of_model, require_sound
from jepsen_like.checker.search import SearchBounds
from jepsen_like.checker.verdict import NOUNS, QUEUES_OF_ELEMENTS, SETS, Check, Findings, Model
from jepsen_like.history.files import HistoryReader


def findings_of(rows: Columns, model: Model, bounds: SearchBounds) -> Findings:
    """Returns everything that is wrong with the objects in `rows`, which hold all operations of each of them."""
    if model in QUEUES_OF_ELEMENTS:
        return check_element_queues(rows, model, bounds)
    if model in SETS:
        return check_sets(rows, model)
    return check_key_values(rows, bounds)


@attrs.frozen
class ObjectsTask:
    """Check all objects of a group."""

    sources: tuple[Source, ...]
    model: Model
    bounds: SearchBounds
    rows_max: int
    """See `Limits.object`."""
    allowances: tuple[Allowance, ...] = ()

    def execute(self) -> tuple[Findings, tuple[AllowedLoss, ...]]:
        """See `Task`."""
        packs, losses = Packs.of(self.sources, self.rows_max), list[AllowedLoss]()
        findings = packs.report_large(self.sources, lambda obj: f"{NOUNS[self.model]} {obj}")
        for _, rows in packs.rows(self.sources):
            of_model(rows, self.sources[0], self.model)
            require_sound(rows, self.sources)
            found, lost = self._judge(rows)
            findings = findings.plus(found)
            losses += lost
        return findings, tuple(losses)

    def _judge(self, rows: Columns) -> tuple[Findings, tuple[AllowedLoss, ...]]:
        """Returns the findings about rows, in which allowed losses count as acknowledged and lost, and these losses."""
        if not self.allowances:
            return findings_of(rows, self.model, self.bounds), ()
        rows, losses = forgive_elements(rows, self.allowances)
        found, forgiven = findings_of(rows, self.model, self.bounds), sum(loss.records for loss in losses)
        return (
            attrs.evolve(
                found,
                ok=found.ok + forgiven,
                info=found.info - forgiven,
                acked=found.acked + forgiven,
                lost_acked=found.lost_acked + forgiven,
            ),
            losses,
        )


def whole_groups(history: HistoryReader, model: Model, job: Job) -> list[tuple[Source, ...]]:
    """Returns the rows of groups of whole objects. Only logs and registers are divided further."""
    return [sources for sources in sort_out(history, model, job).groups if not isinstance(sources, Long)]


@attrs.frozen
class ObjectsCheck:
    """The check of queues of elements, sets or keys; see `ModelCheck`."""

    model: Model
    allowances: tuple[Allowance, ...] = ()
    """The faults that may have cost elements; of queues whose elements are taken at least once."""

    def plan(self, history: HistoryReader, job: Job) -> Sequence[Task]:
        """Returns a task for each group of objects. Raises `UnreadableHistory`."""
        limits = job.limits
        groups = whole_groups(history, self.model, job)
        allowances = self.allowances if self.model is Model.TOTAL_QUEUE else ()
        return [ObjectsTask(sources, self.model, limits.search, limits.object, allowances) for sources in groups]

    def join(self, results: Sequence[tuple[Findings, tuple[AllowedLoss, ...]]]) -> Conclusion:
        """Returns everything that is wrong with the objects, and what was lost and may have been."""
        findings = Findings.join(found for found, _ in results)
        losses = [attrs.evolve(loss, origin_ns=findings.t_first) for _, lost in results for loss in lost]
        unchecked = frozenset([Check.LOST]) if findings.unseen else frozenset[Check]()
        return Conclusion(findings, tuple(losses), unchecked)
