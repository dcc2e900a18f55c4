"""A master and its slave: what an acknowledgement promises, what the slave holds and serves, and what is refused."""

import tempfile
from contextlib import AsyncExitStack

import pytest
import trio
from click.testing import CliRunner

from jepsen_like.cluster.ports import LOOPBACK, ReservedPorts
from log.memory_disk import MemoryDisk
from rocketmq_compat.broker.broker import Broker, BrokerPlan
from rocketmq_compat.broker.ha_links import SLAVES_MAX
from rocketmq_compat.broker.replicated_log import PUSHED_BYTES_A_ROUND, ReplicatedLog
from rocketmq_compat.broker.slave_sync import SYNC_EVERY_S
from rocketmq_compat.config import InvalidProperty, Properties
from rocketmq_compat.config_keys import BROKER_PROPERTIES
from rocketmq_compat.process import processes
from rocketmq_compat.remoting.bodies import ClusterInfo, KVTable, LockBatchRequestBody, TopicRouteData
from rocketmq_compat.remoting.client import connected_client
from rocketmq_compat.remoting.codes import RequestCode, ResponseCode
from rocketmq_compat.remoting.headers.divergence import DecideDivergenceRequestHeader
from rocketmq_compat.remoting.headers.offsets import UpdateConsumerOffsetRequestHeader
from rocketmq_compat.remoting.headers.routes import GetRouteInfoRequestHeader
from rocketmq_compat.replication.effects import PushLog
from rocketmq_compat.replication.ha_codec import encode
from rocketmq_compat.replication.messages import Handshake
from tests.rocketmq_compat.broker.pairs import (
    SECRET,
    SLAVE,
    WAIT_S,
    Events,
    ask,
    bodies,
    eventually,
    memory_disk,
    name_server,
    operator,
    pair,
    pull,
    pull_until,
    running_broker,
    send,
)


def log_bytes(broker: Broker) -> bytes:
    log = broker.context.store.log
    found = log.byte_reader().read(log.start_offset, log.end_offset - log.start_offset)
    return b"" if found is None else bytes(found)


async def same_end(*brokers: Broker) -> None:
    await eventually(lambda: len({each.context.store.log.end_offset for each in brokers}) == 1)


@pytest.mark.parametrize("flush", ["ASYNC_FLUSH", "SYNC_FLUSH"])
async def test_a_synchronous_master_acknowledges_what_its_slave_holds(flush: str) -> None:
    flushes = f"flushDiskType={flush}"
    async with pair("brokerRole=SYNC_MASTER", flushes, of_slave=(flushes,)) as found:
        for number in range(10):
            assert (await send(found.to_master, b"m%d" % number)).code == ResponseCode.SUCCESS
            held, slave = found.master.context.store.log, found.slave.context.store.log
            assert slave.end_offset == held.end_offset
            assert flush == "ASYNC_FLUSH" or slave.durable_offset == held.end_offset
        assert log_bytes(found.slave) == log_bytes(found.master)


async def used_disk() -> MemoryDisk:
    """A disk on which a broker has run, and stopped in order: its copy is what it was."""
    disk = memory_disk()
    async with running_broker(disk=disk):
        pass
    return disk


async def test_without_a_slave_a_synchronous_master_says_so_and_stores() -> None:
    disk = await used_disk()
    async with (
        running_broker("brokerRole=SYNC_MASTER", disk=disk) as master,
        connected_client(master.address) as client,
    ):
        answer = await send(client, b"m")
        assert answer.code == ResponseCode.SLAVE_NOT_AVAILABLE
        assert answer.ext["queueOffset"] == "0"
        assert bodies(await pull(client, 0)) == [b"m"]


async def test_with_the_rule_of_5_x_a_synchronous_master_waits_for_its_copies() -> None:
    rule = ("brokerRole=SYNC_MASTER", "replicationFlavor=5.x", "inSyncReplicas=2", "slaveTimeout=100")
    async with running_broker(*rule, disk=await used_disk()) as master, connected_client(master.address) as client:
        assert (await send(client, b"m")).code == ResponseCode.FLUSH_SLAVE_TIMEOUT
        assert (await send(client, b"m", properties="WAIT\1false\2")).code == ResponseCode.SUCCESS


async def test_a_slave_takes_no_messages_and_no_locks() -> None:
    async with pair() as found:
        assert (await send(found.to_slave, b"m")).code == ResponseCode.SERVICE_NOT_AVAILABLE
        body = LockBatchRequestBody(consumer_group="g", client_id="c").encode()
        assert (
            await ask(found.to_slave, RequestCode.LOCK_BATCH_MQ, body=body)
        ).code == ResponseCode.SERVICE_NOT_AVAILABLE
        assert found.slave.context.store.log.end_offset == 0


