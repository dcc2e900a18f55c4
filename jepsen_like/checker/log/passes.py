"""The passes over a log in part files: what each holds, what their times contradict, and the operations that show it."""

from typing import Final

import attrs
import numpy as np

from jepsen_like.checker.log.scan import EarlierPieces, Facts, Piece, Times, facts_of, pieces_of, times_of
from jepsen_like.checker.rows.columns import Columns
from jepsen_like.checker.rows.processes import ProcessSpans
from jepsen_like.checker.rows.tasks import Shared, Source, array, load, of_model, require_sound
from jepsen_like.checker.verdict import Model
from jepsen_like.history.ops import NEVER, Action, Op, Outcome

FETCHED_MAX: Final = 200
"""Operations that one task brings back for explanations."""


@attrs.frozen
class FactsTask:
    """Pass one over one part file of a log: a `Facts` per log in it, and when its processes were at work."""

    source: Source
    number: int
    contents: tuple[tuple[int, Shared, Shared], ...]
    """Per log with known final logs: the value and the epoch at each place."""

    def execute(self) -> tuple[list[Facts], ProcessSpans]:
        """See `Task`."""
        rows = of_model(load([self.source]), self.source, Model.LOG)
        contents = {name: (array(content), array(epochs)) for name, content, epochs in self.contents}
        return [
            facts_of(piece, name, self.number, *contents.get(name, ())) for name, piece in pieces_of(rows).items()
        ], require_sound(rows, [self.source])


@attrs.frozen
class TimesTask:
    """Pass two over one log in one part file, given the neighbouring part files."""

    object: int
    source: Source
    beside: tuple[Source, ...]
    earlier: EarlierPieces
    holes: Shared
    span: tuple[int, int]
    """Which of them may first be known to be filled by this piece."""
    batches: Shared

    def execute(self) -> Times:
        """See `Task`."""
        own, *others = (pieces_of(load([source]))[self.object] for source in (self.source, *self.beside))
        return times_of(own, others, self.earlier, array(self.holes)[slice(*self.span)], array(self.batches))


@attrs.frozen
class FetchTask:
    """Bring the operations of one log in one part file that speak of these values or places, or ended then."""

    object: int
    source: Source
    values: tuple[int, ...]
    offsets: tuple[int, ...]
    ends: tuple[int, ...]

    def execute(self) -> list[Op]:
        """See `Task`."""
        rows = pieces_of(load([self.source])).get(self.object, Piece(Columns.of_ops(()))).rows
        of_values = np.isin(rows.f, (Action.APPEND, Action.READ)) & np.isin(rows.a, self.values)
        of_offsets = (rows.f != Action.TAIL) & (rows.type == Outcome.OK) & np.isin(rows.offset, self.offsets)
        known_then = (rows.type == Outcome.OK) & np.isin(rows.t_ret, self.ends) & (rows.t_ret < NEVER)
        chosen = np.flatnonzero(of_values | of_offsets | known_then)
        # The appends first: an explanation can do without a read more easily.
        chosen = chosen[np.argsort(rows.f[chosen] != Action.APPEND, kind="stable")]
        return [rows.op(int(row)) for row in chosen[:FETCHED_MAX]]
