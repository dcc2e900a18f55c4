"""The processes of a raft cluster: the command that starts one, and what the lines it prints mean."""

import sys
from collections.abc import Mapping
from typing import Any, Final

from jepsen_like.port.observations import LogBegins, Observation, OwnEnd, Ready, RoleReported, TurnReported
from jepsen_like.port.port import ProcessPlan
from jepsen_like.port.wires import Address
from jepsen_like.systems.raft.mode import RaftMode

BROKEN: Final = 1
"""The exit status of a node that ends by itself, if it does not report one."""


def raft_command(plan: ProcessPlan) -> list[str]:
    """The argument vector of `quorumlog node`, in this interpreter."""
    assert isinstance(plan.mode, RaftMode)
    command = [sys.executable, "-m", "raft.node", "--id", str(plan.member.id), "--cluster-id", plan.cluster_id]
    command += ["--listen", _text(plan.listen), "--data", str(plan.data)]
    for peer, address in plan.peers.items():
        command += ["--peer", f"{peer}={_text(address)}"]
    for node, address in plan.advertised.items():
        command += ["--advertise", f"{node}={_text(address)}"]
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
        case "broken_invariant" | "failed":
            return OwnEnd(int(event.get("status", BROKEN)), str(event.get("reason", "")))
        case "long_turn":
            return TurnReported(int(event["ms"]), int(event["processor_ms"]), str(event["cause"]))
        case _:
            return None


def _text(address: Address) -> str:
    return f"{address[0]}:{address[1]}"
