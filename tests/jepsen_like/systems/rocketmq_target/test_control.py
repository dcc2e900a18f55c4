"""A run finds the brokers by their name servers, and removes the topic that it has made, and no other one."""

from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path

import pytest

from jepsen_like.cluster.ports import ReservedPorts
from jepsen_like.port.port import Access, NotServing, RunningCluster
from jepsen_like.port.wires import Address
from jepsen_like.systems.rocketmq.control import BrokerStatus
from jepsen_like.systems.rocketmq_target import control as module
from jepsen_like.systems.rocketmq_target.control import RocketTargetControl
from jepsen_like.systems.rocketmq_target.mode import RocketTargetMode
from jepsen_like.systems.rocketmq_target.system import RocketTarget
from rocketmq_compat.remoting.bodies import BrokerData, ClusterInfo
from rocketmq_compat.remoting.codes import RequestCode, ResponseCode
from rocketmq_compat.remoting.frame import Command
from rocketmq_compat.remoting.headers.fields import ExtHeader
from tests.rocketmq_compat.broker.pairs import eventually, name_server, running_broker

NAMES: Address = ("names", 9876)
BROKERS = {1: ("a", 1), 2: ("a", 2), 3: ("b", 1)}


class NamedControl(RocketTargetControl):
    """Its name servers answer as told here, and its brokers are out of reach."""

    def __init__(self, groups: Mapping[str, Mapping[int, str]], *, knows_topic: bool = False, pairs: int = 1) -> None:
        mode = RocketTargetMode.of([f"pairs={pairs}"], "async-slave").on(pairs * 2)
        super().__init__(mode, Access("run-1", target=RunningCluster(servers=(NAMES,))), BROKERS)
        self._listed = groups
        self._route = ResponseCode.SUCCESS if knows_topic else ResponseCode.TOPIC_NOT_EXIST
        self.asked: list[int] = []

    async def ask_names(self, code: RequestCode, header: ExtHeader | None = None) -> Command:
        self.asked.append(code)
        if code is RequestCode.GET_BROKER_CLUSTER_INFO:
            table = {
                name: BrokerData(cluster="c", broker_name=name, broker_addrs=addrs)
                for name, addrs in self._listed.items()
            }
            return Command(ResponseCode.SUCCESS, body=ClusterInfo(broker_addr_table=table).encode())
        return Command(self._route)


PAIR = {"broker-a": {0: "a:2", 1: "a:1"}}


async def test_brokers_stand_in_the_order_of_names_and_addresses() -> None:
    control = NamedControl({"z": {0: "c:1"}, "b": {0: "b:10911", 1: "a:10911"}})
    assert await control.groups_found() == [[("a", 10911), ("b", 10911)], [("c", 1)]]


async def test_a_topic_that_is_there_already_stays() -> None:
    control = NamedControl(PAIR, knows_topic=True)
    with pytest.raises(NotServing, match="quorumlog-run-1 is there already"):
        await control.prepare(control._mode, "log", within_s=1)
    control.asked.clear()
    await control.clear()
    assert control.asked == []


async def test_groups_that_were_not_told_of_are_named() -> None:
    control = NamedControl({**PAIR, "broker-b": {0: "b:1"}})
    with pytest.raises(NotServing, match="in 2 groups, with 2, 1 of them: give --set pairs=2"):
        await control.prepare(control._mode, "log", within_s=1)
    assert not control.is_ours


async def test_a_topic_that_stays_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "CLEAR_WITHIN_S", 0.05)
    with ReservedPorts(1) as reserved:
        address = ("127.0.0.1", reserved.ports[0])
        access = Access("run-1", target=RunningCluster(servers=(address,)))
        control = RocketTargetControl(RocketTargetMode.of([], "async-slave").on(1), access, {1: address})
        control.is_ours = True
        with pytest.raises(NotServing, match="topic quorumlog-run-1 of this run could not be deleted"):
            await control.clear()
        assert "silent at" in (await control.absence(1) or "")
        with pytest.raises(NotServing, match=f"none of --bootstrap-servers answers; 127.0.0.1:{address[1]}: "):
            await control.groups_found()


