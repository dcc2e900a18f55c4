"""A place for what the tasks of a check exchange, next to the history.

Every process that reads the part files reaches it too. It is made at its first use, and removed when the check ends.
"""

import errno
import shutil
import tempfile
from pathlib import Path
from typing import Final, Self

import numpy as np

from jepsen_like.checker.rows.columns import Ints
from jepsen_like.cli import EnvironmentMissing

SMALL_BYTES: Final = 4096
CANNOT_BE_WRITTEN: Final = (errno.EACCES, errno.EPERM, errno.EROFS)


def unreachable(error: OSError, near: Path) -> EnvironmentMissing:
    """Returns what to raise where `near` does not take what workers have to reach there. Raises an error that is no matter of rights."""
    if error.errno not in CANNOT_BE_WRITTEN:
        raise error
    return EnvironmentMissing(
        f"what the tasks of a check exchange lies next to the history, and {near} cannot be written to"
    )


class Scratch:
    """Use as a context manager. `near` is a directory of the history; `alone` that all tasks run on this machine.

    Where the history cannot be written to, the system's place for temporary files serves instead, if the tasks run here.
    """

    def __init__(self, near: Path, *, alone: bool = True) -> None:
        self._near = near.resolve()
        self._alone = alone
        self._path: Path | None = None
        self._arrays = 0

    @property
    def path(self) -> Path:
        """Returns the directory. Raises `EnvironmentMissing` if it cannot be made where all tasks reach it."""
        if self._path is None:
            try:
                self._path = Path(tempfile.mkdtemp(prefix=".check-", dir=self._near))
            except OSError as error:
                if not self._alone or error.errno not in CANNOT_BE_WRITTEN:
                    raise unreachable(error, self._near) from error
                self._path = Path(tempfile.mkdtemp(prefix="quorumlog-check-"))
        return self._path

    def share(self, array: Ints) -> Ints | Path:
        """Make an array reachable for tasks: small ones travel with them, others become a file."""
        if array.nbytes <= SMALL_BYTES:
            return array
        self._arrays += 1
        path = self.path / f"array-{self._arrays}.npy"
        np.save(path, array, allow_pickle=False)
        return path

    def close(self) -> None:
        """Remove it."""
        if self._path is not None:
            shutil.rmtree(self._path, ignore_errors=True)
            self._path = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()
