"""Registers producers and consumers (`ProducerManager`, `ConsumerManager`): the decider behind heartbeats.

A client registers each of its groups with every heartbeat, on one connection, its channel. It leaves when it
unregisters, when its connection ends, or `expiry_s` after the last heartbeat that named the group. Consumers of a group
are notified when one of them comes or goes, or when the subscriptions of the group change, so that they share out the
queues at once instead of within 20 s.

All clients of a group should have the same subscriptions. As in RocketMQ, the last heartbeat decides.
"""

import enum
from collections.abc import Iterable, Iterator, Mapping
from typing import Final, TypeAlias, assert_never

import attrs

from log.values import frozen
from rocketmq_compat.consumers.model import RequestRefused
from rocketmq_compat.consumers.subscriptions import TagSubscription
from rocketmq_compat.remoting.bodies import ConsumeFromWhere, ConsumeModel, ConsumeType
from rocketmq_compat.remoting.codes import ResponseCode

EXPIRY_S: Final = 120.0
GROUPS_OF_CHANNEL_MAX: Final = 1_000
"""The most groups of one connection: more than a client has, and a bound of the broker's memory."""
SUBSCRIPTIONS_MAX: Final = 10_000
"""Topics that one group subscribes to."""


@frozen
class ConsumerBeat:
    """The statement of a heartbeat about one consumer group."""

    group: str
    subscriptions: tuple[TagSubscription, ...]
    model: ConsumeModel = ConsumeModel.CLUSTERING
    consume_type: ConsumeType = ConsumeType.CONSUME_PASSIVELY
    consume_from: ConsumeFromWhere = ConsumeFromWhere.CONSUME_FROM_LAST_OFFSET
    notifies: bool = True
    """True if the group is set to notify its consumers of changes."""


@frozen
class ClientBeat:
    """A heartbeat."""

    channel: int
    client_id: str
    producer_groups: tuple[str, ...] = ()
    consumers: tuple[ConsumerBeat, ...] = ()


@frozen
class ClientUnregistered:
    """A client leaves a producer group, a consumer group, or both."""

    channel: int
    client_id: str
    producer_group: str | None = None
    consumer_group: str | None = None
    notifies: bool = True


@frozen
class ChannelLost:
    """A connection has ended."""

    channel: int


@frozen
class RegistryTimePassed:
    """The registry's deadline may have come."""


RegistryEvent: TypeAlias = ClientBeat | ClientUnregistered | ChannelLost | RegistryTimePassed


@frozen
class NotifyConsumers:
    """Notify these channels that the consumers of a group have changed (code 40, one-way)."""

    group: str
    channels: tuple[int, ...]


@frozen
class CloseChannel:
    """A client on this connection was silent for too long: close it."""

    channel: int


RegistryEffect: TypeAlias = NotifyConsumers | CloseChannel


@attrs.define
class RegisteredGroup:
    """A consumer group with at least one client."""

    name: str
    model: ConsumeModel
    consume_type: ConsumeType
    consume_from: ConsumeFromWhere
    notifies: bool = True
    subscriptions: dict[str, TagSubscription] = attrs.field(factory=dict)
    """By topic."""
    clients: dict[int, str] = attrs.field(factory=dict)
    """Client ids by channel."""

    @property
    def client_ids(self) -> list[str]:
        """The ids of its clients, in the order in which they came."""
        return list(self.clients.values())

    def subscribe(self, subscriptions: Iterable[TagSubscription]) -> bool:
        """Takes over the subscriptions of a heartbeat.

        Returns True if a topic came or went; a newer version replaces one silently.
        """
        asked = {each.topic: each for each in subscriptions}
        changed = asked.keys() != self.subscriptions.keys()
        kept = {topic: each for topic, each in self.subscriptions.items() if topic in asked}
        for topic, subscription in asked.items():
            known = kept.get(topic)
            if known is None or subscription.version > known.version:
                kept[topic] = subscription
        self.subscriptions = kept
        return changed


class _Role(enum.Enum):
    PRODUCER = "producer"
    CONSUMER = "consumer"


