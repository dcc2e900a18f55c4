"""Three brokers of Kafka that were started by hand."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from jepsen_like.bench.kafka.apache import APACHE_PORTS, BROKERS, apache_brokers
from jepsen_like.bench.kafka.cluster import KafkaCluster, addresses
from jepsen_like.bench.kafka.own import own_brokers
from jepsen_like.cluster.ports import LOOPBACK, ReservedPorts
from jepsen_like.systems.archives.catalogue import APACHE_KAFKA
from tests.jepsen_like.systems.target.by_hand import HandCluster, run_by_hand

if TYPE_CHECKING:
    from jepsen_like.cluster.authority import Authority

KIND = "broker"


@contextmanager
def serving(
    directory: Path, servers: str, plain: str, commands: Sequence[Sequence[str]]
) -> Iterator[tuple[HandCluster, KafkaCluster]]:
    """Brokers that serve; `servers` is where the run finds them, `plain` where their owner does."""
    with run_by_hand(directory, servers, commands, KIND) as cluster:
        client = KafkaCluster(plain)
        client.await_brokers()
        yield cluster, client


SECURE = """
listeners={client},SECURE://{secure},CONTROLLER://{controller}
advertised.listeners={client},SECURE://{secure}
listener.security.protocol.map=CLIENT:PLAINTEXT,SECURE:SASL_SSL,CONTROLLER:PLAINTEXT
listener.name.secure.sasl.enabled.mechanisms=PLAIN
listener.name.secure.plain.sasl.jaas.config={module} required user_{user}="{password}";
listener.name.secure.ssl.keystore.type=PEM
listener.name.secure.ssl.keystore.location={keystore}
"""
"""A further listener of a broker, for clients that log in over TLS; of two lines with the same name the last one counts."""
MODULE, USER, PASSWORD = "org.apache.kafka.common.security.plain.PlainLoginModule", "me", "mine"
CLIENT = """
security.protocol=SASL_SSL
sasl.mechanism=PLAIN
sasl.jaas.config={module} required username="{user}" password="{password}";
ssl.truststore.type=PEM
ssl.truststore.location={authority}
"""


@contextmanager
def apache_by_hand(
    directory: Path, settings: Mapping[str, str], authority: "Authority | None" = None
) -> Iterator[tuple[HandCluster, KafkaCluster]]:
    """Three brokers of Apache Kafka. With an authority the addresses are those of listeners for `USER`, over TLS."""
    with ReservedPorts(APACHE_PORTS + BROKERS) as reserved:
        apache_brokers(directory, reserved.ports, settings)  # formats the disks, and starts nothing
        plain = addresses(reserved.ports)
        if authority is not None:
            secure_listeners(directory, reserved.ports, authority)
        java = ["java", "-Xmx512m", "-XX:TieredStopAtLevel=1", "-cp", APACHE_KAFKA.classpath(), "kafka.Kafka"]
        commands = [
            [*java, str(directory / f"broker-{number}" / "server.properties")] for number in range(1, BROKERS + 1)
        ]
        servers = plain if authority is None else addresses(reserved.ports[APACHE_PORTS:])
        with serving(directory, servers, plain, commands) as both:
            yield both


def secure_listeners(directory: Path, ports: Sequence[int], authority: "Authority") -> None:
    """Let each broker listen at a further port, one of the last of `ports`."""
    for at in range(BROKERS):
        controller, secure = (f"{LOOPBACK}:{ports[first + at]}" for first in (BROKERS, APACHE_PORTS))
        lines = SECURE.format(
            client=f"CLIENT://{LOOPBACK}:{ports[at]}",
            controller=controller,
            secure=secure,
            module=MODULE,
            user=USER,
            password=PASSWORD,
            keystore=authority.files_of("server").keystore,
        )
        with (directory / f"broker-{at + 1}" / "server.properties").open("a") as config:
            config.write(lines)


def client_properties(authority: "Authority") -> str:
    """Returns the properties of a client that logs in."""
    return CLIENT.format(module=MODULE, user=USER, password=PASSWORD, authority=authority.certificate)


@contextmanager
def ours_by_hand(directory: Path, settings: Mapping[str, str]) -> Iterator[tuple[HandCluster, KafkaCluster]]:
    """Three brokers of ours."""
    with ReservedPorts(BROKERS) as reserved:
        commands = [broker.command for broker in own_brokers(directory, reserved.ports, settings)]
        servers = addresses(reserved.ports)
        with serving(directory, servers, servers, commands) as both:
            yield both
