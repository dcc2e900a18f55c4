"""A peer's jars are the files that were named, or nothing."""

import functools
import hashlib
import threading
from collections.abc import Iterator
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import attrs
import pytest

from jepsen_like.cli import EnvironmentMissing, ExitStatus, execute
from jepsen_like.systems.archives import catalogue, command, jars
from jepsen_like.systems.archives.catalogue import ARCHIVES
from jepsen_like.systems.archives.jars import JarSet, jar_name

COORDINATES = "org.example:part:1.2"
CONTENT = b"what a jar holds"
COMMAND = "quorumlog fetch product-1.2"


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
        monkeypatch.setenv(jars.REPOSITORY_VARIABLE, f"http://127.0.0.1:{server.server_port}/")
        monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
        monkeypatch.setattr("shutil.which", lambda name: f"/bin/{name}")
        yield root
        server.shutdown()
        thread.join()


def make_jar_set(digest: str, coordinates: str = COORDINATES) -> JarSet:
    return JarSet("A product", "product", "1.2", ((coordinates, digest),))


@pytest.mark.usefixtures("repository")
def test_what_is_missing_is_fetched_once() -> None:
    product = make_jar_set(hashlib.sha256(CONTENT).hexdigest())
    assert product.missing() == COMMAND
    told: list[str] = []
    home = product.fetch(told.append)
    assert (home / "part-1.2.jar").read_bytes() == CONTENT
    product.fetch(told.append)
    assert told == ["part-1.2.jar"]
    assert product.missing() == ""
    assert product.classpath() == f"{home}/*"


@pytest.mark.usefixtures("repository")
def test_another_file_than_was_named_is_not_kept() -> None:
    product = make_jar_set(hashlib.sha256(b"something else").hexdigest())
    with pytest.raises(EnvironmentMissing, match="another file"):
        product.fetch(lambda name: None)
    assert list(product.directory().iterdir()) == []
    with pytest.raises(EnvironmentMissing, match=COMMAND):
        product.classpath()


@pytest.mark.usefixtures("repository")
def test_a_repository_without_the_file_is_named_with_the_way_out() -> None:
    with pytest.raises(EnvironmentMissing, match=jars.REPOSITORY_VARIABLE):
        make_jar_set("0" * 64, "org.example:absent:1").fetch(lambda name: None)


@pytest.mark.parametrize(
    "product", [each for each in ARCHIVES if isinstance(each, JarSet)], ids=lambda product: product.full_name
)
def test_every_jar_has_a_name_of_its_own_and_a_digest(product: JarSet) -> None:
    assert len({jar_name(coordinates) for coordinates, _ in product.jars}) == len(product.jars)
    assert all(len(bytes.fromhex(digest)) == 32 for _, digest in product.jars)


@pytest.mark.usefixtures("repository")
def test_the_command_brings_what_is_named_and_lists_it_as_here(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    product = make_jar_set(hashlib.sha256(CONTENT).hexdigest())
    monkeypatch.setattr(catalogue, "ARCHIVES", (product, attrs.evolve(product, version="1.1")))
    monkeypatch.setattr(command, "ARCHIVES", catalogue.ARCHIVES)
    assert execute(["fetch", "produce"]) == ExitStatus.USAGE
    assert "did you mean 'product'?" in capsys.readouterr().err
    assert execute(["fetch", "product"]) == ExitStatus.VALID
    capsys.readouterr()
    assert execute(["fetch"]) == ExitStatus.VALID
    assert [line.split()[0::3] for line in capsys.readouterr().out.splitlines()[1:]] == [
        ["product-1.2", "yes"],
        ["product-1.1", "-"],
    ]
