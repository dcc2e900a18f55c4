"""A run of transactions on real brokers: their coordinators and leaders are hit, and every transaction is whole or absent."""

import json
from pathlib import Path

import pytest

from jepsen_like.cli import ExitStatus, execute


@pytest.mark.campaign
@pytest.mark.cluster
@pytest.mark.timeout(200)
@pytest.mark.parametrize("arguments", ["--nemesis kill,pause,partition", "--nemesis power --set flush=before-ack"])
def test_transactions_are_whole_or_absent_when_coordinators_are_hit(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], arguments: str
) -> None:
    run = ["run", "--quick", "--json", "--system", "kafka", "--workload", "txn", "--duration", "20", "--seed", "3"]
    assert execute([*run, *arguments.split(), "--out", str(tmp_path)]) == ExitStatus.VALID
    results = json.loads(capsys.readouterr().out.splitlines()[-1])
    counts = results["objects"]["transactions"]
    assert counts["committed"] > 100
    assert counts["aborted"] > 0
    assert counts["takeovers"] > 0
    assert counts["torn"] == counts["aborted_reads"] == counts["duplicates"] == 0
    assert "coordinators" in results["checks"]["evidence"]["reason"]
