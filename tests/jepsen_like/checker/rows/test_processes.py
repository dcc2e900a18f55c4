"""A recording that no process can have made is named, not judged."""

from pathlib import Path

import pytest

from jepsen_like.checker.checking import check_history
from jepsen_like.checker.rows.columns import Columns
from jepsen_like.checker.rows.processes import examine
from jepsen_like.checker.verdict import Engine, Model
from jepsen_like.history.files import HistoryWriter, UnreadableHistory
from jepsen_like.history.ops import NEVER, Action, Op, Outcome


def append(value: int, start: int, end: int, process: int = 7, outcome: Outcome = Outcome.OK) -> Op:
    offset = value if outcome is Outcome.OK else -1
    return Op(f=Action.APPEND, type=outcome, a=value, offset=offset, t_inv=start, t_ret=end, process=process)


@pytest.mark.parametrize("process", [7, 40_000])
@pytest.mark.parametrize("apart", [False, True])
def test_a_process_does_one_thing_at_a_time(process: int, apart: bool) -> None:
    ops = [append(1, 10, 30, process), append(2, 20, 40, process)]
    between = [append(value, 100 * value, 100 * value + 5, 8) for value in range(3, 9)] if apart else []
    _, reason = examine(Columns.of_ops([ops[0], *between, ops[1]]))
    assert (
        reason
        == f"process {process} has two operations under way at once: one from 10 to 30 ns and one from 20 to 40 ns"
    )


def test_nothing_ends_before_it_begins() -> None:
    _, reason = examine(Columns.of_ops([append(1, 30, 29)]))
    assert reason == "an operation of process 7 ended at 29 ns, before it began at 30 ns"


@pytest.mark.parametrize(
    "ops",
    [
        pytest.param([append(1, 10, 20), append(2, 20, 30)], id="one after the other"),
        pytest.param([append(2, 20, 30), append(1, 10, 20)], id="recorded in another order"),
        pytest.param([append(1, 10, 20), append(2, 15, 18, 8)], id="another process meanwhile"),
        pytest.param([append(1, 10, 20), append(2, 10, 20), append(3, 30, 31)], id="records of one batch"),
        pytest.param(
            [append(1, 10, NEVER, outcome=Outcome.INFO), append(2, 20, 30)], id="an unknown outcome has no end"
        ),
        pytest.param([], id="nothing at all"),
    ],
)
def test_sound_recordings_are_sound(ops: list[Op]) -> None:
    assert examine(Columns.of_ops(ops))[1] is None


@pytest.mark.parametrize("model", [Model.LOG, Model.REGISTER])
@pytest.mark.parametrize("part_rows_max", [100, 1])
def test_a_malformed_history_is_no_history(model: Model, part_rows_max: int, tmp_path: Path) -> None:
    with HistoryWriter(tmp_path, part_rows_max=part_rows_max) as writer:
        for op in (append(1, 10, 30), append(2, 20, 40)):
            writer.record(op if model is Model.LOG else Op(f=Action.READ, type=op.type, t_inv=op.t_inv, t_ret=op.t_ret))
    with pytest.raises(UnreadableHistory, match=r"malformed: process \d has two operations under way at once"):
        check_history(tmp_path, model, Engine.LOCAL)
