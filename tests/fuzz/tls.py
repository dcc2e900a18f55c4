"""Fuzzed TLS against every port of every system: it may end its own connection, and nothing else.

`python -m tests.fuzz.tls --records 100000 --seed 1` starts a cluster of each system with TLS and a secret, and attacks each port on
which one of its processes listens, each time on a connection of its own: with noise, with bent, cut and false records before the
handshake, within it and after it, with noise in good records, and with ends that are none. It prints what was sent. It fails unless

- every connection was closed by the process, and after a close_notify alone, too,
- a good client shakes hands on the same port, and is answered by each node that holds data, throughout,
- no process ended, and what the nodes held before they hold afterwards,
- the memory of no process grew by 64 MiB.
"""

import argparse
import contextlib
import json
import os
import random
import socket
import ssl
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import attrs
import trio

from jepsen_like.cluster.cluster import Cluster, open_cluster
from jepsen_like.port.port import TlsPaths
from jepsen_like.port.registry import system_named

SYSTEMS: Final[Mapping[str, tuple[str, int]]] = {
    "raft": ("raft", 1),
    "kafka": ("kraft", 1),
    "rocketmq": ("sync-slave", 2),
}
"""The replication and the nodes of each."""
MEMORY_GROWTH_MAX: Final = 64 * 1024 * 1024
LOOKED_EVERY: Final = 250
CLOSED_WITHIN_S: Final = 30.0
HANDSHAKE, ALERT, DATA = 22, 21, 23
RECORD_BYTES_MAX: Final = 2**14 + 2048


class Peer:
    """A client's side of TLS on a connection of its own, by Python's `ssl` and nothing of the code under test."""

    def __init__(self, port: int, context: ssl.SSLContext) -> None:
        self.arrived, self.outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self.tls = context.wrap_bio(self.arrived, self.outgoing, server_hostname="127.0.0.1")
        self.connection = socket.create_connection(("127.0.0.1", port), timeout=CLOSED_WITHIN_S)

    def hello(self) -> bytes:
        """Returns the first bytes of a handshake."""
        with contextlib.suppress(ssl.SSLWantReadError):
            self.tls.do_handshake()
        return self.outgoing.read()

    def shake_hands(self) -> None:
        """Raises `ConnectionError` if the process ends the connection."""
        while True:
            try:
                self.tls.do_handshake()
            except ssl.SSLWantReadError:
                self.connection.sendall(self.outgoing.read())
                if not (chunk := self.connection.recv(65536)):
                    raise ConnectionError("no handshake with a good client") from None
                self.arrived.write(chunk)
            else:
                self.connection.sendall(self.outgoing.read())
                return

    def seal(self, data: bytes) -> bytes:
        """Returns a good record."""
        self.tls.write(data)
        return self.outgoing.read()

    def notice(self) -> bytes:
        """Returns a close_notify."""
        with contextlib.suppress(ssl.SSLWantReadError, ssl.SSLSyscallError):
            self.tls.unwrap()
        return self.outgoing.read()

    def send(self, data: bytes, *, ends: bool) -> None:
        """Send it and wait until the process closes. Raises `TimeoutError` if it does not."""
        with contextlib.suppress(ConnectionResetError, BrokenPipeError):
            self.connection.sendall(data)
            if ends:
                self.connection.shutdown(socket.SHUT_WR)
            while self.connection.recv(65536):
                pass


def record(kind: int, body: bytes, *, length: int | None = None) -> bytes:
    """A record with a header that is right unless told otherwise."""
    return bytes((kind, 3, 3)) + (len(body) if length is None else length).to_bytes(2, "big") + body


def bend(data: bytes, rng: random.Random) -> bytes:
    """Returns it with some of its bits turned."""
    bent = bytearray(data)
    for _ in range(rng.randrange(1, 9)):
        bent[rng.randrange(len(bent))] ^= 1 << rng.randrange(8)
    return bytes(bent)


def false_records(rng: random.Random) -> bytes:
    """Returns records that no side of TLS sends, or noise."""
    body = rng.randbytes(rng.randrange(1, 400))
    match rng.randrange(6):
        case 0:
            return body
        case 1:
            return record(rng.randrange(256), body)
        case 2:
            return record(rng.choice((HANDSHAKE, ALERT, DATA, 20)), body)
        case 3:
            return record(DATA, body, length=rng.choice((0, RECORD_BYTES_MAX, RECORD_BYTES_MAX + 1, 2**16 - 1)))
        case 4:
            return record(HANDSHAKE, b"", length=0) * rng.randrange(1, 100)
        case _:
            return record(ALERT, bytes((rng.randrange(3), rng.randrange(256))))


def before(peer: Peer, rng: random.Random) -> tuple[str, bytes]:
    """Returns what a stranger sends instead of a handshake, and its name."""
    hello = peer.hello()
    choice = rng.randrange(5)
    if choice == 0:
        return "false records for a handshake", false_records(rng)
    if choice == 1:
        return "bent hello", bend(hello, rng)
    if choice == 2:
        return "cut hello", hello[: rng.randrange(1, len(hello))]
    if choice == 3:
        return "hello again and again", hello * rng.randrange(2, 6)
    return "false records within the handshake", hello + false_records(rng)


def after(peer: Peer, rng: random.Random) -> tuple[str, bytes]:
    """Returns what a client sends after a good handshake, and its name."""
    sealed = peer.seal(rng.randbytes(rng.randrange(1, 300)))
    choice = rng.randrange(6)
    if choice == 0:
        return "false records", false_records(rng)
    if choice == 1:
        return "bent record", bend(sealed, rng)
    if choice == 2:
        return "cut record", sealed[: rng.randrange(1, len(sealed))]
    if choice == 3:
        return "record sent twice", sealed * 2
    if choice == 4:
        return "noise in good records", sealed + peer.seal(rng.randbytes(rng.randrange(1, 40_000)))
    return "close_notify", peer.notice() if rng.random() < 0.5 else sealed + peer.notice()


