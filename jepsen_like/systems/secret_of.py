"""The secret of a cluster that the harness starts: a file in its directory, made at the first start."""

from pathlib import Path
from typing import Final

from raft.secret_file import make_secret, read_secret
from raft.trust import Secret

SECRET_NAME: Final = "secret"


def keep_secret(directory: Path) -> Path:
    """Returns the file of the secret of the cluster in this directory, both made if they are missing."""
    path = directory / SECRET_NAME
    if not path.exists():
        directory.mkdir(parents=True, exist_ok=True)
        make_secret(path)
    return path


def secret_in(path: Path | None) -> Secret | None:
    """Returns the secret in a file; None without a file. Raises `UnusableSecret`."""
    return None if path is None else read_secret(path)
