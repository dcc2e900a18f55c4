"""A name server and brokers as processes of their own, for direct connections: pairs of a master and a slave, or a raft
group.
"""

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import attrs
import trio

from jepsen_like.bench.processes import BenchProcess, running, until
from jepsen_like.cluster.ports import LOOPBACK, ReservedPorts
from jepsen_like.systems.rocketmq.connection import NoBrokerAnswer
from jepsen_like.testing.rocketmq.copies import registered_at

PAIRS: Final = ("broker-a", "broker-b")
RAFT_GROUP: Final = "broker-r"
RAFT_SIZE: Final = 3
ROOT: Final = ("root", "root-password")
SERVES_WITHIN_S: Final = 30.0
OF_BROKERS: Final = (
    "registerNameServerPeriod=1000",
    "haSendHeartbeatInterval=500",
    "haReconnectInterval=50",
    "slaveReadEnable=true",
    "messageDelayLevel=1s 1s 1s 1s 1s 1s 1s 1s",
)
"""Properties with which brokers notice soon what has changed, and with which what failed comes again soon."""


@attrs.frozen
class MessageCluster:
    """Started processes; `members` by the address at which clients find each."""

    names: str
    """The address of the name server."""
    members: dict[str, BenchProcess]
    killed: list[BenchProcess] = attrs.field(factory=list)

    def query_registered(self) -> dict[tuple[str, int], str]:
        """Returns what the name server knows: addresses by the broker's name and id; nothing if it does not answer."""
        host, _, port = self.names.rpartition(":")
        try:
            return trio.run(registered_at, (host, int(port)))
        except NoBrokerAnswer:
            return {}

    def restart(self) -> None:
        """Start the members that were killed, and wait until all of them can be found again. Raises `DidNotAnswer`."""
        if self.killed:
            for process in self.killed:
                process.start()
            self.killed.clear()
            self.await_all()

    def await_all(self) -> None:
        """Wait until the name server knows all members, and a master of each name. Raises `DidNotAnswer`."""
        until(
            self._is_whole,
            "name server that knows all brokers",
            within_s=SERVES_WITHIN_S,
            every_s=0.2,
            members=list(self.members.values()),
        )

    def _is_whole(self) -> bool:
        found = self.query_registered()
        return set(found.values()) == set(self.members) and all((name, 0) in found for name, _ in found)

    def kill_master(self, name: str) -> str:
        """Kill the master of this name with SIGKILL. Returns its address. Raises `KeyError` if there is none."""
        address = self.query_registered()[name, 0]
        self.members[address].kill()
        self.members[address].reap()
        self.killed.append(self.members[address])
        return address


def _process(home: Path, role: str, port: int, words: Sequence[str]) -> BenchProcess:
    command = [sys.executable, "-m", "rocketmq_compat.process", role, "--listen", f"{LOOPBACK}:{port}"]
    if role == "broker":
        command += ["--data", str(home / "data")]
    return BenchProcess([*command, *(part for word in words for part in ("--set", word))], home)


@contextmanager
def _serving(home: Path, ports: Sequence[int], words: Sequence[Sequence[str]]) -> Iterator[MessageCluster]:
    """Serve with these ports: the first is the name server's, the others belong to the brokers with
    these properties.
    """
    names = f"{LOOPBACK}:{ports[0]}"
    name_server = _process(home / "names", "nameserver", ports[0], ("scanNotActiveBrokerInterval=500",))
    brokers = {
        f"{LOOPBACK}:{port}": _process(
            home / f"{port}", "broker", port, [f"namesrvAddr={names}", *OF_BROKERS, *properties]
        )
        for port, properties in zip(ports[1:], words, strict=True)
    }
    cluster = MessageCluster(names, brokers)
    with running([name_server, *brokers.values()]):
        cluster.await_all()
        yield cluster


@contextmanager
def broker_pairs(home: Path) -> Iterator[MessageCluster]:
    """Two masters (`PAIRS`), each with a slave that an acknowledgement waits for."""
    with ReservedPorts(1 + 4 * len(PAIRS)) as reserved:
        listen, ha = reserved.ports[: 1 + 2 * len(PAIRS)], reserved.ports[1 + 2 * len(PAIRS) :]
        words = [
            (
                f"brokerName={name}",
                f"brokerId={broker_id}",
                f"brokerRole={role}",
                f"haListenPort={ha[2 * pair + broker_id]}",
            )
            for pair, name in enumerate(PAIRS)
            for broker_id, role in enumerate(("SYNC_MASTER", "SLAVE"))
        ]
        with _serving(home, listen, words) as cluster:
            yield cluster


@contextmanager
def guarded_broker(home: Path) -> Iterator[MessageCluster]:
    """One broker with users and policies; the first user is `ROOT`, whose keys the tool finds in `home`."""
    (home / "conf").mkdir()
    (home / "conf" / "tools.yml").write_text(f"accessKey: {ROOT[0]}\nsecretKey: {ROOT[1]}\n")
    first = f'{{"username":"{ROOT[0]}","password":"{ROOT[1]}"}}'
    with ReservedPorts(3) as reserved:
        users = ("authenticationEnabled=true", "authorizationEnabled=true", f"initAuthenticationUser={first}")
        with _serving(home, reserved.ports[:2], [(f"haListenPort={reserved.ports[2]}", *users)]) as cluster:
            yield cluster


@contextmanager
def broker_group(home: Path) -> Iterator[MessageCluster]:
    """Three brokers that elect their master (`RAFT_GROUP`, DLedger mode)."""
    with ReservedPorts(1 + RAFT_SIZE) as reserved:
        peers = ";".join(f"n{node}-{LOOPBACK}:{port}" for node, port in enumerate(reserved.ports[1:]))
        words = [
            (f"brokerName={RAFT_GROUP}", "enableDLegerCommitLog=true", f"dLegerPeers={peers}", f"dLegerSelfId=n{node}")
            for node in range(RAFT_SIZE)
        ]
        with _serving(home, reserved.ports, words) as cluster:
            yield cluster
