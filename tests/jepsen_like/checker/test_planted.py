"""One wrong operation in many is found, with the right witness, by Spark and in this process alike."""

from collections.abc import Container, Iterator
from pathlib import Path

import pytest

from jepsen_like.checker.checking import check_run
from jepsen_like.checker.engine.spark import SparkEngine
from jepsen_like.checker.verdict import Engine, Model, Verdict
from tests.jepsen_like.checker.planted import PLANTS, Base, Plant, apply_plant, forget, write_run
from tests.jepsen_like.checker.plants_found import find_misjudgement
from tests.jepsen_like.conftest import OPERATIONS

Bases = dict[Model, tuple[Base, Path]]


def each_plant(quick: Container[Plant]) -> pytest.MarkDecorator:
    """Only these are planted in the quick tests."""
    return pytest.mark.parametrize(
        "plant",
        [
            pytest.param(
                plant, id=f"{plant.model.value}: {plant.name}", marks=() if plant in quick else pytest.mark.campaign
            )
            for plant in PLANTS
        ],
    )


ONE_OF_EACH_MODEL = {plant.model: plant for plant in reversed(PLANTS)}.values()
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


@pytest.mark.spark
@each_model
def test_a_valid_history_is_valid_in_this_process_and_on_spark(model: Model, bases: Bases, spark: SparkEngine) -> None:
    here = check_run(bases[model][1], model, Engine.LOCAL)
    there = check_run(bases[model][1], model, Engine.SPARK, worker=spark)
    for verdict in (here, there):
        assert verdict.valid is True, verdict.violations
    assert here.findings.ok + here.findings.info + here.findings.fail == OPERATIONS
    assert here.findings.info > OPERATIONS / 100
    assert there.findings == here.findings


@each_plant(PLANTS[::2])
def test_a_planted_violation_is_found(plant: Plant, run: Path) -> None:
    found_alone(check_run(run, plant.model, Engine.LOCAL), plant)


@pytest.mark.spark
@each_plant(ONE_OF_EACH_MODEL)
def test_spark_finds_what_is_found_in_this_process(plant: Plant, run: Path, spark: SparkEngine) -> None:
    there = check_run(run, plant.model, Engine.SPARK, worker=spark)
    found_alone(there, plant)
    assert there.findings == check_run(run, plant.model, Engine.LOCAL).findings
