"""Creating, growing and deleting topics: the checks of KRaft's ReplicationControlManager, and the first state of a
partition.

The ISR of a new partition is its active replicas, and the first of them leads. A fenced broker may be a replica, but
neither leads nor counts as in sync.
"""

import re
from collections.abc import Iterable, Sequence

from kafka_compat.config import InvalidSetting, check_dynamic_setting, check_topic_setting
from kafka_compat.controller.commands import (
    CreatePartitions,
    CreateTopics,
    MorePartitions,
    NewTopic,
    ResourceKind,
    ResourceName,
    TopicReference,
)
from kafka_compat.controller.image import ClusterImage, TopicImage
from kafka_compat.controller.placement import place
from kafka_compat.controller.refusal import Refused
from kafka_compat.model import PartitionState
from kafka_compat.protocol.error_codes import KafkaErrorCode
from kafka_compat.protocol.schema import NO_UUID

NAME_LENGTH_MAX = 249
"""Topic.MAX_NAME_LENGTH: the folder of a partition has to fit into the name of a file."""
PARTITIONS_PER_COMMAND_MAX = 10_000
"""New partitions in one command (MAX_PARTITIONS_PER_BATCH)."""
_NAME = re.compile(r"[A-Za-z0-9._-]+")
_SEED_STEP = 0x9E3779B1
"""Each topic of a command is placed from a seed of its own."""


def check_name(image: ClusterImage, name: str) -> None:
    """Raises `Refused` unless a topic of this name may be created: INVALID_TOPIC_EXCEPTION or TOPIC_ALREADY_EXISTS."""
    shown = name if len(name) <= NAME_LENGTH_MAX else name[:NAME_LENGTH_MAX] + "..."
    if not name:
        problem = "the empty string is not allowed"
    elif name in (".", ".."):
        problem = "'.' or '..' is not allowed"
    elif len(name) > NAME_LENGTH_MAX:
        problem = f"the length of '{shown}' is longer than the max allowed length {NAME_LENGTH_MAX}"
    elif not _NAME.fullmatch(name):
        problem = f"'{shown}' contains one or more characters other than ASCII alphanumerics, '.', '_' and '-'"
    elif name in image.topics:
        raise Refused(KafkaErrorCode.TOPIC_ALREADY_EXISTS, f"Topic '{name}' already exists.")
    elif (other := image.colliding(name)) is not None:
        raise Refused(KafkaErrorCode.INVALID_TOPIC_EXCEPTION, f"Topic '{name}' collides with existing topic: {other}")
    else:
        return
    raise Refused(KafkaErrorCode.INVALID_TOPIC_EXCEPTION, f"Topic name is invalid: {problem}")


def new_topic(image: ClusterImage, command: CreateTopics, place_in_command: int, room: int) -> TopicImage:
    """Returns the topic that the command requests at this place; the command may still add `room` partitions.

    Raises `Refused`: INVALID_TOPIC_EXCEPTION, TOPIC_ALREADY_EXISTS, INVALID_PARTITIONS, INVALID_REPLICATION_FACTOR,
    INVALID_REPLICA_ASSIGNMENT, POLICY_VIOLATION for too many partitions, INVALID_CONFIG, INVALID_REQUEST.
    """
    topic = command.topics[place_in_command]
    check_name(image, topic.name)
    if topic.topic_id == NO_UUID or topic.topic_id in image.topics_by_id:
        raise Refused(KafkaErrorCode.INVALID_REQUEST, "the topic id is zero or belongs to another topic")
    if topic.assignment:
        replicas = _assign(image, topic)
        _check_room(len(replicas), room)
    else:
        replicas = _place(image, topic, _seed(command.seed, place_in_command), room)
    states = _first_states(image, topic.topic_id, replicas, 0, manual=bool(topic.assignment))
    configs = {
        name: check_setting(ResourceName(ResourceKind.TOPIC, topic.name), name, value) for name, value in topic.configs
    }
    return TopicImage(topic.name, topic.topic_id, states, configs)


