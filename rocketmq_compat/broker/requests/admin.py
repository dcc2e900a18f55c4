"""Administrators: topics, groups, settings and the state of the broker."""

from collections.abc import Callable
from typing import Final

from raft.net.handlers import serves
from rocketmq_compat.broker.context import Context
from rocketmq_compat.broker.tables import Saved, TablesPort, answering, group_wrapper, topic_wrapper
from rocketmq_compat.config import InvalidProperty, assignments_of
from rocketmq_compat.consumers.model import RequestRefused
from rocketmq_compat.consumers.topic_attributes import changed_attributes
from rocketmq_compat.consumers.topic_names import is_system_topic, reply_topic
from rocketmq_compat.remoting.bodies import (
    ConsumeStats,
    KVTable,
    MessageQueue,
    OffsetWrapper,
    SubscriptionGroupConfig,
    TopicConfig,
    TopicList,
    TopicOffset,
    TopicStatsTable,
)
from rocketmq_compat.remoting.codes import RequestCode, ResponseCode
from rocketmq_compat.remoting.headers.topics import (
    ConfigVersionResponseHeader,
    CreateTopicRequestHeader,
    DeleteSubscriptionGroupRequestHeader,
    GetConsumeStatsRequestHeader,
    GroupRequestHeader,
    TopicRequestHeader,
)
from rocketmq_compat.remoting.session import RemotingCall

FILTER_TYPES: Final = ("SINGLE_TAG", "MULTI_TAG")


