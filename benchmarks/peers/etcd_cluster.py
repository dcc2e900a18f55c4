"""Three `etcd` processes, as Debian's `etcd-server` brings them, with default timing; writes by gRPC, questions by
JSON.

Its backend's quota is raised, so that it does not end a load; nothing else differs from its defaults.
"""

import base64
import http.client
import json
import re
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.peers.etcd_wire import KEY_PREFIX, EtcdConversation
from jepsen_like.bench.conversation import LoadShape
from jepsen_like.bench.processes import BenchProcess
from jepsen_like.bench.systems import NODES, BenchCluster, BenchSystem
from jepsen_like.cluster.ports import LOOPBACK

ASK_WITHIN_S = 2.0
QUOTA_BYTES = 8 * 2**30
LAG_MAX = 10


class EtcdCluster(BenchCluster):
    """Three members."""

    def converse(self, load: LoadShape, lane: int) -> EtcdConversation:
        """See `BenchCluster`."""
        return EtcdConversation(load, lane)

    def ask(self, member: int, path: str, question: dict[str, object]) -> dict[str, Any] | None:
        """One question through the JSON gateway; None if there is no answer."""
        connection = http.client.HTTPConnection(LOOPBACK, self.ports[member], timeout=ASK_WITHIN_S)
        try:
            connection.request("POST", path, json.dumps(question))
            answer = connection.getresponse()
            text = answer.read()
            return dict(json.loads(text)) if answer.status == 200 else None
        except (OSError, http.client.HTTPException, ValueError):
            return None
        finally:
            connection.close()

    def _statuses(self) -> list[dict[str, Any] | None]:
        return [self.ask(member, "/v3/maintenance/status", {}) for member in range(NODES)]

    def leader(self) -> int | None:
        """The member whose own id is its leader's."""
        leaders = [
            (int(status.get("raftTerm", 0)), member)
            for member, status in enumerate(self._statuses())
            if status is not None and status.get("leader") == status["header"]["member_id"]
        ]
        return max(leaders)[1] if leaders else None

    def count_written(self) -> int:
        """Every put raises its key's version by one."""
        end = KEY_PREFIX[:-1] + bytes((KEY_PREFIX[-1] + 1,))
        question: dict[str, object] = {
            "key": base64.b64encode(KEY_PREFIX).decode(),
            "range_end": base64.b64encode(end).decode(),
            "keys_only": True,
        }
        answer = self.ask(self.led_by(), "/v3/kv/range", question) or {}
        return sum(int(pair["version"]) for pair in answer.get("kvs", ()))

    def ready(self) -> bool:
        """All know a leader, and have applied about as much."""
        statuses = [status for status in self._statuses() if status is not None and status.get("leader", "0") != "0"]
        applied = [int(status.get("raftAppliedIndex", 0)) for status in statuses]
        return len(applied) == NODES and max(applied) - min(applied) <= LAG_MAX


def etcd(directory: Path, ports: Sequence[int]) -> EtcdCluster:
    """Three members, not started yet."""
    clients, peers = ports[:NODES], ports[NODES:]
    group = ",".join(f"n{number}=http://{LOOPBACK}:{port}" for number, port in enumerate(peers))
    members = []
    for number, (client, peer) in enumerate(zip(clients, peers, strict=True)):
        home = (directory / f"node-{number}").absolute()
        flags = {
            "name": f"n{number}",
            "data-dir": str(home / "data"),
            "listen-client-urls": f"http://{LOOPBACK}:{client}",
            "advertise-client-urls": f"http://{LOOPBACK}:{client}",
            "listen-peer-urls": f"http://{LOOPBACK}:{peer}",
            "initial-advertise-peer-urls": f"http://{LOOPBACK}:{peer}",
            "initial-cluster": group,
            "initial-cluster-state": "new",
            "quota-backend-bytes": str(QUOTA_BYTES),
            "logger": "zap",
            "log-level": "warn",
        }
        members.append(BenchProcess(["etcd", *(f"--{name}={value}" for name, value in flags.items())], home))
    return EtcdCluster(clients, members)


def version() -> str:
    """By its own word."""
    said = subprocess.run(["etcd", "--version"], capture_output=True, text=True, check=False).stdout
    found = re.search(r"Version: (\S+)", said)
    return found[1] if found else "unknown"


def missing() -> str:
    """See `BenchSystem`."""
    return "" if shutil.which("etcd") else "apt-get install etcd-server"


ETCD = BenchSystem(
    key="etcd",
    title="etcd",
    promise="on the disks of a majority",
    start=etcd,
    fails_over=True,
    missing=missing,
    version=version,
    ports=2 * NODES,
)