def check_setting(resource: ResourceName, name: str, value: str) -> str:
    """Returns the value as it is kept. Raises `Refused` with INVALID_CONFIG for one that brokers could not honour.

    Brokers check settings before they propose them; this check protects every member from a proposer that does not.
    """
    try:
        if resource.kind is ResourceKind.TOPIC:
            return check_topic_setting(name, value)
        return check_dynamic_setting(name, value)
    except InvalidSetting as invalid:
        raise Refused(KafkaErrorCode.INVALID_CONFIG, invalid.detail) from None


def more_partitions(
    image: ClusterImage, command: CreatePartitions, place_in_command: int, room: int
) -> list[PartitionState]:
    """Returns the partitions to add to the command's topic at this place; `room` as for `new_topic`.

    Raises `Refused`: UNKNOWN_TOPIC_OR_PARTITION, INVALID_PARTITIONS, INVALID_REPLICATION_FACTOR,
    INVALID_REPLICA_ASSIGNMENT, POLICY_VIOLATION.
    """
    wanted = command.topics[place_in_command]
    topic = image.topics.get(wanted.name)
    if topic is None:
        raise Refused(KafkaErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "This server does not host this topic-partition.")
    added = _count_added(topic, wanted)
    _check_room(added, room)
    factor = len(topic.partitions[0].target)
    if wanted.assignment is not None:
        for brokers in wanted.assignment:
            check_assignment(image, brokers, factor)
        replicas = list(wanted.assignment)
    else:
        existing = [state.target for state in topic.partitions]
        replicas = place(image.brokers.values(), added, factor, _seed(command.seed, place_in_command), existing)
    manual = wanted.assignment is not None
    return _first_states(image, topic.topic_id, replicas, len(topic.partitions), manual=manual)


def find(image: ClusterImage, reference: TopicReference) -> TopicImage:
    """Returns the topic with this name or id.

    Raises `Refused`: UNKNOWN_TOPIC_OR_PARTITION, UNKNOWN_TOPIC_ID or INVALID_REQUEST.
    """
    if (reference.name is None) == (reference.topic_id is None):
        raise Refused(KafkaErrorCode.INVALID_REQUEST, "a topic is meant by its name or by its id, not by both or none")
    if reference.name is not None:
        topic = image.topics.get(reference.name)
        if topic is None:
            raise Refused(KafkaErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "This server does not host this topic-partition.")
        return topic
    assert reference.topic_id is not None
    topic = image.topics_by_id.get(reference.topic_id)
    if topic is None:
        raise Refused(KafkaErrorCode.UNKNOWN_TOPIC_ID, "This server does not host this topic ID.")
    return topic


def find_repeated(names: Iterable[object]) -> frozenset[object]:
    """Returns the values that come more than once."""
    seen: set[object] = set()
    return frozenset([name for name in names if name in seen or seen.add(name)])  # type: ignore[func-returns-value]


def _seed(seed: int, place_in_command: int) -> int:
    return seed + place_in_command * _SEED_STEP


def _check_room(partitions: int, room: int) -> None:
    if partitions > room:
        raise Refused(
            KafkaErrorCode.POLICY_VIOLATION,
            f"Excessively large number of partitions per request: at most {PARTITIONS_PER_COMMAND_MAX} are created at once.",
        )


def _place(image: ClusterImage, topic: NewTopic, seed: int, room: int) -> list[tuple[int, ...]]:
    if topic.replication_factor <= 0:
        raise Refused(
            KafkaErrorCode.INVALID_REPLICATION_FACTOR,
            f"Replication factor must be larger than 0, not {topic.replication_factor}.",
        )
    if topic.partitions <= 0:
        raise Refused(
            KafkaErrorCode.INVALID_PARTITIONS,
            f"Number of partitions was set to an invalid non-positive value: {topic.partitions}.",
        )
    _check_room(topic.partitions, room)
    try:
        return place(image.brokers.values(), topic.partitions, topic.replication_factor, seed)
    except Refused as refused:
        raise Refused(
            refused.code, f"Unable to replicate the partition {topic.replication_factor} time(s): {refused.message}"
        ) from None


