"""The file of properties has the names of the operator's options, and a wrong one is told before anything is asked."""

from pathlib import Path

import pytest

from jepsen_like.port.port import RunningCluster, WrongMode
from jepsen_like.systems.raft_target.access import RaftAccess
from raft.secret_file import make_secret


def access_of(directory: Path, text: str) -> RaftAccess:
    (directory / "client.properties").write_text(text)
    return RaftAccess.of(RunningCluster(servers=(("h", 1),), properties=directory / "client.properties"))


def test_without_a_file_it_is_the_group_of_the_commands() -> None:
    assert RaftAccess.of(RunningCluster(servers=(("h", 1),))) == RaftAccess("quorumlog")


def test_names_are_those_of_the_commands(tmp_path: Path) -> None:
    make_secret(tmp_path / "secret")
    access = access_of(tmp_path, f"cluster-id=orders\nsecret-file={tmp_path / 'secret'}\ntls=true\n")
    assert (access.cluster_id, access.secret) == ("orders", tmp_path / "secret")
    assert access.tls is not None


@pytest.mark.parametrize("text", ["secret-file=/nowhere", "tls-authority=/nowhere", "clusterid=orders"])
def test_a_wrong_file_is_told(tmp_path: Path, text: str) -> None:
    with pytest.raises(WrongMode, match="--command-config: "):
        access_of(tmp_path, text)
