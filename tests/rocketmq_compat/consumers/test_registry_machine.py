"""Clients that come, go, fall silent and change their minds in any order, against a model that keeps
every heartbeat.
"""

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from rocketmq_compat.consumers.registry import (
    EXPIRY_S,
    ChannelLost,
    ClientBeat,
    ClientRegistry,
    ClientUnregistered,
    CloseChannel,
    ConsumerBeat,
    NotifyConsumers,
    RegistryEvent,
    RegistryTimePassed,
)
from rocketmq_compat.consumers.subscriptions import parse_subscription
from tests.examples import examples

CHANNELS = st.integers(1, 4)
GROUPS = st.sampled_from(["g", "h"])
TOPICS = st.frozensets(st.sampled_from(["T", "U", "V"]), min_size=1)


class RegistryMachine(RuleBasedStateMachine):
    """`beats` has the time of the last heartbeat of each (group, channel), `topics` the last subscriptions of each
    group.
    """

    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0
        self.registry = ClientRegistry()
        self.beats: dict[tuple[str, int], float] = {}
        self.topics: dict[str, frozenset[str]] = {}
        self.lost: set[int] = set()

    def step(self, event: RegistryEvent) -> set[str]:
        """Carries out an event; returns the groups that were informed."""
        informed = set()
        for effect in self.registry.step(self.now, event):
            match effect:
                case NotifyConsumers(group=group, channels=channels):
                    assert channels, "someone is informed"
                    assert len(set(channels)) == len(channels)
                    informed.add(group)
                case CloseChannel(channel=channel):
                    assert not any(each == channel for _, each in self.beats)
        return informed

    def members(self, group: str) -> set[int]:
        return {channel for name, channel in self.beats if name == group}

    @rule(channel=CHANNELS, groups=st.frozensets(GROUPS, min_size=1), topics=TOPICS)
    def beat(self, channel: int, groups: frozenset[str], topics: frozenset[str]) -> None:
        before = {group: (self.members(group), self.topics.get(group)) for group in groups}
        for group in groups:
            self.beats[group, channel] = self.now
            self.topics[group] = topics
        subscriptions = tuple(parse_subscription(topic, "*", round(self.now)) for topic in sorted(topics))
        consumers = tuple(ConsumerBeat(group, subscriptions) for group in sorted(groups))
        informed = self.step(ClientBeat(channel, f"c{channel}", consumers=consumers))
        assert informed == {
            group
            for group, (members, wanted) in before.items()
            if channel not in members or wanted != topics or not members
        }

    @rule(channel=CHANNELS, group=GROUPS)
    def unregister(self, channel: int, group: str) -> None:
        was_member = self.beats.pop((group, channel), None) is not None
        informed = self.step(ClientUnregistered(channel, f"c{channel}", consumer_group=group))
        assert informed == ({group} if was_member and self.members(group) else set())
        self.forget_empty()

    @rule(channel=CHANNELS)
    def lose(self, channel: int) -> None:
        left = {group for group, each in self.beats if each == channel}
        self.beats = {key: at for key, at in self.beats.items() if key[1] != channel}
        assert self.step(ChannelLost(channel)) == {group for group in left if self.members(group)}
        self.forget_empty()

    @rule(seconds=st.integers(1, 70))
    def wait(self, seconds: int) -> None:
        self.now += seconds
        expired = {key for key, at in self.beats.items() if self.now - at >= EXPIRY_S}
        self.beats = {key: at for key, at in self.beats.items() if key not in expired}
        informed = self.step(RegistryTimePassed())
        # A group that goes as a whole may be informed on the way.
        assert informed >= {group for group, _ in expired if self.members(group)}
        assert informed <= {group for group, _ in expired}
        self.forget_empty()

    def forget_empty(self) -> None:
        self.topics = {group: topics for group, topics in self.topics.items() if self.members(group)}

    @invariant()
    def it_knows_who_is_there(self) -> None:
        assert self.registry.consumer_groups.keys() == self.topics.keys()
        for name, group in self.registry.consumer_groups.items():
            assert set(group.clients) == self.members(name)
            assert group.subscriptions.keys() == self.topics[name]

    @invariant()
    def it_wakes_up_for_the_next_that_expires(self) -> None:
        assert self.registry.deadline == min(self.beats.values(), default=float("inf")) + EXPIRY_S


TestRegistryMachine = RegistryMachine.TestCase
TestRegistryMachine.settings = settings(max_examples=examples(36), stateful_step_count=30, deadline=None)
