"""The servers of a NATS cluster: how one is started, and what its watcher reads of it."""

import contextlib
import json
import socket
from collections.abc import Iterator, Mapping
from typing import Any, Final

from jepsen_like.port.observations import LEADER
from jepsen_like.port.port import NotServing, ProcessPlan
from jepsen_like.port.wires import text_of
from jepsen_like.systems.archives.catalogue import nats_server
from jepsen_like.systems.foreign import json_http
from jepsen_like.systems.foreign.exchange import NotAnswered
from jepsen_like.systems.foreign.launch import Launch
from jepsen_like.systems.foreign.watching import Look
from jepsen_like.systems.nats.mode import NatsMode

ROUTES: Final = "routes"
MONITOR: Final = "monitor"
LOG_SCOPE: Final = "log"
META_SCOPE: Final = "meta"
ACCOUNT: Final = "$G"
META_GROUP: Final = "_meta_"
STREAM_GROUPS: Final = "S-"
LOOKS_WITHIN_S: Final = 0.5
ANY_HOST: Final = "0.0.0.0"
NOWHERE: Final = "127.0.0.1:1"
"""Servers tell each other their addresses, by which they would dial past the forwarders; nothing listens here."""
STORE_BYTES: Final = 800 * 1024 * 1024


def nats_command(plan: ProcessPlan) -> list[str]:
    """The argument vector of one server. Raises `NotServing` if its version is not in the cache."""
    assert isinstance(plan.mode, NatsMode)
    config, server = plan.data / "nats.conf", nats_server(plan.mode.effective.version)
    if mend := server.missing():
        raise NotServing(f"NATS {server.version} is not on this machine; get it with: {mend}")
    launch = Launch(
        argv=[str(server.executable), "-c", str(config)],
        files={str(config): json.dumps(configuration(plan, plan.mode), indent=2)},
        look=f"{__name__}:look",
        about={"client": plan.listen[1], "monitor": plan.further[MONITOR].listen[1]},
    )
    return launch.command()


def configuration(plan: ProcessPlan, mode: NatsMode) -> dict[str, Any]:
    """Returns the configuration of one server; JSON is one of the forms that it reads."""
    routes = plan.further[ROUTES]
    cluster: dict[str, Any] = {
        "name": plan.cluster_id,
        "listen": text_of(routes.listen),
        "routes": [f"nats-route://{text_of(address)}" for _, address in sorted(routes.peers.items())],
        "no_advertise": True,
    }
    if routes.listen[0] != ANY_HOST:
        cluster["advertise"] = NOWHERE
    return {
        "server_name": plan.member.name,
        "listen": text_of(plan.listen),
        "http": text_of(plan.further[MONITOR].listen),
        "jetstream": {
            "store_dir": str(plan.data / "jetstream"),
            "max_file_store": STORE_BYTES,
            "sync_interval": mode.effective.sync_interval,
        },
        "cluster": cluster,
    }


# -------------------------------------------------------------------- what a server tells of itself


def look(about: Mapping[str, Any]) -> Look | None:
    """One look of the watcher, at the server next to it."""
    try:
        roles = {scope: (role, term) for scope, role, term in _ask_roles(("127.0.0.1", about["monitor"]))}
    except NotAnswered:
        return None
    return Look(serves=_greets(about["client"]), roles=roles)


def _ask_roles(monitor: tuple[str, int]) -> Iterator[tuple[str, str, int]]:
    for query in ("", f"?acc={ACCOUNT}"):
        with contextlib.suppress(NotAnswered):  # it has no group in this account
            yield from roles_in(json_http.ask_now(monitor, f"/raftz{query}", within_s=LOOKS_WITHIN_S))


def _greets(port: int) -> bool:
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=LOOKS_WITHIN_S) as connected:
            return connected.recv(5) == b"INFO "
    except OSError:
        return False


def roles_in(raftz: Mapping[str, Any]) -> Iterator[tuple[str, str, int]]:
    """Yields scope, role and term of each raft group that a scope stands for, of a server's `/raftz`."""
    for groups in raftz.values():
        for name, group in groups.items():
            scope = META_SCOPE if name == META_GROUP else LOG_SCOPE if name.startswith(STREAM_GROUPS) else None
            if scope is not None:
                role = str(group["state"]).lower()
                yield scope, LEADER if role == "leader" else role, int(group["term"])
