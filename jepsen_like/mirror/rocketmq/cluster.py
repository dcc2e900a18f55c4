"""One RocketMQ cluster as the mirror uses it: masters by name, queues read and written, claims, and groups' offsets."""

import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import attrs
import trio

from jepsen_like.mirror.ends import LinkBroken
from jepsen_like.mirror.plan import LinkEnd
from jepsen_like.mirror.rocketmq.origin import CLAIMS_TOPIC, LinkClaim, decode_claim, encode_claim, settle_claims
from jepsen_like.port.wires import Address
from jepsen_like.systems.rocketmq.connection import BrokerRefused, NoBrokerAnswer, NoConnection, RemotingConnection
from raft.addresses import address_of
from rocketmq_compat.consumers.topic_names import is_system_topic, reply_topic
from rocketmq_compat.records import InnerMessage, RecordHead, join_messages, read_heads, read_properties
from rocketmq_compat.remoting.bodies import (
    ClusterInfo,
    ConsumeStats,
    GetConsumerListByGroupResponseBody,
    GroupList,
    TopicConfig,
    TopicList,
    TopicRouteData,
)
from rocketmq_compat.remoting.codes import RequestCode, ResponseCode
from rocketmq_compat.remoting.errors import BadBody, BadHeader
from rocketmq_compat.remoting.frame import Command
from rocketmq_compat.remoting.headers.clients import ConsumerGroupRequestHeader
from rocketmq_compat.remoting.headers.fields import ExtHeader
from rocketmq_compat.remoting.headers.offsets import (
    OffsetResponseHeader,
    QueueRequestHeader,
    UpdateConsumerOffsetRequestHeader,
)
from rocketmq_compat.remoting.headers.pulling import HAS_SUBSCRIPTION, PullMessageRequestHeader
from rocketmq_compat.remoting.headers.routes import GetRouteInfoRequestHeader
from rocketmq_compat.remoting.headers.sending import SendMessageRequestHeader
from rocketmq_compat.remoting.headers.topics import (
    CreateTopicRequestHeader,
    GetConsumeStatsRequestHeader,
    TopicRequestHeader,
)

ANSWERS_WITHIN_S: Final = 3.0
GROUP: Final = "quorumlog-mirror"
PULLED_MAX: Final = 32
MASTER_ID: Final = 0
STORED: Final = {
    ResponseCode.SUCCESS,
    ResponseCode.FLUSH_DISK_TIMEOUT,
    ResponseCode.FLUSH_SLAVE_TIMEOUT,
    ResponseCode.SLAVE_NOT_AVAILABLE,
}
NOTHING_THERE: Final = {
    ResponseCode.PULL_NOT_FOUND,
    ResponseCode.PULL_OFFSET_MOVED,
    ResponseCode.PULL_RETRY_IMMEDIATELY,
}
FAILURES: Final = (NoConnection, NoBrokerAnswer, BrokerRefused, BadBody, BadHeader)


@attrs.frozen
class QueuePlace:
    """A queue: its topic, the number of its broker among the sorted names, and its id there."""

    topic: str
    broker: int
    queue: int

    def __str__(self) -> str:
        return f"{self.topic}/{self.broker}/{self.queue}"


@attrs.frozen
class PulledMessage:
    """A message of a queue."""

    head: RecordHead
    body: bytes
    properties: Mapping[str, str]

    @property
    def offset(self) -> int:
        """Its offset in the queue."""
        return self.head.queue_offset


