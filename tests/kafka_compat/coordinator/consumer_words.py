"""The words of golden scripts for groups by KIP-848: heartbeats, their answers, and records.

A topic's id is its name, filled with dots. `t/0-2` are partitions 0 and 2 of topic t, and `-` is nothing at all.
"""

from collections.abc import Iterable
from typing import Any

from kafka_compat.coordinator.assignors import Partitions
from kafka_compat.coordinator.consumer_group import KnownTopic, MemberState
from kafka_compat.coordinator.consumer_records import (
    ConsumerValue,
    CurrentValue,
    GroupValue,
    MemberValue,
    PatternValue,
    TargetMemberValue,
    TargetValue,
    by_topic,
    decode_consumer_record,
    unpack,
)
from kafka_compat.coordinator.subscription import Assignment, EmbeddedPartitions, Subscription
from kafka_compat.protocol.apis.consumer_group_describe import ConsumerGroupDescribeResponse
from kafka_compat.protocol.apis.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    ConsumerGroupHeartbeatTopicPartitions,
)
from kafka_compat.protocol.compiler import wire_of
from kafka_compat.protocol.error_codes import KafkaErrorCode
from raft.net.decoder import Buffer

JOINING = {"topics": "t", "owned": "", "rebalance": "60"}
"""The options of a first heartbeat."""


def topic_id(name: str) -> bytes:
    return name.encode().ljust(16, b".")


def known_topics(options: dict[str, str]) -> dict[str, KnownTopic]:
    return {name: KnownTopic(topic_id(name), int(count)) for name, count in options.items()}


def partitions_text(partitions: Partitions) -> str:
    named = ((topic.rstrip(b".").decode(), numbers) for topic, numbers in by_topic(partitions))
    return "[" + " ".join(f"{name}/{'-'.join(map(str, numbers))}" for name, numbers in named) + "]"


def _read_owned(text: str | None) -> tuple[ConsumerGroupHeartbeatTopicPartitions, ...] | None:
    if text is None:
        return None
    topics = (each.partition("/")[::2] for each in text.split("+") if each)
    return tuple(
        ConsumerGroupHeartbeatTopicPartitions(
            topic_id=topic_id(name), partitions=tuple(int(number) for number in numbers.split("-"))
        )
        for name, numbers in topics
    )


def named_partitions(text: str) -> tuple[EmbeddedPartitions, ...]:
    topics = (each.partition("/")[::2] for each in text.split("+") if each)
    return tuple(
        EmbeddedPartitions(topic=name, partitions=tuple(int(number) for number in numbers.split("-")))
        for name, numbers in topics
    )


def encode_embedded(message: Subscription | Assignment, version: int) -> bytes:
    out: list[Buffer] = [version.to_bytes(2, "big")]
    wire_of(type(message), version, False).write(out, message)
    return b"".join(out)


def assignment(text: str) -> bytes:
    """`t/0-1` as consumers write it; any other text stands for the assignment of another kind of client."""
    return encode_embedded(Assignment(assigned=named_partitions(text)), 0) if "/" in text else text.encode()


def assignment_text(data: bytes) -> str:
    if not data.startswith(b"\0"):
        return data.decode()
    found = wire_of(Assignment, 0, False).read(memoryview(data), 2)[0]
    return "[" + " ".join(f"{each.topic}/{'-'.join(map(str, each.partitions))}" for each in found.assigned) + "]"


def heartbeat(member_id: str, epoch: int, options: dict[str, str]) -> ConsumerGroupHeartbeatRequest:
    """Returns a heartbeat; a first one has what it needs by itself."""
    if epoch == 0:
        options = {**JOINING, **options}
    topics = options.get("topics")
    return ConsumerGroupHeartbeatRequest(
        group_id=options.get("group", "g"),
        member_id=member_id,
        member_epoch=epoch,
        instance_id=options.get("static"),
        rebalance_timeout_ms=int(options["rebalance"]) * 1000 if "rebalance" in options else -1,
        subscribed_topic_names=None if topics is None else tuple(each for each in topics.split("+") if each),
        subscribed_topic_regex=options.get("regex"),
        server_assignor=options.get("assignor"),
        topic_partitions=_read_owned(options.get("owned")),
    )


def heartbeat_text(response: ConsumerGroupHeartbeatResponse) -> str:
    if response.error_code:
        return KafkaErrorCode(response.error_code).name
    given = response.assignment
    shown = "" if given is None else " " + partitions_text(unpack(given.topic_partitions))
    return f"epoch {response.member_epoch}{shown}"


def members_text(response: ConsumerGroupDescribeResponse) -> str:
    return "; ".join(
        f"{group.group_id} {KafkaErrorCode(group.error_code).name if group.error_code else group.group_state}"
        f" {group.group_epoch}/{group.assignment_epoch} {group.assignor_name}".rstrip()
        + "".join(
            f" {each.member_id}{'' if each.member_type else ' (classic)'}@{each.member_epoch}"
            f"{partitions_text(unpack(each.assignment.topic_partitions))}"
            f">{partitions_text(unpack(each.target_assignment.topic_partitions))}"
            for each in group.members
        )
        for group in response.groups
    )


def consumer_record_text(key: bytes, value: bytes | None) -> str:
    decoded = decode_consumer_record(key, value)
    assert decoded is not None
    kind, group, name, record = decoded
    subject = f"{group} {name}".rstrip()
    return f"{subject} {kind.name.lower()} gone" if record is None else f"{subject} {_value_text(record)}"


def _value_text(record: ConsumerValue) -> str:
    match record:
        case GroupValue():
            return f"epoch={record.epoch}"
        case TargetValue():
            return f"target={record.assignment_epoch}"
        case MemberValue():
            return " ".join(("wants", *_wishes(record)))
        case TargetMemberValue():
            return f"target={partitions_text(unpack(record.topic_partitions))}"
        case CurrentValue():
            revoking = unpack(record.revoking)
            state = MemberState(record.state).name.partition("_")[0]
            gives = f" gives {partitions_text(revoking)}" if revoking else ""
            return f"{state}@{record.member_epoch} has {partitions_text(unpack(record.assigned))}{gives}"
        case PatternValue():
            return f"matches {'+'.join(record.topics)}"


def _wishes(record: MemberValue) -> Iterable[Any]:
    yield "+".join(record.subscribed_topic_names) or "-"
    if record.classic is not None:
        yield "by " + ",".join(each.name for each in record.classic.protocols)
    yield from (f"{each}" for each in (record.subscribed_topic_regex, record.server_assignor) if each)
    if record.instance_id is not None:
        yield f"as {record.instance_id}"
