"""The process of a broker: its flags, its events and its exit statuses."""

import json
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from rocketmq_compat.process import processes
from rocketmq_compat.remoting.client import connected_client
from rocketmq_compat.remoting.codes import ResponseCode
from tests.rocketmq_compat.broker.pairs import bodies, pull, send

ENDS_WITHIN_S = 30
Start = Callable[..., subprocess.Popen[str]]


@pytest.fixture
def start() -> Iterator[Start]:
    """Starts processes, and kills them at the end of the test."""
    started: list[subprocess.Popen[str]] = []

    def begin(*flags: str) -> subprocess.Popen[str]:
        command = [sys.executable, "-m", "rocketmq_compat.process", *flags]
        started.append(subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True))
        return started[-1]

    yield begin
    for process in started:
        process.kill()
        process.communicate()


def until(process: subprocess.Popen[str], event: str) -> dict[str, Any]:
    """Reads events up to the first of this name."""
    assert process.stdout is not None
    for line in process.stdout:
        told: dict[str, Any] = json.loads(line)
        if told["event"] == event:
            return told
    raise AssertionError(f"the process ended without {event}: {process.communicate(timeout=ENDS_WITHIN_S)[1]}")


def broker_flags(data: Path) -> list[str]:
    return ["broker", "--listen", "127.0.0.1:0", "--ha-listen", "127.0.0.1:0", "--data", str(data)]


def address_of(told: dict[str, Any]) -> tuple[str, int]:
    host, _, port = told["address"].rpartition(":")
    return host, int(port)


@pytest.mark.cluster
@pytest.mark.parametrize("number", [pytest.param(signal.SIGTERM, marks=pytest.mark.campaign), signal.SIGKILL])
async def test_what_a_broker_acknowledged_is_there_after_it_was_stopped_or_killed(
    start: Start, tmp_path: Path, number: signal.Signals
) -> None:
    names = until(start("nameserver", "--listen", "127.0.0.1:0"), "listening")["address"]
    flags = [*broker_flags(tmp_path / "data"), "--set", f"namesrvAddr={names}"]
    process = start(*flags)
    address = address_of(until(process, "listening"))
    until(process, "serving")
    async with connected_client(address) as client:
        assert (await send(client, b"kept")).code == ResponseCode.SUCCESS
    process.send_signal(number)
    if number == signal.SIGTERM:
        until(process, "stopping")
        until(process, "stopped")
        assert process.wait(ENDS_WITHIN_S) == 0
        assert process.communicate()[1] == ""
    else:
        process.wait(ENDS_WITHIN_S)
    again = start(*flags)
    address = address_of(until(again, "listening"))
    until(again, "serving")
    async with connected_client(address) as client:
        assert bodies(await pull(client, 0)) == [b"kept"]


@pytest.mark.parametrize(
    ("flags", "reason"),
    [
        (["--set", "brokerRolle=SLAVE"], "Did you mean brokerRole?"),
        (["--set", "brokerRole=SLAVE"], "brokerId is 0 for a master"),
        (["--set", "namesrvAddr=nowhere"], "no HOST:PORT"),
        (["--set", "enableDLegerCommitLog=true"], "none of dLegerPeers"),
        (["--ha-listen", "0.0.0.0:0"], "Run: quorumlog secret FILE"),
        (["--secret-file", "none"], "cannot read the secret in none"),
    ],
)
def test_wrong_usage_has_status_2_and_tells_what_is_wrong(tmp_path: Path, flags: list[str], reason: str) -> None:
    ended = CliRunner().invoke(processes, [*broker_flags(tmp_path / "data"), *flags])
    assert ended.exit_code == 2
    assert reason in ended.stderr


def test_a_broker_needs_a_directory(start: Start) -> None:
    process = start("broker", "--listen", "127.0.0.1:0")
    assert process.wait(ENDS_WITHIN_S) == 2
    assert "give --data" in process.communicate()[1]


@pytest.mark.cluster
def test_a_directory_that_is_in_use_has_status_4(start: Start, tmp_path: Path) -> None:
    until(start(*broker_flags(tmp_path / "data")), "serving")
    second = start(*broker_flags(tmp_path / "data"))
    assert second.wait(ENDS_WITHIN_S) == 4
    assert "choose another --data" in second.communicate()[1]
