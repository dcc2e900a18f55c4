"""Topics and groups: which are created by whom, which names are possible, and what is refused with which code."""

from collections.abc import Callable
from functools import partial

import pytest

from rocketmq_compat.consumers.groups import GroupTable
from rocketmq_compat.consumers.model import RequestRefused
from rocketmq_compat.consumers.topic_names import is_system_topic, validate_topic_name
from rocketmq_compat.consumers.topics import TopicTable, new_topic
from rocketmq_compat.remoting.bodies import READABLE, WRITABLE, DataVersion, SubscriptionGroupConfig
from rocketmq_compat.remoting.codes import ResponseCode

TEMPLATE = "TBW102"


def table(*, auto_create: bool = True) -> TopicTable:
    return TopicTable.with_system_topics(auto_create=auto_create, default_queues=8, cluster="c", broker_name="broker-a")


def refusal(call: Callable[[], object]) -> ResponseCode:
    with pytest.raises(RequestRefused) as refused:
        call()
    return refused.value.code


def test_the_first_message_creates_its_topic_with_as_many_queues_as_both_sides_allow() -> None:
    topics = table()
    assert topics.for_send(5, "T", default_topic=TEMPLATE, default_queues=4) == new_topic("T", 4, 4)
    assert topics.for_send(5, "U", default_topic=TEMPLATE, default_queues=100) == new_topic("U", 8, 8)
    assert topics.version == DataVersion(timestamp=5, counter=2)
    assert topics.for_send(6, "T", default_topic=TEMPLATE, default_queues=1).write_queue_nums == 4
    assert topics.version == DataVersion(timestamp=5, counter=2)


def test_without_auto_creation_a_message_creates_nothing() -> None:
    topics = table(auto_create=False)
    before = topics.version
    send = lambda: topics.for_send(1, "T", default_topic=TEMPLATE, default_queues=4)  # noqa: E731
    assert refusal(send) is ResponseCode.TOPIC_NOT_EXIST
    assert topics.get("T") is None
    assert topics.version == before


def test_a_topic_may_be_created_after_any_that_hands_on_its_queues() -> None:
    topics = table(auto_create=False)
    assert topics.for_send(1, "T", default_topic="c", default_queues=4).write_queue_nums == 4
    topics.update(2, new_topic("plain", 4, 4))
    send = lambda: topics.for_send(3, "U", default_topic="plain", default_queues=4)  # noqa: E731
    assert refusal(send) is ResponseCode.TOPIC_NOT_EXIST


def test_a_retry_topic_is_created_even_without_auto_creation() -> None:
    topics = table(auto_create=False)
    assert topics.for_send(1, "%RETRY%g", default_topic=TEMPLATE, default_queues=4) == new_topic("%RETRY%g", 1, 1)
    assert topics.for_sent_back(1, "%DLQ%g", 1) == new_topic("%DLQ%g", 1, 1)


@pytest.mark.parametrize("name", ["", " ", "a b", "a/b", "../x", "ü", "a\n", "x" * 128, "a\x00"])
def test_names_that_no_topic_can_have_are_refused(name: str) -> None:
    topics = table()
    assert refusal(lambda: validate_topic_name(name)) is ResponseCode.INVALID_PARAMETER
    send = lambda: topics.for_send(1, name, default_topic=TEMPLATE, default_queues=1)  # noqa: E731
    assert refusal(send) is ResponseCode.INVALID_PARAMETER
    assert refusal(lambda: topics.update(1, new_topic(name, 1, 1))) is ResponseCode.INVALID_PARAMETER


@pytest.mark.parametrize("name", ["T", "a-b_c", "%RETRY%g", "a|b", "x" * 127])
def test_names_that_a_topic_can_have_are_accepted(name: str) -> None:
    validate_topic_name(name)