async def test_a_slave_serves_pulls_only_if_it_is_set_to() -> None:
    async with pair() as found:
        await send(found.to_master, b"m")
        await same_end(found.master, found.slave)
        refused = await pull(found.to_slave, 0)
        if refused.code != ResponseCode.TOPIC_NOT_EXIST:  # which it learns within 10 s
            assert (refused.code, bodies(refused)) == (ResponseCode.PULL_RETRY_IMMEDIATELY, [])


async def test_a_slave_that_may_read_has_what_its_master_has() -> None:
    async with name_server() as names:
        address = "namesrvAddr={}:{}".format(*names.address)
        async with running_broker(address) as master, connected_client(master.address) as to_master:
            for number in range(5):
                await send(to_master, b"m%d" % number)
            offset = UpdateConsumerOffsetRequestHeader(consumer_group="g", topic="T", queue_id=0, commit_offset=4)
            await ask(to_master, RequestCode.UPDATE_CONSUMER_OFFSET, offset)
            async with (
                running_broker(address, *SLAVE, "slaveReadEnable=true") as slave,
                connected_client(slave.address) as to_slave,
            ):
                with trio.fail_after(WAIT_S):
                    await slave.synced.wait()
                assert bodies(await pull_until(to_slave, 5)) == [b"m%d" % number for number in range(5)]
                assert slave.context.topics.topics == master.context.topics.topics
                assert slave.context.offsets.snapshot().offsets == {("g", "T", 0): 4}
                # A consumer that has read more than the slave holds waits, and keeps its place.
                ahead = await pull(to_slave, 9, suspend_timeout_millis=50)
                assert (ahead.code, ahead.ext["nextBeginOffset"]) == (ResponseCode.PULL_NOT_FOUND, "9")


async def test_clients_find_both_through_the_name_server() -> None:
    async with pair() as found:
        await send(found.to_master, b"m")
        async with connected_client(found.names.address) as client:
            route = None
            with trio.fail_after(WAIT_S):
                while route is None:
                    answer = await ask(client, RequestCode.GET_ROUTEINFO_BY_TOPIC, GetRouteInfoRequestHeader(topic="T"))
                    if answer.code == ResponseCode.SUCCESS:
                        route = TopicRouteData.decode(answer.body)
                    await trio.sleep(0.01)
        addresses = {each: "{}:{}".format(*broker.address) for each, broker in ((0, found.master), (1, found.slave))}
        assert route.broker_datas[0].broker_addrs == addresses


async def test_a_slave_catches_up_after_its_master_was_away() -> None:
    disks = memory_disk(), memory_disk()
    async with name_server() as names:
        address = "namesrvAddr={}:{}".format(*names.address)
        async with running_broker(address, *SLAVE, disk=disks[1]) as slave:
            for life in range(2):
                async with running_broker(address, disk=disks[0]) as master, connected_client(master.address) as client:
                    for _ in range(3):
                        await send(client, b"life %d" % life)
                    await same_end(master, slave)
                    assert log_bytes(slave) == log_bytes(master)


async def test_a_master_whose_log_leaves_its_slaves_takes_no_messages() -> None:
    """A master on an old copy of its disk, which it cannot know, took messages before its slave came."""
    events, old, of_slave = Events(), await used_disk(), memory_disk()
    async with name_server() as names:
        address = "namesrvAddr={}:{}".format(*names.address)
        async with (
            running_broker(address, *SLAVE, disk=of_slave) as slave,
            running_broker(address) as master,
            connected_client(master.address) as client,
        ):
            await send(client, b"acknowledged")
            await same_end(master, slave)
        async with (
            running_broker(address, disk=old, events=events) as master,
            connected_client(master.address) as client,
        ):
            assert (await send(client, b"another")).code == ResponseCode.SUCCESS
            async with running_broker(address, *SLAVE, disk=of_slave) as slave:
                await eventually(lambda: bool(events.select("divergence")))
                refused = await send(client, b"other")
                assert refused.code == ResponseCode.SERVICE_NOT_AVAILABLE
                assert refused.remark is not None
                assert "an operator must decide" in refused.remark
                table = KVTable.decode((await ask(client, RequestCode.GET_BROKER_RUNTIME_INFO)).body).table
                assert (table["slaves"], table["divergedSlaves"]) == ("", "1")
            assert slave.context.store.log.end_offset > 0


async def decide(address: tuple[str, int], decision: str, *words: str) -> tuple[int, str]:
    """Returns the exit status of an operator's command, and its output."""
    at = "{}:{}".format(*address)
    with tempfile.NamedTemporaryFile("w") as file:  # its owner alone may read it
        file.write(SECRET.text)
        file.flush()
        command = [decision, "--broker", at, "--secret-file", file.name, *words]
        done = await trio.to_thread.run_sync(lambda: CliRunner().invoke(processes, command))
    return done.exit_code, done.output


