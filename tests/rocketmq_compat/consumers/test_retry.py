"""Messages that are sent back: where they go, how long they wait, and what their properties keep."""

import pytest

from rocketmq_compat.consumers.retry import ReturnedMessage, is_exhausted, send_back
from rocketmq_compat.remoting.bodies import SubscriptionGroupConfig

GROUP = SubscriptionGroupConfig(group_name="g")


def message(**changes: object) -> ReturnedMessage:
    values = {"topic": "T", "message_id": "ID1", "reconsume_times": 0, "properties": {"TAGS": "A", "WAIT": "false"}}
    return ReturnedMessage(**{**values, **changes})  # type: ignore[arg-type]  # mixed values


def test_the_first_return_waits_at_level_3_and_remembers_where_the_message_comes_from() -> None:
    retried = send_back(message(), GROUP, delay_level=0)
    assert retried is not None
    assert (retried.topic, retried.queues, retried.reconsume_times, retried.delay_level) == ("%RETRY%g", 1, 1, 3)
    assert retried.properties == {"TAGS": "A", "RETRY_TOPIC": "T", "ORIGIN_MESSAGE_ID": "ID1", "DELAY": "3"}


def test_later_returns_wait_longer_and_keep_the_first_topic_and_id() -> None:
    properties = {"RETRY_TOPIC": "T", "ORIGIN_MESSAGE_ID": "ID1"}
    again = message(topic="%RETRY%g", message_id="ID2", reconsume_times=5, properties=properties)
    retried = send_back(again, GROUP, delay_level=0)
    assert retried is not None
    assert (retried.reconsume_times, retried.delay_level) == (6, 8)
    assert retried.properties["RETRY_TOPIC"] == "T"
    assert retried.properties["ORIGIN_MESSAGE_ID"] == "ID1"


def test_a_client_may_choose_the_level() -> None:
    retried = send_back(message(reconsume_times=5), GROUP, delay_level=1)
    assert retried is not None
    assert retried.delay_level == 1


@pytest.mark.parametrize(
    ("times", "level", "limit", "is_dead"),
    [
        (15, 0, None, False),
        (16, 0, None, True),
        (17, 0, None, True),
        (2, 0, 3, False),
        (3, 0, 3, True),
        (0, -1, None, True),
        (20, 0, 100, False),
        (0, 0, 0, True),
    ],
)
def test_after_the_last_try_a_message_is_a_dead_letter(
    times: int, level: int, limit: int | None, is_dead: bool
) -> None:
    retried = send_back(message(reconsume_times=times), GROUP, delay_level=level, reconsume_times_max=limit)
    assert retried is not None
    assert retried.topic.startswith("%DLQ%") == is_dead
    if is_dead:
        assert (retried.topic, retried.queues, retried.delay_level) == ("%DLQ%g", 1, 0)
        assert retried.properties["DELAY"] == "0"


def test_a_group_without_retry_queues_drops_what_is_sent_back() -> None:
    assert send_back(message(), SubscriptionGroupConfig(group_name="g", retry_queue_nums=0), delay_level=0) is None


@pytest.mark.parametrize(
    ("times", "limit", "in_order", "expected"),
    [(16, None, False, False), (17, None, False, True), (4, 3, False, True), (0, None, True, True)],
)
def test_a_message_that_a_client_returns_by_itself_is_given_up_after_its_limit(
    times: int, limit: int | None, in_order: bool, expected: bool
) -> None:
    assert is_exhausted(GROUP, reconsume_times=times, reconsume_times_max=limit, consumes_in_order=in_order) == expected
