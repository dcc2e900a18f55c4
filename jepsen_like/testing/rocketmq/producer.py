"""A small producer on this project's own wire: outcomes are exact, and acknowledged messages are written down."""

import itertools
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Final, Protocol

import attrs
import trio

from jepsen_like.port.wires import Address
from jepsen_like.systems.rocketmq.connection import running_reactor
from raft.addresses import address_of
from raft.net.certificates import Certificates
from raft.net.reactor import Reactor
from rocketmq_compat.records import write_properties
from rocketmq_compat.remoting.bodies import WRITABLE, TopicRouteData
from rocketmq_compat.remoting.client import RemotingClient, RemotingFailed
from rocketmq_compat.remoting.codes import RequestCode, ResponseCode
from rocketmq_compat.remoting.errors import BadBody, BadHeader
from rocketmq_compat.remoting.frame import Command
from rocketmq_compat.remoting.headers.routes import GetRouteInfoRequestHeader
from rocketmq_compat.remoting.headers.sending import (
    AUTO_CREATE_TEMPLATE,
    SendMessageRequestHeader,
    SendMessageResponseHeader,
)
from rocketmq_compat.replication.acks import SendStatus

PRODUCER_GROUP: Final = "quorumlog-test"
QUEUES_OF_A_NEW_TOPIC: Final = 4
MASTER: Final = 0
ANSWERS_WITHIN_S: Final = 5.0
ATTEMPT_S_MIN: Final = 1.0
"""An answer is waited for so long, also past the deadline: else a late attempt would have no known outcome."""
AGAIN_AFTER_S: Final = 0.02
STORED: Final = frozenset(map(int, SendStatus))
"""Answers of a message that the master has stored, whatever its copies."""
COME_BACK: Final = frozenset(
    {
        ResponseCode.SYSTEM_BUSY,
        ResponseCode.FLOW_CONTROL,
        ResponseCode.SERVICE_NOT_AVAILABLE,
        ResponseCode.NO_PERMISSION,
        ResponseCode.TOPIC_NOT_EXIST,
    }
)
"""Answers after which the message is certainly not stored, and may be later or by another broker."""


@attrs.define
class SendFailed(Exception):
    """There is no acknowledgement. If it is `definite`, the message is certainly not stored; otherwise it may be."""

    reason: str
    definite: bool

    def __str__(self) -> str:
        return f"{self.reason}; the message {'is not' if self.definite else 'may be'} stored"


@attrs.frozen
class SentMessage:
    """A message that a master has stored, with the promise that `status` stands for."""

    status: SendStatus
    topic: str
    broker_name: str
    queue_id: int
    queue_offset: int
    message_id: str


class OnAcknowledged(Protocol):
    """Takes an acknowledged message: see `cluster.BreakableRocketMq.note_acknowledged`."""

    def __call__(
        self,
        topic: str,
        queue_id: int,
        queue_offset: int,
        body: bytes,
        *,
        broker_name: str,
        status: int,
        address: str,
        since: int,
    ) -> None:
        """From the producer's loop."""


@attrs.frozen
class _Target:
    broker_name: str
    address: str
    queue_id: int


