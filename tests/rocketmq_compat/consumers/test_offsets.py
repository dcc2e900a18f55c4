"""Offsets: what was committed is what is answered, snapshots stand still, and a slave goes back for no master."""

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from rocketmq_compat.consumers.model import RequestRefused
from rocketmq_compat.consumers.offsets import CommitEffect, ConsumerOffsets, OffsetKey, OffsetSnapshot
from rocketmq_compat.remoting.codes import ResponseCode
from tests.examples import examples

KEYS = st.tuples(st.sampled_from(["g", "h"]), st.sampled_from(["T", "U"]), st.integers(0, 1))
END = 10


def test_one_offset_too_many_is_refused_and_those_that_are_kept_go_on() -> None:
    table = ConsumerOffsets(offsets_max=2)
    for queue_id in range(2):
        table.commit(1, ("g", "T", queue_id), 0, queue_end=END)
    with pytest.raises(RequestRefused, match="2 offsets are kept"):
        table.commit(2, ("g", "T", 2), 0, queue_end=END)
    assert table.commit(3, ("g", "T", 1), 5, queue_end=END) is CommitEffect.ADVANCED


class OffsetMachine(RuleBasedStateMachine):
    """A master, a slave that copies it now and then, and dictionaries of what each should have."""

    def __init__(self) -> None:
        super().__init__()
        self.time_ms = 0
        self.tables = {"master": ConsumerOffsets(), "slave": ConsumerOffsets()}
        self.models: dict[str, dict[OffsetKey, int]] = {"master": {}, "slave": {}}
        self.own: set[OffsetKey] = set()
        self.taken: list[tuple[OffsetSnapshot, dict[OffsetKey, int]]] = []

    @rule(broker=st.sampled_from(["master", "slave"]), key=KEYS, offset=st.integers(-1, END + 1))
    def commit(self, broker: str, key: OffsetKey, offset: int) -> None:
        self.time_ms += 1
        table, model = self.tables[broker], self.models[broker]
        before, version = model.get(key), table.version
        if not 0 <= offset <= END:
            with pytest.raises(RequestRefused) as refused:
                table.commit(self.time_ms, key, offset, queue_end=END)
            assert refused.value.code is ResponseCode.SYSTEM_ERROR
            assert table.version == version
            return
        effect = table.commit(self.time_ms, key, offset, queue_end=END)
        assert (effect is CommitEffect.WENT_BACK) == (before is not None and offset < before)
        assert (table.version == version) == (effect is CommitEffect.UNCHANGED) == (before == offset)
        model[key] = offset
        if broker == "slave" and before != offset:
            self.own.add(key)

    @rule()
    def follow(self) -> None:
        self.tables["slave"].follow(self.tables["master"].snapshot())
        master, slave = self.models["master"], self.models["slave"]
        kept = {key: slave[key] for key in self.own if slave[key] > master.get(key, -1)}
        self.models["slave"] = {**master, **kept}
        self.own = set(kept)

    @rule(topic=st.sampled_from(["T", "U"]))
    def remove_topic(self, topic: str) -> None:
        self.tables["master"].remove_topic(self.time_ms, topic)
        self.models["master"] = {key: offset for key, offset in self.models["master"].items() if key[1] != topic}

    @rule(group=st.sampled_from(["g", "h"]))
    def remove_group(self, group: str) -> None:
        self.tables["master"].remove_group(self.time_ms, group)
        self.models["master"] = {key: offset for key, offset in self.models["master"].items() if key[0] != group}

    @rule()
    def take_a_snapshot(self) -> None:
        self.taken.append((self.tables["master"].snapshot(), dict(self.models["master"])))

    @invariant()
    def each_answers_what_was_committed(self) -> None:
        for broker, table in self.tables.items():
            assert table.snapshot().offsets == self.models[broker]
            for key, offset in self.models[broker].items():
                assert table.query(key, queue_start=0, start_in_memory=True) == offset

    @invariant()
    def snapshots_stand_still(self) -> None:
        for snapshot, offsets in self.taken:
            assert snapshot.offsets == offsets


TestOffsetMachine = OffsetMachine.TestCase
TestOffsetMachine.settings = settings(max_examples=examples(36), stateful_step_count=30, deadline=None)

KEY = ("g", "T", 0)


def test_a_new_group_begins_at_zero_only_while_the_queue_is_young() -> None:
    table = ConsumerOffsets()
    assert table.query(KEY, queue_start=0, start_in_memory=True) == 0
    for options in (
        {"queue_start": 1, "start_in_memory": True},
        {"queue_start": 0, "start_in_memory": False},
        {"queue_start": 0, "start_in_memory": True, "zero_if_unknown": False},
    ):
        with pytest.raises(RequestRefused) as refused:
            table.query(KEY, **options)  # type: ignore[arg-type]  # mixed values
        assert refused.value.code is ResponseCode.QUERY_NOT_FOUND


def test_a_checkpoint_is_loaded_with_its_version() -> None:
    table = ConsumerOffsets()
    table.commit(1, KEY, 7, queue_end=9)
    loaded = ConsumerOffsets()
    loaded.load(table.snapshot())
    assert loaded.get(KEY) == 7
    assert loaded.version == table.version
