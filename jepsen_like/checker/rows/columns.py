"""A history in memory: one numpy array per column, rows in any order.

The kernels read these arrays and nothing else. An operation of unknown outcome ends at `NEVER` here, whatever was recorded:
that the client gave up does not tell when the server was done.
"""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import attrs
import numpy as np
import numpy.typing as npt

from jepsen_like.checker.verdict import Findings
from jepsen_like.history.files import read_part, table_of
from jepsen_like.history.ops import NEVER, NONE, Action, ErrorCode, Op, Outcome

Ints = npt.NDArray[np.int64]
Codes = npt.NDArray[np.int8]
Bools = npt.NDArray[np.bool_]

NEEDED = (
    "object",
    "process",
    "f",
    "type",
    "err",
    "a",
    "b",
    "seen",
    "offset",
    "epoch",
    "count",
    "t_inv",
    "t_ret",
    "node",
)

OF_REGISTERS = tuple(name for name in NEEDED if name not in ("offset", "epoch", "count"))
"""The columns that say anything about a register; the others are the same in all rows."""


def begins_operation(process: npt.NDArray[Any], t_inv: Ints, t_ret: Ints) -> Bools:
    """Returns which rows of a history, in the order recorded, begin an operation: each is as many rows as it has records.

    Rows of one operation follow each other and share process, begin and end; a process does one thing at a time.
    """
    first = np.ones(len(process), dtype=np.bool_)
    first[1:] = (process[1:] != process[:-1]) | (t_inv[1:] != t_inv[:-1]) | (t_ret[1:] != t_ret[:-1])
    return first


def count_operations(outcomes: Codes) -> Findings:
    """Returns how many operations ended in each way."""
    counts = np.bincount(outcomes, minlength=len(Outcome))
    return Findings(ok=int(counts[Outcome.OK]), fail=int(counts[Outcome.FAIL]), info=int(counts[Outcome.INFO]))


@attrs.frozen(eq=False)
class Columns:
    """The columns that the kernels need, all of one length."""

    object: Ints
    process: npt.NDArray[np.int32]
    f: Codes
    type: Codes
    err: npt.NDArray[np.int16]
    a: Ints
    b: Ints
    seen: Ints
    offset: Ints
    epoch: npt.NDArray[np.int32]
    count: npt.NDArray[np.int32]
    t_inv: Ints
    t_ret: Ints
    node: npt.NDArray[np.int16]

    def __len__(self) -> int:
        return len(self.f)

    @classmethod
    def of_table(cls, table: Any) -> "Columns":
        """Returns the columns of a pyarrow table that has (at least) the needed columns, or those `OF_REGISTERS`."""
        arrays = {name: table.column(name).to_numpy() for name in NEEDED if name in table.column_names}
        for name, value in (("offset", NONE), ("epoch", NONE), ("count", 1)):
            if name not in arrays:
                arrays[name] = np.broadcast_to(np.array(value, np.int64 if name == "offset" else np.int32), len(table))
        unknown = arrays["type"] == Outcome.INFO
        if unknown.any():
            arrays["t_ret"] = np.where(unknown, NEVER, arrays["t_ret"])
        return cls(**arrays)

    @classmethod
    def of_ops(cls, ops: Iterable[Op]) -> "Columns":
        """Returns the columns of these values."""
        return cls.of_table(table_of(ops))

    @classmethod
    def of_parts(cls, paths: Sequence[Path]) -> "Columns":
        """Returns the rows of part files, one after the other. Raises `UnreadableHistory` if one cannot be read."""
        import pyarrow as pa

        if len(paths) == 1:
            return cls.of_table(read_part(paths[0], NEEDED))
        if not paths:
            return cls.of_ops(())
        return cls.of_table(pa.concat_tables([read_part(path, NEEDED) for path in paths]))

    @classmethod
    def join(cls, parts: "Sequence[Columns]") -> "Columns":
        """Returns the rows of at least one part, one after the other."""
        return cls(*(np.concatenate([getattr(one, name) for one in parts]) for name in NEEDED))

    def where(self, mask: Bools | Ints) -> "Columns":
        """Returns the chosen rows (a mask, or row numbers)."""
        return Columns(*(getattr(self, name)[mask] for name in NEEDED))

    def op(self, row: int) -> Op:
        """Returns one row as a value."""
        return Op(
            object=int(self.object[row]),
            process=int(self.process[row]),
            f=Action(int(self.f[row])),
            type=Outcome(int(self.type[row])),
            err=ErrorCode(int(self.err[row])),
            a=int(self.a[row]),
            b=int(self.b[row]),
            seen=int(self.seen[row]),
            offset=int(self.offset[row]),
            epoch=int(self.epoch[row]),
            count=int(self.count[row]),
            t_inv=int(self.t_inv[row]),
            t_ret=int(self.t_ret[row]),
            node=int(self.node[row]),
        )
