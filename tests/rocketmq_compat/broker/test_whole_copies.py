"""A master and its slave whose disks are damaged, or lose data, between a stop and a start.

The content of one sound copy is kept and served.
"""

import random
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Final

import pytest
import trio

from jepsen_like.testing.rocketmq.sync import RocketMqProcesses
from log.errors import CorruptLog
from log.memory_disk import MemoryDisk
from rocketmq_compat.remoting.bodies import KVTable
from rocketmq_compat.remoting.client import RemotingClient, connected_client
from rocketmq_compat.remoting.codes import RequestCode, ResponseCode
from rocketmq_compat.remoting.headers.divergence import DecideDivergenceRequestHeader
from rocketmq_compat.remoting.headers.offsets import QueryConsumerOffsetRequestHeader, UpdateConsumerOffsetRequestHeader
from tests.rocketmq_compat.broker.pairs import (
    DATA,
    SLAVE,
    WAIT_S,
    Events,
    ask,
    bodies,
    eventually,
    memory_disk,
    name_server,
    operator,
    pull,
    running_broker,
    send,
)

SENT: Final = 12
PAIR: Final = "totalReplicas=2"
COMMITTED: Final = 7


def log_is_cut(disk: MemoryDisk) -> None:
    """A bit of a record that was flushed is wrong."""
    path = max(each for each in disk.paths() if each.endswith(".log") and disk.content(each))
    disk.flip_bit(path, 8 * (len(disk.content(path)) // 2))


def log_is_gone(disk: MemoryDisk) -> None:
    _remove(disk, "/commitlog/")


def queues_are_gone(disk: MemoryDisk) -> None:
    _remove(disk, "/consumequeue/")
    _remove(disk, "/index/")


def all_is_gone(disk: MemoryDisk) -> None:
    _remove(disk, "/")


def notes_are_gone(disk: MemoryDisk) -> None:
    _remove(disk, "/copy")


def tables_are_gone(disk: MemoryDisk) -> None:
    _remove(disk, "/config/")


def offsets_are_damaged(disk: MemoryDisk) -> None:
    (path,) = [each for each in disk.paths() if each.endswith("consumerOffset.json")]
    disk.flip_bit(path, 8 * (len(disk.content(path)) // 2))


def log_and_notes_are_damaged(disk: MemoryDisk) -> None:
    log_is_cut(disk)
    notes_are_gone(disk)


def _remove(disk: MemoryDisk, part: str) -> None:
    for path in disk.paths():
        if f"{DATA}{part}" in path and "lock" not in path:
            disk.remove(path)


HARMS = [
    log_is_cut,
    log_is_gone,
    queues_are_gone,
    all_is_gone,
    notes_are_gone,
    tables_are_gone,
    offsets_are_damaged,
    log_and_notes_are_damaged,
]


def offset_header(offset: int) -> UpdateConsumerOffsetRequestHeader:
    return UpdateConsumerOffsetRequestHeader(consumer_group="g", topic="T", queue_id=0, commit_offset=offset)


async def query_committed(client: RemotingClient) -> str:
    header = QueryConsumerOffsetRequestHeader(consumer_group="g", topic="T", queue_id=0)
    answer = await ask(client, RequestCode.QUERY_CONSUMER_OFFSET, header)
    return answer.ext["offset"]


async def used_pair(role: str) -> tuple[MemoryDisk, MemoryDisk]:
    """Returns the disks of a killed master and slave that both have the same messages and the same committed offset."""
    of_master, of_slave, chance = memory_disk(), memory_disk(), random.Random(7)
    offsets_soon = "flushConsumerOffsetInterval=20"
    async with name_server() as names:
        address = "namesrvAddr={}:{}".format(*names.address)
        async with running_broker(address, role, PAIR, offsets_soon, disk=of_master) as master:
            async with running_broker(address, *SLAVE, PAIR, disk=of_slave):
                await eventually(lambda: bool(master.slaves))
                async with connected_client(master.address) as client:
                    for number in range(SENT):
                        assert (await send(client, b"%d" % number)).code == ResponseCode.SUCCESS
                    assert (await ask(client, RequestCode.UPDATE_CONSUMER_OFFSET, offset_header(COMMITTED))).code == 0
                of_slave = of_slave.after_kill(chance)
            async with running_broker(address, *SLAVE, PAIR, offsets_soon, disk=of_slave) as slave:
                with trio.fail_after(WAIT_S):  # it copies the tables as it starts
                    await slave.synced.wait()
                await eventually(lambda: slave.context.store.log.end_offset == master.context.store.log.end_offset)
                await eventually(lambda: all(map(has_offset, (of_master, of_slave))))
                if role.endswith("=SYNC_MASTER"):
                    master.context.store.flush()
                    slave.context.store.flush()
                return of_master.after_kill(chance), of_slave.after_kill(chance)
    raise AssertionError("the brokers ended")


def has_offset(disk: MemoryDisk) -> bool:
    path = f"{DATA}/config/consumerOffset.json"
    return path in disk.paths() and b":%d}" % COMMITTED in disk.content(path)


@pytest.mark.parametrize("role", ["brokerRole=ASYNC_MASTER", "brokerRole=SYNC_MASTER"])
@pytest.mark.parametrize("harm", HARMS)
async def test_a_master_serves_again_with_all_that_its_slave_has(harm: Callable[[MemoryDisk], None], role: str) -> None:
    """The master starts first: until its slave is there it takes nothing, unless it can prove that it lacks nothing."""
    of_master, of_slave = await used_pair(role)
    harm(of_master)
    async with name_server() as names:
        address = "namesrvAddr={}:{}".format(*names.address)
        async with (
            running_broker(address, role, PAIR, disk=of_master) as master,
            connected_client(master.address) as client,
        ):
            early = await send(client, b"early")
            is_whole = harm is queues_are_gone
            assert early.code == (
                ResponseCode.SERVICE_NOT_AVAILABLE
                if not is_whole
                else ResponseCode.SUCCESS
                if "ASYNC" in role
                else ResponseCode.SLAVE_NOT_AVAILABLE
            )
            if not is_whole:
                assert (await pull(client, 0)).code == ResponseCode.SERVICE_NOT_AVAILABLE
            async with running_broker(address, *SLAVE, PAIR, disk=of_slave):
                await eventually(lambda: master.context.copy_facts()["doubt"] == "" and bool(master.slaves))
                assert (await send(client, b"later")).code == ResponseCode.SUCCESS
                expected = [b"%d" % number for number in range(SENT)] + ([b"early"] if is_whole else []) + [b"later"]
                assert bodies(await pull(client, 0)) == expected
                assert await query_committed(client) == str(COMMITTED)


@pytest.mark.parametrize("harm", [log_is_cut, all_is_gone])
async def test_the_slave_may_start_first(harm: Callable[[MemoryDisk], None]) -> None:
    of_master, of_slave = await used_pair("brokerRole=SYNC_MASTER")
    harm(of_master)
    async with name_server() as names:
        address = "namesrvAddr={}:{}".format(*names.address)
        async with (
            running_broker(address, *SLAVE, PAIR, disk=of_slave),
            running_broker(address, "brokerRole=SYNC_MASTER", PAIR, disk=of_master) as master,
            connected_client(master.address) as client,
        ):
            await eventually(lambda: master.context.copy_facts()["doubt"] == "" and bool(master.slaves))
            assert (await send(client, b"later")).code == ResponseCode.SUCCESS
            assert len(bodies(await pull(client, 0))) == SENT + 1


@pytest.mark.parametrize("harm", [log_is_cut, log_is_gone, all_is_gone])
async def test_a_slave_repairs_itself_from_its_master(harm: Callable[[MemoryDisk], None]) -> None:
    of_master, of_slave = await used_pair("brokerRole=ASYNC_MASTER")
    harm(of_slave)
    events = Events()
    async with name_server() as names:
        address = "namesrvAddr={}:{}".format(*names.address)
        async with (
            running_broker(address, PAIR, disk=of_master) as master,
            running_broker(address, *SLAVE, PAIR, disk=of_slave, events=events) as slave,
        ):
            await eventually(lambda: bool(events.select("copy_is_sure")))
            assert events.select("copy_in_doubt")
            end = master.context.store.log.end_offset
            assert slave.context.store.log.end_offset == end
            assert slave.context.store.queue(("T", 0)) == (0, SENT)


async def test_a_slave_that_lacks_what_it_had_and_is_made_the_master_waits_for_the_old_one() -> None:
    of_master, of_slave = await used_pair("brokerRole=SYNC_MASTER")
    log_is_cut(of_slave)
    async with name_server() as names:
        address = "namesrvAddr={}:{}".format(*names.address)
        async with (
            running_broker(address, "brokerRole=SYNC_MASTER", PAIR, disk=of_slave) as master,
            connected_client(master.address) as client,
        ):
            assert (await send(client, b"early")).code == ResponseCode.SERVICE_NOT_AVAILABLE
            async with running_broker(address, *SLAVE, PAIR, disk=of_master):
                await eventually(lambda: master.context.copy_facts()["doubt"] == "" and bool(master.slaves))
                assert (await send(client, b"later")).code == ResponseCode.SUCCESS
                assert len(bodies(await pull(client, 0))) == SENT + 1


async def test_an_operator_may_give_up_a_slave_that_does_not_come_back() -> None:
    of_master, _ = await used_pair("brokerRole=ASYNC_MASTER")
    log_is_gone(of_master)
    async with running_broker(PAIR, disk=of_master) as master, connected_client(master.address) as client:
        refused = await send(client, b"early")
        assert refused.remark is not None
        assert "it waits for slave 1" in refused.remark
        table = KVTable.decode((await ask(client, RequestCode.GET_BROKER_RUNTIME_INFO)).body).table
        assert "it waits for slave 1" in table["doubt"]
        decision = DecideDivergenceRequestHeader(decision="accept-loss", divergences=table["divergences"])
        async with operator(master.address) as tool:
            assert (await ask(tool, RequestCode.DECIDE_DIVERGENCE, decision)).code == ResponseCode.SUCCESS
        assert (await send(client, b"later")).code == ResponseCode.SUCCESS


async def test_as_rocketmq_a_master_without_its_disk_serves_empty() -> None:
    """The loss that `haDivergence=rocketmq` has, as RocketMQ."""
    as_rocketmq = "haDivergence=rocketmq"
    of_master, _ = await used_pair("brokerRole=ASYNC_MASTER")
    all_is_gone(of_master)
    async with running_broker(PAIR, as_rocketmq, disk=of_master) as master, connected_client(master.address) as client:
        assert (await send(client, b"first")).ext["queueOffset"] == "0"


async def test_a_lone_broker_with_a_damaged_log_changes_nothing() -> None:
    disk = memory_disk()
    async with running_broker(disk=disk) as broker, connected_client(broker.address) as client:
        await send(client, b"m")
        broker.context.store.flush()
        disk = disk.after_kill(random.Random(7))
    log_is_cut(disk)
    before = {path: disk.content(path) for path in disk.paths() if "/commitlog/" in path}
    with pytest.raises(CorruptLog):
        async with running_broker(disk=disk):
            raise AssertionError("it serves")
    assert {path: disk.content(path) for path in disk.paths() if "/commitlog/" in path} == before


# ---------------------------------------------------------------- processes


def home_of_master(directory: Path) -> Path:
    """The directory of broker 1."""
    (found,) = {
        path.parent for path in directory.rglob("commitlog") if path.parent.name != "logs" and "1" in path.parts
    }
    return found


def damage(home: Path) -> None:
    newest = max(each for each in home.glob("commitlog/logs/commitlog/*.log") if each.stat().st_size)
    content = bytearray(newest.read_bytes())
    content[len(content) // 3] ^= 8
    newest.write_bytes(content)


def remove_log(home: Path) -> None:
    shutil.rmtree(home / "commitlog")


def remove_all(home: Path) -> None:
    shutil.rmtree(home)


def send_acknowledged(cluster: RocketMqProcesses, text: str) -> None:
    with cluster.producer() as producer:
        for number in range(10):
            producer.send("orders", f"{text} {number}".encode())


@pytest.mark.campaign
@pytest.mark.cluster
@pytest.mark.parametrize(("harm", "sync", "first"), [(damage, True, 1), (remove_log, True, 2), (remove_all, False, 2)])
def test_all_are_killed_and_the_master_comes_back_with_another_disk(
    tmp_path: Path, harm: Callable[[Path], None], sync: bool, first: int
) -> None:
    with RocketMqProcesses.open(sync=sync, directory=tmp_path) as cluster:
        send_acknowledged(cluster, "before")
        assert cluster.check().valid
        cluster.kill(1, 2)
        harm(home_of_master(tmp_path))
        cluster.start(first)
        cluster.start(3 - first)
        cluster.wait_until_serving()
        send_acknowledged(cluster, "after")
        verdict = cluster.check()
        assert (verdict.valid, verdict.allowed, verdict.elsewhere) == (True, (), ())


@pytest.mark.cluster
def test_damage_that_is_found_when_it_is_read_is_repaired_while_the_process_lives(tmp_path: Path) -> None:
    """A broker that stopped in order does not read its log as it starts."""
    with RocketMqProcesses.open(sync=True, directory=tmp_path) as cluster:
        send_acknowledged(cluster, "before")
        assert cluster.check().valid
        cluster.stop(1, 2)
        damage(home_of_master(tmp_path))
        cluster.start(1, 2)
        cluster.wait_until_serving()
        verdict = cluster.check()
        assert (verdict.valid, verdict.allowed, verdict.elsewhere) == (True, (), ())
        send_acknowledged(cluster, "after")
        assert cluster.check().valid
