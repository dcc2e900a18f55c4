"""The harness takes what a broker of Apache RocketMQ tells as it is."""

import json
from collections.abc import Sequence

from jepsen_like.port.port import Access
from jepsen_like.systems.apache_rocketmq.control import ApacheRocketControl
from jepsen_like.systems.apache_rocketmq.mode import ApacheRocketMode
from jepsen_like.systems.apache_rocketmq.processes import LEDGER
from jepsen_like.systems.rocketmq.clients import Pulled
from jepsen_like.systems.rocketmq.control import RocketControl
from jepsen_like.systems.rocketmq.mode import RocketMode
from rocketmq_compat.remoting.frame import Command

NODES = {node: ("10.0.0.1", 100 + node) for node in (1, 2, 3)}


def test_a_queue_that_lacks_messages_is_dumped_and_one_of_ours_is_refused() -> None:
    apache = ApacheRocketMode.of([], "dledger").on(3)
    assert isinstance(apache, ApacheRocketMode)
    nothing = Pulled(5, ())
    assert ApacheRocketControl(apache, Access("run-1", further={LEDGER: NODES}), NODES).shows(5, nothing)
    assert not RocketControl(RocketMode.of([], "raft").on(3), NODES).shows(5, nothing)


class Controlled(ApacheRocketControl):
    """Of brokers 1 to 3, whose controllers answer with `told`."""

    def __init__(self, *told: dict[str, object]) -> None:
        mode = ApacheRocketMode.of([], "controller").on(3)
        assert isinstance(mode, ApacheRocketMode)
        super().__init__(mode, Access("run-1", further={LEDGER: NODES}), NODES)
        self._members = {f"a{node}:1": node for node in NODES}
        self.told = told

    async def _ask_leading(self, request: Command) -> Sequence[Command]:
        tables = ({"replicasInfoTable": {"broker-a": state}} for state in self.told)
        return tuple(Command(0, body=json.dumps(table).encode()) for table in tables)


def state(master: int, *in_sync: int, epoch: int = 1) -> dict[str, object]:
    replicas = [{"brokerAddress": f"a{node}:1"} for node in in_sync]
    return {"masterAddress": f"a{master}:1", "masterEpoch": epoch, "syncStateSetEpoch": 1, "inSyncReplicas": replicas}


async def test_the_set_is_that_of_the_newest_master_among_two_controllers_that_lead() -> None:
    control = Controlled(state(1, 1, 2, 3, epoch=4), state(2, 2, 3, epoch=5))
    assert await control.in_sync("broker-a") == (2, 3)
    assert await Controlled().in_sync("broker-a") == ()


async def test_a_group_without_a_controller_has_no_set() -> None:
    apache = ApacheRocketMode.of([], "dledger").on(3)
    assert isinstance(apache, ApacheRocketMode)
    assert await ApacheRocketControl(apache, Access("run-1", further={LEDGER: NODES}), NODES).in_sync("broker-a") == ()
