"""A base install does all that it promises without the checker's packages, and notices packages that are not ours."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from jepsen_like import installation
from jepsen_like.cli import ExitStatus, execute
from jepsen_like.doctor import own_packages

ROOT = Path(__file__).resolve().parents[2]
NOT_OF_A_BASE_INSTALL = ("numpy", "pyarrow", "jinja2", "pyspark", "pandas", "py4j", "confluent_kafka", "rocketmq")
COMMAND = "from jepsen_like.cli import main; main()"
COMMANDS = (
    "import sys; from jepsen_like.cli import execute; sys.exit(any(execute(each.split()) for each in sys.argv[1:]))"
)
CLUSTERS = """
def test_raft(raft_cluster):
    with raft_cluster.client() as client:
        client.append([b"1"])

def test_kafka(kafka_cluster):
    assert kafka_cluster.bootstrap_servers

def test_rocketmq(rocketmq_cluster):
    assert rocketmq_cluster.namesrv_addr
"""


@pytest.fixture
def base_install(tmp_path: Path) -> dict[str, str]:
    """An environment in which the packages of our extras cannot be imported, in any process."""
    absent = tmp_path / "absent"
    absent.mkdir()
    for name in NOT_OF_A_BASE_INSTALL:
        (absent / f"{name}.py").write_text(f'raise ModuleNotFoundError("No module named {name!r}", name="{name}")\n')
    return {**os.environ, "PYTHONPATH": os.pathsep.join([str(absent), str(ROOT)]), "PYTEST_ADDOPTS": ""}


def run(env: dict[str, str], *arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *arguments], env=env, cwd=cwd, capture_output=True, text=True, timeout=110, check=False
    )


@pytest.mark.parametrize(
    "commands",
    [
        ["sim --seeds 0:2", *(f"{command} --help" for command in ("node", "up", "fault", "replay", "doctor"))],
        [f"sim --system {system} --seeds 0:2 --jobs 1" for system in ("kafka", "rocketmq")],
    ],
    ids=", ".join,
)
def test_commands_need_no_extra(commands: list[str], base_install: dict[str, str], tmp_path: Path) -> None:
    ended = run(base_install, "-c", COMMANDS, *commands, cwd=tmp_path)
    assert ended.returncode == 0, ended.stderr


@pytest.mark.campaign
@pytest.mark.cluster
def test_the_fixtures_need_no_extra(base_install: dict[str, str], tmp_path: Path) -> None:
    (tmp_path / "test_clusters.py").write_text(CLUSTERS)
    ended = run(
        base_install, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-c", os.devnull, "test_clusters.py", cwd=tmp_path
    )
    assert "3 passed" in ended.stdout, ended.stdout + ended.stderr


@pytest.fixture
def cluster_up(base_install: dict[str, str], tmp_path: Path) -> Iterator[str]:
    command = [sys.executable, "-c", COMMAND, "up", "--data", "up", "--wait", "90"]
    with subprocess.Popen(command, env=base_install, cwd=tmp_path, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        yield process.stdout.readline()
        process.send_signal(signal.SIGINT)


@pytest.mark.cluster
def test_up_and_fault_need_no_extra(cluster_up: str, base_install: dict[str, str], tmp_path: Path) -> None:
    assert "127.0.0.1" in cluster_up
    commands = [f"fault {what} --data up" for what in ("pause --node 1", "status", "heal", "check")]
    ended = run(base_install, "-c", COMMANDS, *commands, cwd=tmp_path)
    assert ended.returncode == 0, ended.stderr


def test_our_own_packages_are_ours() -> None:
    assert installation.foreign() == ()
    assert installation.complaint() is None
    assert own_packages().fine


@pytest.fixture
def overwritten(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Path]:
    """Another `raft` where Python looks first."""
    (tmp_path / "raft").mkdir()
    (tmp_path / "raft" / "__init__.py").write_text("from .raft import Node\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    installation.foreign.cache_clear()
    yield tmp_path / "raft" / "__init__.py"
    monkeypatch.undo()
    installation.foreign.cache_clear()


def test_an_overwritten_package_is_noticed_by_doctor_and_by_every_command(
    overwritten: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    found = own_packages()
    assert not found.fine
    assert found.detail == f"raft is {overwritten}"
    assert "pip install --force-reinstall --no-deps" in found.mend
    assert execute(["sim", "--seeds", "0:1"]) == ExitStatus.ENVIRONMENT
    said = capsys.readouterr().err
    assert f"another package has taken a name of ours: raft is {overwritten}" in said
    assert found.mend in said


def test_an_overwritten_package_is_noticed_by_the_fixtures(tmp_path: Path) -> None:
    (tmp_path / "log").mkdir()
    (tmp_path / "log" / "__init__.py").write_text("")
    (tmp_path / "test_clusters.py").write_text(CLUSTERS)
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), str(ROOT)])}
    ended = run(env, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-c", os.devnull, "test_clusters.py", cwd=tmp_path)
    assert ended.stdout.count("another package has taken a name of ours: log is ") >= 3, ended.stdout + ended.stderr


def test_files_that_changed_after_they_were_installed_are_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    site = tmp_path / "site"
    (site / "raft").mkdir(parents=True)
    (site / "raft" / "core.py").write_text("ours\n")
    info = site / "quorumlog-0.1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: quorumlog\nVersion: 0.1.0\n")
    record = "raft/core.py,sha256=pOfWpVvpdQSxpgdjdzn76zmYcM5U9VZnQGJqKQpTUNY,5\n"
    (info / "RECORD").write_text(record)
    monkeypatch.syspath_prepend(str(site))
    assert installation.find_changes() == (str(site / "raft" / "core.py"),)
