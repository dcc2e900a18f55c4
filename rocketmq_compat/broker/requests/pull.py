"""Pulls of consumers (11, 361): answered with messages, or held until there are some (`PullMessageProcessor`)."""

from contextlib import suppress

import attrs

from raft.net.handlers import serves
from rocketmq_compat.broker.context import Context
from rocketmq_compat.consumers.model import RequestRefused
from rocketmq_compat.consumers.subscriptions import TagSubscription, parse_subscription, require_tags
from rocketmq_compat.consumers.waiting import HeldPull, HeldPulls
from rocketmq_compat.remoting.bodies import READABLE, ConsumeModel, SubscriptionGroupConfig, TopicConfig
from rocketmq_compat.remoting.codes import RequestCode, ResponseCode
from rocketmq_compat.remoting.headers.pulling import (
    COMMITS_OFFSET,
    FILTERS_BY_CLASS,
    HAS_SUBSCRIPTION,
    SUSPENDS,
    PullMessageRequestHeader,
    PullMessageResponseHeader,
)
from rocketmq_compat.remoting.session import RemotingCall, RemotingSession
from rocketmq_compat.replication.reads import ReadSettings, pull_advice
from rocketmq_compat.storage.broker_store import FoundMessages, GetMessageStatus
from rocketmq_compat.storage.dispatch import UNIT, QueueRun

SUSPEND_S_MAX = 600.0
"""The longest time that a pull is held, at any wish of its client."""


@attrs.define(eq=False)
class _Pull:
    call: RemotingCall
    header: PullMessageRequestHeader
    topic: TopicConfig
    group: SubscriptionGroupConfig
    subscription: TagSubscription


