"""The topics of a broker (`TopicConfigManager`): created by operators, by their first message, or by the system.

Every change has a new version. By it the shell finds the changes to write to disk, to register, and to copy to slaves.
"""

from collections.abc import Iterator, Mapping
from typing import Final

import attrs

from rocketmq_compat.consumers.model import RETRY_PREFIX, RequestRefused, WatchedTable, next_version
from rocketmq_compat.consumers.topic_names import (
    AUTO_CREATE_TOPIC,
    OFFSET_MOVED_TOPIC,
    SCHEDULE_TOPIC,
    SELF_TEST_TOPIC,
    TIMER_TOPIC,
    is_system_topic,
    reply_topic,
    require_sendable,
    validate_topic_name,
)
from rocketmq_compat.remoting import fastjson
from rocketmq_compat.remoting.bodies import INHERITED, READABLE, WRITABLE, DataVersion, TopicConfig
from rocketmq_compat.remoting.codes import ResponseCode
from rocketmq_compat.remoting.fastjson import JsonText

SCHEDULE_QUEUES: Final = 18
"""Queues of the schedule topic, one for each delay level; more if more levels are configured."""
TOPICS_MAX: Final = 100_000
"""Topics that are created by their first message; an operator may create more."""
QUEUES_MAX: Final = 65_536
"""Queues of one topic."""


READ_WRITE: Final = READABLE | WRITABLE


@attrs.define
class TopicTable(WatchedTable[str]):
    """All topics of this broker."""

    auto_create: bool = True
    """`autoCreateTopicEnable`."""
    topics_max: int = TOPICS_MAX
    topics: dict[str, TopicConfig] = attrs.field(factory=dict)
    """Every topic by its name."""
    _texts: dict[str, tuple[TopicConfig, JsonText]] = attrs.field(factory=dict)

    @classmethod
    def with_system_topics(
        cls,
        *,
        auto_create: bool,
        default_queues: int,
        cluster: str,
        broker_name: str,
        delay_levels: int = SCHEDULE_QUEUES,
        trace_topic: str | None = None,
    ) -> "TopicTable":
        """Returns the table of a new broker.

        `default_queues` (`defaultTopicQueueNums`) is the most that an automatic topic gets.
        """
        table = cls(auto_create=auto_create)
        for topic in system_topics(
            auto_create=auto_create,
            default_queues=default_queues,
            cluster=cluster,
            broker_name=broker_name,
            delay_levels=delay_levels,
            trace_topic=trace_topic,
        ):
            table.topics[topic.topic_name] = topic
        return table

    def encode(self) -> Mapping[str, JsonText]:
        """Returns the JSON of every topic by its name.

        It encodes only the topics that have changed since the last call.
        """
        texts = self._texts
        self._texts = {
            name: known
            if (known := texts.get(name)) is not None and known[0] is topic
            else (topic, JsonText(fastjson.dumps(topic)))
            for name, topic in self.topics.items()
        }
        return {name: text for name, (_, text) in self._texts.items()}

    def get(self, name: str) -> TopicConfig | None:
        """Returns the topic, or None for an unknown name."""
        return self.topics.get(name)

    def for_send(self, time_ms: int, name: str, *, default_topic: str, default_queues: int) -> TopicConfig:
        """Returns the topic of a message, creating it if that is allowed (`createTopicInSendMessageMethod`).

        A new topic is like `default_topic` if that one permits it, and has at most its number of queues and at most the
        number that the client asks for. Raises `RequestRefused`: INVALID_PARAMETER for an illegal name, NO_PERMISSION
        for a topic that takes no messages, TOPIC_NOT_EXIST.
        """
        require_sendable(name)
        found = self.topics.get(name)
        if found is None:
            validate_topic_name(name)
            found = self._created_after(time_ms, name, default_topic, default_queues)
        if not found.perm & WRITABLE:
            raise RequestRefused(ResponseCode.NO_PERMISSION, f"the topic[{name}] sending message is forbidden")
        return found

    def for_sent_back(self, time_ms: int, name: str, queues: int) -> TopicConfig:
        """Returns the retry or dead-letter topic of a group, creating it if it is missing
        (`createTopicInSendMessageBackMethod`).

        Raises `RequestRefused`: INVALID_PARAMETER if there cannot be such a topic, NO_PERMISSION if it is not writable.
        """
        found = self.topics.get(name)
        if found is None:
            validate_topic_name(name)
            self._require_room(name, ResponseCode.SYSTEM_ERROR)
            found = self._put(time_ms, new_topic(name, queues, queues))
        if not found.perm & WRITABLE:
            raise RequestRefused(ResponseCode.NO_PERMISSION, f"the topic[{name}] sending message is forbidden")
        return found

    def for_delivery(self, time_ms: int, name: str, queue_id: int) -> None:
        """Creates the topic of a delayed message if it is missing, so that consumers find the message."""
        if name not in self.topics:
            self._put(time_ms, new_topic(name, queue_id + 1, queue_id + 1))

    def for_pull(self, name: str, queue_id: int, group: str) -> TopicConfig:
        """Returns the topic from which a group pulls.

        Raises `RequestRefused`: TOPIC_NOT_EXIST, NO_PERMISSION, and SYSTEM_ERROR for an unknown queue of the topic.
        """
        found = self.require(name)
        if not found.perm & READABLE:
            raise RequestRefused(ResponseCode.NO_PERMISSION, f"the topic[{name}] pulling message is forbidden")
        if not 0 <= queue_id < found.read_queue_nums:
            raise RequestRefused(
                ResponseCode.SYSTEM_ERROR,
                f"queueId[{queue_id}] is illegal, topic:[{name}] topicConfig.readQueueNums:[{found.read_queue_nums}] consumer:[{group}]",
            )
        return found

    def require(self, name: str) -> TopicConfig:
        """Returns the topic. Raises `RequestRefused` with TOPIC_NOT_EXIST if there is none."""
        found = self.topics.get(name)
        if found is None:
            raise RequestRefused(ResponseCode.TOPIC_NOT_EXIST, f"topic[{name}] not exist, apply first please!")
        return found

    def update(self, time_ms: int, topic: TopicConfig) -> None:
        """Create or change a topic for an operator.

        Raises `RequestRefused` with INVALID_PARAMETER for an illegal name, a system topic, or bad numbers of queues.
        """
        validate_topic_name(topic.topic_name)
        if is_system_topic(topic.topic_name):
            raise RequestRefused(
                ResponseCode.INVALID_PARAMETER, f"The topic[{topic.topic_name}] is conflict with system topic."
            )
        if not (0 <= topic.read_queue_nums <= QUEUES_MAX and 0 <= topic.write_queue_nums <= QUEUES_MAX):
            raise RequestRefused(
                ResponseCode.INVALID_PARAMETER,
                f"a topic has 0 to {QUEUES_MAX} queues, not {topic.read_queue_nums} to read and {topic.write_queue_nums} to write",
            )
        self._put(time_ms, topic)

    def delete(self, time_ms: int, name: str) -> bool:
        """Delete a topic for an operator. Returns True if it existed.

        Raises `RequestRefused` with INVALID_PARAMETER for a system topic.
        """
        if is_system_topic(name):
            raise RequestRefused(ResponseCode.INVALID_PARAMETER, f"The topic[{name}] is conflict with system topic.")
        if self.topics.pop(name, None) is None:
            return False
        self._note_change(time_ms, (name,))
        return True

    def load(self, version: DataVersion, topics: Mapping[str, TopicConfig]) -> None:
        """Load the topics of a checkpoint. They replace topics of the same name; the other system topics stay."""
        self.version = version
        self.topics.update(topics)
        self._note_all()

    def learn(self, topic: TopicConfig) -> None:
        """Take over one topic of the master as a slave, until all of them are copied."""
        self.topics[topic.topic_name] = topic
        self._note((topic.topic_name,))

    def merge(self, time_ms: int, topics: Mapping[str, TopicConfig], *, theirs_count: bool) -> None:
        """Add the topics of another copy; where both have one, `theirs_count` decides whose is kept."""
        self.topics = {**self.topics, **topics} if theirs_count else {**topics, **self.topics}
        self.version = next_version(self.version, time_ms)
        self._note_all()

    def follow(self, version: DataVersion, topics: Mapping[str, TopicConfig]) -> None:
        """Replace all topics by the master's as a slave."""
        if self.version != version or self.topics.keys() != topics.keys():
            self._note_all()
        self.version = version
        self.topics = dict(topics)

    def _created_after(self, time_ms: int, name: str, default_topic: str, default_queues: int) -> TopicConfig:
        template = self.topics.get(default_topic)
        inherits = template is not None and bool(template.perm & INHERITED)
        if default_topic == AUTO_CREATE_TOPIC and not self.auto_create:
            inherits = False
        self._require_room(name, ResponseCode.TOPIC_NOT_EXIST)
        if template is not None and inherits:
            queues = max(min(default_queues, template.write_queue_nums), 0)
            return self._put(time_ms, new_topic(name, queues, queues, template.perm & ~INHERITED))
        if name.startswith(RETRY_PREFIX):
            return self._put(time_ms, new_topic(name, 1, 1))
        raise RequestRefused(ResponseCode.TOPIC_NOT_EXIST, f"topic[{name}] not exist, apply first please!")

    def _require_room(self, name: str, code: ResponseCode) -> None:
        if len(self.topics) >= self.topics_max:
            raise RequestRefused(
                code, f"topic[{name}] not exist, and this broker has {len(self.topics)} topics already"
            )

    def _put(self, time_ms: int, topic: TopicConfig) -> TopicConfig:
        if self.topics.get(topic.topic_name) != topic:
            self.topics[topic.topic_name] = topic
            self._note_change(time_ms, (topic.topic_name,))
        return topic


