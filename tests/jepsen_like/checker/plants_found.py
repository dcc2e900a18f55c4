"""True if the checker finds a planted violation, it alone, with its culprit and a witness that proves it."""

import tempfile
from pathlib import Path

from jepsen_like.checker.checking import check_run
from jepsen_like.checker.verdict import Engine, Model, Verdict
from jepsen_like.history.ops import NONE
from tests.jepsen_like.checker.planted import (
    CULPRIT,
    PLANTS,
    Base,
    Plant,
    apply_plant,
    log_base,
    register_base,
    write_run,
)
from tests.jepsen_like.checker.witness import alone_impossible

ROWS_PER_REGISTER = 100


def find_misjudgement(verdict: Verdict, plant: Plant) -> str | None:
    """Returns the fault of a verdict on a history with this plant, None for a right one."""
    if verdict.valid is not False:
        return f"a planted {plant.name} was not found: the checker returned {'valid' if verdict.valid else 'unknown'}"
    if verdict.findings.counts != {plant.check: 1}:
        return f"a planted {plant.name} was found as {verdict.findings.counts}"
    (violation,) = verdict.violations
    shows = {op.process for op in violation.ops}
    if violation.check is not plant.check or (NONE if plant.of_final_logs else CULPRIT) not in shows:
        return f"a planted {plant.name} was explained without its culprit: {violation}"
    if not alone_impossible(violation, plant.model):
        return f"the witness of a planted {plant.name} proves nothing: {violation}"
    counted = verdict.findings.lost_acked, verdict.findings.duplicated
    if counted != (plant.name == "lost append", plant.name == "duplicate"):
        return f"a planted {plant.name} was counted as {counted[0]} lost and {counted[1]} duplicated"
    return None


def first_misjudged(model: Model, operations: int) -> tuple[str | None, int]:
    """Judge a valid history and one with each plant: the first wrong verdict, if any, and how many were asked for."""
    base = base_of(model, operations)
    with tempfile.TemporaryDirectory() as directory:
        write_run(base, Path(directory))
        verdict = check_run(Path(directory), model, Engine.LOCAL)
    if verdict.valid is not True or verdict.violations:
        return f"a valid history is judged {verdict.valid}: {verdict.violations[:1]}", 1
    plants = [plant for plant in PLANTS if plant.model is model]
    for number, plant in enumerate(plants, start=2):
        with tempfile.TemporaryDirectory() as directory:
            write_run(apply_plant(base, plant, seed=3), Path(directory))
            wrong = find_misjudgement(check_run(Path(directory), model, Engine.LOCAL), plant)
        if wrong is not None:
            return wrong, number
    return None, len(plants) + 1


def base_of(model: Model, operations: int) -> Base:
    """A valid history of this size."""
    if model is Model.LOG:
        return log_base(operations, seed=1)
    return register_base(operations, seed=1, keys=max(1, operations // ROWS_PER_REGISTER))
