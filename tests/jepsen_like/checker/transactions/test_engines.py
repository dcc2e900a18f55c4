"""Transactions are judged alike in this process and on Spark."""

from pathlib import Path

import attrs
import pytest

from jepsen_like.checker.checking import check_run
from jepsen_like.checker.engine.spark import SparkEngine
from jepsen_like.checker.verdict import Engine, Model
from tests.jepsen_like.checker.transactions.test_check import Run, lose_half, read_aborted


@pytest.mark.campaign
@pytest.mark.spark
def test_spark_finds_what_the_engine_of_this_process_finds(tmp_path: Path, spark: SparkEngine) -> None:
    run = Run.sound()
    lose_half(run)
    read_aborted(run)
    run.write(tmp_path)
    here = check_run(tmp_path, Model.TRANSACTIONS, Engine.LOCAL)
    there = check_run(tmp_path, Model.TRANSACTIONS, Engine.SPARK, worker=spark)
    assert attrs.evolve(there, engine=Engine.LOCAL) == here
    assert there.valid is False
