"""The adapter of etcd."""

import os
from collections.abc import Callable, Mapping
from typing import ClassVar

from jepsen_like.checker.verdict import Model
from jepsen_like.port.file_damage import LogFiles
from jepsen_like.port.port import Access, Control, Mode, System
from jepsen_like.port.scenario import NamedScenario
from jepsen_like.port.wires import Address
from jepsen_like.systems.archives.catalogue import ETCDS
from jepsen_like.systems.etcd.clients import ERRORS, ending_of
from jepsen_like.systems.etcd.control import EtcdControl
from jepsen_like.systems.etcd.mode import REPLICATION, SERVES, EtcdMode
from jepsen_like.systems.etcd.processes import PEERS, etcd_command
from jepsen_like.systems.etcd.register_workload import GUARDS, EtcdRegisterWorkload
from jepsen_like.systems.etcd.scenarios import GUARDED, SCENARIOS
from jepsen_like.systems.foreign.connection import ForeignClients
from jepsen_like.systems.foreign.json_client import JsonConnection
from jepsen_like.systems.foreign.refusals import GO_PROGRAM, OF_OURS
from jepsen_like.systems.foreign.watching import observe
from jepsen_like.workload.load import LoadPlan, RoutedLoad
from jepsen_like.workload.recorder import Recorder


class EtcdSystem(System):
    """Members of one cluster; each holds all keys."""

    name: ClassVar[str] = "etcd"
    replications: ClassVar[tuple[str, ...]] = (REPLICATION,)
    workloads: ClassVar[Mapping[str, Model]] = {"register": Model.REGISTER, GUARDED: Model.REGISTER}
    serves: ClassVar[Mapping[str, str]] = SERVES
    member_role: ClassVar[str] = "member"
    further_ports: ClassVar[tuple[str, ...]] = (PEERS,)
    refused: ClassVar[Mapping[str, str]] = {**OF_OURS, **GO_PROGRAM}
    files: ClassVar[LogFiles] = LogFiles(segments="etcd/member/wal/*.wal", indexes="etcd/member/snap/db")
    scenarios: ClassVar[tuple[NamedScenario, ...]] = SCENARIOS
    configure = staticmethod(EtcdMode.of)
    mode_of = staticmethod(EtcdMode.of_test)
    command = staticmethod(etcd_command)
    observe = staticmethod(observe)

    def lacking(self) -> str | None:
        """The version that is used by default, and the right to give each member its own names for the others."""
        if mend := ETCDS[0].missing():
            return f"etcd is not on this machine; get it with: {mend}"
        if os.geteuid() != 0:
            return "members of etcd know each other by one address each, and only root can let a name stand for several; run as root"
        return None

    def control(
        self, mode: Mode, access: Access, direct: Mapping[int, Address], can_answer: Callable[[int], bool]
    ) -> Control:
        """By its gateway for JSON."""
        return EtcdControl(direct, can_answer)

    def load(
        self,
        mode: Mode,
        workload: str,
        recorder: Recorder,
        addresses: Mapping[int, Address],
        access: Access,
        plan: LoadPlan,
    ) -> RoutedLoad:
        """Clients of its gateway for JSON, in Trio."""
        guards = GUARDS if workload == GUARDED else 0
        return RoutedLoad(
            EtcdRegisterWorkload(guards=guards),
            recorder,
            ForeignClients(addresses, JsonConnection.connect, ERRORS, ending_of),
            plan,
        )
