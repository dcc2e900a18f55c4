"""The broker process: its flags, its events and its exit statuses."""

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from kafka_compat.process import broker as broker_command
from tests.ports import free_addresses

ENDS_WITHIN_S = 30


def base_flags(directory: Path, port: int, broker: int) -> list[str]:
    place = ["--listen", f"127.0.0.1:{port}", "--data", str(directory)]
    return ["--id", str(broker), "--cluster-id", "c", *place]


class Process:
    """One broker process; reads its events."""

    def __init__(self, directory: Path, *flags: str, port: int | None = None, broker: int = 1) -> None:
        self.port = port or free_addresses(1)[0][1]
        self.popen = subprocess.Popen(
            [sys.executable, "-m", "kafka_compat.process", *base_flags(directory, self.port, broker), *flags],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def until(self, event: str) -> dict[str, Any]:
        """Read events up to the first of this name."""
        assert self.popen.stdout is not None
        for line in self.popen.stdout:
            told: dict[str, Any] = json.loads(line)
            if told["event"] == event:
                return told
        raise AssertionError(f"the process ended without {event}: {self.errors()}")

    def errors(self) -> str:
        return self.popen.communicate(timeout=ENDS_WITHIN_S)[1]

    def end(self) -> int:
        return self.popen.wait(ENDS_WITHIN_S)

    def signal(self, number: signal.Signals = signal.SIGTERM) -> None:
        self.popen.send_signal(number)


Start = Callable[..., Process]


@pytest.fixture
def start() -> Iterator[Start]:
    """Starts processes, and kills them at the end of the test."""
    started: list[Process] = []

    def begin(*args: Any, **more: Any) -> Process:
        started.append(Process(*args, **more))
        return started[-1]

    yield begin
    for process in started:
        process.popen.kill()
        process.popen.communicate()


@pytest.fixture(scope="module")
def stopped_directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Makes the directory of a broker that has served and was stopped."""
    directory = tmp_path_factory.mktemp("stopped") / "data"
    broker = Process(directory)
    stop_once_serving(broker)
    broker.errors()
    return directory


@pytest.fixture
def broker_directory(stopped_directory: Path, tmp_path: Path) -> Path:
    """A copy of it."""
    return shutil.copytree(stopped_directory, tmp_path / "data")


def stop_once_serving(broker: Process) -> None:
    broker.until("serving")
    broker.signal()
    assert broker.end() == 0


def peers_that_are_down() -> list[str]:
    return [f"--peer={number}=127.0.0.1:{address[1]}" for number, address in enumerate(free_addresses(2), 2)]


def test_a_broker_serves_and_stops_when_asked_and_starts_again(start: Start, tmp_path: Path) -> None:
    for _ in range(2):
        broker = start(tmp_path)
        broker.until("listening")
        broker.until("serving")
        broker.signal()
        assert broker.until("stopping")["signal"] == "SIGTERM"
        broker.until("stopped")
        assert broker.end() == 0


@pytest.mark.campaign
def test_without_a_controller_a_signal_stops_it_too(start: Start, tmp_path: Path) -> None:
    broker = start(tmp_path, *peers_that_are_down())
    broker.until("listening")
    broker.signal(signal.SIGINT)
    assert broker.end() == 0


@pytest.mark.parametrize(
    ("flags", "reason"),
    [
        (("--set", "min.insync.replica=2"), "min.insync.replica"),
        (("--set", "nonsense"), "--set"),
        (("--peer", "1=127.0.0.1:1"), "--peer"),
        (("--peer", "2"), "--peer"),
        (("--listen", "0.0.0.0:0"), "Run: quorumlog secret FILE"),
        (("--secret-file", "none"), "cannot read the secret in none"),
    ],
)
def test_wrong_usage_has_status_2_and_says_what_is_wrong(tmp_path: Path, flags: tuple[str, ...], reason: str) -> None:
    ended = CliRunner().invoke(broker_command, [*base_flags(tmp_path / "data", 1, 1), *flags])
    assert ended.exit_code == 2
    assert reason in ended.stderr
    assert not (tmp_path / "data").exists()


def test_the_process_ends_with_the_status_of_its_command(start: Start, tmp_path: Path) -> None:
    broker = start(tmp_path / "data", "--unknown")
    assert broker.end() == 2
    assert "--unknown" in broker.errors()


def test_a_port_that_is_taken_has_status_4_and_is_named(start: Start, tmp_path: Path) -> None:
    first = start(tmp_path / "1")
    first.until("listening")
    second = start(tmp_path / "2", port=first.port)
    assert second.end() == 4
    assert f"cannot listen on 127.0.0.1:{first.port}" in second.errors()


@pytest.mark.campaign
def test_a_directory_in_use_has_status_4(start: Start, tmp_path: Path) -> None:
    start(tmp_path).until("listening")
    second = start(tmp_path)
    assert second.until("failed")["status"] == 4
    assert second.end() == 4


def test_the_directory_of_another_broker_has_status_4(start: Start, broker_directory: Path) -> None:
    other = start(broker_directory, broker=2)
    assert "--data" in other.until("failed")["reason"]
    assert other.end() == 4


@pytest.mark.campaign
def test_a_directory_that_cannot_be_made_has_status_4_and_is_named(start: Start, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    broker = start(tmp_path / "file" / "data")
    reason = broker.until("failed")["reason"]
    assert broker.end() == 4
    assert "cannot listen" not in reason
    assert str(tmp_path / "file") in reason


def test_a_damaged_log_of_a_partition_ends_no_process_and_is_named(start: Start, broker_directory: Path) -> None:
    damaged = broker_directory / "partitions" / "logs" / "t-0"
    damaged.mkdir(parents=True)
    (damaged / "manifest").write_bytes(os.urandom(200))
    again = start(broker_directory)
    event = again.until("damage")
    assert event["log"] == "t-0"
    assert "remove" not in json.dumps(event)
    stop_once_serving(again)


def test_a_broker_starts_without_its_own_files(start: Start, broker_directory: Path) -> None:
    for name in ("broker", "run", "high-watermarks"):
        (broker_directory / "partitions" / name).write_bytes(b"rotten")
    stop_once_serving(start(broker_directory))
    for name in ("broker", "run", "high-watermarks"):
        (broker_directory / "partitions" / name).unlink()
    stop_once_serving(start(broker_directory))


def test_damaged_metadata_without_peers_has_status_4_and_no_advice_that_loses_it(
    start: Start, broker_directory: Path
) -> None:
    (segment,) = (broker_directory / "metadata").glob("*.log")
    content = bytearray(segment.read_bytes())
    content[content.index(b"127.0.0.1")] ^= 1  # within the registration, which was committed
    segment.write_bytes(content)
    again = start(broker_directory)
    reason = again.until("failed")["reason"]
    assert str(segment) in reason
    assert "nothing was changed" in reason
    assert "remove" not in reason
    assert again.end() == 4
