"""The doctor names what is missing with the command that installs it, and its exit status is 0 only if nothing is."""

import importlib.metadata
import os
from pathlib import Path

import pytest

from jepsen_like import doctor
from jepsen_like.cli import ExitStatus, execute
from jepsen_like.cluster import preload
from jepsen_like.nemesis.table import KINDS


def test_a_complete_machine_is_healthy(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    status = execute(["doctor", "--out", str(tmp_path / "deep" / "runs")])
    out = capsys.readouterr().out
    assert status == ExitStatus.VALID, out
    assert "MISSING" not in out
    for name in (
        "python",
        "packages [check]",
        "packages [spark]",
        "java",
        "cores",
        "run directory",
        "loopback",
        "/proc",
    ):
        assert f" {name}: " in out


def test_a_place_that_may_not_even_be_looked_at_is_one_that_cannot_be_written_to(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refuse(path: Path) -> bool:
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(Path, "exists", refuse)
    found = doctor.writable(Path("/there/x"))
    assert (found.fine, found.detail) == (False, "/there/x cannot be written to (Permission denied)")


def test_every_kind_of_fault_is_told_with_the_way_it_goes_by() -> None:
    found = list(doctor.injectors())
    assert sorted(kind for injector in found for kind in injector.kinds) == sorted(KINDS)
    assert all(injector.kinds for injector in found)
    by_name = {kind: injector for injector in found for kind in injector.kinds}
    assert by_name["kill"].lack is None
    assert by_name["partition"].lack is None


def test_a_way_that_does_not_work_here_is_a_note_with_what_to_do(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    monkeypatch.setattr(preload, "COMPILERS", ())
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    execute(["doctor", "--out", str(tmp_path)])
    told = capsys.readouterr().out
    assert "note     a file system of each node's own, shut down by the kernel: power, zone-down\n" in told
    assert "which only root can mount; run as root" in told
    assert "note     a library in each node's process: clock-jump, clock-drift, disk-slow" in told
    assert "apt-get install gcc" in told
    assert "ok       signals" in told


def test_what_is_missing_comes_with_its_command(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    versions = {"pyspark": None, "pandas": "3.1.1", "numpy": "1.20"}

    def version(name: str) -> str:
        found = versions.get(name, "99.0")
        if found is None:
            raise importlib.metadata.PackageNotFoundError(name)
        return found

    monkeypatch.setattr(importlib.metadata, "version", version)
    monkeypatch.setattr(doctor, "survey", lambda: (None, ()))
    (tmp_path / "file").touch()
    status = execute(["doctor", "--out", str(tmp_path / "file" / "runs")])
    out = capsys.readouterr().out
    assert status == ExitStatus.ENVIRONMENT
    assert "pyspark is not installed" in out
    assert "pandas is 3.1.1, but <3 is needed" in out
    assert "numpy is 1.20, but >=1.26 is needed" in out
    assert "pip install --upgrade 'quorumlog[spark]'" in out
    assert "pip install 'quorumlog[java]'" in out
    assert "no Java 17 or newer" in out


def test_a_directory_that_cannot_be_written_is_named() -> None:
    finding = doctor.writable(Path("/proc/runs"))
    assert not finding.fine
    assert "/proc cannot be written to" in finding.detail


def test_a_single_core_is_a_note_and_not_a_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: {0})
    assert (doctor.cores().fine, doctor.cores().required) == (False, False)


@pytest.mark.parametrize(
    ("requirement", "parsed"),
    [
        pytest.param("trio>=0.27", ("trio", ((">=", (0, 27)),), ""), id="core"),
        pytest.param(
            'pandas<3,>=2.2; extra == "spark"', ("pandas", (("<", (3,)), (">=", (2, 2))), "spark"), id="two bounds"
        ),
        pytest.param("quorumlog[check]; extra == 'spark'", ("quorumlog", (), "spark"), id="an extra of ours"),
    ],
)
def test_requirements_are_understood(requirement: str, parsed: object) -> None:
    assert doctor.parse(requirement) == parsed