def _assign(image: ClusterImage, topic: NewTopic) -> list[tuple[int, ...]]:
    if topic.replication_factor != -1:
        raise Refused(
            KafkaErrorCode.INVALID_REQUEST,
            "A manual partition assignment was specified, but replication factor was not set to -1.",
        )
    if topic.partitions != -1:
        raise Refused(
            KafkaErrorCode.INVALID_REQUEST,
            "A manual partition assignment was specified, but numPartitions was not set to -1.",
        )
    by_partition = dict(topic.assignment)
    if len(by_partition) != len(topic.assignment):
        raise Refused(
            KafkaErrorCode.INVALID_REPLICA_ASSIGNMENT, "Found multiple manual partition assignments for one partition."
        )
    factor = len(topic.assignment[0][1])
    for brokers in by_partition.values():
        check_assignment(image, brokers, factor)
    if set(by_partition) != set(range(len(by_partition))):
        raise Refused(
            KafkaErrorCode.INVALID_REPLICA_ASSIGNMENT, "partitions should be a consecutive 0-based integer sequence"
        )
    return [by_partition[partition] for partition in range(len(by_partition))]


def check_assignment(image: ClusterImage, brokers: Sequence[int], factor: int | None) -> None:
    """Raises `Refused` with INVALID_REPLICA_ASSIGNMENT unless these may be replicas, as many as `factor` if it is set."""
    unknown = next((broker for broker in sorted(brokers) if broker not in image.brokers), None)
    twice = min(find_repeated(brokers), default=None, key=str)
    if not brokers:
        problem = "an empty replica list"
    elif unknown is not None:
        problem = f"broker {unknown}, but no such broker is registered"
    elif twice is not None:
        problem = f"the broker {twice} more than once"
    elif factor is not None and len(brokers) != factor:
        problem = (
            f"a partition with {len(brokers)} replica(s), but this is not consistent with previous partitions, "
            f"which have {factor} replica(s)"
        )
    else:
        return
    raise Refused(KafkaErrorCode.INVALID_REPLICA_ASSIGNMENT, f"The manual partition assignment includes {problem}.")


def _count_added(topic: TopicImage, wanted: MorePartitions) -> int:
    """Returns the number of partitions to add. Raises `Refused`: INVALID_PARTITIONS or INVALID_REPLICA_ASSIGNMENT."""
    present = len(topic.partitions)
    if wanted.total == present:
        raise Refused(KafkaErrorCode.INVALID_PARTITIONS, f"Topic already has {present} partition(s).")
    if wanted.total < present:
        raise Refused(
            KafkaErrorCode.INVALID_PARTITIONS,
            f"The topic {topic.name} currently has {present} partition(s); {wanted.total} would not be an increase.",
        )
    added = wanted.total - present
    if wanted.assignment is not None and len(wanted.assignment) != added:
        raise Refused(
            KafkaErrorCode.INVALID_REPLICA_ASSIGNMENT,
            f"Attempted to add {added} additional partition(s), but only {len(wanted.assignment)} assignment(s) were specified.",
        )
    return added


def _first_states(
    image: ClusterImage, topic_id: bytes, placed: Sequence[tuple[int, ...]], first: int, *, manual: bool
) -> list[PartitionState]:
    states = []
    for partition, replicas in enumerate(placed, start=first):
        isr = tuple([broker for broker in replicas if image.active(broker)])
        if not isr and manual:
            raise Refused(
                KafkaErrorCode.INVALID_REPLICA_ASSIGNMENT,
                f"All brokers specified in the manual partition assignment for partition {partition} are fenced or in "
                "controlled shutdown.",
            )
        # Placement never begins with a fenced broker, and uses none that is shutting down.
        assert isr, replicas
        states.append(PartitionState(topic_id, replicas, isr, isr[0], 0, 0))
    return states
