"""The adapter of an etcd cluster that others run: registers under a prefix of the run's own."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

from jepsen_like.checker.verdict import Model
from jepsen_like.port.port import Access, Control, Mode, RunningCluster, WrongMode
from jepsen_like.port.wires import Address
from jepsen_like.systems.etcd.clients import ERRORS, ending_of
from jepsen_like.systems.etcd.mode import REPLICATION, EtcdMode
from jepsen_like.systems.etcd.register_workload import EtcdRegisterWorkload
from jepsen_like.systems.etcd.settings import EtcdSettings
from jepsen_like.systems.etcd.system import EtcdSystem
from jepsen_like.systems.etcd_target.access import EtcdAccess
from jepsen_like.systems.etcd_target.control import EtcdTargetControl, addresses_of, prefix_of
from jepsen_like.systems.foreign.connection import ForeignClients
from jepsen_like.systems.target.system import TargetSystem
from jepsen_like.workload.load import LoadPlan, RoutedLoad
from jepsen_like.workload.recorder import Recorder


class EtcdTarget(TargetSystem, EtcdSystem):
    """A cluster that runs already."""

    name: ClassVar[str] = "target-etcd"
    workloads: ClassVar[Mapping[str, Model]] = {"register": Model.REGISTER}
    recovers_in_s: ClassVar[float] = 10.0
    """An election with the timeouts of a cluster whose members are far from each other."""

    @staticmethod
    def configure(words: Sequence[str], replication: str = REPLICATION) -> EtcdMode:
        """Returns the mode with etcd's own settings. Raises `WrongMode` for any word."""
        if words:
            raise WrongMode(f"--set: {words[0]} is not the run's to set on a cluster that runs already")
        return EtcdMode(EtcdSettings(), settings={})

    @staticmethod
    def mode_of(test: Mapping[str, Any]) -> EtcdMode:
        """See `configure`."""
        return EtcdMode(EtcdSettings(), settings=test["settings"])

    async def find_members(self, target: RunningCluster) -> Mapping[int, Address]:
        """The members that those at the given addresses list."""
        return await addresses_of(target)

    def control(
        self, mode: Mode, access: Access, direct: Mapping[int, Address], can_answer: Callable[[int], bool]
    ) -> Control:
        """By the gateway for JSON, as the file of properties demands."""
        return EtcdTargetControl(access, direct)

    def load(
        self,
        mode: Mode,
        workload: str,
        recorder: Recorder,
        addresses: Mapping[int, Address],
        access: Access,
        plan: LoadPlan,
    ) -> RoutedLoad:
        """Clients of the gateway for JSON, in Trio."""
        assert access.target is not None
        keys = EtcdRegisterWorkload(prefix=prefix_of(access.cluster_id))
        clients = ForeignClients(addresses, EtcdAccess.of(access.target).connect, ERRORS, ending_of)
        return RoutedLoad(keys, recorder, clients, plan)
