"""Systems of other packages."""

from pathlib import Path

import pytest

from jepsen_like.cli import ExitStatus, execute
from jepsen_like.port.registry import SYSTEMS, system_named, system_names


@pytest.fixture
def _two_systems(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Install a package with two systems, as pip would: the toy, and one with a name that is taken."""
    written = tmp_path / "my_system-0.1.dist-info"
    written.mkdir()
    (written / "METADATA").write_text("Metadata-Version: 2.1\nName: my-system\nVersion: 0.1\n")
    (written / "entry_points.txt").write_text(
        "[quorumlog.systems]\ntoy = tests.jepsen_like.systems.toy:ToySystem\nraft = nowhere:Nothing\n"
    )
    monkeypatch.syspath_prepend(tmp_path)


@pytest.mark.usefixtures("_two_systems")
def test_an_installed_package_adds_a_system_by_an_entry_point() -> None:
    assert system_names() == (*SYSTEMS, "toy")
    assert system_named("toy").name == "toy"


@pytest.mark.usefixtures("_two_systems")
def test_a_package_cannot_replace_a_system_of_ours() -> None:
    assert type(system_named("raft")).__module__ == "jepsen_like.systems.raft.system"


@pytest.mark.usefixtures("_two_systems")
def test_a_name_that_no_package_has_is_refused_with_all_that_there_are(capsys: pytest.CaptureFixture[str]) -> None:
    assert execute(["run", "--system", "tyo"]) == ExitStatus.USAGE
    assert (
        "there are raft, kafka, apache-kafka, rocketmq, apache-rocketmq, nats, etcd, zookeeper, rabbitmq, toy"
        in capsys.readouterr().err
    )
