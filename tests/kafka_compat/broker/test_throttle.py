"""Copies that catch up get and take no more than their throttles allow; copies in sync are never held back."""

import pytest

from kafka_compat.broker.throttle import FOLLOWER, LEADER, ReplicationQuota, Throttle, is_listed
from kafka_compat.config import InvalidSetting, check_topic_setting
from kafka_compat.model import TopicPartition
from tests.kafka_compat.broker.test_fetch_sessions import MIB, follow
from tests.kafka_compat.broker.world import World, records_of, world

PARTITION = TopicPartition("t", 0)
OTHER = 2


def test_what_passes_at_once_is_made_up_for_by_time() -> None:
    quota, now = ReplicationQuota(), 50.0
    conversation = []
    for waits_s, size in (
        (0, 0),
        (0, 900),
        (0, 100),
        (0, 1),
        (0.001, 0),
        (9, 0),
        (0, 3000),
        (1, 0),
        (1, 0),
        (0, 1000),
        (0, 1),
    ):
        now += waits_s
        conversation.append(round(quota.take(size, 1000, now), 3))
    assert conversation == [0, 0, 0, 0.001, 0, 0, 2.0, 1.0, 0, 1.0, 1.001]
    assert quota.delay_s(10_000, now) == pytest.approx(0.1, abs=0.001), "another rate holds from now on"


@pytest.mark.parametrize(
    ("listed", "names"),
    [("", False), ("*", True), ("0:2", True), ("0:1,1:2", False), ("10:2", False), ("0:22,0:2", True)],
)
def test_a_list_names_copies_by_partition_and_broker(listed: str, names: bool) -> None:
    assert is_listed(listed, 0, 2) == names


@pytest.mark.parametrize("listed", ["0", "0:x", "*,0:1", "a:1", "0:1:2", "all"])
def test_a_list_of_something_else_is_refused(listed: str) -> None:
    for side in (LEADER, FOLLOWER):
        name = f"{side}.replication.throttled.replicas"
        with pytest.raises(InvalidSetting, match="partition:broker"):
            check_topic_setting(name, listed)
        assert check_topic_setting(name, " 0:1, 1:2 ") == "0:1,1:2"
        assert check_topic_setting(name, "*") == "*"


def lists(broker: World, side: str, listed: str) -> None:
    broker.image.topics["t"].configs[f"{side}.replication.throttled.replicas"] = listed


@pytest.mark.parametrize("side", [LEADER, FOLLOWER])
def test_a_throttle_holds_for_listed_copies_that_are_out_of_sync(side: str) -> None:
    with world(f"{side}.replication.throttled.rate=1000") as broker:
        broker.topic("t", replicas=(1, 2, 3), isr=(1, 3))
        throttle = Throttle(broker.context, side)
        assert throttle.take(PARTITION, OTHER, 5000) == 0, "it is in no list"
        lists(broker, side, "0:2")
        assert throttle.take(PARTITION, OTHER, 5000) == 0, "the list names the copy of another broker"
        lists(broker, side, "0:1")
        assert throttle.take(PARTITION, 3, 5000) == 0, "it is in sync"
        assert throttle.take(PARTITION, OTHER, 5000) == 4.0
        assert throttle.delay_s(PARTITION, OTHER) == 4.0
        assert throttle.delay_s(PARTITION, 3) == 0
        assert throttle.delay_s(TopicPartition("u", 0), OTHER) == 0
    with world() as broker:
        broker.topic("t", replicas=(1, 2), isr=(1,))
        lists(broker, side, "*")
        assert Throttle(broker.context, side).take(PARTITION, OTHER, 1 << 40) == 0, "no rate is set"


def catch_up(broker: World, topic_id: bytes, seconds: float) -> int:
    """Returns how many records of 100 KiB a follower gets that asks every tenth of a second."""
    offset, session, number = 0, 0, 0
    for _ in range(round(seconds * 10)):
        answer = broker.fetch(follow(topic_id, 0, 0, offset, session, number)).answer
        session, number = answer.session_id, number + 1
        offset += records_of(answer).get(0, 0) // (100 << 10)
        broker.now += 0.1
    return offset


@pytest.mark.parametrize(
    ("listed", "in_sync", "waits"), [("0:1", (1,), True), ("", (1,), False), ("0:1", (1, 2), False)]
)
def test_a_leader_gives_a_lagging_follower_what_its_rate_allows(
    listed: str, in_sync: tuple[int, ...], *, waits: bool
) -> None:
    with world(f"leader.replication.throttled.rate={300 << 10}") as broker:
        topic_id = broker.topic("t", replicas=(1, 2), isr=in_sync)
        lists(broker, LEADER, listed)
        broker.produce("t", size=100 << 10, count=60)
        found = catch_up(broker, topic_id, 6)
    if waits:  # what is saved up, and at the end an answer that is made up for later
        assert 6 * 3 <= found <= 6 * 3 + 3 + MIB // (100 << 10)
    else:
        assert found == 60
