"""Three `nats-server` processes with one JetStream stream of three replicas in files.

By default JetStream syncs its files every two minutes, and acknowledges before: what it promises is a majority's page
cache.
"""

import contextlib
import json
import re
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.peers.nats_wire import STREAM, SUBJECT, NatsConversation
from jepsen_like.bench.conversation import LoadShape
from jepsen_like.bench.generator import LoadFailed, LoadLane
from jepsen_like.bench.processes import BenchProcess
from jepsen_like.bench.systems import NODES, BenchCluster, BenchSystem
from jepsen_like.cluster.ports import LOOPBACK

ASK_WITHIN_S = 3.0
ASKING_LANE = 1_000_000
CONFIG = """
server_name: n{number}
listen: "{host}:{client}"
jetstream {{ store_dir: "{store}", max_mem: 1G, max_file: 64G }}
cluster {{ name: bench, listen: "{host}:{route}", routes: [{routes}] }}
"""


class NatsCluster(BenchCluster):
    """Three servers and a stream, which is made once they can."""

    _made = False

    def converse(self, load: LoadShape, lane: int) -> NatsConversation:
        """See `BenchCluster`."""
        return NatsConversation(load, lane)

    def ask(self, member: int, subject: str, question: dict[str, object] | None = None) -> dict[str, Any]:
        """One question to JetStream; empty if there is no answer, or an error."""
        conversation = NatsConversation(LoadShape(1, 1), ASKING_LANE)
        conversation.keep = True
        try:
            lane = LoadLane(self.ports[member], conversation)
        except OSError:
            return {}
        with contextlib.closing(lane.stream) as stream:
            try:
                lane.greet()
                stream.settimeout(ASK_WITHIN_S)
                body = b"" if question is None else json.dumps(question).encode()
                stream.sendall(conversation.publish(subject.encode(), body))
                while not conversation.replies:
                    chunk = stream.recv(65536)
                    if not chunk:
                        return {}
                    conversation.take(chunk)
            except (OSError, LoadFailed):
                return {}
        answer = json.loads(conversation.replies[0] or b"{}")
        return {} if "error" in answer else dict(answer)

    def leader(self) -> int | None:
        """The server that leads the stream, which is made if need be."""
        if not self._made:
            stream = {"name": STREAM, "subjects": [SUBJECT], "storage": "file", "num_replicas": NODES}
            self._made = bool(self.ask(0, f"$JS.API.STREAM.CREATE.{STREAM}", {**stream, "retention": "limits"}))
        name = self._info().get("cluster", {}).get("leader", "")
        return int(name[1:]) if name else None

    def _info(self) -> dict[str, Any]:
        return self.ask(0, f"$JS.API.STREAM.INFO.{STREAM}") if self._made else {}

    def count_written(self) -> int:
        """Messages in the stream."""
        return int(self._info().get("state", {}).get("messages", 0))

    def ready(self) -> bool:
        """Both replicas are current."""
        replicas = self._info().get("cluster", {}).get("replicas", ())
        return len(replicas) == NODES - 1 and all(replica["current"] for replica in replicas)


def nats(directory: Path, ports: Sequence[int]) -> NatsCluster:
    """Three servers, not started yet."""
    clients, routes = ports[:NODES], ports[NODES:]
    members = []
    for number, (client, route) in enumerate(zip(clients, routes, strict=True)):
        home = (directory / f"node-{number}").absolute()
        home.mkdir(parents=True)
        config = home / "nats.conf"
        config.write_text(
            CONFIG.format(
                number=number,
                host=LOOPBACK,
                client=client,
                store=home / "data",
                route=route,
                routes=", ".join(f'"nats://{LOOPBACK}:{other}"' for other in routes if other != route),
            )
        )
        members.append(BenchProcess(["nats-server", "-c", str(config)], home))
    return NatsCluster(clients, members)


def version() -> str:
    """By its own word."""
    said = subprocess.run(["nats-server", "--version"], capture_output=True, text=True, check=False).stdout
    found = re.search(r"v([\d.]+)", said)
    return found[1] if found else "unknown"


def missing() -> str:
    """See `BenchSystem`."""
    return "" if shutil.which("nats-server") else "apt-get install nats-server"


NATS = BenchSystem(
    key="nats",
    title="NATS JetStream R3",
    promise="in the page cache of a majority (synced every 2 minutes)",
    start=nats,
    missing=missing,
    version=version,
    ports=2 * NODES,
)
