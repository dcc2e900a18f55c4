"""A RocketMQ broker's messages: what a record costs to append, to read and to find again, and what many queues cost.

    python benchmarks/message_store.py [--messages 20000] [--queues 5000] [--directory DIR]

Appends small messages of eight queues, one and 32 at a time, reads the newest and, after a restart, all of them, and derives queues and keys
again from the commit log alone. Then it appends to many queues and writes a checkpoint of them. Prints a table of what was
measured and its bound, and exits with status 0 only where every bound holds. The bounds are generous: they are for two busy cores.
"""

import argparse
import os
import shutil
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import attrs

from log.disk import RealDisk
from rocketmq_compat.records import encode_host, encode_record, write_properties
from rocketmq_compat.storage.broker_store import GetMessageStatus, MessageStore
from rocketmq_compat.storage.derived import DISPATCHED_NAME
from rocketmq_compat.storage.dispatch import QueueKey

QUEUES = 8
TOGETHER = 32


@attrs.frozen
class Line:
    """One row of the table."""

    name: str
    measured: float
    bound: float
    unit: str

    @property
    def holds(self) -> bool:
        return self.measured < self.bound

    def __str__(self) -> str:
        verdict = "ok" if self.holds else "FAILED"
        return f"{self.name:<52} {self.measured:>10.3f} {self.bound:>8.0f} {self.unit:<12} {verdict}"


def record(topic: str, queue_id: int) -> bytes:
    """A message of 200 bytes, with the properties that a Java client gives it."""
    properties = {"UNIQ_KEY": "7F00000100002A139A6A1C3A5B0C0001", "WAIT": "true", "TAGS": "TagA"}
    host = encode_host("127.0.0.1", 10911)
    return encode_record(
        topic=topic,
        body=bytes(200),
        properties=write_properties(properties),
        queue_id=queue_id,
        born_ms=1,
        born_host=host,
        store_ms=1,
        store_host=host,
    )


def seconds(work: Callable[[], object]) -> float:
    """Returns the seconds that a call takes."""
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def append_all(store: MessageStore, records: Sequence[bytes], together: int) -> None:
    for at in range(0, len(records), together):
        store.append(records[at : at + together], epoch=1)
        store.dispatch()


def read_all(store: MessageStore, key: QueueKey, offset: int = 0) -> int:
    """Read a queue from this offset on. Returns its end."""
    while (found := store.read(key, offset, count_max=TOGETHER)).status == GetMessageStatus.FOUND:
        offset = found.next_offset
    return offset


def open_store(directory: Path) -> MessageStore:
    return MessageStore.open(RealDisk(), str(directory))


def measure(directory: Path, messages: int, queues: int) -> list[Line]:
    """Everything; the directory is made, and removed again."""
    shutil.rmtree(directory, ignore_errors=True)
    records = [record("Orders", at % QUEUES) for at in range(messages)]
    store = open_store(directory)
    one_s = seconds(lambda: append_all(store, records, 1))
    newest = messages // QUEUES * 3 // 4
    recent_s = seconds(lambda: [read_all(store, ("Orders", each), newest) for each in range(QUEUES)])
    many_s = seconds(lambda: append_all(store, records, TOGETHER))
    store.close()
    store = open_store(directory)
    read_s = seconds(lambda: [read_all(store, ("Orders", each)) for each in range(QUEUES)])
    store.close()
    open_s = seconds(lambda: open_store(directory).close())
    (directory / DISPATCHED_NAME).unlink()
    derive_s = seconds(lambda: open_store(directory).close())
    shutil.rmtree(directory)
    store = open_store(directory)
    append_all(store, [record(f"T{at // 10}", at % 10) for at in range(queues)], 100)
    store.flush()
    new_s = seconds(store.derived.save)
    append_all(store, [record(f"T{at // 10}", at % 10) for at in range(queues)], 100)
    store.flush()
    changed_s = seconds(store.derived.save)
    store.close()
    open_many_s = seconds(lambda: open_store(directory).close())
    store = open_store(directory)
    for at in range(queues):
        store.read((f"T{at // 10}", at % 10), 0)
    held = len(os.listdir("/proc/self/fd"))
    store.close()
    shutil.rmtree(directory)
    return [
        Line("append and dispatch, one at a time", one_s / messages * 1e6, 300, "µs a message"),
        Line(f"append and dispatch, {TOGETHER} at a time", many_s / messages * 1e6, 60, "µs a message"),
        Line(
            f"read the newest, {TOGETHER} at a time", recent_s / (messages - newest * QUEUES) * 1e6, 60, "µs a message"
        ),
        Line(f"read all after a restart, {TOGETHER} at a time", read_s / messages / 2 * 1e6, 120, "µs a message"),
        Line("derive from the log again", derive_s / messages / 2 * 1e6, 120, "µs a message"),
        Line(f"open with {2 * messages} messages", open_s, 2, "s"),
        Line(f"checkpoint of {queues} new queues", new_s, 20, "s"),
        Line(f"checkpoint of {queues} changed queues", changed_s, 10, "s"),
        Line(f"open with {queues} queues", open_many_s, 2, "s"),
        Line(f"descriptors after reading {queues} queues", held, 400, "descriptors"),
    ]


def main(arguments: Sequence[str] | None = None) -> int:
    """Returns the exit status."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--messages", type=int, default=20_000)
    parser.add_argument("--queues", type=int, default=5_000)
    parser.add_argument("--directory", type=Path, default=Path("runs/message_store"), help="on the disk to be measured")
    options = parser.parse_args(arguments)
    lines = measure(options.directory, options.messages, options.queues)
    print(f"{'':<52} {'measured':>10} {'below':>8}")
    for line in lines:
        print(line)
    for line in lines:
        if not line.holds:
            print(f"failed: {line.name}: {line.measured:.3f} {line.unit}, not below {line.bound:.0f}", file=sys.stderr)
    return 0 if all(line.holds for line in lines) else 1


if __name__ == "__main__":
    sys.exit(main())
