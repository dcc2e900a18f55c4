"""Brokers whose processes stall for a while: no broker is fenced before the session that is configured.

`python -m tests.kafka_compat.broker.test_stalls` stalls each process for 0.1 to 2 s, again and again, and prints what was proposed.
"""

import json
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.kafka_compat.broker.cluster import free_ports

SETTINGS = ("broker.heartbeat.interval.ms=100", "broker.session.timeout.ms=9000", "default.replication.factor=3")
SERVES_WITHIN_S = 60


class Watched:
    """Three broker processes, and every event that they print."""

    def __init__(self, directory: Path) -> None:
        self.addresses = {number: port for number, (_, port) in enumerate(free_ports(3), 1)}
        self.events: list[tuple[int, dict[str, Any]]] = []
        self.changed = threading.Condition()
        self.processes = {number: self._start(directory / str(number), number) for number in self.addresses}
        self.readers = [threading.Thread(target=self._read, args=each) for each in self.processes.items()]
        for reader in self.readers:
            reader.start()

    def _start(self, data: Path, number: int) -> "subprocess.Popen[str]":
        words = ["--id", str(number), "--cluster-id", "c", "--data", str(data)]
        words += ["--listen", f"127.0.0.1:{self.addresses[number]}"]
        words += [f"--peer={each}=127.0.0.1:{port}" for each, port in self.addresses.items() if each != number]
        words += [f"--set={setting}" for setting in SETTINGS]
        return subprocess.Popen(
            [sys.executable, "-m", "kafka_compat.process", *words], stdout=subprocess.PIPE, text=True
        )

    def _read(self, number: int, process: "subprocess.Popen[str]") -> None:
        assert process.stdout is not None
        for line in process.stdout:
            with self.changed:
                self.events.append((number, json.loads(line)))
                self.changed.notify_all()

    def named(self, event: str) -> list[dict[str, Any]]:
        with self.changed:
            return [fields for _, fields in self.events if fields["event"] == event]

    def serve(self) -> None:
        with self.changed:
            serving = self.changed.wait_for(
                lambda: sum(fields["event"] == "serving" for _, fields in self.events) == 3, SERVES_WITHIN_S
            )
        assert serving, "the brokers do not serve"

    def fences(self) -> list[dict[str, Any]]:
        return [fields for fields in self.named("proposes") if fields["command"] == "FenceBroker"]

    def controller(self) -> int:
        """The broker that became controller last."""
        with self.changed:
            led = [
                number
                for number, fields in self.events
                if fields["event"] == "controller" and fields["role"] == "leader"
            ]
        return led[-1]

    def stall(self, number: int, seconds: float) -> None:
        """Stop a process for so long: the length of the stall is the subject, nothing is waited for."""
        self.processes[number].send_signal(signal.SIGSTOP)
        time.sleep(seconds)
        self.processes[number].send_signal(signal.SIGCONT)

    def end(self) -> None:
        for process in self.processes.values():
            process.kill()
            process.wait()
        for reader in self.readers:
            reader.join()
        for process in self.processes.values():
            assert process.stdout is not None
            process.stdout.close()


@contextmanager
def watched(directory: Path) -> Iterator[Watched]:
    brokers = Watched(directory)
    try:
        brokers.serve()
        yield brokers
    finally:
        brokers.end()


@pytest.mark.cluster
def test_a_stall_that_is_shorter_than_the_session_fences_nobody(tmp_path: Path) -> None:
    with watched(tmp_path) as brokers:
        for number in brokers.processes:
            brokers.stall(number, 0.45)
        for _ in range(4):  # too short for an election, and longer than a heartbeat's interval
            brokers.stall(brokers.controller(), 0.35)
        assert brokers.fences() == []
        brokers.processes[1].kill()
        with brokers.changed:  # the end of a process is known at once, without waiting for the session
            assert brokers.changed.wait_for(
                lambda: any(
                    fields.get("command") == "FenceBroker" and "connection has ended" in fields["reason"]
                    for _, fields in brokers.events
                ),
                SERVES_WITHIN_S,
            )


def main() -> None:
    with tempfile.TemporaryDirectory() as directory, watched(Path(directory)) as brokers:
        for _ in range(10):
            brokers.stall(brokers.controller(), 0.4)
            time.sleep(0.3)
        sys.stdout.write(f"10 stalls of the controller of 0.4 s: {len(brokers.fences())} fences proposed\n")
        for tenths in (1, 3, 4.5, 6, 8, 10, 15, 20):
            for number in brokers.processes:
                brokers.stall(number, tenths / 10)
                time.sleep(0.3)
        sys.stdout.write(f"24 stalls of 0.1 to 2 s: {len(brokers.fences())} fences proposed {brokers.fences()}\n")
        sys.stdout.write(
            f"controllers: {len([each for each in brokers.named('controller') if each['role'] == 'leader'])}\n"
        )


if __name__ == "__main__":
    main()
