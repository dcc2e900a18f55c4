"""Full disks of RocketMQ's brokers: no broker ends, no master is unseated, nothing acknowledged is lost, all go on."""

import trio

from log.memory_disk import MemoryDisk
from rocketmq_compat.remoting.client import connected_client
from rocketmq_compat.remoting.codes import ResponseCode
from tests.rocketmq_compat.broker.groups import broker_group
from tests.rocketmq_compat.broker.pairs import (
    SLAVE,
    WAIT_S,
    Events,
    bodies,
    eventually,
    memory_disk,
    name_server,
    pull,
    running_broker,
    send,
)

LARGE = bytes(300_000)


def fill(*disks: MemoryDisk) -> None:
    for disk in disks:
        disk.capacity_bytes = disk.used_bytes()


def make_room(*disks: MemoryDisk) -> None:
    for disk in disks:
        disk.capacity_bytes = None


async def test_a_slave_without_room_is_sent_everything_again_and_its_master_goes_on() -> None:
    disk, events = memory_disk(), Events()
    async with name_server() as names:
        address = "namesrvAddr={}:{}".format(*names.address)
        async with (
            running_broker(address) as master,
            running_broker(address, *SLAVE, disk=disk, events=events) as slave,
            connected_client(master.address) as client,
        ):
            await eventually(lambda: bool(master.slaves))
            assert (await send(client, b"before")).code == ResponseCode.SUCCESS
            await eventually(lambda: slave.context.store.log.end_offset == master.context.store.log.end_offset)
            fill(disk)
            for _ in range(12):
                assert (await send(client, LARGE)).code == ResponseCode.SUCCESS
            await eventually(lambda: bool(events.select("storage_full")))
            assert slave.context.store.log.end_offset < master.context.store.log.end_offset
            make_room(disk)
            assert (await send(client, b"after")).code == ResponseCode.SUCCESS
            await eventually(lambda: slave.context.store.log.end_offset == master.context.store.log.end_offset)


async def test_a_majority_of_full_disks_neither_ends_a_member_of_a_group_nor_loses_a_message() -> None:
    async with broker_group() as group:
        assert (await group.send(b"before")).code == ResponseCode.SUCCESS
        master = await group.master()
        assert master.broker is not None
        other = next(each for each in group.members if each is not master)
        roles = sum(len(each.events.select("role")) for each in group.members)
        fill(master.disk, other.disk)
        stored = [b"before"]
        async with group.client(master) as client:
            refused = 0
            for number in range(20):
                body = b"%d" % number + LARGE
                with trio.move_on_after(1.0):
                    answer = await send(client, body)
                    if answer.code == ResponseCode.SUCCESS:
                        stored.append(body)
                    else:
                        refused += 1
            assert refused
        assert all(each.broker is not None for each in group.members)
        assert sum(len(each.events.select("role")) for each in group.members) <= roles + 6
        make_room(master.disk, other.disk)
        with trio.fail_after(WAIT_S):
            assert (await group.send(b"after")).code == ResponseCode.SUCCESS
        await group.same()
        async with group.client(await group.master()) as client:
            found: list[bytes] = []
            while pulled := bodies(await pull(client, len(found), max_msg_nums=1)):
                found += pulled
        assert [each for each in found if each in stored] == stored, "each acknowledged message is there once, in order"
        assert found[-1] == b"after"


async def test_a_doubt_that_ends_without_room_for_its_tables_is_over_once_there_is_room() -> None:
    disk, events = memory_disk(), Events()
    async with name_server() as names:
        address = "namesrvAddr={}:{}".format(*names.address)
        async with running_broker(address, "totalReplicas=2", disk=disk, events=events) as master:
            fill(disk)
            async with running_broker(address, *SLAVE):
                await eventually(lambda: bool(events.select("copy_is_sure")))
                await eventually(lambda: bool(events.select("checkpoint_failed")))
            make_room(disk)
            await eventually(lambda: master.context.store.copy.notes.doubt is None)
