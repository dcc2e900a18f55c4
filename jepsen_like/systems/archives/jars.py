"""Programs in Java: their jars from Maven Central, each checked against its SHA-256."""

import os
import shutil
from collections.abc import Sequence
from importlib import resources
from pathlib import Path

import attrs

from jepsen_like.systems.archives.archive import Archive, Report, fetch_file

REPOSITORY = "https://repo.maven.apache.org/maven2"
REPOSITORY_VARIABLE = "QUORUMLOG_MAVEN_REPOSITORY"
"""Names another repository of Maven's layout: a mirror."""
INSTALL_JAVA = "apt-get install openjdk-17-jre-headless"


def jar_name(coordinates: str) -> str:
    """Returns the file name of `group:artifact:version`."""
    _, artifact, version = coordinates.split(":")
    return f"{artifact}-{version}.jar"


def jar_path(coordinates: str) -> str:
    """Returns where `group:artifact:version` lies in a repository of Maven's layout."""
    group, artifact, version = coordinates.split(":")
    return f"{group.replace('.', '/')}/{artifact}/{version}/{jar_name(coordinates)}"


def locked_jars(name: str) -> tuple[tuple[str, str], ...]:
    """Returns the jars of a lock file in this package: `group:artifact:version` and hexadecimal SHA-256 of each."""
    lines = resources.files(__package__).joinpath(f"{name}.lock").read_text().splitlines()
    return tuple((coordinates, digest) for digest, coordinates in map(str.split, lines))


@attrs.frozen
class JarSet(Archive):
    """The jars of one product in one version."""

    jars: Sequence[tuple[str, str]]
    """`group:artifact:version`, as Maven writes it, and the hexadecimal SHA-256."""

    @classmethod
    def read_lock(cls, title: str, name: str, version: str) -> "JarSet":
        """The jars that the lock file `name-version.lock` of this package lists."""
        return cls(title, name, version, locked_jars(f"{name}-{version}"))

    def missing(self) -> str:
        """Java, or a jar."""
        if not shutil.which("java"):
            return INSTALL_JAVA
        home = self.directory()
        return "" if all((home / jar_name(coordinates)).is_file() for coordinates, _ in self.jars) else self.command

    def classpath(self) -> str:
        """Returns the jars for Java's `-cp`. Raises `EnvironmentMissing` if Java or one of them is missing."""
        return f"{self.require()}/*"

    def fetch(self, report: Report) -> Path:
        """From Maven Central, or the mirror that `QUORUMLOG_MAVEN_REPOSITORY` names."""
        home = self.directory()
        repository = os.environ.get(REPOSITORY_VARIABLE, REPOSITORY).rstrip("/")
        for coordinates, digest in self.jars:
            place = home / jar_name(coordinates)
            if not place.is_file():
                report(place.name)
                fetch_file(
                    f"{repository}/{jar_path(coordinates)}", digest, place, f"{REPOSITORY_VARIABLE} names a mirror"
                )
        return home