class MirroredCluster:
    """One cluster. Every method raises `LinkBroken` if a process does not answer, or refuses."""

    def __init__(self, end: LinkEnd) -> None:
        """`end` has the addresses of name servers."""
        self._end = end
        self.names: tuple[str, ...] = ()
        """The sorted names of the brokers."""
        self._masters: tuple[Address | None, ...] = ()
        self._own_topics: tuple[str, ...] = ()
        self._claims: list[bytes] = []
        self._connections: dict[Address, RemotingConnection] = {}
        self._turns: dict[Address, trio.Lock] = {}

    async def __aenter__(self) -> "MirroredCluster":
        return self

    async def __aexit__(self, *_: object) -> None:
        for connection in self._connections.values():
            connection.close()

    async def refresh(self) -> None:
        """Learn the masters from a name server. A broker that was there, and is away, is waited for."""
        info = ClusterInfo.decode((await self._ask_names(RequestCode.GET_BROKER_CLUSTER_INFO)).body)
        clusters = tuple(info.cluster_addr_table)
        self._own_topics = (*clusters, *(reply_topic(cluster) for cluster in clusters))
        missing = set(self.names) - info.broker_addr_table.keys()
        if missing:
            raise LinkBroken(f"{min(missing)} is not registered")
        self.names = tuple(sorted(info.broker_addr_table))
        masters = (info.broker_addr_table[name].broker_addrs.get(MASTER_ID) for name in self.names)
        self._masters = tuple(None if master is None else address_of(master) for master in masters)

    async def topics(self) -> dict[str, dict[int, TopicConfig]]:
        """Returns the topics of clients, with their form at each broker that has them, as a name server knows it."""
        found: dict[str, dict[int, TopicConfig]] = {}
        listed = TopicList.decode((await self._ask_names(RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER)).body)
        for name in sorted(listed.topic_list):
            if name in (CLAIMS_TOPIC, *self.names, *self._own_topics) or name.startswith("%") or is_system_topic(name):
                continue
            answer = await self._ask_names(
                RequestCode.GET_ROUTEINFO_BY_TOPIC,
                GetRouteInfoRequestHeader(topic=name),
                also=(ResponseCode.TOPIC_NOT_EXIST,),
            )
            if answer.code == ResponseCode.SUCCESS:
                for each in TopicRouteData.decode(answer.body).queue_datas:
                    if each.broker_name in self.names:
                        found.setdefault(name, {})[self.names.index(each.broker_name)] = TopicConfig(
                            topic_name=name,
                            read_queue_nums=each.read_queue_nums,
                            write_queue_nums=each.write_queue_nums,
                            perm=each.perm,
                        )
        return found

    async def make_topic(self, broker: int, config: TopicConfig) -> None:
        """Make a topic at a broker, or give it these settings."""
        header = CreateTopicRequestHeader(
            topic=config.topic_name,
            default_topic="TBW102",
            read_queue_nums=config.read_queue_nums,
            write_queue_nums=config.write_queue_nums,
            perm=config.perm,
        )
        await self._require(broker, RequestCode.UPDATE_AND_CREATE_TOPIC, header)

    # ---------------------------------------------------------------- queues

    async def bounds(self, at: QueuePlace) -> tuple[int, int]:
        """Returns the first offset of a queue and its end."""
        header = QueueRequestHeader(topic=at.topic, queue_id=at.queue)
        found = [
            OffsetResponseHeader.read((await self._require(at.broker, code, header)).ext).offset
            for code in (RequestCode.GET_MIN_OFFSET, RequestCode.GET_MAX_OFFSET)
        ]
        return max(0, found[0]), max(0, found[1])

    async def pull(self, at: QueuePlace, offset: int) -> list[PulledMessage]:
        """Returns messages from an offset on, without a wait."""
        header = PullMessageRequestHeader(
            consumer_group=GROUP,
            topic=at.topic,
            queue_id=at.queue,
            queue_offset=offset,
            max_msg_nums=PULLED_MAX,
            sys_flag=HAS_SUBSCRIPTION,
            subscription="*",
        )
        answer = await self._require(at.broker, RequestCode.PULL_MESSAGE, header, also=NOTHING_THERE)
        if answer.code in NOTHING_THERE:
            return []
        body = bytes(answer.body)
        return [
            PulledMessage(head, bytes(head.body(body[start : start + head.size])), read_properties(head.properties))
            for start, head in read_heads(body)
        ]

    async def read(self, at: QueuePlace, since: int = 0) -> list[PulledMessage]:
        """Returns all messages of a queue from an offset on, up to its end as it is now."""
        start, end = await self.bounds(at)
        offset, found = max(start, since), list[PulledMessage]()
        while offset < end:
            pulled = await self.pull(at, offset)
            if not pulled:
                raise LinkBroken(f"{at} goes up to {end}, and {offset} is not shown")
            found += pulled
            offset = pulled[-1].offset + 1
        return found

    async def send(self, at: QueuePlace, messages: Sequence[InnerMessage], sys_flag: int, born_ms: int) -> None:
        """Append messages to a queue, together. After `LinkBroken` they may be there."""
        header = SendMessageRequestHeader(
            producer_group=GROUP,
            topic=at.topic,
            queue_id=at.queue,
            sys_flag=sys_flag,
            born_timestamp=born_ms,
            flag=0,
            properties="",
            batch=True,
        )
        body = join_messages(messages)
        await self._require(at.broker, RequestCode.SEND_BATCH_MESSAGE, also=STORED, ext=header.ext_v2(), body=body)

    # ---------------------------------------------------------------- claims

    async def prepare_claims(self) -> None:
        """Make the topic of claims, if it is missing."""
        await self.make_topic(0, TopicConfig(topic_name=CLAIMS_TOPIC, read_queue_nums=1, write_queue_nums=1))

    async def read_claims(self, link: str) -> LinkClaim | None:
        """Returns the claim that holds a link; None if there is none."""
        place = QueuePlace(CLAIMS_TOPIC, 0, 0)
        try:
            while pulled := await self.pull(place, len(self._claims)):
                self._claims += [message.body for message in pulled]
        except LinkBroken as error:
            if not isinstance(error.__cause__, BrokerRefused) or error.__cause__.code != ResponseCode.TOPIC_NOT_EXIST:
                raise
        claims = (decode_claim(body, link) for body in self._claims)
        return settle_claims(claim for claim in claims if claim is not None)

    async def write_claim(self, link: str, claim: LinkClaim) -> None:
        """Append a claim. Only `read_claims` tells whether it holds."""
        message = InnerMessage(0, encode_claim(link, claim), "")
        await self.send(QueuePlace(CLAIMS_TOPIC, 0, 0), [message], 0, time.time_ns() // 1_000_000)

    # ---------------------------------------------------------------- groups

    async def group_offsets(self, topics: Iterable[str]) -> dict[str, dict[QueuePlace, int]]:
        """Returns the committed offsets of all groups that consume these topics."""
        found: dict[str, dict[QueuePlace, int]] = {}
        for broker in range(len(self.names)):
            for group in await self._groups_at(broker, topics):
                header = GetConsumeStatsRequestHeader(consumer_group=group)
                stats = ConsumeStats.decode((await self._require(broker, RequestCode.GET_CONSUME_STATS, header)).body)
                for queue, offsets in stats.offset_table.items():
                    place = QueuePlace(queue.topic, broker, queue.queue_id)
                    found.setdefault(group, {})[place] = offsets.consumer_offset
        return found

    async def _groups_at(self, broker: int, topics: Iterable[str]) -> set[str]:
        found: set[str] = set()
        for topic in topics:
            header = TopicRequestHeader(topic=topic)
            answer = await self._require(broker, RequestCode.QUERY_TOPIC_CONSUME_BY_WHO, header)
            found.update(GroupList.decode(answer.body).group_list)
        return found - {GROUP}

    async def has_members(self, group: str) -> bool:
        """Returns True if a client of the group is connected."""
        header = ConsumerGroupRequestHeader(consumer_group=group)
        for broker in range(len(self.names)):
            answer = await self._require(
                broker, RequestCode.GET_CONSUMER_LIST_BY_GROUP, header, also={ResponseCode.SYSTEM_ERROR}
            )
            if (
                answer.code == ResponseCode.SUCCESS
                and GetConsumerListByGroupResponseBody.decode(answer.body).consumer_id_list
            ):
                return True
        return False

    async def commit(self, group: str, at: QueuePlace, offset: int) -> None:
        """Commit an offset of a group."""
        header = UpdateConsumerOffsetRequestHeader(
            consumer_group=group, topic=at.topic, queue_id=at.queue, commit_offset=offset
        )
        await self._require(at.broker, RequestCode.UPDATE_CONSUMER_OFFSET, header)

    # ---------------------------------------------------------------- asking

    async def _require(
        self, broker: int, code: RequestCode, header: ExtHeader | None = None, *, also: Iterable[int] = (), **parts: Any
    ) -> Command:
        master = self._masters[broker] if broker < len(self._masters) else None
        if master is None:
            raise LinkBroken(f"{self.names[broker] if broker < len(self.names) else broker} has no master")
        return await self._ask(master, code, header, also=tuple(also), **parts)

    async def _ask_names(self, code: RequestCode, header: ExtHeader | None = None, **parts: Any) -> Command:
        """Ask a name server, the next one where one does not answer."""
        failure = LinkBroken("there is no name server")
        for address in self._end.addresses:
            try:
                return await self._ask(address, code, header, **parts)
            except LinkBroken as error:
                failure = error
        raise failure

    async def _ask(self, address: Address, code: RequestCode, header: ExtHeader | None = None, **parts: Any) -> Command:
        async with self._turns.setdefault(address, trio.Lock()):
            try:
                connection = self._connections.get(address)
                if connection is None or not connection.is_open:
                    connection = await RemotingConnection.connect(
                        address, within_s=ANSWERS_WITHIN_S, access=self._end.access
                    )
                    self._connections[address] = connection
                with trio.fail_after(ANSWERS_WITHIN_S):
                    return await connection.require(code, header, **parts)
            except trio.TooSlowError:
                raise LinkBroken(f"{address[0]}:{address[1]}: no answer to {code.name}") from None
            except FAILURES as error:
                raise LinkBroken(f"{address[0]}:{address[1]}: {code.name}: {error}") from error
