"""The adapter of RabbitMQ."""

from collections.abc import Callable, Mapping
from typing import ClassVar

from jepsen_like.checker.verdict import Model
from jepsen_like.history.files import HistoryWriter
from jepsen_like.port.file_damage import LogFiles
from jepsen_like.port.port import Access, Control, Mode, System
from jepsen_like.port.scenario import NamedScenario
from jepsen_like.port.wires import Address, Network
from jepsen_like.systems.foreign.connection import ForeignClients
from jepsen_like.systems.foreign.refusals import LIBRARY_UNTRIED, OF_OURS
from jepsen_like.systems.foreign.watching import observe
from jepsen_like.systems.rabbitmq.clients import ERRORS, RabbitConnection, ending_of
from jepsen_like.systems.rabbitmq.control import RabbitControl
from jepsen_like.systems.rabbitmq.mode import REPLICATION, RabbitMode
from jepsen_like.systems.rabbitmq.processes import STATUS, find_server, rabbitmq_command
from jepsen_like.systems.rabbitmq.promises import SERVES
from jepsen_like.systems.rabbitmq.queue_workload import RabbitQueueWorkload, TakingRecorder
from jepsen_like.systems.rabbitmq.scenarios import SCENARIOS
from jepsen_like.workload.load import LoadPlan, RoutedLoad
from jepsen_like.workload.recorder import Recorder


class RabbitSystem(System):
    """Nodes of one cluster; each holds a copy of one queue.

    Nodes tell each other their ports, and dial each other by name. So only a network in which each has an address of its
    own can cut all of their links.
    """

    name: ClassVar[str] = "rabbitmq"
    replications: ClassVar[tuple[str, ...]] = (REPLICATION,)
    workloads: ClassVar[Mapping[str, Model]] = {"queue": Model.TOTAL_QUEUE}
    serves: ClassVar[Mapping[str, str]] = SERVES
    networks: ClassVar[tuple[Network, ...]] = (Network.NAMESPACES,)
    further_ports: ClassVar[tuple[str, ...]] = (STATUS,)
    slower_by_s: ClassVar[float] = 60.0
    refused: ClassVar[Mapping[str, str]] = {**OF_OURS, **LIBRARY_UNTRIED}
    files: ClassVar[LogFiles] = LogFiles(segments="rabbitmq/**/*.segment", indexes="rabbitmq/**/*.wal")
    scenarios: ClassVar[tuple[NamedScenario, ...]] = SCENARIOS
    recovers_in_s: ClassVar[float] = 20.0
    configure = staticmethod(RabbitMode.of)
    mode_of = staticmethod(RabbitMode.of_test)
    command = staticmethod(rabbitmq_command)
    observe = staticmethod(observe)

    def lacking(self) -> str | None:
        """RabbitMQ, as the system's packages have it."""
        if find_server() is None:
            return (
                "RabbitMQ is not on this machine; get it with: apt-get install --no-install-recommends rabbitmq-server"
            )
        return None

    def recorder(self, workload: str, history: HistoryWriter) -> Recorder:
        """A take that is not answered has taken nothing."""
        return TakingRecorder(history)

    def control(
        self, mode: Mode, access: Access, direct: Mapping[int, Address], can_answer: Callable[[int], bool]
    ) -> Control:
        """By the state that each node answers with."""
        assert isinstance(mode, RabbitMode)
        return RabbitControl(mode, access, direct, can_answer)

    def load(
        self,
        mode: Mode,
        workload: str,
        recorder: Recorder,
        addresses: Mapping[int, Address],
        access: Access,
        plan: LoadPlan,
    ) -> RoutedLoad:
        """Clients of AMQP 0-9-1, in Trio."""
        return RoutedLoad(
            RabbitQueueWorkload(),
            recorder,
            ForeignClients(addresses, RabbitConnection.connect, ERRORS, ending_of),
            plan,
        )
