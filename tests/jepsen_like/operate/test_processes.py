"""Processes of each system serve their metrics, and are ready once they serve clients."""

import json
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from jepsen_like.cluster.ports import ReservedPorts

pytestmark = pytest.mark.cluster

PROCESSES = {
    "raft": "raft.node --id 1 --cluster-id c --listen 127.0.0.1:{0} --data {data}/1",
    "kafka": "kafka_compat.process --id 1 --cluster-id c --listen 127.0.0.1:{0} --data {data}/1",
    "nameserver": "rocketmq_compat.process nameserver --listen 127.0.0.1:{0}",
    "rocketmq": "rocketmq_compat.process broker --listen 127.0.0.1:{0} --ha-listen 127.0.0.1:0 --data {data}/1",
}
SERVES = {"raft": "role", "kafka": "serving", "nameserver": "listening", "rocketmq": "serving"}
NAMES = {
    "raft": {"quorumlog_raft_term", "quorumlog_flushes_total"},
    "kafka": {"quorumlog_raft_term", "quorumlog_kafka_controller", "quorumlog_kafka_under_replicated_partitions"},
    "nameserver": {"quorumlog_nameserver_brokers"},
    "rocketmq": {"quorumlog_rocketmq_master", "quorumlog_rocketmq_log_end"},
}


@contextmanager
def process(words: str) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-m", *words.split(), "--metrics", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as running:
        try:
            yield running
        finally:
            running.kill()


def wait_for(running: subprocess.Popen[str], event: str) -> dict[str, Any]:
    assert running.stdout is not None
    for line in running.stdout:
        found: dict[str, Any] = json.loads(line)
        if found["event"] == event and found.get("role", "leader") in ("leader", "ASYNC_MASTER"):
            return found
    raise AssertionError(f"it ended without {event}")


def get(address: str, path: str) -> tuple[int, str]:
    try:
        with urllib.request.urlopen(f"http://{address}{path}", timeout=30) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode()


@pytest.mark.parametrize("name", PROCESSES)
def test_a_process_serves_its_metrics_and_is_ready_once_it_serves(name: str, tmp_path: Path) -> None:
    with ReservedPorts(1) as free, ExitStack() as stack:
        running = stack.enter_context(process(PROCESSES[name].format(*free.ports, data=tmp_path)))
        address = str(wait_for(running, "metrics")["address"])
        assert address.startswith("127.0.0.1:")
        assert get(address, "/healthz")[0] == 200
        wait_for(running, SERVES[name])
        assert get(address, "/readyz") == (200, "ok\n")
        status, text = get(address, "/metrics")
        assert status == 200
        found = {
            sample.name: sample.value for family in text_string_to_metric_families(text) for sample in family.samples
        }
        assert NAMES[name] | {"quorumlog_connections", "quorumlog_longest_turn_seconds"} <= found.keys()
        assert found["quorumlog_ready"] == 1
        running.send_signal(signal.SIGTERM)
        assert running.wait(30) == 0
