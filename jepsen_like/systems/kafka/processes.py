"""The processes of a Kafka cluster: the command that starts a broker, and what the lines it prints mean."""

import sys
from collections.abc import Mapping
from typing import Any, Final

from jepsen_like.port.observations import LEADER, Observation, Ready, RoleReported, Served, observe_any
from jepsen_like.port.port import ProcessPlan, Scope, TlsPaths
from jepsen_like.port.wires import text_of
from jepsen_like.systems.kafka.mode import KafkaMode
from kafka_compat.coordinator.partitioning import partition_of
from kafka_compat.model import TRANSACTIONS_TOPIC

CONTROLLER: Final[Scope] = "controller"
RACK: Final = "broker.rack"
FOLLOWER_READS: Final = "reads that followers answered"
"""A run with `client.rack` has to show some."""
METADATA_DIRECTORY: Final = "metadata"
"""Below a broker's data directory: the log of the controllers' group, its votes, and the broker's incarnation."""


def scope_of(topic: str, partition: int) -> Scope:
    """The scope of one partition."""
    return f"{topic}-{partition}"


def rack_of(broker: int) -> str:
    """The rack of a broker in a run with `client.rack`: each has one of its own."""
    return f"rack-{broker}"


def coordinator_of(transactional_id: str, partitions: int) -> Scope:
    """The scope of the coordinator of a transactional id."""
    return scope_of(TRANSACTIONS_TOPIC, partition_of(transactional_id, partitions))


def broker_command(plan: ProcessPlan) -> list[str]:
    """The argument vector of one broker, in this interpreter."""
    assert isinstance(plan.mode, KafkaMode)
    command = [sys.executable, "-m", "kafka_compat.process", "--cluster-id", plan.cluster_id]
    command += ["--id", str(plan.member.id), "--listen", text_of(plan.listen), "--data", str(plan.data)]
    for peer, address in plan.peers.items():
        command += ["--peer", f"{peer}={text_of(address)}"]
    for node, address in plan.advertised.items():
        command += ["--advertised", f"{node}={text_of(address)}"]
    if plan.secret is not None:
        command += ["--secret-file", str(plan.secret)]
    if plan.boot_id:
        command += ["--boot-id", plan.boot_id]
    for word in tls_words(plan.tls):
        command += ["--set", word]
    own = rack_of(plan.member.id) if plan.mode.client_rack else ""
    for word in rack_words(plan.zone or own):
        command += ["--set", word]
    for word in plan.mode.broker_words(len(plan.advertised)):
        command += ["--set", word]
    return command


def rack_words(zone: str) -> list[str]:
    """The setting `name=value` by which a broker knows its zone, so that replicas are spread over zones; none without."""
    return [f"{RACK}={zone}"] if zone else []


def tls_words(tls: TlsPaths | None) -> list[str]:
    """The settings `name=value` with which a broker speaks TLS to clients and other brokers; none without files."""
    if tls is None:
        return []
    return [
        "security.inter.broker.protocol=SSL",
        f"ssl.keystore.location={tls.keystore}",
        f"ssl.truststore.location={tls.authority}",
        "ssl.client.auth=requested",
    ]


def observe(event: Mapping[str, Any]) -> Observation | None:
    """Returns the meaning of a broker's line. Raises `KeyError` or `ValueError` for one without its fields."""
    match event.get("event"):
        case "listening":
            return Ready()
        case "controller":
            return RoleReported(str(event.get("role", LEADER)), int(event["term"]), CONTROLLER)
        case "partition":
            scope = scope_of(str(event["topic"]), int(event["partition"]))
            return RoleReported(str(event["role"]), int(event["leader_epoch"]), scope)
        case "follower_reads":
            return Served(FOLLOWER_READS, int(event["times"]))
        case _:
            return observe_any(event)
