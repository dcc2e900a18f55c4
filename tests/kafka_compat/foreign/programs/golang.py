"""franz-go's and sarama's own tests, unmodified, as the Go proxy has them: groups, transactions, administration.

sarama's want five brokers behind toxiproxy, and Docker to stop brokers: a stand-in for its command stops ours.
"""

import json
import os
import re
import socketserver
import subprocess
import sys
import threading
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from jepsen_like.bench.kafka.cluster import COMMON_SETTINGS, KafkaCluster
from jepsen_like.bench.processes import BenchProcess, running, until
from jepsen_like.cluster.ports import LOOPBACK, ReservedPorts
from tests.brought import bring, cache, need
from tests.kafka_compat.foreign.programs.plan import ForeignProgram, NotKept

FRANZ, SARAMA, TOXIPROXY = "v1.22.3", "v1.61.1", "v2.5.0"
WITHIN_S = 900
NODES = range(1, 6)
SARAMA_PORT = 29090
"""sarama's tests reach broker 1 at the next port, and so on."""
BRING = f"""cd {{home}} && export GOFLAGS=-mod=mod && go mod init foreign &&
go get -t github.com/twmb/franz-go/pkg/kgo@{FRANZ} github.com/IBM/sarama@{SARAMA} \
github.com/Shopify/toxiproxy/v2/cmd/server@{TOXIPROXY} &&
go test -c -o franz.test github.com/twmb/franz-go/pkg/kgo && go test -c -tags functional -o sarama.test \
github.com/IBM/sarama && go build -o toxiproxy github.com/Shopify/toxiproxy/v2/cmd/server"""
STAND_IN = """#!{python}
import socket, sys
if "logs" not in sys.argv:
    with socket.create_connection(("127.0.0.1", {port})) as asked:
        asked.sendall((" ".join(sys.argv[-2:]) + chr(10)).encode())
        asked.recv(1)
"""
"""Of `docker compose stop kafka-2`, start and logs (which it leaves empty)."""
QUICK = {
    **COMMON_SETTINGS,
    "group.initial.rebalance.delay.ms": "0",
    "offsets.topic.num.partitions": "4",
    "transaction.state.log.num.partitions": "4",
    "auto.create.topics.enable": "false",
}
NOT_SERVED: Mapping[str, str] = {"TestFuncAdminQuotas": "clients' quotas cannot be set"}
"""The tests that fail, with reasons."""


def bring_tests() -> Path:
    """Returns the directory of the built tests. Raises `ClientMissing`."""
    need("go")
    home = cache(f"go-{FRANZ}-{SARAMA}")
    if not home.is_dir():
        bring(home, "sh", "-c", BRING)
    return home


def run_tests(home: Path, words: Sequence[str], environment: Mapping[str, str], cwd: str | None = None) -> str:
    """Run a Go test binary; returns the number of its tests by result. Raises `NotKept` if others fail than known."""
    log = home / "tests" / "output.log"
    log.parent.mkdir()
    with log.open("w") as output:
        subprocess.run(
            [*words, "-test.v", f"-test.timeout={WITHIN_S}s"],
            stdout=output,
            stderr=subprocess.STDOUT,
            env={**os.environ, **environment},
            cwd=cwd or home,
            check=False,
        )
    results = dict(_list_results(log.read_text()))
    broken = {name for name, result in results.items() if result == "FAIL"}
    counts = ", ".join(f"{list(results.values()).count(kind)} {kind.lower()}" for kind in ("PASS", "FAIL", "SKIP"))
    if wrong := sorted(broken ^ (NOT_SERVED.keys() & results.keys())):
        raise NotKept(f"{counts}: {', '.join(wrong)}")
    if not results or "panic: " in log.read_text():
        raise NotKept(f"the tests did not end: {counts}")
    return counts


def _list_results(output: str) -> Iterator[tuple[str, str]]:
    """Yields name and result of each test, without its parts."""
    for result, name in re.findall(r"^--- (PASS|FAIL|SKIP): (\S+)", output, re.MULTILINE):
        yield name, result


def prove_franz(cluster: KafkaCluster, home: Path) -> str:
    """Run franz-go's tests."""
    environment = {
        "KGO_SEEDS": cluster.bootstrap,
        "KGO_TEST_RF": "3",
        "KGO_TEST_RECORDS": "20000",
        "KGO_TEST_MAX_TOPIC_PARTS": "4",
        "KGO_LOG_LEVEL": "none",
    }
    words = [str(bring_tests() / "franz.test"), "-test.run=^(TestTxnEtl|TestGroupETL)$"]
    return run_tests(home, words, environment)


