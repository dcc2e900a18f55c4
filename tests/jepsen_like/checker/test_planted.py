"""One wrong operation in many is found, with the right witness, by Spark and in this process alike."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from jepsen_like.checker.checking import check_run
from jepsen_like.checker.engine.spark import SparkEngine
from jepsen_like.checker.verdict import Engine, Model, Verdict
from tests.jepsen_like.checker.planted import PLANTS, Base, Plant, apply_plant, forget, write_run
from tests.jepsen_like.checker.plants_found import find_misjudgement
from tests.jepsen_like.conftest import OPERATIONS

Bases = dict[Model, tuple[Base, Path]]
pytestmark = pytest.mark.spark
each_plant = pytest.mark.parametrize(
    "plant",
    [
        pytest.param(plant, id=f"{plant.model.value}: {plant.name}", marks=[pytest.mark.campaign] * (number % 2))
        for number, plant in enumerate(PLANTS)
    ],
)
each_model = pytest.mark.parametrize("model", [Model.LOG, Model.REGISTER])


@pytest.fixture
def run(plant: Plant, bases: Bases, tmp_path: Path) -> Iterator[Path]:
    directory = tmp_path / "run"
    write_run(apply_plant(bases[plant.model][0], plant, seed=3), directory, like=bases[plant.model])
    yield directory
    forget(directory)


def found_alone(verdict: Verdict, plant: Plant) -> None:
    wrong = find_misjudgement(verdict, plant)
    assert wrong is None, wrong


@each_model
def test_a_valid_history_is_valid_in_this_process_and_on_spark(model: Model, bases: Bases, spark: SparkEngine) -> None:
    here = check_run(bases[model][1], model, Engine.LOCAL)
    there = check_run(bases[model][1], model, Engine.SPARK, worker=spark)
    for verdict in (here, there):
        assert verdict.valid is True, verdict.violations
    assert here.findings.ok + here.findings.info + here.findings.fail == OPERATIONS
    assert here.findings.info > OPERATIONS / 100
    assert there.findings == here.findings


@each_plant
def test_a_planted_violation_is_found_in_this_process_and_on_spark(plant: Plant, run: Path, spark: SparkEngine) -> None:
    here = check_run(run, plant.model, Engine.LOCAL)
    there = check_run(run, plant.model, Engine.SPARK, worker=spark)
    for verdict in (here, there):
        found_alone(verdict, plant)
    assert there.findings == here.findings
