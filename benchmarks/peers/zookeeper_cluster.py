"""Three ZooKeeper processes, from the jars of Debian's `zookeeper`, with its example's timing and its default of
forcing every sync.

The number of connections a client may open is not limited, since all come from here. Each JVM gets thrice the heap that
ZooKeeper's own scripts give it: a server keeps its last 500 writes in memory, and of 512 KiB each they do not always
fit into that. Snapshots are taken as by default.
"""

import re
import shutil
import socket
from collections.abc import Sequence
from pathlib import Path

from benchmarks.peers import zookeeper_wire
from benchmarks.peers.zookeeper_wire import ZooKeeperConversation
from jepsen_like.bench.conversation import LoadShape
from jepsen_like.bench.generator import PATIENCE_S, LoadLane
from jepsen_like.bench.processes import BenchProcess
from jepsen_like.bench.systems import NODES, BenchCluster, BenchSystem
from jepsen_like.cluster.ports import LOOPBACK

JAR = Path("/usr/share/java/zookeeper.jar")
ASK_WITHIN_S = 2.0
HEAP = "-Xmx3000m"


class ZooKeeperCluster(BenchCluster):
    """Three servers."""

    def __init__(self, ports: Sequence[int], members: Sequence[BenchProcess]) -> None:
        super().__init__(ports, members)
        self._paths: dict[str, None] = {}

    def converse(self, load: LoadShape, lane: int) -> ZooKeeperConversation:
        """See `BenchCluster`."""
        return ZooKeeperConversation(load, lane)

    def prepare(self, load: LoadShape) -> None:
        """Create the nodes that the load will write."""
        wanted = (
            zookeeper_wire.path_of(lane, number) for lane in range(load.connections) for number in range(load.batch)
        )
        new = [path for path in wanted if path not in self._paths]
        if new:
            with ZooKeeperSession(self.ports[self.led_by()]) as session:
                for path in new:
                    session.ask(zookeeper_wire.create_request(path), allowed=zookeeper_wire.NODE_EXISTS)
                    self._paths[path] = None

    def mode(self, member: int) -> str:
        """Returns the role that a server reports: leader, follower, or an empty string while it has none."""
        try:
            with socket.create_connection((LOOPBACK, self.ports[member]), timeout=ASK_WITHIN_S) as connection:
                connection.sendall(b"srvr")
                said = b""
                while chunk := connection.recv(65536):
                    said += chunk
        except OSError:
            return ""
        found = re.search(rb"Mode: (\w+)", said)
        return found[1].decode() if found else ""

    def leader(self) -> int | None:
        """Returns the server that reports to lead; None if none does."""
        return next((member for member in range(NODES) if self.mode(member) == "leader"), None)

    def count_written(self) -> int:
        """Every write raises its node's version by one."""
        with ZooKeeperSession(self.ports[self.led_by()]) as session:
            return sum(session.version(path) for path in self._paths)

    def ready(self) -> bool:
        """Returns whether one leads and two follow: a server reports to follow once it has what the leader has."""
        return sorted(self.mode(member) for member in range(NODES)) == ["follower", "follower", "leader"]


class ZooKeeperSession:
    """One connection that asks and waits."""

    def __init__(self, port: int) -> None:
        self._conversation = ZooKeeperConversation(LoadShape(1, 1), 0)
        self._lane = LoadLane(port, self._conversation)
        self._lane.greet()
        self._lane.stream.settimeout(PATIENCE_S)

    def __enter__(self) -> "ZooKeeperSession":
        return self

    def __exit__(self, *_: object) -> None:
        self._lane.stream.close()

    def ask(self, request: bytes, allowed: int = 0) -> bytes:
        """Send one request.

        Returns the body of the reply. Raises `ConnectionError` for an error that is not allowed.
        """
        self._conversation.refusal = ""
        self._lane.stream.sendall(request)
        while not self._conversation.take(chunk := self._lane.stream.recv(65536)):
            if self._conversation.refusal and self._conversation.error == allowed:
                break
            if self._conversation.refusal or not chunk:
                raise ConnectionError(self._conversation.refusal or "the server closed the connection")
        return self._conversation.last

    def version(self, path: str) -> int:
        """Returns the number of times that a node was written."""
        stat = self.ask(zookeeper_wire.exists_request(path))
        at = zookeeper_wire.VERSION_IN_STAT
        return int.from_bytes(stat[at : at + 4], "big")


def zookeeper(directory: Path, ports: Sequence[int]) -> ZooKeeperCluster:
    """Three servers, not started yet."""
    clients, quorum, election = ports[:NODES], ports[NODES : 2 * NODES], ports[2 * NODES :]
    servers = [
        f"server.{number}={LOOPBACK}:{at}:{vote}"
        for number, (at, vote) in enumerate(zip(quorum, election, strict=True), start=1)
    ]
    members = []
    for number, port in enumerate(clients, start=1):
        home = (directory / f"node-{number}").absolute()
        data = home / "data"
        data.mkdir(parents=True)
        (data / "myid").write_text(f"{number}\n")
        lines = [
            "tickTime=2000",
            "initLimit=10",
            "syncLimit=5",
            f"dataDir={data}",
            f"clientPort={port}",
            f"clientPortAddress={LOOPBACK}",
            "maxClientCnxns=0",
            "admin.enableServer=false",
            *servers,
        ]
        config = home / "zoo.cfg"
        config.write_text("".join(f"{line}\n" for line in lines))
        main = "org.apache.zookeeper.server.quorum.QuorumPeerMain"
        members.append(BenchProcess(["java", HEAP, "-cp", str(JAR), main, str(config)], home))
    return ZooKeeperCluster(clients, members)


def version() -> str:
    """By the name of the jar."""
    names = (re.fullmatch(r"zookeeper-([\d.]+)\.jar", path.name) for path in JAR.parent.glob("zookeeper-*.jar"))
    return next((found[1] for found in names if found), "unknown")


def missing() -> str:
    """See `BenchSystem`."""
    return "" if JAR.is_file() and shutil.which("java") else "apt-get install zookeeper"


ZOOKEEPER = BenchSystem(
    key="zookeeper",
    title="ZooKeeper",
    promise="on the disks of a majority",
    start=zookeeper,
    fails_over=True,
    missing=missing,
    version=version,
    ports=3 * NODES,
    warm_up_s=6.0,
)
