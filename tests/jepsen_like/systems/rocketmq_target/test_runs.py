"""A RocketMQ cluster that its owner started by hand is judged, with his faults, and with what it loses behind us."""

import contextlib
import json
import threading
import time
from pathlib import Path

import pytest

from jepsen_like.cli import ExitStatus
from jepsen_like.operate.administration import Silent
from jepsen_like.operate.outcomes import NotDone
from jepsen_like.systems.archives.catalogue import APACHE_ROCKETMQ
from tests.jepsen_like.systems.rocketmq_target.by_hand import Owner, apache_processes, own_processes, rocketmq_by_hand

OTHER = "another-owners"
OURS = "quorumlog-run-5"
needs_apache = pytest.mark.skipif(bool(APACHE_ROCKETMQ.missing()), reason=f"needs: {APACHE_ROCKETMQ.missing()}")


def plant(owner: Owner, when: int) -> threading.Thread:
    """Wait until the topic of a run holds enough, and make it again."""

    def work() -> None:
        while True:
            with contextlib.suppress(NotDone, Silent):
                if owner.end(OURS) >= when:
                    return owner.make_again(OURS)
            time.sleep(0.1)

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    return thread


@pytest.mark.cluster
def test_a_running_cluster_is_judged_and_left_as_it_was(tmp_path: Path) -> None:
    with rocketmq_by_hand(tmp_path / "brokers", own_processes) as (cluster, owner):
        owner.make(OTHER)
        before = owner.topics()
        words = ["--replication", "dledger", "--duration", "4", "--nemesis", "pause", "--seed", "5"]
        status, results = cluster.run("rocketmq", tmp_path / "runs", *words)
        assert status == ExitStatus.VALID
        assert results["acked"] > 100
        (fault,) = map(json.loads, (tmp_path / "runs/latest/nemesis.jsonl").read_text().splitlines()[:-1])
        assert fault["observed"][str(fault["leader"])].startswith("takes no part: silent at")
        assert fault["healed"] == {str(fault["leader"]): "takes part"}
        assert owner.topics() == before

        planted = plant(owner, when=50)
        words = ["--replication", "dledger", "--duration", "2", "--seed", "5"]
        status, results = cluster.run("rocketmq", tmp_path / "runs", *words, hooked=False)
        planted.join()
        assert status == ExitStatus.VIOLATION
        assert results["lost_acked"] > 20
        assert owner.topics() == before


@pytest.mark.campaign
@pytest.mark.timeout(600)
@needs_apache
@pytest.mark.parametrize("is_planted", [False, True])
def test_apache_rocketmq_started_by_hand(tmp_path: Path, is_planted: bool) -> None:
    with rocketmq_by_hand(tmp_path / "brokers", apache_processes) as (cluster, owner):
        owner.make(OTHER)
        before = owner.topics()
        if is_planted:
            plant(owner, when=100)
        words = ["--replication", "dledger", "--duration", "20", "--seed", "5"]
        status, results = cluster.run("rocketmq", tmp_path / "runs", *words)
        assert owner.topics() - before <= {OURS}  # Apache's name servers list it again
    assert status == (ExitStatus.VIOLATION if is_planted else ExitStatus.VALID)
    assert (results["lost_acked"] > 50) is is_planted
    assert {fault["kind"] for fault in results["faults"]} == {"kill", "pause"}
