"""Three brokers as a raft group: what is acknowledged is on a majority, survives, and is what consumers see."""

from collections.abc import Callable
from contextlib import suppress

import pytest
import trio

from jepsen_like.operate.log import GroupAccess
from jepsen_like.operate.members import Operator
from log.memory_disk import PowerLoss
from raft.client import Client, Connection
from raft.client_codec import PEER, Hello, encode_hello
from raft.errors import InvalidRequest
from rocketmq_compat.broker.raft_copy import ForeignCommitLog
from rocketmq_compat.raft_state import StoreRecords, encode_group_command
from rocketmq_compat.remoting.bodies import ClusterInfo
from rocketmq_compat.remoting.client import connected_client
from rocketmq_compat.remoting.codes import RequestCode, ResponseCode
from rocketmq_compat.remoting.frame import Command
from rocketmq_compat.remoting.headers.offsets import QueryConsumerOffsetRequestHeader, UpdateConsumerOffsetRequestHeader
from rocketmq_compat.remoting.headers.topics import CreateTopicRequestHeader, TopicRequestHeader
from tests.rocketmq_compat.broker.groups import BrokerGroup, Member, broker_group
from tests.rocketmq_compat.broker.pairs import (
    DATA,
    SECRET,
    WAIT_S,
    ask,
    bodies,
    eventually,
    memory_disk,
    name_server,
    pull,
    pull_until,
    running_broker,
    send,
    serve,
)


async def read_held(group: BrokerGroup, member: Member, count: int) -> list[bytes]:
    async with group.client(member) as client:
        return bodies(await pull_until(client, count))


async def test_what_is_acknowledged_is_read_from_the_master_and_is_on_every_broker() -> None:
    async with broker_group() as group:
        for number in range(20):
            assert (await group.send(b"m%d" % number)).code == ResponseCode.SUCCESS
        assert await read_held(group, await group.master(), 20) == [b"m%d" % number for number in range(20)]
        await group.same()
        ends = {each.running.context.store.log.end_offset for each in group.members}
        assert len(ends) == 1


async def test_after_the_leader_was_killed_another_broker_has_everything_and_takes_messages() -> None:
    async with broker_group() as group:
        for number in range(10):
            await group.send(b"m%d" % number)
        first = await group.master()
        await group.kill(first)
        for number in range(10, 20):
            assert (await group.send(b"m%d" % number)).code == ResponseCode.SUCCESS
        second = await group.master()
        assert second is not first
        assert await read_held(group, second, 20) == [b"m%d" % number for number in range(20)]
        await group.start(first.number)
        await group.same()
        assert second.events.select("role")[-1] == {
            "role": "master",
            "epoch": second.running.context.topics.version.state_version,
            "broker": "broker-a",
        }


async def test_followers_refuse_messages_and_say_who_does_not() -> None:
    async with broker_group() as group:
        master = await group.master()
        for member in group.members:
            if member is not master:
                async with group.client(member) as client:
                    assert (await send(client, b"m")).code == ResponseCode.SERVICE_NOT_AVAILABLE
        async with group.client(master) as client:
            info = await ask(client, RequestCode.GET_BROKER_RUNTIME_INFO)
            assert b'"SYNC_MASTER"' in bytes(info.body)


@pytest.mark.parametrize("loss", list(PowerLoss))
async def test_a_power_cut_of_all_brokers_loses_nothing_that_was_acknowledged(loss: PowerLoss) -> None:
    async with broker_group("ack=durable") as group:
        for number in range(15):
            await group.send(b"m%d" % number)
        await group.kill(*group.members, loss=loss)
        await group.start()
        assert (await group.send(b"m15")).code == ResponseCode.SUCCESS
        assert await read_held(group, await group.master(), 16) == [b"m%d" % number for number in range(16)]


