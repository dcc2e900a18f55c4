"""One program of others in one version: where it lies in the user's cache, and how it gets there.

Such a program is no dependency of this package: only its adapter, comparisons with it and tests with its clients use it.
Nothing enters the cache unless it has the hash that is committed next to this module.
"""

import abc
import hashlib
import os
import shutil
import tempfile
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path

import attrs

from jepsen_like.cli import EnvironmentMissing

PATIENCE_S = 60.0

Report = Callable[[str], None]
"""Gets a line for each file that is brought."""


@attrs.frozen
class Archive(abc.ABC):
    """One program in one version. A directory of the cache holds all of it, or is not used."""

    title: str
    name: str
    """Of its directory, without the version; as `quorumlog fetch` takes it."""
    version: str
    command: str = attrs.field(
        default=attrs.Factory(lambda self: f"quorumlog fetch {self.full_name}", takes_self=True), kw_only=True
    )
    """The command with which a user brings it."""

    @property
    def full_name(self) -> str:
        """The name with its version."""
        return f"{self.name}-{self.version}"

    def directory(self) -> Path:
        """Returns its directory, there or not: one a version, under `XDG_CACHE_HOME` or `~/.cache`."""
        cache = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
        return Path(cache) / "quorumlog" / self.full_name

    @abc.abstractmethod
    def missing(self) -> str:
        """Returns the command that brings what this machine lacks for it; empty if nothing."""

    @abc.abstractmethod
    def fetch(self, report: Report) -> Path:
        """Bring what is not there yet. Returns the directory.

        Raises `EnvironmentMissing` if a part cannot be had, or is another one than expected: that is not kept.
        """

    def require(self) -> Path:
        """Returns the directory. Raises `EnvironmentMissing` if the program, or what it needs, is missing."""
        if mend := self.missing():
            raise EnvironmentMissing(f"{self.title} {self.version} is not on this machine; get it with: {mend}")
        return self.directory()


def fetch_file(url: str, sha256: str, place: Path, mend: str = "") -> None:
    """Bring one file, which has its name only once it is whole and right; `mend` tells what to do where it cannot be read.

    Raises `EnvironmentMissing` if it cannot be read, or has another SHA-256.
    """
    place.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile(dir=place.parent, prefix=".part-") as part:
        try:
            with urllib.request.urlopen(url, timeout=PATIENCE_S) as response:
                shutil.copyfileobj(response, part)
        except (OSError, ValueError, urllib.error.URLError) as error:
            raise EnvironmentMissing("; ".join(filter(None, (f"{url} could not be read: {error}", mend)))) from error
        part.flush()
        with Path(part.name).open("rb") as whole:
            found = hashlib.file_digest(whole, "sha256").hexdigest()
        if found != sha256:
            raise EnvironmentMissing(f"{url} has the SHA-256 {found}, not {sha256}: it is another file")
        os.link(part.name, place)
