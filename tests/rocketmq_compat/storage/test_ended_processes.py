"""A real process that is killed, or whose file system loses its power, leaves every message that it
had acknowledged.
"""

import itertools
import subprocess
import sys
from pathlib import Path

import pytest

from jepsen_like.cluster.volumes import Volume, lacking
from log.disk import RealDisk
from rocketmq_compat.storage.broker_store import MessageStore
from tests.rocketmq_compat.storage.stores import SMALL_STORE, entries_of, queues_of

WRITER = """
import sys, threading
from log.disk import RealDisk
from rocketmq_compat.storage.broker_store import MessageStore
from tests.rocketmq_compat.storage.records import record
from tests.rocketmq_compat.storage.stores import SMALL_STORE

directory, flush_disk_type = sys.argv[1:]
store = MessageStore.open(RealDisk(), directory, SMALL_STORE)
saving, thread = None, None
for number in range(1_000_000):
    key = (f"T{number % 3}", number % 2)
    found = store.append([record(*key, body=b"%d" % number, properties={"KEYS": str(number)})], epoch=1)
    store.dispatch()
    if flush_disk_type == "SYNC_FLUSH":
        store.flush()
    print(number, *key, *found.queue_offsets, flush=True)
    if thread is not None and not thread.is_alive():
        store.end_save(saving)
        thread = None
    if thread is None and number % 20 == 10:
        store.flush()
        saving = store.begin_save()
        thread = threading.Thread(target=saving.run)
        thread.start()
"""


def run_until_acknowledged(
    directory: Path, flush_disk_type: str, count: int, volume: Volume | None = None
) -> list[list[str]]:
    """Returns the acknowledgements of a process that is ended some time after so many messages."""
    process = subprocess.Popen(
        [sys.executable, "-c", WRITER, str(directory), flush_disk_type],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL if volume is not None else None,  # it is told that its disk has failed
        text=True,
    )
    assert process.stdout is not None
    lines = list(itertools.islice(process.stdout, count))
    if volume is not None:
        volume.cut_power()
    process.kill()
    lines += [each for each in process.stdout if each.endswith("\n")]
    process.wait(60)
    process.stdout.close()
    assert len(lines) >= count
    return [each.split() for each in lines]


def check(directory: Path, messages: list[list[str]]) -> None:
    """Every message is in its queue, and found by its key; and what is derived is what the log states."""
    store = MessageStore.open(RealDisk(), str(directory), SMALL_STORE)
    assert store.derived.report.rebuilt is None or store.log.end_offset < 20_000
    for number, topic, queue_id, offset in messages:
        found = store.read((topic, int(queue_id)), int(offset), count_max=1)
        assert len(found.records) == 1
        assert bytes(found.records[0])[88 : 88 + len(number)] == number.encode()
        assert [bytes(each) for each in store.lookup(topic, number)] == [bytes(found.records[0])]
    queues, entries = queues_of(store), entries_of(store)
    assert sum(each.next for each in queues.values()) in (len(messages), len(messages) + 1)
    store.close()
    (directory / "dispatched").unlink()
    again = MessageStore.open(RealDisk(), str(directory), SMALL_STORE)
    assert (queues_of(again), entries_of(again)) == (queues, entries)
    again.close()


@pytest.mark.parametrize("flush_disk_type", ["ASYNC_FLUSH", "SYNC_FLUSH"])
@pytest.mark.parametrize("count", [15, 150])
def test_no_acknowledged_message_is_lost_when_the_process_is_killed(
    tmp_path: Path, flush_disk_type: str, count: int
) -> None:
    directory = tmp_path / "broker"
    check(directory, run_until_acknowledged(directory, flush_disk_type, count))


@pytest.mark.skipif(lacking() is not None, reason=lacking() or "")
@pytest.mark.parametrize("count", [5, 100, 130])
def test_no_acknowledged_message_is_lost_with_sync_flush_when_the_power_fails(volume: Volume, count: int) -> None:
    directory = volume.path / "broker"
    messages = run_until_acknowledged(directory, "SYNC_FLUSH", count, volume)
    volume.unmount()
    volume.mount()
    check(directory, messages)
