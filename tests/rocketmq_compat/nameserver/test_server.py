"""A name server over sockets: what brokers, clients and administrators ask, and what ends with a connection."""

import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import attrs
import pytest
import trio

from log.disk import Disk
from log.errors import StorageFailed
from log.memory_disk import MemoryDisk
from rocketmq_compat.config import Properties
from rocketmq_compat.config_keys import NAMESRV_PROPERTIES
from rocketmq_compat.nameserver.kv_file import DamagedKvFile
from rocketmq_compat.nameserver.server import NameServer, NameServerPlan
from rocketmq_compat.records import body_crc
from rocketmq_compat.remoting.bodies import (
    BrokerData,
    ClusterInfo,
    DataVersion,
    GetBrokerMemberGroupResponseBody,
    KVTable,
    RegisterBrokerBody,
    TopicConfig,
    TopicConfigSerializeWrapper,
    TopicList,
    TopicRouteData,
)
from rocketmq_compat.remoting.client import RemotingClient, RemotingFailed, connected_client
from rocketmq_compat.remoting.codes import RequestCode, ResponseCode
from rocketmq_compat.remoting.frame import Command, Serialization, encode
from rocketmq_compat.remoting.headers.routes import RegisterBrokerRequestHeader, RegisterBrokerResponseHeader

KV = {"namespace": "ORDER_TOPIC_CONFIG", "key": "t"}


def header(broker_id: int = 0, *, name: str = "a", address: str = "127.0.0.1:10911", **more: Any) -> dict[str, str]:
    made = RegisterBrokerRequestHeader(
        cluster_name="c",
        broker_name=name,
        broker_addr=address,
        broker_id=broker_id,
        ha_server_addr="127.0.0.1:10912",
        **more,
    )
    return made.ext()


def topics(*names: str, counter: int = 1) -> bytes:
    table = {each: TopicConfig(topic_name=each, read_queue_nums=4, write_queue_nums=4) for each in names}
    wrapper = TopicConfigSerializeWrapper(topic_config_table=table, data_version=DataVersion(counter=counter))
    return RegisterBrokerBody(topic_config_serialize_wrapper=wrapper).encode()


@attrs.define
class World:
    """A name server and a client of it."""

    server: NameServer
    client: RemotingClient
    told: list[dict[str, Any]]

    async def ask(self, code: int, ext: dict[str, str] | None = None, body: bytes = b"", **more: Any) -> Command:
        return await self.client.ask(Command(code, ext=ext or {}, body=body, **more), timeout_s=10)

    async def route(self, topic: str) -> TopicRouteData | None:
        answer = await self.ask(RequestCode.GET_ROUTEINFO_BY_TOPIC, {"topic": topic})
        if answer.code == ResponseCode.TOPIC_NOT_EXIST:
            return None
        assert answer.code == ResponseCode.SUCCESS, answer.remark
        return TopicRouteData.decode(answer.body)

    async def until(self, event: str) -> dict[str, Any]:
        with trio.fail_after(10):
            while True:
                for fields in self.told:
                    if fields["event"] == event:
                        return fields
                await self.ask(999)  # each answer is a round of the server's loop


@asynccontextmanager
async def world(*assignments: str, disk: Disk | None = None) -> AsyncIterator[World]:
    told: list[dict[str, Any]] = []
    plan = NameServerPlan(listen=("127.0.0.1", 0), properties=Properties.read(NAMESRV_PROPERTIES, assignments))
    with trio.fail_after(20):
        async with (
            NameServer.open(
                plan, tell=lambda event, **fields: told.append({"event": event, **fields}), disk=disk
            ) as server,
            connected_client(server.address) as client,
        ):
            yield World(server, client, told)


async def test_a_client_finds_the_queues_of_a_topic_at_the_brokers_that_registered_it() -> None:
    async with world() as here:
        answer = await here.ask(RequestCode.REGISTER_BROKER, header(), topics("t"))
        assert answer.code == ResponseCode.SUCCESS
        assert RegisterBrokerResponseHeader.read(answer.ext) == RegisterBrokerResponseHeader()
        answer = await here.ask(RequestCode.REGISTER_BROKER, header(1, address="127.0.0.1:20911"), topics("t"))
        found = RegisterBrokerResponseHeader.read(answer.ext)
        assert (found.master_addr, found.ha_server_addr) == ("127.0.0.1:10911", "127.0.0.1:10912")
        route = await here.route("t")
        assert route is not None
        assert route.queue_datas[0].read_queue_nums == 4
        assert route.broker_datas == (
            BrokerData(cluster="c", broker_name="a", broker_addrs={0: "127.0.0.1:10911", 1: "127.0.0.1:20911"}),
        )
        registered = [each for each in here.told if each["event"] == "broker_registered"]
        assert [each["broker_id"] for each in registered] == [0, 1]


