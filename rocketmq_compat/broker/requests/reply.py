"""Replies of requests (324, 325): pushed to the client that asked (326), and stored (`ReplyMessageProcessor`).

A reply is accepted when it was sent to a connected client, unless that client refuses it or leaves at once. A client
that does not answer in time does no harm. RocketMQ lets the replying client wait ten seconds then, and fail.
"""

from collections.abc import Callable
from functools import partial
from typing import Final

import attrs

from raft.net.handlers import serves
from rocketmq_compat.broker.context import Context
from rocketmq_compat.broker.puts import MessagePort, PutOutcome, StoredMessages
from rocketmq_compat.broker.requests.send import born_host, queue_of
from rocketmq_compat.broker.stamps import MessageStamps
from rocketmq_compat.consumers.model import RequestRefused
from rocketmq_compat.records import encode_record, message_id, read_properties, write_properties
from rocketmq_compat.remoting.bodies import WRITABLE, TopicConfig
from rocketmq_compat.remoting.codes import RequestCode, ResponseCode
from rocketmq_compat.remoting.frame import Command
from rocketmq_compat.remoting.headers.sending import (
    ReplyMessageRequestHeader,
    SendMessageRequestHeader,
    SendMessageResponseHeader,
)
from rocketmq_compat.remoting.session import RemotingCall, RemotingSession

REPLY_TO: Final = "REPLY_TO_CLIENT"
PUSHED_AT: Final = "PUSH_REPLY_TIME"
ANSWER_S: Final = 1.0
"""The time that a client has to answer a push."""

FindClient = Callable[[str], RemotingSession | None]


@attrs.define(eq=False)
class _Push:
    """A reply that was sent to the client that asked; answered once the client has answered and it is stored."""

    call: RemotingCall
    session: RemotingSession
    client_id: str
    queue_id: int
    deadline: float
    forget: Callable[[], None] = lambda: None
    is_stored: bool = False
    stored: StoredMessages | None = None
    is_settled: bool = False
    failed: bool = False


