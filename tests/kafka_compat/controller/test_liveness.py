"""Liveness of brokers: golden conversations, and the rules that hold in all of them."""

from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from kafka_compat.controller.commands import ElectionType, ElectLeaders, FenceBroker, UnfenceBroker
from kafka_compat.controller.liveness import (
    ELECTIONS_MAX,
    BrokerHeartbeat,
    ControllerElected,
    ControllerLiveness,
    LivenessDue,
    LivenessSettings,
    ProposeCommand,
)
from kafka_compat.model import TopicPartition
from tests.examples import examples
from tests.kafka_compat.controller.conversation import SCRIPTS, Conversation, replay
from tests.kafka_compat.controller.world import three_brokers


@pytest.mark.parametrize("script", sorted(SCRIPTS.glob("*.txt")), ids=lambda path: path.stem)
def test_script(script: Path) -> None:
    text = script.read_text()
    assert replay(text) == text


def test_a_preferred_election_is_for_partitions_that_can_have_it_and_bounded() -> None:
    count = ELECTIONS_MAX + 5
    world = three_brokers(*([(1, 2)] * count))
    world.create("other", (1, 3))
    world.fence(1)
    world.unfence(1)
    for partition in range(count):
        world.alter(world.change(2, 1, partition=partition))
    liveness = ControllerLiveness(world.machine.image, LivenessSettings(balance_interval=60.0))
    liveness.step(0.0, ControllerElected())
    for broker in (1, 2, 3):
        liveness.step(59.0, BrokerHeartbeat(1, broker, broker, world.epoch(broker), world.index))
    assert liveness.step(59.9, LivenessDue()) == []
    (effect,) = liveness.step(60.0, LivenessDue())
    assert isinstance(effect, ProposeCommand)
    assert isinstance(effect.command, ElectLeaders)
    assert effect.command.election is ElectionType.PREFERRED
    assert effect.command.partitions == tuple(TopicPartition("t", partition) for partition in range(ELECTIONS_MAX))
    assert liveness.deadline == 61.0, "the rest comes soon"
    world.do(effect.command, object)
    (effect,) = liveness.step(61.0, LivenessDue())
    assert isinstance(effect, ProposeCommand)
    world.do(effect.command, object)
    assert liveness.deadline == 59.0 + 9.0
    assert world.machine.image.leaderships(1) == count
    assert world.state("other").leader == 3


WORDS = st.one_of(
    st.builds(
        "beat {} {}".format, st.integers(1, 3), st.sampled_from(["", "", "shutdown", "fence", "behind 2", "by 9"])
    ),
    st.builds("close {}".format, st.sampled_from([1, 2, 3, 9])),
    st.builds("register {}".format, st.integers(1, 3)),
    st.sampled_from(["due", "commit", "lose", "resigned", "elected", "pass 1", "pass 4", "pass 10"]),
)


@settings(max_examples=examples(36), deadline=None)
@example(["beat 3 fence", "commit", "beat 3", "close 3"])
@given(st.lists(WORDS, max_size=40))
def test_whatever_happened_brokers_that_go_on_are_unfenced_and_silent_ones_are_fenced(words: list[str]) -> None:
    conversation = Conversation()
    conversation.say("cluster 3")
    conversation.say("elected")
    for word in words:
        if word.startswith("pass"):
            conversation.now += float(word.split()[1])
        else:
            conversation.say(word)
    image = conversation.world.machine.image
    liveness = conversation.liveness
    if liveness.deadline is None:
        conversation.say("elected")
    for _ in range(30):
        conversation.now += 0.5
        conversation.say("due")
        conversation.say("beat 1")
        conversation.say("beat 2")
        conversation.say("commit")
        conversation.say("due")  # what was committed may have let a broker serve whose connection had ended before
        assert liveness.deadline is not None
        assert liveness.deadline > conversation.now, "time is never due at once again"
    for broker in (1, 2):
        assert image.active(broker) or image.brokers[broker].shutting_down
    assert image.brokers[3].fenced


def test_a_broker_that_left_is_never_proposed_to_be_unfenced() -> None:
    world = three_brokers()
    world.shut_down(2)
    world.fence(2)
    liveness = ControllerLiveness(world.machine.image)
    liveness.step(0.0, ControllerElected())
    effects = liveness.step(1.0, BrokerHeartbeat(1, 2, 2, world.epoch(2), world.index))
    assert not any(
        isinstance(effect, ProposeCommand) and isinstance(effect.command, UnfenceBroker) for effect in effects
    )


def test_a_controller_waits_to_repeat_a_proposal_even_if_sessions_are_shorter() -> None:
    """With a deadline in the past it would spin until then."""
    world = three_brokers((1, 2))
    settings_ = LivenessSettings(session_timeout=4.0, retry_interval=10.0, balance_interval=None)
    liveness = ControllerLiveness(world.machine.image, settings_)
    fence = FenceBroker(1, world.epoch(1), eligible=True)

    def beat(now: float, *brokers: int) -> None:
        for broker in brokers:
            liveness.step(now, BrokerHeartbeat(1, broker, broker, world.epoch(broker), world.index))

    liveness.step(0.0, ControllerElected())
    beat(4.0, 2, 3)
    assert [effect.command for effect in liveness.step(4.0, LivenessDue())] == [fence]  # type: ignore[union-attr]
    beat(5.0, 1, 2, 3)  # it is not fenced yet, and falls silent again
    beat(11.0, 2, 3)
    assert liveness.step(11.0, LivenessDue()) == []
    assert liveness.deadline == 14.0
    assert [effect.command for effect in liveness.step(14.0, LivenessDue())] == [fence]  # type: ignore[union-attr]
