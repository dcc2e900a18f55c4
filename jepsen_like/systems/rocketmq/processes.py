"""The processes of broker groups: the commands that start them, and what the lines they print mean.

Nodes 1 to n are the brokers, those above name servers: one, or one in each zone. With fixed roles the first of each group is its master, until an
operator promotes another one.
"""

import sys
from collections.abc import Mapping
from typing import Any, Final

from jepsen_like.port.observations import LEADER, Observation, Ready, RoleReported, observe_any
from jepsen_like.port.port import Member, ProcessPlan, TlsPaths
from jepsen_like.port.wires import Address, text_of
from jepsen_like.systems.rocketmq.mode import RocketMode

BROKER, NAMESERVER = "broker", "nameserver"
ALL_IN_TURN: Final = (
    "slaveReadEnable=true",
    "registerNameServerPeriod=1000",
    "haSendHeartbeatInterval=500",
    "haHousekeepingInterval=2000",
    "haReconnectInterval=500",
)
"""Every copy can be read in the end, and a lost connection is noticed, and made again, between two faults."""


def members_of(nodes: int, zones: int = 1) -> tuple[Member, ...]:
    """The name servers first, one for each zone, so that brokers find them."""
    names = range(nodes + 1, nodes + 1 + max(1, zones))
    return (
        *(Member(name, NAMESERVER, holds_data=False) for name in names),
        *(Member(node, BROKER) for node in range(1, nodes + 1)),
    )


def name_servers(addresses: Mapping[int, Address], brokers: int) -> str:
    """The addresses of all name servers, as `namesrvAddr` has them, in a cluster with so many brokers."""
    return ";".join(text_of(address) for node, address in sorted(addresses.items()) if node > brokers)


def command_of(plan: ProcessPlan) -> list[str]:
    """The argument vector of one process, in this interpreter."""
    assert isinstance(plan.mode, RocketMode)
    command = [sys.executable, "-m", "rocketmq_compat.process"]
    secret = [] if plan.secret is None else ["--secret-file", str(plan.secret)]
    if plan.member.role == NAMESERVER:
        pinned = ["--set", "orderMessageEnable=true"] if plan.mode.is_pinned else []
        sealed = [part for word in tls_words(plan.tls) for part in ("--set", word)]
        return [*command, "nameserver", "--listen", text_of(plan.listen), *pinned, *sealed, *secret]
    node = plan.member.id
    command += ["broker", "--listen", text_of(plan.listen), "--data", str(plan.data)]
    command += ["--advertise", text_of(plan.advertised[node]), "--ha-listen", text_of((plan.listen[0], 0))]
    if plan.boot_id:
        command += ["--boot-id", plan.boot_id]
    for other, address in plan.peers.items():
        command += ["--detour", f"{text_of(plan.advertised[other])}={text_of(address)}"]
    groups = plan.mode.division
    number = groups.number_of(node)
    master = groups.master(number, plan.promoted)
    words = [
        f"brokerName={groups.scopes[number]}",
        f"namesrvAddr={name_servers(plan.peers, plan.mode.nodes)}",
        *ALL_IN_TURN,
    ]
    words.append(f"totalReplicas={len(groups.members(number))}")
    words += plan.mode.given
    words += tls_words(plan.tls)
    if plan.mode.is_raft:
        words += ["enableDLegerCommitLog=true", f"dLegerSelfId=n{node}"]
        addresses = {each: plan.listen if each == node else plan.peers[each] for each in groups.members(number)}
        words.append("dLegerPeers=" + ";".join(f"n{each}-{text_of(address)}" for each, address in addresses.items()))
    elif node == master:
        words += [f"brokerRole={plan.mode.master_role}", "brokerId=0"]
    else:
        words += ["brokerRole=SLAVE", f"brokerId={node}", f"haMasterAddress={text_of(plan.peers[master])}"]
    for word in words:
        command += ["--set", word]
    return command + secret


def tls_words(tls: TlsPaths | None) -> list[str]:
    """Properties `name=value` with which processes speak TLS to each other, and take it from clients; none without files.

    Plain text is taken as well, because the C++ client has no TLS.
    """
    if tls is None:
        return []
    files = {"certPath": tls.keystore, "keyPath": tls.keystore, "trustCertPath": tls.authority}
    sides = [f"tls.{side}.{name}={path}" for side in ("server", "client") for name, path in files.items()]
    return ["tls.server.mode=permissive", "tls.enable=true", *sides]


def observe(event: Mapping[str, Any]) -> Observation | None:
    """Returns the meaning of a process's line. Raises `KeyError` or `ValueError` for one without its fields."""
    match event.get("event"):
        case "listening":
            return Ready()
        case "role":
            role = LEADER if event["role"] == "master" else "follower"
            return RoleReported(role, int(event["epoch"]), str(event["broker"]))
        case _:
            return observe_any(event)
