"""Rows that Spark hands to a task are the same history on the disk of its executor, or are told to be none."""

import pickle
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pytest

from jepsen_like.check import frames
from jepsen_like.check.frames import Frames
from jepsen_like.checker.engine.attempts import Failed
from jepsen_like.checker.verdict import Check, Model
from jepsen_like.history.files import table_of
from jepsen_like.history.ops import Action, Op, Outcome


def judge_rows(rows: pa.Table, batch_rows: int = 100) -> Any:
    """Returns the findings of a task in rows that come in batches of so many."""
    (found,) = frames._judging(Frames(rows, "rows"), Model.LOG, ())(iter(rows.to_batches(max_chunksize=batch_rows)))
    return pickle.loads(found.column(0)[0].as_py())


def batch(values: Sequence[int], offsets: Sequence[int], at: int) -> list[Op]:
    """One append of several records."""
    return [
        Op(
            f=Action.APPEND,
            type=Outcome.OK,
            t_inv=at,
            t_ret=at + 1,
            process=at,
            a=value,
            offset=offset,
            epoch=1,
            count=len(values),
        )
        for value, offset in zip(values, offsets, strict=True)
    ]


@pytest.mark.parametrize("batch_rows", [1, 2, 3, 100])
def test_the_records_of_an_append_stay_together(batch_rows: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(frames, "PART_ROWS", 2)
    ops = [*batch([1], [0], 1), *batch([2, 3, 4], [1, 2, 4], 3), *batch([5], [3], 5)]
    findings = judge_rows(table_of(ops), batch_rows).findings
    assert (findings.counts[Check.TORN], findings.ok, findings.acked) == (1, 3, 5)


@pytest.mark.parametrize("column", ["f", "a", "t_ret"])
def test_rows_without_a_value_are_no_history(column: str) -> None:
    rows = table_of(batch([1, 2], [0, 1], 1))
    at = rows.column_names.index(column)
    missing = pa.array([None, rows.column(column)[1].as_py()], rows.schema.field(at).type)
    found = judge_rows(rows.set_column(at, pa.field(column, missing.type), missing))
    assert isinstance(found, Failed)
    assert "rows without a value" in str(found.error)


def test_a_row_that_is_no_operation_is_no_history() -> None:
    rows = table_of(batch([1, 2], [0, 1], 1))
    at = rows.column_names.index("f")
    found = judge_rows(rows.set_column(at, rows.schema.field(at), pa.array([0, frames.FINAL_RECORD], pa.int8())))
    assert isinstance(found, Failed)
    assert "which stands for nothing" in str(found.error)
