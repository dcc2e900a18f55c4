"""A swap replaces exactly the value that it expects, and whatever it cannot know is left open."""

import random

import pytest

from jepsen_like.checker.verdict import Model
from jepsen_like.history.ops import NONE, Action, ErrorCode, Outcome
from jepsen_like.nemesis.table import KINDS
from jepsen_like.port.observations import LEADER
from jepsen_like.port.port import WrongMode
from jepsen_like.port.wires import Network
from jepsen_like.systems.zookeeper import wire
from jepsen_like.systems.zookeeper.clients import SWAPS_MAX, ErrorCoded, Overtaken, ZooConnection, ending_of
from jepsen_like.systems.zookeeper.mode import ZooMode
from jepsen_like.systems.zookeeper.processes import LOOKING, epoch_of, state_in
from jepsen_like.systems.zookeeper.register_workload import ZooRegisterWorkload
from jepsen_like.systems.zookeeper.system import ZooKeeperSystem
from jepsen_like.systems.zookeeper.wire import Code, NodeData
from jepsen_like.workload.model import Seen
from jepsen_like.workload.payload import DAMAGED


class OneNode(ZooConnection):
    """A server with one node; before each write that names a version, another client's value may come."""

    def __init__(self, data: bytes, *others: bytes) -> None:
        self.node = NodeData(data, 0)
        self.others = list(others)

    async def read(self, path: str) -> NodeData:
        return self.node

    async def write(self, path: str, data: bytes, version: int = wire.LATEST) -> None:
        if self.others:
            self.node = NodeData(self.others.pop(0), self.node.version + 1)
        if version not in (wire.LATEST, self.node.version):
            raise ErrorCoded(Code.BAD_VERSION)
        self.node = NodeData(data, self.node.version + 1)


async def test_a_swap_of_the_expected_value_replaces_it() -> None:
    server = OneNode(b"1")
    assert await server.swap("/r1", b"1", b"2") == b"1"
    assert server.node.data == b"2"


async def test_a_swap_of_another_value_tells_it_and_changes_nothing() -> None:
    server = OneNode(b"3")
    assert await server.swap("/r1", b"1", b"2") == b"3"
    assert server.node == NodeData(b"3", 0)


async def test_a_swap_that_was_overtaken_tells_the_value_that_came_first() -> None:
    server = OneNode(b"1", b"4")
    assert await server.swap("/r1", b"1", b"2") == b"4"
    assert server.node.data == b"4"


async def test_a_swap_that_is_overtaken_again_and_again_gives_up() -> None:
    with pytest.raises(Overtaken):
        await OneNode(b"1", *[b"1"] * SWAPS_MAX).swap("/r1", b"1", b"2")


def test_only_what_changed_nothing_has_certainly_failed() -> None:
    assert ending_of(Overtaken(), connection_lost=False).outcome is Outcome.FAIL
    assert ending_of(ErrorCoded(Code.NO_NODE), connection_lost=False).outcome is Outcome.FAIL
    for error in (ErrorCoded(-4), ErrorCoded(-112), OSError(), wire.WrongFrame()):
        assert ending_of(error, connection_lost=False).outcome is Outcome.INFO
    assert ending_of(OSError(), connection_lost=True).code is ErrorCode.CONNECTION_LOST


def test_a_node_holds_a_value_or_none() -> None:
    workload, rng = ZooRegisterWorkload(), random.Random(1)
    read = next(request for _ in range(99) if (request := workload.request(rng)).f is Action.READ)
    assert workload.interpret(read, NodeData(b"17", 3)) == Seen((17,))
    assert workload.interpret(read, NodeData(b"", 3)) == Seen((NONE,))
    assert workload.interpret(read, NodeData(b"words", 3)).values[0] >= DAMAGED


@pytest.mark.parametrize(
    ("answer", "state"),
    [
        (b"Zookeeper version: 3\nZxid: 0x200000007\nMode: leader\n", (LEADER, 0x200000007)),
        (b"Zxid: 0x100000007\nMode: follower\n", ("follower", 0x100000007)),
        (b"This ZooKeeper instance is not currently serving requests\n", (LOOKING, 0)),
        (b"", (LOOKING, 0)),
        (b"Zxid: words\nMode: leader\n", (LOOKING, 0)),
    ],
)
def test_a_server_tells_its_role_and_its_last_transaction(answer: bytes, state: tuple[str, int]) -> None:
    assert state_in(answer) == state


def test_the_epoch_is_the_upper_half_of_a_transactions_number() -> None:
    assert epoch_of(0x200000007) == 2


def test_a_server_that_does_not_flush_is_not_judged_under_a_power_cut() -> None:
    assert ZooMode.of([]).refusal(Model.REGISTER, ["power"]) is None
    assert ZooMode.of(["forceSync=no"]).refusal(Model.REGISTER, ["power"]) is not None
    assert ZooMode.of(["forceSync=no"]).refusal(Model.REGISTER, ["kill"]) is None
    for word in ("forceSync=perhaps", "tickTime=1"):
        with pytest.raises(WrongMode):
            ZooMode.of([word])


def test_each_kind_of_fault_is_done_or_refused_in_a_network_with_one_address_each() -> None:
    assert set(ZooKeeperSystem.serves) | set(ZooKeeperSystem.refused) == set(KINDS)
    assert not set(ZooKeeperSystem.serves) & set(ZooKeeperSystem.refused)
    assert ZooKeeperSystem.networks == (Network.NAMESPACES,)
