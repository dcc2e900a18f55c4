"""The pieces of work of a check against a class of the user's: a group of whole objects each, which are searched."""

from collections.abc import Sequence
from pathlib import Path

import attrs
import numpy as np

from jepsen_like.checker.elements.elements import Elements, Gathering
from jepsen_like.checker.elements.searched import Prepared, decide
from jepsen_like.checker.elements.tasks import whole_groups
from jepsen_like.checker.elements.user_model import AskedClass, AskedWho, UserModel, call_of, decoded
from jepsen_like.checker.engine.scratch import Scratch
from jepsen_like.checker.groups import Run
from jepsen_like.checker.rows.gather import Limits
from jepsen_like.checker.rows.packs import Packs
from jepsen_like.checker.rows.tasks import Source, of_model, require_sound
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
        findings = packs.left_out(self.sources, lambda obj: f"object {obj}")
        for _, rows in packs.rows(self.sources):
            of_model(rows, self.sources[0], Model.CUSTOM)
            require_sound(rows, self.sources)
            made = Elements.of(rows)
            try:
                found = self._searched(made, tells_process=False)
            except AskedWho:
                found = self._searched(made, tells_process=True)
            findings = findings.plus(found)
        return findings

    def _searched(self, made: Elements, *, tells_process: bool) -> Findings:
        def prepared(ops: Sequence[Op]) -> Prepared:
            calls = self._calls([op for op in ops if op.type is not Outcome.FAIL], tells_process=tells_process)
            return AskedClass(self.of_class, tells_process=tells_process), calls

        report = Gathering(made)
        which = np.ones(len(made.objects), np.bool_)
        undecided = decide(report, made, which, "object", prepared, self.bounds)
        found = report.findings()
        return attrs.evolve(found, undecided=undecided, acked=found.ok)

    def _calls(self, ops: Sequence[Op], *, tells_process: bool) -> list[CallOp]:
        import pyarrow as pa

        numbers = sorted({number for op in ops for number in (op.seen, op.a, op.b)} - {NONE})
        with pa.memory_map(str(self.values)) as source:
            texts = pa.ipc.open_file(source).read_all().column("value").take(pa.array(numbers, pa.int64())).to_pylist()
        values = {NONE: None, **{number: decoded(text) for number, text in zip(numbers, texts, strict=True)}}
        return [call_of(op, values, tells_process=tells_process) for op in ops]


def check_many_calls(
    history: HistoryReader,
    values: Path,
    of_class: UserModel,
    bounds: SearchBounds,
    run: Run,
    scratch: Scratch,
    limits: Limits,
) -> Findings:
    """Returns everything that is wrong with the objects of a history; `values` is its table. Raises `UnreadableHistory`."""
    findings = Findings()
    groups = whole_groups(history, Model.CUSTOM, run, scratch, limits)
    for found in run([CallsTask(sources, values, of_class, bounds, limits.object) for sources in groups]):
        findings = findings.plus(found)
    return findings
