"""The pieces of work of a check of queues of elements, sets and keys: a group of whole objects each."""

from collections.abc import Sequence

import attrs

from jepsen_like.checker.elements.key_values import check_key_values
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

    def execute(self) -> Findings:
        """See `Task`."""
        packs = Packs.of(self.sources, self.rows_max)
        findings = packs.report_large(self.sources, lambda obj: f"{NOUNS[self.model]} {obj}")
        for _, rows in packs.rows(self.sources):
            of_model(rows, self.sources[0], self.model)
            require_sound(rows, self.sources)
            findings = findings.plus(findings_of(rows, self.model, self.bounds))
        return findings


def whole_groups(history: HistoryReader, model: Model, job: Job) -> list[tuple[Source, ...]]:
    """Returns the rows of groups of whole objects. Only logs and registers are divided further."""
    return [sources for sources in sort_out(history, model, job).groups if not isinstance(sources, Long)]


@attrs.frozen
class ObjectsCheck:
    """The check of queues of elements, sets or keys; see `ModelCheck`."""

    model: Model

    def plan(self, history: HistoryReader, job: Job) -> Sequence[Task]:
        """Returns a task for each group of objects. Raises `UnreadableHistory`."""
        limits = job.limits
        groups = whole_groups(history, self.model, job)
        return [ObjectsTask(sources, self.model, limits.search, limits.object) for sources in groups]

    def join(self, results: Sequence[Findings]) -> Conclusion:
        """Returns everything that is wrong with the objects."""
        findings = Findings.join(results)
        return Conclusion(findings, unchecked=frozenset([Check.LOST]) if findings.unseen else frozenset())
