"""Interprets one call of the C++ client for its message.

The client raises the same for everything that fails ("No route info of this topic"). So an exception proves nothing,
except before the selector was asked for a queue: then nothing can have been sent. The statuses of a message that is
stored with less than its mode promises (10, 11 and 12 on the wire) acknowledge nothing; it may be lost.
"""

from collections.abc import Mapping
from typing import Final

from jepsen_like.history.ops import ErrorCode, Outcome
from jepsen_like.systems.rocketmq.client_plan import RAISED

SEND_OK: Final = 0
_STORED: Final[Mapping[int, ErrorCode]] = {
    1: ErrorCode.TIMEOUT,  # FLUSH_DISK_TIMEOUT
    2: ErrorCode.NOT_ENOUGH_REPLICAS,  # FLUSH_SLAVE_TIMEOUT
    3: ErrorCode.NOT_ENOUGH_REPLICAS,  # SLAVE_NOT_AVAILABLE
}


def outcome_of(status: int, *, is_sent: bool) -> tuple[Outcome, ErrorCode]:
    """Returns what is known of the message of a call; `is_sent`: it may have been sent to a queue."""
    if status == SEND_OK:
        return Outcome.OK, ErrorCode.NONE
    if status == RAISED and not is_sent:
        return Outcome.FAIL, ErrorCode.NOT_LEADER
    return Outcome.INFO, _STORED.get(status, ErrorCode.UNKNOWN_OUTCOME)
