"""The file of properties has the names of etcdctl's options, and a wrong one is told before anything is asked."""

from pathlib import Path

import pytest

from jepsen_like.cluster.authority import Authority
from jepsen_like.port.port import RunningCluster, WrongMode
from jepsen_like.systems.etcd_target.access import EtcdAccess
from jepsen_like.systems.etcd_target.system import EtcdTarget


def access_of(directory: Path, text: str) -> EtcdAccess:
    (directory / "client.properties").write_text(text)
    return EtcdAccess.of(RunningCluster(servers=(("h", 1),), properties=directory / "client.properties"))


def test_without_a_file_connections_are_plain_and_nameless() -> None:
    assert EtcdAccess.of(RunningCluster(servers=(("h", 1),))) == EtcdAccess()


@pytest.mark.parametrize("text", ["user=me:mine:too", "user=me\npassword=mine:too"])
def test_a_user_has_a_password_in_one_line_or_two(tmp_path: Path, text: str) -> None:
    access = access_of(tmp_path, text)
    assert (access.user, access.password) == ("me", "mine:too")
    assert "mine" not in repr(access)


def test_files_of_tls_mean_tls(tmp_path: Path, authority: Authority) -> None:
    access = access_of(tmp_path, f"cacert={authority.certificate}\ncert={authority.files_of('alice').keystore}\n")
    assert access.tls is not None
    assert access.tls.files.authority == str(authority.certificate)
    assert access.tls.files.checks_authority
    skipping = access_of(tmp_path, "insecure-skip-tls-verify=true").tls
    assert skipping is not None
    assert not skipping.files.checks_authority


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("user=me", "go together"),
        ("password=mine", "go together"),
        ("user=me:mine\npassword=mine", "given twice"),
        ("ca-cert=x", "ca-cert is not known here; there are cacert"),
        ("tls=yes", "tls is true or false"),
        ("cacert=/nowhere/ca.pem", "No such file"),
    ],
)
def test_a_wrong_file_is_told(tmp_path: Path, text: str, hint: str) -> None:
    with pytest.raises(WrongMode, match=f"--command-config: .*{hint}"):
        access_of(tmp_path, text)


def test_a_setting_is_the_owners() -> None:
    with pytest.raises(WrongMode, match="not the run's to set"):
        EtcdTarget.configure(("version=3.7.3",))
    mode = EtcdTarget.configure(())
    assert EtcdTarget.mode_of({"settings": dict(mode.settings)}) == mode
    assert mode.acks_are_durable
