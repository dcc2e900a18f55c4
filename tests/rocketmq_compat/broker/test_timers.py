"""Timer messages of a broker: delivered at their time and not before, over restarts, kills, and changes of
the master.
"""

import random
import time
from functools import partial

import pytest
import trio

from log.memory_disk import MemoryDisk, PowerLoss
from rocketmq_compat.records import read_properties
from rocketmq_compat.remoting.client import connected_client
from rocketmq_compat.remoting.codes import ResponseCode
from rocketmq_compat.remoting.frame import Command
from tests.rocketmq_compat.broker.groups import Member, broker_group
from tests.rocketmq_compat.broker.pairs import (
    SLAVE,
    bodies,
    eventually,
    heads,
    memory_disk,
    name_server,
    pull,
    pull_until,
    running_broker,
    send,
    serve,
)

QUICK_TABLES = "flushConsumerOffsetInterval=20"


def delay(ms: int) -> str:
    return f"TIMER_DELAY_MS\1{ms}\2UNIQ_KEY\1u\2"


def due_and_stored(pulled: Command) -> list[tuple[int, int]]:
    return [(int(read_properties(each.properties)["TIMER_OUT_MS"]), each.store_ms) for each in heads(pulled)]


async def test_messages_come_in_the_order_of_their_times_and_never_early() -> None:
    async with serve() as (broker, client):
        for body, ms in ((b"third", 700), (b"first", 200), (b"second", 450)):
            assert (await send(client, body, properties=delay(ms), queue_id=0)).code == ResponseCode.SUCCESS
        deliver_ms = time.time_ns() // 1_000_000 + 900
        await send(client, b"fourth", properties=f"TIMER_DELIVER_MS\1{deliver_ms}\2")
        assert not bodies(await pull(client, 0))
        assert broker.context.timers_waiting() == 4
        pulled = await pull_until(client, 4)
        assert bodies(pulled) == [b"first", b"second", b"third", b"fourth"]
        assert all(stored >= due for due, stored in due_and_stored(pulled))
        assert due_and_stored(pulled)[3][0] == deliver_ms
        assert broker.context.timers_waiting() == 0


async def test_a_message_sent_back_does_not_wait_for_its_time_again() -> None:
    async with serve() as (_, client):
        await send(client, b"m", properties=delay(1))
        (found,) = heads(await pull_until(client, 1))
        again = found.properties + "TAGS\1A\2"
        assert (await send(client, b"again", properties=again)).code == ResponseCode.SUCCESS
        assert bodies(await pull_until(client, 2)) == [b"m", b"again"]


@pytest.mark.parametrize(
    ("properties", "settings", "code"),
    [
        (delay(3 * 24 * 3600 * 1000 + 60_000), (), ResponseCode.MESSAGE_ILLEGAL),
        (delay(2_000), ("timerMaxDelaySec=1",), ResponseCode.MESSAGE_ILLEGAL),
        (delay(5), ("timerWheelEnable=false",), ResponseCode.SYSTEM_ERROR),
        ("TIMER_DELAY_SEC\1soon\2", (), ResponseCode.MESSAGE_ILLEGAL),
        ("TIMER_DEL_UNIQKEY\1u\2TIMER_DELAY_MS\0015\2", (), ResponseCode.MESSAGE_ILLEGAL),
    ],
)
async def test_a_time_that_cannot_be_kept_is_refused_and_nothing_is_stored(
    properties: str, settings: tuple[str, ...], code: ResponseCode
) -> None:
    async with serve(*settings) as (broker, client):
        assert (await send(client, b"m", properties=properties)).code == code
        assert broker.context.store.log.end_offset == 0


async def test_a_timer_topic_takes_no_message_of_a_client() -> None:
    async with serve() as (_, client):
        assert (await send(client, b"m", topic="rmq_sys_wheel_timer")).code == ResponseCode.NO_PERMISSION


