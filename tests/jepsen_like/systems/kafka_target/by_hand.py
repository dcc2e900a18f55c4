"""Three brokers that were started by hand, as an owner would: with scripts that start, kill and stop each of them.

`quorumlog run --target kafka` knows nothing of them but an address, and these scripts as commands.
"""

import contextlib
import os
import shlex
import signal
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import attrs

from jepsen_like.bench.kafka.apache import APACHE_PORTS, BROKERS, apache_brokers
from jepsen_like.bench.kafka.cluster import KafkaCluster, addresses
from jepsen_like.bench.kafka.own import own_brokers
from jepsen_like.cluster.ports import LOOPBACK, ReservedPorts
from jepsen_like.systems.archives.catalogue import APACHE_KAFKA

if TYPE_CHECKING:
    from jepsen_like.cluster.authority import Authority

START = """#!/bin/sh
cd {home} && {{ setsid {command} >> output.log 2>&1 < /dev/null & echo $! > pid; }}
"""


@attrs.frozen
class HandCluster:
    """The brokers, by their directory and the addresses of their clients."""

    directory: Path
    servers: str

    def pid_file(self) -> str:
        """The file with a broker's process id, as a command of a hook names it."""
        return f"{self.directory}/broker-{{node}}/pid"

    def hooks(self) -> list[str]:
        """The options of two faults."""
        pid = f"$(cat {self.pid_file()})"
        commands = {
            "--fault-command": (f"kill=kill -9 {pid}", f"pause=kill -STOP {pid}"),
            "--undo-command": (f"kill=sh {self.directory}/broker-{{node}}/start", f"pause=kill -CONT {pid}"),
        }
        return [word for option, given in commands.items() for one in given for word in (option, one)]

    def pids(self) -> list[int]:
        """The processes that were started last."""
        return [int(path.read_text()) for path in sorted(self.directory.glob("broker-*/pid"))]


def start(directory: Path, servers: str, commands: Sequence[Sequence[str]]) -> HandCluster:
    """Write the scripts, and start all brokers."""
    for number, command in enumerate(commands, 1):
        home = directory / f"broker-{number}"
        home.mkdir(parents=True, exist_ok=True)
        script = home / "start"
        script.write_text(START.format(home=home, command=shlex.join(command)))
        subprocess.run(["sh", str(script)], check=True)
    return HandCluster(directory, servers)


@contextmanager
def running(cluster: HandCluster, servers: str) -> Iterator[KafkaCluster]:
    """Wait until the cluster serves at these addresses; in the end kill what runs of it."""
    try:
        client = KafkaCluster(servers)
        client.await_brokers()
        yield client
    finally:
        for pid in cluster.pids():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


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
        cluster = start(directory, servers, commands)
        with running(cluster, plain) as client:
            yield cluster, client


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
        cluster = start(directory, addresses(reserved.ports), commands)
        with running(cluster, cluster.servers) as client:
            yield cluster, client
