"""Hoarders against real processes: each stays under its total, and serves others."""

import resource
from collections.abc import Iterator
from pathlib import Path

import pytest

from jepsen_like.cluster.ports import ReservedPorts
from tests.fuzz.hoarders import KAFKA, MIB, RAFT, ROCKETMQ, hoard, serving
from tests.fuzz.wire import CLUSTER

TOTAL = 160 * MIB


@pytest.fixture(autouse=True)
def descriptors() -> Iterator[None]:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.mark.campaign
@pytest.mark.cluster
@pytest.mark.parametrize("system", ["raft", "kafka", "rocketmq-broker", "rocketmq-nameserver"])
def test_hoarders_fill_no_more_than_the_total_and_a_client_is_served(system: str, tmp_path: Path) -> None:
    with ReservedPorts(2) as reserved:
        port, other = reserved.ports
        at, data = f"127.0.0.1:{port}", str(tmp_path / "data")
        match system:
            case "raft":
                arguments = ["--id", "1", "--cluster-id", CLUSTER, "--listen", at, "--data", data]
                wire, module, arguments = RAFT, "raft.node", [*arguments, f"--set=held_bytes_max={TOTAL}"]
            case "kafka":
                arguments = ["--id", "1", "--cluster-id", CLUSTER, "--listen", at, "--data", data]
                wire, module = KAFKA, "kafka_compat.process"
                arguments += [f"--set=queued.max.request.bytes={TOTAL}"]
            case "rocketmq-broker":
                arguments = ["broker", "--listen", at, "--ha-listen", f"127.0.0.1:{other}", "--data", data]
                wire, module, arguments = (
                    ROCKETMQ,
                    "rocketmq_compat.process",
                    [*arguments, f"--set=heldBytesMax={TOTAL}"],
                )
            case _:
                arguments = ["nameserver", "--listen", at, f"--set=heldBytesMax={TOTAL}"]
                wire, module = ROCKETMQ, "rocketmq_compat.process"
        with serving(module, port, arguments) as served:
            outcome = hoard(wire, served, TOTAL)
    assert outcome["answers"] > 10
