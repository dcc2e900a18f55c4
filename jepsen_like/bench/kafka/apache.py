"""Three brokers of Apache Kafka, their own controllers (KRaft, combined mode), from the jars of `APACHE_KAFKA`.

Settings are Apache Kafka's own but for what three nodes on one machine need: internal topics have three replicas. The
JVM gets the options of Kafka's start script.
"""

import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from jepsen_like.bench.processes import BenchProcess, DidNotAnswer
from jepsen_like.cluster.ports import LOOPBACK
from jepsen_like.systems.archives.catalogue import APACHE_KAFKA

BROKERS = 3
APACHE_PORTS = 2 * BROKERS
"""A client's and a controller's for each broker."""
APACHE_CLUSTER_ID = "cXVvcnVtbG9nLWJlbmNoLg"
"""Sixteen bytes in URL-safe base64, as Kafka wants it."""
JVM = (
    "-Xmx1g",
    "-Xms1g",
    "-server",
    "-XX:+UseG1GC",
    "-XX:MaxGCPauseMillis=20",
    "-XX:InitiatingHeapOccupancyPercent=35",
    "-XX:+ExplicitGCInvokesConcurrent",
    "-Djava.awt.headless=true",
)
FORMAT_WITHIN_S = 120.0


def apache_settings(
    broker: int, clients: Sequence[int], controllers: Sequence[int], data: Path, settings: Mapping[str, str]
) -> dict[str, str]:
    """Returns the configuration of one broker (ids from 1); `settings` come last and win."""
    voters = ",".join(f"{number}@{LOOPBACK}:{port}" for number, port in enumerate(controllers, start=1))
    client = f"CLIENT://{LOOPBACK}:{clients[broker - 1]}"
    return {
        "process.roles": "broker,controller",
        "node.id": f"{broker}",
        "controller.quorum.voters": voters,
        "controller.listener.names": "CONTROLLER",
        "inter.broker.listener.name": "CLIENT",
        "listener.security.protocol.map": "CLIENT:PLAINTEXT,CONTROLLER:PLAINTEXT",
        "listeners": f"{client},CONTROLLER://{LOOPBACK}:{controllers[broker - 1]}",
        "advertised.listeners": client,
        "log.dirs": f"{data}",
        "default.replication.factor": f"{BROKERS}",
        "min.insync.replicas": "2",
        "offsets.topic.replication.factor": f"{BROKERS}",
        "transaction.state.log.replication.factor": f"{BROKERS}",
        "transaction.state.log.min.isr": "2",
        "share.coordinator.state.topic.replication.factor": f"{BROKERS}",
        "share.coordinator.state.topic.min.isr": "2",
        **settings,
    }


def apache_brokers(directory: Path, ports: Sequence[int], settings: Mapping[str, str]) -> list[BenchProcess]:
    """Returns three formatted brokers, not started yet: the first three of `ports` (`APACHE_PORTS`) are for clients.

    Raises `EnvironmentMissing` without Apache Kafka, `DidNotAnswer` if its disks could not be formatted.
    """
    path = APACHE_KAFKA.classpath()
    clients, controllers = ports[:BROKERS], ports[BROKERS:APACHE_PORTS]
    members, formatting = [], []
    for broker in range(1, BROKERS + 1):
        home = (directory / f"broker-{broker}").absolute()
        home.mkdir(parents=True)
        of_broker = apache_settings(broker, clients, controllers, home / "data", settings)
        config = home / "server.properties"
        config.write_text("".join(f"{name}={value}\n" for name, value in of_broker.items()))
        tool = ["java", "-cp", path, "kafka.tools.StorageTool", "format", "-t", APACHE_CLUSTER_ID, "-c", str(config)]
        formatting.append(subprocess.Popen(tool, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True))
        members.append(BenchProcess(["java", *JVM, "-cp", path, "kafka.Kafka", str(config)], home))
    for each in formatting:
        try:
            output, _ = each.communicate(timeout=FORMAT_WITHIN_S)
        except subprocess.TimeoutExpired:
            each.kill()
            output = f"not done within {FORMAT_WITHIN_S:g} s"
        if each.wait() != 0:
            raise DidNotAnswer(f"Kafka's disks could not be formatted: {output.strip()[-400:]}")
    return members
