"""The adapter of the raft system."""

from collections.abc import Callable, Iterable, Mapping
from typing import ClassVar

from jepsen_like.checker.verdict import Model
from jepsen_like.port.file_damage import Absence, LogFiles
from jepsen_like.port.port import Access, Control, Mode, System
from jepsen_like.port.scenario import NamedScenario
from jepsen_like.port.wires import Address
from jepsen_like.port.witness import Witness
from jepsen_like.systems.raft import processes
from jepsen_like.systems.raft.clients import RaftClients
from jepsen_like.systems.raft.control import RaftControl
from jepsen_like.systems.raft.log_workload import LogWorkload
from jepsen_like.systems.raft.mode import RaftMode
from jepsen_like.systems.raft.promises import SERVES, Replication
from jepsen_like.systems.raft.register_workload import RaftRegisterWorkload
from jepsen_like.systems.raft.scenarios import SCENARIOS
from jepsen_like.systems.secret_of import SecretFileSteps, keep_secret
from jepsen_like.workload.load import LoadPlan, RoutedLoad
from jepsen_like.workload.model import Workload
from jepsen_like.workload.recorder import Recorder


class RaftSystem(System):
    """Nodes of one replicated log; each process is a node."""

    name: ClassVar[str] = "raft"
    replications: ClassVar[tuple[str, ...]] = tuple(each.value for each in Replication)
    workloads: ClassVar[Mapping[str, Model]] = {"log": Model.LOG, "register": Model.REGISTER}
    serves: ClassVar[Mapping[str, str]] = SERVES
    fault_settings: ClassVar[Mapping[str, tuple[str, ...]]] = {
        "disk-full": ("reserve_bytes=4096",),
        "damage": ("segment_bytes_max=262144",),
        "vanish": ("segment_bytes_max=262144",),
    }
    refused: ClassVar[Mapping[str, str]] = {
        "wipe": "a voter without its log and its vote would vote once more; use damage",
        "wipe-master": "a voter without its log and its vote would vote once more; use damage",
        "promote-by-hand": "its nodes elect their leader themselves; use kill",
        "shrink-isr": "raft has no set of replicas in sync; use partition",
    }
    files: ClassVar[LogFiles] = LogFiles(
        segments="*.log",
        indexes="*.index",
        damage_status=4,
        damage_words=" is damaged at byte ",
        checkpoints=("durable", "identity.json"),
        absences=(Absence.SEGMENT, Absence.CHECKPOINT, Absence.INDEX, Absence.DISK),
    )
    scenarios: ClassVar[tuple[NamedScenario, ...]] = SCENARIOS
    clients_need_secret: ClassVar[bool] = True
    configure = staticmethod(RaftMode.of)
    mode_of = staticmethod(RaftMode.of_test)
    command = staticmethod(processes.raft_command)
    keep_secret = staticmethod(keep_secret)
    secret_steps = SecretFileSteps
    observe = staticmethod(processes.observe)

    def control(
        self, mode: Mode, access: Access, direct: Mapping[int, Address], can_answer: Callable[[int], bool]
    ) -> Control:
        """By the native protocol."""
        return RaftControl(access, direct, can_answer)

    def witness(self, control: Control, mode: Mode, access: Access, nodes: Iterable[int]) -> Witness:
        """As the fixtures check."""
        from jepsen_like.testing.witness import RaftWitness  # it stands on this adapter

        assert isinstance(control, RaftControl)
        assert isinstance(mode, RaftMode)
        return RaftWitness(control, nodes, mode.effective.retention)

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
        expires = mode.keep_rule(()).may_expire
        workloads: Mapping[str, Callable[[], Workload]] = {
            "log": lambda: LogWorkload(expires=expires),
            "register": RaftRegisterWorkload,
        }
        return RoutedLoad(workloads[workload](), recorder, RaftClients(addresses, access), plan)
