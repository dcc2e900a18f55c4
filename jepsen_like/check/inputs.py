"""Turns the argument of `quorumlog check` into a run directory: a run, a history of ours, or a file of Jepsen's operation maps."""

import contextlib
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from jepsen_like.check.calls import Values, calls
from jepsen_like.check.jepsen_maps import Names, operations
from jepsen_like.check.kafka_maps import kafka_operations
from jepsen_like.check.map_files import read_events
from jepsen_like.check.transaction_maps import transaction_operations
from jepsen_like.checker.checking import HISTORY
from jepsen_like.checker.cycles.levels import TRANSACTIONAL, HeldTo
from jepsen_like.checker.elements.user_model import VALUES, AnyModel, UserModel
from jepsen_like.checker.engine.scratch import unreachable
from jepsen_like.checker.rows.final_logs import DUMP
from jepsen_like.checker.verdict import Model
from jepsen_like.history.files import HistoryReader, HistoryWriter, UnreadableHistory, read_part
from jepsen_like.history.ops import NEVER, ListOp, Op

MAPS: Final = ("history.edn", "history.edn.gz", "history.json", "history.jsonl", "history.txt")
"""The history in a directory of Jepsen's, the first of these that is there."""
BINARY: Final = ("test.jepsen", "test.fressian")


@contextlib.contextmanager
def as_run(path: Path, model: AnyModel, names: Names, *, alone: bool = True) -> Iterator[Path]:
    """`path` as a run directory, in a temporary place when it is something else.

    A path is a run, a history of ours, a file of operation maps, `-` for maps on stdin, or a directory of Jepsen's
    store. The place is next to it, where workers reach it, unless all tasks run on this machine (`alone`). `names`
    learns the meaning of numbers. Raises `UnreadableHistory` if it is no history, `EnvironmentMissing` without such a
    place.
    """
    if path.is_dir() and (path / HISTORY).is_dir():
        yield path
        return
    with _place(None if alone else path.absolute().parent) as run:
        maps = maps_in(path) if path.is_dir() else path
        if maps is None:
            HistoryReader.open(path)
            (run / HISTORY).symlink_to(path.absolute(), target_is_directory=True)
            if path.name == HISTORY and (path.parent / DUMP).is_dir():
                (run / DUMP).symlink_to((path.parent / DUMP).absolute(), target_is_directory=True)
        elif path.suffix == ".parquet":
            read_part(path, groups=())
            (run / HISTORY / "bucket=0").mkdir(parents=True)
            (run / HISTORY / "bucket=0" / "part-0.parquet").symlink_to(path.absolute())
        else:
            if isinstance(model, UserModel):
                values = Values()
                _record(calls(read_events(maps), maps, model, names, values), run)
                values.write(run / VALUES)
            elif (kind := model.model if isinstance(model, HeldTo) else model) in TRANSACTIONAL:
                _record(transaction_operations(read_events(maps), kind, maps, names), run)
            elif kind is Model.KAFKA:
                _record(kafka_operations(read_events(maps, ("type",)), maps, names), run)
            else:
                _record(operations(read_events(maps), kind, maps, names), run)
        yield run


@contextlib.contextmanager
def _place(near: Path | None) -> Iterator[Path]:
    """A directory for a while. Raises `EnvironmentMissing` if it cannot be made in `near`."""
    try:
        place = tempfile.TemporaryDirectory(prefix=".check-", dir=near)
    except OSError as error:
        if near is None:
            raise
        raise unreachable(error, near) from error
    with place as path:
        yield Path(path)


def _record(ops: Iterator[Op], run: Path) -> None:
    # In the order they end, however long that takes: part files should not be cut by time.
    with HistoryWriter(run / HISTORY, part_seconds_max=NEVER / 1e9) as writer:
        for op in ops:
            if isinstance(op, ListOp) and op.values:
                writer.record_batch(op, op.values)
            else:
                writer.record(op)


def maps_in(directory: Path) -> Path | None:
    """Returns the history in a directory of Jepsen's store, or its `latest`, or None. Raises `UnreadableHistory`."""
    for place in (directory, directory / "latest"):
        for name in MAPS:
            if (place / name).is_file():
                return place / name
    if next(directory.glob("bucket=*"), None) is None:
        if next(directory.glob("independent/*/history.*"), None) is not None:
            raise UnreadableHistory(directory, "no history.edn; its keys are judged one by one: independent/*")
        for name in BINARY:
            if (directory / name).is_file():
                raise UnreadableHistory(directory, f"no history.edn, and {name} is not text")
    return None
