"""The processes of Apache RocketMQ: how a name server and a broker are started, and what their watchers read of them.

A broker tells the name server its addresses, by which clients reach it, and slaves copy all from it.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from jepsen_like.port.observations import LEADER
from jepsen_like.port.port import NotServing, ProcessPlan
from jepsen_like.port.wires import Address, text_of
from jepsen_like.systems.apache_rocketmq import brokers, controllers
from jepsen_like.systems.apache_rocketmq.brokers import LedgerMember
from jepsen_like.systems.apache_rocketmq.mode import ApacheRocketMode
from jepsen_like.systems.archives.catalogue import apache_rocketmq
from jepsen_like.systems.archives.jars import JarSet
from jepsen_like.systems.foreign.launch import Launch
from jepsen_like.systems.foreign.watching import Look
from jepsen_like.systems.rocketmq.processes import ALL_IN_TURN, NAMESERVER, name_servers

HA, LEDGER = "ha", "ledger"
"""The ports of a broker besides the one for clients and other brokers: records for slaves, and DLedger's."""
CLUSTER: Final = "quorumlog"
STORE: Final = "store"
CONTROLLER_STORE: Final = "controller"
FILES: Final = "files"
FOLLOWER: Final = "follower"
LOOKS_WITHIN_S: Final = 1.0
JVM: Final = (
    *("-Xms256m", "-Xmx256m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-XX:MaxDirectMemorySize=256m"),
    *("--add-exports=java.base/jdk.internal.ref=ALL-UNNAMED", "--add-exports=java.base/sun.nio.ch=ALL-UNNAMED"),
)
"""Small and quick to start: three brokers and a name server share two cores with their clients."""
CONTROLLER_JVM: Final = ("-Xms64m", "-Xmx128m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")
CONTROLLER_TIMES: Final = {"scanNotActiveBrokerInterval": "1000", "scanInactiveMasterInterval": "1000"}
BROKER_TIMES: Final = {
    "brokerHeartbeatInterval": "500",
    "controllerHeartBeatTimeoutMills": "3000",
    "syncBrokerMetadataPeriod": "500",
    "syncControllerMetadataPeriod": "500",
    "checkSyncStateSetPeriod": "500",
    "haMaxTimeSlaveNotCatchup": "3000",
}
"""Sessions and lags of three seconds, so that faults of a run outlast them, and a busy machine seldom does."""
MEMBERS_EXPIRE: Final = {"channelExpiredTimeout": "10000"}
"""A broker may read a member's heartbeat after their connection has ended. It gives the member queues for so long, and by default for 120 s."""
SMALL: Final = {
    "mappedFileSizeCommitLog": str(32 * 1024 * 1024),
    "messageIndexEnable": "false",
    "timerWheelEnable": "false",
}
"""Files are made in full and ahead, so their defaults ask for a disk of gigabytes; nothing here looks messages up by key."""
LOGGING: Final = """<configuration>
  <appender name="ERR" class="ch.qos.logback.core.ConsoleAppender">
    <target>System.err</target><encoder><pattern>%d{ISO8601} %-5p %t - %m%n</pattern></encoder>
  </appender>
  <logger name="RocketmqRemoting" level="WARN"/>
  <logger name="RocketmqConsole" level="WARN"/>
  <root level="INFO"><appender-ref ref="ERR"/></root>
</configuration>
"""


def ledger_id(node: int) -> str:
    """Returns the name of a broker in its DLedger group."""
    return f"n{node}"


def command_of(plan: ProcessPlan) -> list[str]:
    """The argument vector of one process. A broker of a group with a controller has one of the controllers next to it.

    Raises `NotServing` if the version is not in the cache.
    """
    assert isinstance(plan.mode, ApacheRocketMode)
    jars = apache_rocketmq(plan.mode.version)
    if mend := jars.missing():
        raise NotServing(f"Apache RocketMQ {jars.version} is not on this machine; get it with: {mend}")
    files = plan.data / FILES
    is_broker = plan.member.role != NAMESERVER
    main = "broker.BrokerStartup" if is_broker else "namesrv.NamesrvStartup"
    written = {"settings.conf": broker_settings(plan, plan.mode) if is_broker else nameserver_settings(plan)}
    beside = []
    if is_broker and plan.mode.has_controller:
        written["controller.conf"] = controller_settings(plan, plan.mode)
        beside.append(_java(plan, jars, CONTROLLER_JVM, "controller.ControllerStartup", "controller.conf"))
    launch = Launch(
        argv=_java(plan, jars, JVM, main, "settings.conf"),
        files={
            str(files / "logback.xml"): LOGGING,
            **{
                str(files / name): "".join(f"{key}={value}\n" for key, value in settings.items())
                for name, settings in written.items()
            },
        },
        look=f"{__name__}:{'look_at_broker' if is_broker else 'look_at_nameserver'}",
        about=about_broker(plan, plan.mode) if is_broker else {"port": plan.listen[1]},
        beside=beside,
    )
    return launch.command()


def _java(plan: ProcessPlan, jars: JarSet, options: Sequence[str], main: str, settings: str) -> list[str]:
    files = plan.data / FILES
    places = {
        "user.home": plan.data,
        "rocketmq.home.dir": plan.data,
        "rmq.logback.configurationFile": files / "logback.xml",
    }
    words = ["java", *options, *(f"-D{name}={path}" for name, path in places.items())]
    return [*words, "-cp", jars.classpath(), f"org.apache.rocketmq.{main}", "-c", str(files / settings)]


def nameserver_settings(plan: ProcessPlan) -> dict[str, str]:
    """Returns the lines of a name server's configuration."""
    return {"listenPort": str(plan.listen[1]), "bindAddress": plan.listen[0]}


