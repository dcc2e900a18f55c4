"""Any sequence of calls on a message store, with restarts, power cuts and failing disks, against a list of batches.

A crash may leave the commit log as it was after some batch since the last flush, beginning where some trim since then
put it. During a change that is durable when it returns, it may also leave the result of the change. In every case,
queues and key index match the whole log, and no queue gives an offset again.
"""

import contextlib
import random
from collections.abc import Callable

import attrs
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from log.errors import NoSpace, StorageFailed
from log.memory_disk import MemoryDisk
from rocketmq_compat.record_layout import MAGIC_V1, MAGIC_V2
from rocketmq_compat.storage.broker_store import GetMessageStatus, MessageStore
from rocketmq_compat.storage.dispatch import UNIT, QueueKey, assign, walk
from tests.examples import examples
from tests.rocketmq_compat.storage.records import memory_disk, record
from tests.rocketmq_compat.storage.stores import QueueContent, entries_of, open_messages, queues_of, rebuilt

NEVER = 1 << 60


@attrs.frozen
class History:
    """All batches since the last reset: physical offset and bytes. Batches that begin before `start` are gone."""

    batches: tuple[tuple[int, bytes], ...] = ()
    start: int = 0
    end: int = 0

    def trim_to(self, start: int) -> "History":
        return attrs.evolve(self, start=max(start, self.start))

    def cut(self, offset: int) -> "History":
        kept = tuple(each for each in self.batches if each[0] + len(each[1]) <= offset)
        return History(kept, self.start, max([self.start, *(at + len(payload) for at, payload in kept)]))

    def cut_exactly(self, offset: int) -> "History":
        """Without what lies behind `offset`, also of the batch that holds it."""
        left = self.cut(offset)
        rest = b"".join(payload[: offset - at] for at, payload in self.batches if at < offset < at + len(payload))
        return attrs.evolve(left, batches=(*left.batches, (left.end, rest)), end=offset) if rest else left

    @property
    def content(self) -> bytes:
        return b"".join(payload for at, payload in self.batches if at >= self.start)

    def queues(self, end: int) -> dict[QueueKey, QueueContent]:
        """The queues that have messages, with what lies before the physical offset `end`, each as its records say."""
        found: dict[QueueKey, QueueContent] = {}
        for at, payload in self.batches:
            for run in walk(payload, at).runs if at < end else ():
                before = found.get(run.key, QueueContent(run.first, run.first, ()))
                units = tuple(UNIT.iter_unpack(bytes(run.units))) if at >= self.start else ()
                first = before.first if at >= self.start else run.next
                found[run.key] = QueueContent(first, run.next, before.units + units)
        return found


