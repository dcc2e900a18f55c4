"""Two clusters are judged alike in this process and on Spark, and a fault in 100,000 records is found."""

from pathlib import Path

import attrs
import pytest

from jepsen_like.checker.checking import check_run
from jepsen_like.checker.engine.spark import SparkEngine
from jepsen_like.checker.rows.gather import Limits
from jepsen_like.checker.verdict import Check, Engine, Model
from tests.jepsen_like.checker.mirror.test_check import (
    Plant,
    double_a_copy,
    drop_a_copy,
    write_late_and_let_it_flow_over,
)
from tests.jepsen_like.checker.mirror.world import MARKER, A, B, Rehearsal, lagging

MANY = 100_000


@pytest.mark.campaign
@pytest.mark.spark
@pytest.mark.parametrize("plant", [drop_a_copy, double_a_copy, write_late_and_let_it_flow_over])
def test_spark_finds_what_the_engine_of_this_process_finds(plant: Plant, tmp_path: Path, spark: SparkEngine) -> None:
    run = lagging()
    plant(run.partitions[0])
    here = run.judge(tmp_path)
    there = check_run(tmp_path, Model.MIRRORED, Engine.SPARK, worker=spark)
    assert attrs.evolve(there, engine=Engine.LOCAL) == here
    assert there.valid is False


def test_a_history_in_small_pieces_gets_the_same_verdict(tmp_path: Path) -> None:
    run = Rehearsal.of(11, partitions=9).play(2000)
    whole = run.judge(tmp_path)
    limits = Limits(chunk=200, task=100, object=10_000)
    in_pieces = check_run(tmp_path, Model.MIRRORED, Engine.LOCAL, limits=limits)
    assert whole.valid is True
    assert (in_pieces.valid, in_pieces.mirror, in_pieces.losses) == (True, whole.mirror, whole.losses)


def test_one_record_in_100_000_is_found(tmp_path: Path) -> None:
    run = Rehearsal.of(1)
    (one,) = run.partitions
    for _ in range(MANY):
        one.send()
    one.copy(MANY)
    one.logs[B].append(one.logs[B][MANY // 3])
    one.logs[B][MANY // 2] = MARKER
    run.lose()
    one.logs[B].append(one.send(cluster=A))
    one.send()
    verdict = run.judge(tmp_path)
    assert verdict.findings.counts == {Check.DUPLICATED: 1, Check.LOST: 1, Check.FOREIGN: 1, Check.LATE_WRITE: 1}
    assert f"{MANY // 2 + 1}, acknowledged at offset {MANY // 2}" in " ".join(
        one.sentence for one in verdict.violations
    )
