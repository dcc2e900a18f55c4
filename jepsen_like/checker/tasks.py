"""The pieces of work of a check, each small enough for one process, and how their results travel.

A task names its input (part files, or columns already in memory) and does not depend on which process or machine runs it.
Results are plain values; `packed` turns them into bytes for engines whose workers are other processes. Nothing that can
run code is ever unpacked.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final, Protocol

import attrs
import msgpack
import numpy as np

from jepsen_like.checker.columns import Columns, Ints
from jepsen_like.checker.log_scan import Before, Facts, Piece, Times, facts_of, pieces_of, times_of
from jepsen_like.checker.register_check import SearchBounds, check_registers
from jepsen_like.checker.verdict import Check, Findings, Model, Undecided, Violation
from jepsen_like.history import NEVER, Action, ErrorCode, Op, Outcome, UnreadableHistory

FETCHED_MAX: Final = 200
"""Operations that one task brings back for explanations."""

Source = Columns | Path
"""Rows in memory, or the part file that holds them."""
Shared = Ints | Path
"""An array in memory, or the file that holds it."""


ACTIONS: Final = {
    Model.LOG: (Action.APPEND, Action.READ, Action.TAIL),
    Model.REGISTER: (Action.READ, Action.WRITE, Action.CAS),
}
"""The operations of each model."""


class Task(Protocol):
    """One piece of work."""

    def execute(self) -> Any:
        """Do it. The result is made of plain values and the value classes in `CLASSES`."""
        ...


def loaded(sources: Sequence[Source]) -> Columns:
    """The rows of all sources; part files must share their columns."""
    paths = [one for one in sources if isinstance(one, Path)]
    if len(paths) == len(sources):
        return Columns.of_parts(paths)
    if len(sources) == 1 and isinstance(sources[0], Columns):
        return sources[0]
    raise ValueError("rows in memory come as one piece")


def of_model(rows: Columns, source: Source, model: Model) -> Columns:
    """The same rows; `UnreadableHistory` when they are operations of another model."""
    foreign = np.unique(rows.f[~np.isin(rows.f, ACTIONS[model])]).tolist()
    if foreign:
        names = " and ".join(Action(f).name.lower() for f in foreign)
        path = source if isinstance(source, Path) else Path("history")
        raise UnreadableHistory(
            path, f"holds {names} operations, which a {model.value} does not have; another --model?"
        )
    return rows


def array(shared: Shared) -> Ints:
    """The array itself, mapped rather than read when it is a file."""
    return np.load(shared, mmap_mode="r", allow_pickle=False) if isinstance(shared, Path) else shared


@attrs.frozen
class RegistersTask:
    """Check all registers of one bucket."""

    sources: tuple[Source, ...]
    bounds: SearchBounds

    def execute(self) -> Findings:
        """See `Task`."""
        rows = of_model(loaded(self.sources), self.sources[0], Model.REGISTER)
        return check_registers(rows, self.bounds)


@attrs.frozen
class FactsTask:
    """Pass one over one part file of a log: a `Facts` per log in it."""

    source: Source
    number: int
    contents: tuple[tuple[int, Shared], ...]
    """Per log with known final logs: its content."""

    def execute(self) -> list[Facts]:
        """See `Task`."""
        contents = dict(self.contents)
        nothing = np.zeros(0, np.int64)
        return [
            facts_of(piece, name=name, number=self.number, content=array(contents.get(name, nothing)))
            for name, piece in pieces_of(of_model(loaded([self.source]), self.source, Model.LOG)).items()
        ]


@attrs.frozen
class TimesTask:
    """Pass two over one log in one part file, given the part files beside it."""

    object: int
    source: Source
    beside: tuple[Source, ...]
    earlier: Before
    holes: Shared

    def execute(self) -> Times:
        """See `Task`."""
        own, *others = (pieces_of(loaded([source]))[self.object] for source in (self.source, *self.beside))
        return times_of(own, others, self.earlier, array(self.holes))


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
        rows = pieces_of(loaded([self.source])).get(self.object, Piece(Columns.of_ops(()))).rows
        of_values = np.isin(rows.f, (Action.APPEND, Action.READ)) & np.isin(rows.a, self.values)
        of_offsets = (rows.f != Action.TAIL) & (rows.type == Outcome.OK) & np.isin(rows.offset, self.offsets)
        known_then = (rows.type == Outcome.OK) & np.isin(rows.t_ret, self.ends) & (rows.t_ret < NEVER)
        chosen = np.flatnonzero(of_values | of_offsets | known_then)
        # The appends first: an explanation can do without a read more easily.
        chosen = chosen[np.argsort(rows.f[chosen] != Action.APPEND, kind="stable")]
        return [rows.op(int(row)) for row in chosen[:FETCHED_MAX]]


CLASSES: Final = (Op, Violation, Undecided, Findings, Facts, Times)
"""What `packed` knows beside plain values and arrays; the position is the code on the wire."""
_ARRAY: Final = 100
_SET: Final = 101


def packed(result: Any) -> bytes:
    """A task's result as bytes."""
    data = msgpack.packb(result, default=_pack, strict_types=False)
    assert isinstance(data, bytes)
    return data


def unpacked(data: bytes) -> Any:
    """The result again. Sequences come back as tuples."""
    return msgpack.unpackb(data, ext_hook=_unpack, use_list=False, strict_map_key=False)


def _pack(value: Any) -> msgpack.ExtType:
    if isinstance(value, np.ndarray):
        return msgpack.ExtType(_ARRAY, packed((value.dtype.str, value.tobytes())))
    if isinstance(value, frozenset):
        return msgpack.ExtType(_SET, packed(sorted(value)))
    code = CLASSES.index(type(value))
    return msgpack.ExtType(code, packed([getattr(value, field.name) for field in attrs.fields(type(value))]))


def _unpack(code: int, data: bytes) -> Any:
    content = unpacked(data)
    if code == _ARRAY:
        return np.frombuffer(content[1], dtype=np.dtype(content[0]))
    if code == _SET:
        return frozenset(content)
    of = CLASSES[code]
    fields = {field.name: value for field, value in zip(attrs.fields(of), content, strict=True)}
    if of is Op:
        fields |= {"f": Action(fields["f"]), "type": Outcome(fields["type"]), "err": ErrorCode(fields["err"])}
    elif of is Violation:
        fields["check"] = Check(fields["check"])
    elif of is Findings:
        fields["counts"] = {Check(check): count for check, count in fields["counts"].items()}
    return of(**fields)
