"""The adapter of NATS."""

from collections.abc import Callable, Mapping
from typing import ClassVar

from jepsen_like.checker.verdict import Model
from jepsen_like.port.file_damage import LogFiles
from jepsen_like.port.port import Access, Control, Mode, Scope, System
from jepsen_like.port.scenario import NamedScenario
from jepsen_like.port.wires import Address
from jepsen_like.systems.archives.catalogue import NATS_SERVERS
from jepsen_like.systems.foreign.connection import ForeignClients
from jepsen_like.systems.foreign.refusals import GO_PROGRAM, OF_OURS
from jepsen_like.systems.foreign.watching import observe
from jepsen_like.systems.nats.clients import ERRORS, NatsConnection, ending_of
from jepsen_like.systems.nats.control import NatsControl
from jepsen_like.systems.nats.log_workload import StreamLogWorkload
from jepsen_like.systems.nats.mode import REPLICATION, NatsMode
from jepsen_like.systems.nats.processes import META_SCOPE, MONITOR, ROUTES, nats_command
from jepsen_like.systems.nats.promises import SERVES
from jepsen_like.systems.nats.scenarios import SCENARIOS
from jepsen_like.workload.load import LoadPlan, RoutedLoad
from jepsen_like.workload.recorder import Recorder


class NatsSystem(System):
    """Servers of one cluster; each holds a copy of one stream."""

    name: ClassVar[str] = "nats"
    replications: ClassVar[tuple[str, ...]] = (REPLICATION,)
    workloads: ClassVar[Mapping[str, Model]] = {"log": Model.LOG}
    serves: ClassVar[Mapping[str, str]] = SERVES
    member_role: ClassVar[str] = "server"
    further_ports: ClassVar[tuple[str, ...]] = (ROUTES, MONITOR)
    refused: ClassVar[Mapping[str, str]] = {
        kind: why for kind, why in {**OF_OURS, **GO_PROGRAM}.items() if kind not in SERVES
    }
    files: ClassVar[LogFiles] = LogFiles(segments="jetstream/**/streams/*/msgs/*.blk", indexes="jetstream/**/snap.*")
    scenarios: ClassVar[tuple[NamedScenario, ...]] = SCENARIOS
    own_scope: ClassVar[Scope | None] = META_SCOPE
    configure = staticmethod(NatsMode.of)
    mode_of = staticmethod(NatsMode.of_test)
    command = staticmethod(nats_command)
    observe = staticmethod(observe)

    def lacking(self) -> str | None:
        """The server in the version that is used by default."""
        mend = NATS_SERVERS[0].missing()
        return f"the server of NATS is not on this machine; get it with: {mend}" if mend else None

    def control(
        self, mode: Mode, access: Access, direct: Mapping[int, Address], can_answer: Callable[[int], bool]
    ) -> Control:
        """By monitor port and client protocol."""
        return NatsControl(access, direct, can_answer)

    def load(
        self,
        mode: Mode,
        workload: str,
        recorder: Recorder,
        addresses: Mapping[int, Address],
        access: Access,
        plan: LoadPlan,
    ) -> RoutedLoad:
        """Clients of the native protocol, in Trio."""
        return RoutedLoad(
            StreamLogWorkload(copies=len(addresses)),
            recorder,
            ForeignClients(addresses, NatsConnection.connect, ERRORS, ending_of),
            plan,
        )
