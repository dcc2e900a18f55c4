"""Requests of simulated clients to a broker: commands as they are on the wire, and facts about each for audits."""

import enum
from collections.abc import Sequence

import attrs

from jepsen_like.simulation.rocketmq.process import QUEUES
from rocketmq_compat.consumers.retry import DELAY_LEVEL
from rocketmq_compat.consumers.timers import DELAY_MS
from rocketmq_compat.records import InnerMessage, join_messages, write_properties
from rocketmq_compat.remoting.codes import RequestCode
from rocketmq_compat.remoting.frame import Command
from rocketmq_compat.remoting.headers.offsets import QueryConsumerOffsetRequestHeader, UpdateConsumerOffsetRequestHeader
from rocketmq_compat.remoting.headers.pulling import HAS_SUBSCRIPTION, SUSPENDS, PullMessageRequestHeader
from rocketmq_compat.remoting.headers.sending import SendMessageRequestHeader
from rocketmq_compat.remoting.headers.topics import CreateTopicRequestHeader, TopicRequestHeader

TIMER_LEVEL = -1
"""The level of messages with a time of their own."""
SUSPEND_MS = 200


class RequestKind(enum.Enum):
    """The kind of a request."""

    SEND = "send"
    PULL = "pull"
    COMMIT = "commit"
    QUERY = "query"
    CREATE = "create"
    DELETE = "delete"


@attrs.frozen(eq=False)
class BrokerRequest:
    """One request of one client; `offset` is that of a pull or of a commit, and `level` that of a delayed message."""

    kind: RequestKind
    command: Command
    topic: str
    queue: int = 0
    bodies: Sequence[bytes] = ()
    group: str = ""
    offset: int = 0
    level: int = 0

    def __str__(self) -> str:
        what = b",".join(self.bodies).decode() or f"{self.group} {self.offset}"
        return f"{self.kind.value} {self.topic}/{self.queue} {what}"


def send(topic: str, queue: int, bodies: Sequence[bytes], *, level: int = 0, timer_ms: int = 0) -> BrokerRequest:
    """Stores one message, or a batch of them; with a `level` it is delayed, and with `TIMER_LEVEL` for `timer_ms`."""
    asked = {DELAY_MS: str(timer_ms)} if level == TIMER_LEVEL else {DELAY_LEVEL: str(level)} if level else {}
    properties = write_properties(asked)
    is_batch = len(bodies) > 1
    header = SendMessageRequestHeader(
        producer_group="producers",
        topic=topic,
        default_topic_queue_nums=QUEUES,
        queue_id=queue,
        sys_flag=0,
        born_timestamp=0,
        flag=0,
        properties=properties,
        batch=is_batch,
    )
    code = RequestCode.SEND_BATCH_MESSAGE if is_batch else RequestCode.SEND_MESSAGE_V2
    body = join_messages(InnerMessage(0, each, "") for each in bodies) if is_batch else bodies[0]
    command = Command(code, ext=header.ext_v2(), body=body)
    return BrokerRequest(RequestKind.SEND, command, topic, queue, bodies, level=level)


def pull(group: str, topic: str, queue: int, offset: int, *, waits: bool) -> BrokerRequest:
    """Reads messages; `waits` for some if there are none."""
    header = PullMessageRequestHeader(
        consumer_group=group,
        topic=topic,
        queue_id=queue,
        queue_offset=offset,
        max_msg_nums=8,
        sys_flag=HAS_SUBSCRIPTION | (SUSPENDS if waits else 0),
        suspend_timeout_millis=SUSPEND_MS,
        subscription="*",
    )
    command = Command(RequestCode.PULL_MESSAGE, ext=header.ext())
    return BrokerRequest(RequestKind.PULL, command, topic, queue, group=group, offset=offset)


def commit(group: str, topic: str, queue: int, offset: int) -> BrokerRequest:
    """Commits what a group has consumed."""
    header = UpdateConsumerOffsetRequestHeader(consumer_group=group, topic=topic, queue_id=queue, commit_offset=offset)
    command = Command(RequestCode.UPDATE_CONSUMER_OFFSET, ext=header.ext())
    return BrokerRequest(RequestKind.COMMIT, command, topic, queue, group=group, offset=offset)


def query(group: str, topic: str, queue: int) -> BrokerRequest:
    """Asks for what a group has committed."""
    header = QueryConsumerOffsetRequestHeader(consumer_group=group, topic=topic, queue_id=queue)
    command = Command(RequestCode.QUERY_CONSUMER_OFFSET, ext=header.ext())
    return BrokerRequest(RequestKind.QUERY, command, topic, queue, group=group)


def create(topic: str) -> BrokerRequest:
    """Creates a topic."""
    header = CreateTopicRequestHeader(
        topic=topic, default_topic="", read_queue_nums=QUEUES, write_queue_nums=QUEUES, perm=6
    )
    return BrokerRequest(RequestKind.CREATE, Command(RequestCode.UPDATE_AND_CREATE_TOPIC, ext=header.ext()), topic)


def delete(topic: str) -> BrokerRequest:
    """Deletes a topic."""
    header = TopicRequestHeader(topic=topic)
    return BrokerRequest(RequestKind.DELETE, Command(RequestCode.DELETE_TOPIC_IN_BROKER, ext=header.ext()), topic)
