"""A standalone Spark cluster on this machine whose workers cannot see the checkout: a master, and workers that come and go.

Each worker lives in a mount namespace of its own, with an empty /tmp and an empty checkout but for what both need to be there:
the Python environment, and one directory that all share. This needs the right to mount.
"""

import os
import re
import shlex
import signal
import subprocess
import sys
from pathlib import Path
from typing import Final, Self

import pyspark
import pytest

import jepsen_like
from jepsen_like.bench.processes import BenchProcess, until
from jepsen_like.checker.engine.java import find_java, spark_java_home
from jepsen_like.checker.engine.spark import JVM_OPTIONS
from jepsen_like.cluster.ports import ReservedPorts

CHECKOUT: Final = Path(jepsen_like.__file__).parent.parent
SPARK_HOME: Final = Path(pyspark.__file__).parent
DAEMON: Final = "org.apache.spark.deploy"
CONNECT: Final = "org.apache.spark.sql.connect.service"
_STARTED: Final = re.compile(r"Starting Spark master at (spark://\S+)")


def require_namespaces() -> None:
    """Skip the test where this user may not mount."""
    if subprocess.run(["unshare", "--mount", "true"], capture_output=True, check=False).returncode:
        pytest.skip("this user may not make a mount namespace (CAP_SYS_ADMIN)")


def hiding(place: Path, *kept: Path) -> list[str]:
    """Commands that leave nothing of a directory but some of the places in it."""
    commands = ["mount -t tmpfs none /mnt"]
    for one in kept:
        inside = shlex.quote(f"/mnt/{one.relative_to(place)}")
        commands += [f"mkdir -p {inside}", f"mount --bind {shlex.quote(str(one))} {inside}"]
    return [*commands, f"mount --rbind /mnt {shlex.quote(str(place))}", "umount -l /mnt"]


class SparkCluster:
    """Use as a context manager. `shared` is the directory that workers and this process both reach."""

    def __init__(self, directory: Path, shared: Path) -> None:
        self._directory = directory
        self._shared = shared
        self._workers: list[BenchProcess] = []
        self._servers: list[BenchProcess] = []
        self._ports = ReservedPorts(1)
        self._begun = 0
        self._environment = {
            "JAVA_HOME": str(spark_java_home(find_java(), gentle=False)),
            "SPARK_HOME": str(SPARK_HOME),
            "SPARK_LOCAL_IP": "127.0.0.1",
            "SPARK_DAEMON_MEMORY": "256m",
            "JAVA_TOOL_OPTIONS": JVM_OPTIONS,
            "PYTHONPATH": "",
        }
        self._master = BenchProcess(
            self._command(f"{DAEMON}.master.Master", "--host", "127.0.0.1", "--port", "0", "--webui-port", "0"),
            directory / "master",
            self._environment,
        )
        self.url = ""

    def __enter__(self) -> Self:
        self._master.start()
        log = self._master.directory / "output.log"
        until(lambda: _STARTED.search(log.read_text()) is not None, "Spark master", members=[self._master])
        found = _STARTED.search(log.read_text())
        assert found is not None
        self.url = found[1]
        return self

    def __exit__(self, *_: object) -> None:
        for one in [*self._servers, *self._workers, self._master]:
            one.stop()
        self._ports.close()

    def workers(self, count: int) -> None:
        """Let there be so many workers of one core each."""
        while len(self._workers) > count:
            self.kill_worker(-1)
        fresh = [self._worker() for _ in range(count - len(self._workers))]
        for one in fresh:
            one.start()
        self._workers += fresh
        for one in fresh:
            log = one.directory / "output.log"
            until(lambda log=log: "Successfully registered" in log.read_text(), "Spark worker", members=[one])  # type: ignore[misc]

    def connect_server(self) -> str:
        """Start a Spark Connect server whose executors are these workers; returns its URL. It takes all cores."""
        (port,) = self._ports.ports
        words = ["--class", f"{CONNECT}.SparkConnectServer", "--master", self.url, "--conf", "spark.ui.enabled=false"]
        words += [
            "--conf",
            f"spark.connect.grpc.binding.port={port}",
            "--conf",
            "spark.connect.grpc.binding.address=127.0.0.1",
        ]
        # Executors of one host would read each other's files, which here are in another namespace.
        words += ["--conf", "spark.shuffle.readHostLocalDisk=false", "--conf", "spark.sql.shuffle.partitions=4"]
        environment = {
            **self._environment,
            "SPARK_CONNECT_MODE": "0",
            "SPARK_DAEMON_MEMORY": "1g",
            "PYSPARK_PYTHON": sys.executable,
        }
        server = BenchProcess(
            [str(SPARK_HOME / "bin" / "spark-submit"), *words, "spark-internal"],
            self._directory / "connect",
            environment,
        )
        server.start()
        self._servers.append(server)
        log = server.directory / "output.log"
        until(lambda: "Spark Connect server started" in log.read_text(), "Spark Connect server", members=[server])
        return f"sc://127.0.0.1:{port}"

    def stop_server(self) -> None:
        """Stop the Connect server, so that its cores are free again."""
        self._servers.pop().stop()

    def kill_worker(self, number: int) -> None:
        """Kill a worker and its executor."""
        one = self._workers.pop(number)
        os.killpg(one.pid, signal.SIGKILL)
        one.reap()

    def worker_of(self, pid: int) -> int:
        """Returns the number of the worker whose executor started this process."""
        ours = {one.pid: number for number, one in enumerate(self._workers)}
        while pid not in ours:
            pid = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
        return ours[pid]

    def _command(self, name: str, *words: str) -> list[str]:
        return [str(SPARK_HOME / "bin" / "spark-class"), name, *words]

    def _worker(self) -> BenchProcess:
        self._begun += 1
        work = f"/tmp/work-{self._begun}"
        words = ["--host", "127.0.0.1", "--webui-port", "0", "--cores", "1", "--memory", "1g", "--work-dir", work]
        # A checkout in /tmp is hidden with it.
        hidden = [Path("/tmp")] if CHECKOUT.is_relative_to("/tmp") else [Path("/tmp"), CHECKOUT]
        shown = {Path("/tmp"): (self._shared, Path(sys.prefix)), CHECKOUT: (Path(sys.prefix),)}
        script = [
            "set -e",
            *(
                command
                for place in hidden
                for command in hiding(place, *(each for each in shown[place] if each.is_relative_to(place)))
            ),
            "cd /",
            f"exec {shlex.join(self._command(f'{DAEMON}.worker.Worker', *words, self.url))}",
        ]
        return BenchProcess(
            ["unshare", "--mount", "sh", "-c", "\n".join(script)],
            self._directory / f"worker-{self._begun}",
            self._environment,
        )
