"""The records of the offsets topic, byte by byte as Kafka writes them, and the reading of other versions and damage."""

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafka_compat.coordinator.record_formats import (
    GroupMetadataKey,
    GroupMetadataMember,
    GroupMetadataValue,
    OffsetCommitKey,
    OffsetCommitValue,
    decode_record,
    group_key,
    group_value,
    offset_key,
    offset_value,
)
from kafka_compat.coordinator.subscription import subscribed_topics
from kafka_compat.protocol.errors import MalformedMessage

INT32 = st.integers(-(2**31), 2**31 - 1)
INT64 = st.integers(-(2**63), 2**63 - 1)
NAMES = st.text(max_size=8)
OFFSETS = st.builds(
    OffsetCommitValue,
    offset=INT64,
    leader_epoch=INT32,
    metadata=NAMES,
    commit_timestamp=INT64,
    expire_timestamp=st.just(-1),
)
MEMBERS = st.builds(
    GroupMetadataMember,
    member_id=NAMES,
    group_instance_id=st.none() | NAMES,
    client_id=NAMES,
    client_host=NAMES,
    rebalance_timeout=INT32,
    session_timeout=INT32,
    subscription=st.binary(max_size=8),
    assignment=st.binary(max_size=8),
)
GROUPS = st.builds(
    GroupMetadataValue,
    protocol_type=NAMES,
    generation=INT32,
    protocol=st.none() | NAMES,
    leader=st.none() | NAMES,
    current_state_timestamp=INT64,
    members=st.lists(MEMBERS, max_size=3).map(tuple),
)
KEY = OffsetCommitKey(group="g1", topic="orders", partition=3)
VALUE = OffsetCommitValue(offset=258, leader_epoch=7, metadata="né", commit_timestamp=1_700_000_000_000)

# From the message files: int16 version, then the fields.
# Strings have an int16 length, bytes and arrays an int32 one.
GOLDEN = {
    "0001 0002 6731 0006 6f7264657273 00000003": offset_key("g1", "orders", 3),
    "0003 0000000000000102 00000007 0003 6ec3a9 0000018bcfe56800": offset_value(VALUE),
    "0001 0000000000000102 0003 6ec3a9 0000018bcfe56800 0000018bcfe56801": offset_value(
        OffsetCommitValue(
            offset=258,
            leader_epoch=7,
            metadata="né",
            commit_timestamp=1_700_000_000_000,
            expire_timestamp=1_700_000_000_001,
        )
    ),
    "0002 0002 6731": group_key("g1"),
    "0003 0008 636f6e73756d6572 00000004 0005 72616e6765 0003 632d31 0000018bcfe56800 00000001"
    "0003 632d31 0002 6931 0001 63 0002 2f68 0000ea60 00002710 00000002 0102 00000001 09": group_value(
        GroupMetadataValue(
            protocol_type="consumer",
            generation=4,
            protocol="range",
            leader="c-1",
            current_state_timestamp=1_700_000_000_000,
            members=(
                GroupMetadataMember(
                    member_id="c-1",
                    group_instance_id="i1",
                    client_id="c",
                    client_host="/h",
                    rebalance_timeout=60_000,
                    session_timeout=10_000,
                    subscription=b"\1\2",
                    assignment=b"\x09",
                ),
            ),
        )
    ),
    "0003 0000 00000000 ffff ffff ffffffffffffffff 00000000": group_value(
        GroupMetadataValue(protocol_type="", generation=0, protocol=None, leader=None, members=())
    ),
}


@pytest.mark.parametrize("expected", GOLDEN, ids=lambda text: text[:24])
def test_the_bytes_are_kafkas(expected: str) -> None:
    assert GOLDEN[expected] == bytes.fromhex(expected)


@given(OFFSETS)
def test_an_offset_comes_back_as_it_was(value: OffsetCommitValue) -> None:
    assert decode_record(offset_key("g", "t", 1), offset_value(value)) == (
        OffsetCommitKey(group="g", topic="t", partition=1),
        value,
    )


