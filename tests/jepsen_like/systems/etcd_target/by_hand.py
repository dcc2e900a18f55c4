"""Three members of etcd that were started by hand, and a client of their owner."""

import base64
import json
import ssl
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from jepsen_like.cluster.authority import Authority
from jepsen_like.cluster.ports import LOOPBACK, ReservedPorts
from jepsen_like.systems.archives.catalogue import ETCDS
from tests.jepsen_like.systems.target.by_hand import HandCluster, run_by_hand

MEMBERS = 3
SERVES_WITHIN_S = 60.0
USER, PASSWORD = "root", "mine"


def encode(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


class Owner:
    """A client of the members, by their gateway."""

    def __init__(self, servers: str, authority: Authority | None = None) -> None:
        scheme = "http" if authority is None else "https"
        self._urls = [f"{scheme}://{server}" for server in servers.split(",")]
        self._tls = None if authority is None else ssl.create_default_context(cafile=str(authority.certificate))

    def ask(self, path: str, body: Mapping[str, Any]) -> dict[str, Any]:
        """Returns the first answer of any member, all of which are asked until one serves."""
        deadline, content, error = time.monotonic() + SERVES_WITHIN_S, json.dumps(body).encode(), ""
        while time.monotonic() < deadline:
            for url in self._urls:
                try:
                    with urllib.request.urlopen(url + path, content, timeout=5, context=self._tls) as answer:
                        found: dict[str, Any] = json.loads(answer.read())
                        return found
                except OSError as why:
                    error = str(why)
            time.sleep(0.1)
        raise TimeoutError(error)

    def keys(self) -> dict[str, str]:
        """Returns all keys with their values."""
        found = self.ask("/v3/kv/range", {"key": encode("\0"), "range_end": encode("\0")}).get("kvs", [])
        return {base64.b64decode(each["key"]).decode(): base64.b64decode(each["value"]).decode() for each in found}

    def put(self, key: str, value: str) -> None:
        self.ask("/v3/kv/put", {"key": encode(key), "value": encode(value)})

    def delete(self, key: str) -> None:
        self.ask("/v3/kv/deleterange", {"key": encode(key)})

    def demand_login(self) -> None:
        """From now on only `USER` is admitted."""
        self.ask("/v3/auth/user/add", {"name": USER, "password": PASSWORD})
        self.ask("/v3/auth/user/grant", {"user": USER, "role": "root"})
        self.ask("/v3/auth/enable", {})


@contextmanager
def etcd_by_hand(directory: Path, authority: Authority | None = None) -> Iterator[tuple[HandCluster, Owner]]:
    """Three members that serve; with an authority they speak TLS with their clients."""
    with ReservedPorts(2 * MEMBERS) as reserved:
        clients, peers = reserved.ports[:MEMBERS], reserved.ports[MEMBERS:]
        numbers = range(1, MEMBERS + 1)
        commands = [command_of(directory, number, clients[number - 1], peers, authority) for number in numbers]
        servers = ",".join(f"{LOOPBACK}:{port}" for port in clients)
        with run_by_hand(directory, servers, commands) as cluster:
            owner = Owner(servers, authority)
            owner.keys()
            yield cluster, owner


def command_of(
    directory: Path, number: int, client: int, peers: Sequence[int], authority: Authority | None
) -> list[str]:
    """Returns the argument vector of a member."""
    urls = [f"http://{LOOPBACK}:{port}" for port in peers]
    url = f"{'http' if authority is None else 'https'}://{LOOPBACK}:{client}"
    flags = {
        "name": f"m{number}",
        "data-dir": f"{directory}/node-{number}/data",
        "listen-client-urls": url,
        "advertise-client-urls": url,
        "listen-peer-urls": urls[number - 1],
        "initial-advertise-peer-urls": urls[number - 1],
        "initial-cluster": ",".join(f"m{at}={peer}" for at, peer in enumerate(urls, 1)),
        "log-level": "error",
    }
    if authority is not None:
        files = authority.files_of("server")
        flags |= {"cert-file": str(files.certificate), "key-file": str(files.key)}
    return [str(ETCDS[0].executable), *(f"--{name}={value}" for name, value in flags.items())]