async def test_an_operator_decides_that_the_log_of_a_master_counts_and_what_slaves_hold_beyond_it_is_discarded() -> (
    None
):
    events, disk, of_slave = Events(), memory_disk(), memory_disk()
    async with name_server() as names:
        address = "namesrvAddr={}:{}".format(*names.address)
        async with running_broker(address, *SLAVE, disk=of_slave) as slave:
            async with running_broker(address, disk=disk) as master, connected_client(master.address) as client:
                await send(client, b"kept")
                await same_end(master, slave)
            before, kept = disk.durable_copy(), slave.context.store.log.end_offset
            async with running_broker(address, disk=disk) as master, connected_client(master.address) as client:
                await send(client, b"acknowledged, and lost")
                await same_end(master, slave)
            held, stored = slave.context.store.log.end_offset, log_bytes(slave)
        async with (
            running_broker(address, disk=before, events=events) as master,
            connected_client(master.address) as client,
        ):
            await send(client, b"by itself")
            async with running_broker(address, *SLAVE, disk=of_slave) as slave:
                await eventually(
                    lambda: bool(events.select("divergence")) and bool(slave.context.copy_facts()["divergences"])
                )
                status, said = await decide(master.address, "discard", "--yes")
                assert (status, "is a master: ask a slave" in said) == (4, True), said
                status, said = await decide(master.address, "accept-loss")
                assert (status, f"slave 1 holds {held - kept} bytes, from {kept} to {held}" in said) == (0, True), said
                assert "Nothing was changed" in said
                assert (await send(client, b"other")).code == ResponseCode.SERVICE_NOT_AVAILABLE

                status, said = await decide(master.address, "accept-loss", "--yes")
                assert (status, "takes messages again" in said) == (0, True), said
                assert (await send(client, b"other")).code == ResponseCode.SUCCESS
                assert log_bytes(slave) == stored

                stale = DecideDivergenceRequestHeader(decision="discard", divergences=f"1:0-{held}")
                async with operator(slave.address) as to_slave:
                    refused = await ask(to_slave, RequestCode.DECIDE_DIVERGENCE, stale)
                assert refused.code == ResponseCode.SYSTEM_ERROR
                assert refused.remark == f"the divergences are 1:{kept}-{held} now, not 1:0-{held}: look at them first"
                assert log_bytes(slave) == stored

                status, said = await decide(slave.address, "discard", "--yes")
                assert (status, f"gave up {held - kept} bytes, from {kept} to {held}" in said) == (0, True), said
                await eventually(lambda: bool(events.select("divergence_ended")) and bool(master.slaves))
                await same_end(master, slave)
                assert log_bytes(slave) == log_bytes(master)
                assert log_bytes(slave)[:kept] == stored[:kept]
                (given_up,) = [each for each in of_slave.paths() if "/discarded/" in each]
                assert of_slave.content(given_up) == stored[kept:]
                assert bodies(await pull(client, 0)) == [b"kept", b"by itself", b"other"]
                status, said = await decide(master.address, "accept-loss", "--yes")
                assert (status, "knows of no divergence" in said) == (4, True), said


async def test_a_slave_may_reach_its_master_at_the_port_of_clients() -> None:
    async with running_broker("brokerRole=SYNC_MASTER") as master, connected_client(master.address) as client:
        address = "haMasterAddress={}:{}".format(*master.address)
        async with running_broker(*SLAVE, address) as slave:
            await eventually(lambda: bool(master.slaves))
            assert (await send(client, b"m")).code == ResponseCode.SUCCESS
            assert log_bytes(slave) == log_bytes(master)


