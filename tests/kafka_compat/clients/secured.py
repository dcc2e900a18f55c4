"""One broker in a thread, with a listener for each way to connect, and the users whom confluent-kafka makes for it."""

import random
from pathlib import Path
from typing import Any

import attrs
from confluent_kafka.admin import AdminClient, ScramCredentialInfo, ScramMechanism, UserScramCredentialUpsertion

from jepsen_like.bench.processes import until
from jepsen_like.cluster.authority import Authority
from kafka_compat.broker.broker import Broker, BrokerPlan
from kafka_compat.config import Settings
from kafka_compat.config_keys import STANDARD_AUTHORIZER
from log.memory_disk import MemoryDisk
from raft.errors import ShuttingDown
from raft.loop_thread import LoopThread
from tests.kafka_compat.broker.cluster import QUICK

WITHIN_S = 20.0
SETTINGS = {
    **QUICK,
    "listeners": "PLAINTEXT://127.0.0.1:0,SSL://127.0.0.1:0,SASL_SSL://127.0.0.1:0,SASL_PLAINTEXT://127.0.0.1:0",
    "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512,OAUTHBEARER",
    "sasl.oauthbearer.unsecured": "true",
    "sasl.oauthbearer.required.scope": "logs",
    "ssl.client.auth": "requested",
    "offsets.topic.replication.factor": "1",
    "group.initial.rebalance.delay.ms": "0",
    "authorizer.class.name": STANDARD_AUTHORIZER,
    "allow.everyone.if.no.acl.found": "true",
}


@attrs.define
class Secured:
    """A broker in a thread, and the certificates of its clients."""

    broker: Broker
    events: list[tuple[str, dict[str, Any]]]

    def bootstrap(self, listener: str) -> str:
        host, port = self.broker.address_of(listener)
        return f"{host}:{port}"

    def await_reason(self, text: str, seen: int) -> None:
        """Waits until a connection has ended for this reason, behind the first `seen` events."""
        until(
            lambda: any(text in str(fields.get("reason")) for _, fields in self.events[seen:]),
            f"end for {text!r}",
            within_s=WITHIN_S,
            every_s=0.005,
        )


def serve(keystore: Path, authority: Authority) -> tuple[LoopThread[Broker], Secured]:
    events: list[tuple[str, dict[str, Any]]] = []
    files = {"ssl.keystore.location": str(keystore), "ssl.truststore.location": str(authority.certificate)}
    settings = {**SETTINGS, **files}
    plan = BrokerPlan(
        cluster_id="c",
        broker_id=1,
        listen=("127.0.0.1", 0),
        data="data",
        settings=Settings.from_assignments([f"{name}={value}" for name, value in settings.items()]),
    )
    thread: LoopThread[Broker] = LoopThread(
        lambda: Broker.open(
            plan,
            tell=lambda event, **fields: events.append((event, fields)),
            disk=MemoryDisk(random.Random(1)),
            rng=random.Random(1),
        ),
        ShuttingDown,
        block="a broker's",
    )
    thread.open().result(WITHIN_S)
    return thread, Secured(thread.living, events)


def make_alice(found: Secured) -> None:
    """Make the user alice, whose password is "alice's", for both mechanisms."""
    admin = AdminClient({"bootstrap.servers": found.bootstrap("PLAINTEXT"), "log_level": 0})
    for mechanism in (ScramMechanism.SCRAM_SHA_256, ScramMechanism.SCRAM_SHA_512):
        change = UserScramCredentialUpsertion("alice", ScramCredentialInfo(mechanism, 4096), b"alice's")
        for altered in admin.alter_user_scram_credentials([change]).values():
            altered.result(WITHIN_S)
