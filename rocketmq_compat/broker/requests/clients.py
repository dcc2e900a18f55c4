"""Clients: heartbeats (34), leaving (35), a check of subscriptions (46), and members of groups (38, 203, 204, 300).

The broker notifies clients of changed members (40).
"""

from collections.abc import Mapping

from raft.net.handlers import serves
from rocketmq_compat.broker.context import Context
from rocketmq_compat.consumers.model import RequestRefused, retry_topic
from rocketmq_compat.consumers.registry import (
    ChannelLost,
    ClientBeat,
    ClientUnregistered,
    CloseChannel,
    ConsumerBeat,
    NotifyConsumers,
    RegistryEvent,
    RegistryTimePassed,
)
from rocketmq_compat.consumers.subscriptions import TagSubscription, parse_subscription, require_tags
from rocketmq_compat.remoting.bodies import (
    CheckClientRequestBody,
    ClientConnection,
    ConsumerConnection,
    ConsumerData,
    GetConsumerListByGroupResponseBody,
    GroupList,
    HeartbeatData,
    ProducerConnection,
    SubscriptionData,
)
from rocketmq_compat.remoting.codes import LANGUAGE_NAMES, RequestCode, ResponseCode
from rocketmq_compat.remoting.frame import Command
from rocketmq_compat.remoting.headers.clients import (
    ConsumerGroupRequestHeader,
    ProducerGroupRequestHeader,
    UnregisterClientRequestHeader,
)
from rocketmq_compat.remoting.headers.topics import TopicRequestHeader
from rocketmq_compat.remoting.session import RemotingCall, RemotingSession


