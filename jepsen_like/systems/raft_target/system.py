"""The adapter of a raft group that others run: our records in their log."""

from collections.abc import Callable, Mapping
from typing import ClassVar

from jepsen_like.checker.verdict import Model
from jepsen_like.port.port import Access, Control, Mode, RunningCluster
from jepsen_like.port.wires import Address
from jepsen_like.systems.raft.system import RaftSystem
from jepsen_like.systems.raft_target.access import RaftAccess
from jepsen_like.systems.raft_target.control import RaftTargetControl, addresses_of, codec_of
from jepsen_like.systems.raft_target.load import SharedLoad
from jepsen_like.systems.raft_target.mode import mode_of
from jepsen_like.systems.target.system import TargetSystem
from jepsen_like.workload.load import LoadPlan, RoutedLoad
from jepsen_like.workload.recorder import Recorder


class RaftTarget(TargetSystem, RaftSystem):
    """A group that runs already."""

    name: ClassVar[str] = "target-raft"
    workloads: ClassVar[Mapping[str, Model]] = {"log": Model.LOG}
    recovers_in_s: ClassVar[float] = 10.0
    """An election with the timeouts of a group whose nodes are far from each other."""
    configure = staticmethod(mode_of)

    async def find_members(self, target: RunningCluster) -> Mapping[int, Address]:
        """The nodes that those at the given addresses know."""
        return await addresses_of(target)

    def control(
        self, mode: Mode, access: Access, direct: Mapping[int, Address], can_answer: Callable[[int], bool]
    ) -> Control:
        """By the native protocol, as the file of properties demands."""
        return RaftTargetControl(access, direct)

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
        assert access.target is not None
        clients = RaftAccess.of(access.target).clients(addresses)
        return SharedLoad(recorder, clients, plan, access.part, codec_of(access.cluster_id))
