"""Apache Kafka itself keeps what it promises, where its jars are on this machine."""

import json
from pathlib import Path

import pytest

from jepsen_like.cli import ExitStatus, execute
from jepsen_like.systems.archives.catalogue import APACHE_KAFKA

pytestmark = [
    pytest.mark.campaign,
    pytest.mark.timeout(600),
    pytest.mark.skipif(bool(APACHE_KAFKA.missing()), reason=f"needs: {APACHE_KAFKA.missing()}"),
]


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_in_its_safest_setting_nothing_is_lost(tmp_path: Path, seed: int) -> None:
    words = ["run", "--system", "apache-kafka", "--duration", "60", "--nemesis", "kill,pause,partition", "--quick"]
    words += ["--set", "min.insync.replicas=2", "--seed", str(seed), "--out", str(tmp_path)]
    assert execute(words) == ExitStatus.VALID
    results = json.loads((tmp_path / "latest" / "results.json").read_text())
    assert results["acked"] > 2000
    assert results["lost_acked"] == 0
    hit = {fault["kind"] for fault in results["faults"] if fault["target"] == "leader"}
    assert hit == {"kill", "pause", "partition"}
