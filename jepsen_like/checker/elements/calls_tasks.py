"""The pieces of work of a check against a class of the user's: a group of whole objects each, which are searched."""

from collections.abc import Sequence
from pathlib import Path

import attrs
import numpy as np

from jepsen_like.checker.elements.elements import Elements, Gathering
from jepsen_like.checker.elements.searched import Prepared, decide
from jepsen_like.checker.elements.tasks import whole_groups
from jepsen_like.checker.elements.user_model import AskedClass, AskedWho, UserModel, call_of, decode
from jepsen_like.checker.engine.job import Job
from jepsen_like.checker.model import Conclusion
from jepsen_like.checker.rows.packs import Packs
from jepsen_like.checker.rows.tasks import Source, Task, of_model, require_sound
from jepsen_like.checker.search import SearchBounds
from jepsen_like.checker.verdict import Findings, Model
from jepsen_like.history.files import HistoryReader
from jepsen_like.history.ops import NONE, CallOp, Op, Outcome


@attrs.frozen
class CallsTask:
    """Search all objects of a group."""

    sources: tuple[Source, ...]
    values: Path
    of_class: UserModel
    bounds: SearchBounds
    rows_max: int
    """See `Limits.object`."""

    def execute(self) -> Findings:
        """See `Task`."""
        packs = Packs.of(self.sources, self.rows_max)
        findings = packs.report_large(self.sources, lambda obj: f"object {obj}")
        for _, rows in packs.rows(self.sources):
            of_model(rows, self.sources[0], Model.CUSTOM)
            require_sound(rows, self.sources)
            made = Elements.of(rows)
            try:
                found = self._search(made, tells_process=False)
            except AskedWho:
                found = self._search(made, tells_process=True)
            findings = findings.plus(found)
        return findings

    def _search(self, made: Elements, *, tells_process: bool) -> Findings:
        def prepare(ops: Sequence[Op]) -> Prepared:
            calls = self._calls([op for op in ops if op.type is not Outcome.FAIL], tells_process=tells_process)
            return AskedClass(self.of_class, tells_process=tells_process), calls

        report = Gathering(made)
        which = np.ones(len(made.objects), np.bool_)
        undecided = decide(report, made, which, "object", prepare, self.bounds)
        found = report.findings()
        return attrs.evolve(found, undecided=undecided, acked=found.ok)

    def _calls(self, ops: Sequence[Op], *, tells_process: bool) -> list[CallOp]:
        import pyarrow as pa

        numbers = sorted({number for op in ops for number in (op.seen, op.a, op.b)} - {NONE})
        with pa.memory_map(str(self.values)) as source:
            texts = pa.ipc.open_file(source).read_all().column("value").take(pa.array(numbers, pa.int64())).to_pylist()
        values = {NONE: None, **{number: decode(text) for number, text in zip(numbers, texts, strict=True)}}
        return [call_of(op, values, tells_process=tells_process) for op in ops]


@attrs.frozen
class CallsCheck:
    """The check of objects whose model is a class of the user's; see `ModelCheck`."""

    values: Path
    """The file of the values that the numbers in the history stand for."""
    of_class: UserModel

    def plan(self, history: HistoryReader, job: Job) -> Sequence[Task]:
        """Returns a task for each group of objects. Raises `UnreadableHistory`."""
        limits = job.limits
        groups = whole_groups(history, Model.CUSTOM, job)
        return [CallsTask(sources, self.values, self.of_class, limits.search, limits.object) for sources in groups]

    def join(self, results: Sequence[Findings]) -> Conclusion:
        """Returns everything that is wrong with the objects."""
        return Conclusion(Findings.join(results))
