"""The pieces of work of a check of many registers, or of one with any number of operations; see `register_reduce`."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import attrs
import numpy as np

from jepsen_like.checker.register.explain import acknowledged_changes, check_registers, flaws_explained
from jepsen_like.checker.register.reduce import (
    NO_KEYS,
    Keys,
    Territory,
    occurs,
    reduce_piece,
    registers_of,
    shared_keys,
)
from jepsen_like.checker.register.scan import scan
from jepsen_like.checker.rows.columns import NEEDED, OF_REGISTERS, Columns, Ints
from jepsen_like.checker.rows.gather import Chunk, Grouping, columns_of, write_array, write_arrow, write_groups
from jepsen_like.checker.rows.processes import ProcessSpans, meetings, require_made
from jepsen_like.checker.rows.segments import positions
from jepsen_like.checker.rows.tasks import Shared, Source, array, load, of_model, require_sound
from jepsen_like.checker.search import SearchBounds
from jepsen_like.checker.verdict import Findings, Model
from jepsen_like.history.ops import NEVER, Action, ErrorCode, Outcome


@attrs.frozen
class RegistersTask:
    """Check all registers of one bucket."""

    sources: tuple[Source, ...]
    bounds: SearchBounds

    def execute(self) -> Findings:
        """See `Task`."""
        rows = of_model(load(self.sources), self.sources[0], Model.REGISTER)
        require_sound(rows, self.sources)
        return check_registers(rows, self.bounds)


SPANS: Final = ".spans.npy"
"""Ends the name of the file of when processes were at work in a piece."""
OPENED_MAX: Final = 1 << 12
"""Values of one register, in one task, that are opened: where more occur in several pieces this is no matter of their edges."""


def rows_left(files: Sequence[Path], without: Shared) -> Columns:
    """Returns the rows of Arrow files, without those of some registers."""
    import pyarrow as pa

    excluded = array(without)
    tables = []
    for file in files:
        with pa.OSFile(str(file)) as source:
            table = pa.ipc.open_file(source).read_all()
            tables.append(table.filter(pa.array(~occurs(table.column("object").to_numpy(), excluded))))
    return Columns.of_table(pa.concat_tables(tables).combine_chunks())


@attrs.frozen(eq=False)
class Counted:
    """The counts of the rows of a piece of the history, which need no other piece."""

    findings: Findings
    """The numbers of operations."""
    looked: Ints
    """Per register: when its last read, and its last acknowledged change, of this piece began and ended."""
    changed: Ints


@attrs.frozen(eq=False)
class Left:
    """The answer of a piece that was reduced."""

    rows: int
    begin: int
    """The moment when the first of the rows that are left began, and the last known end of one."""
    end: int
    keys: int
    per_register: Ints
    """The number of rows that are left of each."""
    ambiguous: Ints
    counted: Counted | None
    """Of rows of the history."""


@attrs.frozen
class ReduceTask:
    """Reduce a piece: rows of the history, of which those of other objects are sorted out by groups, or what is left of others."""

    source: Chunk | tuple[Path, ...]
    registers: Shared
    """Those that are reduced, sorted."""
    without: Shared
    """Those among them that are decided in another way."""
    territory: Territory
    opened: tuple[Shared, ...]
    file: Path
    """For what is left."""
    keys: Path
    division: Grouping | None = None
    """Of the other objects; None: there are none, or they were sorted out before."""
    others: Path | None = None
    of_history: bool = False

    def execute(self) -> Left:
        """See `Task`."""
        registers = array(self.registers)
        counted = None
        if self.of_history:
            chunk: Any = self.source
            rows = of_model(columns_of(chunk, OF_REGISTERS), chunk[0].path, Model.REGISTER)
            if not self.opened:
                spans = require_made(rows, chunk[0].path)
                write_array(np.stack([spans.process, spans.first, spans.last]), self.file.with_suffix(SPANS))
            number = positions(rows.object, registers)
            mine = number >= 0
            if self.others is not None and self.division is not None:
                other = rows.where(~mine)
                group = self.division.group_of(other.object)
                columns = {name: getattr(other, name) for name in NEEDED}
                write_groups(columns, group, self.division.groups, self.others)
            if not mine.all():
                rows, number = rows.where(mine), number[mine]
            if not self.opened:
                counted = _count(rows, number, len(registers))
        else:
            files: Any = self.source
            rows = rows_left(files, self.without)
            number = positions(rows.object, registers)
        without = array(self.without)
        if self.of_history and len(without):
            kept = ~occurs(rows.object, without)
            rows, number = rows.where(kept), number[kept]
        opened = np.unique(np.concatenate([NO_KEYS, *(array(one).view(np.uint64) for one in self.opened)]))
        found = reduce_piece(rows, registers, number, self.territory, opened)
        left = found.rows
        write_arrow({name: getattr(left, name) for name in NEEDED}, self.file)
        write_array(found.keys, self.keys)
        known = np.where(left.t_ret < NEVER, left.t_ret, left.t_inv)
        return Left(
            len(left),
            int(left.t_inv.min(initial=NEVER)),
            int(max(known.max(initial=-NEVER), left.t_inv.max(initial=-NEVER))),
            len(found.keys),
            np.bincount(positions(left.object, registers), minlength=len(registers)),
            found.ambiguous,
            counted,
        )


def _count(rows: Columns, number: Ints, registers: int) -> Counted:
    happened, changed = rows.type == Outcome.OK, acknowledged_changes(rows)
    denied = (rows.type == Outcome.FAIL) & (rows.err == ErrorCode.NONE) & (rows.f == Action.CAS)
    looks = np.flatnonzero(denied | (happened & (rows.f != Action.WRITE)))
    changes = np.flatnonzero(changed)
    looked_at, changed_at = np.full(registers, -NEVER), np.full(registers, -NEVER)
    np.maximum.at(looked_at, number[looks], rows.t_inv[looks])
    np.maximum.at(changed_at, number[changes], rows.t_ret[changes])
    ok, fail = int(happened.sum()), int((rows.type == Outcome.FAIL).sum())
    first = int(rows.t_inv.min(initial=NEVER))
    return Counted(
        Findings(ok=ok, fail=fail, info=len(rows) - ok - fail, acked=len(changes), t_first=first), looked_at, changed_at
    )


@attrs.frozen(eq=False)
class SharedKeys:
    """Keys of a range that are closed in a piece and occur in another."""

    keys: Keys
    pieces: tuple[int, ...]
    """Those in which one of them is closed."""
    many: Ints
    """Numbers of registers that have so many that they were left out."""


@attrs.frozen
class KeysTask:
    """Compare the keys of pieces from `begin` on to before `end`."""

    files: tuple[Path, ...]
    begin: int
    end: int

    def execute(self) -> SharedKeys:
        """See `Task`."""
        pieces = []
        for file in self.files:
            keys = np.load(file, mmap_mode="r", allow_pickle=False)
            limits = np.array([self.begin, self.end - 1], np.uint64)
            mine = slice(np.searchsorted(keys, limits[0]), np.searchsorted(keys, limits[1], side="right"))
            # A copy: of thousands of files mapped at once, the pages that a search has touched would be gigabytes.
            pieces.append(np.array(keys[mine]))
        found = shared_keys(pieces)
        numbers, counts = np.unique(registers_of(found), return_counts=True)
        many = numbers[counts > OPENED_MAX]
        found = found[~np.isin(registers_of(found), many)]
        closed = [occurs(piece[(piece & np.uint64(1)) > 0] & ~np.uint64(1), found).any() for piece in pieces]
        return SharedKeys(found, tuple(np.flatnonzero(closed).tolist()), many)


@attrs.frozen
class SpansTask:
    """Compare when the processes of the pieces of a bucket were at work."""

    files: tuple[Path, ...]
    """The files of the rest of the pieces; their spans lie next to them."""

    def execute(self) -> list[tuple[int, int, Ints]]:
        """See `Task` and `meetings`."""
        return meetings([ProcessSpans(*np.load(file.with_suffix(SPANS))) for file in self.files])


@attrs.frozen
class LastTask:
    """Decide the registers whose rows have all been reduced to these."""

    files: tuple[Path, ...]
    without: Shared

    def execute(self) -> tuple[Findings, Ints]:
        """See `Task`: what is wrong with them, and those that the scan cannot decide."""
        outcome = scan(rows_left(self.files, self.without))
        violated, counts, violations = flaws_explained(outcome)
        findings = Findings(violated=frozenset(violated), counts=counts, violations=tuple(violations))
        return findings, outcome.objects[outcome.ambiguous]


@attrs.frozen
class GatherTask:
    """Sort the rows of some objects of a chunk out by group, into `file`, and leave all others out."""

    chunk: Chunk
    objects: Shared
    division: Grouping
    file: Path

    def execute(self) -> None:
        """See `Task`."""
        rows = columns_of(self.chunk, OF_REGISTERS)
        rows = rows.where(occurs(rows.object, array(self.objects)))
        group = self.division.group_of(rows.object)
        write_groups({name: getattr(rows, name) for name in NEEDED}, group, self.division.groups, self.file)
