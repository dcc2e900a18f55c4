"""The throw-away authority and its command: what it makes, who may read it, and what it refuses."""

import stat
from pathlib import Path

import pytest
from click.testing import CliRunner
from cryptography import x509

from jepsen_like.cluster.authority import HOSTS, Authority, UnusableAuthority, certify
from jepsen_like.run.ca import ca


def names_in(certificate: Path) -> list[str]:
    loaded = x509.load_pem_x509_certificate(certificate.read_bytes())
    names = loaded.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    return [str(name.value) for name in names]


def test_keys_are_for_their_owner_alone_and_certificates_for_all(tmp_path: Path) -> None:
    node = Authority.at(tmp_path / "ca").issue_node("n", ["db.example.com", "10.1.2.3"])
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in (tmp_path / "ca").iterdir()}
    assert modes == {"ca.pem": 0o644, "ca.key": 0o600, "n.pem": 0o644, "n.key": 0o600, "n.keystore.pem": 0o600}
    assert names_in(node.certificate) == [*HOSTS, "db.example.com", "10.1.2.3"]
    assert node.keystore.read_bytes() == node.key.read_bytes() + node.certificate.read_bytes()


def test_an_authority_goes_on_with_its_key_and_renews_what_it_has_issued(tmp_path: Path) -> None:
    first = Authority.at(tmp_path).issue_client("c").certificate.read_bytes()
    authority = (tmp_path / "ca.pem").read_bytes()
    second = Authority.at(tmp_path).issue_client("c").certificate.read_bytes()
    assert (tmp_path / "ca.pem").read_bytes() == authority
    assert first != second
    nodes, client = certify(tmp_path, [1, 2])
    assert [paths.certificate.name for paths in nodes.values()] == ["node-1.pem", "node-2.pem"]
    assert client.authority == tmp_path / "ca.pem"


def test_half_an_authority_a_damaged_one_and_names_that_are_paths_are_refused(tmp_path: Path) -> None:
    authority = Authority.at(tmp_path / "a")
    for name in ("", "ca", "../x", "a/b", ".hidden", "x" * 64):
        with pytest.raises(UnusableAuthority, match="is no name for a certificate"):
            authority.issue_node(name)
    with pytest.raises(UnusableAuthority, match="neither a name of a host nor an address"):
        authority.issue_node("n", ["ä.example.com"])
    (tmp_path / "a" / "ca.pem").unlink()
    with pytest.raises(UnusableAuthority, match=r"has only one of ca\.pem and ca\.key"):
        Authority.at(tmp_path / "a")
    (tmp_path / "a" / "ca.pem").write_text("nothing")
    with pytest.raises(UnusableAuthority, match="cannot use"):
        Authority.at(tmp_path / "a")


def test_the_command_names_the_files_that_it_has_made(tmp_path: Path) -> None:
    made = CliRunner().invoke(ca, [str(tmp_path), "--node", "n1", "--client", "alice", "--host", "db.example.com"])
    assert made.exit_code == 0
    assert [line.split() for line in made.output.splitlines()] == [
        ["authority", f"{tmp_path}/ca.pem"],
        ["certificate", f"{tmp_path}/n1.pem", "key", f"{tmp_path}/n1.key"],
        ["certificate", f"{tmp_path}/alice.pem", "key", f"{tmp_path}/alice.key"],
    ]
    assert "db.example.com" in names_in(tmp_path / "n1.pem")
    refused = CliRunner().invoke(ca, [str(tmp_path), "--node", "a/b"])
    assert refused.exit_code == 2
    assert "'a/b' is no name for a certificate" in refused.output