async def test_a_topic_without_a_route_is_answered_so_in_the_serialization_of_the_request() -> None:
    async with world() as here:
        for serialization in Serialization:
            answer = await here.ask(105, {"topic": "TBW102"}, serialization=serialization)
            assert (answer.code, answer.serialization) == (ResponseCode.TOPIC_NOT_EXIST, serialization)
            assert "TBW102" in (answer.remark or "")


async def test_a_broker_whose_connection_ends_leaves_the_routes_at_once() -> None:
    async with world() as here:
        async with connected_client(here.server.address) as broker:
            await broker.ask(Command(RequestCode.REGISTER_BROKER, ext=header(), body=topics("t")), timeout_s=10)
            assert await here.route("t") is not None
        removed = await here.until("broker_removed")
        assert removed["reason"] == "its connection was lost"
        assert await here.route("t") is None


async def test_a_silent_broker_leaves_the_routes_when_its_time_is_up() -> None:
    async with world("scanNotActiveBrokerInterval=20") as here:
        async with connected_client(here.server.address) as broker:
            ext = header(heartbeat_timeout_millis=50)
            await broker.ask(Command(RequestCode.REGISTER_BROKER, ext=ext, body=topics("t")), timeout_s=10)
            removed = await here.until("broker_removed")
            assert removed["reason"] == "it was silent for 0.05 s"
            closed = await here.until("connection_closed")
            assert closed["reason"] == removed["reason"]
        assert await here.route("t") is None


async def test_a_broker_that_unregisters_leaves_the_routes() -> None:
    async with world() as here:
        await here.ask(RequestCode.REGISTER_BROKER, header(), topics("t"))
        assert (await here.ask(RequestCode.UNREGISTER_BROKER, header())).code == ResponseCode.SUCCESS
        assert await here.route("t") is None


async def test_a_broker_asks_before_it_registers_again() -> None:
    async with world() as here:
        await here.ask(RequestCode.REGISTER_BROKER, header(), topics("t", counter=3))
        for counter, changed in [(3, "false"), (4, "true")]:
            body = DataVersion(counter=counter).encode()
            answer = await here.ask(RequestCode.QUERY_DATA_VERSION, header(), body)
            assert answer.ext["changed"] == changed
        assert (await here.ask(RequestCode.BROKER_HEARTBEAT, header())).code == ResponseCode.SUCCESS


@pytest.mark.parametrize(
    ("ext", "body", "complaint"),
    [
        ({}, b"", "bad field clusterName: it is missing"),
        (header(address="nonsense"), b"", "bad field brokerAddr: 'nonsense' is not of the form HOST:PORT"),
        (header(compressed=True), b"x", "bad field compressed"),
        (header(body_crc32=5), b"x", "bad field bodyCrc32"),
        (header(), b"x", "bad body"),
    ],
)
async def test_a_registration_that_makes_no_sense_is_refused_with_its_reason(
    ext: dict[str, str], body: bytes, complaint: str
) -> None:
    async with world() as here:
        answer = await here.ask(RequestCode.REGISTER_BROKER, ext, body)
        assert answer.code == ResponseCode.SYSTEM_ERROR
        assert complaint in (answer.remark or "")
        assert await here.route("t") is None


async def test_the_checksum_of_a_registration_is_that_of_rocketmq() -> None:
    async with world() as here:
        body = topics("t")
        answer = await here.ask(RequestCode.REGISTER_BROKER, header(body_crc32=body_crc(body)), body)
        assert answer.code == ResponseCode.SUCCESS
        assert (await here.ask(RequestCode.REGISTER_BROKER, header(2), body)).code == ResponseCode.SUCCESS
        refused = await here.ask(RequestCode.REGISTER_BROKER, {**header(3), "clusterName": "d"}, body)
        assert (refused.code, refused.remark) == (1, "the broker name a is in use in cluster c")


