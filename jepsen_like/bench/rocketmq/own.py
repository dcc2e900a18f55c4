"""A name server and brokers of ours, each a process of its own, with default settings but for what a mode means."""

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from jepsen_like.bench.processes import BenchProcess
from jepsen_like.bench.rocketmq.places import BrokerPlace, NameServerPlace
from jepsen_like.cluster.ports import LOOPBACK


def own_nameserver(directory: Path, place: NameServerPlace) -> BenchProcess:
    """Returns a name server, not started yet."""
    command = [sys.executable, "-m", "rocketmq_compat.process", "nameserver", "--listen", f"{LOOPBACK}:{place.port}"]
    return BenchProcess(command, directory / "nameserver")


def own_broker(
    directory: Path, place: BrokerPlace, group: Sequence[BrokerPlace], mode: Mapping[str, str]
) -> BenchProcess:
    """Returns a broker, not started yet. `group` are the members of its raft group; empty if its role is fixed."""
    home = (directory / place.title).absolute()
    properties = place.properties(mode, group) | {"registerNameServerPeriod": "1000"}
    if group:  # the group shares its members' ports with clients
        properties["dLegerPeers"] = ";".join(f"{each.member}-{LOOPBACK}:{each.port}" for each in group)
    command = [sys.executable, "-m", "rocketmq_compat.process", "broker"]
    command += ["--listen", f"{LOOPBACK}:{place.port}", "--ha-listen", f"{LOOPBACK}:{place.ha_port}"]
    command += ["--data", str(home / "data")]
    command += [part for name, value in properties.items() for part in ("--set", f"{name}={value}")]
    return BenchProcess(command, home)
