"""The command line that starts one broker of Apache Kafka: a controller, too (KRaft, combined mode)."""

import base64
import hashlib
import sys
from collections.abc import Mapping
from typing import Final

from jepsen_like.port.port import ProcessPlan, TlsPaths
from jepsen_like.port.wires import Address, text_of
from jepsen_like.systems.apache_kafka.launch import LaunchPlan
from jepsen_like.systems.apache_kafka.mode import ApacheMode
from jepsen_like.systems.kafka.processes import RACK, rack_of

PEERS, CONTROLLER_PORT = "peers", "controller"
"""The ports of a broker besides the one for clients: for other brokers, and for the controllers' group."""
CLUSTER_ID_BYTES: Final = 16


def host_name(broker: int) -> str:
    """Returns the name by which brokers know a broker."""
    return f"n{broker}"


def cluster_id_of(text: str) -> str:
    """Returns an id as Kafka wants it: sixteen bytes in URL-safe base64, the same for the same text."""
    digest = hashlib.sha256(text.encode()).digest()[:CLUSTER_ID_BYTES]
    return base64.urlsafe_b64encode(digest).decode().rstrip("=")


def broker_command(plan: ProcessPlan) -> list[str]:
    """The argument vector of one broker, in this interpreter, which Java replaces."""
    assert isinstance(plan.mode, ApacheMode)
    own = plan.member.id
    peers, controllers = plan.further[PEERS], plan.further[CONTROLLER_PORT]
    nodes = sorted({own, *plan.peers})
    voters = ",".join(
        f"{node}@{host_name(node)}:{_port(node, own, controllers.listen, controllers.peers)}" for node in nodes
    )
    listens = {"CLIENT": plan.listen, "PEERS": peers.listen, "CONTROLLER": controllers.listen}
    advertised = {
        "CLIENT": plan.advertised[own],
        "PEERS": (host_name(own), peers.listen[1]),
        "CONTROLLER": (host_name(own), controllers.listen[1]),
    }
    rack = plan.zone or (rack_of(own) if plan.mode.client_rack else "")
    settings = {
        **dict(word.split("=", 1) for word in plan.mode.broker_words(len(nodes))),
        **({RACK: rack} if rack else {}),
        **tls_settings(plan.tls),
        "process.roles": "broker,controller",
        "node.id": str(own),
        "controller.quorum.voters": voters,
        "controller.listener.names": "CONTROLLER",
        "inter.broker.listener.name": "PEERS",
        "listener.security.protocol.map": ",".join(f"{name}:{'SSL' if plan.tls else 'PLAINTEXT'}" for name in listens),
        "listeners": _listeners(listens),
        "advertised.listeners": _listeners(advertised),
    }
    hosts = {host_name(node): peers.peers[node][0] for node in nodes if node != own}
    launch = LaunchPlan(
        cluster_id=cluster_id_of(plan.cluster_id),
        data=str(plan.data),
        settings=settings,
        hosts={**hosts, host_name(own): "127.0.0.1", "localhost": "127.0.0.1"},
        features=plan.mode.features,
    )
    return [sys.executable, "-m", "jepsen_like.systems.apache_kafka.launch", launch.text()]


def tls_settings(tls: TlsPaths | None) -> dict[str, str]:
    """Returns the settings of TLS by these files; none without. Certificates name addresses, and brokers dial names."""
    if tls is None:
        return {}
    return {
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(tls.keystore),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(tls.authority),
        "ssl.client.auth": "required",
        "ssl.endpoint.identification.algorithm": "",
    }


def _port(node: int, own: int, listen: Address, peers: Mapping[int, Address]) -> int:
    return (listen if node == own else peers[node])[1]


def _listeners(addresses: Mapping[str, Address]) -> str:
    return ",".join(f"{name}://{text_of(address)}" for name, address in addresses.items())
