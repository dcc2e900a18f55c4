"""The copies on the brokers of a test's cluster, and the state of brokers and name server, asked past the faults."""

from collections.abc import Awaitable, Callable, Collection, Mapping
from typing import Final, TypeVar

import attrs
import trio

from jepsen_like.port.wires import Address
from jepsen_like.systems.rocketmq.connection import BrokerRefused, NoBrokerAnswer, NoConnection, RemotingConnection
from jepsen_like.testing.rocketmq.ledger import HeldMessage, QueueCopy, QueueName
from raft.trust import ANY, Credentials, Untrusted
from rocketmq_compat.config_keys import SLAVE
from rocketmq_compat.consumers.topic_names import is_system_topic
from rocketmq_compat.membership import REMOTING
from rocketmq_compat.records import MalformedRecord, RecordHead, read_head, read_heads
from rocketmq_compat.remoting.bodies import ClusterInfo, TopicConfigSerializeWrapper
from rocketmq_compat.remoting.codes import RequestCode
from rocketmq_compat.remoting.errors import BadBody, BadHeader
from rocketmq_compat.remoting.headers.offsets import OffsetResponseHeader, QueueRequestHeader
from rocketmq_compat.remoting.headers.pulling import (
    HAS_SUBSCRIPTION,
    PullMessageRequestHeader,
    ViewMessageRequestHeader,
)

ANSWERS_WITHIN_S: Final = 1.0
READS_WITHIN_S: Final = 30.0
GROUP: Final = "quorumlog-check"
MESSAGES_OF_A_PULL: Final = 32

T = TypeVar("T")


@attrs.frozen
class CopyStatus:
    """A broker's word about itself. Positions are physical offsets, ends are exclusive."""

    is_master: bool
    log_start: int
    log_end: int
    dispatched: int
    slaves: frozenset[int]
    """Of a master: the broker ids of the slaves that it has taken."""
    diverged: frozenset[int]
    """Of a master: those whose logs leave its own."""
    doubt: str
    """Why the copy may lack something, and whom it waits for; a master takes no messages meanwhile."""

    @classmethod
    def of(cls, table: Mapping[str, str]) -> "CopyStatus":
        """From the answer to GET_BROKER_RUNTIME_INFO. Raises `KeyError` or `ValueError` if it is not one."""
        return cls(
            table["brokerRole"] != SLAVE,
            int(table["commitLogMinOffset"]),
            int(table["commitLogMaxOffset"]),
            int(table["dispatchedOffset"]),
            _ids(table.get("slaves", "")),
            _ids(table.get("divergedSlaves", "")),
            table.get("doubt", ""),
        )


def _ids(text: str) -> frozenset[int]:
    return frozenset(int(each) for each in text.split(",") if each)


async def ask_alone(address: Address, ask: Callable[[RemotingConnection], Awaitable[T]], *, within_s: float) -> T:
    """Returns what is asked on a connection of its own. Raises `NoBrokerAnswer`, whatever is the reason."""
    try:
        with trio.move_on_after(within_s):
            async with RemotingConnection.open(address, within_s=within_s) as connection:
                return await ask(connection)
    except (NoConnection, BrokerRefused, Untrusted, BadBody, BadHeader, MalformedRecord, KeyError, ValueError) as error:
        raise NoBrokerAnswer(str(error)) from error
    raise NoBrokerAnswer(f"no answer within {within_s:g} s")


async def status_of(address: Address) -> CopyStatus:
    """Returns what a broker is now. Raises `NoBrokerAnswer`."""

    async def ask(connection: RemotingConnection) -> CopyStatus:
        return CopyStatus.of(await connection.runtime_info())

    return await ask_alone(address, ask, within_s=ANSWERS_WITHIN_S)


async def registered_at(address: Address) -> dict[tuple[str, int], str]:
    """Returns the brokers that a name server knows: HOST:PORT by name and id. Raises `NoBrokerAnswer`."""

    async def ask(connection: RemotingConnection) -> dict[tuple[str, int], str]:
        known = ClusterInfo.decode((await connection.require(RequestCode.GET_BROKER_CLUSTER_INFO)).body)
        return {
            (name, broker_id): told
            for name, data in known.broker_addr_table.items()
            for broker_id, told in data.broker_addrs.items()
        }

    return await ask_alone(address, ask, within_s=ANSWERS_WITHIN_S)


async def queues_of(
    address: Address, also: Collection[QueueName], status: CopyStatus, operator: Credentials
) -> dict[QueueName, QueueCopy]:
    """Returns a broker's queues with all that is in them: its topics', and these. Raises `NoBrokerAnswer`."""

    async def ask(connection: RemotingConnection) -> dict[QueueName, QueueCopy]:
        await connection.prove(operator.dial(REMOTING, ANY))
        answer = await connection.require(RequestCode.GET_ALL_TOPIC_CONFIG)
        topics = TopicConfigSerializeWrapper.decode(answer.body).topic_config_table
        known = {
            (name, queue)
            for name, topic in topics.items()
            if not is_system_topic(name)
            for queue in range(topic.read_queue_nums)
        }
        found = {queue: await _pull(connection, queue) for queue in sorted(known)}
        unknown = set(also) - known
        if unknown:
            found |= await _walk(connection, unknown, status)
        return found

    return await ask_alone(address, ask, within_s=READS_WITHIN_S)


async def _pull(connection: RemotingConnection, queue: QueueName) -> QueueCopy:
    """A queue as consumers get it."""
    ends = [
        OffsetResponseHeader.read(
            (await connection.require(code, QueueRequestHeader(topic=queue[0], queue_id=queue[1]))).ext
        ).offset
        for code in (RequestCode.GET_MIN_OFFSET, RequestCode.GET_MAX_OFFSET)
    ]
    offset, end = ends
    copy = QueueCopy(offset)
    while offset < end:
        header = PullMessageRequestHeader(
            consumer_group=GROUP,
            topic=queue[0],
            queue_id=queue[1],
            queue_offset=offset,
            max_msg_nums=MESSAGES_OF_A_PULL,
            sys_flag=HAS_SUBSCRIPTION,
            subscription="*",
        )
        body = bytes((await connection.require(RequestCode.PULL_MESSAGE, header)).body)
        before = offset
        for at, head in read_heads(body):
            copy.messages[head.queue_offset] = _hold(head, body[at : at + head.size])
            offset = max(offset, head.queue_offset + 1)
        if offset == before:
            raise NoBrokerAnswer(f"{queue[0]}-{queue[1]} goes up to {end}, and {offset} is not shown")
    return copy


async def _walk(
    connection: RemotingConnection, queues: Collection[QueueName], status: CopyStatus
) -> dict[QueueName, QueueCopy]:
    """The same of queues whose topic the broker does not know, by message: a slave knows only its master's topics."""
    found = {queue: QueueCopy() for queue in queues}
    at = status.log_start
    while at < status.log_end:
        record = bytes(
            (await connection.require(RequestCode.VIEW_MESSAGE_BY_ID, ViewMessageRequestHeader(offset=at))).body
        )
        head = read_head(record)
        queue = head.topic, head.queue_id
        if queue in found:
            found[queue].messages[head.queue_offset] = _hold(head, record)
        at += head.size
    for copy in found.values():
        copy.start = min(copy.messages, default=0)
    return found


def _hold(head: RecordHead, record: bytes) -> HeldMessage:
    return HeldMessage(record, bytes(head.body(record)))
