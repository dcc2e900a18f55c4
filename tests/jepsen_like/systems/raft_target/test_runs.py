"""A raft group that its owner started by hand is judged, with his faults, next to his appends, and with what it loses."""

import contextlib
import json
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from jepsen_like.cli import ExitStatus, execute
from raft.errors import OutcomeUnknown
from raft.secret_file import make_secret
from tests.jepsen_like.systems.raft_target.by_hand import CLUSTER_ID, Owner, raft_by_hand


def plant(owner: Owner, harm: Callable[[Owner], None], when: int) -> threading.Thread:
    """Do something to the group once its log is so long."""

    def work() -> None:
        while owner.end() < when:
            time.sleep(0.1)
        harm(owner)

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    return thread


def append_orders(owner: Owner) -> None:
    for number in range(20):
        # The leader may be held by a fault meanwhile: the owner does not need to know what became of his order.
        with contextlib.suppress(OutcomeUnknown):
            owner.append(b"order %d" % number, b"and its invoice")


@pytest.mark.cluster
def test_a_running_group_is_judged_next_to_what_others_append(tmp_path: Path) -> None:
    config = tmp_path / "client.properties"
    config.write_text(f"cluster-id={CLUSTER_ID}\n")
    with raft_by_hand(tmp_path / "nodes") as (cluster, owner):
        words = ["--command-config", str(config), "--duration", "4", "--nemesis", "pause", "--seed", "5"]
        others = plant(owner, append_orders, when=100)
        status, results = cluster.run("raft", tmp_path / "runs", *words)
        others.join()
        assert status == ExitStatus.VALID
        assert results["acked"] > 100
        assert results["ops"]["info"] >= 40
        (fault,) = map(json.loads, (tmp_path / "runs/latest/nemesis.jsonl").read_text().splitlines()[:-1])
        assert fault["observed"][str(fault["leader"])].startswith("takes no part: silent at")
        assert fault["healed"] == {str(fault["leader"]): "takes part"}

        plant(owner, Owner.begin_anew, when=owner.end() + 50)
        words = ["--command-config", str(config), "--duration", "2", "--seed", "6"]
        status, results = cluster.run("raft", tmp_path / "runs", *words, hooked=False)
        assert status == ExitStatus.VIOLATION
        assert results["lost_acked"] > 0


@pytest.mark.campaign
@pytest.mark.timeout(300)
@pytest.mark.parametrize("harm", [None, Owner.begin_anew])
def test_a_group_with_a_secret_under_two_faults(tmp_path: Path, harm: Callable[[Owner], None] | None) -> None:
    secret, config = tmp_path / "secret", tmp_path / "client.properties"
    make_secret(secret)
    config.write_text(f"cluster-id={CLUSTER_ID}\nsecret-file={secret}\n")
    with raft_by_hand(tmp_path / "nodes", secret) as (cluster, owner):
        plant(owner, harm or append_orders, when=500)
        words = ["--command-config", str(config), "--duration", "20", "--seed", "1"]
        status, results = cluster.run("raft", tmp_path / "runs", *words, hooked=harm is None)
    assert status == (ExitStatus.VALID if harm is None else ExitStatus.VIOLATION)
    assert {fault["kind"] for fault in results["faults"]} == ({"kill", "pause"} if harm is None else set())


@pytest.mark.cluster
def test_a_wrong_secret_or_name_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    secret, other, config = tmp_path / "secret", tmp_path / "other", tmp_path / "client.properties"
    make_secret(secret)
    make_secret(other)
    with raft_by_hand(tmp_path / "nodes", secret) as (cluster, _):
        target = ["run", "--quick", "--nemesis", "none", "--target", "raft", "--bootstrap-servers", cluster.servers]
        for text in (
            f"cluster-id={CLUSTER_ID}\nsecret-file={other}\n",
            f"cluster-id={CLUSTER_ID}\n",
            f"secret-file={secret}\n",
        ):
            config.write_text(text)
            assert execute([*target, "--command-config", str(config)]) == ExitStatus.ENVIRONMENT
            assert "none of --bootstrap-servers answers; 127.0.0.1:" in capsys.readouterr().err
