"""A run of several logs: each final log is held against the history of its own object."""

import shutil
from pathlib import Path

import attrs
import pytest

from jepsen_like.checker.allowance import Allowance
from jepsen_like.checker.checking import check_run
from jepsen_like.checker.rows.final_logs import final_logs_of
from jepsen_like.checker.rows.gather import LIMITS, Limits
from jepsen_like.checker.verdict import Check, Engine, Model, Verdict
from jepsen_like.history.files import DumpWriter, HistoryWriter, KeepRule, UnreadableHistory, schema
from jepsen_like.history.ops import DUMP_COLUMNS, Action, ErrorCode, Op, Outcome

LOGS = (0, 3, 70)
RECORDS = 10
S = 1_000_000_000
POWER_CUT = Allowance(fault=1, kind="power", promise="may be lost", since_ns=0, begun_ns=99 * S, injected_ns=99 * S + 1)


def value_of(log: int, offset: int) -> int:
    return 1000 * (log + 1) + offset


def run_of(directory: Path, *, missing: tuple[int, int] | None = None, begins: int = 0, bytes_kept: int = 0) -> Path:
    """Three logs with ten acknowledged appends each; the final logs of log and offset `missing` have another value there."""
    with HistoryWriter(directory / "history.parquet") as history:
        for number, log in enumerate(LOGS):
            for offset in range(RECORDS):
                at = (offset + 1) * S
                history.record(
                    Op(
                        f=Action.APPEND,
                        type=Outcome.OK,
                        t_inv=at,
                        t_ret=at + 1,
                        object=log,
                        process=number,
                        a=value_of(log, offset),
                        offset=offset,
                        epoch=1,
                        node=1,
                    )
                )
    rule = KeepRule(retention_bytes=bytes_kept) if bytes_kept else KeepRule()
    with DumpWriter(directory / "dump.parquet", rule=rule) as dump:
        for log in LOGS:
            first = begins if log == LOGS[-1] else 0
            for node in (1, 2, 3):
                dump.begin(node, first, obj=log)
                for offset in range(first, RECORDS):
                    value = 5 if (log, offset) == missing else value_of(log, offset)
                    dump.record(node, offset, 1, [value], size=100, obj=log)
        dump.dumped_ns = 100 * S
    return directory


def judge_run(directory: Path, *allowances: Allowance) -> Verdict:
    return check_run(directory, Model.LOG, Engine.LOCAL, allowances=allowances)


def test_several_logs_that_hold_everything_are_valid(tmp_path: Path) -> None:
    verdict = judge_run(run_of(tmp_path))
    assert (verdict.valid, verdict.findings.objects, verdict.findings.acked) == (True, 3, 30)


@pytest.mark.parametrize("log", LOGS)
def test_a_record_that_one_of_several_logs_lacks_is_lost_from_that_log(log: int, tmp_path: Path) -> None:
    verdict = judge_run(run_of(tmp_path, missing=(log, 4)))
    assert verdict.valid is False
    assert verdict.findings.lost_acked == 1
    (lost,) = (violation for violation in verdict.violations if violation.check is Check.LOST)
    assert lost.object == log


@pytest.mark.parametrize("log", LOGS)
def test_a_record_is_lost_from_a_run_that_was_copied_without_empty_directories(log: int, tmp_path: Path) -> None:
    run = run_of(tmp_path, missing=(log, 4))
    for bucket in (run / "history.parquet").iterdir():
        if not any(bucket.iterdir()):
            bucket.rmdir()
    assert [path.name for path in sorted((run / "history.parquet").iterdir())] == ["bucket=0", "bucket=4"]
    in_groups = check_run(run, Model.LOG, Engine.LOCAL, limits=Limits(direct=0, task=100, chunk=200))
    assert (in_groups.valid, in_groups.findings.lost_acked) == (False, 1)


