"""Any sequence of calls, crashes and restarts, against a plain list."""

import random

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from log.errors import NoSpace, StorageFailed
from log.flush import Flush
from log.frame import Frame, FrameKind
from log.index import LogTail
from log.memory_disk import MemoryDisk, PowerLoss
from log.segmented_log import SegmentedLog
from tests.examples import examples
from tests.log.frames import memory_disk, open_log
from tests.log.model import Model, moment_of, trim_both

SIZES = st.sampled_from([0, 1, 40, 300, 1500, 5000])


class LogMachine(RuleBasedStateMachine):
    """A flushed log survives a crash; beyond that, what survives is the log as it was at some moment."""

    def __init__(self) -> None:
        super().__init__()
        self.disk: MemoryDisk = memory_disk()
        self.model = Model()
        self.log: SegmentedLog
        self.flush: Flush | None = None
        self.mark = 0
        self.at_flush = (0, 0)
        self.written = 0

    def payload(self, size: int) -> bytes:
        """Never the same twice, so that an old frame is never taken for the new one of the same index and epoch."""
        self.written += 1
        return f"#{self.written}".encode().ljust(size, b"-")

    @initialize(seed=st.integers(0, 2**32))
    def begin(self, seed: int) -> None:
        self.disk = memory_disk(seed)
        self.log = open_log(self.disk)

    @rule(data=st.data(), count=st.integers(1, 12), size=SIZES)
    def append(self, data: st.DataObject, count: int, size: int) -> None:
        now = self.model.now
        back = data.draw(st.sampled_from([0, 0, 0, 0, 1, 2, 10, 1000]))
        first = max(now.start.index + 1, now.last_index + 1 - back)
        epoch = self.model.epoch_before(first) + data.draw(st.sampled_from([0, 0, 1, 3]))
        offset = self.model.offset_of(first)
        frames = []
        for index in range(first, first + count):
            span = index % 3
            kind = FrameKind.RECORDS if span else FrameKind.CONTROL
            frames.append(
                Frame.of(self.payload(size), index=index, epoch=epoch, base_offset=offset, span=span, kind=kind)
            )
            offset += span
        self.log.append(frames)
        self.model.append(frames)

    @rule(data=st.data())
    def truncate(self, data: st.DataObject) -> None:
        now = self.model.now
        last_index = data.draw(st.integers(now.start.index, now.last_index))
        self.log.truncate(last_index)
        self.model.truncate(last_index)

    @precondition(lambda self: self.log.first_index)
    @rule(data=st.data())
    def trim(self, data: st.DataObject) -> None:
        first_index = data.draw(st.integers(self.log.first_index, self.log.last_index))
        start_index = self.model.now.start.index
        assert start_index < trim_both(self.log, self.model, first_index, self.payload(0)) <= first_index

    @precondition(lambda self: self.flush is None)
    @rule(rounds=st.integers(1, 4), size=st.sampled_from([1100, 1500]))
    def turn_over(self, rounds: int, size: int) -> None:
        """Enough for segments to leave and their files to come back."""
        for _ in range(rounds):
            last = self.model.now.last_index
            epoch, offset = self.model.epoch_before(last + 1), self.model.now.end_offset
            frames = [
                Frame.of(
                    self.payload(size), index=index, epoch=epoch, base_offset=offset, span=0, kind=FrameKind.CONTROL
                )
                for index in range(last + 1, last + 5)
            ]
            self.log.append(frames)
            self.model.append(frames)
            so_far = self.model.so_far
            self.log.flush()
            self.model.mark_flushed(so_far)
            trim_both(self.log, self.model, self.log.last_index, self.payload(size))

    @precondition(lambda self: self.flush is None)
    @rule(data=st.data(), size=SIZES, cut_at=st.none() | st.integers(1, 30), seed=st.integers(0, 2**32))
    def reset(self, data: st.DataObject, size: int, cut_at: int | None, seed: int) -> None:
        """Anywhere, backwards too; and the power may be cut at any call."""
        now = self.model.now
        last_index = data.draw(st.integers(0, now.last_index + 20))
        before = LogTail()
        if last_index:
            epoch = data.draw(st.integers(0, self.model.epoch_before(now.last_index + 1) + 2))
            before = LogTail(last_index, epoch, data.draw(st.integers(0, now.end_offset + 50)))
        payload = self.payload(size)
        self.model.begin_reset(before, payload)
        if cut_at is not None:
            self.disk.fail_call(cut_at)
        try:
            self.log.reset(before, payload)
        except StorageFailed:
            self.restart(self.disk.after_crash(random.Random(seed)))
        else:
            self.disk.fail_call(2**62)
            self.model.end_reset()
            survivor = open_log(self.disk.after_crash(random.Random(seed), loss=PowerLoss.LOSE_ALL))
            assert moment_of(survivor) == moment_of(self.log) == self.model.now
            assert self.log.durable_end == self.log.end == survivor.end

    @rule(state=st.binary(max_size=40))
    def save_state(self, state: bytes) -> None:
        self.log.save_state(state)
        self.model.save_state(state)

    @rule(size=st.sampled_from([0, 1000, 10_000]))
    def reserve(self, size: int) -> None:
        self.log.reserve(size)

    @rule(data=st.data())
    def meet_a_full_disk(self, data: st.DataObject) -> None:
        self.disk.capacity_bytes = self.disk.used_bytes()
        index = self.model.now.last_index + 1
        epoch = self.model.epoch_before(index)
        frames = []
        for following in range(index, index + data.draw(st.integers(1, 3))):
            offset = self.model.offset_of(index)
            frames.append(
                Frame.of(
                    self.payload(90), index=following, epoch=epoch, base_offset=offset, span=0, kind=FrameKind.CONTROL
                )
            )
        try:
            self.log.append(frames)
        except NoSpace:
            pass
        else:
            self.model.append(frames)
        finally:
            self.disk.capacity_bytes = None

    @precondition(lambda self: self.flush is None)
    @rule()
    def begin_flush(self) -> None:
        self.flush = self.log.begin_flush()
        self.mark = self.disk.mark()
        self.at_flush = self.model.so_far

    @precondition(lambda self: self.flush is not None)
    @rule()
    def end_flush(self) -> None:
        assert self.flush is not None
        with self.disk.issued_before(self.mark):
            self.flush.run()
        assert self.log.end_flush(self.flush) == self.flush.target == self.log.durable_end
        self.model.mark_flushed(self.at_flush)
        self.flush = None

    @rule(seed=st.integers(0, 2**32), loss=st.sampled_from([None, *PowerLoss]), in_flush=st.booleans())
    def lose_power(self, seed: int, loss: PowerLoss | None, in_flush: bool) -> None:
        if in_flush and self.flush is not None:
            with self.disk.issued_before(self.mark):
                self.flush.run()
        self.restart(self.disk.after_crash(random.Random(seed), loss=loss))

    @rule(seed=st.integers(0, 2**32))
    def be_killed(self, seed: int) -> None:
        now = self.model.now
        self.restart(self.disk.after_kill(random.Random(seed)))
        # Only a trim that no flush carried out may be forgotten.
        assert self.model.now.trim_to(now.start) == now

    @precondition(lambda self: self.flush is None)
    @rule(lose_indexes=st.booleans())
    def close_and_open(self, lose_indexes: bool) -> None:
        now = self.model.now
        self.log.close()
        sidecars = {path: self.disk.content(path) for path in self.disk.paths() if path.endswith(".index")}
        for path in sidecars if lose_indexes else ():
            self.disk.remove(path)
        self.restart(self.disk)
        assert self.model.now == now
        assert {path: self.disk.content(path) for path in sidecars} == sidecars

    def restart(self, disk: MemoryDisk) -> None:
        self.disk = disk
        self.flush = None
        self.log = open_log(disk)
        self.model.accept_survivor(moment_of(self.log))
        assert self.log.durable_end == self.log.end
        # What recovery left is durable before it is trusted, whatever happens next.
        assert moment_of(open_log(disk.after_crash(random.Random(0), loss=PowerLoss.LOSE_ALL))) == self.model.now

    @invariant()
    def holds_what_was_written(self) -> None:
        now = self.model.now
        assert (self.log.last_index, self.log.end_offset, self.log.state, self.log.start_payload()) == (
            now.last_index,
            now.end_offset,
            now.state,
            now.start.payload,
        )

    def teardown(self) -> None:
        assert moment_of(self.log) == self.model.now


TestLogMachine = LogMachine.TestCase
TestLogMachine.settings = settings(max_examples=examples(36), stateful_step_count=40)