def new_topic(name: str, read_queues: int, write_queues: int, perm: int = READ_WRITE) -> TopicConfig:
    """Returns a topic with these queues."""
    return TopicConfig(topic_name=name, read_queue_nums=read_queues, write_queue_nums=write_queues, perm=perm)


def system_topics(
    *,
    auto_create: bool,
    default_queues: int,
    cluster: str,
    broker_name: str,
    delay_levels: int,
    trace_topic: str | None = None,
) -> Iterator[TopicConfig]:
    """Yields the topics that every broker has, and `trace_topic` if it is given."""
    yield new_topic(SELF_TEST_TOPIC, 1, 1)
    yield new_topic(OFFSET_MOVED_TOPIC, 1, 1)
    yield new_topic(SCHEDULE_TOPIC, max(SCHEDULE_QUEUES, delay_levels), max(SCHEDULE_QUEUES, delay_levels))
    yield new_topic(TIMER_TOPIC, 1, 1)
    yield new_topic(reply_topic(cluster), 1, 1)
    if trace_topic is not None:
        yield new_topic(trace_topic, 1, 1)
    yield new_topic(cluster, 16, 16, INHERITED | READ_WRITE)
    yield new_topic(broker_name, 1, 1, INHERITED | READ_WRITE)
    if auto_create:
        yield new_topic(AUTO_CREATE_TOPIC, default_queues, default_queues, INHERITED | READ_WRITE)
