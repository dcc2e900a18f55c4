"""The checker's tests share one Spark session, and valid histories of many operations on disk."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from jepsen_like.checker.verdict import Model
from tests.jepsen_like.checker.planted import Base, log_base, register_base, write_run

if TYPE_CHECKING:
    from jepsen_like.checker.engine.spark import SparkEngine

OPERATIONS = 100_000


@pytest.fixture(scope="session")
def spark() -> "Iterator[SparkEngine]":
    from jepsen_like.checker.engine.spark import SparkEngine

    with SparkEngine() as engine:
        yield engine


@pytest.fixture(scope="session")
def bases(tmp_path_factory: pytest.TempPathFactory) -> dict[Model, tuple[Base, Path]]:
    """A valid history of `OPERATIONS` operations per model, and the run directory that holds it."""
    place = tmp_path_factory.mktemp("bases")
    found = {}
    for base in (log_base(OPERATIONS, seed=1), register_base(OPERATIONS, seed=1)):
        directory = place / base.model.value
        write_run(base, directory)
        found[base.model] = (base, directory)
    return found
