"""Three broker processes, and every event that they print."""

import json
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.ports import free_addresses

SETTINGS = {"broker.heartbeat.interval.ms": 100, "broker.session.timeout.ms": 9000, "default.replication.factor": 3}
SERVES_WITHIN_S = 60


class Watched:
    """Three broker processes, and every event that they print."""

    def __init__(self, directory: Path, settings: Mapping[str, int]) -> None:
        self._settings = {**SETTINGS, **settings}
        self.addresses = {number: port for number, (_, port) in enumerate(free_addresses(3), 1)}
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
        words += [f"--set={name}={value}" for name, value in self._settings.items()]
        return subprocess.Popen(
            [sys.executable, "-m", "kafka_compat.process", *words], stdout=subprocess.PIPE, text=True
        )

    def _read(self, number: int, process: "subprocess.Popen[str]") -> None:
        assert process.stdout is not None
        for line in process.stdout:
            with self.changed:
                self.events.append((number, json.loads(line)))
                self.changed.notify_all()

    def select(self, event: str) -> list[dict[str, Any]]:
        with self.changed:
            return [fields for _, fields in self.events if fields["event"] == event]

    def serve(self) -> None:
        with self.changed:
            serving = self.changed.wait_for(
                lambda: sum(fields["event"] == "serving" for _, fields in self.events) == 3, SERVES_WITHIN_S
            )
        assert serving, "the brokers do not serve"

    def fences(self) -> list[dict[str, Any]]:
        return [fields for fields in self.select("proposes") if fields["command"] == "FenceBroker"]

    def controller(self) -> int:
        """The broker that became controller last."""
        with self.changed:
            led = [
                number
                for number, fields in self.events
                if fields["event"] == "controller" and fields["role"] == "leader"
            ]
        return led[-1]

    def stall(self, seconds: float, *numbers: int) -> None:
        """Stop processes for so long: the length of the stall is the subject, nothing is waited for."""
        for number in numbers:
            self.processes[number].send_signal(signal.SIGSTOP)
        time.sleep(seconds)
        for number in numbers:
            self.processes[number].send_signal(signal.SIGCONT)

    def kill(self, number: int) -> str:
        """Kill a process. Returns the reason for which the controller then fences it."""
        self.processes[number].kill()
        with self.changed:
            noticed = self.changed.wait_for(
                lambda: [
                    str(fields["reason"])
                    for _, fields in self.events
                    if fields.get("command") == "FenceBroker" and fields["reason"].startswith(f"broker {number}: ")
                ],
                SERVES_WITHIN_S,
            )
        assert noticed, "a dead broker is not fenced"
        return noticed[0]

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
def watch(directory: Path, settings: Mapping[str, int] | None = None) -> Iterator[Watched]:
    brokers = Watched(directory, settings or {})
    try:
        brokers.serve()
        yield brokers
    finally:
        brokers.end()
