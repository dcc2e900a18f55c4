"""What a broker keeps besides its messages: read as written, replaced as a whole, and named when it is missing or damaged."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from log.errors import NoSpace, StorageFailed
from rocketmq_compat.storage.checkpoints import (
    BrokerCheckpoints,
    CheckpointName,
    decode_checkpoint,
    derived_topics,
    encode_checkpoint,
)
from tests.rocketmq_compat.storage.records import DIRECTORY, FATES, Fate, memory_disk

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
