"""Compaction is judged alike in this process and on Spark."""

from pathlib import Path

import attrs
import pytest

from jepsen_like.checker.checking import check_run
from jepsen_like.checker.engine.spark import SparkEngine
from jepsen_like.checker.verdict import Engine, Model
from tests.jepsen_like.checker.compaction.test_check import Run, forget_the_last_value


@pytest.mark.campaign
@pytest.mark.spark
def test_spark_finds_what_the_engine_of_this_process_finds(tmp_path: Path, spark: SparkEngine) -> None:
    run = Run.sound()
    forget_the_last_value(run)
    here = run.judge(tmp_path)
    there = check_run(tmp_path, Model.COMPACTED, Engine.SPARK, worker=spark)
    assert attrs.evolve(there, engine=Engine.LOCAL) == here
    assert there.valid is False
