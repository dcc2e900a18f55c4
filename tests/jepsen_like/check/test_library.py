"""A check in a session of Spark that the caller has: of a path, a URL that Spark reads, and a DataFrame."""

import json
from pathlib import Path
from typing import Any

import pytest

from jepsen_like.check.library import check_history
from jepsen_like.checker.checking import check_run
from jepsen_like.checker.engine.spark import SparkEngine
from jepsen_like.checker.verdict import Check, Engine, Model
from jepsen_like.cli import EnvironmentMissing
from jepsen_like.history.files import DumpWriter, UnreadableHistory
from tests.jepsen_like.check.phantom_registers import write_registers
from tests.jepsen_like.checker.log.test_several_logs import LOGS, RECORDS, run_of, value_of

pytestmark = pytest.mark.spark


@pytest.fixture(scope="module")
def session(spark: SparkEngine) -> Any:
    session = spark.session
    session.conf.set("spark.sql.shuffle.partitions", 2)  # of 200 most would be empty
    return session


@pytest.fixture
def registers(tmp_path: Path) -> Path:
    """Twenty registers, of which one returned a value that no client wrote."""
    write_registers(tmp_path)
    return tmp_path


def test_a_url_and_a_frame_are_judged_alike_and_the_session_goes_on(registers: Path, session: Any) -> None:
    here = check_run(registers, Model.REGISTER, Engine.LOCAL)
    assert here.findings.counts == {Check.PHANTOM: 1}
    frame = session.read.parquet(str(registers / "history.parquet"))
    for history in (f"file://{registers}/history.parquet", frame):
        found = check_history(session, history, "register")
        assert found.verdict.findings == here.findings
        told = [(row.check, row.object, row.sentence) for row in found.violations.collect()]
        assert told == [(str(one.check), one.object, one.sentence) for one in here.violations]
    assert session.range(3).count() == 3


def test_what_is_wrong_with_operation_maps_is_told_with_their_own_values(tmp_path: Path, session: Any) -> None:
    path = tmp_path / "history.edn"
    path.write_text(
        '{:process 0 :type :invoke :f :read :value nil}\n{:process 0 :type :ok :f :read :value {:colour "red"}}\n'
    )
    (found,) = check_history(session, path, "register").violations.collect()
    assert (
        found.sentence == 'register 0: read of {:colour "red"} by process 0, but no client ever wrote {:colour "red"}'
    )
    assert json.loads(found.operations[0])["a"] == '{:colour "red"}'


@pytest.mark.parametrize("missing", [pytest.param(None, marks=pytest.mark.campaign), (3, 4)])
def test_final_logs_come_from_a_url_too(tmp_path: Path, session: Any, missing: tuple[int, int] | None) -> None:
    run = run_of(tmp_path, missing=missing)
    here = check_run(run, Model.LOG, Engine.LOCAL)
    found = check_history(session, f"file://{run}", "log").verdict
    assert (found.findings, found.unchecked) == (here.findings, here.unchecked)
    assert found.valid is (missing is None)


@pytest.mark.campaign
@pytest.mark.parametrize("scheme", ["file://", ""])
def test_faults_of_a_run_excuse_nothing_where_its_history_is_named(scheme: str, tmp_path: Path, session: Any) -> None:
    run = run_of(tmp_path)
    with DumpWriter(run / "dump.parquet") as dump:
        for log in LOGS:
            dump.begin(1, 0, obj=log)
            for offset in range(RECORDS - (log == LOGS[0])):
                dump.record(1, offset, 1, [value_of(log, offset)], obj=log)
    settings = {"flush": "none", "flush_interval_s": 0.05}
    (run / "test.json").write_text(json.dumps({"nodes": 1, "replication": "raft", "settings": settings}))
    cut = {"id": 1, "kind": "power", "nodes": [1], "begun_ns": 10 * 10**9 + 10, "injected_ns": 10 * 10**9 + 20}
    (run / "nemesis.jsonl").write_text(json.dumps(cut))
    for place, valid in (("", True), ("/history.parquet", False)):
        verdict = check_history(session, f"{scheme}{run}{place}", "log").verdict
        assert (verdict.valid, verdict.findings.lost_acked) == (valid, 1), place


@pytest.mark.campaign
def test_final_records_of_a_log_without_operations_do_not_keep_the_others_from_being_judged(
    tmp_path: Path, session: Any
) -> None:
    run = run_of(tmp_path)
    with DumpWriter(run / "dump.parquet") as dump:
        for log in (*LOGS, *range(100, 120)):  # so that each task has one
            dump.begin(1, 0, obj=log)
            for offset in range(RECORDS):
                dump.record(1, offset, 1, [value_of(log, offset)], obj=log)
    here = check_run(run, Model.LOG, Engine.LOCAL)
    assert here.valid is True
    assert check_history(session, f"file://{run}", "log").verdict.findings == here.findings


def test_what_is_no_history_is_named(tmp_path: Path, session: Any) -> None:
    for url, complaint in (
        (f"file://{tmp_path}/none", "finds no Parquet files"),
        (f"file://{tmp_path}/other", "its columns"),
    ):
        session.range(2).write.parquet(f"file://{tmp_path}/other", mode="overwrite")
        with pytest.raises(UnreadableHistory, match=complaint):
            check_history(session, url, "log")
    with pytest.raises(UnreadableHistory, match="its columns"):
        check_history(session, session.range(3), "log")
    with pytest.raises(UnreadableHistory, match="a model is needed"):
        check_history(session, f"file://{run_of(tmp_path / 'run')}")
    torn = next((tmp_path / "run" / "history.parquet").rglob("*.parquet"))
    torn.write_bytes(torn.read_bytes()[:-20])
    with pytest.raises(UnreadableHistory, match="not a readable Parquet file"):
        check_history(session, f"file://{tmp_path / 'run'}", "log")


@pytest.mark.parametrize(
    ("url", "complaint"),
    [
        ("nothing://store/run", 'Spark here cannot read nothing://store/run.*No FileSystem for scheme "nothing"'),
        ("s3a://bucket/run", "Spark here cannot read s3a://bucket/run.*S3AFileSystem not found.*spark.jars.packages"),
        ("hdfs://127.0.0.1:1/run", "the store of hdfs://127.0.0.1:1/run.* does not answer .*Connection refused"),
    ],
)
def test_a_store_that_spark_cannot_reach_is_named(url: str, complaint: str, session: Any) -> None:
    with pytest.raises(EnvironmentMissing, match=complaint):
        check_history(session, url, "log")
