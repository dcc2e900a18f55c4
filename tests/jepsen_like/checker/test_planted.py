"""One wrong operation in a million is found, with the right witness, by Spark and in this process alike."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from jepsen_like.checker.checking import check_run
from jepsen_like.checker.spark_engine import SparkEngine
from jepsen_like.checker.verdict import Engine, Model, Verdict
from tests.jepsen_like.checker.conftest import OPERATIONS
from tests.jepsen_like.checker.planted import PLANTS, Base, Plant, forget, planted, write_run
from tests.jepsen_like.checker.plants_found import misjudged

Bases = dict[Model, tuple[Base, Path]]
each_plant = pytest.mark.parametrize("plant", PLANTS, ids=lambda plant: f"{plant.model.value}: {plant.name}")
each_model = pytest.mark.parametrize("model", [Model.LOG, Model.REGISTER])


@pytest.fixture
def run(plant: Plant, bases: Bases, tmp_path: Path) -> Iterator[Path]:
    directory = tmp_path / "run"
    write_run(planted(bases[plant.model][0], plant, seed=3), directory, like=bases[plant.model])
    yield directory
    forget(directory)


def found_alone(verdict: Verdict, plant: Plant) -> None:
    wrong = misjudged(verdict, plant)
    assert wrong is None, wrong


@each_model
def test_a_valid_million_is_valid_in_this_process(model: Model, bases: Bases) -> None:
    verdict = check_run(bases[model][1], model, Engine.LOCAL)
    assert verdict.valid is True, verdict.violations
    assert verdict.findings.ok + verdict.findings.info + verdict.findings.fail == OPERATIONS
    assert verdict.findings.info > OPERATIONS / 100


@each_plant
def test_a_planted_violation_is_found_in_this_process(plant: Plant, run: Path) -> None:
    found_alone(check_run(run, plant.model, Engine.LOCAL), plant)


@pytest.mark.spark
@each_model
def test_a_valid_million_is_valid_on_spark(model: Model, bases: Bases, spark: SparkEngine) -> None:
    verdict = check_run(bases[model][1], model, Engine.SPARK, worker=spark)
    assert verdict.valid is True, verdict.violations
    assert verdict.findings == check_run(bases[model][1], model, Engine.LOCAL).findings


@pytest.mark.spark
@each_plant
def test_a_planted_violation_is_found_on_spark(plant: Plant, run: Path, spark: SparkEngine) -> None:
    verdict = check_run(run, plant.model, Engine.SPARK, worker=spark)
    found_alone(verdict, plant)
    assert verdict.findings == check_run(run, plant.model, Engine.LOCAL).findings
