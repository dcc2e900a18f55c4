"""The adapter of ZooKeeper."""

from collections.abc import Callable, Mapping
from typing import ClassVar

from jepsen_like.checker.verdict import Model
from jepsen_like.port.file_damage import LogFiles
from jepsen_like.port.port import Access, Control, Mode, System
from jepsen_like.port.wires import Address, Network
from jepsen_like.systems.archives.catalogue import ZOOKEEPER
from jepsen_like.systems.foreign.connection import ForeignClients
from jepsen_like.systems.foreign.refusals import LIBRARY_UNTRIED, OF_OURS
from jepsen_like.systems.foreign.watching import observe
from jepsen_like.systems.zookeeper.clients import ERRORS, ZooConnection, ending_of
from jepsen_like.systems.zookeeper.control import ZooControl
from jepsen_like.systems.zookeeper.mode import REPLICATION, SERVES, ZooMode
from jepsen_like.systems.zookeeper.processes import ELECTION, QUORUM, zookeeper_command
from jepsen_like.systems.zookeeper.register_workload import ZooRegisterWorkload
from jepsen_like.workload.load import LoadPlan, RoutedLoad
from jepsen_like.workload.recorder import Recorder


class ZooKeeperSystem(System):
    """Servers of one ensemble; each holds all nodes.

    A server tells the others its own address, by which they dial it for elections. So only a network in which each has one
    address can cut all of its links.
    """

    name: ClassVar[str] = "zookeeper"
    replications: ClassVar[tuple[str, ...]] = (REPLICATION,)
    workloads: ClassVar[Mapping[str, Model]] = {"register": Model.REGISTER}
    serves: ClassVar[Mapping[str, str]] = SERVES
    member_role: ClassVar[str] = "server"
    networks: ClassVar[tuple[Network, ...]] = (Network.NAMESPACES,)
    further_ports: ClassVar[tuple[str, ...]] = (QUORUM, ELECTION)
    refused: ClassVar[Mapping[str, str]] = {**OF_OURS, **LIBRARY_UNTRIED}
    files: ClassVar[LogFiles] = LogFiles(segments="zookeeper/version-2/log.*", indexes="zookeeper/version-2/snapshot.*")
    configure = staticmethod(ZooMode.of)
    mode_of = staticmethod(ZooMode.of_test)
    command = staticmethod(zookeeper_command)
    observe = staticmethod(observe)

    def lacking(self) -> str | None:
        """Java and the jars."""
        mend = ZOOKEEPER.missing()
        return f"ZooKeeper is not on this machine, or Java is not; get it with: {mend}" if mend else None

    def control(
        self, mode: Mode, access: Access, direct: Mapping[int, Address], can_answer: Callable[[int], bool]
    ) -> Control:
        """By four-letter words."""
        return ZooControl(direct, can_answer)

    def load(
        self,
        mode: Mode,
        workload: str,
        recorder: Recorder,
        addresses: Mapping[int, Address],
        access: Access,
        plan: LoadPlan,
    ) -> RoutedLoad:
        """Clients of its own protocol, in Trio."""
        return RoutedLoad(
            ZooRegisterWorkload(), recorder, ForeignClients(addresses, ZooConnection.connect, ERRORS, ending_of), plan
        )