class RocketMqProducer:
    """Finds masters by a name server, and sends one message after another to their queues. Made by `open`."""

    def __init__(
        self,
        reactor: Reactor,
        name_server: Address,
        acknowledged: OnAcknowledged,
        now: Callable[[], int],
        tls: Certificates | None = None,
    ) -> None:
        """Use `open`."""
        self._reactor = reactor
        self._tls = tls
        self._names = RemotingClient(reactor, name_server, tls=tls)
        self._brokers: dict[str, RemotingClient] = {}
        self._acknowledged = acknowledged
        self._now = now
        self._turns = itertools.count()

    @classmethod
    @asynccontextmanager
    async def open(
        cls, namesrv_addr: str, acknowledged: OnAcknowledged, now: Callable[[], int], tls: Certificates | None = None
    ) -> AsyncIterator["RocketMqProducer"]:
        """`acknowledged` is called for each message that is; `now` before each is sent, for its `since`."""
        async with running_reactor() as reactor:
            producer = cls(reactor, address_of(namesrv_addr), acknowledged, now, tls)
            try:
                yield producer
            finally:
                for client in (producer._names, *producer._brokers.values()):
                    client.close()

    async def send(
        self,
        topic: str,
        body: bytes,
        *,
        broker_name: str | None = None,
        queue_id: int | None = None,
        tag: str = "",
        keys: str = "",
        within_s: float = 10.0,
    ) -> SentMessage:
        """Send one message, to this broker and queue if they are given.

        It is sent again for as long as it is certainly not stored, and no attempt but the first begins later than
        `within_s`. Raises `SendFailed`.
        """
        deadline = trio.current_time() + within_s
        while True:
            try:
                target = await self._target(topic, broker_name, queue_id)
                sent = await self._send(target, topic, body, _properties(tag, keys), deadline)
                if isinstance(sent, SentMessage):
                    return sent
                reason = sent
            except RemotingFailed as error:
                if not error.definite:
                    raise SendFailed(error.reason, definite=False) from error
                reason = error.reason
            if trio.current_time() + AGAIN_AFTER_S > deadline:
                raise SendFailed(reason, definite=True)
            await trio.sleep(AGAIN_AFTER_S)

    async def _target(self, topic: str, broker_name: str | None, queue_id: int | None) -> _Target:
        """Returns the target of the next message. Raises `RemotingFailed`, always definite: nothing was sent."""
        route, is_new = await self._route(topic), False
        if route is None or broker_name not in (None, *(data.broker_name for data in route.queue_datas)):
            route, is_new = await self._route(AUTO_CREATE_TEMPLATE), True
        if route is None:
            raise RemotingFailed(f"no broker has the topic {topic}", definite=True)
        masters = {
            data.broker_name: data.broker_addrs[MASTER] for data in route.broker_datas if MASTER in data.broker_addrs
        }
        targets = [
            _Target(data.broker_name, masters[data.broker_name], each)
            for data in route.queue_datas
            if data.broker_name in masters and data.perm & WRITABLE and broker_name in (None, data.broker_name)
            for each in range(min(data.write_queue_nums, QUEUES_OF_A_NEW_TOPIC) if is_new else data.write_queue_nums)
            if queue_id in (None, each)
        ]
        if not targets:
            raise RemotingFailed(f"no master has such a queue of the topic {topic}", definite=True)
        return targets[next(self._turns) % len(targets)]

    async def _route(self, topic: str) -> TopicRouteData | None:
        request = Command(RequestCode.GET_ROUTEINFO_BY_TOPIC, ext=GetRouteInfoRequestHeader(topic=topic).ext())
        try:
            answer = await self._names.ask(request, timeout_s=ANSWERS_WITHIN_S)
            return TopicRouteData.decode(answer.body) if answer.code == ResponseCode.SUCCESS else None
        except (RemotingFailed, BadBody) as error:
            raise RemotingFailed(f"the name server: {error}", definite=True) from None

    async def _send(
        self, target: _Target, topic: str, body: bytes, properties: str, deadline: float
    ) -> SentMessage | str:
        """Returns the message, or why it is certainly not stored. Raises `RemotingFailed` and `SendFailed`."""
        header = SendMessageRequestHeader(
            producer_group=PRODUCER_GROUP,
            topic=topic,
            default_topic_queue_nums=QUEUES_OF_A_NEW_TOPIC,
            queue_id=target.queue_id,
            sys_flag=0,
            born_timestamp=time.time_ns() // 1_000_000,
            flag=0,
            properties=properties,
        )
        request = Command(RequestCode.SEND_MESSAGE_V2, ext=header.ext_v2(), body=body)
        since = self._now()
        timeout_s = min(ANSWERS_WITHIN_S, max(ATTEMPT_S_MIN, deadline - trio.current_time()))
        answer = await self._client(target.address).ask(request, timeout_s=timeout_s)
        if answer.code in COME_BACK:
            return answer.remark or f"code {answer.code}"
        if answer.code not in STORED:
            raise SendFailed(answer.remark or f"code {answer.code}", definite=False)
        try:
            stored = SendMessageResponseHeader.read(answer.ext)
        except BadHeader as error:
            raise SendFailed(str(error), definite=False) from error
        status = SendStatus(answer.code)
        name, queue_id, offset = target.broker_name, stored.queue_id, stored.queue_offset
        self._acknowledged(
            topic, queue_id, offset, body, broker_name=name, status=status, address=target.address, since=since
        )
        return SentMessage(status, topic, name, queue_id, offset, stored.msg_id)

    def _client(self, address: str) -> RemotingClient:
        if address not in self._brokers:
            self._brokers[address] = RemotingClient(self._reactor, address_of(address), tls=self._tls)
        return self._brokers[address]


def _properties(tag: str, keys: str) -> str:
    return write_properties({name: text for name, text in (("TAGS", tag), ("KEYS", keys)) if text})
