"""Transactions, and what clients of any Kafka saw, are judged alike in this process and on Spark, whole and in parts."""

from pathlib import Path

import attrs
import pytest

from jepsen_like.checker.checking import check_run
from jepsen_like.checker.cycles.levels import HeldTo, Level
from jepsen_like.checker.engine.spark import SparkEngine
from jepsen_like.checker.rows.gather import LIMITS
from jepsen_like.checker.verdict import Check, Engine, Model
from jepsen_like.history.files import HistoryWriter
from tests.jepsen_like.checker.cycles.sloppy import sloppy_partitions, sloppy_transactions

SMALL = attrs.evolve(LIMITS, task=300, chunk=200)
LISTS = HeldTo(Model.LIST_APPEND, Level.STRICT_SERIALIZABLE)
REGISTERS = HeldTo(Model.RW_REGISTER, Level.SERIALIZABLE)
"""At stricter levels the versions of most registers contradict each other, and nothing more is inferred from these."""


def write(path: Path, model: Model) -> Path:
    forgets = 0.02 if model is Model.LIST_APPEND else 0.3  # a register shows less than a list
    ops = sloppy_partitions(7) if model is Model.KAFKA else sloppy_transactions(7, model, forgets=forgets)
    with HistoryWriter(path / "history.parquet", part_rows_max=150) as history:
        for op in ops:
            history.record(op)
    return path


@pytest.mark.spark
@pytest.mark.parametrize(
    "model", [LISTS, *(pytest.param(model, marks=pytest.mark.campaign) for model in (REGISTERS, Model.KAFKA))]
)
def test_spark_finds_what_the_engine_of_this_process_finds(
    model: Model | HeldTo, tmp_path: Path, spark: SparkEngine
) -> None:
    write(tmp_path, model.model if isinstance(model, HeldTo) else model)
    here = check_run(tmp_path, model, Engine.LOCAL, limits=SMALL)
    there = check_run(tmp_path, model, Engine.SPARK, worker=spark, limits=SMALL)
    assert attrs.evolve(there, engine=Engine.LOCAL) == here
    assert here.valid is False
    assert any(str(check).startswith("g") for check in here.findings.counts), "a cycle is among them"


@pytest.mark.parametrize("model", [LISTS, REGISTERS, Model.KAFKA])
def test_keys_that_are_judged_group_by_group_show_what_they_show_together(
    model: Model | HeldTo, tmp_path: Path
) -> None:
    write(tmp_path, model.model if isinstance(model, HeldTo) else model)
    whole = check_run(tmp_path, model, Engine.LOCAL)
    in_parts = check_run(tmp_path, model, Engine.LOCAL, limits=SMALL)
    assert in_parts.findings.counts == whole.findings.counts
    assert in_parts.findings.violated == whole.findings.violated
    assert in_parts.findings.ok == whole.findings.ok


def test_a_sound_history_of_some_length_is_valid(tmp_path: Path) -> None:
    with HistoryWriter(tmp_path / "history.parquet", part_rows_max=5_000) as history:
        for op in sloppy_transactions(3, Model.LIST_APPEND, count=5_000, forgets=0.0):
            history.record(op)
    verdict = check_run(tmp_path, LISTS, Engine.LOCAL)
    assert (verdict.valid, verdict.violations) == (True, ())
    assert Check.G2 not in verdict.findings.counts
    assert verdict.findings.ok == 5_000
