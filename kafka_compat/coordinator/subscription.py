"""Reads the topics in a consumer's JoinGroup metadata, the one part of it that the coordinator reads.

In every version of the consumer protocol, the metadata of protocol type "consumer" begins with a version (two bytes)
and an array of topic names; the rest is ignored. (Kafka's message file `ConsumerProtocolSubscription`.)
"""

import struct

from kafka_compat.protocol import primitives
from kafka_compat.protocol.errors import MalformedMessage

CONSUMER_PROTOCOL_TYPE = "consumer"
_VERSION_BYTES = 2
_TOPICS = primitives.array(primitives.string(compact=False, nullable=False), compact=False, nullable=False)


def subscribed_topics(metadata: bytes) -> frozenset[str] | None:
    """Returns the topics, or None if the bytes are not a subscription."""
    if len(metadata) < _VERSION_BYTES or metadata[0] >= 0x80:
        return None
    try:
        return frozenset(_TOPICS.read(memoryview(metadata), _VERSION_BYTES)[0])
    except (MalformedMessage, struct.error, IndexError, UnicodeDecodeError):
        return None