class AdminRequests:
    """Serves administrators. What they change is on the disk before they are answered."""

    def __init__(self, context: Context, tables: TablesPort, epoch: Callable[[], int]) -> None:
        """`epoch` returns the epoch of the master, to this broker's knowledge."""
        self._context = context
        self._tables = tables
        self._epoch = epoch

    # ---------------------------------------------------------------- topics

    @serves(RequestCode.UPDATE_AND_CREATE_TOPIC)
    def _update_topic(self, call: RemotingCall) -> None:
        context = self._context
        context.require_master()
        header = CreateTopicRequestHeader.read(call.request.ext)
        before = context.topics.get(header.topic)
        if header.topic_filter_type not in FILTER_TYPES:
            raise RequestRefused(
                ResponseCode.INVALID_PARAMETER,
                f"topicFilterType can be {' or '.join(FILTER_TYPES)}, not {header.topic_filter_type[:100]}",
            )
        topic = TopicConfig(
            topic_name=header.topic,
            read_queue_nums=header.read_queue_nums,
            write_queue_nums=header.write_queue_nums,
            perm=header.perm,
            topic_filter_type=header.topic_filter_type,
            topic_sys_flag=header.topic_sys_flag,
            order=header.order,
            attributes=changed_attributes(
                {} if before is None else before.attributes, header.attributes, is_new=before is None
            ),
        )
        context.topics.update(context.wall_ms(), topic)
        self._tables.save(self._when_known(call, header.topic), names_only=True)

    @serves(RequestCode.DELETE_TOPIC_IN_BROKER)
    def _delete_topic(self, call: RemotingCall) -> None:
        context = self._context
        context.require_master()
        topic = TopicRequestHeader.read(call.request.ext).topic
        if context.topics.delete(context.wall_ms(), topic):
            context.offsets.remove_topic(context.wall_ms(), topic)
            if not context.is_raft:  # there every broker does so when the deletion is committed
                context.store.delete_topic(topic)
        self._tables.save(self._when_known(call, topic))

    def _when_known(self, call: RemotingCall, topic: str) -> Saved:
        """Returns a callback that answers a call when its change of a topic lasts, and the name servers know it."""
        answer = answering(call)

        def on_saved(failure: str | None) -> None:
            if failure is None:
                self._context.when_known(topic, lambda: answer(None))
            else:
                answer(failure)

        return on_saved

    @serves(RequestCode.GET_ALL_TOPIC_CONFIG)
    def _all_topics(self, call: RemotingCall) -> None:
        call.answer(body=topic_wrapper(self._context.topics).encode())

    @serves(RequestCode.GET_TOPIC_CONFIG)
    def _topic(self, call: RemotingCall) -> None:
        topic = self._context.topics.require(TopicRequestHeader.read(call.request.ext).topic)
        call.answer(body=topic.encode())

    @serves(RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_BROKER)
    def _system_topics(self, call: RemotingCall) -> None:
        context = self._context
        own = {context.cluster, context.broker_name, reply_topic(context.cluster)}
        names = sorted(name for name in context.topics.topics if is_system_topic(name) or name in own)
        call.answer(body=TopicList(topic_list=tuple(names)).encode())

    @serves(RequestCode.GET_TOPIC_STATS_INFO)
    def _topic_stats(self, call: RemotingCall) -> None:
        context = self._context
        topic = context.topics.require(TopicRequestHeader.read(call.request.ext).topic)
        offsets = {}
        for queue_id in range(topic.write_queue_nums):
            key = topic.topic_name, queue_id
            start, end = context.store.queue(key) or (0, 0)
            stored_ms = context.store.store_time(key, end - 1) if end > start else None
            queue = MessageQueue(broker_name=context.broker_name, queue_id=queue_id, topic=topic.topic_name)
            offsets[queue] = TopicOffset(min_offset=start, max_offset=end, last_update_timestamp=stored_ms or 0)
        call.answer(body=TopicStatsTable(offset_table=offsets).encode())

    # ---------------------------------------------------------------- groups

    @serves(RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP)
    def _update_group(self, call: RemotingCall) -> None:
        context = self._context
        context.require_master()
        group = SubscriptionGroupConfig.decode(call.request.body)
        if group.attributes:
            raise RequestRefused(ResponseCode.INVALID_PARAMETER, "attributes of a group are not served")
        context.groups.update(context.wall_ms(), group)
        self._tables.save(answering(call), names_only=True)

    @serves(RequestCode.DELETE_SUBSCRIPTIONGROUP)
    def _delete_group(self, call: RemotingCall) -> None:
        context = self._context
        context.require_master()
        header = DeleteSubscriptionGroupRequestHeader.read(call.request.ext)
        context.groups.delete(context.wall_ms(), header.group_name)
        if header.clean_offset:
            context.offsets.remove_group(context.wall_ms(), header.group_name)
        self._tables.save(answering(call))

    @serves(RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG)
    def _all_groups(self, call: RemotingCall) -> None:
        call.answer(body=group_wrapper(self._context.groups).encode())

    @serves(RequestCode.GET_SUBSCRIPTIONGROUP_CONFIG)
    def _group(self, call: RemotingCall) -> None:
        name = GroupRequestHeader.read(call.request.ext).group
        context = self._context
        if context.is_slave:
            found = context.groups.groups.get(name)
            if found is None:
                raise RequestRefused(
                    ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST, f"subscription group [{name}] does not exist"
                )
        else:
            found = context.groups.require(context.wall_ms(), name)
        body = found.encode()
        self._tables.save(answering(call, body), names_only=True)

    @serves(RequestCode.GET_CONSUME_STATS)
    def _consume_stats(self, call: RemotingCall) -> None:
        context = self._context
        header = GetConsumeStatsRequestHeader.read(call.request.ext)
        group = header.consumer_group
        names = {header.topic} if header.topic else context.offsets.topics_of_group(group)
        registered = context.registry.consumer_group(group)
        if registered is not None and registered.subscriptions:
            names &= registered.subscriptions.keys()
        offsets = {}
        for topic in filter(None, map(context.topics.get, sorted(filter(None, names)))):
            for queue_id in range(topic.read_queue_nums):
                key = topic.topic_name, queue_id
                _, end = context.store.queue(key) or (0, 0)
                offset = context.offsets.get((group, *key)) or 0
                consumed_ms = context.store.store_time(key, offset - 1) if offset else None
                queue = MessageQueue(broker_name=context.broker_name, queue_id=queue_id, topic=topic.topic_name)
                offsets[queue] = OffsetWrapper(
                    broker_offset=end, consumer_offset=offset, last_timestamp=consumed_ms or 0, pull_offset=offset
                )
        call.answer(body=ConsumeStats(offset_table=offsets).encode())

    # ---------------------------------------------------------------- the broker

    @serves(RequestCode.UPDATE_BROKER_CONFIG)
    def _update_config(self, call: RemotingCall) -> None:
        context = self._context
        text = bytes(call.request.body).decode(errors="replace")
        try:
            context.properties = context.properties.with_assignments(assignments_of(text), running=True)
        except InvalidProperty as error:
            raise RequestRefused(ResponseCode.SYSTEM_ERROR, str(error)) from None
        context.topics.auto_create = context.properties.flag("autoCreateTopicEnable")
        context.groups.auto_create = context.properties.flag("autoCreateSubscriptionGroup")
        call.answer()

    @serves(RequestCode.GET_BROKER_CONFIG)
    def _config(self, call: RemotingCall) -> None:
        version = ConfigVersionResponseHeader(version="1")
        call.answer(header=version, body=self._context.properties.file_text().encode())

    @serves(RequestCode.GET_BROKER_RUNTIME_INFO)
    def _runtime_info(self, call: RemotingCall) -> None:
        context = self._context
        log = context.store.log
        facts = {
            "brokerRole": context.role,
            "epoch": self._epoch(),
            "commitLogMinOffset": log.start_offset,
            "commitLogMaxOffset": log.end_offset,
            "commitLogFlushedOffset": log.durable_offset,
            "dispatchedOffset": context.store.derived.dispatched,
            "consumerGroups": len(context.registry.consumer_groups),
            "topics": len(context.topics.topics),
            **context.copy_facts(),
        }
        call.answer(body=KVTable(table={name: str(value) for name, value in facts.items()}).encode())
