"""A run on real brokers: masters are hit, even lose their disks, and nothing that was acknowledged is lost."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from jepsen_like.cli import ExitStatus, execute
from jepsen_like.systems.rocketmq import loads
from jepsen_like.systems.rocketmq.client_settings import has_cpp_client

RUN = [sys.executable, "-m", "jepsen_like.cli", "run", "--quick", "--json", "--system", "rocketmq"]


@pytest.mark.campaign
@pytest.mark.cluster
@pytest.mark.parametrize(
    "arguments",
    [
        pytest.param("--replication sync-slave --nodes 4 --set pairs=2 --nemesis kill,wipe-master", id="pairs"),
        pytest.param("--replication raft --nodes 3 --nemesis kill,pause", id="raft"),
    ],
)
def test_nothing_is_lost_when_masters_are_hit(arguments: str, tmp_path: Path) -> None:
    """`tests/jepsen_like/run/test_beside.py` has a quick run of a group under one fault."""
    ended = subprocess.run(
        [*RUN, *f"{arguments} --set client=own --duration 8 --rate 200 --seed 3".split(), "--out", str(tmp_path)],
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert ended.returncode == ExitStatus.VALID, ended.stderr
    results = json.loads(ended.stdout.splitlines()[-1])
    assert results["acked"] > 100
    assert results["lost_acked"] == 0
    assert len({*results["silences"]["scopes_s"], None}) == 1 + (2 if "pairs" in arguments else 1)


@pytest.mark.campaign
@pytest.mark.cluster
@pytest.mark.timeout(200)
@pytest.mark.skipif(
    not has_cpp_client(), reason="the C++ client is not there: pip install rocketmq==0.4.4 (Linux on x86-64)"
)
def test_what_the_cpp_client_sends_in_order_is_consumed_in_order(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """By one member; scenarios have two. It takes a minute more when a shutdown of the client keeps the locks of its queues."""
    monkeypatch.setattr(loads, "MEMBERS", 1)
    arguments = "--workload order --replication async-slave --nodes 2 --duration 5 --nemesis none --rate 200 --seed 3"
    assert execute([*RUN[3:], *arguments.split(), "--out", str(tmp_path)]) == ExitStatus.VALID
    results = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert results["client"] == "wheel"
    assert results["acked"] > 100
    assert results["given"]["messages"] >= results["acked"]
    assert {"undelivered", "key_order"} <= {*results["checks"]}
