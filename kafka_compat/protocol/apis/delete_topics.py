"""DeleteTopics (20): deletes topics, by name up to version 5, by name or id in 6."""

from kafka_compat.protocol.api import Api
from kafka_compat.protocol.schema import NO_UUID, STRING, Message, array, int16, int32, string, uuid


class DeleteTopic(Message):
    """A topic to delete, by name or by id (version 6)."""

    name: str | None = string(nullable="0+", default=None)
    topic_id: bytes = uuid()


class DeleteTopicsRequest(Message):
    """Deletes topics: `topic_names` up to version 5, `topics` in 6."""

    topics: tuple[DeleteTopic, ...] = array(DeleteTopic, "6+", default=())
    topic_names: tuple[str, ...] = array(STRING, "1-5", default=())
    timeout_ms: int = int32()


class DeleteTopicResult(Message):
    """The outcome for one topic."""

    name: str | None = string(nullable="6+")
    topic_id: bytes = uuid("6+", default=NO_UUID)
    error_code: int = int16()
    error_message: str | None = string("5+", nullable="0+", default=None)


class DeleteTopicsResponse(Message):
    """The outcome for each topic."""

    throttle_time_ms: int = int32(default=0)
    responses: tuple[DeleteTopicResult, ...] = array(DeleteTopicResult)


DELETE_TOPICS = Api.of(20, "DeleteTopics", DeleteTopicsRequest, DeleteTopicsResponse, versions="1-6", flexible="4+")
