"""Damaged or missing copies: one sound copy keeps every acknowledged record, and the partition serves again
by itself.
"""

import itertools
import random
from collections.abc import Callable

import pytest
import trio

from kafka_compat.model import NO_LEADER
from kafka_compat.protocol.error_codes import KafkaErrorCode
from log.memory_disk import MemoryDisk
from tests.kafka_compat.broker.cluster import Cluster, cluster

NONE = KafkaErrorCode.NONE
COUNT = 6
VALUES = [b"%d" % number for number in range(COUNT)]
PLACE = "data/partitions/"
Damage = Callable[[MemoryDisk], None]


def without(prefix: str) -> Damage:
    """Remove all files whose path begins so, durably."""

    def damage(disk: MemoryDisk) -> None:
        found = [path for path in disk.paths() if path.startswith(prefix)]
        assert found or prefix == "data/"
        for path in found:
            disk.remove(path)
        for directory in {path.rpartition("/")[0] for path in found}:
            disk.sync_directory(directory)

    return damage


def flip(disk: MemoryDisk) -> None:
    """Flip a bit in the first batch."""
    disk.flip_bit(f"{PLACE}logs/t-0/{0:020d}.log", 8 * 120)


async def fill(brokers: Cluster) -> None:
    """A topic on all brokers with some acknowledged records."""
    async with brokers.client(1) as client:
        assert await client.create("t", 3) is NONE
    await brokers.until(lambda: brokers.knows("t"))
    async with brokers.client(brokers.state("t").leader) as client:
        for number, value in enumerate(VALUES):
            assert await client.produce("t", value) == (NONE, number)


async def assert_kept(brokers: Cluster) -> None:
    """All of the records are there, and the partition takes more with all replicas in sync."""
    with trio.fail_after(20):
        for running in list(brokers.running.values()):
            await running.broker.serving.wait()
    await brokers.until(lambda: brokers.state("t").leader != NO_LEADER and len(brokers.state("t").isr) == 3)
    leader = brokers.state("t").leader
    await brokers.until(lambda: brokers.leads(leader, "t"))
    async with brokers.client(leader) as client:
        assert await client.values("t") == VALUES
        assert (await client.produce("t", b"after"))[0] is NONE


def is_doubtful(brokers: Cluster, broker: int) -> bool:
    """Returns True if a broker has reported that it may lack records."""
    return any(event == "doubtful" and number == broker for number, event, _ in brokers.events)


DAMAGES = {
    "flipped": flip,
    "no partition": without(f"{PLACE}logs/t-0/"),
    "no segment": without(f"{PLACE}logs/t-0/{0:020d}.log"),
    "no partitions": without(PLACE),
    "no run record": without(f"{PLACE}run"),
    "no disk": without("data/"),
}
SOME_IN_QUICK_TESTS = [
    pytest.param(damage, id=name, marks=() if name in ("flipped", "no disk") else pytest.mark.campaign)
    for name, damage in DAMAGES.items()
]


@pytest.mark.parametrize("damage", SOME_IN_QUICK_TESTS)
async def test_the_last_one_to_stop_is_damaged_and_what_the_others_hold_is_kept(damage: Damage) -> None:
    async with cluster(min_insync_replicas="2") as brokers:
        await fill(brokers)
        for broker in (3, 2, 1):
            if broker != 1:
                await brokers.running[broker].broker.shut_down()
            await brokers.kill(broker)
        damage(brokers.disks[1])
        is_empty = not brokers.disks[1].paths()  # then it has to hear both others before it votes
        for broker in (1, 2):
            await brokers.start(broker)
        if not is_empty:
            # Once 2 and 3 are in sync, 1 counts for nothing any more, and has no doubt to report.
            await brokers.until(lambda: is_doubtful(brokers, 1))
        await brokers.start(3)
        await assert_kept(brokers)
        assert is_empty or is_doubtful(brokers, 1)


@pytest.mark.parametrize("damage", SOME_IN_QUICK_TESTS)
async def test_all_are_killed_and_one_is_damaged_and_what_the_others_hold_is_kept(damage: Damage) -> None:
    number = list(DAMAGES.values()).index(damage)
    order, broken = list(itertools.permutations((1, 2, 3)))[number % 6], 3 - number % 3
    async with cluster(min_insync_replicas="1") as brokers:
        await fill(brokers)
        disks = {each: disk.after_kill(random.Random(each)) for each, disk in brokers.disks.items()}
        for broker in order:
            await brokers.kill(broker)
        brokers.disks = disks
        damage(disks[broken])
        for broker in reversed(order):
            await brokers.start(broker)
        await assert_kept(brokers)


METADATA_DAMAGES = {
    "no metadata": without("data/metadata/"),
    "flipped": lambda disk: disk.flip_bit(f"data/metadata/{0:020d}.log", 8 * 150),
}


@pytest.mark.parametrize("damage", METADATA_DAMAGES.values(), ids=METADATA_DAMAGES)
async def test_a_broker_whose_metadata_is_gone_learns_it_again_and_keeps_its_logs(damage: Damage) -> None:
    async with cluster(min_insync_replicas="1") as brokers:
        await fill(brokers)
        disks = {each: disk.after_kill(random.Random(each)) for each, disk in brokers.disks.items()}
        for broker in (1, 2, 3):
            await brokers.kill(broker)
        brokers.disks = disks
        damage(disks[2])
        brokers.events.clear()
        for broker in (2, 1, 3):
            await brokers.start(broker)
        await assert_kept(brokers)
        assert not any(event == "doubtful" for _, event, _ in brokers.events)
        damaged = [(number, fields["log"]) for number, event, fields in brokers.events if event == "damage"]
        assert damaged == [(2, "metadata")]


async def test_logs_stay_where_they_are_if_all_metadata_is_gone() -> None:
    async with cluster(min_insync_replicas="1") as brokers:
        await fill(brokers)
        for broker in (1, 2, 3):
            await brokers.kill(broker)
        for disk in brokers.disks.values():
            without("data/metadata/")(disk)
        for broker in (1, 2, 3):
            await brokers.start(broker)
        with trio.fail_after(20):
            for running in list(brokers.running.values()):
                await running.broker.serving.wait()
        assert {number for number, event, _ in brokers.events if event == "strays_kept"} == {1, 2, 3}
        for broker in (1, 2, 3):
            await brokers.kill(broker)
            assert f"{PLACE}logs/t-0/{0:020d}.log" in brokers.disks[broker].paths()


async def test_the_copy_of_a_directory_from_before_is_not_trusted() -> None:
    async with cluster(min_insync_replicas="1") as brokers:
        async with brokers.client(1) as client:
            assert await client.create("t", 3) is NONE
        await brokers.until(lambda: brokers.knows("t"))
        await brokers.kill(1)
        before = brokers.disks[1].after_kill(random.Random(0))
        await brokers.start(1)
        await brokers.running[1].broker.serving.wait()
        await brokers.until(lambda: len(brokers.state("t").isr) == 3)
        async with brokers.client(brokers.state("t").leader) as client:
            for number, value in enumerate(VALUES):
                assert await client.produce("t", value) == (NONE, number)
        for broker in (3, 2, 1):
            if broker != 1:
                await brokers.running[broker].broker.shut_down()
            await brokers.kill(broker)
        for path in [each for each in brokers.disks[1].paths() if each.startswith(PLACE)]:
            brokers.disks[1].remove(path)
        disk = brokers.disks[1]
        for path in [each for each in before.paths() if each.startswith(PLACE)]:
            file = disk.open(path, create=True)
            file.write_at(0, [before.content(path)])
            file.sync()
            file.close()
        brokers.events.clear()
        for broker in (1, 2, 3):
            await brokers.start(broker)
        await assert_kept(brokers)
        reasons = [fields["reason"] for number, event, fields in brokers.events if (number, event) == (1, "doubtful")]
        assert any("older than the one from which this broker served last" in reason for reason in reasons)
