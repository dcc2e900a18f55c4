"""Objects whose rows were sorted out in tiny chunks and groups are judged as if they had been in memory at once."""

import random
from pathlib import Path

import attrs
import pytest

from jepsen_like.checker.checking import check_run
from jepsen_like.checker.rows.gather import LIMITS, Limits
from jepsen_like.checker.verdict import Check, Engine, Findings, Model
from jepsen_like.history.files import DumpWriter, HistoryWriter, UnreadableHistory
from jepsen_like.history.ops import Action, Op, Outcome
from tests.examples import examples
from tests.jepsen_like.checker.small_histories import FINAL, as_ops, final_logs_of, log_history, register_history

TINY = Limits(direct=0, task=1, chunk=7, piece=7)
TINY_LOGS = Limits(direct=0, task=3, chunk=7)
"""Some logs are longer than a task, others are not."""
OBJECTS = 40


def write_run(directory: Path, model: Model, seed: int) -> Path:
    """Writes a run of many random small histories, half of them wrong, each about an object of its own; part files are short."""
    rng = random.Random(seed)
    histories = [register_history(rng) if model is Model.REGISTER else log_history(rng) for _ in range(OBJECTS)]
    rows = [
        attrs.evolve(op, process=100 * number + op.process)
        for number, history in enumerate(histories)
        for op in as_ops([one for one in history if one[2] < FINAL], number)
    ]
    # The records of one batch lie in one part file.
    with HistoryWriter(directory / "history.parquet", part_seconds_max=1e9) as history:
        before: Op | None = None
        for op in sorted(rows, key=lambda op: op.t_ret):
            if before is not None and before.process != op.process and rng.random() < 0.3:
                history.flush()
            history.record(op)
            before = op
    if model is Model.LOG:
        with DumpWriter(directory / "dump.parquet", part_rows_max=16) as dump:
            for number, one in enumerate(histories):
                for node, records in final_logs_of(one).items():
                    for offset, (value, epoch) in enumerate(records):
                        dump.record(node, offset, epoch, [value], obj=number)
    return directory


def comparable(findings: Findings) -> Findings:
    """Which of many violations are kept depends on how the work was cut, and so does how often a length is contradicted."""
    counts = {
        check: count if check not in (Check.STALE, Check.ORDER) else 1 for check, count in findings.counts.items()
    }
    return attrs.evolve(findings, violations=(), undecided=(), counts=counts)


@pytest.mark.parametrize("model", [Model.REGISTER, Model.LOG])
@pytest.mark.parametrize("seed", range(examples(1)))
def test_the_same_is_found_in_groups(model: Model, seed: int, tmp_path: Path) -> None:
    run = write_run(tmp_path, model, seed)
    whole = check_run(run, model, Engine.LOCAL, limits=attrs.evolve(LIMITS, direct=1 << 30))
    parts = check_run(run, model, Engine.LOCAL, limits=TINY if model is Model.REGISTER else TINY_LOGS)
    assert len(whole.findings.violated) > OBJECTS / 4
    assert comparable(parts.findings) == comparable(whole.findings)
    assert {one.object for one in parts.findings.undecided} == {one.object for one in whole.findings.undecided}
    assert {one.object for one in parts.violations} <= parts.findings.violated
    assert [path.name for path in run.iterdir() if path.name.startswith(".")] == []


@pytest.mark.parametrize("model", [Model.REGISTER, Model.LOG])
def test_a_process_at_work_in_two_chunks_at_once_is_no_history(model: Model, tmp_path: Path) -> None:
    action = Action.READ if model is Model.REGISTER else Action.TAIL
    with HistoryWriter(tmp_path / "history.parquet", part_rows_max=1, part_seconds_max=1e9) as history:
        for number in range(20):
            history.record(Op(f=action, type=Outcome.OK, offset=0, t_inv=10 * number, t_ret=10 * number + 5, process=1))
        history.record(Op(f=action, type=Outcome.OK, offset=0, t_inv=52, t_ret=300, process=1))
    with pytest.raises(UnreadableHistory, match="malformed: process 1 has two operations under way at once"):
        check_run(tmp_path, model, Engine.LOCAL, limits=TINY)