def make_brokers(home: Path, ports: Sequence[int]) -> list[BenchProcess]:
    """Returns five brokers, not started yet, which send clients to toxiproxy."""
    at = {node: f"{LOOPBACK}:{ports[node - 1]}" for node in NODES}
    chosen = [part for name, value in QUICK.items() for part in ("--set", f"{name}={value}")]
    chosen += [part for node in NODES for part in ("--advertised", f"{node}={LOOPBACK}:{SARAMA_PORT + node}")]
    members = []
    for node in NODES:
        peers = [part for peer in NODES if peer != node for part in ("--peer", f"{peer}={at[peer]}")]
        identity = ["--cluster-id", "sarama", "--id", f"{node}", "--listen", at[node]]
        place = ["--data", str(home / f"broker-{node}" / "data")]
        command = [sys.executable, "-m", "kafka_compat.process", *identity, *place, *peers, *chosen]
        members.append(BenchProcess(command, home / f"broker-{node}"))
    return members


@contextmanager
def stand_in_for_docker(home: Path, members: Sequence[BenchProcess]) -> Iterator[str]:
    """Gives the PATH with a `docker` that stops and starts the brokers."""

    class Asked(socketserver.StreamRequestHandler):
        """One command."""

        def handle(self) -> None:
            """Stop or start the broker, and answer."""
            verb, name = self.rfile.readline().decode().split()
            member = members[int(name.removeprefix("kafka-")) - 1]
            if verb == "stop":
                member.stop()
            else:
                member.stop()
                member.start()
            self.wfile.write(b".")

    with socketserver.TCPServer((LOOPBACK, 0), Asked) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        (home / "bin").mkdir()
        program = home / "bin" / "docker"
        program.write_text(STAND_IN.format(python=sys.executable, port=server.server_address[1]))
        program.chmod(0o755)
        try:
            yield f"{home / 'bin'}{os.pathsep}{os.environ['PATH']}"
        finally:
            server.shutdown()
            thread.join()


def prove_sarama(_cluster: KafkaCluster, home: Path) -> str:
    """Run sarama's functional tests, on five brokers of their own."""
    tests = bring_tests()
    with ReservedPorts(len(NODES) + 1) as reserved:
        members = make_brokers(home, reserved.ports)
        port = reserved.ports[-1]
        proxies = BenchProcess([str(tests / "toxiproxy"), "-host", LOOPBACK, "-port", f"{port}"], home / "toxiproxy")
        with running([proxies, *members]), stand_in_for_docker(home, members) as path:
            url = f"http://{LOOPBACK}:{port}"
            until(lambda: _ask(f"{url}/version") is not None, "toxiproxy", members=[proxies])
            for node in NODES:
                upstream, listen = f"{LOOPBACK}:{reserved.ports[node - 1]}", f"{LOOPBACK}:{SARAMA_PORT + node}"
                proxy = {"name": f"kafka{node}", "listen": listen, "upstream": upstream, "enabled": True}
                if _ask(f"{url}/proxies", proxy) is None:
                    raise NotKept(f"toxiproxy could not listen at {listen}")
            until(lambda: _count_brokers() == len(NODES), "cluster of five brokers", members=members)
            source = subprocess.run(
                ["go", "list", "-m", "-f", "{{.Dir}}", "github.com/IBM/sarama"],
                cwd=tests,
                capture_output=True,
                text=True,
                check=True,
            ).stdout.strip()
            return run_tests(
                home,
                [str(tests / "sarama.test"), "-test.run=^Test(Func|ReadOnly|VersionMatrix|ConsumerGroup)"],
                {"TOXIPROXY_ADDR": url, "KAFKA_VERSION": "4.3.1", "PATH": path},
                source,
            )


def _ask(url: str, body: Mapping[str, object] | None = None) -> bytes | None:
    """Returns toxiproxy's answer; None without one."""
    try:
        request = urllib.request.Request(url, None if body is None else json.dumps(body).encode())
        with urllib.request.urlopen(request) as response:
            answer: bytes = response.read()
            return answer
    except OSError:
        return None


def _count_brokers() -> int:
    try:
        admin = AdminClient({"bootstrap.servers": f"{LOOPBACK}:{SARAMA_PORT + 1}", "log_level": 0})
        return len(admin.list_topics(timeout=2).brokers)
    except KafkaException:
        return 0


PROGRAMS = (
    ForeignProgram(
        "franz-go's own tests", FRANZ, "groups and transactions, with every assignor and protocol", prove_franz
    ),
    ForeignProgram("sarama's own tests", SARAMA, "all pass but those of what is not served", prove_sarama),
)