@pytest.mark.parametrize("log", LOGS)
def test_a_log_without_its_newest_record_is_excused_by_a_power_cut_like_one_alone(log: int, tmp_path: Path) -> None:
    run = run_of(tmp_path)
    with DumpWriter(run / "dump.parquet") as dump:
        for one in LOGS:
            for node in (1, 2, 3):
                dump.begin(node, 0, obj=one)
                for offset in range(RECORDS - (one == log)):
                    dump.record(node, offset, 1, [value_of(one, offset)], obj=one)
    assert judge_run(run).valid is False
    verdict = judge_run(run, POWER_CUT)
    assert (verdict.valid, [loss.records for loss in verdict.losses]) == (True, [1])
    assert (verdict.findings.acked, verdict.findings.lost_acked) == (30, 1)


def test_a_log_that_let_go_more_than_its_rule_allows_is_named(tmp_path: Path) -> None:
    assert judge_run(run_of(tmp_path / "keeps", begins=3, bytes_kept=100)).valid is True
    verdict = judge_run(run_of(tmp_path / "loses", begins=3, bytes_kept=1 << 20))
    assert verdict.valid is False
    assert {violation.object for violation in verdict.violations} == {LOGS[-1]}


@pytest.mark.parametrize(
    ("limits", "allowances"),
    [
        pytest.param(LIMITS, (), id="as it lies"),
        pytest.param(Limits(direct=0, task=100, chunk=200), (), id="in groups"),
        pytest.param(Limits(direct=0, task=4, chunk=8), (), id="as long logs"),
        pytest.param(LIMITS, (POWER_CUT,), id="with allowed losses"),
    ],
)
def test_it_is_told_of_which_logs_losses_are_not_known(
    limits: Limits, allowances: tuple[Allowance, ...], tmp_path: Path
) -> None:
    run = run_of(tmp_path)
    with DumpWriter(run / "dump.parquet") as dump:
        for log in LOGS[1:]:
            dump.begin(1, 0, obj=log)
            for offset in range(RECORDS):
                dump.record(1, offset, 1, [value_of(log, offset)], obj=log)
    verdict = check_run(run, Model.LOG, Engine.LOCAL, limits=limits, allowances=allowances)
    assert verdict.valid is True
    assert verdict.checks["lost"]["valid"] is None
    assert verdict.not_tested == ("loss: 1 of 3 logs have no final logs",)


def test_a_dump_that_is_about_other_logs_says_nothing() -> None:
    assert final_logs_of(schema(DUMP_COLUMNS).empty_table(), {}) == {}


@pytest.mark.parametrize("is_dumped", [True, False])
def test_a_record_that_left_any_log_without_a_rule_is_lost(is_dumped: bool, tmp_path: Path) -> None:
    run = run_of(tmp_path)
    if not is_dumped:
        shutil.rmtree(run / "dump.parquet")
    with HistoryWriter(run / "history.parquet", name="1") as history:
        refused = Op(f=Action.READ, type=Outcome.FAIL, t_inv=90 * S, t_ret=91 * S, object=70, process=9, node=1)
        history.record(attrs.evolve(refused, err=ErrorCode.TRIMMED, offset=0, seen=3))
    verdict = judge_run(run)
    assert (verdict.valid, verdict.findings.violated) == (False, frozenset([70]))
    assert verdict.violations[0].sentence.startswith("log 70: node 1 said that its log began at 3")


def test_a_damaged_dump_beside_a_history_without_operations_is_refused(tmp_path: Path) -> None:
    run_of(tmp_path)
    for part in (tmp_path / "history.parquet").rglob("*.parquet"):
        part.unlink()
    kept = tmp_path / "dump.parquet" / "kept.json"
    kept.write_text(kept.read_text().replace('"end": 10', '"end": 7'))
    with pytest.raises(UnreadableHistory, match="node 1 has 10 records"):
        check_run(tmp_path, Model.LOG, Engine.LOCAL)
