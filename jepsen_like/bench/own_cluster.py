"""quorumlog itself under measurement: three `quorumlog node` processes with default settings."""

import contextlib
import ssl
from collections.abc import Sequence
from pathlib import Path

from jepsen_like.bench.conversation import BATCHES, FULL, LARGE, ONE, LoadShape
from jepsen_like.bench.guard import OPEN, PLAIN, Guard, Protection
from jepsen_like.bench.own_wire import CLUSTER_ID, QuorumlogConversation, greeting
from jepsen_like.bench.processes import BenchProcess
from jepsen_like.bench.streams import connect
from jepsen_like.bench.systems import NODES, BenchCluster, BenchSystem
from jepsen_like.cluster.ports import LOOPBACK
from jepsen_like.port import port
from jepsen_like.systems.raft.mode import RaftMode
from jepsen_like.systems.raft.processes import raft_command
from raft import client_codec
from raft.net.framing import FrameDecoder
from raft.trust import SecretSource

STATUS_WITHIN_S = 2.0
KEPT_BYTES = 128 * 2**20


class QuorumlogCluster(BenchCluster):
    """Three nodes."""

    def __init__(self, ports: Sequence[int], members: Sequence[BenchProcess], guard: Guard = OPEN) -> None:
        super().__init__(ports, members, guard)
        self._secret = guard.known_secret()

    def converse(self, load: LoadShape, lane: int) -> QuorumlogConversation:
        """See `BenchCluster`."""
        return QuorumlogConversation(load, self._secret)

    def status(self, member: int) -> dict[str, object] | None:
        """Returns a node's own status; None if it does not answer."""
        with contextlib.suppress(OSError):
            return status_of(self.ports[member], self._secret, self.tls)
        return None

    def statuses(self) -> list[dict[str, object]]:
        """Of those that answer."""
        return [status for member in range(NODES) if (status := self.status(member)) is not None]

    def leader(self) -> int | None:
        """Returns the node that reports to lead in the newest term; None if none does."""
        leaders = [status for status in self.statuses() if status["role"] == "leader"]
        newest = max(leaders, key=lambda status: number(status, "term"), default=None)
        return None if newest is None else number(newest, "node") - 1

    def count_written(self) -> int:
        """The committed end, by the leader."""
        status = self.status(self.led_by())
        return 0 if status is None else number(status, "committed_end")

    def ready(self) -> bool:
        """All answer, and are as far as the furthest."""
        statuses = self.statuses()
        committed = {number(status, "commit_index") for status in statuses}
        return len(statuses) == NODES and len(committed) == 1 and all(status["leader"] for status in statuses)


def number(status: dict[str, object], name: str) -> int:
    """A count in a status."""
    value = status[name]
    assert isinstance(value, int)
    return value


def status_of(port: int, secret: SecretSource | None = None, tls: ssl.SSLContext | None = None) -> dict[str, object]:
    """Returns the STATUS of one node. Raises `OSError` if it does not answer."""
    decoder, begun = FrameDecoder(2**20), greeting(secret)
    with contextlib.closing(connect(port, tls, STATUS_WITHIN_S)) as connection:
        connection.sendall(begun.begin())
        while chunk := connection.recv(65536):
            for frame in decoder.feed(chunk):
                if frame[0] == client_codec.STATUS_REPLY:
                    reply = client_codec.decode_reply(frame[0], frame[1])[1]
                    assert isinstance(reply, dict)
                    return reply
                answer = begun.answer(frame)
                asked = client_codec.encode_bare(client_codec.STATUS, 1)
                connection.sendall(answer if isinstance(answer, bytes) else asked)
    raise ConnectionError("the node closed the connection")


def quorumlog(
    directory: Path, ports: Sequence[int], settings: Sequence[str] = (), protection: Protection = PLAIN
) -> QuorumlogCluster:
    """Three nodes, not started yet."""
    guard = protection.guard(directory)
    addresses = {node: (LOOPBACK, port) for node, port in enumerate(ports, start=1)}
    members = []
    for node, address in addresses.items():
        home = directory / f"node-{node}"
        plan = port.ProcessPlan(
            member=port.Member(node, "node"),
            cluster_id=CLUSTER_ID,
            listen=address,
            data=home.absolute() / "data",
            peers={peer: at for peer, at in addresses.items() if peer != node},
            advertised={},
            mode=RaftMode.of(settings),
            secret=guard.secret,
            tls=guard.tls,
        )
        members.append(BenchProcess([protection.python, *raft_command(plan)[1:]], home))
    return QuorumlogCluster(ports, members, guard)


def page_cache(directory: Path, ports: Sequence[int]) -> QuorumlogCluster:
    """Acknowledging what the operating system has."""
    return quorumlog(directory, ports, ("flush=none",))


def start_trimming(directory: Path, ports: Sequence[int]) -> QuorumlogCluster:
    """Returns a cluster that trims its oldest files, and writes to them again."""
    return quorumlog(directory, ports, (f"retention_bytes={KEPT_BYTES}", f"segment_bytes_max={KEPT_BYTES}"))


DURABLE = BenchSystem(
    key="quorumlog", title="quorumlog", promise="on the disks of a majority", start=quorumlog, fails_over=True
)
TRIMMED = BenchSystem(
    key="trimmed",
    title=f"quorumlog, files and retention of {KEPT_BYTES // 2**20} MiB",
    promise="on the disks of a majority, until newer ones push it out",
    start=start_trimming,
    warm_up_s=2.0,
    warm_up=LARGE,
    loads=(FULL, LARGE),
)
"""Warm once its files go round."""
PAGE_CACHE = BenchSystem(
    key="page-cache",
    title="quorumlog, flush=none",
    promise="in the page cache of a majority",
    start=page_cache,
    loads=(ONE, FULL, LoadShape(64, 1024), BATCHES),
)
OWN_SYSTEMS = {system.key: system for system in (DURABLE, TRIMMED, PAGE_CACHE)}
