"""The members of an etcd cluster: how one is started, and what its watcher reads of it.

A member's id is made of the addresses by which all know each other, so these must be the same for all. They are names, which
stand for another address in each member: the way that leads from there to the other one.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from jepsen_like.port.observations import LEADER
from jepsen_like.port.port import NotServing, ProcessPlan
from jepsen_like.port.wires import text_of
from jepsen_like.systems.archives.catalogue import etcd
from jepsen_like.systems.etcd.mode import EtcdMode
from jepsen_like.systems.foreign import json_http
from jepsen_like.systems.foreign.exchange import NotAnswered
from jepsen_like.systems.foreign.launch import Launch
from jepsen_like.systems.foreign.watching import Look

PEERS: Final = "peers"
SCOPE: Final = "etcd"
"""The one raft group."""
STATUS: Final = "/v3/maintenance/status"
FOLLOWER: Final = "follower"
LOOKS_WITHIN_S: Final = 0.5


def etcd_command(plan: ProcessPlan) -> list[str]:
    """The argument vector of one member. Raises `NotServing` if its version is not in the cache."""
    assert isinstance(plan.mode, EtcdMode)
    program = etcd(plan.mode.effective.version)
    if mend := program.missing():
        raise NotServing(f"etcd {program.version} is not on this machine; get it with: {mend}")
    launch = Launch(
        argv=[str(program.executable), *flags(plan, plan.mode)],
        files={},
        look=f"{__name__}:look",
        about={"client": plan.listen[1]},
        hosts=hosts_of(plan),
        scratch=str(plan.data),
    )
    return launch.command()


def host_name(member: int) -> str:
    """Returns the name by which members know a member."""
    return f"n{member}"


def hosts_of(plan: ProcessPlan) -> dict[str, str]:
    """Returns what these names stand for in one member."""
    return {host_name(plan.member.id): "127.0.0.1"} | {
        host_name(other): host for other, (host, _) in plan.further[PEERS].peers.items()
    }


def flags(plan: ProcessPlan, mode: EtcdMode) -> Iterator[str]:
    """Yields the command line's words behind the program."""
    own, peers = plan.member.id, plan.further[PEERS]
    ports = {own: peers.listen[1], **{other: port for other, (_, port) in peers.peers.items()}}
    cluster = ",".join(
        f"{host_name(member)}=http://{host_name(member)}:{port}" for member, port in sorted(ports.items())
    )
    values = {
        "name": host_name(own),
        "data-dir": str(plan.data / "etcd"),
        "listen-client-urls": f"http://{text_of(plan.listen)}",
        "advertise-client-urls": f"http://{text_of(plan.advertised[own])}",
        "listen-peer-urls": f"http://{text_of(peers.listen)}",
        "initial-advertise-peer-urls": f"http://{host_name(own)}:{ports[own]}",
        "initial-cluster": cluster,
        "initial-cluster-token": plan.cluster_id,
        "logger": "zap",
        "log-level": "warn",
    }
    for name, value in values.items():
        yield f"--{name}={value}"
    if mode.effective.unsafe_no_fsync:
        yield "--unsafe-no-fsync"
    if mode.effective.backend_batch_interval:
        yield f"--backend-batch-interval={mode.effective.backend_batch_interval}"


# -------------------------------------------------------------------- what a member tells of itself


def look(about: Mapping[str, Any]) -> Look | None:
    """One look of the watcher, at the member next to it."""
    try:
        role, term = role_in(json_http.ask_now(("127.0.0.1", about["client"]), STATUS, {}, within_s=LOOKS_WITHIN_S))
    except NotAnswered:
        return None
    return Look(serves=True, roles={SCOPE: (role, term)})


def role_in(status: Mapping[str, Any]) -> tuple[str, int]:
    """Returns role and term of a member, of its status."""
    header = status.get("header", {})
    leads = status.get("leader", "0") == header.get("member_id") != "0"
    return LEADER if leads else FOLLOWER, int(status.get("raftTerm", 0))
