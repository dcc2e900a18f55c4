"""Clients of etcd by its gateway for JSON.

`FAIL` only for an answer that refuses this very request before it was proposed, or when no request can have left; all else is
`INFO`.
"""

from collections.abc import Mapping
from typing import Final

from jepsen_like.history.ops import ErrorCode, Outcome
from jepsen_like.port.wires import Address
from jepsen_like.systems.foreign.json_client import UNREACHABLE, ErrorAnswered, JsonConnection, Unreadable
from jepsen_like.workload.load import Ending, TryLater

TOO_MANY: Final = "too many requests"
"""etcd's word for a member that takes no proposal because too many wait."""


def ending_of(error: Exception, *, connection_lost: bool) -> Ending:
    """Returns the meaning of an operation's error."""
    match error:
        case ErrorAnswered(_, {"message": str(words)}) if TOO_MANY in words:
            return Ending(Outcome.FAIL, ErrorCode.BUSY, TryLater())
        case Unreadable():
            return Ending(Outcome.INFO, ErrorCode.PROTOCOL)
        case _:
            return Ending(Outcome.INFO, ErrorCode.CONNECTION_LOST if connection_lost else ErrorCode.UNKNOWN_OUTCOME)


class EtcdClients:
    """Connects the clients of a load."""

    errors: tuple[type[Exception], ...] = (*UNREACHABLE, ErrorAnswered)
    ending_of = staticmethod(ending_of)

    def __init__(self, addresses: Mapping[int, Address]) -> None:
        self.nodes = tuple(addresses)
        self._addresses = addresses

    async def connect(self, node: int, *, within_s: float) -> JsonConnection:
        """Returns a new connection. Raises one of `errors`."""
        return await JsonConnection.connect(self._addresses[node], within_s=within_s)
