"""The command that starts one node of a raft cluster inside the fault network."""

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import attrs

Address = tuple[str, int]


@attrs.frozen
class NodePlan:
    """Where a node listens, where it finds the others and where clients find everyone; all by node id.

    `peers` and `advertised` are ports of the fault network, `settings` the `name=value` pairs of `--set`.
    """

    node: int
    cluster_id: str
    listen: Address
    data: Path
    peers: Mapping[int, Address]
    advertised: Mapping[int, Address]
    settings: Sequence[str] = ()


def raft_command(plan: NodePlan) -> list[str]:
    """The argument vector of `quorumlog node`, in this interpreter."""
    command = [sys.executable, "-m", "raft.node", "--id", str(plan.node), "--cluster-id", plan.cluster_id]
    command += ["--listen", _text(plan.listen), "--data", str(plan.data)]
    for peer, address in plan.peers.items():
        command += ["--peer", f"{peer}={_text(address)}"]
    for node, address in plan.advertised.items():
        command += ["--advertise", f"{node}={_text(address)}"]
    for setting in plan.settings:
        command += ["--set", setting]
    return command


def _text(address: Address) -> str:
    return f"{address[0]}:{address[1]}"