async def test_administrators_see_clusters_topics_and_brokers() -> None:
    async with world() as here:
        await here.ask(RequestCode.REGISTER_BROKER, header(), topics("t", "u"))
        info = ClusterInfo.decode((await here.ask(RequestCode.GET_BROKER_CLUSTER_INFO)).body)
        assert info.cluster_addr_table == {"c": ("a",)}
        lists = {
            RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER: ("t", "u"),
            RequestCode.GET_TOPICS_BY_CLUSTER: ("t", "u"),
            RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_NS: ("c", "a"),
        }
        for code, expected in lists.items():
            found = TopicList.decode((await here.ask(code, {"cluster": "c"})).body)
            assert found.topic_list == expected
        group = await here.ask(RequestCode.GET_BROKER_MEMBER_GROUP, {"clusterName": "c", "brokerName": "a"})
        members = GetBrokerMemberGroupResponseBody.decode(group.body).broker_member_group
        assert members is not None
        assert members.broker_addrs == info.broker_addr_table["a"].broker_addrs


async def test_administrators_change_permissions_and_delete_topics() -> None:
    async with world() as here:
        await here.ask(RequestCode.REGISTER_BROKER, header(), topics("t", "u"))
        wiped = await here.ask(RequestCode.WIPE_WRITE_PERM_OF_BROKER, {"brokerName": "a"})
        assert wiped.ext == {"wipeTopicCount": "2"}
        route = await here.route("t")
        assert route is not None
        assert route.queue_datas[0].perm == 4
        added = await here.ask(RequestCode.ADD_WRITE_PERM_OF_BROKER, {"brokerName": "a"})
        assert added.ext == {"addTopicCount": "2"}
        await here.ask(RequestCode.DELETE_TOPIC_IN_NAMESRV, {"topic": "t"})
        assert await here.route("t") is None


async def test_values_are_stored_read_listed_and_deleted() -> None:
    async with world("orderMessageEnable=true") as here:
        assert (await here.ask(RequestCode.GET_KV_CONFIG, KV)).code == ResponseCode.QUERY_NOT_FOUND
        assert (await here.ask(RequestCode.GET_KVLIST_BY_NAMESPACE, KV)).code == ResponseCode.QUERY_NOT_FOUND
        assert (await here.ask(RequestCode.PUT_KV_CONFIG, {**KV, "value": "a:4"})).code == ResponseCode.SUCCESS
        assert (await here.ask(RequestCode.GET_KV_CONFIG, KV)).ext == {"value": "a:4"}
        listed = KVTable.decode((await here.ask(RequestCode.GET_KVLIST_BY_NAMESPACE, KV)).body)
        registered = await here.ask(RequestCode.REGISTER_BROKER, header(), topics("t"))
        assert KVTable.decode(registered.body) == listed == KVTable(table={"t": "a:4"})
        route = await here.route("t")
        assert route is not None
        assert route.order_topic_conf == "a:4"
        assert (await here.ask(RequestCode.DELETE_KV_CONFIG, KV)).code == ResponseCode.SUCCESS
        assert (await here.ask(RequestCode.GET_KV_CONFIG, KV)).code == ResponseCode.QUERY_NOT_FOUND


async def test_what_an_administrator_stored_outlives_a_loss_of_power() -> None:
    rng = random.Random(1)
    disk = MemoryDisk(rng)
    async with world("kvConfigPath=data/names/kvConfig.json", disk=disk) as here:
        assert (await here.ask(RequestCode.PUT_KV_CONFIG, {**KV, "value": "a:4"})).code == ResponseCode.SUCCESS
        after = disk.after_crash(rng)
    async with world("kvConfigPath=data/names/kvConfig.json", disk=after) as here:
        assert (await here.ask(RequestCode.GET_KV_CONFIG, KV)).ext == {"value": "a:4"}


async def test_a_value_more_is_a_line_more_until_the_file_is_written_again() -> None:
    disk = MemoryDisk(random.Random(1))
    async with world("kvConfigPath=data/kv", disk=disk) as here:
        for number in range(60):
            await here.ask(RequestCode.PUT_KV_CONFIG, {**KV, "key": f"k{number}", "value": "x" * 2000})
        await here.ask(RequestCode.DELETE_KV_CONFIG, {**KV, "key": "k0"})
        assert len(disk.content("data/kv.journal")) < 61 * 2200 - 64 * 1024, "the file has the others"
        killed = disk.after_kill(random.Random(1))
    async with world("kvConfigPath=data/kv", disk=killed) as here:
        for key, code in (("k0", ResponseCode.QUERY_NOT_FOUND), ("k1", 0), ("k59", 0)):
            assert (await here.ask(RequestCode.GET_KV_CONFIG, {**KV, "key": key})).code == code