async def test_what_a_slave_lacks_is_pushed_in_parts_and_others_have_their_turn_in_between(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with running_broker(secret=None) as master, connected_client(master.address) as client:
        for _ in range(40):
            assert (await send(client, bytes(100_000))).code == ResponseCode.SUCCESS
        rounds: list[int] = [0]
        pushes, ends = ReplicatedLog._push, master.on_round_end

        def count(log: ReplicatedLog, order: PushLog) -> None:
            before = log._pushed_bytes
            pushes(log, order)
            rounds[-1] += log._pushed_bytes - before

        def end() -> None:
            ends()
            rounds.append(0)

        monkeypatch.setattr(ReplicatedLog, "_push", count)
        monkeypatch.setattr(master, "on_round_end", end)
        async with await trio.open_tcp_stream(*master.ha_address) as stream:
            await stream.send_all(b"".join(encode(Handshake("broker-a", 1, True, 0, 0, ()))))
            await eventually(lambda: sum(rounds) == master.context.store.log.end_offset)
        assert max(rounds) <= 3 * (PUSHED_BYTES_A_ROUND + 101_000)


async def test_slaves_at_the_port_of_clients_are_bounded_in_number() -> None:
    events = Events()
    async with (
        running_broker("brokerRole=SYNC_MASTER", events=events, secret=None) as master,
        AsyncExitStack() as stack,
    ):
        streams = [
            await stack.enter_async_context(await trio.open_tcp_stream(*master.address)) for _ in range(SLAVES_MAX + 1)
        ]
        for slave_id, stream in enumerate(streams, start=1):
            await stream.send_all(b"".join(encode(Handshake("broker-a", slave_id, True, 0, 0, ()))))
        await eventually(lambda: len(master.slaves) == SLAVES_MAX and bool(events.select("connection_closed")))
        (told,) = events.select("connection_closed")
        assert f"all {SLAVES_MAX} connections of slaves are in use" in told["reason"]


async def test_what_is_advertised_is_what_clients_and_slaves_are_told() -> None:
    async with name_server() as names, connected_client(names.address) as client:
        address = "namesrvAddr={}:{}".format(*names.address)
        async with running_broker(address, advertised=("127.0.0.9", 7)), running_broker(address, *SLAVE) as slave:
            found = ClusterInfo.decode((await ask(client, RequestCode.GET_BROKER_CLUSTER_INFO)).body)
            addresses = found.broker_addr_table["broker-a"].broker_addrs
            assert addresses == {0: "127.0.0.9:7", 1: "{}:{}".format(*slave.address)}


@pytest.mark.parametrize(
    "assignments",
    [
        ("brokerId=1",),
        ("brokerRole=SLAVE",),
        ("namesrvAddr=nowhere",),
        ("messageDelayLevel=soon",),
        ("haMasterAddress=x",),
    ],
)
def test_settings_that_do_not_go_together_are_refused(assignments: tuple[str, ...]) -> None:
    properties = Properties.read(BROKER_PROPERTIES, assignments)
    with pytest.raises(InvalidProperty):
        BrokerPlan(listen=("127.0.0.1", 0), data="/x", properties=properties)


async def test_a_slave_knows_a_topic_as_soon_as_it_has_a_message_of_it() -> None:
    async with pair(of_slave=("slaveReadEnable=true",)) as found:
        for topic in ("one", "two"):  # well before the next copy of all tables is due
            assert (await send(found.to_master, b"m", topic)).code == ResponseCode.SUCCESS
            with trio.fail_after(SYNC_EVERY_S / 2):
                while (await pull(found.to_slave, 0, topic=topic)).code != ResponseCode.SUCCESS:  # noqa: ASYNC110
                    await trio.sleep(0.01)


async def test_a_slave_dials_its_master_by_the_detour_for_the_address_that_it_is_told() -> None:
    told = ("127.0.0.1", 9)  # no one listens there
    async with name_server() as names:
        at = "namesrvAddr={}:{}".format(*names.address)
        async with (
            running_broker(at, advertised=told) as master,
            running_broker(at, *SLAVE, detours={told: master.address}) as slave,
        ):
            with trio.fail_after(WAIT_S):
                await slave.synced.wait()
            await eventually(lambda: bool(master.slaves))


async def test_a_master_tells_operators_which_slaves_it_has_taken() -> None:
    async with pair() as found:
        table = KVTable.decode((await ask(found.to_master, RequestCode.GET_BROKER_RUNTIME_INFO)).body).table
        assert (table["slaves"], table["divergedSlaves"]) == ("1", "")
        table = KVTable.decode((await ask(found.to_slave, RequestCode.GET_BROKER_RUNTIME_INFO)).body).table
        assert "slaves" not in table


async def test_a_broker_that_others_are_sent_to_elsewhere_takes_no_second_port() -> None:
    with ReservedPorts(1) as reserved:
        host, port = listen = LOOPBACK, reserved.ports[0]
        async with running_broker(listen=listen, advertised=("127.0.0.1", 9)):
            with pytest.raises(OSError, match="all attempts"):
                await trio.open_tcp_stream(host, port - 2)


async def test_a_slave_dials_again_after_the_interval_that_it_is_set_to() -> None:
    detours: dict[tuple[str, int], tuple[str, int]] = {}
    told = ("127.0.0.1", 9)
    async with name_server() as names:
        at = "namesrvAddr={}:{}".format(*names.address)
        async with (
            running_broker(at, advertised=told) as master,
            running_broker(at, *SLAVE, "haReconnectInterval=20", "registerNameServerPeriod=20", detours=detours),
        ):
            detours[told] = master.address
            with trio.fail_after(2.0):
                while not master.slaves:  # noqa: ASYNC110 - brokers have no event for what they learn
                    await trio.sleep(0.002)
