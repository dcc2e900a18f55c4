"""Any sequence of calls on the log of a partition, with restarts, power cuts and failing disks, against a list of
batches.

A crash may leave the log as it was after some append since the last flush, beginning where some trim since then put it.
During a change that is durable when it returns, it may also leave the result of the change.
"""

import contextlib
import random
from collections.abc import Callable

import attrs
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from kafka_compat.protocol.batch_header import read_batch_header
from kafka_compat.records import read_records
from kafka_compat.storage.broker_store import BrokerStore
from kafka_compat.storage.partition_log import PartitionLog
from kafka_compat.storage.producer_snapshots import KeptProducers, replay_into
from kafka_compat.storage.run_record import Stage
from log.errors import StorageFailed
from log.memory_disk import MemoryDisk
from tests.examples import examples
from tests.kafka_compat.storage.partition_model import PARTITION, TOPIC_ID, at, batch, memory_disk, open_broker

NEVER = 1 << 60


@attrs.frozen
class LogState:
    """The content of a log: batches as stored; batches before `start` are gone."""

    batches: tuple[bytes, ...] = ()
    start: int = 0
    end: int = 0

    def trim_to(self, start: int) -> "LogState":
        kept = tuple(each for each in self.batches if read_batch_header(each).end_offset > start)
        return LogState(kept, max(start, self.start), max(self.end, start))

    def cut(self, offset: int) -> "LogState":
        if offset < self.start:
            return LogState((), offset, offset)
        kept = tuple(each for each in self.batches if read_batch_header(each).end_offset <= offset)
        gone = [read_batch_header(each).base_offset for each in self.batches[len(kept) :]]
        return LogState(kept, self.start, max(self.start, min([self.end, offset, *gone])))

    def producers(self) -> KeptProducers:
        """Of the batches that are still there."""
        found = KeptProducers()
        replay_into(found, ((read_batch_header(each), each) for each in self.batches))
        return found


def state_of(log: PartitionLog) -> LogState:
    return LogState(tuple(map(bytes, log.read(log.start_offset, 1 << 30))), log.start_offset, log.end_offset)