def attack(port: int, context: ssl.SSLContext, rng: random.Random) -> str:
    """One attack. Returns its name."""
    peer = Peer(port, context)
    with peer.connection:
        if rng.random() < 0.5:
            name, data = before(peer, rng)
        else:
            peer.shake_hands()
            name, data = after(peer, rng)
        try:
            peer.send(data, ends=name != "close_notify")
        except TimeoutError:
            raise AssertionError(f"after {name} the connection is open") from None
    return name


def be_good(port: int, context: ssl.SSLContext) -> None:
    """Shake hands as a good client."""
    peer = Peer(port, context)
    with peer.connection:
        peer.shake_hands()


def context_of(paths: TlsPaths, version: ssl.TLSVersion) -> ssl.SSLContext:
    """Returns the context of a client that has a certificate of the cluster."""
    context = ssl.create_default_context(cafile=str(paths.authority))
    context.load_cert_chain(paths.keystore)
    context.maximum_version = version
    return context


def ports_of(pid: int) -> Iterator[int]:
    """Yields the ports on which a process listens."""
    inodes = set()
    for descriptor in Path(f"/proc/{pid}/fd").iterdir():
        with contextlib.suppress(OSError):
            inodes.add(os.readlink(descriptor))
    for line in Path(f"/proc/{pid}/net/tcp").read_text().splitlines()[1:]:
        _, local, _, state, *rest = line.split()
        if state == "0A" and f"socket:[{rest[5]}]" in inodes:
            yield int(local.rpartition(":")[2], 16)


def memory_bytes(pid: int) -> int:
    """Resident memory now."""
    return int(Path(f"/proc/{pid}/status").read_text().split("VmRSS:")[1].split()[0]) * 1024


@attrs.define
class Outcome:
    """The attacks on one system."""

    sent: Counter[str] = attrs.field(factory=Counter)
    ports: int = 0
    growth_bytes: int = 0


async def fuzz_system(name: str, records: int, seed: int, say: Callable[[str], None] = lambda line: None) -> Outcome:
    """Attack a cluster of one system. `AssertionError` if more than single connections suffered."""
    system, outcome, rng = system_named(name), Outcome(), random.Random(f"{name} {seed}")
    replication, nodes = SYSTEMS[name]
    mode = system.configure((), replication).on(nodes)
    with tempfile.TemporaryDirectory(prefix="quorumlog-fuzz-") as directory:
        async with open_cluster(Path(directory), system, mode, nodes=nodes, cluster_id="fuzz", tls=True) as cluster:
            assert await cluster.leader(within_s=30.0), "nothing leads"
            await cluster.control.prepare(mode, next(iter(system.workloads)), within_s=30.0)
            goal = await cluster.control.goal()
            assert cluster.access.tls is not None
            contexts = [
                context_of(cluster.access.tls, version) for version in (ssl.TLSVersion.TLSv1_3, ssl.TLSVersion.TLSv1_2)
            ]
            pids = {node: process.pid for node, process in cluster.nodes.items()}
            ports = [port for pid in pids.values() for port in ports_of(pid)]
            outcome.ports = len(ports)
            baseline: dict[int, int] = {}
            for number in range(-(-records // LOOKED_EVERY)):
                port = ports[number % len(ports)]
                await trio.to_thread.run_sync(_attacks, port, contexts, rng, outcome.sent)
                await _look(cluster)
                now = {node: memory_bytes(pid) for node, pid in pids.items()}
                if number < 2 * len(ports):
                    baseline = now  # the first attacks load code and fill caches
                outcome.growth_bytes = max(outcome.growth_bytes, *(now[node] - baseline[node] for node in now))
                assert outcome.growth_bytes < MEMORY_GROWTH_MAX, f"memory grew by {outcome.growth_bytes:,} bytes"
                say(f"{name}: {sum(outcome.sent.values()):,} of {records:,}")
            assert goal is not None
            assert all([await cluster.control.has_reached(node, goal) for node in cluster.targets]), "something is gone"
            assert cluster.unasked_ends == []
    return outcome


def _attacks(port: int, contexts: list[ssl.SSLContext], rng: random.Random, sent: Counter[str]) -> None:
    for _ in range(LOOKED_EVERY):
        sent[attack(port, rng.choice(contexts), rng)] += 1
    for context in contexts:
        be_good(port, context)


async def _look(cluster: Cluster) -> None:
    """See that a good client of each node that holds data is answered."""
    for node in cluster.targets:
        why = await cluster.control.why_silent_at(cluster.direct[node], within_s=20.0)
        assert why is None, f"n{node} is silent: {why}"


def fuzz(records: int, seed: int, systems: tuple[str, ...] = tuple(SYSTEMS)) -> dict[str, Any]:
    """Returns what was sent to each system, each of which gets an equal part."""
    found = {}
    for name in systems:
        outcome = trio.run(fuzz_system, name, -(-records // len(systems)), seed)
        found[name] = attrs.asdict(outcome)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--records", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--systems", default=",".join(SYSTEMS))
    arguments = parser.parse_args()
    found = fuzz(arguments.records, arguments.seed, tuple(arguments.systems.split(",")))
    sys.stdout.write(json.dumps(found, indent=2) + "\n")


if __name__ == "__main__":
    main()
