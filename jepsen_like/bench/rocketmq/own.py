"""A name server and brokers of ours, each a process of its own, with default settings but for what a mode means."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from jepsen_like.bench.guard import PLAIN, Guard, Protection
from jepsen_like.bench.processes import BenchProcess
from jepsen_like.bench.rocketmq.places import BrokerPlace, NameServerPlace
from jepsen_like.cluster.ports import LOOPBACK
from jepsen_like.systems.rocketmq.processes import tls_words


def own_nameserver(directory: Path, place: NameServerPlace, protection: Protection = PLAIN) -> BenchProcess:
    """Returns a name server, not started yet."""
    command = [protection.python, "-m", "rocketmq_compat.process", "nameserver"]
    command += ["--listen", f"{LOOPBACK}:{place.port}", *protection_words(protection.guard(directory))]
    return BenchProcess(command, directory / "nameserver")


def protection_words(guard: Guard) -> list[str]:
    """Returns the flags of a protected process."""
    return [*(part for word in tls_words(guard.tls) for part in ("--set", word)), *guard.secret_words()]


def own_broker(
    directory: Path,
    place: BrokerPlace,
    group: Sequence[BrokerPlace],
    mode: Mapping[str, str],
    protection: Protection = PLAIN,
) -> BenchProcess:
    """Returns a broker, not started yet. `group` are the members of its raft group; empty if its role is fixed."""
    home = (directory / place.title).absolute()
    properties = place.properties(mode, group) | {"registerNameServerPeriod": "1000"}
    if group:  # the group shares its members' ports with clients
        properties["dLegerPeers"] = ";".join(f"{each.member}-{LOOPBACK}:{each.port}" for each in group)
    command = [protection.python, "-m", "rocketmq_compat.process", "broker"]
    command += ["--listen", f"{LOOPBACK}:{place.port}", "--ha-listen", f"{LOOPBACK}:{place.ha_port}"]
    command += ["--data", str(home / "data"), *protection_words(protection.guard(directory))]
    command += [part for name, value in properties.items() for part in ("--set", f"{name}={value}")]
    return BenchProcess(command, home)
