"""The adapter of RocketMQ's broker groups."""

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, ClassVar

from jepsen_like.checker.verdict import Model
from jepsen_like.history.files import FINAL_LOGS, HistoryWriter
from jepsen_like.port.file_damage import Absence, LogFiles
from jepsen_like.port.port import Access, Control, Mode, System
from jepsen_like.port.scenario import NamedScenario
from jepsen_like.port.wires import Address
from jepsen_like.port.witness import Witness
from jepsen_like.systems.rocketmq import processes
from jepsen_like.systems.rocketmq.client_settings import GROUP_WORKLOAD, LOG_WORKLOAD, ORDER_WORKLOAD, PUSHED
from jepsen_like.systems.rocketmq.control import RocketControl
from jepsen_like.systems.rocketmq.loads import Connecting, load_of, queue_of
from jepsen_like.systems.rocketmq.mode import RocketMode
from jepsen_like.systems.rocketmq.promises import SERVES, RocketReplication
from jepsen_like.systems.rocketmq.pushed_sink import PushedRecorder
from jepsen_like.systems.rocketmq.scenarios import SCENARIOS
from jepsen_like.systems.rocketmq.states import copies_of
from jepsen_like.systems.secret_of import SecretFileSteps, keep_secret
from jepsen_like.workload.load import LoadPlan, RunningLoad
from jepsen_like.workload.recorder import Recorder
from raft.secret_file import read_secret


class RocketMqSystem(System):
    """Broker groups with a name server: masters with their slaves, or raft groups."""

    name: ClassVar[str] = "rocketmq"
    replications: ClassVar[tuple[str, ...]] = tuple(each.value for each in RocketReplication)
    replicates_like: ClassVar[Mapping[str, str]] = {"dledger": RocketReplication.RAFT.value}
    workloads: ClassVar[Mapping[str, Model]] = {
        LOG_WORKLOAD: Model.LOG,
        ORDER_WORKLOAD: Model.QUEUE,
        GROUP_WORKLOAD: Model.QUEUE,
    }
    serves: ClassVar[Mapping[str, str]] = SERVES
    refused: ClassVar[Mapping[str, str]] = {
        "wipe": "a voter of a raft group without its log and its vote would vote once more; a master's disk is lost by wipe-master",
        "shrink-isr": "rocketmq has no set of replicas in sync that a fault could shrink; use partition",
        "clock-jump": "messages have the time of a wall clock in them, which is not judged",
        "clock-drift": "messages have the time of a wall clock in them, which is not judged",
        "disk-full": "a broker whose disk is full ends, and its group waits for an operator",
        "disk-error": "a broker whose disk fails ends, and its group waits for an operator",
    }
    files: ClassVar[LogFiles] = LogFiles(
        segments="**/*.log",
        indexes="index/*",
        copies=("commitlog", "consumequeue/*"),
        checkpoints=("copy", "dispatched", "commitlog/logs/*/durable", "commitlog/logs/*/manifest", "config/*.json"),
        absences=(Absence.COPY, Absence.SEGMENT, Absence.CHECKPOINT, Absence.INDEX, Absence.DISK),
    )

    scenarios: ClassVar[tuple[NamedScenario, ...]] = SCENARIOS
    configure = staticmethod(RocketMode.of)
    mode_of = staticmethod(RocketMode.of_test)
    members = staticmethod(processes.members_of)
    members_in_zones = staticmethod(processes.members_of)
    command = staticmethod(processes.command_of)
    keep_secret = staticmethod(keep_secret)
    secret_steps = SecretFileSteps
    observe = staticmethod(processes.observe)

    def address_line(self, addresses: Mapping[int, Address]) -> str:
        """Returns what clients of RocketMQ are given."""
        return f"namesrvAddr={processes.name_servers(addresses, 0)}"

    def control(
        self, mode: Mode, access: Access, direct: Mapping[int, Address], can_answer: Callable[[int], bool]
    ) -> Control:
        """By the remoting protocol."""
        assert isinstance(mode, RocketMode)
        return RocketControl(mode, direct, can_answer)

    def witness(self, control: Control, mode: Mode, access: Access, nodes: Iterable[int]) -> Witness:
        """By the queues of every copy."""
        from jepsen_like.testing.rocketmq.witness import RocketWitness, operator_of  # it stands on this adapter

        assert isinstance(control, RocketControl)
        assert isinstance(mode, RocketMode)
        assert access.secret is not None, "each cluster gets one"
        return RocketWitness(control, operator_of(read_secret(access.secret), mode.given))

    def recorder(self, workload: str, history: HistoryWriter) -> Recorder:
        """A queue's where messages are pushed."""
        return PushedRecorder(history) if workload in PUSHED else Recorder(history)

    def describe(self, mode: Mode, workload: str) -> Mapping[str, Any]:
        """Which client it is, which queues each group has, of how many brokers the final queues are compared, and what the check of a queue expects."""
        assert isinstance(mode, RocketMode)
        logs = {} if mode.copies_agree else {FINAL_LOGS: mode.pairs}
        groups = mode.division
        scopes = {name: list(groups.objects(number, mode.queues)) for number, name in enumerate(groups.scopes)}
        return {
            **logs,
            "scopes": scopes,
            "client": mode.client_of(self.workloads[workload]),
            **queue_of(mode, workload),
        }

    def keep_states(self, directory: Path, workload: str) -> None:
        """Roles, ends and confirmed ends of the copies, as the brokers told them."""
        copies_of(directory / "nodes").write(directory)

    def load(
        self,
        mode: Mode,
        workload: str,
        recorder: Recorder,
        addresses: Mapping[int, Address],
        access: Access,
        plan: LoadPlan,
    ) -> RunningLoad:
        """Clients of the remoting protocol: our own in Trio, or the C++ client in processes of its own."""
        assert isinstance(mode, RocketMode)
        return load_of(mode, workload, recorder, addresses, plan, Connecting(tls=access.tls))
