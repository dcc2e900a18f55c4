"""Interprets the error of a delivery report for its message, by librdkafka's numbers.

librdkafka retries by itself, and a report has only the last attempt's error: an earlier attempt may have been stored
and its answer lost. So a report is a definite failure only where the error is about the message itself, such that every
attempt is refused alike, or where there was one attempt at most (`retries=0`). Everything else has an unknown outcome:
a wrong failure would accuse the brokers of a phantom, a needless unknown only weakens the check. librdkafka keeps a
status (never sent, possibly stored) that Python does not see.
"""

from collections.abc import Mapping
from typing import Final

from jepsen_like.history.ops import ErrorCode, Outcome

NOT_QUEUED: Final = -1000
"""Ours: `produce()` itself raised, so that the message never was with librdkafka."""

_TRANSPORT, _MSG_TIMED_OUT, _TIMED_OUT, _PURGE_QUEUE, _PURGE_INFLIGHT = -195, -192, -185, -152, -151
_BY_THE_MESSAGE: Final[Mapping[int, ErrorCode]] = {
    10: ErrorCode.INVALID_REQUEST,  # MSG_SIZE_TOO_LARGE
    17: ErrorCode.INVALID_REQUEST,  # TOPIC_EXCEPTION: an invalid name
    21: ErrorCode.INVALID_REQUEST,  # INVALID_REQUIRED_ACKS
    32: ErrorCode.INVALID_REQUEST,  # INVALID_TIMESTAMP
    43: ErrorCode.INVALID_REQUEST,  # UNSUPPORTED_FOR_MESSAGE_FORMAT
    44: ErrorCode.INVALID_REQUEST,  # POLICY_VIOLATION
    76: ErrorCode.INVALID_REQUEST,  # UNSUPPORTED_COMPRESSION_TYPE
    87: ErrorCode.INVALID_REQUEST,  # INVALID_RECORD
}
"""Every attempt is refused alike, before anything is appended."""
_BY_THE_ATTEMPT: Final[Mapping[int, ErrorCode]] = {
    2: ErrorCode.PROTOCOL,  # INVALID_MSG: the checksum did not fit
    3: ErrorCode.NOT_LEADER,  # UNKNOWN_TOPIC_OR_PART
    5: ErrorCode.NOT_LEADER,  # LEADER_NOT_AVAILABLE
    6: ErrorCode.NOT_LEADER,  # NOT_LEADER_FOR_PARTITION
    18: ErrorCode.INVALID_REQUEST,  # RECORD_LIST_TOO_LARGE: of the batch, and a retry may be in another one
    19: ErrorCode.NOT_ENOUGH_REPLICAS,  # NOT_ENOUGH_REPLICAS: before it was appended
    29: ErrorCode.INVALID_REQUEST,  # TOPIC_AUTHORIZATION_FAILED
    74: ErrorCode.FENCED,  # FENCED_LEADER_EPOCH
    75: ErrorCode.NOT_LEADER,  # UNKNOWN_LEADER_EPOCH
    _PURGE_QUEUE: ErrorCode.OTHER,
}
"""The last attempt was refused before anything was appended, or never made."""
_UNKNOWN: Final[Mapping[int, ErrorCode]] = {
    _TRANSPORT: ErrorCode.CONNECTION_LOST,
    _MSG_TIMED_OUT: ErrorCode.TIMEOUT,
    _TIMED_OUT: ErrorCode.TIMEOUT,
    _PURGE_INFLIGHT: ErrorCode.UNKNOWN_OUTCOME,
    7: ErrorCode.TIMEOUT,  # REQUEST_TIMED_OUT: appended, and not replicated in time
    13: ErrorCode.CONNECTION_LOST,  # NETWORK_EXCEPTION
    20: ErrorCode.UNKNOWN_OUTCOME,  # NOT_ENOUGH_REPLICAS_AFTER_APPEND
}


def outcome_of(code: int, *, may_retry: bool) -> tuple[Outcome, ErrorCode]:
    """Returns the meaning of a report with this error (0: none); `may_retry`: the client may have sent it again."""
    if code == 0:
        return Outcome.OK, ErrorCode.NONE
    if code == NOT_QUEUED:
        return Outcome.FAIL, ErrorCode.BUSY
    if code in _BY_THE_MESSAGE:
        return Outcome.FAIL, _BY_THE_MESSAGE[code]
    if code in _BY_THE_ATTEMPT:
        return (Outcome.INFO if may_retry else Outcome.FAIL), _BY_THE_ATTEMPT[code]
    return Outcome.INFO, _UNKNOWN.get(code, ErrorCode.OTHER)


_REFUSED_COMMITS: Final = frozenset({-172, -168})
"""librdkafka's _STATE and _NO_OFFSET: nothing was sent."""
_FENCED_COMMITS: Final = frozenset({22, 25, 82})
"""ILLEGAL_GENERATION, UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID."""


def outcome_of_commit(code: int) -> tuple[Outcome, ErrorCode]:
    """Returns the meaning of the answer to a commit; 0 is no error."""
    outcome = Outcome.OK if code == 0 else Outcome.FAIL if code in _REFUSED_COMMITS else Outcome.INFO
    return outcome, ErrorCode.FENCED if code in _FENCED_COMMITS else outcome_of(code, may_retry=True)[1]