async def test_a_pull_does_not_see_what_is_not_committed() -> None:
    async with broker_group("slaveReadEnable=true") as group:
        await group.send(b"committed")
        master = await group.master()
        others = [each for each in group.members if each is not master]
        await group.same()
        await group.kill(*others)
        async with group.client(master) as client, group.client(master) as reader, trio.open_nursery() as nursery:
            answers: list[Command] = []

            async def send_alone() -> None:
                answers.append(await send(client, b"alone"))

            nursery.start_soon(send_alone)
            while not answers:
                assert bodies(await pull(reader, 0)) == [b"committed"]
            # It is not known yet whether it will be committed, unless the master had stepped down before it came.
            assert answers[0].code in (ResponseCode.SYSTEM_ERROR, ResponseCode.SERVICE_NOT_AVAILABLE)
            assert bodies(await pull(reader, 0)) == [b"committed"]
        await group.start(others[0].number)
        await group.send(b"later")
        found = await read_held(group, await group.master(), 2)
        assert found in ([b"committed", b"later"], [b"committed", b"alone", b"later"])


async def test_consumer_offsets_topics_and_groups_outlive_their_master() -> None:
    async with broker_group() as group:
        for number in range(3):
            await group.send(b"m%d" % number, "Orders")
        first = await group.master()
        async with group.client(first) as client:
            offset = UpdateConsumerOffsetRequestHeader(consumer_group="g", topic="Orders", queue_id=0, commit_offset=2)
            assert (await ask(client, RequestCode.UPDATE_CONSUMER_OFFSET, offset)).code == ResponseCode.SUCCESS
            topic = CreateTopicRequestHeader(topic="Made", read_queue_nums=3, write_queue_nums=3, perm=6)
            assert (await ask(client, RequestCode.UPDATE_AND_CREATE_TOPIC, topic)).code == ResponseCode.SUCCESS
        await group.kill(first)
        second = await group.master()
        async with group.client(second) as client:
            asked = QueryConsumerOffsetRequestHeader(consumer_group="g", topic="Orders", queue_id=0)
            assert (await ask(client, RequestCode.QUERY_CONSUMER_OFFSET, asked)).ext["offset"] == "2"
        assert second.running.context.topics.require("Made").read_queue_nums == 3
        assert "g" in second.running.context.groups.groups


async def test_a_deleted_topic_is_gone_on_every_broker_and_begins_anew() -> None:
    async with broker_group() as group:
        for number in range(3):
            await group.send(b"old%d" % number)
        async with group.client(await group.master()) as client:
            deleted = await ask(client, RequestCode.DELETE_TOPIC_IN_BROKER, TopicRequestHeader(topic="T"))
            assert deleted.code == ResponseCode.SUCCESS
        assert (await group.send(b"new")).ext["queueOffset"] == "0"
        await group.kill(*group.members, loss=PowerLoss.LOSE_ALL)
        await group.start()
        await group.send(b"newer")
        await group.same()
        for member in group.members:
            assert member.running.context.store.queue(("T", 0)) == (0, 2)


@pytest.mark.parametrize("wiped", [False, True], ids=["behind", "wiped"])
async def test_a_broker_that_was_away_for_too_long_copies_what_has_left_the_raft_log(wiped: bool) -> None:
    async with broker_group(raft_log_bytes=SMALL_LOG) as group:
        await group.send(b"first")
        master = await group.master()
        away = next(each for each in group.members if each is not master)
        await group.kill(away)
        if wiped:
            away.disk = memory_disk()
        await send_much(group)
        await group.start(away.number)
        await eventually(lambda: bool(away.events.select("commit_log_complete")))
        await group.send(b"last")
        await group.same()
        log, own = master.running.context.store.log, away.running.context.store.log
        assert (own.start_offset, own.end_offset) == (0, log.end_offset)
        assert bytes(log_bytes(away)) == bytes(log_bytes(master))
        # It has everything that the others have: with one of those alone it is still a majority.
        await group.kill(master, loss=PowerLoss.LOSE_ALL)
        assert (await group.send(b"after")).code == ResponseCode.SUCCESS


