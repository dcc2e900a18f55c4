"""Apache Kafka's jars are the files that were named, or nothing."""

import functools
import hashlib
import threading
from collections.abc import Iterator
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from jepsen_like.bench.kafka import fetch
from jepsen_like.bench.kafka.jars import JARS
from jepsen_like.cli import EnvironmentMissing

COORDINATES = "org.example:part:1.2"
CONTENT = b"what a jar holds"


class QuietHandler(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 # as it is named where it comes from
        return


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A repository of Maven's layout with one file, and a cache that is empty."""
    root = tmp_path / "repository"
    (root / "org" / "example" / "part" / "1.2").mkdir(parents=True)
    (root / "org" / "example" / "part" / "1.2" / "part-1.2.jar").write_bytes(CONTENT)
    handler = functools.partial(QuietHandler, directory=str(root))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        monkeypatch.setenv(fetch.REPOSITORY_VARIABLE, f"http://127.0.0.1:{server.server_port}/")
        monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
        yield root
        server.shutdown()
        thread.join()


def wants(monkeypatch: pytest.MonkeyPatch, digest: str, coordinates: str = COORDINATES) -> None:
    monkeypatch.setattr(fetch, "JARS", ((coordinates, digest),))


@pytest.mark.usefixtures("repository")
def test_what_is_missing_is_fetched_once(monkeypatch: pytest.MonkeyPatch) -> None:
    wants(monkeypatch, hashlib.sha256(CONTENT).hexdigest())
    monkeypatch.setattr("shutil.which", lambda name: f"/bin/{name}")
    assert fetch.missing_apache() == fetch.FETCH_COMMAND
    told: list[str] = []
    home = fetch.fetch_apache(told.append)
    assert (home / "part-1.2.jar").read_bytes() == CONTENT
    fetch.fetch_apache(told.append)
    assert told == ["part-1.2.jar"]
    assert fetch.missing_apache() == ""
    assert fetch.classpath() == f"{home}/*"


@pytest.mark.usefixtures("repository")
def test_another_file_than_was_named_is_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    wants(monkeypatch, hashlib.sha256(b"something else").hexdigest())
    with pytest.raises(EnvironmentMissing, match="another file"):
        fetch.fetch_apache(lambda name: None)
    assert list(fetch.jar_directory().iterdir()) == []
    with pytest.raises(EnvironmentMissing, match="--fetch-apache"):
        fetch.classpath()


@pytest.mark.usefixtures("repository")
def test_a_repository_without_the_file_is_named_with_the_way_out(monkeypatch: pytest.MonkeyPatch) -> None:
    wants(monkeypatch, "0" * 64, "org.example:absent:1")
    with pytest.raises(EnvironmentMissing, match=fetch.REPOSITORY_VARIABLE):
        fetch.fetch_apache(lambda name: None)


def test_every_jar_has_a_name_of_its_own_and_a_digest() -> None:
    assert len({fetch.jar_name(coordinates) for coordinates, _ in JARS}) == len(JARS)
    assert all(len(bytes.fromhex(digest)) == 32 for _, digest in JARS)
