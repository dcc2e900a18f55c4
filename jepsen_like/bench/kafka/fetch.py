"""Brings Apache Kafka's jars from Maven Central into a directory of the user's cache, each checked against its SHA-256.

They are no dependency of this package: only the comparison with Apache Kafka and the tests with Java clients use them.
"""

import hashlib
import os
import shutil
import tempfile
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path

from jepsen_like.bench.kafka.jars import JARS, KAFKA_VERSION
from jepsen_like.cli import EnvironmentMissing

REPOSITORY = "https://repo.maven.apache.org/maven2"
REPOSITORY_VARIABLE = "QUORUMLOG_MAVEN_REPOSITORY"
"""Names another repository of Maven's layout: a mirror."""
PATIENCE_S = 60.0
FETCH_COMMAND = "quorumlog bench kafka --fetch-apache"


def jar_directory() -> Path:
    """Returns where the jars lie, or will lie: a directory for each version, under `XDG_CACHE_HOME` or `~/.cache`."""
    cache = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(cache) / "quorumlog" / f"apache-kafka-{KAFKA_VERSION}"


def jar_name(coordinates: str) -> str:
    """Returns the file name of `group:artifact:version`."""
    _, artifact, version = coordinates.split(":")
    return f"{artifact}-{version}.jar"


def jar_path(coordinates: str) -> str:
    """Returns where `group:artifact:version` lies in a repository of Maven's layout."""
    group, artifact, version = coordinates.split(":")
    return f"{group.replace('.', '/')}/{artifact}/{version}/{jar_name(coordinates)}"


def missing_apache() -> str:
    """Returns the command that brings what Apache Kafka needs and this machine lacks; empty if nothing."""
    if not shutil.which("java"):
        return "apt-get install openjdk-17-jre-headless"
    home = jar_directory()
    return "" if all((home / jar_name(coordinates)).is_file() for coordinates, _ in JARS) else FETCH_COMMAND


def classpath() -> str:
    """Returns the jars as Java's `-cp` takes them. Raises `EnvironmentMissing` if Java or one of them is missing."""
    if mend := missing_apache():
        raise EnvironmentMissing(f"Apache Kafka {KAFKA_VERSION} is not on this machine; get it with: {mend}")
    return f"{jar_directory()}/*"


def fetch_apache(told: Callable[[str], None]) -> Path:
    """Download every jar that is not there yet. Returns their directory; `told` gets a line for each download.

    Raises `EnvironmentMissing` if one cannot be had, or is another file than expected: such a file is not kept.
    """
    home = jar_directory()
    home.mkdir(parents=True, exist_ok=True)
    for coordinates, expected in JARS:
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