class PullRequests:
    """Serves pulls, also those that wait for messages."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._held = HeldPulls()
        self._pulls: dict[int, _Pull] = {}
        """The waiting pulls, by token."""
        self._of_session: dict[RemotingSession, set[int]] = {}
        self._last_token = 0

    @property
    def deadline(self) -> float:
        """The time at which `tick` is due."""
        return self._held.deadline

    # ---------------------------------------------------------------- what wakes pulls

    def on_arrived(self, runs: list[QueueRun]) -> None:
        """Consumers can see these messages from now on."""
        for run in runs:
            hashes = (tag for _, _, tag in UNIT.iter_unpack(run.units))
            self._wake(self._held.on_arrived(run.key, run.next, hashes))

    def tick(self, now: float) -> None:
        """Answer the pulls whose time is up."""
        self._wake(self._held.expire(now))

    def connection_closed(self, session: RemotingSession) -> None:
        """Forget its pulls."""
        for token in self._of_session.pop(session, ()):
            self._held.forget(token)
            del self._pulls[token]

    def _wake(self, held: list[HeldPull]) -> None:
        for waiting in held:
            pull = self._pulls.pop(waiting.token)
            of_session = self._of_session[pull.call.session]
            of_session.discard(waiting.token)
            if not of_session:
                del self._of_session[pull.call.session]
            self._serve(pull, may_hold=False)

    # ---------------------------------------------------------------- one pull

    @serves(RequestCode.PULL_MESSAGE, RequestCode.LITE_PULL_MESSAGE)
    def _pull(self, call: RemotingCall) -> None:
        context = self._context
        context.require_perm(READABLE, "pulling message")
        header = PullMessageRequestHeader.read(call.request.ext)
        if header.sys_flag & FILTERS_BY_CLASS:
            raise RequestRefused(ResponseCode.FILTER_DATA_NOT_EXIST, "filters by class are not served")
        group = context.groups.require(context.wall_ms(), header.consumer_group)
        if not group.consume_enable:
            raise RequestRefused(
                ResponseCode.NO_PERMISSION, f"subscription group no permission, {header.consumer_group}"
            )
        topic = context.topics.for_pull(header.topic, header.queue_id, header.consumer_group)
        pull = _Pull(call, header, topic, group, require_tags(self._subscription(header)))
        self._require_broadcast(pull)
        self._serve(pull, may_hold=True)

    def _subscription(self, header: PullMessageRequestHeader) -> TagSubscription:
        if header.sys_flag & HAS_SUBSCRIPTION:
            return parse_subscription(header.topic, header.subscription, header.sub_version, header.expression_type)
        return self._context.registry.subscription(header.consumer_group, header.topic, header.sub_version)

    def _require_broadcast(self, pull: _Pull) -> None:
        registered = self._context.registry.consumer_group(pull.group.group_name)
        if (
            registered is not None
            and registered.model is ConsumeModel.BROADCASTING
            and not pull.group.consume_broadcast_enable
        ):
            raise RequestRefused(
                ResponseCode.NO_PERMISSION,
                f"the consumer group[{pull.group.group_name}] can not consume by broadcast way",
            )

    def _serve(self, pull: _Pull, *, may_hold: bool) -> None:
        context, header = self._context, pull.header
        key = header.topic, header.queue_id
        found = context.store.read(
            key,
            header.queue_offset,
            bytes_max=self._bytes_max(header),
            count_max=max(1, min(header.max_msg_nums, context.properties.number("maxTransferCountOnMessageInMemory"))),
            tags=None if pull.subscription.wants_all else pull.subscription.tag_hashes,
        )
        log_end = context.store.log.end_offset
        advice = pull_advice(
            self._read_settings(pull.group),
            is_slave=context.is_slave,
            log_end=log_end,
            pulled_end=found.physical_end or log_end,
        )
        code = _code(found, header.queue_offset)
        next_offset = found.next_offset
        if not advice.serves or pull.call.connection.is_full:
            code, found = ResponseCode.PULL_RETRY_IMMEDIATELY, attrs.evolve(found, records=())
            next_offset = header.queue_offset
        elif self._is_behind(found, code):
            # The slave lacks messages that the consumer has seen already. The consumer waits for the slave, or the
            # master, and keeps its offset. RocketMQ's slave answers that the pull should be repeated at once
            # (alibaba/rocketmq#395).
            code, next_offset = ResponseCode.PULL_NOT_FOUND, header.queue_offset
        if code == ResponseCode.PULL_NOT_FOUND and may_hold and self._hold(pull, key):
            return
        if header.sys_flag & COMMITS_OFFSET and may_hold and not context.is_slave:
            self._commit(pull, found)
        answer = PullMessageResponseHeader(
            suggest_which_broker_id=advice.broker_id,
            next_begin_offset=next_offset,
            min_offset=found.min_offset,
            max_offset=found.max_offset,
            topic_sys_flag=pull.topic.topic_sys_flag,
            group_sys_flag=pull.group.group_sys_flag,
        )
        records = tuple(found.records)
        pull.call.answer(code, answer, body=records[0] if records else b"", more=records[1:])

    def _is_behind(self, found: FoundMessages, code: ResponseCode) -> bool:
        return (
            self._context.is_slave
            and code == ResponseCode.PULL_OFFSET_MOVED
            and found.status is not GetMessageStatus.OFFSET_TOO_SMALL
            and not self._context.properties.flag("offsetCheckInSlave")
        )

    def _hold(self, pull: _Pull, key: tuple[str, int]) -> bool:
        """Returns True if the pull waits now."""
        header, properties = pull.header, self._context.properties
        if not header.sys_flag & SUSPENDS:
            return False
        is_long = properties.flag("longPollingEnable")
        wait_s = header.suspend_timeout_millis / 1000 if is_long else properties.seconds("shortPollingTimeMills")
        if wait_s <= 0:
            return False
        self._last_token += 1
        deadline = self._context.clock() + min(wait_s, SUSPEND_S_MAX)
        held = HeldPull(self._last_token, key, header.queue_offset, deadline, pull.subscription)
        if not self._held.hold(held):
            return False
        if not pull.call.hold():
            self._held.forget(held.token)
            return False
        if header.sys_flag & COMMITS_OFFSET and not self._context.is_slave:
            self._commit(pull, None)
        self._pulls[held.token] = pull
        self._of_session.setdefault(pull.call.session, set()).add(held.token)
        return True

    def _commit(self, pull: _Pull, found: FoundMessages | None) -> None:
        """Takes the offset that came with a pull. One that makes no sense is ignored: the pull itself is answered."""
        context, header = self._context, pull.header
        key = header.topic, header.queue_id
        bounds = (found.min_offset, found.max_offset) if found is not None else context.store.queue(key)
        end = bounds[1] if bounds is not None else 0
        with suppress(RequestRefused):
            context.offsets.commit(
                context.wall_ms(), (header.consumer_group, *key), header.commit_offset, queue_end=end
            )

    def _bytes_max(self, header: PullMessageRequestHeader) -> int:
        most = self._context.properties.number("maxTransferBytesOnMessageInMemory")
        return most if header.max_msg_bytes is None else max(1, min(header.max_msg_bytes, most))

    def _read_settings(self, group: SubscriptionGroupConfig) -> ReadSettings:
        properties = self._context.properties
        return ReadSettings(
            slave_read_enable=properties.flag("slaveReadEnable"),
            memory_bytes=self._context.memory_bytes,
            memory_percent_max=properties.number("accessMessageInMemoryMaxRatio"),
            group_broker_id=group.broker_id,
            slow_broker_id=group.which_broker_when_consume_slowly,
        )


def _code(found: FoundMessages, offset: int) -> ResponseCode:
    """Returns the response code of a read (`PullMessageProcessor.processRequest`)."""
    match found.status:
        case GetMessageStatus.FOUND:
            return ResponseCode.SUCCESS
        case GetMessageStatus.NO_MATCHED_MESSAGE:
            return ResponseCode.PULL_RETRY_IMMEDIATELY
        case GetMessageStatus.NO_MATCHED_LOGIC_QUEUE | GetMessageStatus.NO_MESSAGE_IN_QUEUE:
            return ResponseCode.PULL_NOT_FOUND if offset == 0 else ResponseCode.PULL_OFFSET_MOVED
        case GetMessageStatus.OFFSET_OVERFLOW_ONE:
            return ResponseCode.PULL_NOT_FOUND
        case GetMessageStatus.OFFSET_TOO_SMALL | GetMessageStatus.OFFSET_OVERFLOW_BADLY:
            return ResponseCode.PULL_OFFSET_MOVED
