"""The processes of a raft cluster: the command that starts one, and what the lines it prints mean."""

import sys
from collections.abc import Mapping
from typing import Any

from jepsen_like.port.observations import LogBegins, Observation, Ready, RoleReported, observe_any
from jepsen_like.port.port import ProcessPlan
from jepsen_like.port.wires import text_of
from jepsen_like.systems.raft.mode import RaftMode


def raft_command(plan: ProcessPlan) -> list[str]:
    """The argument vector of `quorumlog node`, in this interpreter."""
    assert isinstance(plan.mode, RaftMode)
    command = [sys.executable, "-m", "raft.node", "--id", str(plan.member.id), "--cluster-id", plan.cluster_id]
    command += ["--listen", text_of(plan.listen), "--data", str(plan.data)]
    for peer, address in plan.peers.items():
        command += ["--peer", f"{peer}={text_of(address)}"]
    for node, address in plan.advertised.items():
        command += ["--advertise", f"{node}={text_of(address)}"]
    if plan.secret is not None:
        command += ["--secret-file", str(plan.secret)]
    if plan.tls is not None:
        command += ["--tls-certificate", str(plan.tls.keystore)]
        command += ["--tls-authority", str(plan.tls.authority), "--tls-clients", "required"]
    for setting in plan.mode.words:
        command += ["--set", setting]
    return command


def observe(event: Mapping[str, Any]) -> Observation | None:
    """Returns the meaning of a node's line. Raises `KeyError` or `ValueError` for one without its fields."""
    match event.get("event"):
        case "started":
            return Ready()
        case "role":
            return RoleReported(str(event["role"]), int(event["term"]))
        case "trimmed" | "snapshot_installed" as what:
            return LogBegins(int(event["start_offset"]), what == "snapshot_installed")
        case _:
            return observe_any(event)
