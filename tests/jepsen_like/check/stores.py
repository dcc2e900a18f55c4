"""Histories where a cluster keeps them, read by Spark for real: in HDFS, and in a store that speaks S3.

    python -m tests.jepsen_like.check.stores [--only hdfs|s3a]

Starts a name node and a data node of Hadoop, or moto's server for S3, and puts histories there: logs with their final logs, of which
one is damaged, registers, a queue, one with a torn part file. What `quorumlog check URL` prints, and how it ends, must be what it is for
the same directory here. Hadoop comes from Maven Central into the user's cache, with its client for S3 (700 MB), moto from PyPI into a
directory that ends with this; neither is a dependency of anything.
"""

import contextlib
import os
import random
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
import venv
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import attrs
import click
from pyspark.sql import SparkSession
from rich.console import Console
from rich.table import Table

from jepsen_like.bench.processes import until
from jepsen_like.cli import ExitStatus
from jepsen_like.history.files import HistoryWriter
from jepsen_like.systems.archives.jars import JarSet
from tests.jepsen_like.check.phantom_registers import write_registers
from tests.jepsen_like.checker.log.test_several_logs import run_of
from tests.jepsen_like.checker.queue import small_queues

COMMAND = "python -m tests.jepsen_like.check.stores"
HADOOP = JarSet(
    "Hadoop's HDFS",
    "hadoop-hdfs",
    "3.5.0",
    [
        (
            "org.apache.hadoop:hadoop-client-minicluster:3.5.0",
            "06772d24529e59939915979b3edba204d367750ef7dc5120411f35221dd4818c",
        )
    ],
    command=COMMAND,
)
S3A = JarSet(
    "Hadoop's client for S3",
    "hadoop-s3a",
    "3.5.0",
    [
        ("org.apache.hadoop:hadoop-aws:3.5.0", "66bd9eefb938b1a1657487324b63c13df2d8b17164a1dd24e0ef37b905bc5baa"),
        ("software.amazon.awssdk:bundle:2.35.4", "db4b55f24ad1b4e70f17eb1717a4de76a8dadc5a27d764be7c44ff67b2c1c677"),
        (
            "software.amazon.s3.analyticsaccelerator:analyticsaccelerator-s3:1.3.1",
            "4959a9747cbb479c73c3ffbcd479bee5b014f8b2880994585a8693fb9d24675e",
        ),
    ],
    command=COMMAND,
)
MODELS = {"log": "log", "log-damaged": "log", "registers": "register", "queue": "queue", "torn": "log", "none": "log"}
"""The histories, by name, and what each is of."""

SHOWN_MAX = 5
PATIENCE_S = 30.0


@attrs.frozen
class Store:
    """A place for histories, with the environment in which a check can read them."""

    url: str
    put: Callable[[Path, str], None]
    """A file, and its path below `url`."""
    environment: dict[str, str]


def write_histories(place: Path) -> None:
    """A run directory for each of `MODELS`, but for `none`."""
    run_of(place / "log")
    run_of(place / "log-damaged", missing=(3, 4))
    run_of(place / "torn")
    part = max((place / "torn" / "history.parquet").rglob("*.parquet"))
    part.write_bytes(part.read_bytes()[:-40])
    write_registers(place / "registers")
    with HistoryWriter(place / "queue" / "history.parquet") as history:
        for op in small_queues.make_damaged(random.Random(2)).ops:
            history.record(op)


@contextlib.contextmanager
def hdfs(home: Path) -> Iterator[Store]:
    """A name node and one data node, in the JVM of a session of this process."""
    jars = HADOOP.fetch(click.echo)
    session = (
        SparkSession.builder.master("local[1]")
        .config("spark.driver.extraClassPath", f"{jars}/*")
        .config("spark.ui.enabled", "false")
        .getOrCreate()
    )
    try:
        hadoop: Any = session._jvm.org.apache.hadoop
        settings = hadoop.conf.Configuration()
        nodes = hadoop.hdfs.MiniDFSCluster.Builder(settings, session._jvm.java.io.File(str(home / "hdfs"))).build()
        nodes.waitActive()
        files = nodes.getFileSystem()

        def put(file: Path, name: str) -> None:
            files.copyFromLocalFile(hadoop.fs.Path(f"file://{file}"), hadoop.fs.Path(f"/histories/{name}"))

        yield Store(f"hdfs://127.0.0.1:{nodes.getNameNodePort()}/histories", put, {})
        nodes.shutdown()
    finally:
        session.stop()


