"""The process of a name server: its flags, its events and its exit statuses."""

import json
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from rocketmq_compat.process import processes
from rocketmq_compat.remoting.codes import ResponseCode
from rocketmq_compat.remoting.frame import Command, decode, encode

ENDS_WITHIN_S = 30


class Process:
    """One name server; reads its events."""

    def __init__(self, *flags: str, listen: str = "127.0.0.1:0") -> None:
        self.popen = subprocess.Popen(
            [sys.executable, "-m", "rocketmq_compat.process", "nameserver", "--listen", listen, *flags],
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


Start = Callable[..., Process]


@pytest.fixture
def start() -> Iterator[Start]:
    """Starts processes, and kills them at the end of the test."""
    started: list[Process] = []

    def begin(*flags: str, **more: Any) -> Process:
        started.append(Process(*flags, **more))
        return started[-1]

    yield begin
    for process in started:
        process.popen.kill()
        process.popen.communicate()


def ask(address: str, command: Command) -> Command:
    host, _, port = address.rpartition(":")
    with socket.create_connection((host, int(port)), timeout=10) as connected:
        connected.sendall(b"".join(encode(command)))
        with connected.makefile("rb") as answers:
            return decode(answers.read(int.from_bytes(answers.read(4), "big")))


@pytest.mark.cluster
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_name_server_serves_and_stops_when_asked(start: Start, number: signal.Signals) -> None:
    process = start()
    address = process.until("listening")["address"]
    assert ask(address, Command(105, 1, {"topic": "t"})).code == ResponseCode.TOPIC_NOT_EXIST
    process.popen.send_signal(number)
    assert process.until("stopping")["signal"] == number.name
    process.until("stopped")
    assert process.end() == 0
    assert process.errors() == ""


@pytest.mark.cluster
def test_a_file_of_properties_counts_below_the_flags(start: Start, tmp_path: Path) -> None:
    file = tmp_path / "namesrv.conf"
    file.write_text("# RocketMQ's\norderMessageEnable=true\nserverChannelMaxIdleTimeSeconds=7\n")
    process = start("--config", str(file), "--set", "serverChannelMaxIdleTimeSeconds=9")
    shown = bytes(ask(process.until("listening")["address"], Command(319, 1)).body).decode()
    assert "orderMessageEnable=true\n" in shown
    assert "serverChannelMaxIdleTimeSeconds=9\n" in shown


@pytest.mark.parametrize(
    ("flags", "reason"),
    [
        (("--set", "orderMessageEnabled=true"), "Did you mean orderMessageEnable?"),
        (("--set", "brokerRole=SLAVE"), "is a property of the broker"),
        (("--config", "missing.conf"), "missing.conf"),
        ((), "Run: quorumlog secret FILE"),
    ],
)
def test_wrong_usage_has_status_2_and_tells_what_is_wrong(flags: tuple[str, ...], reason: str) -> None:
    ended = CliRunner().invoke(processes, ["nameserver", *flags])
    assert ended.exit_code == 2
    assert reason in ended.stderr


def test_the_process_ends_with_the_status_of_its_command(start: Start) -> None:
    process = start("--unknown")
    assert process.end() == 2
    assert "--unknown" in process.errors()


def test_a_port_that_is_taken_has_status_4_and_is_named(start: Start) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        process = start(listen=f"127.0.0.1:{port}")
        assert process.end() == 4
    assert f"cannot listen on 127.0.0.1:{port}" in process.errors()


def test_a_damaged_file_of_values_has_status_4_and_is_named(start: Start, tmp_path: Path) -> None:
    (tmp_path / "kv").write_text("{")
    process = start("--set", f"kvConfigPath={tmp_path}/kv")
    assert process.end() == 4
    assert f"{tmp_path}/kv cannot be read" in process.errors()


def test_a_path_that_cannot_be_used_has_status_4(start: Start, tmp_path: Path) -> None:
    (tmp_path / "kv").mkdir()
    process = start("--set", f"kvConfigPath={tmp_path}/kv")
    assert process.end() == 4
    assert "kvConfigPath" in process.errors()
