"""Tables on the disk: who is told that a change lasts is told so when it does."""

import random
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
import trio
import trio.testing

from log.memory_disk import MemoryDisk
from rocketmq_compat.broker.tables import offset_snapshot, offset_wrapper
from rocketmq_compat.consumers.offsets import OffsetSnapshot
from rocketmq_compat.remoting.bodies import ConsumerOffsetSerializeWrapper, DataVersion
from rocketmq_compat.remoting.codes import RequestCode, ResponseCode
from rocketmq_compat.remoting.errors import BadBody
from rocketmq_compat.remoting.frame import Command
from tests.rocketmq_compat.broker.pairs import ask, served
from tests.rocketmq_compat.broker.test_consumers import topic_header


@contextmanager
def stalled(disk: MemoryDisk, name: str) -> Iterator[None]:
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
    async with served(disk=disk) as (_, client), trio.open_nursery() as nursery:

        async def create() -> None:
            answers.append(await ask(client, RequestCode.UPDATE_AND_CREATE_TOPIC, topic_header("Made")))

        with stalled(disk, "topics.json"):
            nursery.start_soon(create)
            nursery.start_soon(create)
            # Both requests are served once a later one of the same connection is.
            await trio.testing.wait_all_tasks_blocked()
            await ask(client, RequestCode.GET_ALL_TOPIC_CONFIG)
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
