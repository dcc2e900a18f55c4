"""Three brokers of ours, each a process of its own, with default settings."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from jepsen_like.bench.guard import PLAIN, Protection
from jepsen_like.bench.kafka.apache import BROKERS
from jepsen_like.bench.processes import BenchProcess
from jepsen_like.cluster.ports import LOOPBACK
from jepsen_like.systems.kafka.processes import tls_words

KAFKA_CLUSTER_ID = "bench"


def own_brokers(
    directory: Path, ports: Sequence[int], settings: Mapping[str, str], protection: Protection = PLAIN
) -> list[BenchProcess]:
    """Returns three brokers, not started yet: clients, peers and the controllers reach each by its one port."""
    guard = protection.guard(directory)
    addresses = {broker: f"{LOOPBACK}:{port}" for broker, port in enumerate(ports[:BROKERS], start=1)}
    advertised = [part for broker, at in addresses.items() for part in ("--advertised", f"{broker}={at}")]
    chosen = [part for name, value in settings.items() for part in ("--set", f"{name}={value}")]
    chosen += [part for word in tls_words(guard.tls) for part in ("--set", word)] + guard.secret_words()
    members = []
    for broker, address in addresses.items():
        home = (directory / f"broker-{broker}").absolute()
        peers = [part for peer, at in addresses.items() if peer != broker for part in ("--peer", f"{peer}={at}")]
        identity = ["--cluster-id", KAFKA_CLUSTER_ID, "--id", f"{broker}", "--listen", address]
        place = ["--data", str(home / "data")]
        command = [protection.python, "-m", "kafka_compat.process", *identity, *place, *peers, *advertised, *chosen]
        members.append(BenchProcess(command, home))
    return members
