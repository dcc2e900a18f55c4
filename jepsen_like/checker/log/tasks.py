"""The pieces of work of a check of many logs: a group of whole logs each, with what is in them in the end.

Records that a mode may lose under a fault are taken out first (`forgiveness`), from all of a log's history at once.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path

import attrs
import numpy as np

from jepsen_like.checker.allowance import Allowance, AllowedLoss
from jepsen_like.checker.log.explain import check_logs, join_logs
from jepsen_like.checker.log.forgiveness import forgive
from jepsen_like.checker.rows.columns import Columns, begins_operation, count_operations
from jepsen_like.checker.rows.final_logs import FinalLog, final_logs_of
from jepsen_like.checker.rows.tasks import Gathered, Source, load, of_model, require_sound
from jepsen_like.checker.verdict import Findings, Model
from jepsen_like.history.files import Kept, read_dump_part
from jepsen_like.history.ops import Action, Outcome


@attrs.frozen
class LogsTask:
    """Check all logs of a group."""

    sources: tuple[Source, ...]
    dump: tuple[Gathered | Path, ...] | None
    """Their records in the final logs of all nodes; None if there are no final logs."""
    kept: Mapping[int, Kept] | None
    """Of these logs alone."""
    allowances: tuple[Allowance, ...]
    expires: bool
    """True if records may leave any log of the run by a rule."""
    together: bool
    """True if all rows are loaded at once, for many logs with a few rows in each of many files; else a source at a time."""

    def execute(self) -> tuple[Findings, tuple[AllowedLoss, ...]]:
        """See `Task`."""
        final = self._final_logs()
        if self.allowances and final is not None:
            return forgiving(self.sources, final, self.allowances, expires=self.expires)
        sources = self.sources
        if self.together:
            rows = of_model(load(sources), sources[0], Model.LOG)
            require_sound(rows, sources)
            sources = (rows,)
        return check_logs(sources, final, expires=self.expires), ()

    def _final_logs(self) -> Mapping[int, Sequence[FinalLog]] | None:
        import pyarrow as pa

        if self.dump is None:
            return None
        found = [one.table() if isinstance(one, Gathered) else read_dump_part(one) for one in self.dump]
        if isinstance(self.dump[0], Gathered) and not self.kept and not any(one.num_rows for one in found):
            return {}
        return final_logs_of(pa.concat_tables(found).combine_chunks(), self.kept)


def forgiving(
    sources: Sequence[Source],
    final: Mapping[int, Sequence[FinalLog]],
    allowances: Sequence[Allowance],
    *,
    expires: bool,
) -> tuple[Findings, tuple[AllowedLoss, ...]]:
    """The findings, made here and in memory, about logs that may have lost acknowledged records; see `forgiveness`."""
    rows = of_model(load(sources), sources[0], Model.LOG)
    findings, losses = Findings(), list[AllowedLoss]()
    for obj in np.unique(rows.object).tolist():
        of_log = rows.where(rows.object == obj)
        if obj in final:
            of_object = [one for one in allowances if one.reaches(obj)]
            found, lost = _forgiving_log(of_log, obj, final[obj], of_object, expires=expires)
            losses += lost
        else:
            found = check_logs([of_log], {}, expires=expires)
        findings = findings.plus(found)
    return findings, tuple(losses)


def _forgiving_log(
    rows: Columns, obj: int, logs: Sequence[FinalLog], allowances: Sequence[Allowance], *, expires: bool
) -> tuple[Findings, tuple[AllowedLoss, ...]]:
    final, _ = join_logs(logs)
    forgiven = forgive(rows, final.content, allowances, final.start if expires else 0)
    findings = check_logs([forgiven.rows], {obj: logs}, expires=expires)
    for until in forgiven.until:
        if findings.counts:
            break  # one broken promise is enough, and the same one would be found again
        before = check_logs([until])
        findings = attrs.evolve(findings, counts=before.counts, violations=before.violations, violated=before.violated)
    first = begins_operation(rows.process, rows.t_inv, rows.t_ret)
    counted = count_operations(rows.type[first])
    return attrs.evolve(
        findings,
        ok=counted.ok,
        fail=counted.fail,
        info=counted.info,
        acked=int(((rows.type == Outcome.OK) & (rows.f == Action.APPEND)).sum()),
        lost_acked=findings.lost_acked + sum(loss.records for loss in forgiven.losses),
    ), forgiven.losses
