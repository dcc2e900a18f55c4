"""A program in Go is built from the modules that were named, or it is not there."""

from pathlib import Path

import pytest

from jepsen_like.cli import EnvironmentMissing
from jepsen_like.systems.archives.go import GoProgram

PROGRAM = GoProgram("A program", "program", "v1.2", package="example.org/program")
FAKE = """#!/bin/sh
[ "$(cat go.mod)" = "module lock" ] && [ "$(cat go.sum)" = "hashes" ] && [ "$GOFLAGS" = -mod=readonly ] || exit 3
while [ "$1" != -o ]; do shift; done
case "$3" in example.org/program) echo built > "$2";; *) echo "no such package" >&2; exit 1;; esac
"""


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Locks in a directory of their own, an empty cache, and a stand-in for Go that reads the locks."""
    (tmp_path / "program-v1.2.mod").write_text("module lock")
    (tmp_path / "program-v1.2.sum").write_text("hashes")
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "go").write_text(FAKE)
    (tmp_path / "bin" / "go").chmod(0o755)
    monkeypatch.setattr("jepsen_like.systems.archives.go.resources.files", lambda package: tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:/usr/bin:/bin")
    return tmp_path


def test_a_program_is_built_by_its_lock_once() -> None:
    assert PROGRAM.missing() == "quorumlog fetch program-v1.2"
    told: list[str] = []
    home = PROGRAM.fetch(told.append)
    assert PROGRAM.executable == home / "program"
    assert PROGRAM.executable.read_text() == "built\n"
    PROGRAM.fetch(told.append)
    assert told == ["example.org/program v1.2"]
    assert PROGRAM.require() == home


def test_the_words_of_a_failed_build_are_told_and_nothing_is_kept() -> None:
    with pytest.raises(EnvironmentMissing, match="no such package"):
        GoProgram("A program", "program", "v1.2", package="example.org/absent").fetch(lambda line: None)
    assert list(PROGRAM.directory().iterdir()) == []
    assert [each.name for each in PROGRAM.directory().parent.iterdir()] == ["program-v1.2"]


def test_without_go_the_way_to_it_is_told(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(place))
    with pytest.raises(EnvironmentMissing, match="apt-get install"):
        PROGRAM.fetch(lambda line: None)
