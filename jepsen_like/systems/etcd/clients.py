"""Clients of etcd by its gateway for JSON.

`FAIL` only for an answer that refuses this very request before it was proposed, or when no request can have left; all else is
`INFO`.
"""

from typing import Final

from jepsen_like.history.ops import ErrorCode, Outcome
from jepsen_like.systems.foreign.json_client import UNREACHABLE, ErrorAnswered, Unreadable
from jepsen_like.workload.load import Ending, TryLater

TOO_MANY: Final = "too many requests"
"""etcd's word for a member that takes no proposal because too many wait."""


ERRORS: Final = (*UNREACHABLE, ErrorAnswered)


def ending_of(error: Exception, *, connection_lost: bool) -> Ending:
    """Returns the meaning of an operation's error."""
    match error:
        case ErrorAnswered(_, {"message": str(words)}) if TOO_MANY in words:
            return Ending(Outcome.FAIL, ErrorCode.BUSY, TryLater())
        case Unreadable():
            return Ending(Outcome.INFO, ErrorCode.PROTOCOL)
        case _:
            return Ending(Outcome.INFO, ErrorCode.CONNECTION_LOST if connection_lost else ErrorCode.UNKNOWN_OUTCOME)
