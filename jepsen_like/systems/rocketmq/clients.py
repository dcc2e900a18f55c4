"""Connects clients of a run to the brokers of a group, and interprets the answers to operations.

`FAIL` only for an answer that refuses this very request, or when no request can have left. Everything else is `INFO`.
"""

import time
from collections.abc import Mapping, Sequence
from typing import ClassVar, Final

import attrs

from jepsen_like.history.ops import ErrorCode, Outcome
from jepsen_like.operate.access import BrokerAccess
from jepsen_like.port.wires import Address
from jepsen_like.systems.rocketmq.connection import BrokerRefused, NoBrokerAnswer, NoConnection, RemotingConnection
from jepsen_like.workload.load import Ending, Hint, NotTheLeader, TryLater
from raft.net.certificates import Certificates
from rocketmq_compat.config_keys import SLAVE
from rocketmq_compat.records import RecordHead, read_heads
from rocketmq_compat.remoting.codes import RequestCode, ResponseCode
from rocketmq_compat.remoting.errors import BadBody, BadHeader
from rocketmq_compat.remoting.headers.offsets import OffsetResponseHeader, QueueRequestHeader
from rocketmq_compat.remoting.headers.pulling import PullMessageRequestHeader
from rocketmq_compat.remoting.headers.sending import SendMessageRequestHeader, SendMessageResponseHeader

TOPIC: Final = "log"
PRODUCER: Final = "quorumlog"
NOTHING_THERE: Final = frozenset({ResponseCode.PULL_NOT_FOUND, ResponseCode.PULL_OFFSET_MOVED})
REFUSALS: Final[Mapping[int, tuple[ErrorCode, Hint | None]]] = {
    ResponseCode.SYSTEM_BUSY: (ErrorCode.BUSY, TryLater()),
    ResponseCode.FLOW_CONTROL: (ErrorCode.BUSY, TryLater()),
    ResponseCode.SERVICE_NOT_AVAILABLE: (ErrorCode.NOT_LEADER, NotTheLeader(None)),
    ResponseCode.NO_PERMISSION: (ErrorCode.NOT_LEADER, NotTheLeader(None)),
    ResponseCode.NOT_LEADER_FOR_QUEUE: (ErrorCode.NOT_LEADER, NotTheLeader(None)),
    ResponseCode.TOPIC_NOT_EXIST: (ErrorCode.INVALID_REQUEST, NotTheLeader(None)),
    ResponseCode.MESSAGE_ILLEGAL: (ErrorCode.INVALID_REQUEST, None),
    ResponseCode.INVALID_PARAMETER: (ErrorCode.INVALID_REQUEST, None),
}
"""Codes of answers after which the message is certainly not stored."""


@attrs.frozen
class MessageStored:
    """A message was stored."""

    queue: int
    offset: int


@attrs.frozen
class Pulled:
    """Messages of a queue, each with its body; none if there is nothing at the offset."""

    offset: int
    records: Sequence[tuple[RecordHead, bytes]]


@attrs.frozen
class UnknownTopic:
    """A master does not know the topic, and may hold messages of it."""


