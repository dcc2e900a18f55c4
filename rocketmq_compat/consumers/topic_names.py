"""Names of topics: which are possible, which are the system's own (`TopicValidator`)."""

import re
from typing import Final

from rocketmq_compat.consumers.model import RequestRefused
from rocketmq_compat.remoting.codes import ResponseCode

TOPIC_NAME_MAX: Final = 127
AUTO_CREATE_TOPIC: Final = "TBW102"
"""The template of topics that are created by their first message."""
SCHEDULE_TOPIC: Final = "SCHEDULE_TOPIC_XXXX"
"""Holds delayed messages until they are due."""
TIMER_TOPIC: Final = "rmq_sys_wheel_timer"
"""Holds timer messages until their time."""
SELF_TEST_TOPIC: Final = "SELF_TEST_TOPIC"
OFFSET_MOVED_TOPIC: Final = "OFFSET_MOVED_EVENT"
HALF_TOPIC: Final = "RMQ_SYS_TRANS_HALF_TOPIC"
HALF_DONE_TOPIC: Final = "RMQ_SYS_TRANS_OP_HALF_TOPIC"
CHECKED_TOO_OFTEN_TOPIC: Final = "TRANS_CHECK_MAX_TIME_TOPIC"
SYSTEM_PREFIX: Final = "rmq_sys_"
SYSTEM_TOPICS: Final = frozenset(
    {
        AUTO_CREATE_TOPIC,
        SCHEDULE_TOPIC,
        SELF_TEST_TOPIC,
        OFFSET_MOVED_TOPIC,
        HALF_TOPIC,
        HALF_DONE_TOPIC,
        CHECKED_TOO_OFTEN_TOPIC,
        "BenchmarkTest",
        "RMQ_SYS_TRACE_TOPIC",
    }
)
NOT_TO_BE_SENT_TO: Final = frozenset(
    {
        SCHEDULE_TOPIC,
        TIMER_TOPIC,
        HALF_TOPIC,
        HALF_DONE_TOPIC,
        CHECKED_TOO_OFTEN_TOPIC,
        SELF_TEST_TOPIC,
        OFFSET_MOVED_TOPIC,
    }
)

_LEGAL: Final = re.compile(r"[%|a-zA-Z0-9_-]+")


def reply_topic(cluster: str) -> str:
    """Returns the topic to which consumers of a cluster send the replies of requests."""
    return f"{cluster}_REPLY_TOPIC"


def has_legal_characters(name: str) -> bool:
    """Returns True if a name of a topic or a group has legal characters only, and at least one."""
    return _LEGAL.fullmatch(name) is not None


def validate_topic_name(name: str) -> None:
    """Raises `RequestRefused` with INVALID_PARAMETER if no topic can have this name."""
    if not name.strip():
        raise RequestRefused(ResponseCode.INVALID_PARAMETER, "The specified topic is blank.")
    if not has_legal_characters(name):
        raise RequestRefused(
            ResponseCode.INVALID_PARAMETER,
            "The specified topic contains illegal characters, allowing only ^[%|a-zA-Z0-9_-]+$",
        )
    if len(name) > TOPIC_NAME_MAX:
        raise RequestRefused(ResponseCode.INVALID_PARAMETER, "The specified topic is longer than topic max length.")


def is_system_topic(name: str) -> bool:
    """Returns True if the topic is the system's own: an operator cannot create or delete it."""
    return name in SYSTEM_TOPICS or name.startswith(SYSTEM_PREFIX)


def require_sendable(name: str) -> None:
    """Raises `RequestRefused` with NO_PERMISSION if clients may not send to this topic."""
    if name in NOT_TO_BE_SENT_TO:
        raise RequestRefused(ResponseCode.NO_PERMISSION, f"Sending message to topic[{name}] is forbidden.")
