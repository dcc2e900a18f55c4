"""Each planted violation, one in a hundred million operations, is found with the right witness.

    python -m tests.jepsen_like.checker.plants_at_scale [--operations 100000000] [--directory DIR] [--engine local]

A valid history of 1,000 objects, and for each plant one more object (for registers, a thousand more) with a history of its
own in which it is, in part files between the others. All plants of a model are looked for in one check on Spark. Each
must be found in its object, alone, as what it is, with its culprit and with a witness that proves it. Prints a line for each.
Status 1 if one is not, or anything else is found.
"""

import argparse
import importlib
import shutil
import sys
import tempfile
import time
from pathlib import Path

import attrs
import numpy as np
import pyarrow as pa

from jepsen_like.checker.checking import HISTORY, check_run
from jepsen_like.checker.rows.final_logs import DUMP
from jepsen_like.checker.verdict import Engine, Model, Verdict
from jepsen_like.history.files import bucket_of, schema, write_part
from jepsen_like.history.ops import COLUMNS, DUMP_COLUMNS, NEVER, NONE
from tests.jepsen_like.checker.planted import (
    BUCKETS,
    CULPRIT,
    NODES,
    PLANTS,
    Base,
    Plant,
    Rows,
    apply_plant,
    epoch_of,
    log_base,
    register_base,
)
from tests.jepsen_like.checker.witness import alone_impossible

sys.path.append(str(Path(__file__).parents[3] / "benchmarks"))
write_history = importlib.import_module("check_scale").write_history
"""Of a script that is in no package."""

OBJECTS = 1_000
ROWS = 100_000
"""Of the history that a plant is in."""
KEYS = 1_000
APART = 1_000_000
"""Between the objects of one plant and the next, and between their processes."""


def own_objects(plant: int) -> range:
    """The objects of a plant."""
    return range((1 + plant) * APART, (2 + plant) * APART)


def move_rows(base: Base, plant: int, moment: int) -> Rows:
    """Returns the rows of a planted history as part of the large one, from `moment` on."""
    rows = {name: values.copy() for name, values in base.rows.items()}
    rows["object"] += own_objects(plant).start
    culprit = rows["process"] == CULPRIT
    rows["process"] = np.where(culprit, CULPRIT + plant, rows["process"] + own_objects(plant).start)
    rows["t_inv"] += moment
    rows["t_ret"] = np.where(rows["t_ret"] == NEVER, NEVER, rows["t_ret"] + moment)
    return rows


def write_planted(run: Path, base: Base, plant: int, moment: int, after: float) -> None:
    """Write the rows of a planted history between the part files of the large one, and its final logs."""
    rows = move_rows(base, plant, moment)
    bucket = np.array([bucket_of(one, BUCKETS) for one in rows["object"].tolist()])
    for number in np.unique(bucket).tolist():
        directory = run / HISTORY / f"bucket={number}"
        parts = sorted(directory.glob("part-0-*.parquet"))
        name = f"{parts[int(after * len(parts))].stem}-{plant:02d}.parquet"
        chosen = {name: values[bucket == number] for name, values in rows.items()}
        table = pa.table(chosen).select([column for column, _ in COLUMNS]).cast(schema())
        write_part(table, directory / name)
    if base.model is Model.LOG:
        end = len(base.content)
        for node in NODES:
            values = {
                "object": np.full(end, own_objects(plant).start),
                "node": np.full(end, node),
                "offset": np.arange(end),
                "epoch": epoch_of(np.arange(end), end),
                "a": base.content,
            }
            (run / DUMP).mkdir(exist_ok=True)
            table = pa.table(base.altered(node, values)).cast(schema(DUMP_COLUMNS))
            write_part(table, run / DUMP / f"part-{plant:03d}-{node}.parquet")


def find_misjudgement(verdict: Verdict, plant: Plant, number: int) -> str | None:
    """Returns the fault of the findings about a plant, None if they are right."""
    mine = [one for one in verdict.violations if one.object in own_objects(number)]
    if len(mine) != 1:
        return f"found {len(mine)} times"
    (violation,) = mine
    if violation.check is not plant.check:
        return f"found as {violation.check}: {violation.sentence}"
    if (NONE if plant.of_final_logs else CULPRIT + number) not in {op.process for op in violation.ops}:
        return f"explained without its culprit: {violation.sentence}"
    first = own_objects(number).start
    ops = tuple(attrs.evolve(op, object=op.object - first) for op in violation.ops)
    if not alone_impossible(attrs.evolve(violation, ops=ops), plant.model):
        return f"its witness proves nothing: {violation.sentence}"
    return None


def judge(model: Model, operations: int, engine: Engine, place: Path) -> bool:
    """Write a history with all plants of a model and check it; returns whether all is right."""
    plants = [plant for plant in PLANTS if plant.model is model]
    run = Path(tempfile.mkdtemp(prefix=f"plants-{model.value}-", dir=place))
    try:
        write_history(run, model, operations, OBJECTS, None)
        for number, plant in enumerate(plants):
            base = log_base(ROWS, seed=number) if model is Model.LOG else register_base(ROWS, seed=number, keys=KEYS)
            after = (number + 0.5) / len(plants)
            write_planted(run, apply_plant(base, plant, seed=3), number, int(after * operations) * 1000, after)
        began = time.monotonic()
        verdict = check_run(run, model, engine)
        took = time.monotonic() - began
    finally:
        shutil.rmtree(run)
    found = verdict.findings
    total = found.ok + found.fail + found.info
    sys.stdout.write(f"{model.value}: {total:,} operations on {found.objects:,} objects in {took:.0f} s\n")
    right = sum(found.counts.values()) == len(plants)
    for number, plant in enumerate(plants):
        wrong = find_misjudgement(verdict, plant, number)
        sys.stdout.write(f"  {plant.name}: {wrong or 'found, with a witness that proves it'}\n")
        right = right and wrong is None
    if sum(found.counts.values()) != len(plants):
        sys.stdout.write(f"  {sum(found.counts.values())} violations instead of {len(plants)}: {found.counts}\n")
    return right


def main() -> int:
    parser = argparse.ArgumentParser(description="Look for each planted violation in a large history.")
    parser.add_argument("--operations", type=int, default=100_000_000)
    parser.add_argument("--directory", type=Path, default=Path(tempfile.gettempdir()))
    parser.add_argument("--engine", choices=[one.value for one in Engine], default=Engine.SPARK.value)
    arguments = parser.parse_args()
    judged = [
        judge(model, arguments.operations, Engine(arguments.engine), arguments.directory)
        for model in (Model.REGISTER, Model.LOG)
    ]
    return 0 if all(judged) else 1


if __name__ == "__main__":
    sys.exit(main())
