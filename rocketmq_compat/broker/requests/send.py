"""Messages of producers (10, 310, 320), and messages that consumers send back (36).

A client that learns that its message is stored finds the topic at the name servers: the answer to the first message of
a topic waits for them.
"""

import re
from collections.abc import Mapping
from typing import Final

from raft.net.handlers import serves
from rocketmq_compat.broker.context import Context
from rocketmq_compat.broker.puts import MessagePort, PutOutcome, StoredMessages
from rocketmq_compat.broker.stamps import STAMPS, MessageStamps
from rocketmq_compat.consumers.model import RETRY_PREFIX, RequestRefused, dead_letter_topic
from rocketmq_compat.consumers.retry import (
    DEAD_LETTER_QUEUES,
    DELAY_LEVEL,
    WAIT_STORED,
    ReturnedMessage,
    is_exhausted,
    send_back,
)
from rocketmq_compat.consumers.timers import TIMER_PREFIX
from rocketmq_compat.record_layout import TRANSACTION_MASK
from rocketmq_compat.records import (
    encode_host,
    encode_record,
    inner_messages,
    message_id,
    read_head,
    read_properties,
    write_properties,
)
from rocketmq_compat.remoting.bodies import WRITABLE, TopicConfig
from rocketmq_compat.remoting.codes import RequestCode, ResponseCode
from rocketmq_compat.remoting.headers.sending import (
    ConsumerSendMsgBackRequestHeader,
    SendMessageRequestHeader,
    SendMessageResponseHeader,
)
from rocketmq_compat.remoting.session import RemotingCall

TRANSACTION_PREPARED: Final = "TRAN_MSG"
_DELAYS: Final = f"{DELAY_LEVEL}\1"
_PREPARED: Final = f"{TRANSACTION_PREPARED}\1"
_WAITS: Final = f"{WAIT_STORED}\1"
_WAITS_INDEED: Final = f"{WAIT_STORED}\1true"
_REGION_STAMP, _TRACE_STAMP, _CLUSTER_STAMP = (f"{name}\1" for name in STAMPS)
_AT_A_TIME: Final = re.compile(rf"(?:^|\x02)(?:{DELAY_LEVEL}|{TIMER_PREFIX}[A-Z_]+|{TRANSACTION_PREPARED})\x01")
"""Matches properties that a message of a batch must not have: the whole batch goes to one queue, at once."""
_UNIQUE_ID: Final = "UNIQ_KEY\1"


