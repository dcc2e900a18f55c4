"""The secret of a cluster that the harness starts: a file in its directory, made at the first start."""

from pathlib import Path
from typing import Final

from raft.secret_file import add_secret, drop_secret, make_secret, read_secret, turn_secret
from raft.trust import SecretSource

SECRET_NAME: Final = "secret"


def keep_secret(directory: Path) -> Path:
    """Returns the file of the secret of the cluster in this directory, both made if they are missing."""
    path = directory / SECRET_NAME
    if not path.exists():
        directory.mkdir(parents=True, exist_ok=True)
        make_secret(path)
    return path


class SecretFileSteps:
    """See `SecretSteps`."""

    def add(self, file: Path) -> None:
        """See `SecretSteps`."""
        add_secret(file)

    def turn(self, file: Path) -> None:
        """See `SecretSteps`."""
        turn_secret(file)

    def drop(self, file: Path) -> None:
        """See `SecretSteps`."""
        drop_secret(file)


def secret_in(path: Path | None) -> SecretSource | None:
    """Returns the secret in a file; None without a file. Raises `UnusableSecret`."""
    return None if path is None else read_secret(path)
