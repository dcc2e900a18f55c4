"""Topics and groups: which are created by whom, which names are possible, and what is refused with which code."""

from collections.abc import Callable

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
    assert refusal(lambda: validate_topic_name(name)) is ResponseCode.SYSTEM_ERROR
    send = lambda: topics.for_send(1, name, default_topic=TEMPLATE, default_queues=1)  # noqa: E731
    assert refusal(send) is ResponseCode.SYSTEM_ERROR
    assert refusal(lambda: topics.update(1, new_topic(name, 1, 1))) is ResponseCode.SYSTEM_ERROR


@pytest.mark.parametrize("name", ["T", "a-b_c", "%RETRY%g", "a|b", "x" * 127])
def test_names_that_a_topic_can_have_are_accepted(name: str) -> None:
    validate_topic_name(name)


def test_the_systems_topics_are_not_for_clients() -> None:
    topics = table()
    send = lambda: topics.for_send(1, "SCHEDULE_TOPIC_XXXX", default_topic=TEMPLATE, default_queues=1)  # noqa: E731
    assert refusal(send) is ResponseCode.NO_PERMISSION
    assert refusal(lambda: topics.update(1, new_topic(TEMPLATE, 1, 1))) is ResponseCode.SYSTEM_ERROR
    assert refusal(lambda: topics.delete(1, TEMPLATE)) is ResponseCode.SYSTEM_ERROR
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


def test_impossible_numbers_of_queues_are_refused() -> None:
    topics = table()
    for queues in (-1, 10**6):
        assert refusal(lambda count=queues: topics.update(1, new_topic("T", count, 1))) is ResponseCode.SYSTEM_ERROR  # type: ignore[misc]  # a default binds the loop's value


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


def test_clients_cannot_create_groups_without_bound() -> None:
    groups = GroupTable(groups_max=1)
    groups.require(1, "g")
    assert refusal(lambda: groups.require(1, "h")) is ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST
