"""Any log, any one bit of it changed: recovery reports the damage, or cuts exactly what was never acknowledged."""

import random
from bisect import bisect_right

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from log.errors import CorruptLog
from log.frame import HEADER_BYTES, Frame
from log.index import LogTail
from log.memory_disk import MemoryDisk
from log.segmented_log import SegmentedLog
from tests.examples import examples
from tests.log.frames import DIRECTORY, memory_disk, open_log
from tests.log.model import Model, Moment, moment_of, trim_both


class RecoveryMachine(RuleBasedStateMachine):
    """`ends[i]` is the address behind the frame that made `moments[i]`."""

    def __init__(self) -> None:
        super().__init__()
        self.disk: MemoryDisk = memory_disk()
        self.log: SegmentedLog
        self.model = Model()
        self.ends = [0]
        self.written = 0

    @initialize(seed=st.integers(0, 2**32))
    def begin(self, seed: int) -> None:
        self.disk = memory_disk(seed)
        self.log = open_log(self.disk)

    @rule(count=st.integers(1, 8), size=st.sampled_from([10, 120, 700, 3000]), back=st.sampled_from([0, 0, 0, 1, 5]))
    def append(self, count: int, size: int, back: int) -> None:
        now = self.model.now
        first = max(now.start.index + 1, now.last_index + 1 - back)
        offset, epoch = self.model.offset_of(first), self.model.epoch_before(first) + (back > 0)
        frames = []
        for index in range(first, first + count):
            self.written += 1
            payload = f"#{self.written}".encode().ljust(size, b"-")
            frames.append(Frame.of(payload, index=index, epoch=epoch, base_offset=offset, span=1))
            offset += 1
        end = self.log.append(frames)
        self.model.append(frames)
        self.ends += [end - left * (HEADER_BYTES + size) for left in reversed(range(count))]

    @rule(state=st.binary(max_size=40))
    def save_state(self, state: bytes) -> None:
        self.ends.append(self.log.save_state(state))
        self.model.save_state(state)

    @precondition(lambda self: self.log.first_index)
    @rule(back=st.integers(1, 5))
    def truncate(self, back: int) -> None:
        last_index = max(self.model.now.start.index, self.model.now.last_index - back)
        self.ends.append(self.log.truncate(last_index))
        self.model.truncate(last_index)

    @rule(trim=st.booleans())
    def flush(self, trim: bool) -> None:
        self.log.flush()
        self.model.mark_flushed(self.model.so_far)
        del self.ends[:-1]
        if trim and self.log.first_index:
            self.written += 1
            trim_both(self.log, self.model, self.log.last_index, b"#%d" % self.written)
            self.log.flush()
            self.model.mark_flushed(self.model.so_far)

    @rule(ahead=st.integers(0, 20), epochs_back=st.integers(0, 2))
    def reset(self, ahead: int, epochs_back: int) -> None:
        now = self.model.now
        self.written += 1
        epoch = max(0, self.model.epoch_before(now.last_index + 1) - epochs_back)
        before = LogTail(now.last_index + ahead, epoch, now.end_offset + ahead) if now.last_index + ahead else LogTail()
        self.model.begin_reset(before, b"#%d" % self.written)
        self.log.reset(before, b"#%d" % self.written)
        self.model.end_reset()
        self.ends = [self.log.end]

    @rule(place=st.floats(0, 1, exclude_max=True), bit=st.integers(0, 7), newest=st.booleans())
    def damage(self, place: float, bit: int, newest: bool) -> None:
        """Harms a copy of the disk; the log that was written stays."""
        after = self.disk.after_kill(random.Random(self.written))
        paths = [path for path in after.paths() if path.endswith(".log")]
        at = len(paths) - 1 if newest else int(place * len(paths))
        path = paths[at]
        position = int(place * len(after.content(path)))
        if position < len(after.content(path)):
            after.flip_bit(path, position * 8 + bit)
            newest = at == len(paths) - 1
            end = self.log.end if newest else base_of(paths[at + 1])
            self.judge(base_of(path) + position, end, newest=newest, seen=find_log(after))

    def judge(self, address: int, end: int, *, newest: bool, seen: Moment | None) -> None:
        """`end` is where the frames of the segment end."""
        now = self.model.now
        if address >= end:
            assert seen == now, "what was written ahead or in a former life is no part of the log"
        elif address >= self.log.durable_end:
            whole = self.model.moments[bisect_right(self.ends, address) - 1]
            assert seen == whole.trim_to(now.start), "exactly what follows the damage is cut"
        elif newest:
            assert seen is None, "durable bytes that are damaged are told"
        else:
            assert seen in (None, now), "damage in bytes that are not read any more may go unseen"

    @rule()
    def be_killed(self) -> None:
        self.disk = self.disk.after_kill(random.Random(self.written))
        self.log = open_log(self.disk)
        assert moment_of(self.log) == self.model.now
        assert self.log.recovery.torn_at is None
        self.model.accept_survivor(self.model.now)
        self.ends = [self.log.end]


def base_of(path: str) -> int:
    return int(path[-24:-4])


def find_log(disk: MemoryDisk) -> Moment | None:
    """Returns the log that is found; None if opening it raises `CorruptLog`."""
    assert DIRECTORY in disk.paths()[0]
    try:
        return moment_of(open_log(disk))
    except CorruptLog:
        return None


TestRecoveryMachine = RecoveryMachine.TestCase
TestRecoveryMachine.settings = settings(max_examples=examples(36), stateful_step_count=30)