_Registration: TypeAlias = tuple[_Role, str, int]
"""Role, group, channel."""


class ClientRegistry:
    """All clients of this broker."""

    def __init__(self, expiry_s: float = EXPIRY_S) -> None:
        self.expiry_s = expiry_s
        self._producers: dict[str, dict[int, str]] = {}
        self._producer_ids: dict[str, dict[int, int]] = {}
        """By client id, the channels of its producers, and in how many groups each is."""
        self.consumer_groups: dict[str, RegisteredGroup] = {}
        """Every consumer group that has clients, by name."""
        self._beats: dict[_Registration, float] = {}
        """The time at which each was named last, in that order, so that the first expires first."""
        self._of_channel: dict[int, dict[_Registration, None]] = {}
        self._effects: list[RegistryEffect] = []

    # ------------------------------------------------------------------ queries

    @property
    def deadline(self) -> float:
        """The time at which `RegistryTimePassed` is due next, in seconds of `now`; infinite without a client."""
        return next(iter(self._beats.values())) + self.expiry_s if self._beats else float("inf")

    def consumer_group(self, name: str) -> RegisteredGroup | None:
        """Returns a consumer group, or None if it has no clients."""
        return self.consumer_groups.get(name)

    def producers(self, group: str) -> Mapping[int, str]:
        """Returns the client ids of a producer group, by channel."""
        return self._producers.get(group, {})

    def producer_channel(self, client_id: str) -> int | None:
        """Returns the channel by which the producers of a client came last, or None."""
        return next(reversed(self._producer_ids.get(client_id, {})), None)

    def groups_of_topic(self, topic: str) -> Iterator[str]:
        """Yields every consumer group that subscribes to a topic."""
        return (name for name, group in self.consumer_groups.items() if topic in group.subscriptions)

    def subscription(self, group: str, topic: str, version: int) -> TagSubscription:
        """Returns the subscription of a group to a topic, for a pull that states only its version
        (`PullMessageProcessor`).

        Raises `RequestRefused`: SUBSCRIPTION_NOT_EXIST if the group is not there or has not subscribed,
        SUBSCRIPTION_NOT_LATEST if the client has a newer subscription than its heartbeats brought.
        """
        registered = self.consumer_groups.get(group)
        if registered is None:
            raise RequestRefused(ResponseCode.SUBSCRIPTION_NOT_EXIST, f"the consumer's group info not exist: {group}")
        found = registered.subscriptions.get(topic)
        if found is None:
            raise RequestRefused(
                ResponseCode.SUBSCRIPTION_NOT_EXIST, f"the consumer's subscription not exist: {group} of {topic}"
            )
        if found.version < version:
            raise RequestRefused(
                ResponseCode.SUBSCRIPTION_NOT_LATEST, f"the consumer's subscription not latest: {group} of {topic}"
            )
        return found

    # -------------------------------------------------------------------- steps

    def step(self, now: float, event: RegistryEvent) -> tuple[RegistryEffect, ...]:
        """Takes one event and returns the effects. `now` is monotonic, in seconds.

        Raises `RequestRefused` with SYSTEM_ERROR for a heartbeat that names more groups or topics than a connection
        may; the registry is unchanged then.
        """
        match event:
            case ClientBeat():
                self._beat(now, event)
            case ClientUnregistered():
                self._unregister(event)
            case ChannelLost(channel=channel):
                for registration in list(self._of_channel.get(channel, ())):
                    self._remove(registration, notifies=True)
            case RegistryTimePassed():
                self._expire(now)
            case _:
                assert_never(event)
        effects, self._effects = tuple(self._effects), []
        return effects

    def _beat(self, now: float, beat: ClientBeat) -> None:
        self._require_room(beat)
        for group in beat.producer_groups:
            producers = self._producers.setdefault(group, {})
            before = producers.get(beat.channel)
            if before != beat.client_id:
                self._count_producer(before, beat.channel, -1)
                self._count_producer(beat.client_id, beat.channel, 1)
            producers[beat.channel] = beat.client_id
            self._renew(now, (_Role.PRODUCER, group, beat.channel))
        for consumer in beat.consumers:
            self._consumer_beat(now, beat, consumer)

    def _consumer_beat(self, now: float, beat: ClientBeat, consumer: ConsumerBeat) -> None:
        group = self.consumer_groups.get(consumer.group)
        if group is None:
            group = RegisteredGroup(consumer.group, consumer.model, consumer.consume_type, consumer.consume_from)
            self.consumer_groups[consumer.group] = group
        group.model, group.consume_type = consumer.model, consumer.consume_type
        group.consume_from, group.notifies = consumer.consume_from, consumer.notifies
        is_new = beat.channel not in group.clients
        group.clients[beat.channel] = beat.client_id
        changed = group.subscribe(consumer.subscriptions)
        self._renew(now, (_Role.CONSUMER, consumer.group, beat.channel))
        if (is_new or changed) and group.notifies:
            self._notify(group)

    def _unregister(self, event: ClientUnregistered) -> None:
        if event.producer_group is not None:
            self._remove((_Role.PRODUCER, event.producer_group, event.channel), notifies=False)
        if event.consumer_group is not None:
            self._remove((_Role.CONSUMER, event.consumer_group, event.channel), notifies=event.notifies)

    def _expire(self, now: float) -> None:
        """Removes silent clients.

        A connection without a registration is closed; one whose client names other groups stays open.
        """
        silent: dict[int, None] = {}
        while self._beats:
            registration, beaten_at = next(iter(self._beats.items()))
            if now - beaten_at < self.expiry_s:
                break
            self._remove(registration, notifies=True)
            silent[registration[2]] = None
        self._effects.extend(CloseChannel(channel) for channel in silent if channel not in self._of_channel)

    # ------------------------------------------------------------------- changes

    def _renew(self, now: float, registration: _Registration) -> None:
        self._beats.pop(registration, None)
        self._beats[registration] = now
        self._of_channel.setdefault(registration[2], {})[registration] = None

    def _remove(self, registration: _Registration, *, notifies: bool) -> None:
        if self._beats.pop(registration, None) is None:
            return
        role, name, channel = registration
        of_channel = self._of_channel[channel]
        del of_channel[registration]
        if not of_channel:
            del self._of_channel[channel]
        match role:
            case _Role.PRODUCER:
                producers = self._producers[name]
                self._count_producer(producers.pop(channel), channel, -1)
                if not producers:
                    del self._producers[name]
            case _Role.CONSUMER:
                group = self.consumer_groups[name]
                del group.clients[channel]
                if not group.clients:
                    del self.consumer_groups[name]
                elif notifies and group.notifies:
                    self._notify(group)
            case _:
                assert_never(role)

    def _count_producer(self, client_id: str | None, channel: int, change: int) -> None:
        if client_id is None:
            return
        channels = self._producer_ids.setdefault(client_id, {})
        channels[channel] = channels.get(channel, 0) + change
        if not channels[channel]:
            del channels[channel]
        if not channels:
            del self._producer_ids[client_id]

    def _notify(self, group: RegisteredGroup) -> None:
        self._effects.append(NotifyConsumers(group.name, tuple(group.clients)))

    def _require_room(self, beat: ClientBeat) -> None:
        named = {(_Role.PRODUCER, group, beat.channel) for group in beat.producer_groups}
        named |= {(_Role.CONSUMER, each.group, beat.channel) for each in beat.consumers}
        count = len(named | self._of_channel.get(beat.channel, {}).keys())
        if count > GROUPS_OF_CHANNEL_MAX:
            raise RequestRefused(
                ResponseCode.SYSTEM_ERROR,
                f"{count} groups on one connection of client {beat.client_id}, at most {GROUPS_OF_CHANNEL_MAX}",
            )
        for consumer in beat.consumers:
            if len(consumer.subscriptions) > SUBSCRIPTIONS_MAX:
                raise RequestRefused(
                    ResponseCode.SYSTEM_ERROR,
                    f"group {consumer.group} subscribes to {len(consumer.subscriptions)} topics, at most {SUBSCRIPTIONS_MAX}",
                )