async def test_on_a_full_disk_a_value_is_refused_and_the_one_before_stays() -> None:
    disk = MemoryDisk(random.Random(1))
    async with world("kvConfigPath=data/kv", disk=disk) as here:
        assert (await here.ask(RequestCode.PUT_KV_CONFIG, {**KV, "value": "a:4"})).code == ResponseCode.SUCCESS
        disk.capacity_bytes = disk.used_bytes()
        refused = await here.ask(RequestCode.PUT_KV_CONFIG, {**KV, "value": "a:8"})
        assert refused.code == ResponseCode.SYSTEM_ERROR
        new = await here.ask(RequestCode.PUT_KV_CONFIG, {**KV, "key": "u", "value": "a:8"})
        assert new.code == ResponseCode.SYSTEM_ERROR
        assert (await here.ask(RequestCode.GET_KV_CONFIG, KV)).ext == {"value": "a:4"}
        assert (await here.ask(RequestCode.GET_KV_CONFIG, {**KV, "key": "u"})).code == ResponseCode.QUERY_NOT_FOUND


async def test_a_disk_that_fails_at_any_call_ends_the_name_server_and_keeps_what_was_acknowledged() -> None:
    failed = 0
    for n in range(1, 12):
        rng = random.Random(n)
        disk = MemoryDisk(rng)
        async with world("kvConfigPath=data/kv", disk=disk) as here:
            await here.ask(RequestCode.PUT_KV_CONFIG, {**KV, "value": "old"})
        acknowledged = "old"
        try:
            async with world("kvConfigPath=data/kv", disk=disk) as here:
                disk.fail_call(n)
                if (await here.ask(RequestCode.PUT_KV_CONFIG, {**KV, "value": "new"})).code == ResponseCode.SUCCESS:
                    acknowledged = "new"
        except* (StorageFailed, RemotingFailed):
            failed += 1
        async with world("kvConfigPath=data/kv", disk=disk.after_crash(rng)) as here:
            kept = (await here.ask(RequestCode.GET_KV_CONFIG, KV)).ext["value"]
        assert kept == "new" or kept == acknowledged
    assert failed > 3


async def test_random_frames_end_their_own_connections_and_nothing_else() -> None:
    rng = random.Random(7)
    frame = b"".join(encode(Command(RequestCode.REGISTER_BROKER, 1, header(), topics("t"))))
    async with world() as here:
        for number in range(300):
            mutated = bytearray(frame if number % 4 else rng.randbytes(40))
            for _ in range(rng.randint(1, 6)):
                mutated[rng.randrange(len(mutated))] = rng.randrange(256)
            stream = await trio.open_tcp_stream(*here.server.address)
            await stream.send_all(bytes(mutated))
            await stream.aclose()
        assert (await here.ask(RequestCode.GET_BROKER_CLUSTER_INFO)).code == ResponseCode.SUCCESS
        here.server.table.check()


async def test_a_damaged_file_of_values_is_refused_and_not_replaced() -> None:
    disk = MemoryDisk(random.Random(1))
    disk.make_directory("data")
    disk.open("data/kv", create=True).write_at(0, [b"{nonsense"])
    with pytest.RaisesGroup(DamagedKvFile, allow_unwrapped=True, flatten_subgroups=True):
        async with world("kvConfigPath=data/kv", disk=disk):
            pass
    assert disk.open("data/kv", create=False).read_at(0, 9) == b"{nonsense"


async def test_the_configuration_is_shown_and_only_what_may_change_is_changed() -> None:
    async with world() as here:
        shown = bytes((await here.ask(RequestCode.GET_NAMESRV_CONFIG)).body).decode()
        assert "orderMessageEnable=false\n" in shown
        changed = await here.ask(RequestCode.UPDATE_NAMESRV_CONFIG, body=b"orderMessageEnable=true\n")
        assert changed.code == ResponseCode.SUCCESS
        refused = await here.ask(RequestCode.UPDATE_NAMESRV_CONFIG, body=b"listenPort=1\n")
        assert (refused.code, "cannot be changed" in (refused.remark or "")) == (ResponseCode.SYSTEM_ERROR, True)
        shown = bytes((await here.ask(RequestCode.GET_NAMESRV_CONFIG)).body).decode()
        assert "orderMessageEnable=true\n" in shown
