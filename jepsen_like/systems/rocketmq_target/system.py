"""The adapter of a RocketMQ cluster that others run: our load, record and judge, and nothing of it started here."""

from collections.abc import Callable, Mapping
from typing import ClassVar

from jepsen_like.checker.verdict import Model
from jepsen_like.port.port import Access, Control, Mode, RunningCluster
from jepsen_like.port.wires import Address
from jepsen_like.systems.apache_rocketmq.promises import ApacheReplication
from jepsen_like.systems.apache_rocketmq.system import ApacheRocketMqSystem
from jepsen_like.systems.rocketmq.client_settings import LOG_WORKLOAD
from jepsen_like.systems.rocketmq.log_workload import QueueWorkload
from jepsen_like.systems.rocketmq_target.clients import TargetClients, access_to
from jepsen_like.systems.rocketmq_target.control import RocketTargetControl, addresses_of
from jepsen_like.systems.rocketmq_target.mode import RocketTargetMode
from jepsen_like.systems.target.system import TargetSystem, name_of
from jepsen_like.workload.load import LoadPlan, RoutedLoad
from jepsen_like.workload.recorder import Recorder


class RocketTarget(TargetSystem, ApacheRocketMqSystem):
    """A cluster that runs already, of Apache's brokers or ours."""

    name: ClassVar[str] = "target-rocketmq"
    replications: ClassVar[tuple[str, ...]] = (
        ApacheReplication.ASYNC_SLAVE.value,
        ApacheReplication.SYNC_SLAVE.value,
        ApacheReplication.DLEDGER.value,
        ApacheReplication.CONTROLLER.value,
    )
    workloads: ClassVar[Mapping[str, Model]] = {LOG_WORKLOAD: Model.LOG}
    configure = staticmethod(RocketTargetMode.of)
    mode_of = staticmethod(RocketTargetMode.of_test)

    async def find_members(self, target: RunningCluster) -> Mapping[int, Address]:
        """The brokers that the name servers know."""
        return await addresses_of(target)

    def control(
        self, mode: Mode, access: Access, direct: Mapping[int, Address], can_answer: Callable[[int], bool]
    ) -> Control:
        """By the remoting protocol, with the account of the file of properties."""
        assert isinstance(mode, RocketTargetMode)
        return RocketTargetControl(mode, access, direct, can_answer)

    def load(
        self,
        mode: Mode,
        workload: str,
        recorder: Recorder,
        addresses: Mapping[int, Address],
        access: Access,
        plan: LoadPlan,
    ) -> RoutedLoad:
        """Our own clients of the remoting protocol."""
        assert isinstance(mode, RocketTargetMode)
        assert access.target is not None
        clients = TargetClients(addresses, access_to(access.target), name_of(access.cluster_id))
        return RoutedLoad(QueueWorkload(mode.pairs, mode.queues), recorder, clients, plan, mode.division.all())