def test_the_systems_topics_are_not_for_clients() -> None:
    topics = table()
    send = lambda: topics.for_send(1, "SCHEDULE_TOPIC_XXXX", default_topic=TEMPLATE, default_queues=1)  # noqa: E731
    assert refusal(send) is ResponseCode.NO_PERMISSION
    assert refusal(lambda: topics.update(1, new_topic(TEMPLATE, 1, 1))) is ResponseCode.INVALID_PARAMETER
    assert refusal(lambda: topics.delete(1, TEMPLATE)) is ResponseCode.INVALID_PARAMETER
    assert is_system_topic("rmq_sys_anything")


def test_permissions_and_queues_are_checked() -> None:
    topics = table()
    topics.update(1, new_topic("R", 2, 2, READABLE))
    topics.update(1, new_topic("W", 2, 2, WRITABLE))
    send = lambda: topics.for_send(1, "R", default_topic=TEMPLATE, default_queues=1)  # noqa: E731
    assert refusal(send) is ResponseCode.NO_PERMISSION
    assert refusal(lambda: topics.for_pull("W", 0, "g")) is ResponseCode.NO_PERMISSION
    assert refusal(lambda: topics.for_pull("R", 2, "g")) is ResponseCode.SYSTEM_ERROR
    assert refusal(lambda: topics.for_pull("R", -1, "g")) is ResponseCode.SYSTEM_ERROR
    assert refusal(lambda: topics.for_pull("X", 0, "g")) is ResponseCode.TOPIC_NOT_EXIST
    assert topics.for_pull("R", 1, "g").topic_name == "R"


def test_a_new_broker_has_the_systems_topics() -> None:
    found = {name: (each.read_queue_nums, each.write_queue_nums, each.perm) for name, each in table().topics.items()}
    assert found == {
        "SELF_TEST_TOPIC": (1, 1, 6),
        "OFFSET_MOVED_EVENT": (1, 1, 6),
        "SCHEDULE_TOPIC_XXXX": (18, 18, 6),
        "rmq_sys_wheel_timer": (1, 1, 6),
        "c_REPLY_TOPIC": (1, 1, 6),
        "c": (16, 16, 7),
        "broker-a": (1, 1, 7),
        "TBW102": (8, 8, 7),
    }
    assert "TBW102" not in table(auto_create=False).topics
    many = TopicTable.with_system_topics(
        auto_create=True, default_queues=8, cluster="c", broker_name="b", delay_levels=20
    )
    traced = TopicTable.with_system_topics(
        auto_create=True, default_queues=8, cluster="c", broker_name="b", trace_topic="traces"
    )
    assert traced.require("traces").write_queue_nums == 1
    assert many.require("SCHEDULE_TOPIC_XXXX").read_queue_nums == 20


def test_a_retry_topic_must_be_possible_and_writable() -> None:
    topics = table()
    assert refusal(lambda: topics.for_sent_back(1, "%RETRY%b ad", 1)) is ResponseCode.INVALID_PARAMETER
    topics.update(1, new_topic("%RETRY%g", 1, 1, READABLE))
    assert refusal(lambda: topics.for_sent_back(1, "%RETRY%g", 1)) is ResponseCode.NO_PERMISSION


def test_a_topic_may_have_65536_queues_or_none() -> None:
    topics = table()
    topics.update(1, new_topic("T", 65_536, 65_536))
    assert topics.for_pull("T", 0, "g").read_queue_nums == 65_536
    assert refusal(lambda: topics.update(1, new_topic("T", 65_537, 1))) is ResponseCode.INVALID_PARAMETER
    assert refusal(lambda: topics.update(1, new_topic("T", 1, 65_537))) is ResponseCode.INVALID_PARAMETER
    assert refusal(lambda: topics.update(1, new_topic("T", 1, -1))) is ResponseCode.INVALID_PARAMETER
    topics.update(1, new_topic("T", 0, 0))
    assert refusal(lambda: topics.for_pull("T", 0, "g")) is ResponseCode.SYSTEM_ERROR


def test_a_checkpoint_takes_the_place_of_topics_of_the_same_name_alone() -> None:
    topics = table()
    topics.load(DataVersion(counter=9), {"T": new_topic("T", 2, 2), "c": new_topic("c", 3, 3)})
    assert topics.version == DataVersion(counter=9)
    assert topics.require("T").read_queue_nums == 2
    assert topics.require("c").read_queue_nums == 3
    assert topics.require("broker-a").read_queue_nums == 1