class BrokerConnection(RemotingConnection):
    """The requests of operations on one topic."""

    topic: str = TOPIC
    group: str = PRODUCER
    """The name of who sends and who pulls."""
    masters_know_topics: ClassVar[bool] = True
    """True if a master that does not know the topic holds none of its messages."""

    async def send(self, queue: int, body: bytes) -> MessageStored:
        """Send one message to a queue.

        Raises `NoBrokerAnswer`, and `BrokerRefused` for all but SEND_OK: an answer of a message that is stored with
        less than its mode promises (10, 11, 12) is no acknowledgement, and its outcome is unknown.
        """
        header = SendMessageRequestHeader(
            producer_group=self.group,
            topic=self.topic,
            queue_id=queue,
            sys_flag=0,
            born_timestamp=time.time_ns() // 1_000_000,
            flag=0,
            properties="",
        )
        answer = await self.require(RequestCode.SEND_MESSAGE_V2, ext=header.ext_v2(), body=body)
        try:
            stored = SendMessageResponseHeader.read(answer.ext)
        except BadHeader as error:
            raise NoBrokerAnswer(str(error)) from error
        return MessageStored(stored.queue_id, stored.queue_offset)

    async def pull(self, queue: int, offset: int, messages_max: int) -> Pulled:
        """Returns a queue's messages from an offset on, without a wait. Raises `BrokerRefused` and `NoBrokerAnswer`."""
        header = PullMessageRequestHeader(
            consumer_group=self.group,
            topic=self.topic,
            queue_id=queue,
            queue_offset=offset,
            max_msg_nums=messages_max,
            sys_flag=4,
            subscription="*",
        )
        answer = await self.require(RequestCode.PULL_MESSAGE, header, also=NOTHING_THERE)
        if answer.code in NOTHING_THERE:
            return Pulled(offset, ())
        body = bytes(answer.body)
        return Pulled(offset, [(head, bytes(head.body(body[at : at + head.size]))) for at, head in read_heads(body)])

    async def pull_of_master(self, queue: int, offset: int) -> Pulled | UnknownTopic:
        """The same, of a master; nothing, if it does not know the topic and `masters_know_topics`.

        Raises `BrokerRefused`, also for a slave.
        """
        if await self.role() == SLAVE:
            raise BrokerRefused(ResponseCode.SERVICE_NOT_AVAILABLE, "a slave")
        try:
            return await self.pull(queue, offset, 1)
        except BrokerRefused as refused:
            if refused.code != ResponseCode.TOPIC_NOT_EXIST:
                raise
            return Pulled(offset, ()) if self.masters_know_topics else UnknownTopic()

    async def role(self) -> str:
        """Returns `brokerRole`. Raises `BrokerRefused` and `NoBrokerAnswer`."""
        try:
            return (await self.runtime_info())["brokerRole"]
        except (BadBody, KeyError) as error:
            raise NoBrokerAnswer(str(error)) from error

    async def end_of(self, queue: int) -> int:
        """Returns the end of a queue. Raises `BrokerRefused` and `NoBrokerAnswer`."""
        header = QueueRequestHeader(topic=self.topic, queue_id=queue)
        answer = await self.require(RequestCode.GET_MAX_OFFSET, header)
        try:
            return OffsetResponseHeader.read(answer.ext).offset
        except BadHeader as error:
            raise NoBrokerAnswer(str(error)) from error


class RocketClients:
    """Connections with the brokers of one group."""

    errors: tuple[type[Exception], ...] = (NoConnection, NoBrokerAnswer, BrokerRefused)
    connection: ClassVar[type[BrokerConnection]] = BrokerConnection

    def __init__(self, addresses: Mapping[int, Address], tls: Certificates | None = None) -> None:
        self.nodes = tuple(addresses)
        self._addresses = addresses
        self._tls = tls

    async def connect(self, node: int, *, within_s: float) -> BrokerConnection:
        """A new connection. Raises `NoConnection`."""
        return await self.connection.connect(self._addresses[node], within_s=within_s, access=BrokerAccess(self._tls))

    def ending_of(self, error: Exception, *, connection_lost: bool) -> Ending:
        """Returns the meaning of an operation's error."""
        match error:
            case NoConnection():
                return Ending(Outcome.FAIL, ErrorCode.CONNECTION_REFUSED)
            case BrokerRefused(code=code) if code in REFUSALS:
                return Ending(Outcome.FAIL, *REFUSALS[code])
            case NoBrokerAnswer() if connection_lost:
                return Ending(Outcome.INFO, ErrorCode.CONNECTION_LOST)
            case NoBrokerAnswer():
                return Ending(Outcome.INFO, ErrorCode.UNKNOWN_OUTCOME)
            case _:
                return Ending(Outcome.INFO, ErrorCode.OTHER)
