"""Three nodes of a raft group that were started by hand, and a client of their owner."""

import shutil
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import attrs
import trio

from jepsen_like.cluster.ports import LOOPBACK, ReservedPorts
from raft.client import Client
from raft.secret_file import read_secret
from tests.jepsen_like.systems.target.by_hand import HandCluster, run_by_hand

NODES = 3
CLUSTER_ID = "orders"
SERVES_WITHIN_S = 60.0


@attrs.frozen
class Owner:
    """A client of the group."""

    cluster: HandCluster
    secret: Path | None = None

    def _client(self) -> Client:
        secret = None if self.secret is None else read_secret(str(self.secret))
        return Client(self.cluster.servers.split(","), CLUSTER_ID, deadline_s=SERVES_WITHIN_S, secret=secret)

    def append(self, *records: bytes) -> None:
        """Append records, once the group serves."""

        async def work() -> None:
            async with self._client() as client:
                await client.append(list(records))

        trio.run(work)

    def end(self) -> int:
        """Returns the committed end of the log."""

        async def work() -> int:
            async with self._client() as client:
                return (await client.tail()).committed_end

        return trio.run(work)

    def begin_anew(self) -> None:
        """Let the same nodes begin again with empty disks."""
        self.cluster.kill()
        for number in range(1, NODES + 1):
            shutil.rmtree(self.cluster.home(number) / "data")
            self.cluster.start(number)


@contextmanager
def raft_by_hand(directory: Path, secret: Path | None = None) -> Iterator[tuple[HandCluster, Owner]]:
    """Three nodes that serve, and whose log holds records of others already."""
    with ReservedPorts(NODES) as reserved:
        servers = [f"{LOOPBACK}:{port}" for port in reserved.ports]
        commands = [command_of(directory, number, servers, secret) for number in range(1, NODES + 1)]
        with run_by_hand(directory, ",".join(servers), commands) as cluster:
            owner = Owner(cluster, secret)
            owner.append(*(b"order %d" % number for number in range(10)))
            yield cluster, owner


def command_of(directory: Path, number: int, servers: Sequence[str], secret: Path | None) -> list[str]:
    """Returns the argument vector of a node."""
    command = [sys.executable, "-m", "raft.node", "--id", str(number), "--cluster-id", CLUSTER_ID]
    command += ["--listen", servers[number - 1], "--data", f"{directory}/node-{number}/data"]
    for peer, address in enumerate(servers, 1):
        command += ["--peer", f"{peer}={address}"] if peer != number else []
    return command + (["--secret-file", str(secret)] if secret is not None else [])