def test_impossible_numbers_of_queues_are_refused() -> None:
    topics = table()
    for queues in (-1, 10**6):
        made = new_topic("T", queues, 1)
        assert refusal(partial(topics.update, 1, made)) is ResponseCode.INVALID_PARAMETER


def test_clients_cannot_create_topics_without_bound_and_operators_can_still() -> None:
    topics = table()
    topics.topics_max = len(topics.topics)
    send = lambda: topics.for_send(1, "T", default_topic=TEMPLATE, default_queues=1)  # noqa: E731
    assert refusal(send) is ResponseCode.TOPIC_NOT_EXIST
    assert refusal(lambda: topics.for_sent_back(1, "%RETRY%g", 1)) is ResponseCode.SYSTEM_ERROR
    topics.update(1, new_topic("T", 1, 1))
    assert topics.get("T") is not None


def test_a_slave_has_the_topics_of_its_master_and_no_others() -> None:
    master, slave = table(), table()
    master.update(1, new_topic("T", 1, 1))
    slave.update(1, new_topic("U", 1, 1))
    slave.follow(master.version, master.topics)
    assert slave.topics == master.topics
    assert slave.version == master.version
    master.update(2, new_topic("V", 1, 1))
    assert slave.get("V") is None


def test_deleting_is_a_change_once() -> None:
    topics = table()
    topics.update(1, new_topic("T", 1, 1))
    assert topics.delete(2, "T")
    version = topics.version
    assert not topics.delete(3, "T")
    assert topics.version == version


def test_groups_are_created_by_their_first_use_if_allowed() -> None:
    groups = GroupTable()
    assert groups.require(1, "g") == SubscriptionGroupConfig(group_name="g")
    assert groups.version == DataVersion(timestamp=1, counter=1)
    groups.require(2, "g")
    assert groups.version == DataVersion(timestamp=1, counter=1)
    closed = GroupTable(auto_create=False)
    assert refusal(lambda: closed.require(1, "g")) is ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST
    closed.update(1, SubscriptionGroupConfig(group_name="g", retry_max_times=3))
    assert closed.require(2, "g").retry_max_times == 3
    closed.delete(3, "g")
    assert refusal(lambda: closed.require(4, "g")) is ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST


@pytest.mark.parametrize("name", ["", "a b", "x" * 121])
def test_names_that_no_group_can_have_are_refused(name: str) -> None:
    groups = GroupTable()
    assert refusal(lambda: groups.require(1, name)) is ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST
    assert refusal(lambda: groups.update(1, SubscriptionGroupConfig(group_name=name))) is ResponseCode.SYSTEM_ERROR


def test_a_group_name_has_at_most_120_characters() -> None:
    assert GroupTable().require(1, "x" * 120).group_name == "x" * 120


def test_every_change_of_a_group_is_a_new_version() -> None:
    groups = GroupTable()
    groups.update(1, SubscriptionGroupConfig(group_name="g"))
    groups.update(2, SubscriptionGroupConfig(group_name="g", retry_max_times=1))
    assert groups.version == DataVersion(timestamp=2, counter=2)
    groups.delete(3, "g")
    assert groups.version == DataVersion(timestamp=3, counter=3)
    groups.delete(4, "g")
    assert groups.version == DataVersion(timestamp=3, counter=3)
    assert not groups.groups


def test_groups_are_loaded_with_their_version() -> None:
    groups = GroupTable()
    groups.require(1, "gone")
    groups.load(DataVersion(counter=7), {"g": SubscriptionGroupConfig(group_name="g", retry_max_times=2)})
    assert groups.version == DataVersion(counter=7)
    assert groups.groups.keys() == {"g"}
    assert groups.require(2, "g").retry_max_times == 2


def test_clients_cannot_create_groups_without_bound() -> None:
    groups = GroupTable(groups_max=1)
    groups.require(1, "g")
    assert refusal(lambda: groups.require(1, "h")) is ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST
