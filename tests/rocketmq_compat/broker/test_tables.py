"""Tables on disk: a change is reported as durable when it is durable."""

import random
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
import trio
import trio.testing

from log.memory_disk import MemoryDisk, PowerLoss
from rocketmq_compat.broker.delays import DelayedMessages
from rocketmq_compat.broker.slave_sync import SlaveSync
from rocketmq_compat.broker.tables import offset_snapshot, offset_wrapper
from rocketmq_compat.consumers.offsets import OffsetSnapshot
from rocketmq_compat.remoting.bodies import ConsumerOffsetSerializeWrapper, DataVersion
from rocketmq_compat.remoting.codes import RequestCode, ResponseCode
from rocketmq_compat.remoting.errors import BadBody
from rocketmq_compat.remoting.frame import Command
from rocketmq_compat.remoting.headers.topics import TopicRequestHeader
from tests.rocketmq_compat.broker.pairs import ask, bodies, pull_until, send, serve
from tests.rocketmq_compat.broker.test_consumers import topic_header


@contextmanager
def stall(disk: MemoryDisk, name: str) -> Iterator[None]:
    """Writes of this file wait, in their thread, until the end of the block."""
    goes_on = threading.Event()

    def before_call(operation: str, path: str) -> None:
        if name in path and threading.current_thread() is not threading.main_thread():
            goes_on.wait()

    disk.before_call = before_call
    try:
        yield
    finally:
        disk.before_call = None
        goes_on.set()


async def test_a_change_that_is_being_written_is_not_acknowledged_to_a_second_client_either() -> None:
    disk = MemoryDisk(random.Random(1))
    answers: list[Command] = []
    async with serve(disk=disk) as (_, client), trio.open_nursery() as nursery:

        async def create() -> None:
            answers.append(await ask(client, RequestCode.UPDATE_AND_CREATE_TOPIC, topic_header("Made")))

        with stall(disk, "config/topics"):
            nursery.start_soon(create)
            nursery.start_soon(create)
            # Both requests are served once a later one of the same connection is.
            await trio.testing.wait_all_tasks_blocked()
            await ask(client, RequestCode.GET_BROKER_CONFIG)
            assert not answers
    assert [each.code for each in answers] == [ResponseCode.SUCCESS] * 2


@pytest.mark.parametrize("table", [{"no separator": {0: 1}}, {"T@g": {0: -1}}])
def test_offsets_that_make_no_sense_are_refused(table: dict[str, dict[int, int]]) -> None:
    with pytest.raises(BadBody):
        offset_snapshot(ConsumerOffsetSerializeWrapper(offset_table=table))


def test_offsets_are_read_as_they_were_written() -> None:
    snapshot = OffsetSnapshot(DataVersion(counter=3), {("g", "T", 0): 1, ("g", "T", 2): 5, ("%RETRY%h", "U", 0): 0})
    wrapper = ConsumerOffsetSerializeWrapper.decode(offset_wrapper(snapshot).encode())
    assert offset_snapshot(wrapper) == snapshot


async def test_a_topic_more_is_a_line_more_on_the_disk_and_is_there_after_a_kill() -> None:
    disk = MemoryDisk(random.Random(1))
    async with serve(disk=disk) as (_, client):
        for number in range(20):
            header = topic_header(f"Made{number}", number + 1)
            assert (await ask(client, RequestCode.UPDATE_AND_CREATE_TOPIC, header)).code == ResponseCode.SUCCESS
        await ask(client, RequestCode.DELETE_TOPIC_IN_BROKER, TopicRequestHeader(topic="Made0"))
        lines = disk.content("/broker/config/topics.journal").splitlines()
        assert len(lines) in (20, 21), "all but the first, if that one writes the file"
        assert max(map(len, lines)) < 500
        killed = disk.after_kill(random.Random(1))
    async with serve(disk=killed) as (broker, _):
        found = {name: each.write_queue_nums for name, each in broker.context.topics.topics.items() if "Made" in name}
        assert found == {f"Made{number}": number + 1 for number in range(1, 20)}


async def test_delay_offsets_on_the_disk_are_never_ahead_of_the_durable_log() -> None:
    disk = MemoryDisk(random.Random(1))
    settings = ("messageDelayLevel=1s", "flushConsumerOffsetInterval=10", "flushIntervalCommitLog=60000")
    async with serve(*settings, disk=disk) as (broker, client):
        await send(client, b"m", properties="DELAY\0011\2")
        broker.context.store.flush()
        await pull_until(client, 1)
        await trio.sleep(0.1)  # tables were written meanwhile, more than once
        cut = disk.after_crash(random.Random(1), loss=PowerLoss.LOSE_ALL)
    async with serve(*settings, disk=cut) as (_, client):
        assert bodies(await pull_until(client, 1)) == [b"m"], "its delivery was lost, and comes again"


async def test_a_slave_takes_delay_offsets_over_once_it_has_what_they_call_delivered() -> None:
    async with serve() as (broker, _):
        delays = DelayedMessages(broker.context, {})
        sync = SlaveSync(broker.context, broker._reactor, delays)
        end = broker.context.store.log.end_offset
        sync._delay_offsets = end + 1, {-1: 5}
        sync.on_arrived([])
        assert not delays.timers.offsets
        sync._delay_offsets = end, {-1: 5}
        sync.on_arrived([])
        assert delays.timers.offsets
