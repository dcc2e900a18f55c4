"""The servers of a ZooKeeper ensemble: how one is started, and what its watcher reads of it."""

from collections.abc import Mapping
from typing import Any, Final

from jepsen_like.port.observations import LEADER
from jepsen_like.port.port import ProcessPlan
from jepsen_like.systems.archives.catalogue import ZOOKEEPER
from jepsen_like.systems.foreign.exchange import NotAnswered, exchange_now
from jepsen_like.systems.foreign.launch import Launch
from jepsen_like.systems.foreign.watching import Look
from jepsen_like.systems.zookeeper.mode import FORCE_SYNC

QUORUM, ELECTION = "quorum", "election"
SCOPE: Final = "ensemble"
STATUS: Final = b"srvr"
LOOKING: Final = "looking"
LOOKS_WITHIN_S: Final = 0.5
JVM: Final = ("-Xmx256m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Djava.awt.headless=true")
"""Small and quick to start: three servers share two cores with their clients."""
LOGGING: Final = """<configuration>
  <appender name="ERR" class="ch.qos.logback.core.ConsoleAppender">
    <target>System.err</target><encoder><pattern>%d{ISO8601} %-5p %m%n</pattern></encoder>
  </appender>
  <root level="INFO"><appender-ref ref="ERR"/></root>
</configuration>
"""


def zookeeper_command(plan: ProcessPlan) -> list[str]:
    """The argument vector of one server."""
    files = plan.data / "files"
    launch = Launch(
        argv=[
            *("java", *JVM, f"-Dlogback.configurationFile={files / 'logback.xml'}", "-cp", ZOOKEEPER.classpath()),
            *("org.apache.zookeeper.server.quorum.QuorumPeerMain", str(files / "zoo.cfg")),
        ],
        files={
            str(files / "logback.xml"): LOGGING,
            str(files / "zoo.cfg"): configuration(plan),
            str(plan.data / "zookeeper" / "myid"): f"{plan.member.id}\n",
        },
        look=f"{__name__}:look",
        about={"client": plan.listen[1]},
    )
    return launch.command()


def configuration(plan: ProcessPlan) -> str:
    """Returns the configuration of one server: times are short, as in runs of our own systems, and all else is the default."""
    own, quorum, election = plan.member.id, plan.further[QUORUM], plan.further[ELECTION]
    hosts = {own: plan.advertised[own][0], **{other: host for other, (host, _) in quorum.peers.items()}}
    values = {
        "tickTime": 500,
        "initLimit": 20,
        "syncLimit": 4,
        "maxSessionTimeout": 40_000,
        "maxClientCnxns": 0,
        "dataDir": plan.data / "zookeeper",
        "clientPortAddress": plan.listen[0],
        "clientPort": plan.listen[1],
        "quorumListenOnAllIPs": "true",
        "standaloneEnabled": "false",
        "admin.enableServer": "false",
        "4lw.commands.whitelist": "srvr",
        "preAllocSize": 4096,
        FORCE_SYNC: plan.mode.settings[FORCE_SYNC],
        **{f"server.{node}": f"{host}:{quorum.listen[1]}:{election.listen[1]}" for node, host in sorted(hosts.items())},
    }
    return "".join(f"{name}={value}\n" for name, value in values.items())


# -------------------------------------------------------------------- what a server tells of itself


def look(about: Mapping[str, Any]) -> Look | None:
    """One look of the watcher, at the server next to it."""
    try:
        answer = exchange_now(("127.0.0.1", about["client"]), STATUS, within_s=LOOKS_WITHIN_S)
    except NotAnswered:
        return None
    role, zxid = state_in(answer)
    return Look(serves=bool(answer), roles={SCOPE: (role, epoch_of(zxid))})


def state_in(answer: bytes) -> tuple[str, int]:
    """Returns role and last transaction of a server, of its answer to `srvr`; one that has no leader is looking for one."""
    fields = dict(line.partition(": ")[::2] for line in answer.decode(errors="replace").splitlines())
    try:
        mode, zxid = fields["Mode"], int(fields["Zxid"], 16)
    except (KeyError, ValueError):
        return LOOKING, 0
    return LEADER if mode == "leader" else mode, zxid


def epoch_of(zxid: int) -> int:
    """Returns the epoch of a leadership: the upper half of its transactions' numbers."""
    return zxid >> 32
