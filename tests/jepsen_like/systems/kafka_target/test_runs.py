"""A cluster that runs already is judged like one of our own: with its owner's faults, and with what it loses behind us."""

import contextlib
import json
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from confluent_kafka import KafkaException, TopicPartition

from jepsen_like.bench.kafka.cluster import KafkaCluster
from jepsen_like.cli import ExitStatus, execute
from jepsen_like.systems.archives.catalogue import APACHE_KAFKA
from tests.jepsen_like.systems.kafka_target.by_hand import PASSWORD, apache_by_hand, client_properties, ours_by_hand

if TYPE_CHECKING:
    from jepsen_like.cluster.authority import Authority

QUICK_SESSIONS = {"broker.session.timeout.ms": "2000", "broker.heartbeat.interval.ms": "400"}
OTHER = "another-owners"
needs_apache = pytest.mark.skipif(bool(APACHE_KAFKA.missing()), reason=f"needs: {APACHE_KAFKA.missing()}")


def topics(client: KafkaCluster) -> set[str]:
    return {name for name in client.admin.list_topics(timeout=5).topics if not name.startswith("_")}


def truncate_behind(client: KafkaCluster, when: Callable[[int], bool]) -> threading.Thread:
    """Wait for the topic of a run, and delete what its partitions hold once they hold enough."""

    def truncate() -> None:
        deadline = time.monotonic() + 120
        while time.monotonic() < deadline:
            # A broker that a fault holds does not take part: it is tried again.
            with contextlib.suppress(KafkaException, TimeoutError):
                for topic in topics(client) - {OTHER}:
                    ends = client.ends(topic)
                    if ends and when(min(ends)):
                        wanted = [TopicPartition(topic, number, end) for number, end in enumerate(ends)]
                        for answer in client.admin.delete_records(wanted).values():
                            answer.result(10)
                        return
            time.sleep(0.1)

    thread = threading.Thread(target=truncate, daemon=True)
    thread.start()
    return thread


@pytest.mark.cluster
def test_a_running_cluster_is_judged_and_left_as_it_was(tmp_path: Path) -> None:
    with ours_by_hand(tmp_path / "brokers", QUICK_SESSIONS) as (cluster, client):
        client.create(OTHER)
        words = ["--duration", "4", "--rate=200", "--nemesis", "pause", "--set", "min.insync.replicas=2", "--seed", "5"]
        status, results = cluster.run("kafka", tmp_path / "runs", *words)
        assert status == ExitStatus.VALID
        assert results["acked"] > 100
        (fault,) = map(json.loads, (tmp_path / "runs/latest/nemesis.jsonl").read_text().splitlines()[:-1])
        assert fault["observed"][str(fault["leader"])].startswith("takes no part: silent at")
        assert fault["healed"] == {str(fault["leader"]): "takes part"}

        planted = truncate_behind(client, lambda end: end > 20)
        status, results = cluster.run("kafka", tmp_path / "runs", "--duration", "2", hooked=False)
        planted.join()
        assert status == ExitStatus.VIOLATION
        assert results["lost_acked"] > 20
        assert topics(client) == {OTHER}


@pytest.mark.campaign
@pytest.mark.timeout(600)
@needs_apache
@pytest.mark.parametrize("is_planted", [False, True])
def test_apache_kafka_started_by_hand(tmp_path: Path, is_planted: bool) -> None:
    with apache_by_hand(tmp_path / "brokers", {}) as (cluster, client):
        client.create(OTHER)
        if is_planted:
            truncate_behind(client, lambda end: end > 100)
        words = ["--duration", "20", "--set", "min.insync.replicas=2", "--seed", "1"]
        status, results = cluster.run("kafka", tmp_path / "runs", *words)
        assert topics(client) == {OTHER}
    assert status == (ExitStatus.VIOLATION if is_planted else ExitStatus.VALID)
    assert (results["lost_acked"] > 300) is is_planted
    assert {fault["kind"] for fault in results["faults"]} == {"kill", "pause"}


@pytest.mark.campaign
@pytest.mark.timeout(600)
@needs_apache
def test_a_user_logs_in_over_tls_to_apache_kafka(tmp_path: Path, authority: "Authority") -> None:
    config = tmp_path / "client.properties"
    with apache_by_hand(tmp_path / "brokers", {}, authority) as (cluster, _):
        config.write_text(client_properties(authority))
        words = ["--command-config", str(config), "--nemesis", "pause", "--duration", "10", "--seed", "1"]
        status, results = cluster.run("kafka", tmp_path / "runs", *words, "--set", "min.insync.replicas=2")
        assert status == ExitStatus.VALID
        assert results["acked"] > 300
        config.write_text(client_properties(authority).replace(PASSWORD, "another's"))
        options = ["--target", "kafka", "--bootstrap-servers", cluster.servers, "--command-config", str(config)]
        assert execute(["run", "--quick", "--nemesis", "none", *options]) == ExitStatus.ENVIRONMENT
