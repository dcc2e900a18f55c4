"""The tests in other languages in `examples`: each breaks a cluster of `quorumlog up --http`, and must pass."""

import os
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from jepsen_like.bench.kafka.cluster import KafkaCluster
from tests.brought import bring_modules, need
from tests.jepsen_like.run.ups import up
from tests.kafka_compat.foreign.programs.node import VERSION as KAFKAJS
from tests.kafka_compat.foreign.programs.plan import ForeignProgram, NotKept

EXAMPLES: Final = Path(__file__).resolve().parents[4] / "examples"
WITHIN_S: Final = 400.0


def run_example(home: Path, name: str, command: Sequence[str], passed: str) -> str:
    """Run the tests of `home`/`name` against a cluster of their own. Returns the line with `passed`. Raises `NotKept`."""
    log = home / name / "output.log"
    with up(home / "up", "--system", "kafka") as cluster, log.open("w") as output:
        done = subprocess.run(
            command,
            cwd=log.parent,
            env={**os.environ, "QUORUMLOG_URL": cluster.url},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            timeout=WITHIN_S,
            check=False,
        )
    lines = [line.strip() for line in log.read_text(errors="replace").splitlines()]
    found = [line for line in lines if passed in line]
    if done.returncode or not found:
        raise NotKept(f"{command[0]} ended with {done.returncode}: {' | '.join(lines[-5:])}")
    return found[-1]


def copy_example(home: Path, name: str, *programs: str) -> None:
    """Copy an example to `home`/`name`. Raises `ClientMissing` without its programs."""
    need(*programs)
    shutil.copytree(EXAMPLES / name, home / name, ignore=shutil.ignore_patterns("target", "node_modules"))


def prove_java(_cluster: KafkaCluster, home: Path) -> str:
    """JUnit, by Maven."""
    copy_example(home, "java", "java", "mvn")
    return run_example(home, "java", ["mvn", "-B", "-ntp", "test"], "Tests run: 2, Failures: 0, Errors: 0, Skipped: 0")


def prove_go(_cluster: KafkaCluster, home: Path) -> str:
    """Go's own tests, with franz-go."""
    copy_example(home, "go", "go")
    return run_example(
        home, "go", ["go", "test", "-v", "-count=1", "./..."], "--- PASS: TestAcknowledgedOrdersSurviveTheLeader"
    )


def prove_node(_cluster: KafkaCluster, home: Path) -> str:
    """Node's own tests, with kafkajs."""
    modules = bring_modules(f"kafkajs@{KAFKAJS}")
    copy_example(home, "node", "npm")
    (home / "node" / "node_modules").symlink_to(modules)
    return run_example(home, "node", ["npm", "test"], "pass 1")


PROGRAMS = tuple(
    ForeignProgram(name, version, "orders survive the leader that it kills over HTTP, and the check finds all", prove)
    for name, version, prove in (
        ("example: JUnit", "kafka-clients 4.3.1", prove_java),
        ("example: go test", "franz-go 1.22.3", prove_go),
        ("example: node --test", f"kafkajs {KAFKAJS}", prove_node),
    )
)
