"""What `quorumlog check` is given, as a run directory: a run, a history of ours, or a file of Jepsen's operation maps."""

import contextlib
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

from jepsen_like.checker.checking import HISTORY
from jepsen_like.checker.final_logs import DUMP
from jepsen_like.checker.jepsen_maps import Names, operations
from jepsen_like.checker.map_files import read_events
from jepsen_like.checker.verdict import Model
from jepsen_like.history.files import HistoryReader, HistoryWriter, read_part
from jepsen_like.history.ops import NEVER, ListOp


@contextlib.contextmanager
def as_run(path: Path, model: Model, names: Names) -> Iterator[Path]:
    """`path` as a run directory, in a temporary place when it is something else. Raises `UnreadableHistory` if it is no history.

    `names` gets to know what the numbers in it stand for.
    """
    if path.is_dir() and (path / HISTORY).is_dir():
        yield path
        return
    with tempfile.TemporaryDirectory(prefix="quorumlog-check-") as scratch:
        run = Path(scratch)
        if path.is_dir():
            HistoryReader.open(path)
            (run / HISTORY).symlink_to(path.absolute(), target_is_directory=True)
            if path.name == HISTORY and (path.parent / DUMP).is_dir():
                (run / DUMP).symlink_to((path.parent / DUMP).absolute(), target_is_directory=True)
        elif path.suffix == ".parquet":
            read_part(path)
            (run / HISTORY / "bucket=0").mkdir(parents=True)
            shutil.copyfile(path, run / HISTORY / "bucket=0" / "part-0.parquet")
        else:
            # In the order they end, however long that takes: part files should not be cut by time.
            with HistoryWriter(run / HISTORY, part_seconds_max=NEVER / 1e9) as writer:
                for op in operations(read_events(path), model, path, names):
                    if isinstance(op, ListOp) and op.values:
                        writer.record_batch(op, op.values)
                    else:
                        writer.record(op)
        yield run