@contextlib.contextmanager
def s3a(home: Path) -> Iterator[Store]:
    """moto's server, with a bucket."""
    jars = S3A.fetch(click.echo)
    venv.create(home / "moto", with_pip=True)
    python = home / "moto" / "bin" / "python"
    subprocess.run([python, "-m", "pip", "install", "--quiet", "moto[server]"], check=True)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    endpoint = f"http://127.0.0.1:{port}"
    (home / "conf").mkdir()
    settings = {
        "spark.driver.extraClassPath": f"{jars}/*",
        "spark.hadoop.fs.s3a.endpoint": endpoint,
        "spark.hadoop.fs.s3a.endpoint.region": "us-east-1",
        "spark.hadoop.fs.s3a.path.style.access": "true",
        "spark.hadoop.fs.s3a.access.key": "any",
        "spark.hadoop.fs.s3a.secret.key": "any",
    }
    (home / "conf" / "spark-defaults.conf").write_text("".join(f"{name} {value}\n" for name, value in settings.items()))

    def put(file: Path | None, name: str) -> None:
        content = b"" if file is None else file.read_bytes()
        kind = {"Content-Type": "application/octet-stream"}
        request = urllib.request.Request(f"{endpoint}/{name}", data=content, headers=kind, method="PUT")
        urllib.request.urlopen(request, timeout=PATIENCE_S).close()

    with (home / "moto.log").open("wb") as log:
        serving = subprocess.Popen(
            [python, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)], stdout=log, stderr=log
        )
    try:
        until(lambda: answers(endpoint), "moto's server")
        put(None, "histories")
        yield Store(
            "s3a://histories", lambda file, name: put(file, f"histories/{name}"), {"SPARK_CONF_DIR": str(home / "conf")}
        )
    finally:
        serving.terminate()
        serving.wait()


STORES = {"hdfs": hdfs, "s3a": s3a}


def answers(endpoint: str) -> bool:
    """Returns True if an HTTP server answers there."""
    try:
        urllib.request.urlopen(endpoint, timeout=PATIENCE_S).close()
    except urllib.error.HTTPError:
        return True
    except OSError:
        return False
    return True


def run_check(where: str, model: str, environment: dict[str, str], *options: str) -> tuple[int, list[str], str]:
    """Runs a check; returns its status, the lines that it prints with PATH for the path, and its stderr."""
    words = [sys.executable, "-m", "jepsen_like.cli", "check", where, "--model", model, *options]
    done = subprocess.run(words, env={**os.environ, **environment}, capture_output=True, text=True, check=False)
    return done.returncode, [line.replace(where, "PATH") for line in done.stdout.splitlines()], done.stderr


@click.command()
@click.option("--only", type=click.Choice(tuple(STORES)), help="One of the stores.")
def main(only: str | None) -> None:
    """Histories in HDFS and in S3."""
    table = Table("history", "must end with", "ended with", "says", "s")
    wrong = 0
    for name in [only] if only else STORES:
        with tempfile.TemporaryDirectory(prefix="stores-") as temporary, STORES[name](Path(temporary)) as store:
            here = Path(temporary) / "here"
            write_histories(here)
            for file in sorted(path for path in here.rglob("*") if path.is_file()):
                store.put(file, str(file.relative_to(here)))
            for history, model in MODELS.items():
                expected, lines, _ = run_check(str(here / history), model, {}, "--engine", "local")
                began = time.monotonic()
                status, found, errors = run_check(f"{store.url}/{history}", model, store.environment)
                is_right = status == expected and (status == ExitStatus.USAGE or found == lines)
                wrong += not is_right
                says = "\n".join([*found, *errors.splitlines()[-SHOWN_MAX:]])
                table.add_row(
                    f"{name} {history}", str(expected), str(status), says, f"{time.monotonic() - began:.0f}",
                    style="" if is_right else "red",
                )  # fmt: skip
    Console(width=160).print(table)
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main()
