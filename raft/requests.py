"""Requests that a driver takes from its callers, and the calls by which it answers them."""

from collections.abc import Iterable
from typing import Protocol

import crc32c

from log.values import frozen
from raft.errors import RaftError


class Caller(Protocol):
    """The maker of a request. One of these methods is called, once, for each request id; none may call `pump`."""

    def on_appended(self, request_id: int, base_offset: int, span: int, term: int) -> None:
        """The records are committed from `base_offset` on."""

    def on_applied(self, request_id: int, index: int, result: bytes) -> None:
        """The command is committed at `index` and was applied."""

    def on_readable(self, request_id: int) -> None:
        """A read may be served from the present state of the driver."""

    def on_refused(self, request_id: int, error: RaftError) -> None:
        """The request failed; unless `error.definite` it may have taken effect."""


@frozen
class Request:
    """An append or a command that waits to be proposed. `data` goes into the entry, `crc` is its CRC-32C if known."""

    caller: Caller
    request_id: int
    span: int
    data: bytes | memoryview
    crc: int | None = None

    def checksum(self) -> int:
        """Returns the CRC-32C of `data`."""
        return crc32c.crc32c(self.data) if self.crc is None else self.crc


def refuse(requests: Iterable[Request], error: RaftError) -> None:
    """Answer all requests with one error."""
    for request in requests:
        request.caller.on_refused(request.request_id, error)