class MessageStoreMachine(RuleBasedStateMachine):
    """The store and its list agree, now and after every restart."""

    def __init__(self) -> None:
        super().__init__()
        self.disk: MemoryDisk = memory_disk()
        self.store: MessageStore
        self.appended = [History()]
        """The log after each batch since the last flush, without the trims since then."""
        self.starts = [0]
        self.after: History | None = None

    @initialize(seed=st.integers(0, 2**32))
    def begin(self, seed: int) -> None:
        self.disk = memory_disk(seed)
        self.store = open_messages(self.disk)

    @property
    def now(self) -> History:
        return self.appended[-1].trim_to(max(self.starts))

    def durable(self, state: History) -> None:
        self.appended, self.starts, self.after = [state], [state.start], None

    def note(self, payloads: list[bytes]) -> None:
        """A change is about to append these batches."""
        for payload in payloads:
            newest = self.appended[-1]
            batches = (*newest.batches, (newest.end, payload))
            self.appended.append(History(batches, newest.start, newest.end + len(payload)))

    # Changes

    def append(self, data: st.DataObject) -> None:
        rng = random.Random(data.draw(st.integers(0, 2**32)))
        records = [some_record(rng) for _ in range(rng.randint(1, 6))]
        epoch = max(1, self.store.log.last_epoch) + rng.choice([0, 0, 1])
        expected = assign(records, self.store.log.end_offset, self.store.next_offset)
        self.note([bytes(expected.payload)])
        if rng.random() < 0.5:
            found = self.store.append(records, epoch=epoch)
            assert found.physical_offsets == expected.found.physical_offsets
            assert found.queue_offsets == expected.found.queue_offsets
        else:
            at = self.store.log.end_offset
            append_bytes = self.store.append_copy if rng.random() < 0.5 else self.store.append_assigned
            append_bytes(bytes(expected.payload), offset=at, epoch=epoch)
        if rng.random() < 0.7:
            self.dispatch(data)

    def dispatch(self, data: st.DataObject) -> None:
        up_to = data.draw(st.none() | st.integers(0, self.store.log.end_offset))
        before = self.store.derived.dispatched
        runs = self.store.dispatch(up_to)
        assert up_to is None or self.store.derived.dispatched <= max(up_to, before)
        assert bool(runs) <= (self.store.derived.dispatched > before)

    def flush(self, data: st.DataObject) -> None:
        assert self.store.flush() == self.store.log.end_offset
        self.durable(self.now)

    def save(self, data: st.DataObject) -> None:
        saving = self.store.begin_save()
        try:
            if data.draw(st.booleans()):
                self.append(data)
            saving.run()
        finally:
            self.store.end_save(saving)
        assert self.store.derived.saved <= self.store.log.durable_offset

    def flush_and_save(self, data: st.DataObject) -> None:
        self.flush(data)
        self.save(data)

    def trim(self, data: st.DataObject) -> None:
        offset = data.draw(st.integers(0, self.store.log.end_offset))
        boundaries = [at for at, _ in self.now.batches] + [self.now.end]
        wanted = min(offset, self.store.derived.saved)
        start = max([self.store.log.start_offset, *(at for at in boundaries if at <= wanted)])
        self.starts.append(start)
        assert self.store.trim(offset) == start

    def truncate(self, data: st.DataObject) -> None:
        places = [place for at, payload in self.now.batches for place in walk(payload, at).physical_offsets]
        offset = data.draw(st.sampled_from([each for each in places if each >= self.now.start] + [self.now.end]))
        if offset < self.now.end:
            self.after = self.now.cut(offset)
        assert self.store.truncate(offset) == offset
        if self.after is not None:
            self.durable(self.now.cut_exactly(offset))

    def reset(self, data: st.DataObject) -> None:
        offset = data.draw(st.integers(0, self.store.log.end_offset + 5000))
        self.after = History((), offset, offset)
        self.store.reset(offset)
        self.durable(self.after)

    CHANGES = st.sampled_from([append, append, append, dispatch, flush, save, flush_and_save, trim, truncate, reset])

    # What happens

    @rule(changes=st.lists(CHANGES, min_size=1, max_size=8), data=st.data())
    def do(self, changes: list[Callable[..., None]], data: st.DataObject) -> None:
        for change in changes:
            change(self, data)

    @rule(change=CHANGES, data=st.data(), n=st.integers(1, 25), seed=st.integers(0, 2**32), killed=st.booleans())
    def do_on_a_failing_disk(
        self, change: Callable[..., None], data: st.DataObject, n: int, seed: int, killed: bool
    ) -> None:
        self.disk.fail_call(n)
        with contextlib.suppress(StorageFailed):
            change(self, data)
        self.disk.fail_call(NEVER)
        if self.disk.failed_as_asked:
            self.restart(seed, killed=killed)

    @rule(change=st.sampled_from([append, append, dispatch, save, trim]), data=st.data(), room=st.integers(0, 2000))
    def do_on_a_full_disk(self, change: Callable[..., None], data: st.DataObject, room: int) -> None:
        before = list(self.appended)
        self.disk.capacity_bytes = self.disk.used_bytes() + room
        try:
            change(self, data)
        except NoSpace:
            if self.store.log.end_offset == before[-1].end:
                self.appended = before
        self.disk.capacity_bytes = None

    @rule(seed=st.integers(0, 2**32))
    def lose_power(self, seed: int) -> None:
        self.restart(seed, killed=False)

    @rule(seed=st.integers(0, 2**32))
    def be_killed(self, seed: int) -> None:
        end = self.store.log.end_offset
        self.restart(seed, killed=True)
        assert self.store.log.end_offset == end

    @rule()
    def close_and_open(self) -> None:
        self.store.dispatch()
        self.store.close()
        self.durable(self.now)
        self.open(self.disk)
        assert self.store.derived.report.bytes_read == 0

    def restart(self, seed: int, *, killed: bool) -> None:
        rng = random.Random(seed)
        self.open(self.disk.after_kill(rng) if killed else self.disk.after_crash(rng))

    def open(self, disk: MemoryDisk) -> None:
        self.disk = disk
        twin = disk.after_kill(random.Random(0))
        self.store = open_messages(disk)
        log = self.store.log
        assert self.store.derived.dispatched == log.end_offset
        may_be = [each.trim_to(start) for each in self.appended for start in self.starts]
        if self.after is not None:
            may_be += [self.after, self.now.cut_exactly(log.end_offset)]
        content = b"".join(bytes(each.payload) for each in log.read(log.start_offset, 1 << 30))
        found = [
            state
            for state in may_be
            if (state.start, state.end, state.content) == (log.start_offset, log.end_offset, content)
        ]
        assert found
        self.durable(found[0])
        again = rebuilt(twin)
        again.trim(log.start_offset)
        if again.log.start_offset == log.start_offset:  # else a checkpoint knew of a trim that was not durable
            full = {key: queue for key, queue in queues_of(again).items() if queue.units}
            assert {key: queue for key, queue in queues_of(self.store).items() if queue.units} == full
            assert entries_of(self.store) == entries_of(again)

    @invariant()
    def agrees(self) -> None:
        store, now = self.store, self.now
        log, end = store.log, store.derived.dispatched
        assert (log.start_offset, log.end_offset) == (now.start, now.end)
        assert store.derived.strange_runs == 0
        expected = now.queues(end)
        found = queues_of(store)
        assert {key: each for key, each in found.items() if each.units} == {
            key: queue for key, queue in expected.items() if queue.units
        }
        assert all(found[key] == each for key, each in expected.items())
        for key, queue in now.queues(now.end).items():
            assert store.next_offset(key) == queue.next
        for key, queue in expected.items():
            offset, records = queue.first, list[bytes]()
            while offset < queue.next:
                read = store.read(key, offset, count_max=3)
                assert read.status == GetMessageStatus.FOUND
                records += map(bytes, read.records)
                offset = read.next_offset
            content = now.content
            assert records == [content[at - now.start : at - now.start + size] for at, size, _ in queue.units]
            assert store.read(key, queue.next).status == GetMessageStatus.OFFSET_OVERFLOW_ONE


def some_record(rng: random.Random) -> bytes:
    topic = rng.choice(["A", "B", "%RETRY%g"])
    flags = rng.choice([0, 0, 0, 0, 4, 8, 12, 16, 48])
    key = f"k{rng.randint(0, 9)}"
    return record(
        topic,
        rng.choice([0, 0, 1]),
        body=bytes(rng.choice([0, 50, 700])),
        flags=flags,
        magic=rng.choice([MAGIC_V1, MAGIC_V2]),
        properties={"KEYS": key, "TAGS": rng.choice("xy")} if rng.random() < 0.8 else {},
        store_ms=rng.randint(0, 500),
    )


TestMessageStoreMachine = MessageStoreMachine.TestCase
TestMessageStoreMachine.settings = settings(max_examples=examples(36), stateful_step_count=25)