class ClientRequests:
    """Keeps the registry of clients, and carries out its orders."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._sessions: dict[int, RemotingSession] = {}
        """Those by which clients have registered, by channel."""
        self._facts: dict[int, tuple[str, int]] = {}
        """Language and version of each of these clients."""

    def session_of_producer(self, client_id: str) -> RemotingSession | None:
        """Returns the session by which the producers of a client came, or None."""
        channel = self._context.registry.producer_channel(client_id)
        return None if channel is None else self._sessions[channel]

    @property
    def deadline(self) -> float:
        """The time at which `tick` is due."""
        return self._context.registry.deadline

    def tick(self, now: float) -> None:
        """Clients that were silent are gone."""
        if self._context.registry.deadline <= now:
            self._step(RegistryTimePassed())

    def connection_closed(self, session: RemotingSession) -> None:
        """Remove all registrations of the connection."""
        if self._sessions.pop(id(session), None) is not None:
            del self._facts[id(session)]
            self._step(ChannelLost(id(session)))

    def _step(self, event: RegistryEvent) -> None:
        for effect in self._context.registry.step(self._context.clock(), event):
            match effect:
                case NotifyConsumers(group=group, channels=channels):
                    ext = ConsumerGroupRequestHeader(consumer_group=group).ext()
                    for channel in channels:
                        self._sessions[channel].notify(Command(RequestCode.NOTIFY_CONSUMER_IDS_CHANGED, ext=ext))
                case CloseChannel(channel=channel):
                    self._sessions[channel].connection.close("its client was silent for too long")

    # ---------------------------------------------------------------- coming and going

    @serves(RequestCode.HEART_BEAT)
    def _heartbeat(self, call: RemotingCall) -> None:
        beat = HeartbeatData.decode(call.request.body)
        consumers = tuple(self._consumer(each) for each in beat.consumer_data_set)
        channel = id(call.session)
        producers = tuple(each.group_name for each in beat.producer_data_set)
        self._sessions[channel] = call.session
        self._facts[channel] = LANGUAGE_NAMES.get(call.request.language, "OTHER"), call.request.version
        self._step(ClientBeat(channel, beat.client_id, producers, consumers))
        # A consumer asks for the routes of its retry topics next.
        self._context.when_all_known([retry_topic(each.group) for each in consumers], call.answer)

    @serves(RequestCode.CHECK_CLIENT_CONFIG)
    def _check(self, call: RemotingCall) -> None:
        """Refuse a filter other than by tags when a consumer starts, so that it does not wait forever."""
        data = CheckClientRequestBody.decode(call.request.body).subscription_data if len(call.request.body) else None
        if data is not None and data.class_filter_mode:
            raise RequestRefused(ResponseCode.SUBSCRIPTION_PARSE_FAILED, "filters by class are not served")
        if data is not None:
            require_tags(_subscription(data))
        call.answer()

    def _consumer(self, data: ConsumerData) -> ConsumerBeat:
        """Returns the statement of a heartbeat about a group.

        Creates the group with its retry topic if that is allowed.
        """
        context = self._context
        notifies = context.properties.flag("notifyConsumerIdsChangedEnable")
        try:
            group = context.groups.require(context.wall_ms(), data.group_name)
            notifies = notifies and group.notify_consumer_ids_changed_enable
            if not context.is_slave and group.retry_queue_nums > 0:
                context.topics.for_sent_back(context.wall_ms(), retry_topic(group.group_name), group.retry_queue_nums)
        except RequestRefused:
            pass  # its pulls are refused, as RocketMQ does
        return ConsumerBeat(
            data.group_name,
            tuple(_subscription(each) for each in data.subscription_data_set),
            data.message_model,
            data.consume_type,
            data.consume_from_where,
            notifies,
        )

    @serves(RequestCode.UNREGISTER_CLIENT)
    def _unregister(self, call: RemotingCall) -> None:
        header = UnregisterClientRequestHeader.read(call.request.ext)
        groups = self._context.groups.groups
        known = groups.get(header.consumer_group or "")
        notifies = known is None or known.notify_consumer_ids_changed_enable
        event = ClientUnregistered(
            id(call.session), header.client_id, header.producer_group, header.consumer_group, notifies
        )
        self._step(event)
        call.answer()

    # ---------------------------------------------------------------- who is there

    @serves(RequestCode.GET_CONSUMER_LIST_BY_GROUP)
    def _consumer_list(self, call: RemotingCall) -> None:
        group = ConsumerGroupRequestHeader.read(call.request.ext).consumer_group
        found = self._context.registry.consumer_group(group)
        if found is None:
            raise RequestRefused(ResponseCode.SYSTEM_ERROR, f"no consumer for this group, {group}")
        call.answer(body=GetConsumerListByGroupResponseBody(consumer_id_list=tuple(found.client_ids)).encode())

    @serves(RequestCode.GET_CONSUMER_CONNECTION_LIST)
    def _consumers(self, call: RemotingCall) -> None:
        group = ConsumerGroupRequestHeader.read(call.request.ext).consumer_group
        found = self._context.registry.consumer_group(group)
        if found is None:
            raise RequestRefused(ResponseCode.CONSUMER_NOT_ONLINE, f"the consumer group[{group}] not online")
        body = ConsumerConnection(
            connection_set=self._connections(found.clients),
            subscription_table={topic: _data(each) for topic, each in found.subscriptions.items()},
            consume_type=found.consume_type,
            message_model=found.model,
            consume_from_where=found.consume_from,
        )
        call.answer(body=body.encode())

    @serves(RequestCode.GET_PRODUCER_CONNECTION_LIST)
    def _producers(self, call: RemotingCall) -> None:
        group = ProducerGroupRequestHeader.read(call.request.ext).producer_group
        clients = self._context.registry.producers(group)
        if not clients:
            raise RequestRefused(ResponseCode.SYSTEM_ERROR, f"the producer group[{group}] not exist")
        call.answer(body=ProducerConnection(connection_set=self._connections(clients)).encode())

    def _connections(self, clients: Mapping[int, str]) -> tuple[ClientConnection, ...]:
        return tuple(
            ClientConnection(
                client_id=client_id,
                client_addr=self._sessions[channel].connection.name,
                language=self._facts[channel][0],
                version=self._facts[channel][1],
            )
            for channel, client_id in clients.items()
        )

    @serves(RequestCode.QUERY_TOPIC_CONSUME_BY_WHO)
    def _groups_of_topic(self, call: RemotingCall) -> None:
        topic = TopicRequestHeader.read(call.request.ext).topic
        groups = {*self._context.registry.groups_of_topic(topic), *self._context.offsets.groups_of_topic(topic)}
        call.answer(body=GroupList(group_list=tuple(sorted(groups))).encode())


def _subscription(data: SubscriptionData) -> TagSubscription:
    return parse_subscription(data.topic, data.sub_string, data.sub_version, data.expression_type)


def _data(subscription: TagSubscription) -> SubscriptionData:
    return SubscriptionData(
        topic=subscription.topic,
        sub_string=subscription.expression,
        tags_set=tuple(sorted(subscription.tags)),
        code_set=tuple(sorted(subscription.tag_hashes)),
        sub_version=subscription.version,
        expression_type=subscription.expression_type,
    )