@given(NAMES, GROUPS)
def test_a_group_comes_back_as_it_was(name: str, value: GroupMetadataValue) -> None:
    assert decode_record(group_key(name), group_value(value)) == (GroupMetadataKey(group=name), value)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (
            "0000 0000000000000102 0001 61 0000000000000005",
            OffsetCommitValue(offset=258, metadata="a", commit_timestamp=5),
        ),
        (
            "0001 0000000000000102 0001 61 0000000000000005 0000000000000006",
            OffsetCommitValue(offset=258, metadata="a", commit_timestamp=5, expire_timestamp=6),
        ),
        (
            "0002 0000000000000102 0001 61 0000000000000005",
            OffsetCommitValue(offset=258, metadata="a", commit_timestamp=5),
        ),
        (
            "0004 0000000000000102 00000002 02 61 0000000000000005 01 63 01 00",
            OffsetCommitValue(offset=258, leader_epoch=2, metadata="a", commit_timestamp=5),
        ),
    ],
    ids=["v0", "v1", "v2", "v4 with an unknown tagged field"],
)
def test_older_and_newer_versions_of_an_offset_are_read(value: str, expected: OffsetCommitValue) -> None:
    assert decode_record(offset_key("g1", "orders", 3), bytes.fromhex(value)) == (KEY, expected)


def test_the_oldest_key_and_group_are_read() -> None:
    key = bytes.fromhex("0000 0002 6731 0006 6f7264657273 00000003")
    assert decode_record(key, None) == (KEY, None)
    group = bytes.fromhex("0000 0000 00000002 0000 ffff 00000001 0001 6d 0001 63 0001 68 00002710 00000000 00000000")
    decoded = decode_record(group_key("g"), group)
    assert decoded is not None
    assert isinstance(decoded[1], GroupMetadataValue)
    assert decoded[1].members[0].rebalance_timeout == -1


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (b"\0\3later kind", b"\0\0"),
        (b"\x7f\xff", None),
        (offset_key("g", "t", 0), b"\0\5anything"),
        (group_key("g"), b"\0\5anything"),
    ],
)
def test_kinds_and_versions_of_the_future_are_skipped(key: bytes, value: bytes | None) -> None:
    assert decode_record(key, value) is None


@given(st.data())
def test_damage_is_one_error(data: st.DataObject) -> None:
    key, value = data.draw(
        st.sampled_from(
            [(offset_key("g", "t", 0), offset_value(VALUE)), (group_key("g"), bytes.fromhex(max(GOLDEN, key=len)))]
        )
    )
    cut = data.draw(st.integers(0, len(value) - 1))
    with pytest.raises(MalformedMessage):
        decode_record(key, value[:cut])
    with pytest.raises(MalformedMessage):
        decode_record(key, value + b"\0")
    damaged = bytearray(value)
    damaged[data.draw(st.integers(0, len(value) - 1))] ^= data.draw(st.integers(1, 255))
    with contextlib.suppress(MalformedMessage):
        decode_record(key, bytes(damaged))


def test_topics_of_a_subscription_are_found_in_any_version() -> None:
    topics = bytes.fromhex("00000002 0001 74 0002 7475")
    assert subscribed_topics(b"\0\0" + topics) == frozenset({"t", "tu"})
    assert subscribed_topics(b"\0\3" + topics + b"\0\0\0\1x and what a later version adds") == frozenset({"t", "tu"})
    assert subscribed_topics(b"\0\0\0\0\0\0") == frozenset()


@pytest.mark.parametrize(
    "metadata", [b"", b"\0", b"\xff\xff\0\0\0\0", b"\0\0\0\0\0\1", b"\0\0\x7f\xff\xff\xff", b"\0\0\0\0\0\1\0\1\xff"]
)
def test_what_is_no_subscription_has_no_topics(metadata: bytes) -> None:
    assert subscribed_topics(metadata) is None
