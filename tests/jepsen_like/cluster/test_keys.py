"""The keys of a cluster are replaced step by step: a process one step behind the others is served, and one two steps behind is not."""

import itertools
import shutil
from pathlib import Path

import pytest

from jepsen_like.cluster.authority import ClusterPapers, certify
from jepsen_like.cluster.keys import Keys
from jepsen_like.systems.secret_of import SecretFileSteps
from raft.net.certificates import ClientCertificates, TlsFiles, client_context, server_context
from raft.net.tls import TlsFailed, TlsStream
from raft.secret_file import make_secret, read_secret


def shake_hands(client: Path, server: Path) -> bool:
    """Returns True if the client and node 1 of these directories know each other."""
    files = [
        TlsFiles(
            certificate=str(directory / f"{name}.keystore.pem"),
            authority=str(directory / "ca.pem"),
            clients=ClientCertificates.REQUIRED,
        )
        for directory, name in ((client, "client"), (server, "node-1"))
    ]
    one = TlsStream(client_context(files[0]), server_side=False, host="localhost")
    other = TlsStream(server_context(files[1]), server_side=True)
    try:
        one.shake_hands()
        for _ in range(3):
            other.feed(one.output())
            one.feed(other.output())
    except TlsFailed:
        return False
    return one.is_ready and other.is_ready


def test_at_each_step_of_a_new_authority_those_of_the_step_before_are_known_and_in_the_end_none_of_the_first(
    tmp_path: Path,
) -> None:
    used = tmp_path / "used"
    papers = ClusterPapers(used, [1])
    states = [shutil.copytree(used, tmp_path / "0")]
    for step in (papers.add, papers.turn, papers.drop):
        step()
        states.append(shutil.copytree(used, tmp_path / step.__name__))
    for pair in itertools.pairwise(states):
        assert all(shake_hands(*sides) for sides in itertools.product(pair, repeat=2))
    first, last = states[0], states[-1]
    assert not shake_hands(first, last)
    assert not shake_hands(last, first)
    certify(used, [1])  # a cluster that starts again in the directory goes on with the new authority
    assert shake_hands(used, last)
    assert shake_hands(last, used)


@pytest.mark.parametrize("steps", [1, 2])
def test_a_replacement_that_ends_early_leaves_one_secret_and_one_authority(tmp_path: Path, steps: int) -> None:
    secret = tmp_path / "secret"
    first = make_secret(secret).now()
    papers = ClusterPapers(tmp_path / "tls", [1])
    before = papers.client.authority.read_bytes()
    keys = Keys(secret, SecretFileSteps(), papers)
    for step in (keys.add, keys.turn)[:steps]:
        step()
    told = keys.drop()
    now = read_secret(secret).now()
    assert (now.other, now == first, papers.client.authority.read_bytes() == before) == (None, steps == 1, steps == 1)
    assert told["secret"] == "one is accepted"
    assert keys.drop() == {"secret": "one is accepted"}  # once more does nothing