class RefusingBroker:
    """Deletes a topic or not, and answers that it could not in either case."""

    def __init__(self, *, deletes: bool) -> None:
        self._deletes = deletes
        self._has_topic = True

    async def ask(self, request: Command) -> Command:
        if request.code == RequestCode.GET_TOPIC_CONFIG:
            return Command(ResponseCode.SUCCESS if self._has_topic else ResponseCode.TOPIC_NOT_EXIST)
        self._has_topic = not self._deletes
        return Command(ResponseCode.SYSTEM_ERROR, remark="no timers")

    async def require(self, code: RequestCode, header: ExtHeader) -> None:
        assert code is RequestCode.DELETE_SUBSCRIPTIONGROUP


@pytest.mark.parametrize(("deletes", "why"), [(True, None), (False, "n1, n2 still has it; code 1: no timers")])
async def test_a_deletion_that_a_broker_refuses_counts_once_no_broker_has_the_topic(
    monkeypatch: pytest.MonkeyPatch, deletes: bool, why: str | None
) -> None:
    broker = RefusingBroker(deletes=deletes)

    async def ask_broker(self: object, address: Address, ask: Callable[[RefusingBroker], Awaitable[object]]) -> object:
        return await ask(broker)

    async def masters(self: object) -> dict[int, BrokerStatus]:
        return {0: BrokerStatus(1, True, 1, 0, 0)}

    monkeypatch.setattr(RocketTargetControl, "_on", ask_broker)
    monkeypatch.setattr(RocketTargetControl, "masters", masters)
    assert await NamedControl(PAIR)._delete_all() == why


async def test_a_broker_that_no_name_server_lists_takes_no_part(monkeypatch: pytest.MonkeyPatch) -> None:
    async def answers(*arguments: object, **options: object) -> None:
        return None

    monkeypatch.setattr(RocketTargetControl, "why_silent_at", answers)
    control = NamedControl(PAIR)
    assert await control.absence(1) is None
    assert await control.absence(3) == "it answers at b:1, and the name servers list it no longer"


ACCOUNTS = """
accounts:
  - accessKey: operator
    secretKey: operates
    admin: true
  - accessKey: customer
    secretKey: consumes
"""


async def test_an_account_makes_and_removes_topic_and_group_and_another_one_is_refused(tmp_path: Path) -> None:
    accounts, config = tmp_path / "plain_acl.yml", tmp_path / "client.properties"
    accounts.write_text(ACCOUNTS)
    async with (
        name_server() as names,
        running_broker("namesrvAddr={}:{}".format(*names.address), "aclEnable=true", f"aclFile={accounts}") as broker,
    ):
        await eventually(lambda: bool(names.table.cluster_info().broker_addr_table))
        target = RunningCluster(servers=(names.address,), properties=config)
        config.write_text("accessKey=operator\nsecretKey=operated\n")
        with pytest.raises(NotServing, match=r"none of the brokers answers; .*AclException"):
            await RocketTarget().find_members(target)
        config.write_text("accessKey=customer\nsecretKey=consumes\n")
        found = await RocketTarget().find_members(target)
        mode = RocketTargetMode.of([], "async-slave").on(1)
        access = Access("run-1", target=target)
        with pytest.raises(NotServing, match=r"was not ready within 1\.5 s: .*AclException"):
            await RocketTargetControl(mode, access, found).prepare(mode, "log", within_s=1.5)
        config.write_text("accessKey=operator\nsecretKey=operates\n")
        control = RocketTargetControl(mode, access, found)
        await control.prepare(mode, "log", within_s=10)
        assert broker.context.topics.get("quorumlog-run-1") is not None
        connection = await control._clients.connect(1, within_s=5)
        assert (await connection.send(0, b"message")).offset == 0
        connection.close()
        await control.clear()
        assert broker.context.topics.get("quorumlog-run-1") is None