class PartitionLogMachine(RuleBasedStateMachine):
    """The log and its list agree, now and after every restart."""

    def __init__(self) -> None:
        super().__init__()
        self.disk: MemoryDisk = memory_disk()
        self.store: BrokerStore
        self.log: PartitionLog
        self.appended = [LogState()]
        """The log after each append since the last flush, without the trims since then."""
        self.starts = [0]
        self.after: LogState | None = None
        self.known = KeptProducers()
        """The replica's knowledge of its producers, which survives trims."""
        self.written = 0

    @initialize(seed=st.integers(0, 2**32))
    def begin(self, seed: int) -> None:
        self.disk = memory_disk(seed)
        self.store = open_broker(self.disk)
        self.store.create({PARTITION: TOPIC_ID})
        self.log = self.store.log(PARTITION)

    @property
    def now(self) -> LogState:
        return self.appended[-1].trim_to(max(self.starts))

    def note_flush(self, state: LogState | None = None) -> None:
        state = self.now if state is None else state
        self.appended, self.starts, self.after = [state], [state.start], None

    # Changes

    def append(self, data: st.DataObject) -> None:
        rng = random.Random(data.draw(st.integers(0, 2**32)))
        epoch = max(self.log.last_epoch, 0) + rng.choice([0, 0, 1])
        sent, stored, offset = [], [], self.log.end_offset
        for _ in range(rng.randint(1, 5)):
            self.written += 1
            count = rng.choice([1, 1, 4])
            producer = (rng.randint(0, 2), epoch, self.written) if rng.random() < 0.5 else None
            times = [rng.randint(0, 500) for _ in range(count)]
            sent.append(
                batch(count, mark=f"#{self.written}", size=rng.choice([10, 700]), times=times, producer=producer)
            )
            offset += 5 if len(sent) == 1 and rng.random() < 0.2 else 0
            stored.append(at(sent[-1], offset, epoch))
            offset += count
        newest = self.appended[-1]
        for appended in stored:
            newest = LogState((*newest.batches, appended), newest.start, read_batch_header(appended).end_offset)
            self.appended.append(newest)
        if read_batch_header(stored[0]).base_offset == self.log.end_offset:
            assert self.log.append_as_leader(sent, epoch)[1] == offset
        else:
            assert self.log.append_as_follower(stored)[1] == offset
        replay_into(self.known, ((read_batch_header(each), each) for each in stored))

    def truncate(self, data: st.DataObject) -> None:
        offset = data.draw(st.integers(max(0, self.log.start_offset - 3), self.log.end_offset + 1))
        if offset < self.log.end_offset:
            self.after = self.now.cut(offset)
            assert self.log.truncate(offset) == self.after.end
            self.note_flush(self.after)
            self.known = self.now.producers()
        else:
            assert self.log.truncate(offset) == self.log.end_offset

    def reset(self, data: st.DataObject) -> None:
        offset = data.draw(st.integers(0, self.log.end_offset + 10))
        self.after = LogState((), offset, offset)
        self.log.reset(offset)
        self.note_flush(self.after)
        self.known = KeptProducers()

    def trim(self, data: st.DataObject) -> None:
        start = data.draw(st.integers(self.log.start_offset, self.log.end_offset))
        self.starts.append(start)
        assert self.log.trim(start) == start

    def flush(self, data: st.DataObject) -> None:
        self.store.flush()
        self.note_flush()

    def snapshot(self, data: st.DataObject) -> None:
        self.log.write_snapshot(self.known)

    CHANGES = st.sampled_from([append, append, append, truncate, reset, trim, flush, snapshot, snapshot])

    # What happens

    @rule(changes=st.lists(CHANGES, min_size=1, max_size=6), data=st.data())
    def do(self, changes: list[Callable[..., None]], data: st.DataObject) -> None:
        for change in changes:
            change(self, data)

    @rule(change=CHANGES, data=st.data(), n=st.integers(1, 20), seed=st.integers(0, 2**32), killed=st.booleans())
    def do_on_a_failing_disk(
        self, change: Callable[..., None], data: st.DataObject, n: int, seed: int, killed: bool
    ) -> None:
        self.disk.fail_call(n)
        with contextlib.suppress(StorageFailed):
            change(self, data)
        self.disk.fail_call(NEVER)
        if self.disk.failed_as_asked:
            # The call may have succeeded: another file was closed to make room, and its sync fails on its next use.
            self.restart(seed, killed=killed)

    @rule(seed=st.integers(0, 2**32))
    def lose_power(self, seed: int) -> None:
        self.restart(seed, killed=False)

    @rule(seed=st.integers(0, 2**32))
    def be_killed(self, seed: int) -> None:
        end = self.log.end_offset
        self.restart(seed, killed=True)
        assert self.log.end_offset == end

    @rule()
    def close_and_open(self) -> None:
        self.store.close(producers={PARTITION: self.known})
        self.note_flush()
        self.open(self.disk)
        assert self.store.previous is not None
        assert self.store.previous.stage is Stage.CLEAN

    def restart(self, seed: int, *, killed: bool) -> None:
        rng = random.Random(seed)
        self.open(self.disk.after_kill(rng) if killed else self.disk.after_crash(rng))

    def open(self, disk: MemoryDisk) -> None:
        self.disk = disk
        self.store = open_broker(disk)
        self.log = self.store.log(PARTITION)
        found = state_of(self.log)
        may_be = {each.trim_to(start) for each in self.appended for start in self.starts}
        assert found == self.after or found in may_be
        self.note_flush(found)
        self.known = known = self.log.take_producers()
        # A snapshot may know more, of batches that were trimmed, but of those that are there it knows the same.
        for producer, (epoch, batches) in found.producers().by_id.items():
            assert known.by_id[producer][0] == epoch
            assert known.by_id[producer][1][-len(batches) :] == batches
            assert all(each[2] < found.start + 5 for each in known.by_id[producer][1][: -len(batches)])

    @invariant()
    def agrees(self) -> None:
        now = self.now
        assert state_of(self.log) == now
        offset, size, end = now.start, 0, 0
        for held in now.batches:
            header = read_batch_header(held)
            assert [bytes(got) for got in self.log.read(max(header.base_offset, now.start), 1)] == [held]
            assert bytes(self.log.read(max(header.base_offset, now.start), 1, header.end_offset)[0]) == held
            assert self.log.read(max(header.base_offset, now.start), 1, header.end_offset - 1) == []
            offset, size, end = header.end_offset, size + header.size, header.end_offset
        assert (size == 0) == (end == 0)
        assert offset <= now.end
        records = [each for content in now.batches for each in read_records(content) if each.offset >= now.start]
        for since in (0, 100, 400, 501):
            first = next(((each.offset, each.timestamp_ms) for each in records if each.timestamp_ms >= since), None)
            assert self.log.find_time(since) == first
        newest = max((each.timestamp_ms for each in records), default=None)
        first = next(((each.offset, each.timestamp_ms) for each in records if each.timestamp_ms == newest), None)
        assert self.log.find_newest_time() == first


TestPartitionLogMachine = PartitionLogMachine.TestCase
TestPartitionLogMachine.settings = settings(max_examples=examples(24), stateful_step_count=30)
