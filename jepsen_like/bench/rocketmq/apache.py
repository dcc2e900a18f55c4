"""Apache RocketMQ's name server and brokers, from the jars that `APACHE_ROCKETMQ` names.

Settings are Apache RocketMQ's own but for what a mode means and for the length of files, which suits a measurement of
seconds. The heaps are small, as all processes share one machine.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path

from jepsen_like.bench.processes import BenchProcess
from jepsen_like.bench.rocketmq.places import BrokerPlace, NameServerPlace
from jepsen_like.cluster.ports import LOOPBACK
from jepsen_like.systems.archives.catalogue import APACHE_ROCKETMQ

JVM = (
    "-server",
    "-XX:+UseG1GC",
    "-XX:MaxDirectMemorySize=512m",
    "-XX:-OmitStackTraceInFastThrow",
    "--add-exports=java.base/jdk.internal.ref=ALL-UNNAMED",
    "--add-exports=java.base/sun.nio.ch=ALL-UNNAMED",
)
HEAPS = {"broker.BrokerStartup": "512m", "namesrv.NamesrvStartup": "128m"}
FILE_BYTES = 128 * 1024 * 1024
"""Of the commit log, whose files are made in full and ahead."""

REGISTER_EVERY_MS = 10_000
"""The least that it takes: a slave that was there before its master finds it then."""


def apache_process(main: str, home: Path, settings: Mapping[str, str]) -> BenchProcess:
    """Returns a process to start, confined to its directory. Raises `EnvironmentMissing` if RocketMQ is missing."""
    home.mkdir(parents=True, exist_ok=True)
    config = home / "settings.conf"
    config.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
    heap = HEAPS[main]
    command = ["java", f"-Xms{heap}", f"-Xmx{heap}", *JVM, f"-Duser.home={home}", "-cp", APACHE_ROCKETMQ.classpath()]
    command += [f"org.apache.rocketmq.{main}", "-c", str(config)]
    return BenchProcess(command, home, {"ROCKETMQ_HOME": str(home)})


def apache_nameserver(directory: Path, place: NameServerPlace) -> BenchProcess:
    """See `apache_process`."""
    home = (directory / "nameserver").absolute()
    settings = {"listenPort": f"{place.port}", "kvConfigPath": f"{home / 'kv.json'}"}
    return apache_process("namesrv.NamesrvStartup", home, settings)


def apache_broker(
    directory: Path, place: BrokerPlace, group: Sequence[BrokerPlace], mode: Mapping[str, str]
) -> BenchProcess:
    """See `apache_process`. `group` are the members of its DLedger group; empty if its role is fixed."""
    home = (directory / place.title).absolute()
    settings = {
        "brokerClusterName": "bench",
        "brokerIP1": LOOPBACK,
        "brokerIP2": LOOPBACK,
        "listenPort": f"{place.port}",
        "haListenPort": f"{place.ha_port}",
        "storePathRootDir": f"{home / 'data'}",
        "storePathCommitLog": f"{home / 'data' / 'commitlog'}",
        "mappedFileSizeCommitLog": f"{FILE_BYTES}",
        "registerNameServerPeriod": f"{REGISTER_EVERY_MS}",
        **place.properties(mode, group),
    }
    if group:
        settings["dLegerPeers"] = ";".join(f"{each.member}-{LOOPBACK}:{each.group_port}" for each in group)
    return apache_process("broker.BrokerStartup", home, settings)
