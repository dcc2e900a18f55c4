"""What an error says about an operation: that it certainly did not happen, or that nobody knows.

`FAIL` only for an answer of the node that refuses this very request, or when no request can have left. Everything else
is `INFO`: a wrong `FAIL` would accuse the system of a phantom, a needless `INFO` only weakens the check.
"""

import trio

from jepsen_like.history.ops import ErrorCode, Outcome
from raft import errors
from raft.client import Unreachable

_OUTCOMES: dict[type[Exception], tuple[Outcome, ErrorCode]] = {
    errors.NotLeader: (Outcome.FAIL, ErrorCode.NOT_LEADER),
    errors.Busy: (Outcome.FAIL, ErrorCode.BUSY),
    errors.StorageFull: (Outcome.FAIL, ErrorCode.STORAGE_FULL),
    errors.InvalidRequest: (Outcome.FAIL, ErrorCode.INVALID_REQUEST),
    errors.ShuttingDown: (Outcome.FAIL, ErrorCode.SHUTTING_DOWN),
    errors.RecordsTrimmed: (Outcome.FAIL, ErrorCode.TRIMMED),
    Unreachable: (Outcome.FAIL, ErrorCode.CONNECTION_REFUSED),
    errors.OutcomeUnknown: (Outcome.INFO, ErrorCode.UNKNOWN_OUTCOME),
    errors.ProtocolError: (Outcome.INFO, ErrorCode.PROTOCOL),
    trio.TooSlowError: (Outcome.INFO, ErrorCode.TIMEOUT),
}


def outcome_of(error: Exception, *, connection_lost: bool = False) -> tuple[Outcome, ErrorCode]:
    """The outcome of an operation whose attempt ended with `error`; unknown for an error that is not known here."""
    outcome, code = _OUTCOMES.get(type(error), (Outcome.INFO, ErrorCode.OTHER))
    if connection_lost and code is ErrorCode.UNKNOWN_OUTCOME:
        return outcome, ErrorCode.CONNECTION_LOST
    return outcome, code
