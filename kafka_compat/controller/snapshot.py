"""The image of the cluster as bytes, and back: equal images give equal bytes, on any path to them."""

from typing import Any

from attrs import astuple

from kafka_compat.controller import shapes
from kafka_compat.controller.commands import ACL, LOG_ENDS
from kafka_compat.controller.image import ClusterImage, TopicImage
from kafka_compat.controller.invariants import problem_of
from kafka_compat.model import BrokerRegistration, PartitionState, ScramCredential, ScramMechanism
from raft.errors import InvalidRequest

SNAPSHOT_VERSION = 1

_BROKERS = shapes.array(shapes.BROKER_ID, 10_000)
_EPOCH = shapes.integer(0, shapes.INT32_MAX)
_BROKER = shapes.record(
    BrokerRegistration,
    shapes.BROKER_ID,
    shapes.NUMBER,
    shapes.UUID,
    shapes.TEXT,
    shapes.integer(0, 65_535),
    shapes.optional(shapes.TEXT),
    shapes.BOOLEAN,
    shapes.BOOLEAN,
    shapes.NUMBER_OR_NONE,
    shapes.ENDPOINTS,
    added=2,
)
_CONFIGS = shapes.array(shapes.tuple_of(shapes.TEXT, shapes.text(shapes.VALUE_MAX)))
_PARTITION = shapes.tuple_of(
    _BROKERS,
    _BROKERS,
    shapes.integer(-1, shapes.INT32_MAX),
    _EPOCH,
    _EPOCH,
    shapes.BOOLEAN,
    _BROKERS,
    _BROKERS,
    LOG_ENDS,
    _BROKERS,
    _BROKERS,
    added=((), (), (), (), ()),
)
"""A PartitionState without the topic id, which its topic has."""
_TOPIC = shapes.tuple_of(shapes.TEXT, shapes.UUID, shapes.array(_PARTITION), _CONFIGS)
_IMAGE = shapes.tuple_of(
    shapes.NUMBER,
    shapes.NUMBER,
    shapes.array(_BROKER),
    shapes.array(_TOPIC),
    _CONFIGS,
    shapes.array(shapes.tuple_of(shapes.BROKER_ID, _CONFIGS)),
    shapes.array(shapes.tuple_of(shapes.TEXT, shapes.SCRAM_MECHANISM, shapes.SCRAM_CREDENTIAL)),
    shapes.array(ACL),
    added=((), ()),
)


def encode_image(image: ClusterImage) -> bytes:
    """Returns a snapshot of the image."""
    brokers = [broker for _, broker in sorted(image.brokers.items())]
    topics = [
        (
            topic.name,
            topic.topic_id,
            [astuple(each, recurse=False)[1:] for each in topic.partitions],
            sorted(topic.configs.items()),
        )
        for _, topic in sorted(image.topics.items())
    ]
    broker_configs = [(broker, sorted(configs.items())) for broker, configs in sorted(image.broker_configs.items())]
    value = (
        image.index,
        image.next_producer_id,
        brokers,
        topics,
        sorted(image.cluster_configs.items()),
        broker_configs,
        tuple(
            (user, mechanism, credential)
            for user, of_user in sorted(image.credentials.items())
            for mechanism, credential in sorted(of_user.items())
        ),
        tuple(image.acls.all()),
    )
    return shapes.encode(SNAPSHOT_VERSION, _IMAGE, value)


def restore_image(image: ClusterImage, snapshot: bytes) -> None:
    """Fill `image` with the content of the snapshot.

    For other bytes raises `InvalidRequest`, and leaves the image unchanged.
    """
    value: Any = shapes.decode(SNAPSHOT_VERSION, _IMAGE, snapshot, "a snapshot of the controller")
    index, next_producer_id, brokers, topic_rows, cluster_configs, broker_configs, credential_rows, acls = value
    credentials: dict[str, dict[ScramMechanism, ScramCredential]] = {}
    for user, mechanism, credential in credential_rows:
        credentials.setdefault(user, {})[mechanism] = credential
    topics = [_topic(*row) for row in topic_rows]
    if len({topic.name for topic in topics}) != len(topics) or len({topic.topic_id for topic in topics}) != len(topics):
        raise InvalidRequest("a snapshot of the controller has a topic twice")
    if len(set(acls)) != len(acls):
        raise InvalidRequest("a snapshot of the controller has an ACL twice")
    image.replace(
        index=index,
        next_producer_id=next_producer_id,
        brokers=brokers,
        topics=topics,
        cluster_configs=dict(cluster_configs),
        broker_configs={broker: dict(configs) for broker, configs in broker_configs},
        credentials=credentials,
        acls=acls,
    )


def _topic(name: str, topic_id: bytes, rows: tuple[Any, ...], configs: tuple[tuple[str, str], ...]) -> TopicImage:
    states = [PartitionState(topic_id, *row) for row in rows]
    problem = next((problem for state in states if (problem := problem_of(state)) is not None), None)
    if problem is not None:
        raise InvalidRequest(f"a snapshot of the controller has a partition that cannot be: {problem}")
    return TopicImage(name, topic_id, states, dict(configs))
