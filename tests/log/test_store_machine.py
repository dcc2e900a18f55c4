"""Any sequence of calls on a store of several logs, with crashes and failing disks, against plain lists."""

import random
from collections.abc import Callable

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from log.errors import NoSpace, StorageFailed
from log.memory_disk import MemoryDisk, PowerLoss
from log.store import LogStore
from log.store_flush import FlushRound
from log.store_log import StoreLog
from tests.examples import examples
from tests.log.store_model import LogModel, batch, entry, memory_disk, moment_of, open_store

NAMES = st.sampled_from(["a", "a", "b"])
NEVER = 2**62


class StoreMachine(RuleBasedStateMachine):
    """Flushed batches survive a crash; each change that is durable when it returns is there whole, or not at all."""

    def __init__(self) -> None:
        super().__init__()
        self.disk: MemoryDisk = memory_disk()
        self.store: LogStore
        self.models: dict[str, LogModel] = {}
        self.round: FlushRound | None = None
        self.mark = 0
        self.at_round: dict[str, tuple[LogModel, tuple[int, int]]] = {}
        self.written = 0
        self.doubtful: set[str] = set()
        """Logs that a crash may leave or not."""

    @initialize(seed=st.integers(0, 2**32))
    def begin(self, seed: int) -> None:
        self.disk = memory_disk(seed)
        self.store = open_store(self.disk)
        self.create("a", None)
        self.create("b", None)

    # One change each: the model first, because a call that fails may have done all of it, a part of it, or nothing.

    def create(self, name: str, data: st.DataObject | None) -> None:
        if name not in self.models:
            self.doubtful.add(name)
            self.models[name] = LogModel()
            self.store.create(name)
            self.doubtful.discard(name)

    def delete(self, name: str, data: st.DataObject) -> None:
        if name in self.models:
            self.doubtful.add(name)
            self.store.delete(name)
            self.doubtful.discard(name)
            del self.models[name]

    def append(self, name: str, data: st.DataObject) -> None:
        log, model = self.log(name)
        offset, epoch = log.end_offset, log.last_epoch
        rng = random.Random(data.draw(st.integers(0, 2**32)))
        batches = []
        for _ in range(rng.randint(1, 6)):
            self.written += 1
            offset += rng.choice([0, 0, 0, 1, 7])
            epoch += rng.choice([0, 0, 0, 1])
            size, span, time = rng.choice([20, 300, 1500]), rng.choice([1, 1, 5]), rng.randint(0, 1000)
            batches.append(batch(offset, epoch, span=span, timestamp_ms=time, size=size, mark=f"#{self.written} "))
            offset += span
        before = list(model.moments)
        model.append(batches)
        try:
            log.append(batches)
        except NoSpace:
            model.moments = before
            raise

    def roll(self, name: str, data: st.DataObject) -> None:
        self.log(name)[0].roll()

    def trim(self, name: str, data: st.DataObject) -> None:
        log, model = self.log(name)
        start = data.draw(st.integers(log.start_offset, log.end_offset))
        assert log.trim(start) == start
        model.trim(start)

    def truncate(self, name: str, data: st.DataObject) -> None:
        log, model = self.log(name)
        offset = data.draw(st.integers(log.start_offset, log.end_offset))
        if offset < log.end_offset:
            model.begin_cut(offset)
            self.change(model, lambda: log.truncate(offset))

    def reset(self, name: str, data: st.DataObject) -> None:
        log, model = self.log(name)
        offset = data.draw(st.integers(0, log.end_offset + 20))
        model.begin_cut(offset, reset=True)
        self.change(model, lambda: log.reset(offset))

    def replace(self, name: str, data: st.DataObject) -> None:
        log, model = self.log(name)
        sealed = log.sealed
        if not sealed:
            return
        first = data.draw(st.integers(0, len(sealed) - 1))
        last = data.draw(st.integers(first, len(sealed) - 1))
        following = log.segment_facts()[last + 1].first_index
        begins = max(sealed[first].first_offset, log.start_offset)
        held = [each for each in log.read(begins, 1 << 30, following) if each.base_offset >= sealed[first].first_offset]
        rng = random.Random(data.draw(st.integers(0, 2**32)))
        kept = [each for each in held if rng.random() < 0.5]
        replacement = log.begin_replacement(sealed[first : last + 1])
        try:
            replacement.write(kept)
            replacement.finish()
        except NoSpace:
            replacement.abandon()
            raise
        model.begin_replacement(sealed[first].first_offset, following, map(entry, kept))
        self.change(model, lambda: log.end_replacement(replacement))

    def flush(self, name: str, data: st.DataObject | None) -> None:
        if self.round is None:
            so_far = {each: model.so_far for each, model in self.models.items()}
            self.store.flush()
            for each, model in self.models.items():
                model.mark_flushed(so_far[each], trims=self.disk.capacity_bytes is None)

    def change(self, model: LogModel, call: Callable[[], object]) -> None:
        try:
            call()
        except NoSpace:
            model.give_up()
            raise
        model.end_change()

    def log(self, name: str) -> tuple[StoreLog, LogModel]:
        return self.store.log(name), self.models[name]

    CHANGES = st.sampled_from(
        [append, append, append, roll, trim, truncate, truncate, replace, replace, flush, reset, create, delete]
    )

    # What happens

    @rule(name=NAMES)
    def make(self, name: str) -> None:
        self.create(name, None)

    @rule(name=NAMES, changes=st.lists(CHANGES, min_size=1, max_size=8), data=st.data())
    def do(self, name: str, changes: list[Callable[..., None]], data: st.DataObject) -> None:
        for change in changes:
            if name in self.models:
                change(self, name, data)

    @rule(name=NAMES, data=st.data())
    def cut(self, name: str, data: st.DataObject) -> None:
        if name in self.models:
            self.truncate(name, data)

    @rule(name=NAMES, data=st.data())
    def compact(self, name: str, data: st.DataObject) -> None:
        if name in self.models:
            self.replace(name, data)

    @rule(name=NAMES, count=st.integers(8, 20), size=st.sampled_from([700, 1300]), flush=st.booleans())
    def fill(self, name: str, count: int, size: int, flush: bool) -> None:
        """Several segments."""
        if name in self.models:
            log, model = self.log(name)
            for _ in range(count):
                self.written += 1
                written = [batch(log.end_offset + 1, log.last_epoch, size=size, mark=f"#{self.written} ")]
                model.append(written)
                log.append(written)
            if flush:
                self.flush(name, None)

    @rule(
        name=NAMES,
        change=CHANGES,
        data=st.data(),
        at=st.integers(1, 25),
        seed=st.integers(0, 2**32),
        killed=st.booleans(),
    )
    def do_on_a_failing_disk(
        self, name: str, change: Callable[..., None], data: st.DataObject, at: int, seed: int, killed: bool
    ) -> None:
        if name not in self.models:
            return
        self.disk.fail_call(at)
        self.disk.failed_as_asked = False
        try:
            change(self, name, data)
            self.disk.fail_call(NEVER)
            if self.disk.failed_as_asked:
                # A sync of an idle file, to close it, failed: the next use of that file raises it.
                self.finish_round()
                self.flush(name, None)
                for each in self.models:
                    moment_of(self.store.log(each))
        except StorageFailed:
            self.restart(self.fate(seed, None, killed=killed))

    @rule(name=NAMES, change=CHANGES, data=st.data(), room=st.integers(0, 3000))
    def do_on_a_full_disk(self, name: str, change: Callable[..., None], data: st.DataObject, room: int) -> None:
        """`NoSpace` is definite: everything is as before."""
        if name in self.models and change not in (StoreMachine.create, StoreMachine.delete):
            self.disk.capacity_bytes = self.disk.used_bytes() + room
            try:
                change(self, name, data)
            except NoSpace:
                pass
            finally:
                self.disk.capacity_bytes = None

    @precondition(lambda self: self.round is None)
    @rule()
    def begin_round(self) -> None:
        self.round = self.store.begin_round()
        self.mark = self.disk.mark()
        self.at_round = {
            each.name: (self.models[each.name], self.models[each.name].so_far) for each in self.round.flushes
        }

    @precondition(lambda self: self.round is not None)
    @rule()
    def end_round(self) -> None:
        self.finish_round()

    def finish_round(self) -> None:
        if self.round is None:
            return
        with self.disk.issued_before(self.mark):
            self.round.run()
        self.store.end_round(self.round)
        for flush in self.round.flushes:
            model, so_far = self.at_round[flush.name]
            if flush.done:
                model.mark_flushed(so_far)
        self.round = None

    @rule(seed=st.integers(0, 2**32), loss=st.sampled_from([None, *PowerLoss]), in_round=st.booleans())
    def lose_power(self, seed: int, loss: PowerLoss | None, in_round: bool) -> None:
        if in_round and self.round is not None:
            with self.disk.issued_before(self.mark):
                self.round.run()
        self.restart(self.fate(seed, loss, killed=False))

    @rule(seed=st.integers(0, 2**32))
    def be_killed(self, seed: int) -> None:
        held = {name: model.now for name, model in self.models.items()}
        self.restart(self.fate(seed, None, killed=True))
        for name, model in self.models.items():
            # Only a trim that no flush carried out may be forgotten.
            assert model.now.from_start(held[name].start) == held[name]

    @precondition(lambda self: self.round is None)
    @rule()
    def close_and_open(self) -> None:
        held = {name: model.now for name, model in self.models.items()}
        self.store.close()
        self.restart(self.disk)
        assert {name: model.now for name, model in self.models.items()} == held

    def fate(self, seed: int, loss: PowerLoss | None, *, killed: bool) -> MemoryDisk:
        rng = random.Random(seed)
        return self.disk.after_kill(rng) if killed else self.disk.after_crash(rng, loss=loss)

    def restart(self, disk: MemoryDisk) -> None:
        self.disk = disk
        self.round = None
        self.store = open_store(disk)
        names = set(self.store.names())
        assert names | self.doubtful == set(self.models) | self.doubtful
        for name in self.doubtful - names:
            self.models.pop(name, None)
        assert self.store.open_all() == {}
        for name in names:
            self.models[name].accept_survivor(moment_of(self.store.log(name)))
        self.doubtful = set()
        # What recovery left is durable before it is trusted, whatever happens next.
        after = open_store(disk.after_crash(random.Random(0), loss=PowerLoss.LOSE_ALL))
        assert {name: moment_of(after.log(name)) for name in after.names()} == {
            name: model.now for name, model in self.models.items()
        }

    @invariant()
    def holds_what_was_written(self) -> None:
        for name, model in self.models.items():
            log, now = self.store.log(name), model.now
            assert (log.start_offset, log.end_offset) == (now.start, now.end)
        assert self.store.open_files <= self.store.config.open_files_max

    def teardown(self) -> None:
        for name, model in self.models.items():
            assert moment_of(self.store.log(name)) == model.now


TestStoreMachine = StoreMachine.TestCase
TestStoreMachine.settings = settings(max_examples=examples(24), stateful_step_count=40)
