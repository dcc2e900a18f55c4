"""The pieces of work of a check of queues of elements, sets and keys: a group of whole objects each."""

import attrs

from jepsen_like.checker.elements.key_values import check_key_values
from jepsen_like.checker.elements.queues import check_element_queues
from jepsen_like.checker.elements.sets import check_sets
from jepsen_like.checker.engine.scratch import Scratch
from jepsen_like.checker.groups import Long, Run, sort_out
from jepsen_like.checker.rows.columns import Columns
from jepsen_like.checker.rows.gather import Limits
from jepsen_like.checker.rows.packs import Packs
from jepsen_like.checker.rows.tasks import Source, of_model, require_sound
from jepsen_like.checker.search import SearchBounds
from jepsen_like.checker.verdict import NOUNS, QUEUES_OF_ELEMENTS, SETS, Findings, Model
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
        findings = packs.left_out(self.sources, lambda obj: f"{NOUNS[self.model]} {obj}")
        for _, rows in packs.rows(self.sources):
            of_model(rows, self.sources[0], self.model)
            require_sound(rows, self.sources)
            findings = findings.plus(findings_of(rows, self.model, self.bounds))
        return findings


def whole_groups(
    history: HistoryReader, model: Model, run: Run, scratch: Scratch, limits: Limits
) -> list[tuple[Source, ...]]:
    """Returns the rows of groups of whole objects. Only logs and registers are divided further."""
    groups = sort_out(history, model, run, scratch, limits).groups
    return [one for one in groups if not isinstance(one, Long)]


def check_many_objects(
    history: HistoryReader,
    model: Model,
    bounds: SearchBounds,
    run: Run,
    scratch: Scratch,
    limits: Limits,
) -> Findings:
    """Returns everything that is wrong with the objects of a history. Raises `UnreadableHistory`."""
    findings = Findings()
    groups = whole_groups(history, model, run, scratch, limits)
    for found in run([ObjectsTask(sources, model, bounds, limits.object) for sources in groups]):
        findings = findings.plus(found)
    return findings
