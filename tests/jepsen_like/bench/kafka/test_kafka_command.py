"""The whole command in short: our brokers alone under every load and fault."""

import shutil
from pathlib import Path

import pytest

from jepsen_like.bench import figures, systems
from jepsen_like.bench.figures import Failover, Throughput
from jepsen_like.bench.kafka.cluster import KafkaCluster
from jepsen_like.bench.kafka.loads import KAFKA_LOADS, ONE_AT_A_TIME, READS, STREAMS, TRANSACTIONS, KafkaWork
from jepsen_like.bench.kafka.measure import KafkaBench, KafkaDriver
from jepsen_like.bench.processes import DidNotAnswer, LoadWorker, running
from jepsen_like.bench.systems import RecordsMissing
from jepsen_like.cli import ExitStatus, execute

pytestmark = pytest.mark.cluster
FEW = (STREAMS[-1], ONE_AT_A_TIME[0], TRANSACTIONS[0], READS[-1])
"""A load of each kind, of those that cost least."""


def test_without_options_every_kind_of_work_is_measured() -> None:
    assert {load.work for load in KAFKA_LOADS} == {load.work for load in FEW} == set(KafkaWork)
    assert KafkaBench.loads == KAFKA_LOADS


@pytest.mark.campaign
@pytest.mark.timeout(300)
def test_a_short_run_measures_ours_and_leaves_nothing_behind(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shutil, "which", lambda name: None)
    monkeypatch.setattr(KafkaBench, "loads", FEW)
    output, data = tmp_path / "kafka.json", tmp_path / "data"
    arguments = ["bench", "kafka", "--repeats", "1", "--seconds", "0.1", "--kills", "1", "--pauses", "1"]
    assert execute([*arguments, "--directory", str(data), "--output", str(output)]) == ExitStatus.VALID
    said = capsys.readouterr()
    assert "apache not measured" in said.err
    assert "Three brokers" in said.out
    found = figures.load(output)
    rows = [figure for figure in found.figures if isinstance(figure, Throughput)]
    assert {row.load for row in rows} == {load.key for load in FEW}
    assert all(row.records_s > 0 and 0 < row.p50_ms <= row.p99_ms for row in rows)
    faults = [figure for figure in found.figures if isinstance(figure, Failover)]
    assert [(figure.fault, len(figure.seconds)) for figure in faults] == [("kill", 1), ("pause", 1)]
    assert list(data.iterdir()) == []


def test_what_the_client_cannot_do_is_an_answer_with_its_reason(tmp_path: Path) -> None:
    client = LoadWorker("kafka.client", tmp_path)
    settings = {"message.timeout.ms": 200, "acks": "all"}
    question = {
        "ask": "one",
        "client": {"bootstrap.servers": "127.0.0.1:9", "log_level": 0},
        "topic": "t",
        "partitions": 1,
        "record_bytes": 1,
        "seconds": 0.1,
    }
    with running([client]), pytest.raises(DidNotAnswer, match="one: "):
        client.ask({**question, "settings": settings})


def test_an_old_answer_about_the_end_of_a_topic_is_no_loss_and_a_loss_stays_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A leader that was paused answers as before the pause until it learns that another one leads."""
    ends = iter([287, 287, 2195])
    driver = KafkaDriver(KafkaCluster("127.0.0.1:9"), LoadWorker("kafka.client", tmp_path), 1.0)
    monkeypatch.setattr(driver, "_count_held", lambda topic, partitions: next(ends))
    driver._check("t", 1, 2195)
    monkeypatch.setattr(systems, "COUNTED_WITHIN_S", 0.2)
    monkeypatch.setattr(driver, "_count_held", lambda topic, partitions: 287)
    with pytest.raises(RecordsMissing, match="2,195 records were acknowledged, 287 are there"):
        driver._check("t", 1, 2195)
