"""Brings the jars of a peer from Maven Central into a directory of the user's cache, each checked against its SHA-256.

They are no dependency of this package: only comparisons with the peer and tests with its clients use them.
"""

import hashlib
import os
import shutil
import tempfile
import urllib.error
import urllib.request
from collections.abc import Callable, Sequence
from importlib import resources
from pathlib import Path

import attrs

from jepsen_like.cli import EnvironmentMissing

REPOSITORY = "https://repo.maven.apache.org/maven2"
REPOSITORY_VARIABLE = "QUORUMLOG_MAVEN_REPOSITORY"
"""Names another repository of Maven's layout: a mirror."""
LOCK_NAME = "jars.lock"
"""In the package of a peer: a line for each of its jars, with its SHA-256 and its `group:artifact:version`."""
PATIENCE_S = 60.0
INSTALL_JAVA = "apt-get install openjdk-17-jre-headless"


def jar_name(coordinates: str) -> str:
    """Returns the file name of `group:artifact:version`."""
    _, artifact, version = coordinates.split(":")
    return f"{artifact}-{version}.jar"


def jar_path(coordinates: str) -> str:
    """Returns where `group:artifact:version` lies in a repository of Maven's layout."""
    group, artifact, version = coordinates.split(":")
    return f"{group.replace('.', '/')}/{artifact}/{version}/{jar_name(coordinates)}"


def locked_jars(package: str) -> tuple[tuple[str, str], ...]:
    """Returns the jars that the lock file of a package names: `group:artifact:version` and hexadecimal SHA-256 of each."""
    lines = resources.files(package).joinpath(LOCK_NAME).read_text().splitlines()
    return tuple((coordinates, digest) for digest, coordinates in map(str.split, lines))


@attrs.frozen
class JarSet:
    """The jars of one product in one version."""

    title: str
    name: str
    """Of its directory, without the version."""
    version: str
    jars: Sequence[tuple[str, str]]
    """`group:artifact:version`, as Maven writes it, and the hexadecimal SHA-256."""
    command: str
    """The command with which a user fetches them."""

    def directory(self) -> Path:
        """Returns the directory of the jars, there or not: one a version, under `XDG_CACHE_HOME` or `~/.cache`."""
        cache = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
        return Path(cache) / "quorumlog" / f"{self.name}-{self.version}"

    def missing(self) -> str:
        """Returns the command that brings what the product needs and this machine lacks; empty if nothing."""
        if not shutil.which("java"):
            return INSTALL_JAVA
        home = self.directory()
        return "" if all((home / jar_name(coordinates)).is_file() for coordinates, _ in self.jars) else self.command

    def classpath(self) -> str:
        """Returns the jars for Java's `-cp`. Raises `EnvironmentMissing` if Java or one of them is missing."""
        if mend := self.missing():
            raise EnvironmentMissing(f"{self.title} {self.version} is not on this machine; get it with: {mend}")
        return f"{self.directory()}/*"

    def fetch(self, told: Callable[[str], None]) -> Path:
        """Download every jar that is not there yet. Returns their directory; `told` gets a line for each download.

        Raises `EnvironmentMissing` if one cannot be had, or is another file than expected: such a file is not kept.
        """
        home = self.directory()
        home.mkdir(parents=True, exist_ok=True)
        for coordinates, expected in self.jars:
            place = home / jar_name(coordinates)
            if not place.is_file():
                told(jar_name(coordinates))
                _fetch(coordinates, expected, place)
        return home


def _fetch(coordinates: str, expected: str, place: Path) -> None:
    """One jar; it has its name only once it is whole and right."""
    url = f"{os.environ.get(REPOSITORY_VARIABLE, REPOSITORY).rstrip('/')}/{jar_path(coordinates)}"
    with tempfile.NamedTemporaryFile(dir=place.parent, prefix=".part-") as part:
        try:
            with urllib.request.urlopen(url, timeout=PATIENCE_S) as response:
                shutil.copyfileobj(response, part)
        except (OSError, ValueError, urllib.error.URLError) as error:
            raise EnvironmentMissing(
                f"{url} could not be read: {error}; {REPOSITORY_VARIABLE} names a mirror"
            ) from error
        part.flush()
        with Path(part.name).open("rb") as whole:
            found = hashlib.file_digest(whole, "sha256").hexdigest()
        if found != expected:
            raise EnvironmentMissing(f"{url} has the SHA-256 {found}, not {expected}: it is another file")
        os.link(part.name, place)
