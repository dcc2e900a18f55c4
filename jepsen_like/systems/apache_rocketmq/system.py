"""The adapter of Apache RocketMQ: its own jars, with the load, the control and the promises of our RocketMQ system."""

from collections.abc import Callable, Mapping
from typing import Any, ClassVar

from jepsen_like.checker.verdict import Model
from jepsen_like.cluster.machine import Need
from jepsen_like.history.files import FINAL_LOGS, HistoryWriter
from jepsen_like.nemesis.table import KINDS
from jepsen_like.port.file_damage import LogFiles
from jepsen_like.port.port import Access, Control, Mode, System
from jepsen_like.port.scenario import NamedScenario
from jepsen_like.port.wires import Address, Network
from jepsen_like.systems.apache_rocketmq import processes
from jepsen_like.systems.apache_rocketmq.clients import ApacheClients
from jepsen_like.systems.apache_rocketmq.control import ApacheRocketControl
from jepsen_like.systems.apache_rocketmq.mode import ApacheRocketMode
from jepsen_like.systems.apache_rocketmq.promises import SERVES, ApacheReplication
from jepsen_like.systems.apache_rocketmq.scenarios import SCENARIOS
from jepsen_like.systems.archives.catalogue import APACHE_ROCKETMQ
from jepsen_like.systems.foreign.refusals import OF_OURS
from jepsen_like.systems.foreign.watching import observe
from jepsen_like.systems.rocketmq.client_settings import GROUP_WORKLOAD, LOG_WORKLOAD, PUSHED
from jepsen_like.systems.rocketmq.loads import Connecting, load_of, queue_of
from jepsen_like.systems.rocketmq.processes import members_of, name_servers
from jepsen_like.systems.rocketmq.promises import RocketReplication
from jepsen_like.systems.rocketmq.pushed_sink import PushedRecorder
from jepsen_like.workload.load import LoadPlan, RunningLoad
from jepsen_like.workload.recorder import Recorder

_WIPED = "what a master promises that comes back without its disk is not documented; use promote-by-hand"
_MAPPED = "it writes through mapped memory, past any library that is preloaded; flushes alone can be steered"


class ApacheRocketMqSystem(System):
    """Broker groups of Apache RocketMQ with a name server: masters with their slaves, or DLedger groups.

    Slaves copy topics from another port of their master, whose number follows from that which it tells. So only a network in
    which each broker has an address of its own can cut all of its links.
    """

    name: ClassVar[str] = "apache-rocketmq"
    replications: ClassVar[tuple[str, ...]] = tuple(each.value for each in ApacheReplication)
    replicates_like: ClassVar[Mapping[str, str]] = {RocketReplication.RAFT.value: ApacheReplication.DLEDGER.value}
    workloads: ClassVar[Mapping[str, Model]] = {LOG_WORKLOAD: Model.LOG, GROUP_WORKLOAD: Model.QUEUE}
    serves: ClassVar[Mapping[str, str]] = SERVES
    networks: ClassVar[tuple[Network, ...]] = (Network.NAMESPACES,)
    further_ports: ClassVar[tuple[str, ...]] = (processes.HA, processes.LEDGER)
    refused: ClassVar[Mapping[str, str]] = {
        **{kind: why for kind, why in OF_OURS.items() if kind != "promote-by-hand"},
        "wipe-master": _WIPED,
        **{kind.name: _MAPPED for kind in KINDS.values() if Need.LIBRARY in kind.needs and kind.name not in SERVES},
    }
    files: ClassVar[LogFiles] = LogFiles(
        segments=f"{processes.STORE}/**/commitlog/*", indexes=f"{processes.STORE}/consumequeue/**/*"
    )
    scenarios: ClassVar[tuple[NamedScenario, ...]] = SCENARIOS
    recovers_in_s: ClassVar[float] = 25.0
    slower_by_s: ClassVar[float] = 90.0
    configure = staticmethod(ApacheRocketMode.of)
    mode_of = staticmethod(ApacheRocketMode.of_test)
    members = staticmethod(members_of)
    members_in_zones = staticmethod(members_of)
    command = staticmethod(processes.command_of)
    observe = staticmethod(observe)

    def lacking(self) -> str | None:
        """Java and the jars."""
        mend = APACHE_ROCKETMQ.missing()
        return f"Apache RocketMQ is not on this machine, or Java is not; get it with: {mend}" if mend else None

    def address_line(self, addresses: Mapping[int, Address]) -> str:
        """Returns what clients of RocketMQ are given."""
        return f"namesrvAddr={name_servers(addresses, 0)}"

    def control(
        self, mode: Mode, access: Access, direct: Mapping[int, Address], can_answer: Callable[[int], bool]
    ) -> Control:
        """By the remoting protocol, and DLedger's."""
        assert isinstance(mode, ApacheRocketMode)
        return ApacheRocketControl(mode, access, direct, can_answer)

    def describe(self, mode: Mode, workload: str) -> Mapping[str, Any]:
        """Which queues each group has, of how many brokers the final queues are compared, and what the check of a queue expects."""
        assert isinstance(mode, ApacheRocketMode)
        groups = mode.division
        scopes = {name: list(groups.objects(number, mode.queues)) for number, name in enumerate(groups.scopes)}
        logs = {} if mode.copies_agree else {FINAL_LOGS: mode.pairs}
        client = mode.client_of(self.workloads[workload])
        return {**logs, "scopes": scopes, "client": client, **queue_of(mode, workload)}

    def recorder(self, workload: str, history: HistoryWriter) -> Recorder:
        """A queue's where messages are pushed."""
        return PushedRecorder(history) if workload in PUSHED else Recorder(history)

    def load(
        self,
        mode: Mode,
        workload: str,
        recorder: Recorder,
        addresses: Mapping[int, Address],
        access: Access,
        plan: LoadPlan,
    ) -> RunningLoad:
        """Our own clients of the remoting protocol."""
        assert isinstance(mode, ApacheRocketMode)
        return load_of(mode, workload, recorder, addresses, plan, Connecting(clients=ApacheClients))
