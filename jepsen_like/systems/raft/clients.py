"""Connects clients of the raft system to its nodes, and interprets the errors of operations.

`FAIL` only for an answer that refuses this very request, or when no request can have left; all else is `INFO`.
"""

from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager
from typing import Final

from jepsen_like.history.ops import ErrorCode, Outcome
from jepsen_like.port.port import Access
from jepsen_like.port.wires import Address
from jepsen_like.systems.secret_of import secret_in
from jepsen_like.systems.tls_of import certificates_in
from jepsen_like.workload.load import Ending, Hint, LeftTheLog, NotTheLeader, TryLater
from raft import errors
from raft.client import Connection, Unreachable
from raft.net.certificates import Certificates

_OUTCOMES: Final[dict[type[Exception], tuple[Outcome, ErrorCode]]] = {
    errors.NotLeader: (Outcome.FAIL, ErrorCode.NOT_LEADER),
    errors.Busy: (Outcome.FAIL, ErrorCode.BUSY),
    errors.StorageFull: (Outcome.FAIL, ErrorCode.STORAGE_FULL),
    errors.InvalidRequest: (Outcome.FAIL, ErrorCode.INVALID_REQUEST),
    errors.ShuttingDown: (Outcome.FAIL, ErrorCode.SHUTTING_DOWN),
    errors.RecordsTrimmed: (Outcome.FAIL, ErrorCode.TRIMMED),
    Unreachable: (Outcome.FAIL, ErrorCode.CONNECTION_REFUSED),
    errors.NotAdmitted: (Outcome.FAIL, ErrorCode.CONNECTION_REFUSED),
    errors.NotAllowed: (Outcome.FAIL, ErrorCode.CONNECTION_REFUSED),
    errors.OutcomeUnknown: (Outcome.INFO, ErrorCode.UNKNOWN_OUTCOME),
    errors.ProtocolError: (Outcome.INFO, ErrorCode.PROTOCOL),
}

OPEN_WITHIN_S: Final = 5.0


def ending_of(error: Exception, *, connection_lost: bool = False) -> Ending:
    """Returns the meaning of the error that ended an attempt; an unknown outcome for an error not known here."""
    outcome, code = _OUTCOMES.get(type(error), (Outcome.INFO, ErrorCode.OTHER))
    if connection_lost and code is ErrorCode.UNKNOWN_OUTCOME:
        code = ErrorCode.CONNECTION_LOST
    return Ending(outcome, code, _hint(error))


def _hint(error: Exception) -> Hint | None:
    match error:
        case errors.NotLeader():
            return NotTheLeader(error.leader)
        case errors.Busy():
            return TryLater()
        case errors.RecordsTrimmed():
            return LeftTheLog(error.start_offset)
        case _:
            return None


class RaftClients:
    """Connections of the native protocol."""

    errors: tuple[type[Exception], ...] = (errors.RaftError,)

    def __init__(self, addresses: Mapping[int, Address], access: Access, *, tls: Certificates | None = None) -> None:
        """`tls` is for nodes whose files are not those of `access`."""
        self.nodes = tuple(addresses)
        self._addresses = addresses
        self._cluster_id, self._secret = access.cluster_id, secret_in(access.secret)
        self._tls = tls or certificates_in(access.tls)

    async def connect(self, node: int, *, within_s: float) -> Connection:
        """A new connection. Raises `RaftError`."""
        host, port = self._addresses[node]
        return await Connection.connect(
            host, port, self._cluster_id, timeout_s=within_s, secret=self._secret, tls=self._tls
        )

    def open(self, node: int) -> AbstractAsyncContextManager[Connection]:
        """A connection for the time of a block. Entering it raises `RaftError`."""
        return self.open_at(self._addresses[node], within_s=OPEN_WITHIN_S)

    def open_at(self, address: Address, *, within_s: float) -> AbstractAsyncContextManager[Connection]:
        """Like `open`, to any address of a node."""
        return Connection.open(*address, self._cluster_id, timeout_s=within_s, secret=self._secret, tls=self._tls)

    def ending_of(self, error: Exception, *, connection_lost: bool) -> Ending:
        """Returns the meaning of an operation's error."""
        return ending_of(error, connection_lost=connection_lost)