class SendRequests:
    """Stores the messages of clients. Each is answered when the decider has its outcome."""

    def __init__(self, context: Context, replicated: MessagePort) -> None:
        self._context = context
        self._replicated = replicated
        self._stamps = MessageStamps(context)

    @serves(RequestCode.SEND_MESSAGE)
    def _send_v1(self, call: RemotingCall) -> None:
        self._send(call, SendMessageRequestHeader.read(call.request.ext))

    @serves(RequestCode.SEND_MESSAGE_V2, RequestCode.SEND_BATCH_MESSAGE)
    def _send_v2(self, call: RemotingCall) -> None:
        self._send(call, SendMessageRequestHeader.read_v2(call.request.ext))

    # ---------------------------------------------------------------- sending

    def _send(self, call: RemotingCall, header: SendMessageRequestHeader) -> None:
        context = self._context
        context.require_master()
        topic = self._topic(header)
        queue_id = queue_of(context, header, topic)
        if header.sys_flag & TRANSACTION_MASK:
            raise self._no_transactions()
        if header.batch or call.request.code == RequestCode.SEND_BATCH_MESSAGE:
            self._send_batch(call, header, topic, queue_id)
            return
        name, queue_id, text, wait = self._place(header, topic, queue_id)
        record = encode_record(
            topic=name,
            body=call.request.body,
            properties=text,
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
        unique_id = _unique_id(header.properties or "")
        self._put(call, topic.topic_name, [record], queue_id, wait=wait, unique_id=unique_id)

    def _place(self, header: SendMessageRequestHeader, topic: TopicConfig, queue_id: int) -> tuple[str, int, str, bool]:
        """Returns topic, queue and properties to store a message with, and True if its sender waits for copies."""
        text, name = header.properties or "", topic.topic_name
        is_dead = name != header.topic
        if not is_dead and _is_plain(text) and (_WAITS not in text or _WAITS_INDEED in text):
            return name, queue_id, _join(text, self._stamps.text()), True
        properties = read_properties(text)
        if properties.get(TRANSACTION_PREPARED, "").lower() == "true":
            raise self._no_transactions()
        if is_dead:
            properties.pop(DELAY_LEVEL, None)
        properties.update(self._stamps.values())
        wait = properties.get(WAIT_STORED, "").lower() != "false"
        place = self._context.waiting_place(name, queue_id, properties)
        if place is None:
            return name, queue_id, write_properties(properties), wait
        return place.topic, place.queue_id, write_properties(place.properties), wait

    def _send_batch(
        self, call: RemotingCall, header: SendMessageRequestHeader, topic: TopicConfig, queue_id: int
    ) -> None:
        context = self._context
        if topic.topic_name.startswith(RETRY_PREFIX) or topic.topic_name != header.topic:
            raise RequestRefused(ResponseCode.MESSAGE_ILLEGAL, "a retry topic takes no batch")
        host, store_ms = born_host(call), context.wall_ms()
        bytes_max = context.properties.number("maxMessageSize")
        if len(call.request.body) > bytes_max:
            raise RequestRefused(
                ResponseCode.MESSAGE_ILLEGAL, f"a batch of {len(call.request.body)} bytes; at most {bytes_max}"
            )
        common = read_properties(header.properties or "")
        wait = common.pop(WAIT_STORED, "").lower() != "false"
        common.update(self._stamps.values())
        added = write_properties(common)
        records = [
            encode_record(
                topic=topic.topic_name,
                body=message.body,
                properties=_with_common(message.properties, added, common),
                queue_id=queue_id,
                born_ms=header.born_timestamp,
                born_host=host,
                store_ms=store_ms,
                store_host=context.store_host,
                flag=message.flag,
                sys_flag=header.sys_flag,
                reconsume_times=header.reconsume_times,
                body_bytes_max=bytes_max,
            )
            for message in inner_messages(call.request.body)
        ]
        self._put(call, topic.topic_name, records, queue_id, wait=wait)

    def _put(
        self,
        call: RemotingCall,
        topic: str,
        records: list[bytes],
        queue_id: int,
        *,
        wait: bool,
        unique_id: str | None = None,
    ) -> None:
        """Store records and answer.

        `unique_id` belongs to a single message: RocketMQ returns it as the transaction id of any message.
        """
        context = self._context
        host = context.store_host

        def on_outcome(outcome: PutOutcome) -> None:
            if not isinstance(outcome, StoredMessages):
                call.refuse(outcome.code, outcome.reason)
                return
            ids = ",".join(message_id(host, each) for each in outcome.physical_offsets)
            header = SendMessageResponseHeader(
                msg_id=ids,
                queue_id=queue_id,
                queue_offset=outcome.queue_offsets[0],
                transaction_id=unique_id,
                **self._stamps.of_answers(),
            )
            context.when_known(topic, lambda: call.answer(outcome.status, header))

        self._replicated.put(records, on_outcome, wait=wait)

    def _topic(self, header: SendMessageRequestHeader) -> TopicConfig:
        """Returns the topic to store a message in: its own topic, or the dead-letter topic of a group that gives up."""
        context = self._context
        topic = context.topics.for_send(
            context.wall_ms(),
            header.topic,
            default_topic=header.default_topic,
            default_queues=header.default_topic_queue_nums,
        )
        if topic.order:
            context.require_perm(WRITABLE, "sending message")
        if not header.topic.startswith(RETRY_PREFIX):
            return topic
        group = context.groups.require(context.wall_ms(), header.topic.removeprefix(RETRY_PREFIX))
        if is_exhausted(
            group,
            reconsume_times=header.reconsume_times,
            reconsume_times_max=header.max_reconsume_times,
            consumes_in_order=context.locks.consumes_in_order(context.clock(), group.group_name),
        ):
            return context.topics.for_sent_back(
                context.wall_ms(), dead_letter_topic(group.group_name), DEAD_LETTER_QUEUES
            )
        return topic

    def _no_transactions(self) -> RequestRefused:
        """Returns the refusal of a broker with `rejectTransactionMessage`."""
        return RequestRefused(
            ResponseCode.NO_PERMISSION, f"the broker[{self._context.address}] sending transaction message is forbidden"
        )

    # ---------------------------------------------------------------- sending back

    @serves(RequestCode.CONSUMER_SEND_MSG_BACK)
    def _send_back(self, call: RemotingCall) -> None:
        context = self._context
        context.require_master()
        context.require_perm(WRITABLE, "sending message")
        header = ConsumerSendMsgBackRequestHeader.read(call.request.ext)
        group = context.groups.require(context.wall_ms(), header.group)
        record = context.store.log.message_at(header.offset)
        if record is None:
            raise RequestRefused(ResponseCode.SYSTEM_ERROR, f"look message by offset failed, {header.offset}")
        head = read_head(record)
        retried = send_back(
            ReturnedMessage(head.topic, head.message_id, head.reconsume_times, read_properties(head.properties)),
            group,
            delay_level=header.delay_level,
            reconsume_times_max=header.max_reconsume_times,
        )
        if retried is None:
            call.answer()
            return
        topic = context.topics.for_sent_back(context.wall_ms(), retried.topic, retried.queues)
        name, queue_id = topic.topic_name, context.rng.randrange(retried.queues)
        properties = retried.properties
        place = context.waiting_place(name, queue_id, properties)
        if place is not None:
            name, queue_id, properties = place.topic, place.queue_id, place.properties
        again = encode_record(
            topic=name,
            body=head.body(record),
            properties=write_properties(properties),
            queue_id=queue_id,
            born_ms=head.born_ms,
            born_host=head.born_host,
            store_ms=context.wall_ms(),
            store_host=context.store_host,
            flag=head.flag,
            sys_flag=head.sys_flag,
            reconsume_times=retried.reconsume_times,
        )

        def on_outcome(outcome: PutOutcome) -> None:
            if isinstance(outcome, StoredMessages):
                context.when_known(topic.topic_name, call.answer)
            else:
                call.refuse(outcome.code, outcome.reason)

        self._replicated.put([again], on_outcome)


def _unique_id(properties: str) -> str | None:
    """Returns the value of UNIQ_KEY, or None."""
    at = properties.find(_UNIQUE_ID)
    if at < 0 or (at and properties[at - 1] != "\2"):
        return read_properties(properties).get(_UNIQUE_ID[:-1]) if at > 0 else None
    end = properties.find("\2", at)
    return properties[at + len(_UNIQUE_ID) : end if end >= 0 else None]


def _with_common(properties: str, added: str, common: Mapping[str, str]) -> str:
    """Returns a message's properties joined with its batch's: `added`, which is `common` as text.

    Raises `RequestRefused` with MESSAGE_ILLEGAL if the message asks for a time of its own.
    """
    if _is_plain(properties):
        return _join(properties, added)
    if _AT_A_TIME.search(properties) is not None:
        raise RequestRefused(
            ResponseCode.MESSAGE_ILLEGAL, "a message of a batch cannot be delayed, or belong to a transaction"
        )
    return write_properties({**read_properties(properties), **common})


def _is_plain(text: str) -> bool:
    """Returns True if the properties have no delay and no stamp, so that stamps can simply be added."""
    return not (
        _DELAYS in text
        or TIMER_PREFIX in text
        or _PREPARED in text
        or _CLUSTER_STAMP in text
        or _REGION_STAMP in text
        or _TRACE_STAMP in text
    )


def _join(text: str, added: str) -> str:
    return f"{text}{added}" if not text or text.endswith("\2") else f"{text}\2{added}"


def queue_of(context: Context, header: SendMessageRequestHeader, topic: TopicConfig) -> int:
    """Returns the queue to store a message in.

    Raises `RequestRefused` with SYSTEM_ERROR if the topic has no such queue.
    """
    if topic.topic_name != header.topic:
        return 0
    queues = max(topic.read_queue_nums, topic.write_queue_nums)
    if header.queue_id >= queues:
        raise RequestRefused(
            ResponseCode.SYSTEM_ERROR, f"request queueId[{header.queue_id}] is illegal: {topic.topic_name} has {queues}"
        )
    if header.queue_id >= 0:
        return header.queue_id
    if topic.write_queue_nums <= 0:
        raise RequestRefused(ResponseCode.SYSTEM_ERROR, f"topic {topic.topic_name} has no queue to write to")
    return context.rng.randrange(topic.write_queue_nums)


def born_host(call: RemotingCall) -> bytes:
    """Returns the address of a client, as records hold it."""
    host, _, port = call.connection.name.rpartition(":")
    return encode_host(host.strip("[]"), int(port))