class ReplyRequests:
    """Pushes replies to the clients that wait for them."""

    def __init__(self, context: Context, replicated: MessagePort, find_client: FindClient) -> None:
        """`find_client` gives the session by which the producers of a client id came."""
        self._context = context
        self._replicated = replicated
        self._find_client = find_client
        self._stamps = MessageStamps(context)
        self._pushes: dict[_Push, None] = {}
        """Those whose clients have not answered, the first that is due first."""

    @property
    def deadline(self) -> float:
        """The time at which `tick` is due."""
        return next((push.deadline for push in self._pushes), float("inf"))

    def tick(self, now: float) -> None:
        """Clients that have not answered in time were sent the reply nevertheless."""
        for push in [push for push in self._pushes if push.deadline <= now]:
            push.forget()
            self._settle(push)

    def connection_closed(self, session: RemotingSession) -> None:
        """Settle the pushes to a client that can no longer answer."""
        for push in [push for push in self._pushes if push.session is session]:
            push.failed = True
            self._settle(push)

    @serves(RequestCode.SEND_REPLY_MESSAGE)
    def _reply_v1(self, call: RemotingCall) -> None:
        self._reply(call, SendMessageRequestHeader.read(call.request.ext))

    @serves(RequestCode.SEND_REPLY_MESSAGE_V2)
    def _reply_v2(self, call: RemotingCall) -> None:
        self._reply(call, SendMessageRequestHeader.read_v2(call.request.ext))

    def _reply(self, call: RemotingCall, header: SendMessageRequestHeader) -> None:
        context = self._context
        context.require_master()
        context.require_perm(WRITABLE, "sending message")
        topic = context.topics.for_send(
            context.wall_ms(),
            header.topic,
            default_topic=header.default_topic,
            default_queues=header.default_topic_queue_nums,
        )
        queue_id = queue_of(context, header, topic)
        properties = read_properties(header.properties or "")
        client_id = properties.get(REPLY_TO)
        if client_id is None:
            raise RequestRefused(ResponseCode.SYSTEM_ERROR, f"reply message properties[{REPLY_TO}] is null")
        session = self._find_client(client_id)
        if session is None:
            raise RequestRefused(
                ResponseCode.SYSTEM_ERROR, f"push reply message fail, channel of <{client_id[:255]}> not found."
            )
        properties[PUSHED_AT] = str(context.wall_ms())
        push = _Push(call, session, client_id, queue_id, context.clock() + ANSWER_S)
        text = write_properties({**properties, **self._stamps.values()})
        record = self._record(call, header, topic, queue_id, text)
        forget = session.ask(
            self._build_push(call, header, queue_id, write_properties(properties)), partial(self._on_answer, push)
        )
        if forget is None:
            raise self._not_pushed(client_id)
        push.forget = forget
        self._pushes[push] = None
        if context.properties.flag("storeReplyMessageEnable"):
            self._replicated.put([record], partial(self._on_stored, push))
        else:
            self._on_stored(push, None)

    def _build_push(
        self, call: RemotingCall, header: SendMessageRequestHeader, queue_id: int, properties: str
    ) -> Command:
        context = self._context
        pushed = ReplyMessageRequestHeader(
            producer_group=header.producer_group,
            topic=header.topic,
            default_topic=header.default_topic,
            default_topic_queue_nums=header.default_topic_queue_nums,
            queue_id=queue_id,
            sys_flag=header.sys_flag,
            born_timestamp=header.born_timestamp,
            flag=header.flag,
            properties=properties,
            reconsume_times=header.reconsume_times,
            unit_mode=header.unit_mode,
            born_host=call.connection.name,
            store_host=context.address,
            store_timestamp=context.wall_ms(),
        )
        return Command(RequestCode.PUSH_REPLY_MESSAGE_TO_CLIENT, ext=pushed.ext(), body=call.request.body)

    def _record(
        self, call: RemotingCall, header: SendMessageRequestHeader, topic: TopicConfig, queue_id: int, properties: str
    ) -> bytes:
        context = self._context
        return encode_record(
            topic=topic.topic_name,
            body=call.request.body,
            properties=properties,
            queue_id=queue_id,
            born_ms=header.born_timestamp,
            born_host=born_host(call),
            store_ms=context.wall_ms(),
            store_host=context.store_host,
            flag=header.flag,
            sys_flag=header.sys_flag,
            reconsume_times=header.reconsume_times,
            body_bytes_max=context.properties.number("maxMessageSize"),
        )

    def _on_answer(self, push: _Push, answer: Command) -> None:
        push.failed = answer.code != ResponseCode.SUCCESS
        self._settle(push)

    def _settle(self, push: _Push) -> None:
        del self._pushes[push]
        push.is_settled = True
        self._answer(push)

    def _on_stored(self, push: _Push, outcome: PutOutcome | None) -> None:
        """Answer a reply whose store has ended. A reply that could not be stored was pushed all the same."""
        push.is_stored = True
        push.stored = outcome if isinstance(outcome, StoredMessages) else None
        self._answer(push)

    def _answer(self, push: _Push) -> None:
        if not (push.is_settled and push.is_stored):
            return
        if push.failed:
            refusal = self._not_pushed(push.client_id)
            push.call.refuse(refusal.code, refusal.remark)
            return
        stored, host = push.stored, self._context.store_host
        header = SendMessageResponseHeader(
            msg_id="0" if stored is None else message_id(host, stored.physical_offsets[0]),
            queue_id=push.queue_id,
            queue_offset=0 if stored is None else stored.queue_offsets[0],
            **self._stamps.of_answers(),
        )
        push.call.answer(header=header)

    @staticmethod
    def _not_pushed(client_id: str) -> RequestRefused:
        return RequestRefused(ResponseCode.SYSTEM_ERROR, f"push reply message to {client_id[:255]} fail.")