async def test_timers_survive_a_restart_and_do_not_come_again() -> None:
    disk = memory_disk()
    async with serve(disk=disk) as (_, client):
        await send(client, b"early", properties=delay(1))
        await pull_until(client, 1)
        await send(client, b"late", properties=delay(400))
    async with serve(disk=disk) as (broker, client):
        assert broker.context.timers_waiting() in (0, 1)
        assert bodies(await pull_until(client, 2)) == [b"early", b"late"]
    async with serve(disk=disk) as (broker, client):
        await eventually(lambda: broker.context.delays_from() is None)
        assert bodies(await pull_until(client, 2)) == [b"early", b"late"]


@pytest.mark.parametrize("loss", [None, PowerLoss.LOSE_ALL])
async def test_a_kill_and_a_power_cut_lose_no_timer(loss: PowerLoss | None) -> None:
    rng = random.Random(5)
    disk = MemoryDisk(rng)
    flush = "flushDiskType=SYNC_FLUSH"
    async with serve(flush, QUICK_TABLES, disk=disk) as (_, client):
        for number in range(20):
            await send(client, b"%d" % number, properties=delay(1 + 37 * number % 300))
        await pull_until(client, 5)
        after = disk.after_kill(rng) if loss is None else disk.after_crash(rng, loss=loss)
    async with serve(flush, disk=after) as (_, client):
        with trio.fail_after(20):
            while len(set(bodies(await pull(client, 0, suspend_timeout_millis=500)))) < 20:
                await trio.lowlevel.checkpoint()


async def test_the_commit_log_is_kept_as_long_as_a_timer_waits_in_it() -> None:
    async with serve() as (broker, client):
        await send(client, b"m")
        await send(client, b"timer", properties=delay(60_000))
        kept = broker.context.delays_from()
        assert kept is not None
        assert kept == broker.context.store.place(("rmq_sys_wheel_timer", 0), 0)


async def test_a_promoted_slave_delivers_what_waits_in_its_copy() -> None:
    disk = memory_disk()
    async with name_server() as names:
        address = "namesrvAddr={}:{}".format(*names.address)
        async with (
            running_broker(address, "brokerRole=SYNC_MASTER") as master,
            running_broker(address, *SLAVE, disk=disk) as slave,
            connected_client(master.address) as client,
        ):
            await eventually(lambda: bool(master.slaves))
            assert (await send(client, b"m", properties=delay(700))).code == ResponseCode.SUCCESS
            assert slave.context.timers_waiting() == 0, "a slave delivers nothing"
    async with running_broker(disk=disk) as broker, connected_client(broker.address) as client:
        assert bodies(await pull_until(client, 1)) == [b"m"]


async def test_after_a_change_of_the_master_of_a_group_each_timer_is_delivered_once_it_is_decided() -> None:
    async with broker_group() as group:
        await group.send(b"warm")
        first: Member = await group.master()
        async with group.client(first) as client:
            await send(client, b"now", properties=delay(1))
            await pull_until(client, 2)
            for number in range(5):
                answer = await send(client, b"%d" % number, properties=delay(600 + 10 * number))
                assert answer.code == ResponseCode.SUCCESS
        await group.same()
        await group.kill(first)
        second = await group.master()
        async with group.client(second) as client:
            pulled = await pull_until(client, 7)
            assert sorted(bodies(pulled)) == [b"0", b"1", b"2", b"3", b"4", b"now", b"warm"]


async def test_timers_of_two_lives_with_many_messages_are_each_delivered() -> None:
    disk = memory_disk()
    async with running_broker(disk=disk) as broker, connected_client(broker.address) as client:
        async with trio.open_nursery() as nursery:
            for number in range(600):
                properties = delay(1_000_000 if number % 2 else 1)
                nursery.start_soon(partial(send, client, b"%d" % number, properties=properties))
        with trio.fail_after(30):
            await eventually(lambda: broker.context.timers_waiting() == 300)
    async with running_broker(disk=disk) as broker, connected_client(broker.address) as client:
        await eventually(lambda: broker.context.timers_waiting() == 300)
        assert broker.context.store.queue(("T", 0)) == (0, 300), "none comes again"
