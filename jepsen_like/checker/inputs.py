"""What `quorumlog check` is given, as a run directory: a run, a history of ours, or a file of Jepsen's operation maps."""

import contextlib
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

from jepsen_like.checker.checking import HISTORY
from jepsen_like.checker.final_logs import DUMP
from jepsen_like.checker.jepsen_maps import Names, operations, read_events
from jepsen_like.checker.verdict import Model
from jepsen_like.history.files import HistoryReader, HistoryWriter, read_part


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
            with HistoryWriter(run / HISTORY) as writer:
                for op in sorted(
                    operations(read_events(path), model, path, names), key=lambda op: min(op.t_ret, op.t_inv + 1)
                ):
                    writer.record(op)
        yield run
