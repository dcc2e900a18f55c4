"""The nodes of a RabbitMQ cluster: how one is started, and what its watcher reads of it.

Nodes know each other by names, which stand for their addresses in the network of namespaces. There each has the ports of its own
machine, so all have the same ones. A few lines of Erlang, `status.eval`, run in each node and answer with its state.
"""

import json
from collections.abc import Iterable, Mapping
from importlib import resources
from pathlib import Path
from typing import Any, Final

from jepsen_like.port.observations import LEADER
from jepsen_like.port.port import NotServing, ProcessPlan
from jepsen_like.systems.foreign.exchange import NotAnswered, exchange_now
from jepsen_like.systems.foreign.launch import Launch
from jepsen_like.systems.foreign.watching import Look
from jepsen_like.systems.rabbitmq.clients import QUEUE
from jepsen_like.systems.rabbitmq.mode import RabbitMode

STATUS: Final = "status"
SCOPE: Final = "queue"
LOOKS_WITHIN_S: Final = 0.5
INSTALLED: Final = Path("/usr/lib/rabbitmq/lib")
SERVER: Final = "rabbitmq_server-*/sbin/rabbitmq-server"
EPMD_PORT, NODES_PORT = 4369, 25672
ERLANG: Final = ("+S", "1:1", "+sbwt", "none", "+sbwtdcpu", "none", "+sbwtdio", "none")
"""One scheduler, which sleeps as soon as it has nothing to do: three nodes share two cores with their clients."""


def find_server(installed: Path = INSTALLED) -> Path | None:
    """Returns the script that starts a node; None where RabbitMQ is not installed."""
    return max(installed.glob(SERVER), default=None)


def node_name(member: int) -> str:
    """Returns the name by which nodes know a node."""
    return f"rabbit@n{member}"


def rabbitmq_command(plan: ProcessPlan) -> list[str]:
    """The argument vector of one node. Raises `NotServing` if RabbitMQ is not installed."""
    assert isinstance(plan.mode, RabbitMode)
    if (server := find_server()) is None:
        raise NotServing("RabbitMQ is not on this machine")
    home, status = plan.data / "rabbitmq", plan.data / "status.eval"
    port = plan.further[STATUS].listen[1]
    words = (*ERLANG, "-setcookie", plan.cluster_id, "-eval", f'file:eval("{status}").')
    launch = Launch(
        argv=[str(server)],
        files={
            str(home) + "/": "",
            str(home / "environment"): "",
            str(home / "enabled_plugins"): "[].\n",
            str(home / "rabbitmq.conf"): configuration(plan, plan.mode),
            str(status): status_lines(port, is_mirrored=plan.mode.is_mirrored),
        },
        environment={
            "HOME": str(home),
            "ERL_EPMD_PORT": str(EPMD_PORT),
            "RUNNING_UNDER_SYSTEMD": "true",
            "RABBITMQ_CONF_ENV_FILE": str(home / "environment"),
            "RABBITMQ_CONFIG_FILE": str(home / "rabbitmq.conf"),
            "RABBITMQ_DIST_PORT": str(NODES_PORT),
            "RABBITMQ_ENABLED_PLUGINS_FILE": str(home / "enabled_plugins"),
            "RABBITMQ_LOG_BASE": str(home),
            "RABBITMQ_LOGS": "-",
            "RABBITMQ_MNESIA_BASE": str(home),
            "RABBITMQ_NODENAME": node_name(plan.member.id),
            "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS": " ".join(words),
        },
        look=f"{__name__}:look",
        about={"status": port},
        hosts={f"n{member}": host for member, (host, _) in plan.advertised.items()},
        scratch=str(plan.data),
        beside=[["epmd", "-port", str(EPMD_PORT)]],
    )
    return launch.command()


def configuration(plan: ProcessPlan, mode: RabbitMode) -> str:
    """Returns the configuration of one node."""
    values = {
        "listeners.tcp.1": f"{plan.listen[0]}:{plan.listen[1]}",
        "loopback_users": "none",
        "cluster_name": plan.cluster_id,
        "cluster_formation.peer_discovery_backend": "classic_config",
        **{f"cluster_formation.classic_config.nodes.{member}": node_name(member) for member in sorted(plan.advertised)},
        "cluster_formation.discovery_retry_limit": 2,
        "cluster_partition_handling": mode.effective.cluster_partition_handling,
        "net_ticktime": mode.effective.net_ticktime,
        "log.console": "true",
        "log.console.level": "info",
        "log.file": "false",
    }
    return "".join(f"{name} = {value}\n" for name, value in values.items())


def status_lines(port: int, *, is_mirrored: bool) -> str:
    """Returns the lines of Erlang that a node runs."""
    text = (resources.files(__package__) / "status.eval").read_text()
    values = {"@PORT@": str(port), "@QUEUE@": QUEUE, "@MIRRORED@": str(is_mirrored).lower()}
    for name, value in values.items():
        text = text.replace(name, value)
    return text


# -------------------------------------------------------------------- what a node tells of itself


def look(about: Mapping[str, Any]) -> Look | None:
    """One look of the watcher, at the node next to it."""
    try:
        state = state_in(exchange_now(("127.0.0.1", about["status"]), b"", within_s=LOOKS_WITHIN_S))
    except NotAnswered:
        return None
    return Look(serves=bool(state.get("serves")), roles=dict(roles_in(state)))


def state_in(answer: bytes) -> dict[str, Any]:
    """Returns the state that a node answered with. Raises `NotAnswered`."""
    try:
        found = json.loads(answer)
    except ValueError as error:
        raise NotAnswered(f"no answer in JSON: {answer[:80]!r}") from error
    if not isinstance(found, dict):
        raise NotAnswered(f"no state: {answer[:80]!r}")
    return found


def roles_in(state: Mapping[str, Any]) -> Iterable[tuple[str, tuple[str, int]]]:
    """Yields scope, role and term of a node's copy of the queue, if it has one."""
    role, term = state.get("role"), state.get("term")
    if isinstance(role, str) and isinstance(term, int):
        yield SCOPE, (LEADER if role == "leader" else role, term)
