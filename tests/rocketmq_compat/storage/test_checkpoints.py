"""The tables of a broker on disk: read as written, replaced as a whole, and named when missing or damaged."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from log.errors import NoSpace, StorageFailed
from log.memory_disk import MemoryDisk
from rocketmq_compat.storage.checkpoints import (
    BrokerCheckpoints,
    CheckpointName,
    decode_checkpoint,
    derived_topics,
    encode_checkpoint,
)
from tests.crashes import FATES, Fate
from tests.rocketmq_compat.storage.records import DIRECTORY, memory_disk

OFFSETS = CheckpointName.CONSUMER_OFFSETS
PATH = f"{DIRECTORY}/config/consumerOffset.json"
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text() | st.floats(allow_nan=False, allow_infinity=False),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=10,
)


def test_each_checkpoint_is_a_file_of_its_own_in_json() -> None:
    disk = memory_disk()
    checkpoints = BrokerCheckpoints(disk, DIRECTORY)
    for name in CheckpointName:
        checkpoints.write(name, {"name": str(name), "Größe": {"0": 1}})
    for name in CheckpointName:
        found = BrokerCheckpoints(disk, DIRECTORY).read(name)
        assert (found.content, found.trouble) == ({"name": str(name), "Größe": {"0": 1}}, None)
    assert json.loads(disk.content(PATH))["content"]["name"] == "consumerOffset"
    names = {path.rpartition("/")[2] for path in disk.paths()}
    assert names == {"topics.json", "subscriptionGroup.json", "consumerOffset.json", "delayOffset.json"}


def test_a_missing_file_is_named() -> None:
    found = BrokerCheckpoints(memory_disk(), DIRECTORY).read(OFFSETS)
    assert (found.content, found.trouble) == ({}, f"{PATH} is missing")


def test_damage_anywhere_is_named_and_never_read() -> None:
    content = {"T@g": {"0": 1234, "1": 5}}
    whole = encode_checkpoint(content)
    assert decode_checkpoint(whole) == content
    for end in range(len(whole) - 1):
        assert decode_checkpoint(whole[:end]) is None
    for at in range(len(whole) - 1):
        for bit in range(8):
            changed = whole[:at] + bytes([whole[at] ^ 1 << bit]) + whole[at + 1 :]
            assert decode_checkpoint(changed) in (None, content)
    for wrong in (
        b"",
        b"null",
        b"[]",
        b"{}",
        b'{"version": 1, "content": []}',
        b'"' + b"[" * 100_000,
        b"\xff",
        b"[" * 100_000,
    ):
        assert decode_checkpoint(wrong) is None
    disk = memory_disk()
    checkpoints = BrokerCheckpoints(disk, DIRECTORY)
    checkpoints.write(OFFSETS, content)
    disk.open(PATH, create=False).cut(20)
    found = checkpoints.read(OFFSETS)
    assert (found.content, found.trouble) == ({}, f"{PATH} is damaged")


@given(st.dictionaries(st.text(), VALUES, max_size=4))
def test_what_is_written_is_read(content: dict[str, object]) -> None:
    try:
        encoded = encode_checkpoint(content)
    except UnicodeEncodeError:
        return  # half of a surrogate pair is no text
    assert decode_checkpoint(encoded) == content


@pytest.mark.parametrize("content", [{1: 2}, {"a": {0: 1}}, {"a": (1, 2)}, {"a": float("nan")}])
def test_what_would_be_read_as_something_else_is_refused(content: dict[str, object]) -> None:
    with pytest.raises(ValueError, match=r"JSON|compliant"):
        encode_checkpoint(content)


@pytest.mark.parametrize("fate", FATES)
def test_whichever_disk_call_fails_the_old_or_the_new_one_is_there(fate: Fate) -> None:
    found = []
    for n in range(1, 50):
        disk = memory_disk(n)
        checkpoints = BrokerCheckpoints(disk, DIRECTORY)
        checkpoints.write(OFFSETS, {"at": 1})
        disk.fail_call(n)
        try:
            checkpoints.write(OFFSETS, {"at": 2})
        except StorageFailed:
            read = BrokerCheckpoints(fate(disk, n), DIRECTORY).read(OFFSETS)
            assert read.trouble is None
            found.append(read.content["at"])
        else:
            break
    assert found[0] == 1
    assert len(found) >= 5
    assert set(found) <= {1, 2}


def test_a_full_disk_keeps_the_old_one() -> None:
    disk = memory_disk()
    checkpoints = BrokerCheckpoints(disk, DIRECTORY)
    checkpoints.write(OFFSETS, {"at": 1})
    disk.capacity_bytes = disk.used_bytes()
    with pytest.raises(NoSpace):
        checkpoints.write(OFFSETS, {"at": 2})
    assert checkpoints.read(OFFSETS).content == {"at": 1}


def test_topics_are_derived_from_their_queues() -> None:
    assert derived_topics([("A", 3), ("B", 0), ("A", 1)]) == {"A": 4, "B": 1}


# Tables with a journal

TOPICS = CheckpointName.TOPICS
JOURNAL = f"{DIRECTORY}/config/topics.journal"
FIRST = {"topicConfigTable": {"a": {"n": 1}, "b": {"n": 1}}, "dataVersion": {"counter": 1}}


def journal(disk: MemoryDisk, *changes: dict[str, object]) -> BrokerCheckpoints:
    """Checkpoints with a file, and a line in the journal for each of these changes."""
    checkpoints = BrokerCheckpoints(disk, DIRECTORY)
    checkpoints.write(TOPICS, FIRST)
    for number, change in enumerate(changes, start=2):
        checkpoints.append(TOPICS, change, {"counter": number})
    return checkpoints


def read_topics(disk: MemoryDisk) -> tuple[object, object, str | None]:
    found = BrokerCheckpoints(disk, DIRECTORY).read(TOPICS)
    return found.content.get("topicConfigTable"), found.content.get("dataVersion"), found.trouble


def test_single_entries_come_and_go_by_the_journal() -> None:
    disk = memory_disk()
    journal(disk, {"a": {"n": 2}}, {"b": None, "c": {"n": 3}})
    assert read_topics(disk) == ({"a": {"n": 2}, "c": {"n": 3}}, {"counter": 3}, None)


def test_a_table_written_as_a_whole_takes_the_place_of_its_journal() -> None:
    disk = memory_disk()
    checkpoints = journal(disk, {"a": {"n": 2}})
    checkpoints.write(TOPICS, {"topicConfigTable": {"z": {}}, "dataVersion": {"counter": 9}})
    checkpoints.append(TOPICS, {"y": {}}, {"counter": 10})
    assert read_topics(disk) == ({"z": {}, "y": {}}, {"counter": 10}, None)
    assert len(disk.content(JOURNAL).splitlines()) == 1


def test_a_journal_that_a_crash_left_behind_its_file_does_not_count() -> None:
    disk = memory_disk()
    checkpoints = journal(disk, {"a": {"n": 2}})
    stale = disk.content(JOURNAL)
    checkpoints.write(TOPICS, {"topicConfigTable": {"a": {"n": 3}}, "dataVersion": {"counter": 3}})
    disk.open(JOURNAL, create=True).write_at(0, [stale])
    assert read_topics(disk) == ({"a": {"n": 3}}, {"counter": 3}, None)


def test_a_change_costs_a_line_however_long_the_table_is() -> None:
    disk = memory_disk()
    checkpoints = BrokerCheckpoints(disk, DIRECTORY)
    many = {f"topic-{number}": {"n": number} for number in range(10_000)}
    checkpoints.write(TOPICS, {"topicConfigTable": many, "dataVersion": {}})
    before = len(disk.content(PATH.replace("consumerOffset", "topics")))
    for number in range(50):
        assert not checkpoints.wants_file(TOPICS)
        checkpoints.append(TOPICS, {f"new-{number}": {"n": 1}}, {"counter": number})
    assert len(disk.content(JOURNAL)) < 50 * 200
    checkpoints.append(TOPICS, {"long": {"text": "x" * before}}, {})
    assert checkpoints.wants_file(TOPICS), "the journal is as long as the file"


def test_without_its_file_what_the_journal_holds_is_still_known() -> None:
    disk = memory_disk()
    journal(disk, {"c": {"n": 3}})
    disk.remove(f"{DIRECTORY}/config/topics.json")
    entries, _, trouble = read_topics(disk)
    assert entries == {"c": {"n": 3}}
    assert trouble is not None
    assert "is missing" in trouble
    assert BrokerCheckpoints(disk, DIRECTORY).wants_file(TOPICS)


def test_a_torn_last_line_is_left_out_and_a_damaged_one_is_named() -> None:
    disk = memory_disk()
    journal(disk, {"a": {"n": 2}}, {"b": {"n": 2}}, {"c": {"n": 2}})
    whole = disk.content(JOURNAL)
    lines = whole.splitlines(keepends=True)
    for end in range(len(whole)):
        disk.open(JOURNAL, create=False).cut(end)
        kept = sum(1 for number in range(3) if end >= sum(map(len, lines[: number + 1])))
        expected = {"a": {"n": 2 if kept > 0 else 1}, "b": {"n": 2 if kept > 1 else 1}}
        assert read_topics(disk)[0] == expected
        assert read_topics(disk)[2] is None
        again = BrokerCheckpoints(disk, DIRECTORY)
        again.append(TOPICS, {"z": {}}, {"counter": 7})
        assert read_topics(disk) == ({**expected, "z": {}}, {"counter": 7}, None)
        disk.open(JOURNAL, create=False).cut(0)
        disk.open(JOURNAL, create=False).write_at(0, [whole])
    disk.open(JOURNAL, create=False).write_at(len(lines[0]) + 5, [b"#"])
    entries, version, trouble = read_topics(disk)
    assert entries == {"a": {"n": 2}, "b": {"n": 1}, "c": {"n": 2}}
    assert version == {"counter": 4}
    assert trouble == f"{JOURNAL} is damaged"


@pytest.mark.parametrize("fate", FATES)
def test_whichever_disk_call_fails_each_change_is_there_or_not(fate: Fate) -> None:
    found = []
    for n in range(1, 80):
        disk = memory_disk(n)
        checkpoints = journal(disk, {"a": {"n": 2}})
        disk.fail_call(n)
        try:
            checkpoints.append(TOPICS, {"a": {"n": 3}}, {"counter": 3})
            checkpoints.write(TOPICS, {"topicConfigTable": {"a": {"n": 4}}, "dataVersion": {"counter": 4}})
        except StorageFailed:
            entries, version, trouble = read_topics(fate(disk, n))
            assert trouble is None
            assert isinstance(entries, dict)
            assert version == {"counter": entries["a"]["n"]}
            found.append(entries["a"]["n"])
        else:
            break
    assert found == sorted(found)
    assert found[0] == 2
    assert found[-1] == 4


def test_a_full_disk_keeps_the_changes_before() -> None:
    disk = memory_disk()
    checkpoints = journal(disk, {"a": {"n": 2}})
    disk.capacity_bytes = disk.used_bytes()
    with pytest.raises(NoSpace):
        checkpoints.append(TOPICS, {"a": {"n": 3}}, {"counter": 3})
    disk.capacity_bytes = None
    assert read_topics(disk) == ({"a": {"n": 2}, "b": {"n": 1}}, {"counter": 2}, None)
    checkpoints.append(TOPICS, {"a": {"n": 4}}, {"counter": 4})
    assert read_topics(disk)[0] == {"a": {"n": 4}, "b": {"n": 1}}