def broker_settings(plan: ProcessPlan, mode: ApacheRocketMode) -> dict[str, str]:
    """Returns the lines of a broker's configuration: what a mode means, a run's short times, and what was given."""
    node, groups = plan.member.id, mode.division
    number = groups.number_of(node)
    settings = {
        **dict(word.split("=", 1) for word in ALL_IN_TURN),
        **SMALL,
        **MEMBERS_EXPIRE,
        **(BROKER_TIMES if mode.has_controller else {}),
        **mode.for_brokers,
        "brokerClusterName": CLUSTER,
        "brokerName": groups.scopes[number],
        "brokerIP1": plan.advertised[node][0],
        "brokerIP2": plan.advertised[node][0],
        "bindAddress": plan.listen[0],
        "listenPort": str(plan.listen[1]),
        "haListenPort": str(plan.further[HA].listen[1]),
        "namesrvAddr": name_servers(plan.peers, mode.nodes),
        "storePathRootDir": str(plan.data / STORE),
        "totalReplicas": str(groups.size),
    }
    if mode.has_controller:
        addresses = ";".join(text_of(way) for way in _controllers(plan, mode).values())
        return settings | {"enableControllerMode": "true", "controllerAddr": addresses, "brokerRole": "SLAVE"}
    if mode.is_ledger:
        ledger = plan.further[LEDGER]
        ways = {each: ledger.listen if each == node else ledger.peers[each] for each in groups.members(number)}
        return settings | {
            "enableDLegerCommitLog": "true",
            "dLegerGroup": groups.scopes[number],
            "dLegerSelfId": ledger_id(node),
            "dLegerPeers": ";".join(f"{ledger_id(each)}-{text_of(way)}" for each, way in ways.items()),
        }
    master = groups.master(number, plan.promoted)
    if node == master:
        return settings | {"brokerRole": mode.master_role, "brokerId": "0"}
    return settings | {"brokerRole": "SLAVE", "brokerId": str(node)}


def controller_settings(plan: ProcessPlan, mode: ApacheRocketMode) -> dict[str, str]:
    """Returns the lines of a controller's configuration. One port takes what controllers send each other, and what brokers ask."""
    return {
        **CONTROLLER_TIMES,
        **mode.for_controllers,
        "controllerDLegerGroup": "controllers",
        "controllerDLegerSelfId": ledger_id(plan.member.id),
        "controllerDLegerPeers": ";".join(
            f"{ledger_id(each)}-{text_of(way)}" for each, way in _controllers(plan, mode).items()
        ),
        "controllerStorePath": str(plan.data / CONTROLLER_STORE),
        "mappedFileSize": SMALL["mappedFileSizeCommitLog"],
    }


def _controllers(plan: ProcessPlan, mode: ApacheRocketMode) -> dict[int, Address]:
    """Returns where all reach the controller next to each broker; a leader tells its own address to brokers."""
    ledger, own = plan.further[LEDGER], plan.member.id
    here = (plan.advertised[own][0], ledger.listen[1])
    return {each: here if each == own else ledger.peers[each] for each in range(1, mode.nodes + 1)}


# -------------------------------------------------------------------- what they tell of themselves


def ledger_member(mode: ApacheRocketMode, node: int) -> LedgerMember:
    """Returns a broker as a member of its DLedger group."""
    number = mode.division.number_of(node)
    other = next((each for each in mode.division.members(number) if each != node), node)
    return LedgerMember(group=mode.division.scopes[number], member=ledger_id(node), other=ledger_id(other))


def about_broker(plan: ProcessPlan, mode: ApacheRocketMode) -> dict[str, Any]:
    """Returns what the watcher of a broker is told."""
    member = ledger_member(mode, plan.member.id)
    ledger = plan.further[LEDGER].listen[1] if mode.is_ledger else 0
    return {
        "port": plan.listen[1],
        "ledger": ledger,
        "has_controller": mode.has_controller,
        "group": member.group,
        "member": member.member,
        "other": member.other,
    }


def look_at_nameserver(about: Mapping[str, Any]) -> Look | None:
    """One look of the watcher, at the name server next to it."""
    try:
        brokers.ask_now(("127.0.0.1", about["port"]), brokers.CLUSTER, within_s=LOOKS_WITHIN_S)
    except brokers.NOT_ANSWERED:
        return None
    return Look(serves=True)


def look_at_broker(about: Mapping[str, Any]) -> Look | None:
    """One look of the watcher, at the broker next to it."""
    here = ("127.0.0.1", about["port"])
    try:
        config = brokers.config_of(brokers.ask_now(here, brokers.CONFIG, within_s=LOOKS_WITHIN_S))
        if about["has_controller"]:
            epochs = brokers.ask_now(here, controllers.EPOCHS, within_s=LOOKS_WITHIN_S)
            leads, epoch = config[brokers.ROLE] != "SLAVE", controllers.epoch_of(epochs)
        elif about["ledger"]:
            member = LedgerMember(group=about["group"], member=about["member"], other=about["other"])
            requests = (member.metadata(), member.outdated_heartbeat())
            way = ("127.0.0.1", about["ledger"])
            leads, epoch = member.role(*(brokers.ask_now(way, each, within_s=LOOKS_WITHIN_S) for each in requests))
        else:
            leads, epoch = config[brokers.ROLE] != "SLAVE", brokers.FIXED_EPOCH
    except brokers.NOT_ANSWERED:
        return None
    return Look(serves=True, roles={about["group"]: (LEADER if leads else FOLLOWER, epoch)})
