"""The price of a secret and of TLS: what the tables say of figures, and the whole command in short."""

import sys
from pathlib import Path

import pytest

from jepsen_like.bench import figures
from jepsen_like.bench.figures import Document, Run, Throughput
from jepsen_like.bench.security.answers import tables
from jepsen_like.bench.security.loads import LOADS, SYSTEMS, key, protections
from jepsen_like.cli import ExitStatus, execute

MACHINE = dict.fromkeys(figures.MACHINE, "made up")


def test_each_protection_is_compared_with_the_plain_cluster_of_the_same_load() -> None:
    document = Document(MACHINE, [Run("one", "", 0.1)])
    rates = {"before": 100.0, "plain": 200.0, "secret": 190.0, "tls": 150.0}
    for way in protections("python"):
        for repeat, more in enumerate((-10.0, 0.0, 10.0)):
            rate = rates[way.key] + more
            row = Throughput(key("raft", way), "64x100", repeat, "one", rate, rate, rate, 1.0, 2.0, 30.0, None, 4.0)
            document.figures.append(row)
    ((title, head, rows),) = tables(document)
    assert (title, head[4]) == ("raft", "of plain")
    assert [(row[1], row[2], row[3], row[4]) for row in rows] == [
        ("plain, the installation before", "100", "90–110", "0.50"),
        ("plain", "200", "190–210", "1.00"),
        ("with a secret", "190", "180–200", "0.95"),
        ("with a secret and TLS", "150", "140–160", "0.75"),
    ]


@pytest.mark.campaign
@pytest.mark.cluster
@pytest.mark.timeout(400)
def test_a_short_run_measures_every_system_under_every_protection(tmp_path: Path) -> None:
    output = tmp_path / "security.json"
    arguments = ["--repeats", "1", "--seconds", "0.1", "--before", sys.executable, "--output", str(output)]
    assert execute(["bench", "security", *arguments, "--directory", str(tmp_path / "data")]) == ExitStatus.VALID
    found = figures.load(output)
    assert found.not_measured == []
    for system in SYSTEMS:
        for way in protections(sys.executable):
            loads = {figure.load for figure in found.of(Throughput, key(system, way))}
            assert loads == {load for load, _ in LOADS[system]}
