"""OffsetFetch (9): the committed offsets of one group, and from version 8 of several."""

from kafka_compat.protocol.api import Api
from kafka_compat.protocol.schema import INT32, NO_UUID, Message, array, boolean, int16, int32, int64, string, uuid


class OffsetFetchTopic(Message):
    """The partitions of one topic."""

    name: str = string("1-9", default="")
    topic_id: bytes = uuid("10+", default=NO_UUID)
    partition_indexes: tuple[int, ...] = array(INT32)


class OffsetFetchGroup(Message):
    """A group and its topics; null means all."""

    group_id: str = string()
    member_id: str | None = string("9+", nullable="0+", default=None)
    member_epoch: int = int32("9+", default=-1)
    topics: tuple[OffsetFetchTopic, ...] | None = array(OffsetFetchTopic, nullable="0+")


class OffsetFetchRequest(Message):
    """Asks for committed offsets: `group_id` and `topics` up to version 7, `groups` from 8."""

    group_id: str = string("1-7", default="")
    topics: tuple[OffsetFetchTopic, ...] | None = array(OffsetFetchTopic, "1-7", nullable="2-7", default=())
    groups: tuple[OffsetFetchGroup, ...] = array(OffsetFetchGroup, "8+", default=())
    require_stable: bool = boolean("7+", default=False)


class OffsetFetchPartitionResponse(Message):
    """The committed offset; -1 without an error if there is none."""

    partition_index: int = int32()
    committed_offset: int = int64()
    committed_leader_epoch: int = int32("5+", default=-1)
    metadata: str | None = string(nullable="0+")
    error_code: int = int16()


class OffsetFetchTopicResponse(Message):
    """The partitions of one topic."""

    name: str = string("1-9", default="")
    topic_id: bytes = uuid("10+", default=NO_UUID)
    partitions: tuple[OffsetFetchPartitionResponse, ...] = array(OffsetFetchPartitionResponse)


class OffsetFetchGroupResponse(Message):
    """The offsets of one group."""

    group_id: str = string()
    topics: tuple[OffsetFetchTopicResponse, ...] = array(OffsetFetchTopicResponse)
    error_code: int = int16(default=0)


class OffsetFetchResponse(Message):
    """The offsets: in `topics` up to version 7, in `groups` from 8."""

    throttle_time_ms: int = int32("3+", default=0)
    topics: tuple[OffsetFetchTopicResponse, ...] = array(OffsetFetchTopicResponse, "1-7", default=())
    error_code: int = int16("2-7", default=0)
    groups: tuple[OffsetFetchGroupResponse, ...] = array(OffsetFetchGroupResponse, "8+", default=())


OFFSET_FETCH = Api.of(9, "OffsetFetch", OffsetFetchRequest, OffsetFetchResponse, versions="1-10", flexible="6+")