def damage(member: Member) -> None:
    """A bit in the middle of the newest part of the commit log is wrong."""
    disk = member.disk
    path = max(
        path for path in disk.paths() if "/commitlog/logs/" in path and path.endswith(".log") and disk.content(path)
    )
    disk.flip_bit(path, 8 * (len(disk.content(path)) // 2))


def without(*parts: str) -> Callable[[Member], None]:
    """Returns what lets these parts of a broker's directory vanish."""

    def vanish(member: Member) -> None:
        for path in member.disk.paths():
            if any(path.startswith(f"{DATA}/{part}") for part in parts):
                member.disk.remove(path)

    return vanish


@pytest.mark.parametrize(
    "harm",
    [
        damage,
        without("commitlog"),
        without("consumequeue", "index"),
        without("commitlog", "copy"),
        without("raft"),
        without(""),
    ],
    ids=["damaged", "no commit log", "no queues", "no commit log and notes", "no raft log", "nothing"],
)
async def test_a_broker_that_lost_a_part_of_its_directory_has_everything_again(harm: Callable[[Member], None]) -> None:
    async with broker_group(raft_log_bytes=SMALL_LOG) as group:
        count = await send_much(group)
        master = await group.master()
        hit = next(each for each in group.members if each is not master)
        await group.same()
        hit.running.context.store.flush()
        await group.kill(hit)
        harm(hit)
        await group.start(hit.number)
        await group.send(b"last")
        await group.same()
        await eventually(lambda: hit.running.context.store.queue(("T", 0)) == (0, count + 1))
        assert bytes(log_bytes(hit)) == bytes(log_bytes(master))
        # It has everything that the others have: with one of those alone it is still a majority.
        await group.kill(master, loss=PowerLoss.LOSE_ALL)
        assert (await group.send(b"after")).code == ResponseCode.SUCCESS


async def test_what_has_left_the_raft_log_survives_a_power_cut_in_the_commit_log() -> None:
    async with broker_group("flushIntervalCommitLog=600000", raft_log_bytes=SMALL_LOG) as group:
        count = await send_much(group)
        await group.kill(*group.members, loss=PowerLoss.LOSE_ALL)
        await group.start()
        await group.send(b"last")
        await group.same()
        for member in group.members:
            assert member.running.context.store.queue(("T", 0)) == (0, count + 1)
            assert not member.events.select("commit_log_incomplete")


async def test_commands_come_from_the_brokers_alone() -> None:
    """A client of the native wire reaches the port, too; what it proposed would be in the raft log for good."""
    async with broker_group() as group:
        await group.send(b"m")
        master = await group.master()
        end = master.running.context.store.log.end_offset
        command = encode_group_command(StoreRecords(master.running.epoch, end, b"no record"))
        async with Connection.open("127.0.0.1", group.ports[master.number], "broker-a", secret=SECRET) as client:
            with pytest.raises(InvalidRequest):
                await client.apply(command)
        assert (await group.send(b"n")).code == ResponseCode.SUCCESS


async def test_another_broker_is_master_when_it_is_asked_to_be_and_every_message_stays() -> None:
    async with broker_group() as group:
        await group.send(b"before")
        old = await group.master()
        successor = next(member for member in group.members if member is not old)
        async with Connection.open("127.0.0.1", group.ports[successor.number], "broker-a", secret=SECRET) as client:
            node = client.node_id
        async with Client([f"127.0.0.1:{port}" for port in group.ports], "broker-a", secret=SECRET) as client_of_all:
            await client_of_all.transfer_leadership(node)
        await eventually(lambda: successor.leads and not old.leads)
        await group.send(b"after")
        assert await read_held(group, successor, 2) == [b"before", b"after"]


async def test_all_brokers_of_a_group_are_replaced_and_what_has_left_the_raft_log_stays() -> None:
    async with broker_group(raft_log_bytes=SMALL_LOG) as group:
        await group.send(b"first")
        sent = 1 + await send_much(group)
        before = log_bytes(await group.master())
        for old in list(group.members):
            new = await group.join()
            addresses = [("127.0.0.1", group.ports[each.number]) for each in group.members if each.broker]
            access = GroupAccess(tuple(addresses), "broker-a", WAIT_S, secret=SECRET)
            async with access.client() as client:
                operator = Operator(access, client, "")
                await operator.add(new.number + 1, addresses[-1], counts=True)
                assert not new.events.select("commit_log_incomplete") or new.events.select("commit_log_complete")
                await operator.remove(old.number + 1)
            await group.stop(old)
            assert (await group.send(b"after %d" % old.number)).code == ResponseCode.SUCCESS
        last = group.members[3:]
        await group.stop(*last)
        await group.start(*(each.number for each in last))
        await eventually(lambda: all(each.running.context.store.queue(("T", 0)) == (0, sent + 3) for each in last))
        assert all(log_bytes(each).startswith(before) for each in last)
        async with group.client(await group.master()) as client:
            assert bodies(await pull(client, 0))[0] == b"first"
            assert bodies(await pull(client, sent)) == [b"after %d" % number for number in range(3)]


async def test_name_servers_learn_of_each_new_master_at_once() -> None:
    async with name_server() as names, connected_client(names.address) as client:

        async def until_routed(wanted: dict[int, str]) -> None:
            with trio.fail_after(WAIT_S):
                while True:
                    found = ClusterInfo.decode((await ask(client, RequestCode.GET_BROKER_CLUSTER_INFO)).body)
                    data = found.broker_addr_table.get("broker-a")
                    if data is not None and dict(data.broker_addrs) == wanted:
                        return
                    await trio.sleep(0.005)

        async with broker_group("namesrvAddr={}:{}".format(*names.address), "registerNameServerPeriod=30000") as group:
            for stopped in range(2):
                master = await group.master()
                running = [each for each in group.members if each.broker is not None]
                assert len(running) == 3 - stopped
                ids = {0 if each is master else each.number + 1: group.ports[each.number] for each in running}
                await until_routed({broker_id: f"127.0.0.1:{port}" for broker_id, port in ids.items()})
                if not stopped:
                    await group.stop(master)


async def test_what_a_power_cut_takes_from_all_raft_logs_is_gone_from_the_commit_logs_too() -> None:
    """With ack=page-cache acknowledged messages may be lost then; the copies must not differ afterwards."""
    async with broker_group("ack=page-cache", "flushIntervalCommitLog=1") as group:
        for number in range(20):
            await group.send(b"m%d" % number)
        await group.kill(*group.members, loss=PowerLoss.LOSE_ALL)
        await group.start()
        for number in range(5):
            assert (await group.send(b"later%d" % number)).code == ResponseCode.SUCCESS
        await group.same()
        assert len({log_bytes(each) for each in group.members}) == 1
        kept = await read_held(group, await group.master(), 5)
        assert kept == [
            *[b"m%d" % number for number in range(len(kept) - 5)],
            *[b"later%d" % each for each in range(5)],
        ]


async def test_messages_of_a_broker_with_a_fixed_role_are_not_thrown_away() -> None:
    disk = memory_disk()
    async with serve(disk=disk) as (_, client):
        await send(client, b"m")
    words = ("enableDLegerCommitLog=true", "dLegerPeers=n0-127.0.0.1:1", "dLegerSelfId=n0")
    for _ in range(2):
        with pytest.RaisesGroup(ForeignCommitLog, allow_unwrapped=True, flatten_subgroups=True):
            async with running_broker(*words, disk=disk):
                pass
    async with serve(disk=disk) as (_, client):
        assert bodies(await pull(client, 0)) == [b"m"]


SMALL_LOG = 64 * 1024


async def send_much(group: BrokerGroup) -> int:
    """Far more than the raft log keeps. Returns how many messages these are."""
    async with group.client(await group.master()) as client:
        for number in range(60):
            assert (await send(client, b"%d" % number * 10_000)).code == ResponseCode.SUCCESS
    await eventually(lambda: all(not each.broker or each.events.select("raft_log_trimmed") for each in group.members))
    return 60


def log_bytes(member: Member) -> bytes:
    log = member.running.context.store.log
    found = log.byte_reader().read(log.start_offset, log.end_offset - log.start_offset)
    assert found is not None, "the log is whole"
    return bytes(found)


async def test_whoever_dials_as_a_peer_while_a_broker_starts_or_at_a_port_without_a_group_ends_nothing() -> None:
    hello = encode_hello(Hello("another", PEER, 9))

    async def dial(port: int) -> None:
        while True:
            with suppress(OSError):
                async with await trio.open_tcp_stream("127.0.0.1", port) as stream:
                    with suppress(trio.BrokenResourceError):
                        await stream.send_all(hello)
                        await stream.receive_some()
            await trio.sleep(0.001)

    async with broker_group() as group, trio.open_nursery() as strangers:
        for port in group.ports:
            strangers.start_soon(dial, port)
            strangers.start_soon(dial, port - 2)
        for round_ in range(9):
            member = group.members[round_ % 3]
            await group.stop(member)
            await group.start(member.number)
        assert (await group.send(b"after")).code == ResponseCode.SUCCESS
        strangers.cancel_scope.cancel()
